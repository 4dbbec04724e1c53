"""Elastic tasks on several clusters: each is given units of every resource, and more units may make it faster.

Time is in world steps. What happens (arrivals, types, links, noise) is a function of problem and seed
alone; nothing here knows who decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.columns import Floats, Ints

LAWS = ("constant", "root", "table")
"""How the rate depends on progress p: not at all; with sqrt(value - p); by a table over equal parts of [0, 1)."""
DRAWN_LINKS = ("subset", "bandwidth")
"""How tasks are connected to clusters: as many as drawn from 1..N; where a drawn bandwidth reaches a threshold."""
TOLD = "told"
"""With each task that arrives: nothing is drawn, and a cluster may have less than some tasks need."""
LINKS = (*DRAWN_LINKS, TOLD)
PENDING = ("slots", "earliest")
"""How pending sets are filled: free slots after a world step; at once, so that a set has the earliest tasks."""
STEPPINGS = ("single", "multi")
"""Whether every cluster takes one task per world step, or goes on until none takes one."""
CONFLICTS = ("lowest", "softmax", "count", "own")
"""Who gets a task that several clusters pick: the lowest index; by Bayes with a prior over room, as a softmax or a
share; as the allocator says, and by softmax where none is asked."""
NONE_GIVEN: Ints = np.zeros((0, 3), np.int64)
LATEST = 10_000_000
"""World steps after which no task arrives."""
MOST_UNITS, MOST_CAPACITY = 256, 1024
"""Units of a resource that a task may have, and that a cluster may have: tables and rules go through all of them."""
MOST_TASK_STEPS = 100_000
"""World steps that a task with the least units may take."""
MOST_CLUSTERS = 62
"""Connections are kept as bits of one word."""


@dataclass(frozen=True, eq=False)
class TaskType:
    """Tasks of one type: what they need, and how fast units make them.

    With units u and progress p, a world step adds ``max(0, rate[u] * law(p) + base[u] + noise)``, and nothing below
    ``least``. Tables have one axis per resource, 0..most long; an axis of length 1 has no influence.
    """

    name: str
    least: tuple[int, ...]
    """Units below which nothing is done, per resource."""
    most: tuple[int, ...]
    """Units that may be given, per resource; equal to ``least`` where a resource is rigid."""
    rate: Floats  # (most + 1 or 1, ...)
    base: Floats  # the same shape
    law: str = "constant"
    value: float = 1.2
    """The number under the root."""
    curve: tuple[float, ...] = ()
    """Factors over equal parts of [0, 1), for ``table``."""
    noise: float = 0.0
    """Noise is uniform between this below and above 0."""
    switching: float = 1.0
    """What a step's progress is multiplied by where units have changed, besides what the problem says."""

    def __post_init__(self) -> None:
        where = f"types.{self.name}"
        if self.law not in LAWS:
            raise InputError(f"expected one of {', '.join(LAWS)}, got {self.law!r}", field=f"{where}.law")
        if self.law == "table" and not self.curve:
            raise InputError("expected factors of the rate for a law by table", field=f"{where}.curve")
        if len(self.least) != len(self.most) or not self.least:
            raise InputError(
                f"expected as many numbers in least and most, got {self.least} and {self.most}", field=where
            )
        for least, most in zip(self.least, self.most, strict=True):
            if not 0 <= least <= most:
                raise InputError(f"expected 0 <= least <= most, got {least} and {most}", field=where)
            if least < most > MOST_UNITS:
                raise InputError(
                    f"expected at most {MOST_UNITS} units of a resource, got {most}", field=f"{where}.most"
                )
        if not any(self.least):
            raise InputError("expected at least one unit of some resource", field=f"{where}.least")
        object.__setattr__(self, "rate", self._table(self.rate, "rate"))
        object.__setattr__(self, "base", self._table(self.base, "base"))
        if self.rate.shape != self.base.shape:
            raise InputError(
                f"expected equal shapes, got {self.rate.shape} and {self.base.shape}", field=f"{where}.base"
            )
        if not (self.noise >= 0 and np.isfinite(self.noise)):
            raise InputError(f"expected a number >= 0, got {self.noise}", field=f"{where}.noise")
        if not 0 <= self.switching <= 1:
            raise InputError(f"expected a number in 0..1, got {self.switching}", field=f"{where}.switching")
        self._check_law(where)
        self._check_end(where)

    def _check_law(self, where: str) -> None:
        if not np.isfinite(self.value) or (self.law == "root" and self.value <= 0):
            raise InputError(f"expected a finite number > 0, got {self.value}", field=f"{where}.value")
        if not all(0 < one < np.inf for one in self.curve):
            wrong = next(one for one in self.curve if not 0 < one < np.inf)
            raise InputError(f"expected finite factors > 0, got {wrong}", field=f"{where}.curve")

    def _check_end(self, where: str) -> None:
        """Refuse tasks that would run for ever, or nearly, with what they need."""
        if self.steps(self.least, MOST_TASK_STEPS + 1) <= MOST_TASK_STEPS:
            return
        low = self.factor(1.0) * self._at(self.rate, self.least) + self._at(self.base, self.least)
        mean = (
            (max(0.0, low + self.noise) ** 2 / (4 * self.noise)) if self.noise > abs(low) else max(0.0, low)
        )
        if not mean * MOST_TASK_STEPS >= 1.0:  # on average, with noise that is cut off below 0
            raise InputError(
                f"expected a task that ends within {MOST_TASK_STEPS:,} world steps with {_shown(self.least)} units",
                field=f"{where}.rate",
            )

    def _at(self, table: Floats, units: tuple[int, ...]) -> float:
        return float(table[tuple(0 if size == 1 else u for u, size in zip(units, table.shape, strict=True))])

    def _table(self, values: npt.ArrayLike, key: str) -> Floats:
        table = np.array(values, np.float64)
        where = f"types.{self.name}.{key}"
        is_right = table.ndim == len(self.most) and all(
            size in (1, most + 1) for size, most in zip(table.shape, self.most, strict=True)
        )
        if not is_right:
            wanted = " x ".join(str(most + 1) for most in self.most)
            raise InputError(
                f"expected a table of {wanted} (or 1 along an axis), got {table.shape}", field=where
            )
        if not np.isfinite(table).all():
            raise InputError("expected finite numbers", field=where)
        table.setflags(write=False)
        return table

    def factor(self, progress: float) -> float:
        """What the rate is multiplied by at this progress."""
        if self.law == "root":
            return float(np.sqrt(max(0.0, self.value - progress)))
        if self.law == "table":
            return float(self.curve[min(int(progress * len(self.curve)), len(self.curve) - 1)])
        return 1.0

    def gain(self, units: tuple[int, ...], progress: float = 0.0, noise: float = 0.0) -> float:
        """Progress of one world step with these units."""
        if any(u < low for u, low in zip(units, self.least, strict=True)):
            return 0.0
        return max(
            0.0, self._at(self.rate, units) * self.factor(progress) + self._at(self.base, units) + noise
        )

    def steps(self, units: tuple[int, ...], most: int = 1_000_000) -> int:
        """World steps from start to end with these units, without noise; ``most`` where it does not end."""
        if self.law == "constant":
            return _steps_at(self.gain(units), most)
        progress, count = 0.0, 0
        while progress < 1.0 and count < most:
            gained = self.gain(units, progress)
            if gained <= 0.0:
                return most
            progress += gained
            count += 1
        return count


