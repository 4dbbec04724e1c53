"""Random numbers of learners in NumPy: many sequences side by side, each with one word of state."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.policies.tensors import Array
from weft.training.environment import Floats

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Draws:
    """Sequences of splitmix64: what one of them gives depends on its seed, its number and how often it was asked.

    They are numbered from ``first`` on.
    """

    def __init__(self, name: str, count: int, *key: int, first: int = 0) -> None:
        self._name = name
        numbers = range(first, first + count)
        words = [np.random.SeedSequence([*key, k]).generate_state(1, np.uint64)[0] for k in numbers]
        self._state = np.array(words, np.uint64)  # (count,)

    def uniform(self) -> Floats:
        """The next number in [0, 1) of every sequence: (count,)."""
        self._state += _GOLDEN  # arrays of whole numbers wrap around in silence
        z = self._state
        z = (z ^ (z >> np.uint64(30))) * _FIRST
        z = (z ^ (z >> np.uint64(27))) * _SECOND
        z = z ^ (z >> np.uint64(31))
        return np.asarray((z >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def state(self) -> dict[str, Array]:
        """What a resumed run needs."""
        return {self._name: self._state.copy()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._state[:] = state[self._name].astype(np.uint64)
