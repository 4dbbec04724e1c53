"""Decisions of a net for edge clusters, in NumPy: the same numbers as ``han/net.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.policies.checkpoint import Card, Floats32, check_weights
from weft.policies.han.architecture import (
    CENTRAL,
    FIFO,
    JOINT,
    MLP,
    MLP_LAYERS,
    MODES,
    PENALTY,
    POINTER,
    HanArchitecture,
)
from weft.policies.mlp.forward import Bools, Ints, gumbel, relu
from weft.policies.products import product
from weft.policies.tensors import Array

if TYPE_CHECKING:
    from weft.sim.elastic.observation import ElasticSight as Sight

Kind = TypeVar("Kind", np.float32, np.int64)

_NEVER = np.float32(-1e9)
_SLOPE = np.float32(0.2)
_EPSILON = np.float32(1e-5)


class Known(NamedTuple):
    """What the encoder makes of B systems."""

    clusters: Floats32  # (B, N, h)
    slots: Floats32  # (B, N, P, h)
    mean: Floats32  # (B, N, h)
    shared: Floats32  # (B, h)
    row: Ints  # (B, N, P) row of waiting, 0 where empty
    can: Bools  # (B, N, P) whether a slot may be picked


class Choice(NamedTuple):
    """What the agents of B systems do."""

    slot: Ints  # (B, N), -1: nothing
    units: Ints  # (B, N, R)
    chance: np.ndarray  # (B, N) probability of the slot


class Laws(NamedTuple):
    """Log-probabilities of units for one task of every cluster."""

    void: Floats32  # (B, N)
    placed: Floats32  # (B, N)
    levels: list[Floats32]  # per resource (B, N, G + 1), or one of all combinations


class HanPolicy:
    """A net that picks a waiting task for every cluster and gives it units."""

    def __init__(
        self, weights: Mapping[str, Array], architecture: HanArchitecture, card: Card | None = None
    ) -> None:
        self.architecture, self.card = architecture, card
        self._weights = known = check_weights(weights, architecture)
        self._turned = {name: np.ascontiguousarray(a.T) for name, a in known.items() if a.ndim == 2}

    def decide(self, sight: Sight, mode: str, rngs: Sequence[np.random.Generator]) -> Choice:
        """A task and its units for every agent, drawn or the likeliest as the mode says; void where nothing fits.

        Every environment draws from a generator of its own.
        """
        if mode not in MODES:
            raise InputError(f"expected one of {', '.join(MODES)}, got {mode!r:.60}", field="mode")
        known = self.encode(sight)
        log_probs = self.pointer(sight, known)
        scores = log_probs if mode == "greedy" else log_probs + _noise(rngs, log_probs)
        slot = scores.argmax(-1)
        laws = self.laws(sight, known, slot)
        units = self._drawn(laws, rngs) if mode == "sampled" else self._likeliest(laws)
        chance = np.exp(np.take_along_axis(log_probs, slot[..., None], 2)[..., 0].astype(np.float64))
        row = np.maximum(np.take_along_axis(sight.slot, slot[..., None], 2), 0)
        least, top = (np.take_along_axis(one, row, 1) for one in (sight.least, sight.top))
        fits = ((units >= least) & (units <= np.minimum(sight.most, top))).all(2)
        acts = units.any(2) & sight.active & fits
        return Choice(np.where(acts, slot, -1), units * acts[..., None], chance)

    def encode(self, sight: Sight) -> Known:
        """Embeddings of clusters and of the tasks in their slots."""
        used = max(1, int(sight.slot.max(initial=-1)) + 1)
        waiting, least = sight.waiting[:, :used], sight.least[:, :used]
        row, real = np.maximum(sight.slot, 0), sight.slot >= 0
        can = real.copy()
        if self.architecture.masks != PENALTY:
            can &= (_rows(least, row) <= sight.most[:, :, None]).all(-1)
        if self.architecture.encoder == MLP:
            clusters, slots = self._perceptron(sight, row)
            shared = clusters.mean(1)
        else:
            clusters, tasks, shared = self._graph(sight, waiting)
            slots = _rows(tasks, row)
        for layer in range(self.architecture.transformer):
            slots = self._attend(layer, slots, real)
        count = np.maximum(real.sum(2, keepdims=True), 1).astype(np.float32)
        mean = (slots * real[..., None]).sum(2) / count
        return Known(clusters, slots, mean, shared, row, can)

    def _perceptron(self, sight: Sight, row: Ints) -> tuple[Floats32, Floats32]:
        exists = sight.running[..., -1:]
        running = (sight.running * exists).sum(2) / np.maximum(exists.sum(2), 1.0)
        here = np.concatenate([sight.cluster, running], -1).astype(np.float32)
        clusters = relu(self._linear("cluster_in", here))
        beside = np.broadcast_to(here[:, :, None], (*row.shape, here.shape[-1]))
        slots = np.concatenate([_rows(sight.waiting, row), beside], -1)
        for layer in range(MLP_LAYERS):
            slots = relu(self._linear(f"mlp{layer}", slots))
        return clusters, slots

    def _graph(self, sight: Sight, waiting: Floats32) -> tuple[Floats32, Floats32, Floats32]:
        x = {
            "cluster": relu(self._linear("cluster_in", sight.cluster)),
            "waiting": relu(self._linear("waiting_in", waiting)),
            "running": relu(self._linear("running_in", sight.running)),
        }
        shortcut = self._weights["shortcut_in"]
        x["shortcut"] = np.broadcast_to(shortcut, (len(waiting), 1, len(shortcut)))
        member = _members(sight.slot, waiting.shape[1])
        exists = sight.running[..., -1] > 0
        for layer in range(self.architecture.layers):
            x = self._layer(layer, x, member, exists)
        return x["cluster"], x["waiting"], x["shortcut"][:, 0]

    def _layer(self, layer: int, x: dict[str, Floats32], member: Bools, exists: Bools) -> dict[str, Floats32]:
        p = {node: self._linear(f"l{layer}_{node}", value) for node, value in x.items()}
        count, size = p["running"].shape[2:]
        taken = self._relation(
            f"l{layer}_running_cluster",
            p["running"].reshape(-1, count, size),
            p["cluster"].reshape(-1, 1, size),
            exists.reshape(-1, 1, count),
        ).reshape(p["cluster"].shape)
        all_of = np.ones((len(member), 1, member.shape[1]), bool)
        sent = self._relation(f"l{layer}_waiting_cluster", p["waiting"], p["cluster"], member)
        back = self._relation(
            f"l{layer}_cluster_waiting", p["cluster"], p["waiting"], member.transpose(0, 2, 1)
        )
        gathered = self._relation(f"l{layer}_cluster_shortcut", p["cluster"], p["shortcut"], all_of)
        shortcut = np.broadcast_to(p["shortcut"], p["cluster"].shape)
        above = np.broadcast_to(p["cluster"][:, :, None], p["running"].shape)
        messages: dict[str, list[tuple[Floats32, Any]]] = {
            "cluster": [(sent, member.any(2)), (taken, exists.any(2)), (shortcut, None)],
            "waiting": [(back, member.any(1))],
            "running": [(above, None)],
            "shortcut": [(gathered, None)],
        }
        renewed = {
            node: self._mixed(f"l{layer}_{node}", x[node], p[node], messages[node])
            for node in self.architecture.nodes_of(layer)
        }
        return {**x, **renewed}

    def _relation(self, name: str, source: Floats32, target: Floats32, mask: Bools) -> Floats32:
        """What sources (B, S, h) send to targets (B, D, h) along a mask (B, D, S)."""
        heads, w = self.architecture.heads, self._weights
        split = (*source.shape[:2], heads, -1)
        sends = (source * w[f"{name}_from"]).reshape(split).sum(-1).transpose(0, 2, 1)
        takes = (target * w[f"{name}_to"]).reshape(*target.shape[:2], heads, -1).sum(-1).transpose(0, 2, 1)
        scores = takes[..., None] + sends[:, :, None]
        scores = np.where(scores > 0, scores, scores * _SLOPE)
        sent_any = np.asarray(mask.any(-1))[:, None, :, None]
        weights = _softmax(np.where(mask[:, None], scores, _NEVER), -1) * sent_any
        sent = weights @ source.reshape(split).transpose(0, 2, 1, 3)
        return sent.transpose(0, 2, 1, 3).reshape(target.shape)

    def _mixed(self, name: str, x: Floats32, own: Floats32, messages: list[tuple[Floats32, Any]]) -> Floats32:
        parts = relu(np.stack([own, *(message for message, _ in messages)]))
        scores = np.tanh(self._linear(f"{name}_mix", parts)) @ self._weights[f"{name}_mix_query"]
        for score, (_, present) in zip(scores[1:], messages, strict=True):
            if present is not None:
                score[~present] = _NEVER
        mixed = (_softmax(scores, 0)[..., None] * parts).sum(0)
        return self._norm(f"{name}_norm", x + mixed)

    def _attend(self, layer: int, slots: Floats32, real: Bools) -> Floats32:
        heads, shape = self.architecture.heads, slots.shape
        flat = slots.reshape(-1, *shape[2:])
        parts = self._linear(f"t{layer}_qkv", flat).reshape(*flat.shape[:2], 3, heads, -1)
        query, key, value = parts.transpose(2, 0, 3, 1, 4)
        seen = (real | ~real.any(2, keepdims=True)).reshape(len(flat), 1, 1, -1)
        scores = query @ key.swapaxes(-1, -2) * np.float32(query.shape[-1] ** -0.5)
        found = _softmax(np.where(seen, scores, -np.inf), -1).astype(np.float32) @ value
        found = self._linear(f"t{layer}_out", found.transpose(0, 2, 1, 3).reshape(flat.shape))
        flat = self._norm(f"t{layer}_norm", flat + found)
        wide = self._linear(f"t{layer}_narrow", relu(self._linear(f"t{layer}_wide", flat)))
        return self._norm(f"t{layer}_last_norm", flat + wide).reshape(shape)

    def pointer(self, sight: Sight, known: Known) -> Floats32:
        """Log-probabilities (B, N, P) of slots."""
        kind, w, t = self.architecture.pointer, self._weights, self._turned
        if kind == POINTER:
            query = product(known.mean, t["pointer_mean_weight"]) + w["pointer_bias"]
            query += product(known.clusters, t["pointer_cluster_weight"])
            hidden = np.tanh(product(known.slots, t["pointer_slot_weight"]) + query[:, :, None])
            scores = product(hidden, t["pointer_out"])[..., 0]
        elif kind == FIFO:
            waited = _rows(sight.waiting[..., -3:-2], known.row)[..., 0]
            best = np.where(known.can, waited, np.float32(-1.0)).argmax(-1)
            scores = np.where(np.arange(known.can.shape[2]) == best[..., None], np.float32(0.0), _NEVER)
        else:
            scores = np.zeros(known.can.shape, np.float32)
        return _log_softmax(np.where(known.can, scores, _NEVER))

    def unit_scores(self, sight: Sight, known: Known, slot: Ints) -> Floats32:
        """Scores (B, N, levels) of units for the tasks in these slots (B, N)."""
        w, t = self._weights, self._turned
        row = np.take_along_axis(known.row, slot[..., None], 2)
        task = _rows(sight.waiting, row)[:, :, 0]
        embedded = np.take_along_axis(known.slots, slot[..., None, None], 2)[:, :, 0]
        hidden = product(embedded, t["units_slot_weight"]) + w["units_bias"]
        hidden += product(known.clusters, t["units_cluster_weight"])
        hidden += product(task, t["units_task_weight"])
        hidden += product(sight.cluster, t["units_free_weight"])
        return self._linear("units_out", relu(hidden)) + product(task, t["units_direct"])

    def values(self, known: Known) -> Floats32:
        """What the future is worth to every agent (B, N)."""
        w, t = self._weights, self._turned
        clusters, mean = known.clusters, known.mean
        if self.architecture.critic == CENTRAL:
            clusters, mean = (
                np.broadcast_to(one.mean(1, keepdims=True), one.shape) for one in (clusters, mean)
            )
        hidden = product(np.ascontiguousarray(clusters), t["value_cluster_weight"]) + w["value_bias"]
        hidden += product(np.ascontiguousarray(mean), t["value_mean_weight"])
        hidden += product(known.shared, t["value_shared_weight"])[:, None]
        return self._linear("value_out", relu(hidden))[..., 0]

    def laws(self, sight: Sight, known: Known, slot: Ints) -> Laws:
        """The law of units for the tasks in these slots: void, or within the box of what fits."""
        architecture, scores = self.architecture, self.unit_scores(sight, known, slot)
        row = np.take_along_axis(known.row, slot[..., None], 2)
        least = np.take_along_axis(sight.least, row, 1)
        most = np.minimum(np.take_along_axis(sight.top, row, 1), sight.most)
        boxes = []
        for r, size in enumerate(architecture.most):
            number = np.arange(size + 1)
            inside = (number >= least[..., r, None]) & (number <= most[..., r, None])
            boxes.append(inside | (architecture.masks == PENALTY))
        if architecture.units == JOINT:
            inside = boxes[0]
            for box in boxes[1:]:
                inside = (inside[..., None] & box[..., None, :]).reshape(*inside.shape[:2], -1)
            inside[..., 0] = False
            parts, boxes = [scores], [inside]
        else:
            ends = np.cumsum([size + 1 for size in architecture.most])[:-1]
            parts = np.split(scores[..., 1:], ends, -1)
        masked = [np.where(box, part, _NEVER) for part, box in zip(parts, boxes, strict=True)]
        totals = [_logsumexp(part) for part in masked]
        fits = np.all([box.any(-1) for box in boxes], axis=0)
        total = np.where(fits, np.sum(totals, axis=0), _NEVER)
        both = _log_softmax(np.stack([scores[..., 0], total], -1))
        levels = [part - one[..., None] for part, one in zip(masked, totals, strict=True)]
        return Laws(both[..., 0], both[..., 1], levels)

    def _likeliest(self, laws: Laws) -> Ints:
        """The likeliest units (B, N, R); void only if it is likelier than all else together."""
        best = [level.argmax(-1) for level in laws.levels]
        return self._units(best) * (laws.placed > laws.void)[..., None]

    def _drawn(self, laws: Laws, rngs: Sequence[np.random.Generator]) -> Ints:
        drawn = np.stack([rng.random(laws.void.shape[1:]) for rng in rngs])
        is_placed = drawn < np.exp(laws.placed)
        best = [(level + _noise(rngs, level)).argmax(-1) for level in laws.levels]
        return self._units(best) * is_placed[..., None]

    def _units(self, best: list[Ints]) -> Ints:
        if self.architecture.units == JOINT:
            return np.stack(np.unravel_index(best[0], [m + 1 for m in self.architecture.most]), -1)
        return np.stack(best, -1)

    def _linear(self, name: str, x: Floats32) -> Floats32:
        return (
            product(np.ascontiguousarray(x), self._turned[f"{name}_weight"]) + self._weights[f"{name}_bias"]
        )

    def _norm(self, name: str, x: Floats32) -> Floats32:
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt(np.square(centred).mean(-1, keepdims=True) + _EPSILON)
        return centred / deviation * self._weights[f"{name}_scale"] + self._weights[f"{name}_shift"]


def _noise(rngs: Sequence[np.random.Generator], like: Floats32) -> Floats32:
    """Noise that makes the greatest sum a draw, for every environment from its own generator."""
    return np.stack([gumbel(rng, like.shape[1:]) for rng in rngs])


def _softmax(scores: Floats32, axis: int) -> Floats32:
    raised = np.exp(scores - scores.max(axis, keepdims=True))
    return np.asarray(raised / raised.sum(axis, keepdims=True))


def _logsumexp(scores: Floats32) -> Floats32:
    most = scores.max(-1, keepdims=True)
    return np.asarray(np.log(np.exp(scores - most).sum(-1)) + most[..., 0])


def _log_softmax(scores: Floats32) -> Floats32:
    return np.asarray(scores - _logsumexp(scores)[..., None])


def _members(slot: Ints, count: int) -> Bools:
    """Whether a waiting task is in a slot of a cluster (B, N, M)."""
    found = np.zeros((*slot.shape[:2], count + 1), bool)
    np.put_along_axis(found, np.where(slot < 0, count, slot), True, 2)
    return found[..., :count]


def _rows(table: npt.NDArray[Kind], row: Ints) -> npt.NDArray[Kind]:
    """Rows (B, N, P, F) of a table (B, M, F)."""
    flat = np.take_along_axis(table, row.reshape(len(row), -1, 1), 1)
    return np.ascontiguousarray(flat.reshape(*row.shape, table.shape[-1]))
