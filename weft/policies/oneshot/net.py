"""The encoder that is trained: masked attention over the relations of task graphs, in torch.

After Gagrani et al. (2022): every head looks along one relation of the graph. Graphs of different
sizes are padded into one batch; a padded task is nobody's neighbour. Graphs above ``DENSE_LIMIT`` tasks
look along edges and at pooled tokens instead of tables within blocks. The tensors and their names
are those of :class:`weft.policies.oneshot.encoder_shape.EncoderShape`, so that
:class:`weft.policies.oneshot.encoder.Encoder` scores the same from the saved file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.errors import InputError
from weft.policies.net_tensors import Net
from weft.policies.oneshot.attention_layout import pooled_lists
from weft.policies.oneshot.block_batch import Layout, attend_within, layouts_of
from weft.policies.oneshot.encoder import one_hot
from weft.policies.oneshot.encoder_shape import PER_LIST, EncoderShape
from weft.policies.oneshot.features import DENSE_LIMIT, TaskView
from weft.policies.tensors import Array


class Graphs(NamedTuple):
    """A batch of views, padded; B graphs of at most N tasks and C classes."""

    inputs: Tensor  # (B, N, num_features + num_types)
    pairs: Tensor  # (B, N, C, num_pair_features)
    layouts: list[Layout]
    mix_rows: Tensor  # (3 * width,) rows of the mixing weights, layout after layout
    out_columns: Tensor  # (width,) columns of the weights behind, in the order of what the layouts give


class Attended(NamedTuple):
    """Who looks at whom in a batch of large graphs; tasks are numbered through the batch, padding included."""

    row: Tensor  # (num_pairs,) the task that looks
    column: Tensor  # (num_pairs,) the task or token it looks at
    pool: Tensor  # (B * N,) token of a task, the last for padding; (0,): columns are tasks
    members: Tensor  # (num_tokens,) tasks of a token; (0,): columns are tasks


class LargeGraphs(NamedTuple):
    """A batch of views too large for tables, padded."""

    inputs: Tensor  # (B, N, num_features + num_types)
    pairs: Tensor  # (B, N, C, num_pair_features)
    attended: dict[str, Attended]


def batch_of(views: Sequence[TaskView], shape: EncoderShape, device: torch.device) -> Graphs | LargeGraphs:
    """Pad views into one batch; large graphs and others cannot share one."""
    most, least = (choose(view.num_tasks for view in views) for choose in (max, min))
    if least <= DENSE_LIMIT < most:
        raise InputError(
            f"expected graphs on one side of {DENSE_LIMIT} tasks in a batch, got {least} and {most}: choose other sizes"
        )
    if most > DENSE_LIMIT:
        return large_batch_of(views, shape, device)
    inputs, pairs, size = _padded(views, shape)
    layouts = layouts_of(views, shape.heads_of, size[1], device)
    order = np.arange(3 * shape.width).reshape(3, len(shape.heads), -1)  # queries, keys, values by head
    mix_rows = np.concatenate([order[:, layout.heads].reshape(-1) for layout in layouts])
    out_columns = np.concatenate([order[0, layout.heads].reshape(-1) for layout in layouts])
    features, classes, rows, columns = (
        torch.from_numpy(array).to(device, non_blocking=True)
        for array in (inputs, pairs, mix_rows, out_columns)
    )
    return Graphs(features, classes, layouts, rows, columns)


def _padded(views: Sequence[TaskView], shape: EncoderShape) -> tuple[Array, Array, tuple[int, int]]:
    """Inputs and pairs of all views, and how many graphs of how many rows they are."""
    size = (len(views), max(view.num_tasks for view in views))
    num_classes = max(view.pairs.shape[1] for view in views)
    inputs = np.zeros((*size, shape.num_inputs), np.float32)
    pairs = np.zeros((*size, num_classes, shape.num_pair_features), np.float32)
    for b, view in enumerate(views):
        n = view.num_tasks
        inputs[b, :n] = np.concatenate([view.features, one_hot(view, shape.num_types)], axis=1)
        pairs[b, :n, : view.pairs.shape[1]] = view.pairs
    return inputs, pairs, size


def large_batch_of(views: Sequence[TaskView], shape: EncoderShape, device: torch.device) -> LargeGraphs:
    """Pad views into one batch, relations as lists."""
    inputs, pairs, size = _padded(views, shape)
    attended = {name: _attended(views, name, size[1], device) for name in shape.heads_of}
    on_device = [torch.from_numpy(array).to(device, non_blocking=True) for array in (inputs, pairs)]
    return LargeGraphs(on_device[0], on_device[1], attended)


def _attended(views: Sequence[TaskView], name: str, size: int, device: torch.device) -> Attended:
    """One relation of all views; the tokens of a graph follow those of the graph before."""
    rows, columns, pools, num_tokens = [], [], [], 0
    for b, view in enumerate(views):
        lists = pooled_lists(view, name)
        rows.append(b * size + np.repeat(np.arange(view.num_tasks), np.diff(lists.pointer)))
        columns.append(lists.columns + (num_tokens if len(lists.pool) else b * size))
        if len(lists.pool):
            pools.append(np.pad(lists.pool + num_tokens, (0, size - view.num_tasks), constant_values=-1))
            num_tokens += 1 + max(int(lists.pool.max()), int(lists.columns.max(initial=0)))
    row, column = np.concatenate(rows), np.concatenate(columns)
    pool = np.concatenate(pools) if pools else np.zeros(0, np.int64)
    pool = np.where(pool < 0, num_tokens, pool)
    count = np.bincount(pool, minlength=num_tokens + 1) if pools else np.zeros(0, np.int64)
    if pools:
        some = count[column] > 0
        row, column = row[some], column[some]
    arrays = (row, column, pool, count.astype(np.float32))
    return Attended(*(torch.from_numpy(array).to(device) for array in arrays))


def attend(query: Tensor, key: Tensor, value: Tensor, attended: Attended) -> Tensor:
    """Attention of some heads along lists (B, H, N, w), with a null key of score 0 and value 0."""
    shape = query.shape
    q, k, v = (
        x.transpose(0, 1).reshape(shape[1], -1, shape[3]) for x in (query, key, value)
    )  # (H, B * N, w)
    k, size = _pooled(k, attended)
    v, _ = _pooled(v, attended)
    score = (q[:, attended.row] * k[:, attended.column]).sum(-1) * shape[3] ** -0.5 + size[attended.column]
    at = attended.row.expand(len(q), -1)
    greatest = torch.zeros(q.shape[:2], device=q.device).scatter_reduce(1, at, score.detach(), "amax")
    weight = (score - greatest.gather(1, at)).exp()
    total = (-greatest).exp().scatter_add(1, at, weight)
    found = torch.zeros_like(q).index_add(1, attended.row, weight.unsqueeze(-1) * v[:, attended.column])
    return (found / total.unsqueeze(-1)).view(shape[1], shape[0], shape[2], shape[3]).transpose(0, 1)


def _pooled(x: Tensor, attended: Attended) -> tuple[Tensor, Tensor]:
    """Means over the tasks of every token, and the logarithm of how many they are; tasks as they are."""
    if not len(attended.pool):
        return x, torch.zeros(x.shape[1], device=x.device)
    some = attended.members.clamp(min=1.0)
    total = torch.zeros(len(x), len(some), x.shape[2], device=x.device).index_add(1, attended.pool, x)
    return total / some.unsqueeze(-1), some.log()


class Layer(nn.Module):
    """Attention along the relations, then a layer per task; both added to what came in."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.heads_of, self.num_heads = shape.heads_of, len(shape.heads)
        self.before, self.between = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.mix = _affine(shape.width, 3 * shape.width)
        self.out = _affine(shape.width, shape.width)
        self.up = _affine(shape.width, shape.hidden)
        self.down = _affine(shape.hidden, shape.width)

    def forward(self, hidden: Tensor, graphs: Graphs | LargeGraphs) -> Tensor:
        """The next hidden states (B, N, width)."""
        before = self.before(hidden)
        if isinstance(graphs, LargeGraphs):
            hidden = hidden + self._by_lists(before, graphs)
        else:
            hidden = hidden + self._by_blocks(before, graphs)
        return hidden + self.down(functional.gelu(self.up(self.between(hidden)), approximate="tanh"))

    def _by_blocks(self, hidden: Tensor, graphs: Graphs) -> Tensor:
        """Weights are put into the order of the layouts, so that each takes its columns as they come."""
        mix = [x.index_select(0, graphs.mix_rows) for x in (self.mix.weight, self.mix.bias)]
        mixed = functional.linear(hidden.flatten(0, 1), *mix)
        columns = [3 * hidden.shape[2] // self.num_heads * len(layout.heads) for layout in graphs.layouts]
        parts = zip(torch.split(mixed, columns, 1), graphs.layouts, strict=True)
        together = torch.cat([attend_within(part, layout) for part, layout in parts], 1)
        out = functional.linear(together, self.out.weight.index_select(1, graphs.out_columns), self.out.bias)
        return out.view_as(hidden)

    def _by_lists(self, hidden: Tensor, graphs: LargeGraphs) -> Tensor:
        batch, size, width = hidden.shape
        query, key, value = self.mix(hidden).view(batch, size, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        parts = [
            attend(query[:, heads], key[:, heads], value[:, heads], graphs.attended[name])
            for name, heads in self.heads_of.items()
        ]
        order = [h for heads in self.heads_of.values() for h in heads]
        together = torch.cat(parts, 1)[:, np.argsort(order).tolist()]
        return cast("Tensor", self.out(together.transpose(1, 2).reshape(batch, size, width)))


def _affine(fan_in: int, fan_out: int) -> nn.Linear:
    """A layer of zeros; torch's own start would draw from its global random state."""
    layer = nn.Linear(fan_in, fan_out, device="meta").to_empty(device="cpu")
    for tensor in layer.parameters():
        nn.init.zeros_(tensor)
    return layer


class Topoformer(Net):
    """Scores of tasks and of (task, class) pairs; call ``initialise`` or ``load_weights`` first."""

    architecture: EncoderShape

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.architecture = self.shape = shape
        self.embed = _affine(shape.num_inputs, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        scores = shape.num_lists * PER_LIST
        self.score = _affine(shape.width, scores)
        self.skip = nn.Parameter(torch.zeros(scores, shape.num_features))
        self.task = _affine(shape.width, shape.pair_width)
        self.pair = nn.Parameter(torch.zeros(shape.pair_width, shape.num_pair_features))
        self.pair_skip = nn.Parameter(torch.zeros(shape.num_pair_features))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Gaussian weights of variance 1 / inputs, the scores' smaller; norms 1, the rest 0."""
        for name, tensor in self.named_parameters():
            if tensor.dim() < 2 or name == "skip":
                tensor.fill_(
                    1.0 if name.endswith(("norm.weight", "before.weight", "between.weight")) else 0.0
                )
                continue
            gain = 0.1 if name in ("score.weight", "pair") else 1.0
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * gain * tensor.shape[1] ** -0.5)

    def forward(self, graphs: Graphs | LargeGraphs) -> tuple[Tensor, Tensor]:
        """Logits and log-odds of holding, list by list (B, N, 2 * num_lists), and biases (B, N, C)."""
        hidden = self.embed(graphs.inputs)
        for layer in self.layers:
            hidden = layer(hidden, graphs)
        hidden = self.norm(hidden)
        scores = self.score(hidden) + graphs.inputs[..., : self.shape.num_features] @ self.skip.T
        task = torch.tanh(self.task(hidden)) @ self.pair  # (B, N, num_pair_features)
        bias = (graphs.pairs * (task + self.pair_skip).unsqueeze(2)).sum(-1)
        return scores, bias
