"""The shape of a graph net, and how a flat observation falls into its blocks. Loads neither torch nor numba."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.errors import InputError

MAX_HIDDEN = 1024
LEFT = 3
"""Features of what is left of a queue once earlier devices have taken from it."""
DRAINED = -1e9
"""Logit of a kind that earlier devices have taken all of."""


class Blocks(NamedTuple):
    """The parts of a batch of observations; arrays or tensors alike."""

    world: Any  # (N, W)
    kinds: Any  # (N, K, C) the first column is the length of the queue, the second 1 where a kind is
    devices: Any  # (N, D, V) the first column is the batch, 0 where no device is
    pairs: Any  # (N, D, K, P) the first column is 1 where the device can run the kind
    edges: Any  # (N, K, K) expected tasks of the second kind after one of the first


@dataclass(frozen=True)
class GraphArchitecture:
    """A message-passing net over kinds that scores every (device, kind) pair and idling.

    Devices choose in order; each sees what those before it leave in the queues.
    """

    world: int
    """Features of the world as a whole."""
    kind: int
    """Features of every kind."""
    device: int
    """Features of every device."""
    pair: int
    """Features of every device with every kind."""
    hidden: int = 48
    """Width of every embedding."""
    rounds: int = 2
    """Messages along the edges, both ways, this often."""
    net: str = "graph"

    def __post_init__(self) -> None:
        for name in ("world", "kind", "device", "pair", "hidden"):
            size = getattr(self, name)
            if type(size) is not int or not 1 <= size <= MAX_HIDDEN:
                raise InputError(f"expected a whole number from 1 to {MAX_HIDDEN}, got {size!r}", field=name)
        if type(self.rounds) is not int or not 0 <= self.rounds <= 8:
            raise InputError(f"expected 0 to 8 rounds, got {self.rounds!r}", field="rounds")
        if self.net != "graph":
            raise InputError(f"expected 'graph', got {self.net!r}", field="net")

    @property
    def num_features(self) -> int:
        """Distinct features; how many numbers they make depends on the problem."""
        return self.world + self.kind + self.device + self.pair

    @property
    def num_heads(self) -> int:
        """0: as many as the problem has devices."""
        return 0

    @property
    def num_choices(self) -> int:
        """0: as many as the problem has kinds, and idling."""
        return 0

    @property
    def labels(self) -> dict[str, int]:
        """Fields of a card that name parts of this, with their sizes."""
        sizes = dict.fromkeys(("features", "scales", "ranges"), self.num_features)
        return sizes | {"heads": self.num_heads, "choices": self.num_choices}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor, in order."""
        h = self.hidden
        shapes: dict[str, tuple[int, ...]] = {"kind_weight": (h, self.kind), "kind_bias": (h,)}
        for r in range(self.rounds):
            shapes |= {f"own_weight_{r}": (h, h), f"after_weight_{r}": (h, h), f"before_weight_{r}": (h, h)}
            shapes |= {f"round_bias_{r}": (h,)}
        shapes |= {"device_weight": (h, self.device), "device_bias": (h,)}
        shapes |= {"world_weight": (h, self.world + 3 * h), "world_bias": (h,)}
        shapes |= {"pair_weight": (h, self.pair), "pair_kind_weight": (h, h), "pair_device_weight": (h, h)}
        shapes |= {"pair_world_weight": (h, h), "pair_left_weight": (h, LEFT), "pair_bias": (h,)}
        shapes |= {"pair_out": (1, h)}
        shapes |= {"idle_device_weight": (h, h), "idle_world_weight": (h, h), "idle_left_weight": (h, LEFT)}
        shapes |= {"idle_bias": (h,), "idle_out": (1, h), "idle_out_bias": (1,)}
        shapes |= {"value_weight": (h, h), "value_bias": (h,), "value_out": (1, h), "value_out_bias": (1,)}
        return shapes

    def size(self, num_kinds: int, num_devices: int) -> int:
        """Length of an observation with this many kinds and devices."""
        pairs = num_devices * num_kinds * self.pair
        return self.world + num_kinds * self.kind + num_devices * self.device + pairs + num_kinds**2

    def blocks(self, observation: Any, num_kinds: int, num_devices: int) -> Blocks:
        """Views of the parts of flat observations (N, F)."""
        if observation.shape[1] != self.size(num_kinds, num_devices):
            raise InputError(
                f"expected {self.size(num_kinds, num_devices)} numbers for {num_kinds} kinds and "
                f"{num_devices} devices, got {observation.shape[1]}",
                field="observation",
            )
        ends = [self.world]
        for part in (num_kinds * self.kind, num_devices * self.device, num_devices * num_kinds * self.pair):
            ends.append(ends[-1] + part)
        kinds, devices, pairs, edges = (
            observation[:, first:last] for first, last in zip(ends, [*ends[1:], None], strict=True)
        )
        return Blocks(
            observation[:, : self.world],
            kinds.reshape(-1, num_kinds, self.kind),
            devices.reshape(-1, num_devices, self.device),
            pairs.reshape(-1, num_devices, num_kinds, self.pair),
            edges.reshape(-1, num_kinds, num_kinds),
        )
