"""Decisions of a net that points at a candidate, in NumPy: the same numbers as ``candidates/net.py``.

The last choice waits. Where nothing is drawn, the policy waits if that is more likely than all starts
together, and else takes the likeliest start: many starts that are equally good share their probability, and
the wait would win against each of them alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.checkpoint import Card, Floats32, check_weights
from weft.policies.mlp.forward import Bools, Ints, Narrow, gumbel, relu
from weft.policies.products import product
from weft.policies.tensors import Array

_NEVER = np.float32(-np.inf)


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
        starts, wait = scores[..., :-1], scores[..., -1]
        best = starts.argmax(axis=2)
        most = starts.max(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            total = most + np.log(np.exp(starts - most[..., None]).sum(axis=2))
        return np.where((most == _NEVER) | (wait > total), mask.shape[2] - 1, best)

    def logits(self, observation: Floats32) -> Floats32:
        """Logits (B, 1, K) before the mask, 0 where there is no candidate."""
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
        mixed = product(hidden, t["mix_weight"]) + w["mix_bias"]
        mixed += product(mean, t["mix_mean_weight"])[place[0]]
        scores = product(relu(mixed, mixed), t["score_out"]) + product(found, t["score_direct"])
        logits = np.zeros(rows.shape[:2], np.float32)
        logits[place] = scores[:, 0]
        return logits[:, None]