def _steps_at(gain: float, most: int) -> int:
    """World steps with the same gain in each; added up one by one, as they are in an episode."""
    if gain * most < 0.5:
        return most
    count = min(most, int(1.0 / gain) + 2)
    return min(most, 1 + int(np.searchsorted(np.add.accumulate(np.full(count, gain)), 1.0)))


def _shown(units: tuple[int, ...]) -> str:
    return "x".join(str(one) for one in units)


@dataclass(frozen=True, eq=False)
class ElasticProblem:
    """Tasks that arrive at clusters, and the rules they are given units by."""

    capacity: Ints  # (num_clusters, num_resources)
    types: tuple[TaskType, ...]
    num_tasks: int
    arrival_rate: float
    """Expected arrivals per world step; a Poisson number arrives at each."""
    resources: tuple[str, ...] = ("cpu", "gpu")
    switching: float = 1.0
    """What a step's progress is multiplied by where the units of a running task have changed."""
    links: str = "subset"
    bandwidth: float = 10.0
    """Links have a bandwidth that is uniform between 0 and this;"""
    threshold: float = 5.0
    """with at least this much they connect. A task without any such link is connected to its best one."""
    pending: str = "slots"
    num_slots: int = 10
    """Tasks in the pending set of a cluster."""
    stepping: str = "single"
    conflicts: str = "lowest"
    weights: tuple[float, ...] = ()
    """How often types are drawn; empty: all alike."""
    name: str = "elastic"
    cluster_names: tuple[str, ...] = field(default=())
    arrivals: Ints = field(default_factory=lambda: NONE_GIVEN)  # (num_tasks, 3) or (0, 3)
    """World step, type and clusters (bit n: cluster n) of every task, in order of arrival; none: they are drawn."""

    def __post_init__(self) -> None:
        capacity = np.array(self.capacity, np.int64)
        if capacity.ndim != 2 or not capacity.size:
            raise InputError(f"expected clusters x resources, got shape {capacity.shape}", field="capacity")
        if not (capacity.min() >= 0 and capacity.max() <= MOST_CAPACITY):
            wrong = capacity.min() if capacity.min() < 0 else capacity.max()
            raise InputError(
                f"expected 0 to {MOST_CAPACITY} units of a resource, got {wrong}", field="capacity"
            )
        capacity.setflags(write=False)
        object.__setattr__(self, "capacity", capacity)
        if not self.cluster_names:
            object.__setattr__(self, "cluster_names", tuple(f"c{n}" for n in range(len(capacity))))
        arrivals = np.array(self.arrivals, np.int64)
        arrivals.setflags(write=False)
        object.__setattr__(self, "arrivals", arrivals)
        self._check_shapes()
        self._check_choices()
        self._check_numbers()
        self._check_arrivals()

    def _check_shapes(self) -> None:
        num_clusters, num_resources = self.capacity.shape
        if num_clusters > MOST_CLUSTERS:
            raise InputError(
                f"expected at most {MOST_CLUSTERS} clusters, got {num_clusters}", field="capacity"
            )
        if len(self.resources) != num_resources:
            raise InputError(
                f"expected {num_resources} names, got {', '.join(self.resources)}", field="resources"
            )
        if len(self.cluster_names) != num_clusters:
            raise InputError(
                f"expected {num_clusters} names, got {len(self.cluster_names)}", field="cluster_names"
            )
        if not self.types:
            raise InputError("expected at least one type of task", field="types")
        for one in self.types:
            if len(one.least) != num_resources:
                raise InputError(
                    f"expected {num_resources} resources, got {len(one.least)}",
                    field=f"types.{one.name}.least",
                )
            if not (self.capacity >= np.array(one.least)).all(axis=1).any():
                raise InputError("needs more than any cluster has", field=f"types.{one.name}.least")
        if self.weights and len(self.weights) != len(self.types):
            raise InputError(f"expected {len(self.types)} numbers, got {len(self.weights)}", field="weights")

    def _check_choices(self) -> None:
        for key, known in (
            ("links", LINKS), ("pending", PENDING), ("stepping", STEPPINGS), ("conflicts", CONFLICTS),
        ):  # fmt: skip
            if getattr(self, key) not in known:
                raise InputError(f"expected one of {', '.join(known)}, got {getattr(self, key)!r}", field=key)

    def _check_numbers(self) -> None:
        if self.num_tasks < 1:
            raise InputError(f"expected a whole number >= 1, got {self.num_tasks}", field="num_tasks")
        if self.num_slots < 1:
            raise InputError(f"expected a whole number >= 1, got {self.num_slots}", field="num_slots")
        if not 0 < self.arrival_rate <= 500:
            raise InputError(
                f"expected a number above 0, at most 500, got {self.arrival_rate}", field="arrival_rate"
            )
        if not 0 <= self.switching <= 1:
            raise InputError(f"expected a number in 0..1, got {self.switching}", field="switching")
        if any(w < 0 for w in self.weights) or (self.weights and sum(self.weights) <= 0):
            raise InputError(f"expected weights >= 0, some above, got {self.weights}", field="weights")

    def _check_arrivals(self) -> None:
        least = np.array([one.least for one in self.types], np.int64)
        fits = np.asarray((self.capacity[:, None, :] >= least).all(axis=2))  # (N, T)
        if not len(self.arrivals):
            if self.links != TOLD and not fits.all():
                small = self.cluster_names[int(np.argmin(fits.all(axis=1)))]
                raise InputError(
                    f"cluster {small} has less than a task needs, and tasks may be connected to it alone",
                    field="capacity",
                )
            return
        if self.arrivals.shape != (self.num_tasks, 3):
            raise InputError(
                f"expected step, type and clusters of {self.num_tasks} tasks, got shape {self.arrivals.shape}",
                field="arrivals",
            )
        step, kind, links = self.arrivals.T
        if step[0] < 0 or step[-1] > LATEST or (np.diff(step) < 0).any():
            raise InputError(f"expected steps from 0 to {LATEST:,}, in order", field="arrivals")
        if not ((kind >= 0) & (kind < len(self.types))).all():
            raise InputError(f"expected types below {len(self.types)}", field="arrivals")
        connected = (links[:, None] >> np.arange(self.num_clusters)) & 1 == 1  # (J, N)
        is_wrong = (links <= 0) | (links >= 1 << self.num_clusters) | (connected & ~fits.T[kind]).any(axis=1)
        if is_wrong.any():
            raise InputError(
                f"expected task {int(np.argmax(is_wrong))} connected to clusters that have what it needs",
                field="arrivals",
            )

    @property
    def num_clusters(self) -> int:
        """How many clusters there are, each with an agent."""
        return len(self.capacity)

    @property
    def num_resources(self) -> int:
        """How many resources a cluster has units of."""
        return len(self.resources)

    @property
    def grid(self) -> Ints:
        """The most units of each resource that any task may be given; (num_resources,)."""
        return np.array([one.most for one in self.types], np.int64).max(axis=0)

    def without_arrivals(self) -> ElasticProblem:
        """The problem as far as whoever decides may know it beforehand."""
        return replace(self, arrivals=NONE_GIVEN, links=TOLD) if len(self.arrivals) else self

    def replaced(self, **fields: object) -> ElasticProblem:
        """The problem with other values of some fields."""
        return replace(self, **fields)  # type: ignore[arg-type]


