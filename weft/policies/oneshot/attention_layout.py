"""Whom each task looks at, laid out for attention: as blocks, as lists, or at pooled tokens.

Tasks of different components are joined by no path, tasks of different resources do not share one.
So a relation along paths stays within components and that of the resource within resources: blocks
of tasks, each with a table of its own. Relations that join few pairs of their blocks are lists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Bools, Ints
from weft.policies.checkpoint import Floats32
from weft.policies.oneshot.features import DENSE_LIMIT, TaskView

MOST_TOKENS = 64
"""Levels are pooled into at most this many tokens."""
DENSE_SHARE = 0.1
"""A relation of more than this share of the pairs in its blocks goes through matrix products."""
PLAIN = ("all", "resource")
"""Relations that join all tasks of a group."""
SMALL = 16
"""Groups up to this size are padded to one block."""
WHOLE = ("all", "incomparable")
"""Relations that may join any two tasks."""


class Lists(NamedTuple):
    """Whom each task looks at: rows of pooled tokens, or of the tasks themselves."""

    pointer: Ints  # (num_tasks + 1,)
    columns: Ints  # (num_pairs,)
    pool: Ints  # (num_tasks,) token of a task; (0,): the rows are tasks


class Block(NamedTuple):
    """Groups of tasks of about one size; a task looks only at tasks of its group."""

    members: Ints  # (num_groups, size) tasks, padded with the first of the group
    is_member: Bools  # (num_groups, size) False: padding


class Patch(NamedTuple):
    """A relation within one block."""

    block: Block
    penalty: (
        Floats32  # (num_groups, size, size) 0 where the row looks at the column, else -inf; (0, 0, 0): all do
    )


def labels_of(view: TaskView, name: str) -> Ints:
    """A number per task such that the relation joins only tasks of the same number."""
    if name in WHOLE:
        return np.zeros(view.num_tasks, np.int64)
    return view.resource if name == "resource" else view.component


def blocks_of(label: Ints) -> list[Block]:
    """The groups of tasks with one label, those of about one size side by side, the largest first."""
    members = np.argsort(label, kind="stable")
    count = np.bincount(label)
    first = np.cumsum(count) - count
    groups = np.argsort(-count, kind="stable")[: np.count_nonzero(count)]
    blocks = []
    while len(groups):
        size = int(count[groups[0]])
        is_near = 3 * count[groups] > (2 * size if size > SMALL else 0)
        chosen, groups = groups[is_near], groups[~is_near]
        place = np.arange(size)
        is_member = place < count[chosen, None]
        blocks.append(Block(members[first[chosen, None] + np.where(is_member, place, 0)], is_member))
    return blocks


def patches_of(view: TaskView, name: str) -> list[Patch]:
    """A relation block by block; for views with dense relations."""
    blocks = blocks_of(labels_of(view, name))
    if name in PLAIN:
        return [Patch(block, _penalty_of_padding(block)) for block in blocks]
    table = relation_table(view, name)
    return [Patch(block, _penalty(within(table, block))) for block in blocks]


def _penalty(is_shown: Bools) -> Floats32:
    return np.where(is_shown, np.float32(0.0), np.float32(-np.inf))


def _penalty_of_padding(block: Block) -> Floats32:
    if block.is_member.all():
        return np.zeros((0, 0, 0), np.float32)
    size = block.members.shape[1]
    return np.repeat(_penalty(block.is_member)[:, None], size, axis=1)


def within(table: Bools, block: Block) -> Bools:
    """The part of a table in every group of a block."""
    if block.members.shape == (1, len(table)) and block.is_member.all():
        return table[None]
    shown: Bools = table[block.members[:, :, None], block.members[:, None, :]]
    return shown & block.is_member[:, None, :] & block.is_member[:, :, None]


def attention_of(view: TaskView, name: str) -> Lists | list[Patch]:
    """A relation as an encoder takes it, whatever the size of the graph."""
    if view.num_tasks > DENSE_LIMIT or name in ("successors", "predecessors"):
        return pooled_lists(view, name)
    patches = patches_of(view, name)
    total = sum(patch.block.members.shape[1] * patch.block.members.size for patch in patches)
    hidden = sum(np.count_nonzero(patch.penalty) for patch in patches)
    return patches if total - hidden > DENSE_SHARE * total else lists_of(relation_table(view, name))


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
    forward = forward_of(name)
    table = _forward_table(view, forward)
    return table if name == forward else table.T


def forward_of(name: str) -> str:
    """The relation that this one is, or is the other way round."""
    return {"predecessors": "successors", "ancestors": "descendants"}.get(name, name.removesuffix("-back"))


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
