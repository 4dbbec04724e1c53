"""The encoder as NumPy computes it: scores of all tasks of a graph in one pass, without torch.

Relations that join few pairs are lists and go through a kernel; those that join many are tables and
go through matrix products. Above ``DENSE_LIMIT`` tasks, levels of the graph are pooled into tokens
that stand for their tasks, and only direct edges stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.graph import Bools, Floats, Ints
from weft.policies.checkpoint import Floats32, check_weights
from weft.policies.encoder_shape import PER_LIST, EncoderShape
from weft.policies.task_view import DENSE_LIMIT, TaskView
from weft.policies.tensors import Array
from weft.sim.relations import attend

MOST_TOKENS = 64
"""Levels are pooled into at most so many tokens."""
DENSE_SHARE = 0.2
"""A relation of more than this share of all pairs goes through matrix products."""
EPSILON = 1e-5
_GELU = (0.7978845608028654, 0.044715)


class TaskScores(NamedTuple):
    """What the net says of one problem."""

    logit: Floats  # (num_lists, num_tasks)
    hold: Floats  # (num_lists, num_tasks)
    bias: Floats  # (num_tasks, num_classes) in units of the view's scale


class Lists(NamedTuple):
    """Whom each task looks at: rows of pooled tokens, or of the tasks themselves."""

    pointer: Ints  # (num_tasks + 1,)
    columns: Ints  # (num_pairs,)
    pool: Ints  # (num_tasks,) token of a task; (0,): the rows are tasks


def relation_table(view: TaskView, name: str) -> Bools:
    """Whether the task of the row looks at that of the column; for views with dense relations."""
    n = view.num_tasks
    if name == "all":
        return np.ones((n, n), np.bool_)
    if name == "resource":
        return view.resource[:, None] == view.resource[None, :]
    if name == "incomparable":
        apart: Bools = ~(view.reach | view.reach.T)
        np.fill_diagonal(apart, False)
        return apart
    base, is_back = name.removesuffix("-back"), name.endswith("-back") or name in _BACKWARD
    table = _forward_table(view, _BACKWARD.get(base, base))
    return np.ascontiguousarray(table.T) if is_back else table


_BACKWARD = {"predecessors": "successors", "ancestors": "descendants"}


def _forward_table(view: TaskView, name: str) -> Bools:
    if name == "descendants":
        return view.reach
    source = np.repeat(np.arange(view.num_tasks), np.diff(view.succ_ptr))
    chosen = {"reduction": view.is_reduced, "skipping": ~view.is_reduced}.get(name)
    kept = slice(None) if chosen is None else chosen
    table = np.zeros(view.reach.shape, np.bool_)
    table[source[kept], view.succ[kept]] = True
    return view.reach & ~table if name == "closure" else table


def lists_of(table: Bools) -> Lists:
    """A table as lists."""
    pointer = np.zeros(len(table) + 1, np.int64)
    np.cumsum(table.sum(axis=1), out=pointer[1:])
    return Lists(pointer, np.nonzero(table)[1].astype(np.int64), np.zeros(0, np.int64))


def resource_lists(resource: Ints) -> Lists:
    """The tasks of the same resource as lists."""
    members = np.argsort(resource, kind="stable")
    count = np.bincount(resource)
    size, first = count[resource], (np.cumsum(count) - count)[resource]
    pointer = np.concatenate([[0], np.cumsum(size)])
    columns = members[np.arange(pointer[-1]) - np.repeat(pointer[:-1] - first, size)]
    return Lists(pointer, columns, np.zeros(0, np.int64))


def _share_of_pairs(resource: Ints) -> float:
    return float((np.bincount(resource) ** 2).sum()) / max(len(resource), 1) ** 2


def pooled_lists(view: TaskView, name: str) -> Lists:
    """What stands for a relation in a graph too large for tables."""
    n = view.num_tasks
    if name in ("successors", "reduction"):
        return Lists(view.succ_ptr, view.succ, np.zeros(0, np.int64))
    if name in ("predecessors", "reduction-back"):
        return _reversed_edges(view)
    if name in ("skipping", "skipping-back"):
        return Lists(np.zeros(n + 1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
    num_levels = int(view.level.max()) + 1
    num_tokens = min(num_levels, MOST_TOKENS)
    bucket = view.level * num_tokens // num_levels
    first, last = np.zeros(n, np.int64), np.full(n, num_tokens)
    if name in ("descendants", "closure"):
        first = bucket + 1
    elif name in ("ancestors", "closure-back"):
        last = bucket
    pool = bucket
    if name == "resource":
        base = view.resource * num_tokens
        pool, first, last = bucket + base, first + base, last + base
    counts = last - first
    pointer = np.concatenate([[0], np.cumsum(counts)])
    index = np.arange(pointer[-1]) - np.repeat(pointer[:-1] - first, counts)
    return Lists(pointer, index, pool)


def _reversed_edges(view: TaskView) -> Lists:
    source = np.repeat(np.arange(view.num_tasks), np.diff(view.succ_ptr))
    by_target = np.argsort(view.succ, kind="stable")
    pointer = np.zeros(view.num_tasks + 1, np.int64)
    np.cumsum(np.bincount(view.succ, minlength=view.num_tasks), out=pointer[1:])
    return Lists(pointer, source[by_target], np.zeros(0, np.int64))


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
        self.shape = shape
        self._w: dict[str, Floats32] = check_weights(weights, shape)

    def scores(self, view: TaskView) -> TaskScores:
        """Scores of all tasks; a view of at least one task."""
        looks = {name: self._look(view, name) for name in dict.fromkeys(self.shape.heads)}
        inputs = np.concatenate([view.features, one_hot(view, self.shape.num_types)], axis=1)
        hidden = self._affine("embed", inputs.astype(np.float32))
        for i in range(self.shape.layers):
            layer = f"layers.{i}"
            mixed = self._attention(layer, self._normal(f"{layer}.before", hidden), looks)
            hidden = hidden + self._affine(f"{layer}.out", mixed)
            up = self._affine(f"{layer}.up", self._normal(f"{layer}.between", hidden))
            hidden = hidden + self._affine(f"{layer}.down", _gelu(up))
        return self._read_out(view, self._normal("norm", hidden))

    def _read_out(self, view: TaskView, hidden: Floats32) -> TaskScores:
        features, pairs = view.features.astype(np.float32), view.pairs.astype(np.float32)
        scores = self._affine("score", hidden) + features @ self._w["skip"].T
        task = np.tanh(self._affine("task", hidden))
        bias = np.einsum("np,pf,ncf->nc", task, self._w["pair"], pairs, optimize=True)
        bias = bias + pairs @ self._w["pair_skip"]
        wide = scores.T.astype(np.float64, order="C")
        return TaskScores(wide[0::PER_LIST], wide[1::PER_LIST], np.ascontiguousarray(bias, np.float64))

    def _look(self, view: TaskView, name: str) -> Lists | Bools:
        if view.num_tasks > DENSE_LIMIT or name in ("successors", "predecessors"):
            return pooled_lists(view, name)
        if name == "resource" and _share_of_pairs(view.resource) <= DENSE_SHARE:
            return resource_lists(view.resource)
        table = relation_table(view, name)
        return table if table.mean() > DENSE_SHARE else lists_of(table)

    def _attention(self, layer: str, hidden: Floats32, looks: Mapping[str, Lists | Bools]) -> Floats32:
        n, num_heads = len(hidden), len(self.shape.heads)
        width = self.shape.width // num_heads
        mixed = self._affine(f"{layer}.mix", hidden).reshape(n, 3, num_heads, width)
        q = mixed[:, 0] * np.float32(width**-0.5)
        out = np.empty((n, num_heads, width), np.float32)
        for h, name in enumerate(self.shape.heads):
            look = looks[name]
            q_h, k_h, v_h = q[:, h], mixed[:, 1, h], mixed[:, 2, h]
            out[:, h] = (
                _by_lists(q_h, k_h, v_h, look) if isinstance(look, Lists) else _by_table(q_h, k_h, v_h, look)
            )
        return out.reshape(n, self.shape.width)

    def _affine(self, name: str, inputs: Floats32) -> Floats32:
        return inputs @ self._w[f"{name}.weight"].T + self._w[f"{name}.bias"]

    def _normal(self, name: str, inputs: Floats32) -> Floats32:
        centred = inputs - inputs.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + np.float32(EPSILON))
        return centred / deviation * self._w[f"{name}.weight"] + self._w[f"{name}.bias"]


def _gelu(x: Floats32) -> Floats32:
    half, cubic = np.float32(_GELU[0]), np.float32(_GELU[1])
    bent = np.tanh(half * (x + cubic * x * x * x)).astype(np.float32)
    return np.float32(0.5) * x * (np.float32(1.0) + bent)


def _by_table(q: Floats32, k: Floats32, v: Floats32, table: Bools) -> Floats32:
    """One head over a table, with a null key of score 0 and value 0."""
    score = q @ k.T
    if not table.all():
        score = np.where(table, score, np.float32(-np.inf))
    greatest = np.maximum(score.max(axis=1, keepdims=True), np.float32(0.0))
    weight = np.exp(score - greatest)
    return (weight @ v) / (weight.sum(axis=1, keepdims=True) + np.exp(-greatest))


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