def insensitive(
    name: str, least: tuple[int, ...], most: tuple[int, ...], gain: float, noise: float = 0.0
) -> TaskType:
    """A type that gains the same in every step, whatever it is given."""
    shape = (1,) * len(least)
    return TaskType(name, least, most, np.zeros(shape), np.full(shape, gain), noise=noise)


def saturating(
    name: str, least: tuple[int, ...], most: tuple[int, ...], axis: int, scale: float, noise: float = 0.0
) -> TaskType:
    """A type whose rate is tanh(units of one resource / scale), and falls with progress as sqrt(1.2 - p)."""
    shape = [1] * len(least)
    shape[axis] = most[axis] + 1
    rate = np.tanh(np.arange(most[axis] + 1) / scale).reshape(shape)
    return TaskType(name, least, most, rate, np.zeros(shape), law="root", noise=noise)


def amdahl(
    name: str, least: tuple[int, ...], most: tuple[int, ...], steps: float, parallel: tuple[float, ...],
    noise: float = 0.0,
) -> TaskType:  # fmt: skip
    """A type that takes ``steps`` with one unit of each, of which a share per resource is divided by its units."""
    if not 0 <= sum(parallel) <= 1 or any(share < 0 for share in parallel) or len(parallel) != len(least):
        raise InputError(
            f"expected shares >= 0 that add up to at most 1, got {parallel}", field=f"types.{name}.parallel"
        )
    if not steps > 0:
        raise InputError(f"expected a number > 0, got {steps}", field=f"types.{name}.steps")
    shape = tuple(m + 1 if share > 0 else 1 for m, share in zip(most, parallel, strict=True))
    time = np.full(shape, 1.0 - sum(parallel))
    for axis, share in enumerate(parallel):
        units = np.maximum(np.arange(shape[axis]), 1.0).reshape(
            [-1 if a == axis else 1 for a in range(len(shape))]
        )
        time = time + share / units
    return TaskType(name, least, most, 1.0 / (steps * time), np.zeros(shape), noise=noise)
