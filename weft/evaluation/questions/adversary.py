"""Small problems that an adversary changes step by step: the instance, its moves, and its shrinking.

Numbers have two significant digits, so that a counterexample can be read and worked by hand. Edges
lead from a lower to a higher index: no move can make a cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from weft.errors import InputError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import Knobs, generate
from weft.model.graph import Bools, Floats, Ints, TaskGraph
from weft.model.problem import Problem

Rng = np.random.Generator

MEGABYTE = 1e6
MOST_SPREAD, MOST_TASKS, MOST_DEVICES = 1e6, 10_000, 1_000


@dataclass(frozen=True, eq=False)
class Instance:
    """One static problem in plain numbers, every device of a class of its own."""

    work: Floats  # (num_tasks,) seconds at speed 1
    own: Floats  # (num_tasks, num_devices) seconds there whatever the speed, NaN where work / speed holds
    speed: Floats  # (num_devices,)
    edges: Ints  # (num_edges, 2) source below target
    data: Floats  # (num_edges,) MB
    bandwidth: float

    @property
    def num_tasks(self) -> int:
        """Number of tasks."""
        return len(self.work)

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return len(self.speed)

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return len(self.data)

    @property
    def size(self) -> tuple[int, int, int, int]:
        """Tasks, devices, edges, run times of their own: smaller is simpler."""
        return self.num_tasks, self.num_devices, self.num_edges, int((~np.isnan(self.own)).sum())

    def problem(self, name: str = "stress") -> Problem:
        """The instance as a problem; writing it to a file and reading it changes nothing."""
        devices = [DeviceClass(f"d{i}", speed=speed) for i, speed in enumerate(self.speed.tolist())]
        graph = TaskGraph(
            self.work,
            self.edges[:, 0],
            self.edges[:, 1],
            self.data * MEGABYTE,
            classes=tuple(device.name for device in devices),
            times=self.own,
            name=name,
        )
        bandwidth = self.bandwidth * MEGABYTE
        return Problem(graph, Cluster.uniform(devices, [1] * len(devices), bandwidth=bandwidth))


@dataclass(frozen=True)
class Space:
    """Where the adversary may look."""

    tasks: int = 16
    """Most tasks."""
    devices: int = 4
    """Most devices."""
    spread: float = 10.0
    """Run times at speed 1 in s, speeds, data in MB and bandwidth in MB/s are from 1 to this."""
    is_related: bool = False
    """Whether run times follow one speed per device; else each task may have its own on each device."""

    def __post_init__(self) -> None:
        if not 3 <= self.tasks <= MOST_TASKS:
            raise InputError(f"expected 3 to {MOST_TASKS:,} tasks, got {self.tasks:,}", field="tasks")
        if not 2 <= self.devices <= MOST_DEVICES:
            raise InputError(f"expected 2 to {MOST_DEVICES:,} devices, got {self.devices:,}", field="devices")
        if not 1 < self.spread <= MOST_SPREAD:
            raise InputError(
                f"expected more than 1 and at most {MOST_SPREAD:g}, got {self.spread:g}", field="spread"
            )

    @property
    def middle(self) -> float:
        """The middle of the spread, by ratio."""
        return float(self.spread**0.5)

    def rounded(self, value: float) -> float:
        """The value within the spread, with two significant digits."""
        return min(max(float(f"{value:.2g}"), 1.0), self.spread)

    def rounded_all(self, values: Floats) -> Floats:
        """The same for an array; what is not given stays so."""
        flat = [value if np.isnan(value) else self.rounded(value) for value in values.ravel().tolist()]
        return np.array(flat, dtype=np.float64).reshape(values.shape)

    def scaled(self, value: float, rng: Rng) -> float:
        """The value times a log-normal factor, now and then anything within the spread."""
        if rng.random() < 0.2:
            return self.rounded(self.spread ** rng.random())
        return self.rounded(value * float(np.exp(0.7 * rng.standard_normal())))


LEAST = (1, 1, 0, 0)
"""Least tasks, devices, edges and own run times of an instance."""


# -- parameters -----------------------------------------------------------------------------------

FAMILIES = ("layered", "fork-join", "erdos-renyi", "in-tree", "out-tree")


@dataclass(frozen=True)
class Parameters:
    """What an instance is drawn from: the family and knobs of its graph, the spread of its cluster."""

    family: str
    tasks: int
    devices: int
    parallelism: float
    density: float
    spread: float
    """Coefficient of variation of work, data and speeds."""
    ccr: float
    heterogeneity: float


def draw_parameters(space: Space, rng: Rng) -> Parameters:
    """Anywhere in the space."""
    return Parameters(
        family=FAMILIES[rng.integers(len(FAMILIES))],
        tasks=_between(rng, 3, space.tasks),
        devices=_between(rng, 2, space.devices),
        parallelism=float(np.exp(rng.uniform(-1.0, 1.0))),
        density=float(rng.uniform(1.0, 3.0)),
        spread=float(rng.uniform(0.1, 2.0)),
        ccr=float(10.0 ** rng.uniform(-1.0, 1.0)),
        heterogeneity=0.0 if space.is_related else float(rng.uniform(0.0, 2.0)),
    )


def _between(rng: Rng, least: int, most: int) -> int:
    return int(rng.integers(min(least, most), most + 1))


def changed_parameters(parameters: Parameters, space: Space, rng: Rng) -> Parameters:
    """The same with one or two drawn again."""
    other = draw_parameters(space, rng)
    names = list(Parameters.__dataclass_fields__)
    picked = [names[i] for i in rng.choice(len(names), 2, replace=False).tolist()]
    return replace(parameters, **{name: getattr(other, name) for name in picked})


def draw_instance(parameters: Parameters, space: Space, rng: Rng) -> Instance:
    """One instance of these parameters."""
    p = parameters
    knobs = Knobs(
        parallelism=p.parallelism,
        density=p.density,
        mean_work=space.middle,
        work_cv=p.spread,
        data_cv=p.spread,
        ccr=p.ccr,
        bandwidth=space.middle,
        kinds=("task",),
        classes=tuple(f"d{i}" for i in range(p.devices)),
        heterogeneity=p.heterogeneity,
    )
    graph = generate(p.family, p.tasks, seed=int(rng.integers(1 << 31)), knobs=knobs)
    own = graph.times if p.heterogeneity else np.full(graph.times.shape, np.nan)
    return Instance(
        work=space.rounded_all(graph.work),
        own=space.rounded_all(own),
        speed=space.rounded_all(space.middle * np.exp(p.spread / 2.0 * rng.standard_normal(p.devices))),
        edges=np.stack([graph.sources, graph.targets], axis=1).astype(np.int64),
        data=space.rounded_all(graph.data),
        bandwidth=space.rounded(space.middle),
    )


# -- moves ----------------------------------------------------------------------------------------

Move = Callable[[Instance, Space, Rng], "Instance | None"]
"""A neighbour of an instance; None where the move cannot be made."""


def neighbour(instance: Instance, space: Space, rng: Rng) -> Instance:
    """The instance after one to three random moves."""
    found = instance
    for _ in range(1 + int(rng.geometric(0.6)) % 3):
        move = MOVES[int(rng.integers(len(MOVES)))]
        found = move(found, space, rng) or found
    return found


def _put(values: Floats, at: int, value: float) -> Floats:
    changed = values.copy()
    changed[at] = value
    return changed


def change_work(instance: Instance, space: Space, rng: Rng) -> Instance:
    """Another run time for one task, on all devices without a time of their own."""
    i = int(rng.integers(instance.num_tasks))
    return replace(instance, work=_put(instance.work, i, space.scaled(float(instance.work[i]), rng)))


def change_own(instance: Instance, space: Space, rng: Rng) -> Instance | None:
    """Another run time for one task on one device."""
    if space.is_related:
        return None
    i, d = int(rng.integers(instance.num_tasks)), int(rng.integers(instance.num_devices))
    present = instance.own[i, d]
    base = float(instance.work[i] / instance.speed[d] if np.isnan(present) else present)
    own = instance.own.copy()
    own[i, d] = space.scaled(base, rng)
    return replace(instance, own=own)


def change_data(instance: Instance, space: Space, rng: Rng) -> Instance | None:
    """More or less data on one edge, now and then none."""
    if not instance.num_edges:
        return None
    e = int(rng.integers(instance.num_edges))
    base = float(instance.data[e]) or 1.0
    value = 0.0 if rng.random() < 0.1 else space.scaled(base, rng)
    return replace(instance, data=_put(instance.data, e, value))


def change_speed(instance: Instance, space: Space, rng: Rng) -> Instance:
    """A faster or slower device."""
    d = int(rng.integers(instance.num_devices))
    return replace(instance, speed=_put(instance.speed, d, space.scaled(float(instance.speed[d]), rng)))


def change_bandwidth(instance: Instance, space: Space, rng: Rng) -> Instance:
    """Faster or slower links."""
    return replace(instance, bandwidth=space.scaled(instance.bandwidth, rng))


def add_edge(instance: Instance, space: Space, rng: Rng) -> Instance | None:
    """One edge more between two tasks that have none."""
    if instance.num_tasks < 2:
        return None
    ends = np.sort(rng.choice(instance.num_tasks, 2, replace=False))
    if (instance.edges == ends).all(axis=1).any():
        return None
    return _with_edges(instance, [(int(ends[0]), int(ends[1]))], space, rng)


def _with_edges(instance: Instance, ends: list[tuple[int, int]], space: Space, rng: Rng) -> Instance:
    """More edges, with data like that of the others."""
    usual = float(np.median(instance.data)) if instance.num_edges else space.middle
    data = [space.scaled(usual, rng) for _ in ends]
    edges = np.concatenate([instance.edges, np.array(ends, dtype=np.int64).reshape(-1, 2)])
    return replace(instance, edges=edges, data=np.concatenate([instance.data, data]))


def drop_edge(instance: Instance, space: Space, rng: Rng) -> Instance | None:
    """One edge fewer."""
    return without_edge(instance, int(rng.integers(instance.num_edges))) if instance.num_edges else None


def add_task(instance: Instance, space: Space, rng: Rng) -> Instance | None:
    """One task more, after an earlier one and before a later one where there are any."""
    n = instance.num_tasks
    if n >= space.tasks:
        return None
    at = int(rng.integers(n + 1))
    like = int(rng.integers(n))
    grown = replace(
        instance,
        work=np.insert(instance.work, at, instance.work[like]),
        own=np.insert(instance.own, at, instance.own[like], axis=0),
        edges=instance.edges + (instance.edges >= at),
    )
    ends = [(int(rng.integers(at)), at)] if at else []
    ends += [(at, int(rng.integers(at + 1, n + 1)))] if at < n and rng.random() < 0.5 else []
    return _with_edges(grown, ends, space, rng)


def drop_task(instance: Instance, space: Space, rng: Rng) -> Instance | None:
    """One task fewer."""
    n = instance.num_tasks
    return without_task(instance, int(rng.integers(n))) if n > 1 else None


def add_device(instance: Instance, space: Space, rng: Rng) -> Instance | None:
    """One device more, like one that is there."""
    if instance.num_devices >= space.devices:
        return None
    like = int(rng.integers(instance.num_devices))
    speed = np.append(instance.speed, instance.speed[like])
    return replace(instance, speed=speed, own=np.hstack([instance.own, instance.own[:, [like]]]))


def drop_device(instance: Instance, space: Space, rng: Rng) -> Instance | None:
    """One device fewer."""
    m = instance.num_devices
    return without_device(instance, int(rng.integers(m))) if m > 1 else None


NUMBERS: tuple[Move, ...] = (change_work, change_own, change_data)
MOVES: tuple[Move, ...] = (
    *NUMBERS * 3,
    change_speed,
    change_bandwidth,
    add_edge,
    drop_edge,
    add_task,
    drop_task,
    add_device,
    drop_device,
)
"""Moves of the annealing; those that change one number come three times as often."""


# -- shrinking ------------------------------------------------------------------------------------


def without_task(instance: Instance, i: int) -> Instance:
    """The instance without one task and its edges."""
    kept: Bools = (instance.edges != i).all(axis=1)
    edges = instance.edges[kept]
    return replace(
        instance,
        work=np.delete(instance.work, i),
        own=np.delete(instance.own, i, axis=0),
        edges=edges - (edges > i),
        data=instance.data[kept],
    )


def without_edge(instance: Instance, e: int) -> Instance:
    """The instance without one edge."""
    return replace(instance, edges=np.delete(instance.edges, e, axis=0), data=np.delete(instance.data, e))


def without_device(instance: Instance, d: int) -> Instance:
    """The instance without one device."""
    return replace(instance, speed=np.delete(instance.speed, d), own=np.delete(instance.own, d, axis=1))


def without_own(instance: Instance, k: int) -> Instance:
    """The instance in which one run time, the k-th of those of their own, follows the speed."""
    own = instance.own.copy()
    own[tuple(np.argwhere(~np.isnan(own))[k])] = np.nan
    return replace(instance, own=own)


REMOVALS: tuple[Callable[[Instance, int], Instance], ...] = (
    without_task,
    without_device,
    without_edge,
    without_own,
)
"""How to remove the k-th of each entry of :attr:`Instance.size`."""


def shrink(instance: Instance, holds: Callable[[Instance], bool]) -> Instance:
    """Remove tasks, devices, edges and own run times, one by one, as long as ``holds`` says yes."""
    before: tuple[int, ...] = ()
    while instance.size != before:
        before = instance.size
        for part, remove in enumerate(REMOVALS):
            k = 0
            while k < instance.size[part] > LEAST[part]:
                candidate = remove(instance, k)
                if holds(candidate):
                    instance = candidate
                else:
                    k += 1
    return instance
