"""The encoder as NumPy computes it: scores of all tasks of a graph in one pass, without torch.

Relations that join few pairs are lists and go through a kernel; the others are tables within blocks of
tasks and go through matrix products. Above ``DENSE_LIMIT`` tasks, levels of the graph are pooled into
tokens that stand for their tasks, and only direct edges stay exact.

No product is shared between threads (:mod:`weft.policies.products`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.graph import Floats, Ints
from weft.policies.checkpoint import Floats32, check_weights
from weft.policies.oneshot.attention_layout import Lists, Patch, attention_of
from weft.policies.oneshot.encoder_shape import PER_LIST, EncoderShape
from weft.policies.oneshot.features import TaskView
from weft.policies.products import FEW_ROWS, MOST_PRODUCTS, product
from weft.policies.tensors import Array
from weft.sim.relations import attend

MOST_CELLS = 2**17
"""So many scores are held at a time: they stay in the cache of a processor."""
SAFE_SCORE = 60.0
"""Sums of exponentials of scores up to this are finite: the greatest need not be taken off."""
EPSILON = 1e-5
_GELU = (0.7978845608028654, 0.044715)


class TaskScores(NamedTuple):
    """What the net says of one problem."""

    logit: Floats  # (num_lists, num_tasks)
    hold: Floats  # (num_lists, num_tasks)
    bias: Floats  # (num_tasks, num_classes) in units of the view's scale


def one_hot(view: TaskView, num_types: int) -> Floats:
    """The resource of every task as columns."""
    if num_types and int(view.resource.max(initial=0)) >= num_types:
        raise InputError(
            f"these weights tell {num_types} resources apart, the problem has {int(view.resource.max()) + 1}",
            field="scheduler",
        )
    return np.eye(num_types)[view.resource] if num_types else np.zeros((view.num_tasks, 0))


class Encoder:
    """A net that scores the tasks of any graph."""

    def __init__(self, weights: Mapping[str, Array], shape: EncoderShape) -> None:
        self.shape, self._heads_of = shape, shape.heads_of
        self._w: dict[str, Floats32] = check_weights(weights, shape)
        tables = {name.removesuffix(".weight"): array for name, array in self._w.items() if array.ndim == 2}
        self._turned = {name: np.ascontiguousarray(array.T) for name, array in tables.items()}

    def scores(self, view: TaskView) -> TaskScores:
        """Scores of all tasks; a view of at least one task."""
        attended = {name: attention_of(view, name) for name in self._heads_of}
        inputs = np.concatenate([view.features, one_hot(view, self.shape.num_types)], axis=1)
        hidden = self._affine("embed", inputs.astype(np.float32))
        for i in range(self.shape.layers):
            layer = f"layers.{i}"
            mixed = self._attention(layer, self._normal(f"{layer}.before", hidden), attended)
            hidden = hidden + self._affine(f"{layer}.out", mixed)
            up = self._affine(f"{layer}.up", self._normal(f"{layer}.between", hidden))
            hidden = hidden + self._affine(f"{layer}.down", _gelu(up))
        return self._read_out(view, self._normal("norm", hidden))

    def _read_out(self, view: TaskView, hidden: Floats32) -> TaskScores:
        features, pairs = view.features.astype(np.float32), view.pairs.astype(np.float32)
        scores = self._affine("score", hidden) + product(features, self._turned["skip"])
        task = np.tanh(self._affine("task", hidden))
        bias = np.einsum("nf,ncf->nc", product(task, self._w["pair"]), pairs)
        bias = bias + pairs @ self._w["pair_skip"]
        wide = scores.T.astype(np.float64, order="C")
        return TaskScores(wide[0::PER_LIST], wide[1::PER_LIST], np.ascontiguousarray(bias, np.float64))

    def _attention(
        self, layer: str, hidden: Floats32, attended: Mapping[str, Lists | list[Patch]]
    ) -> Floats32:
        n, num_heads = len(hidden), len(self.shape.heads)
        width = self.shape.width // num_heads
        mixed = self._affine(f"{layer}.mix", hidden).reshape(n, 3, num_heads, width)
        mixed[:, 0] *= np.float32(width**-0.5)
        out = np.empty((n, num_heads, width), np.float32)
        for name, heads in self._heads_of.items():
            look = attended[name]
            if isinstance(look, Lists):
                for h in heads:
                    out[:, h] = _by_lists(mixed[:, 0, h], mixed[:, 1, h], mixed[:, 2, h], look)
            else:
                out[:, heads] = _by_blocks(mixed[:, :, heads], look)
        return out.reshape(n, self.shape.width)

    def _affine(self, name: str, inputs: Floats32) -> Floats32:
        out = product(inputs, self._turned[name])
        out += self._w[f"{name}.bias"]
        return out

    def _normal(self, name: str, inputs: Floats32) -> Floats32:
        centred = inputs - inputs.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + np.float32(EPSILON))
        return centred / deviation * self._w[f"{name}.weight"] + self._w[f"{name}.bias"]


def _gelu(x: Floats32) -> Floats32:
    half, cubic = np.float32(_GELU[0]), np.float32(_GELU[1])
    bent = np.tanh(half * (x + cubic * x * x * x)).astype(np.float32)
    return np.float32(0.5) * x * (np.float32(1.0) + bent)


def _by_blocks(mixed: Floats32, patches: Sequence[Patch]) -> Floats32:
    """Heads of one relation, block by block: queries, keys and values (n, 3, H, w) to (n, H, w)."""
    out = np.empty((len(mixed), *mixed.shape[2:]), np.float32)
    for block, penalty in patches:
        q, k, v = np.ascontiguousarray(mixed[block.members].transpose(2, 3, 0, 1, 4))  # (H, groups, size, w)
        found = _softmax(q, np.ascontiguousarray(k.swapaxes(2, 3)), v, penalty)
        out[block.members[block.is_member]] = found.transpose(1, 2, 0, 3)[block.is_member]
    return out


def _softmax(q: Floats32, k: Floats32, v: Floats32, penalty: Floats32) -> Floats32:
    """Attention within groups (H, groups, size, w), keys turned, with a null key of score 0 and value 0."""
    most = float(np.linalg.norm(q, axis=3).max() * np.linalg.norm(k, axis=2).max())
    v = np.concatenate([v, np.ones_like(v[..., :1])], axis=3)  # the last column adds up the weights
    found, null = np.empty_like(v), np.ones_like(v[..., :1])
    rows = max(FEW_ROWS, min(MOST_CELLS // q[..., 0].size, MOST_PRODUCTS // v[0, 0].size))
    for first in range(0, q.shape[2], rows):
        at = slice(first, first + rows)
        weight = q[:, :, at] @ k
        if penalty.size:
            weight += penalty[:, at]
        if not most < SAFE_SCORE:
            greatest = np.maximum(weight.max(axis=3, keepdims=True), np.float32(0.0))
            weight -= greatest
            null[:, :, at] = np.exp(-greatest)
        np.exp(weight, out=weight)
        np.matmul(weight, v, out=found[:, :, at])
    return found[..., :-1] / (found[..., -1:] + null)


def _by_lists(q: Floats32, k: Floats32, v: Floats32, lists: Lists) -> npt.NDArray[np.float64]:
    keys, values = k.astype(np.float64), v.astype(np.float64)
    size = np.zeros(len(keys))
    if len(lists.pool):
        num_tokens = 1 + max(int(lists.pool.max()), int(lists.columns.max(initial=0)))
        keys, values, size = _pooled(keys, values, lists.pool, num_tokens)
    out = np.empty(q.shape)
    attend(np.ascontiguousarray(q, np.float64), keys, values, size, lists.pointer, lists.columns, out)
    return out


def _pooled(keys: Floats, values: Floats, pool: Ints, num_tokens: int) -> tuple[Floats, Floats, Floats]:
    """Means of keys and values over the tasks of a token, and the logarithm of how many they are."""
    count = np.bincount(pool, minlength=num_tokens).astype(np.float64)
    total = [
        np.stack([np.bincount(pool, column, num_tokens) for column in x.T], axis=1) for x in (keys, values)
    ]
    some = np.maximum(count, 1.0)[:, None]
    size = np.log(count, out=np.full(len(count), -np.inf), where=count > 0)
    return total[0] / some, total[1] / some, size
