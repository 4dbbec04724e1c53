"""Decisions of a net that points at a candidate, in NumPy: the same numbers as ``candidates/net.py``.

The last choice waits. Where nothing is drawn, the policy waits if that is more likely than all starts
together, and else takes the likeliest start: many starts that are equally good share their probability, and
the wait would win against each of them alone. A net that learned what choices are worth takes the best one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from weft.policies.candidates.architecture import CandidateArchitecture, Q
from weft.policies.checkpoint import Card, Floats32, check_weights
from weft.policies.mlp.forward import Bools, Ints, Narrow, gumbel, relu
from weft.policies.products import product
from weft.policies.tensors import Array

_NEVER = np.float32(-np.inf)


class _Encoded(NamedTuple):
    """M candidates of B observations."""

    place: tuple[Ints, Ints]  # (M,) observation and number of every candidate
    rows: Floats32  # (M, C)
    hidden: Floats32  # (M, h)
    mean: Floats32  # (B, h)
    world: Floats32  # (B, W)


class CandidatePolicy:
    """A net that points at one of any number of candidates."""

    def __init__(
        self, weights: Mapping[str, Array], architecture: CandidateArchitecture, card: Card | None = None
    ) -> None:
        self.architecture = architecture
        self.card = card
        self._weights = known = check_weights(weights, architecture)
        self._turned = {name: np.ascontiguousarray(a.T) for name, a in known.items() if a.ndim == 2}

    def decide(
        self, observation: Floats32, mask: Bools, rng: np.random.Generator | None = None
    ) -> int:  # of a mask (K,)
        """The best allowed candidate, or a draw if ``rng`` is given."""
        return int(self.decide_batch(observation[None], mask[None, None], rng)[0, 0])

    def decide_batch(
        self,
        observation: Floats32,  # (B, F)
        mask: Bools,  # (B, 1, K)
        rng: np.random.Generator | None = None,
        narrow: Narrow | None = None,
    ) -> Ints:  # (B, 1)
        """A candidate for each of many observations; ``mask`` is left as it is."""
        scores = np.where(mask, self.logits(observation), _NEVER)
        if rng is not None:
            return (scores + gumbel(rng, mask.shape)).argmax(axis=2)
        if self.architecture.head == Q:
            return scores.argmax(axis=2)
        starts, wait = scores[..., :-1], scores[..., -1]
        best = starts.argmax(axis=2)
        most = starts.max(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            total = most + np.log(np.exp(starts - most[..., None]).sum(axis=2))
        return np.where((most == _NEVER) | (wait > total), mask.shape[2] - 1, best)

    def logits(self, observation: Floats32) -> Floats32:
        """Scores (B, 1, K) before the mask, 0 where there is no candidate: logits of a policy."""
        return self._scores(self._encode(observation), self._num_choices(observation))

    def q_values(self, observation: Floats32, mask: Bools) -> Floats32:
        """What choices (B, 1, K) are worth to a net that learned that; minus infinity where the mask forbids them."""
        known, w, t = self._encode(observation), self._weights, self._turned
        scores = self._scores(known, self._num_choices(observation))
        mean = (scores * mask).sum(axis=2, keepdims=True) / np.maximum(mask.sum(axis=2, keepdims=True), 1)
        hidden = product(known.world, t["value_world_weight"]) + w["value_bias"]
        hidden += product(known.mean, t["value_mean_weight"])
        value = product(relu(hidden, hidden), t["value_out"]) + w["value_out_bias"]
        return np.where(mask, value[:, None] + scores - mean.astype(np.float32), _NEVER)

    def _encode(self, observation: Floats32) -> _Encoded:
        w, t = self._weights, self._turned
        world, rows = self.architecture.parts(observation)
        place = np.nonzero(rows[..., :2].max(axis=-1) > 0)
        found = rows[place]
        by_world = product(world, t["encode_world_weight"]) + w["encode_bias"]
        hidden = relu(product(found, t["encode_weight"]) + by_world[place[0]])
        total = np.zeros((len(world), hidden.shape[1]), np.float32)
        np.add.at(total, place[0], hidden)
        count = np.bincount(place[0], minlength=len(world))
        mean = total / np.maximum(count, 1).astype(np.float32)[:, None]
        return _Encoded((place[0], place[1]), found, hidden, mean, world)

    def _scores(self, known: _Encoded, num_choices: int) -> Floats32:
        w, t, place = self._weights, self._turned, known.place
        mixed = product(known.hidden, t["mix_weight"]) + w["mix_bias"]
        mixed += product(known.mean, t["mix_mean_weight"])[place[0]]
        scores = product(relu(mixed, mixed), t["score_out"]) + product(known.rows, t["score_direct"])
        found = np.zeros((len(known.world), num_choices), np.float32)
        found[place] = scores[:, 0]
        return found[:, None]

    def _num_choices(self, observation: Floats32) -> int:
        return (observation.shape[1] - self.architecture.world) // self.architecture.column
