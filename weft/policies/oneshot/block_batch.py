"""A batch of graphs cut into blocks, and attention within them, in torch.

The rows of a batch are moved so that tasks that can look at each other lie side by side, see
:mod:`weft.policies.oneshot.attention_layout`. So a job shop costs the squares of its jobs and machines, not of all its
tasks. Every row has one place in a layout, so both directions, and their gradients, are copies by index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from weft.model.graph import Bools, Ints
from weft.policies.oneshot.attention_layout import PLAIN, Block, blocks_of, forward_of, labels_of, within
from weft.policies.oneshot.features import TaskView

EVEN = 8
"""Masks are padded to a multiple of this: the fast attention kernels ask for it."""


class Tables(NamedTuple):
    """The groups of a block and what joins their tasks."""

    is_member: Tensor  # (G, S) False: padding
    reach: Tensor  # (G, S, S) whether a path leads from row to column
    edge: Tensor  # (G, S, S)
    is_reduced: Tensor  # (G, S, S) edges of the transitive reduction


class Layout(NamedTuple):
    """The rows of a batch in blocks, for the heads whose relations stay within the groups."""

    heads: list[int]
    place_row: Tensor  # (num_places,) row at a place; (0,): places are rows
    row_place: Tensor  # (num_rows,) place of a row
    is_gap: Tensor  # (num_places,) places of no row; (0,): none
    is_padding: Tensor  # (num_rows,) rows of no task; (0,): none
    shapes: list[tuple[int, int]]
    """Groups and size of every block."""
    penalties: list[Tensor | None]
    """Per block (G, 1 or num_heads, S, K) added to the scores of S keys, a null key and padding; None: no padding."""


def layouts_of(
    views: Sequence[TaskView], heads_of: Mapping[str, list[int]], num_rows: int, device: torch.device
) -> list[Layout]:
    """Layouts for all relations of a net; the views are padded to this many rows each."""
    together: dict[tuple[bool, bytes], tuple[Ints, list[str]]] = {}
    for name in heads_of:
        label = _batch_labels(views, name, num_rows)
        together.setdefault((name in PLAIN, label.tobytes()), (label, []))[1].append(name)
    return [
        _layout(views, label, {name: heads_of[name] for name in names}, device)
        for label, names in together.values()
    ]


def _batch_labels(views: Sequence[TaskView], name: str, num_rows: int) -> Ints:
    """Groups of the rows of a batch, -1 for padding (B, num_rows)."""
    label, used = np.full((len(views), num_rows), -1), 0
    for b, view in enumerate(views):
        label[b, : view.num_tasks] = labels_of(view, name) + used
        used = int(label[b].max()) + 1
    return label


def _layout(
    views: Sequence[TaskView], label: Ints, heads_of: Mapping[str, list[int]], device: torch.device
) -> Layout:
    rows = np.flatnonzero(label >= 0)
    blocks = [Block(rows[block.members], block.is_member) for block in blocks_of(label.reshape(-1)[rows])]
    place_row = np.concatenate([block.members.reshape(-1) for block in blocks])
    is_gap = ~np.concatenate([block.is_member.reshape(-1) for block in blocks])
    row_place = np.zeros(label.size, np.int64)
    row_place[place_row[~is_gap]] = np.flatnonzero(~is_gap)
    is_same = label.size == len(place_row) and bool((place_row == np.arange(label.size)).all())
    arrays = (
        place_row[: 0 if is_same else None],
        row_place,
        is_gap[: None if is_gap.any() else 0],
        (label < 0).reshape(-1)[: None if len(rows) < label.size else 0],
    )
    tensors = [torch.from_numpy(array).to(device, non_blocking=True) for array in arrays]
    shapes = [(len(block.members), block.members.shape[1]) for block in blocks]
    penalties = [_penalty(views, block, heads_of, label.shape[1], device) for block in blocks]
    heads = [h for those in heads_of.values() for h in those]
    return Layout(heads, tensors[0], tensors[1], tensors[2], tensors[3], shapes, penalties)


def _penalty(
    views: Sequence[TaskView],
    block: Block,
    heads_of: Mapping[str, list[int]],
    num_rows: int,
    device: torch.device,
) -> Tensor | None:
    names = list(heads_of)
    if names[0] in PLAIN:
        if block.is_member.all():
            return None
        names = names[:1]
    tables = tables_of(views, block, num_rows, device, has_paths=names[0] not in PLAIN)
    each = [relation(tables, name) for name in names]
    if len(names) > 1:
        each = [table for table, name in zip(each, names, strict=True) for _ in heads_of[name]]
    shown = torch.stack(each, 1)
    size = shown.shape[3]
    penalty = torch.full((*shown.shape[:3], -(-(size + 1) // EVEN) * EVEN), -torch.inf, device=device)
    penalty[..., :size].masked_fill_(shown, 0.0)
    penalty[..., size] = 0.0  # the null key
    return penalty


def tables_of(
    views: Sequence[TaskView], block: Block, num_rows: int, device: torch.device, *, has_paths: bool
) -> Tables:
    """The tables of a block whose members are rows of a batch."""
    size = block.members.shape[1]
    paths = (
        np.zeros((3, *block.members.shape, size), np.bool_) if has_paths else np.zeros((3, 0, 0, 0), np.bool_)
    )
    if has_paths:
        graph, local = block.members[:, 0] // num_rows, block.members % num_rows
        place = np.full((len(views), num_rows), -1)
        place.reshape(-1)[block.members[block.is_member]] = np.flatnonzero(block.is_member)
        for b in np.unique(graph):
            view, mine = views[b], graph == b
            paths[0, mine] = within(view.reach, Block(local[mine], block.is_member[mine]))
            _mark_edges(paths[1:], view, place[b])
    arrays = (block.is_member, *paths)
    return Tables(*(torch.from_numpy(array).to(device, non_blocking=True) for array in arrays))


def _mark_edges(tables: Bools, view: TaskView, place: Ints) -> None:
    """Mark the edges of one graph in (2, G, S, S): all, and those of the transitive reduction."""
    source = np.repeat(np.arange(view.num_tasks), np.diff(view.succ_ptr))
    here = place[source] >= 0
    cell = place[source[here]] * tables.shape[3] + place[view.succ[here]] % tables.shape[3]
    flat = tables.reshape(2, -1)
    flat[0, cell] = True
    flat[1, cell[view.is_reduced[here]]] = True


def relation(tables: Tables, name: str) -> Tensor:
    """Whether the task of the row looks at that of the column (G, S, S); padding is looked at by nobody."""
    real = tables.is_member.unsqueeze(1)
    if name in PLAIN:
        return real.expand(-1, real.shape[2], -1)
    if name == "incomparable":
        same = torch.eye(real.shape[2], dtype=torch.bool, device=real.device)
        return real & ~(tables.reach | tables.reach.transpose(1, 2) | same)
    found = {
        "successors": tables.edge,
        "descendants": tables.reach,
        "reduction": tables.is_reduced,
        "skipping": tables.edge & ~tables.is_reduced,
        "closure": tables.reach & ~tables.edge,
    }
    forward = forward_of(name)
    return found[forward] if name == forward else found[forward].transpose(1, 2)


def attend_within(mixed: Tensor, layout: Layout) -> Tensor:
    """Attention of the heads of a layout, with a null key of score 0 and value 0.

    Takes queries, keys and values of all rows (num_rows, 3 * num_heads * w), gives (num_rows, num_heads * w).
    """
    placed = _moved(mixed, layout)
    parts, at = [], 0
    for (groups, size), penalty in zip(layout.shapes, layout.penalties, strict=True):
        rows = placed[at : at + groups * size].view(groups, size, 3, len(layout.heads), -1)
        query, *rest = rows.permute(2, 0, 3, 1, 4)  # (G, H, S, w)
        more = 1 if penalty is None else penalty.shape[3] - size
        key, value = (functional.pad(x, (0, 0, 0, more)) for x in rest)
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=penalty)
        parts.append(found.transpose(1, 2).reshape(groups * size, -1))
        at += groups * size
    return _moved(torch.cat(parts) if len(parts) > 1 else parts[0], layout, is_back=True)


def _moved(x: Tensor, layout: Layout, *, is_back: bool = False) -> Tensor:
    """Rows to their places, or back."""
    if not len(layout.place_row):
        return x
    ways = (layout.place_row, layout.is_gap), (layout.row_place, layout.is_padding)
    there, back = reversed(ways) if is_back else ways
    return cast("Tensor", _Move.apply(x, *there, *back))  # type: ignore[no-untyped-call]


class _Move(torch.autograd.Function):
    """Copies by index, zero where there is nothing to copy; the gradient takes the way back."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, there: Tensor, is_void: Tensor, back: Tensor, was_void: Tensor
    ) -> Tensor:
        ctx.save_for_backward(back, was_void)
        return _taken(x, there, is_void)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        back, was_void = ctx.saved_tensors
        return _taken(gradients[0], back, was_void), None, None, None, None


def _taken(x: Tensor, index: Tensor, is_void: Tensor) -> Tensor:
    found = x.index_select(0, index)
    return found.masked_fill_(is_void.unsqueeze(1), 0.0) if len(is_void) else found
