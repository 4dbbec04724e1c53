"""Decisions of a graph net in NumPy: the same numbers as :class:`weft.policies.graph.net.GraphNet`.

The number of devices and kinds follows from the mask, so one policy acts on any problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from weft.policies.checkpoint import Card, Floats32, check_weights
from weft.policies.graph.architecture import DRAINED, Blocks, GraphArchitecture
from weft.policies.mlp.forward import Bools, Ints, MlpPolicy, Narrow, gumbel, relu
from weft.policies.products import product, stacked_product
from weft.policies.tensors import Array

_NEVER = np.float32(-np.inf)


class _Encoded(NamedTuple):
    """What is known before the first device chooses."""

    pairs: Floats32  # (B, D, K, h) before the activation
    idle: Floats32  # (B, D, h) before the activation
    queue: Floats32  # (B, K) lengths
    batch: Floats32  # (B, D)
    can_run: Floats32  # (B, D, K)


class GraphPolicy:
    """A graph net that decides."""

    def __init__(
        self, weights: Mapping[str, Array], architecture: GraphArchitecture, card: Card | None = None
    ) -> None:
        self.architecture = architecture
        self.card = card
        self._weights = known = check_weights(weights, architecture)
        self._turned = {
            name: np.ascontiguousarray(array.T) for name, array in known.items() if array.ndim == 2
        }

    def decide(
        self, observation: Floats32, mask: Bools, rng: np.random.Generator | None = None
    ) -> Ints:  # (D,)
        """One choice per device: the best allowed one, or a draw if ``rng`` is given."""
        return self.decide_batch(observation[None], mask[None], rng)[0]

    def decide_batch(
        self,
        observation: Floats32,  # (B, F)
        mask: Bools,  # (B, D, K + 1)
        rng: np.random.Generator | None = None,
        narrow: Narrow | None = None,
    ) -> Ints:  # (B, D)
        """Choices for many observations of one problem; ``mask`` is left as it is."""
        known = self._encode(observation, mask.shape[2] - 1, mask.shape[1])
        allowed = mask.copy() if narrow is not None else mask
        actions = np.full(mask.shape[:2], mask.shape[2] - 1, np.int64)
        left = known.queue.copy()
        for p in np.flatnonzero(mask[:, :, :-1].any(axis=(0, 2))).tolist():
            scores = self._scores(known, left, p)
            if rng is not None:
                scores += gumbel(rng, scores.shape)
            actions[:, p] = np.where(allowed[:, p], scores, _NEVER).argmax(axis=1)
            _take(left, actions[:, p], known.batch[:, p])
            if narrow is not None:
                narrow(allowed, p, actions[:, p])
        return actions

    def logits(self, observation: Floats32, actions: Ints, num_kinds: int) -> Floats32:
        """Logits (B, D, K + 1) before the mask, given the choices (B, D)."""
        known = self._encode(observation, num_kinds, actions.shape[1])
        left, parts = known.queue.copy(), []
        for p in range(actions.shape[1]):
            parts.append(self._scores(known, left, p))
            _take(left, actions[:, p], known.batch[:, p])
        return np.stack(parts, axis=1)

    def _encode(self, observation: Floats32, num_kinds: int, num_devices: int) -> _Encoded:
        blocks = self.architecture.blocks(observation, num_kinds, num_devices)
        kinds, devices, world = self._embed(blocks)
        w, t = self._weights, self._turned
        pairs = product(blocks.pairs, t["pair_weight"])
        pairs += product(kinds, t["pair_kind_weight"])[:, None]
        pairs += product(devices, t["pair_device_weight"])[:, :, None]
        pairs += (product(world, t["pair_world_weight"]) + w["pair_bias"])[:, None, None]
        idle = product(devices, t["idle_device_weight"])
        idle += (product(world, t["idle_world_weight"]) + w["idle_bias"])[:, None]
        return _Encoded(pairs, idle, blocks.kinds[..., 0], blocks.devices[..., 0], blocks.pairs[..., 0])

    def _embed(self, blocks: Blocks) -> tuple[Floats32, Floats32, Floats32]:
        """Embeddings of kinds (B, K, h), devices (B, D, h) and the world (B, h)."""
        w, t = self._weights, self._turned
        is_kind, is_device = blocks.kinds[..., 1:2], (blocks.devices[..., :1] > 0).astype(np.float32)
        kinds = self._layer("kind", _first_log(blocks.kinds)) * is_kind
        back = np.ascontiguousarray(blocks.edges.transpose(0, 2, 1))
        for r in range(self.architecture.rounds):
            messages = product(kinds, t[f"own_weight_{r}"]) + w[f"round_bias_{r}"]
            messages += product(stacked_product(blocks.edges, kinds), t[f"after_weight_{r}"])
            messages += product(stacked_product(back, kinds), t[f"before_weight_{r}"])
            kinds = kinds + relu(messages) * is_kind
        devices = self._layer("device", _first_log(blocks.devices)) * is_device
        mean = kinds.sum(axis=1) / is_kind.sum(axis=1)
        parts = [blocks.world, mean, kinds.max(axis=1), devices.sum(axis=1) / is_device.sum(axis=1)]
        return kinds, devices, self._layer("world", np.concatenate(parts, axis=1))

    def _scores(self, known: _Encoded, left: Floats32, p: int) -> Floats32:
        """Logits (B, K + 1) of device p, given what is left of the queues (B, K)."""
        w, t = self._weights, self._turned
        batch, can_run = known.batch[:, p, None], known.can_run[:, p]
        fill = np.minimum(left, batch) / np.maximum(batch, np.float32(1.0))
        seen = np.stack([fill, np.log1p(left), left > batch], axis=2).astype(np.float32)
        hidden = relu(known.pairs[:, p] + product(seen, t["pair_left_weight"]))
        rest = (left * can_run).sum(axis=1)
        parts = [(fill * can_run).max(axis=1), np.log1p(rest), rest > 0]
        summary = np.stack(parts, axis=1).astype(np.float32)
        idle = relu(known.idle[:, p] + product(summary, t["idle_left_weight"]))
        scores = np.empty((len(left), left.shape[1] + 1), np.float32)
        scores[:, :-1] = np.where(left <= 0, np.float32(DRAINED), product(hidden, t["pair_out"])[..., 0])
        scores[:, -1] = product(idle, t["idle_out"])[:, 0] + w["idle_out_bias"][0]
        return scores

    def _layer(self, name: str, inputs: Floats32) -> Floats32:
        outputs = product(inputs, self._turned[f"{name}_weight"])
        outputs += self._weights[f"{name}_bias"]
        return relu(outputs, outputs)


def policy_of(weights: Mapping[str, Array], card: Card) -> MlpPolicy | GraphPolicy:
    """The policy that a card describes."""
    if isinstance(card.architecture, GraphArchitecture):
        return GraphPolicy(weights, card.architecture, card)
    return MlpPolicy(weights, card.perceptron, card)


def _first_log(values: Floats32) -> Floats32:
    """The first column as log(1 + x)."""
    return np.concatenate([np.log1p(values[..., :1]), values[..., 1:]], axis=-1)


def _take(left: Floats32, actions: Ints, batch: Floats32) -> None:
    """Take a batch of the chosen kinds (B,) out of what is left (B, K), in place."""
    rows = np.flatnonzero(actions < left.shape[1])
    kinds = actions[rows]
    left[rows, kinds] = np.maximum(left[rows, kinds] - batch[rows], np.float32(0.0))
