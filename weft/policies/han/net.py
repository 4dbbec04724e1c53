"""The net that is trained to place tasks on clusters, in torch.

B graphs of N clusters with P slots each, M waiting and K running tasks per cluster at most; whatever does not
exist is masked, and no graph sees another. :class:`weft.policies.han.forward.HanPolicy` decides the same in NumPy.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, linear, scaled_dot_product_attention

from weft.policies.han.architecture import (
    CENTRAL,
    FIFO,
    JOINT,
    MLP,
    MLP_LAYERS,
    PENALTY,
    POINTER,
    HanArchitecture,
)
from weft.policies.net_tensors import Net

NEVER = -1e9
"""Score of what is masked."""
SLOPE = 0.2
"""Of scores of attention below 0."""
EPSILON = 1e-5
"""Under the root of a norm."""


class Seen(NamedTuple):
    """What all clusters of B systems see: an ``ElasticSight`` in tensors."""

    cluster: Tensor  # (B, N, C)
    waiting: Tensor  # (B, M, W)
    slot: Tensor  # (B, N, P) row of waiting, -1: empty
    running: Tensor  # (B, N, K, R)
    least: Tensor  # (B, M, resources)
    most: Tensor  # (B, N, resources)
    active: Tensor  # (B, N)
    top: Tensor  # (B, M, resources)


class Encoded(NamedTuple):
    """What the encoder makes of it."""

    clusters: Tensor  # (B, N, h)
    slots: Tensor  # (B, N, P, h)
    mean: Tensor  # (B, N, h) over the slots that hold a task
    shared: Tensor  # (B, h) of the shortcut
    row: Tensor  # (B, N, P) row of waiting, 0 where empty
    can: Tensor  # (B, N, P) whether a slot may be picked


class HanNet(Net):
    """Scores of slots and of units, and values, for any number of clusters."""

    architecture: HanArchitecture

    def __init__(self, architecture: HanArchitecture) -> None:
        super().__init__()
        self.architecture = architecture
        for name, shape in architecture.shapes().items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Orthogonal weights, small where choices are scored, 0 where features go straight to units; the rest neutral."""
        for name, tensor in self.named_parameters():
            if name.endswith("_scale"):
                tensor.fill_(1.0)
            elif name == "units_direct":
                tensor.zero_()
            elif tensor.dim() == 2:
                gain = 0.1 if name in ("pointer_out", "units_out_weight") else 1.0
                tensor.copy_(_orthogonal(tensor.shape, generator) * gain)
            elif name.endswith(("_from", "_to", "_query", "shortcut_in")):
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * tensor.shape[0] ** -0.5)
            else:
                tensor.zero_()

    # Encoder

    def encode(self, seen: Seen) -> Encoded:
        """Embeddings of clusters and of the tasks in their slots."""
        seen = _trimmed(seen)
        row, real = seen.slot.clamp_min(0), seen.slot >= 0
        can = real & self._fits(seen, row)
        if self.architecture.encoder == MLP:
            clusters, slots = self._perceptron(seen, row)
            shared = clusters.mean(1)
        else:
            clusters, waiting, shared = self._graph(seen)
            slots = _rows(waiting, row)
        for layer in range(self.architecture.transformer):
            slots = self._attend(layer, slots, real)
        count = real.sum(2, keepdim=True).clamp_min(1)
        mean = (slots * real.unsqueeze(-1)).sum(2) / count
        return Encoded(clusters, slots, mean, shared, row, can)

    def _fits(self, seen: Seen, row: Tensor) -> Tensor:
        """Whether the least units of the task in a slot are free (B, N, P)."""
        if self.architecture.masks == PENALTY:
            return torch.ones_like(row, dtype=torch.bool)
        return (_rows(seen.least, row) <= seen.most.unsqueeze(2)).all(-1)

    def _perceptron(self, seen: Seen, row: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings without messages: of a task only its own features and those of the cluster are seen."""
        exists = seen.running[..., -1:]
        running = (seen.running * exists).sum(2) / exists.sum(2).clamp_min(1.0)
        here = torch.cat([seen.cluster, running], -1)
        clusters = self._linear("cluster_in", here).relu()
        beside = here.unsqueeze(2).expand(-1, -1, row.shape[2], -1)
        slots = torch.cat([_rows(seen.waiting, row), beside], -1)
        for layer in range(MLP_LAYERS):
            slots = self._linear(f"mlp{layer}", slots).relu()
        return clusters, slots

    def _graph(self, seen: Seen) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings of clusters (B, N, h), waiting tasks (B, M, h) and the shortcut (B, h)."""
        x = {
            "cluster": self._linear("cluster_in", seen.cluster).relu(),
            "waiting": self._linear("waiting_in", seen.waiting).relu(),
            "running": self._linear("running_in", seen.running).relu(),
        }
        x["shortcut"] = self.get_parameter("shortcut_in").expand(len(seen.cluster), 1, -1)
        member = _members(seen.slot, seen.waiting.shape[1])
        exists = seen.running[..., -1] > 0
        for layer in range(self.architecture.layers):
            x = self._layer(layer, x, member, exists)
        return x["cluster"], x["waiting"], x["shortcut"][:, 0]

    def _layer(self, layer: int, x: dict[str, Tensor], member: Tensor, exists: Tensor) -> dict[str, Tensor]:
        """One round of messages: every relation attends, then every node weighs its relations and itself."""
        p = {node: self._linear(f"l{layer}_{node}", value) for node, value in x.items()}
        count, size = p["running"].shape[2:]
        alone = p["cluster"].reshape(-1, 1, size)
        taken = self._relation(
            f"l{layer}_running_cluster",
            p["running"].reshape(-1, count, size),
            alone,
            exists.reshape(-1, 1, count),
        )
        all_of = torch.ones_like(member[:, :1, :1]).expand(-1, 1, member.shape[1])
        messages: dict[str, list[tuple[Tensor, Tensor | None]]] = {
            "cluster": [
                (
                    self._relation(f"l{layer}_waiting_cluster", p["waiting"], p["cluster"], member),
                    member.any(2),
                ),
                (taken.view_as(p["cluster"]), exists.any(2)),
                (p["shortcut"].expand_as(p["cluster"]), None),
            ],
            "waiting": [
                (
                    self._relation(f"l{layer}_cluster_waiting", p["cluster"], p["waiting"], member.mT),
                    member.any(1),
                )
            ],
            "running": [(p["cluster"].unsqueeze(2).expand_as(p["running"]), None)],
            "shortcut": [
                (self._relation(f"l{layer}_cluster_shortcut", p["cluster"], p["shortcut"], all_of), None)
            ],
        }
        return {
            node: self._mixed(f"l{layer}_{node}", x[node], p[node], messages[node])
            for node in self.architecture.nodes_of(layer)
        } | ({} if "running" in self.architecture.nodes_of(layer) else {"running": x["running"]})

    def _relation(self, name: str, source: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        """What sources (B, S, h) send to targets (B, D, h) along a mask (B, D, S); 0 where nothing is sent."""
        heads = self.architecture.heads
        sends = _headed(source * self.get_parameter(f"{name}_from"), heads).sum(-1)
        takes = _headed(target * self.get_parameter(f"{name}_to"), heads).sum(-1)
        scores = leaky_relu(takes.mT.unsqueeze(-1) + sends.mT.unsqueeze(-2), SLOPE)  # (B, heads, D, S)
        scores = scores.masked_fill(~mask.unsqueeze(1), NEVER).softmax(-1)
        scores = scores * mask.any(-1)[:, None, :, None]
        sent = scores @ _headed(source, heads).transpose(1, 2)
        return sent.transpose(1, 2).flatten(2)

    def _mixed(
        self, name: str, x: Tensor, own: Tensor, messages: list[tuple[Tensor, Tensor | None]]
    ) -> Tensor:
        """Itself and its relations, weighed for every node alone, added to what it was and normed."""
        parts = torch.stack([own, *(message for message, _ in messages)]).relu()
        scores = self._linear(f"{name}_mix", parts).tanh() @ self.get_parameter(f"{name}_mix_query")
        absent = [None, *(None if present is None else ~present for _, present in messages)]
        masked = [
            score if mask is None else score.masked_fill(mask, NEVER)
            for score, mask in zip(scores, absent, strict=True)
        ]
        mixed = (torch.stack(masked).softmax(0).unsqueeze(-1) * parts).sum(0)
        return self._norm(f"{name}_norm", x + mixed)

    def _attend(self, layer: int, slots: Tensor, real: Tensor) -> Tensor:
        """A transformer layer over the tasks of every cluster; empty slots are not looked at."""
        shape, heads = slots.shape, self.architecture.heads
        flat = slots.flatten(0, 1)
        parts = self._linear(f"t{layer}_qkv", flat)
        parts = parts.view(*flat.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
        is_empty = ~real.any(2, keepdim=True)
        seen = (real | is_empty).flatten(0, 1)[:, None, None]
        found = scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=seen)
        found = self._linear(f"t{layer}_out", found.transpose(1, 2).flatten(2))
        flat = self._norm(f"t{layer}_norm", flat + found)
        wide = self._linear(f"t{layer}_narrow", self._linear(f"t{layer}_wide", flat).relu())
        return self._norm(f"t{layer}_last_norm", flat + wide).view(shape)

    # Heads

    def pointer(self, seen: Seen, known: Encoded) -> Tensor:
        """Log-probabilities (B, N, P) of slots; uniform where none can be picked."""
        kind, w = self.architecture.pointer, self.get_parameter
        if kind == POINTER:
            query = linear(known.mean, w("pointer_mean_weight"), w("pointer_bias"))
            query = query + linear(known.clusters, w("pointer_cluster_weight"))
            hidden = (linear(known.slots, w("pointer_slot_weight")) + query.unsqueeze(2)).tanh()
            scores = linear(hidden, w("pointer_out")).squeeze(-1)
        elif kind == FIFO:
            waited = _rows(seen.waiting[..., -3:-2], known.row).squeeze(-1)
            best = waited.masked_fill(~known.can, -1.0).argmax(-1, keepdim=True)
            scores = torch.full_like(waited, NEVER).scatter(-1, best, 0.0)
        else:
            scores = torch.zeros(known.can.shape, device=known.can.device)
        return scores.masked_fill(~known.can, NEVER).log_softmax(-1)

    def unit_law(self, seen: Seen, known: Encoded, slot: Tensor) -> UnitLaw:
        """The law of units for the tasks in these slots (B, N)."""
        w = self.get_parameter
        at = slot.clamp_min(0)[..., None]
        row = known.row.gather(2, at)
        task = _rows(seen.waiting, row).squeeze(2)
        embedded = known.slots.gather(2, at.unsqueeze(-1).expand(-1, -1, 1, known.slots.shape[-1])).squeeze(2)
        hidden = linear(embedded, w("units_slot_weight"), w("units_bias"))
        hidden = hidden + linear(known.clusters, w("units_cluster_weight"))
        hidden = hidden + linear(task, w("units_task_weight")) + linear(seen.cluster, w("units_free_weight"))
        scores = self._linear("units_out", hidden.relu()) + linear(task, w("units_direct"))
        least = _rows(seen.least, row).squeeze(2)
        most = torch.minimum(_rows(seen.top, row).squeeze(2), seen.most)
        return unit_law(self.architecture, scores, least, most)

    def values(self, known: Encoded) -> Tensor:
        """What the future is worth to every agent (B, N); any number, also below 0."""
        w = self.get_parameter
        clusters, mean = known.clusters, known.mean
        if self.architecture.critic == CENTRAL:
            clusters, mean = (one.mean(1, keepdim=True).expand_as(one) for one in (clusters, mean))
        hidden = linear(clusters, w("value_cluster_weight"), w("value_bias"))
        hidden = hidden + linear(mean, w("value_mean_weight"))
        hidden = hidden + linear(known.shared, w("value_shared_weight")).unsqueeze(1)
        return self._linear("value_out", hidden.relu()).squeeze(-1)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return linear(x, self.get_parameter(f"{name}_weight"), self.get_parameter(f"{name}_bias"))

    def _norm(self, name: str, x: Tensor) -> Tensor:
        scale, shift = self.get_parameter(f"{name}_scale"), self.get_parameter(f"{name}_shift")
        return torch.nn.functional.layer_norm(x, x.shape[-1:], scale, shift, EPSILON)


class UnitLaw(NamedTuple):
    """The law of the units of one task on one cluster, for B x N of them.

    Either no unit is given (void), or a number of each resource within a box.
    """

    void: Tensor  # (B, N) log-probability of giving nothing
    placed: Tensor  # (B, N) log-probability of giving something
    levels: tuple[Tensor, ...]  # per resource (B, N, G + 1); or all combinations at once
    strides: tuple[int, ...]
    """Of a combination in the joint law; empty: resources are chosen apart."""

    def log_prob(self, units: Tensor) -> Tensor:
        """Of units (B, N, R)."""
        if self.strides:
            flat = (units * units.new_tensor(self.strides)).sum(-1, keepdim=True)
            chosen = self.levels[0].gather(-1, flat).squeeze(-1)
        else:
            parts = [
                level.gather(-1, units[..., r : r + 1]).squeeze(-1) for r, level in enumerate(self.levels)
            ]
            chosen = torch.stack(parts).sum(0)
        return torch.where((units == 0).all(-1), self.void, self.placed + chosen)

    def entropy(self) -> Tensor:
        """Of the whole law (B, N)."""
        inner = torch.stack([entropy(level) for level in self.levels]).sum(0)
        return -(self.void.exp() * self.void) - self.placed.exp() * (self.placed - inner)

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """Units (B, N, R), all 0 for void; without a generator the likeliest, void only if it is likelier than the rest."""
        if generator is None:
            is_placed = self.placed > self.void
            best = [level.argmax(-1) for level in self.levels]
        else:
            drawn = torch.empty_like(self.void).uniform_(generator=generator)
            is_placed = drawn < self.placed.exp()
            best = [(level + _gumbel(level, generator)).argmax(-1) for level in self.levels]
        if self.strides:
            left, best = best[0], []
            for stride in self.strides:
                best.append(left // stride)
                left = left % stride
        return torch.stack(best, -1) * is_placed.unsqueeze(-1)


def unit_law(architecture: HanArchitecture, scores: Tensor, least: Tensor, most: Tensor) -> UnitLaw:
    """The law of units between the least and the most (B, N, R), or void; only void where the box is empty."""
    device, grid = scores.device, architecture.most
    boxes = []
    for r, size in enumerate(grid):
        number = torch.arange(size + 1, device=device)
        inside = (number >= least[..., r, None]) & (number <= most[..., r, None])
        boxes.append(inside | (architecture.masks == PENALTY))
    if architecture.units == JOINT:
        return _joint_law(grid, scores, boxes)
    parts = torch.split(scores[..., 1:], [size + 1 for size in grid], -1)
    masked = [part.masked_fill(~box, NEVER) for part, box in zip(parts, boxes, strict=True)]
    totals = [part.logsumexp(-1) for part in masked]
    fits = torch.stack([box.any(-1) for box in boxes]).all(0)
    total = torch.stack(totals).sum(0).masked_fill(~fits, NEVER)
    both = torch.stack([scores[..., 0], total], -1).log_softmax(-1)
    levels = tuple(part - total.unsqueeze(-1) for part, total in zip(masked, totals, strict=True))
    return UnitLaw(both[..., 0], both[..., 1], levels, ())


def _joint_law(grid: tuple[int, ...], scores: Tensor, boxes: list[Tensor]) -> UnitLaw:
    strides: list[int] = []
    inside = boxes[0]
    for box in boxes[1:]:
        inside = (inside.unsqueeze(-1) & box.unsqueeze(-2)).flatten(-2)
    size = 1
    for most in reversed(grid):
        strides.insert(0, size)
        size *= most + 1
    inside = inside.index_fill(-1, torch.zeros(1, dtype=torch.int64, device=inside.device), False)
    masked = scores.masked_fill(~inside, NEVER)
    total = masked.logsumexp(-1)
    fits = total.masked_fill(~inside.any(-1), NEVER)
    both = torch.stack([scores[..., 0], fits], -1).log_softmax(-1)
    return UnitLaw(both[..., 0], both[..., 1], (masked - total.unsqueeze(-1),), tuple(strides))


def pick(log_probs: Tensor, generator: torch.Generator | None) -> Tensor:
    """A slot (B, N) drawn from the pointer, or the likeliest."""
    scores = log_probs if generator is None else log_probs + _gumbel(log_probs, generator)
    return scores.argmax(-1)


def entropy(log_probs: Tensor) -> Tensor:
    """Of laws over the last axis; what is masked counts 0."""
    return -(log_probs.exp() * log_probs.clamp_min(-100.0)).sum(-1)


def _gumbel(like: Tensor, generator: torch.Generator) -> Tensor:
    drawn = torch.empty_like(like).exponential_(generator=generator)
    return -drawn.clamp_min_(1e-30).log_()


def _trimmed(seen: Seen) -> Seen:
    """Without rows of waiting tasks that no graph of the batch uses."""
    if seen.waiting.device.type != "cpu":  # asking would wait for the device
        return seen
    used = max(1, int(seen.slot.max()) + 1)
    return seen._replace(**{name: getattr(seen, name)[:, :used] for name in ("waiting", "least", "top")})


def _headed(x: Tensor, heads: int) -> Tensor:
    """Embeddings (..., h) as (..., heads, h / heads)."""
    return x.view(*x.shape[:-1], heads, -1)


def _members(slot: Tensor, count: int) -> Tensor:
    """Whether a waiting task is in a slot of a cluster (B, N, M)."""
    found = torch.zeros((*slot.shape[:2], count + 1), dtype=torch.bool, device=slot.device)
    return found.scatter_(2, torch.where(slot < 0, count, slot), True)[..., :count]


def _rows(table: Tensor, row: Tensor) -> Tensor:
    """Rows (B, N, P, F) of a table (B, M, F)."""
    flat = row.flatten(1).unsqueeze(-1).expand(-1, -1, table.shape[-1])
    return table.gather(1, flat).view(*row.shape, table.shape[-1])


def _orthogonal(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Orthogonal rows or columns, in double precision so that all machines agree."""
    rows, columns = shape
    drawn = torch.randn((max(rows, columns), min(rows, columns)), generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(drawn)
    q = q * r.diagonal().sign()
    return (q if rows >= columns else q.T).float()
