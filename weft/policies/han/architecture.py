"""The shape of a net that places tasks on clusters and gives them units. Loads neither torch nor numba."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from weft.errors import InputError

MAX_WIDTH = 1024
MAX_LAYERS = 8
MAX_UNITS = 256
ENCODERS = ("han", "mlp")
HAN, MLP = ENCODERS
POINTERS = ("pointer", "uniform", "fifo")
POINTER, UNIFORM, FIFO = POINTERS
UNITS = ("factorised", "joint")
FACTORISED, JOINT = UNITS
CRITICS = ("agent", "central")
AGENT, CENTRAL = CRITICS
MASKS = ("box", "penalty")
BOX, PENALTY = MASKS
MODES = ("sampled", "greedy", "mixed")
"""How a trained policy acts: it draws, it takes what is likeliest, or it draws tasks and takes the likeliest units."""

NODES = ("cluster", "waiting", "running", "shortcut")
RELATIONS = ("waiting_cluster", "running_cluster", "cluster_waiting", "cluster_shortcut")
"""Relations over which attention is spread; a running task and a shortcut have one neighbour, or one each."""
MLP_LAYERS = 4

SIZES = ("cluster", "waiting", "running", "hidden", "heads", "layers", "transformer")
WORDS = ("grid", "encoder", "pointer", "units", "critic", "masks", "net")
"""Fields of a card that are numbers, and those that are words."""

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class HanArchitecture:
    """Attention between clusters, waiting and running tasks, then a pointer and a head for units.

    After TapFinger (Li et al., 2023), with a node's own features kept in every layer. All clusters share all
    weights, so that any number of them can be acted for.
    """

    cluster: int
    """Features of a cluster."""
    waiting: int
    """Features of a waiting task."""
    running: int
    """Features of a running task."""
    grid: str
    """Most units of every resource that a task may be given, as ``16x16``."""
    hidden: int = 32
    """Width of every embedding."""
    heads: int = 4
    """Heads of attention."""
    layers: int = 2
    """Layers of graph attention."""
    transformer: int = 0
    """Transformer layers over the waiting tasks of a cluster, before the pointer."""
    encoder: str = HAN
    """``han``, or ``mlp``: four layers over the features of task and cluster, which see no other task."""
    pointer: str = POINTER
    """``pointer``, ``uniform`` (all tasks are equally likely) or ``fifo`` (the one that waited longest)."""
    units: str = FACTORISED
    """``factorised``: one choice per resource, and whether to place at all; ``joint``: one over all combinations."""
    critic: str = AGENT
    """A value per ``agent``, or a ``central`` one for all."""
    masks: str = BOX
    """``box``: only units that fit can be chosen; ``penalty``: any, and what does not fit is void, at a cost."""
    net: str = "han"

    def __post_init__(self) -> None:
        for name in ("cluster", "waiting", "running", "hidden", "heads"):
            _whole(getattr(self, name), name, 1, MAX_WIDTH)
        _whole(self.layers, "layers", 1, MAX_LAYERS)
        _whole(self.transformer, "transformer", 0, MAX_LAYERS)
        if self.hidden % self.heads:
            raise InputError(
                f"expected a multiple of the {self.heads} heads, got {self.hidden}", field="hidden"
            )
        known = (
            ("encoder", ENCODERS),
            ("pointer", POINTERS),
            ("units", UNITS),
            ("critic", CRITICS),
            ("masks", MASKS),
            ("net", ("han",)),
        )
        for name, words in known:
            if getattr(self, name) not in words:
                raise InputError(
                    f"expected {' or '.join(words)}, got {getattr(self, name)!r:.60}", field=name
                )
        if self.units == JOINT and prod(most + 1 for most in self.most) > MAX_WIDTH:
            raise InputError(
                f"expected at most {MAX_WIDTH} combinations of units, got grid {self.grid}: "
                "use the factorised head",
                field="units",
            )

    @property
    def most(self) -> tuple[int, ...]:
        """Most units of every resource."""
        parts = self.grid.split("x") if isinstance(self.grid, str) else ()
        if not parts or not all(p.isdecimal() and 1 <= int(p) <= MAX_UNITS for p in parts):
            raise InputError(
                f"expected numbers from 1 to {MAX_UNITS} as in 16x16, got {self.grid!r:.60}", field="grid"
            )
        return tuple(int(part) for part in parts)

    @property
    def mix(self) -> int:
        """Width of what weighs the relations of a node."""
        return max(8, self.hidden // 4)

    @property
    def levels(self) -> int:
        """Outputs of the head for units: void and every number of every resource, or every combination."""
        if self.units == JOINT:
            return prod(most + 1 for most in self.most)
        return 1 + sum(most + 1 for most in self.most)

    @property
    def labels(self) -> dict[str, int]:
        """Fields of a card that name parts of this, with their sizes."""
        sizes = dict.fromkeys(("features", "scales", "ranges"), self.cluster + self.waiting + self.running)
        return sizes | {"heads": 0, "choices": 0}

    def shapes(self) -> Shapes:
        """Name and shape of every tensor, in order."""
        encoder = self._mlp() if self.encoder == MLP else self._han()
        return encoder | self._transformer() | self._heads()

    def _han(self) -> Shapes:
        h = self.hidden
        found: Shapes = {}
        for node in NODES[:3]:
            found |= _linear(f"{node}_in", h, getattr(self, node))
        found["shortcut_in"] = (h,)
        for layer in range(self.layers):
            for node in self.nodes_of(layer):
                found |= _linear(f"l{layer}_{node}", h, h)
                found |= _linear(f"l{layer}_{node}_mix", self.mix, h)
                found[f"l{layer}_{node}_mix_query"] = (self.mix,)
                found |= _norm(f"l{layer}_{node}_norm", h)
            if layer == self.layers - 1:
                found |= _linear(f"l{layer}_running", h, h)
            for relation in RELATIONS:
                found[f"l{layer}_{relation}_from"] = (h,)
                found[f"l{layer}_{relation}_to"] = (h,)
        return found

    def nodes_of(self, layer: int) -> tuple[str, ...]:
        """Which nodes a layer renews; nothing reads running tasks after the last one."""
        return tuple(node for node in NODES if node != "running" or layer < self.layers - 1)

    def _mlp(self) -> Shapes:
        h = self.hidden
        found = _linear("cluster_in", h, self.cluster + self.running)
        found |= _linear("mlp0", h, self.waiting + self.cluster + self.running)
        for layer in range(1, MLP_LAYERS):
            found |= _linear(f"mlp{layer}", h, h)
        return found

    def _transformer(self) -> Shapes:
        h = self.hidden
        found: Shapes = {}
        for layer in range(self.transformer):
            found |= _linear(f"t{layer}_qkv", 3 * h, h) | _linear(f"t{layer}_out", h, h)
            found |= _norm(f"t{layer}_norm", h)
            found |= _linear(f"t{layer}_wide", 2 * h, h) | _linear(f"t{layer}_narrow", h, 2 * h)
            found |= _norm(f"t{layer}_last_norm", h)
        return found

    def _heads(self) -> Shapes:
        h = self.hidden
        found: Shapes = {}
        if self.pointer == POINTER:
            found |= {f"pointer_{part}_weight": (h, h) for part in ("slot", "mean", "cluster")}
            found |= {"pointer_bias": (h,), "pointer_out": (1, h)}
        found |= {"units_slot_weight": (h, h), "units_cluster_weight": (h, h)}
        found |= {"units_task_weight": (h, self.waiting), "units_free_weight": (h, self.cluster)}
        found |= {"units_bias": (h,)} | _linear("units_out", self.levels, h)
        found["units_direct"] = (self.levels, self.waiting)
        found |= {f"value_{part}_weight": (h, h) for part in ("cluster", "mean", "shared")}
        return found | {"value_bias": (h,)} | _linear("value_out", 1, h)


def _linear(name: str, out: int, into: int) -> Shapes:
    return {f"{name}_weight": (out, into), f"{name}_bias": (out,)}


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}_scale": (width,), f"{name}_shift": (width,)}


def _whole(size: object, name: str, low: int, high: int) -> None:
    if type(size) is not int or not low <= size <= high:
        raise InputError(f"expected a whole number from {low} to {high}, got {size!r:.60}", field=name)
