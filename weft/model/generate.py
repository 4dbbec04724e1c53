"""Seeded task graphs: shape families under one set of knobs, and instances of published studies.

A shape (``shapes``) says which tasks feed which; the knobs say how long tasks run and how much data edges
carry. Structure, work, data, kinds and times are drawn from
streams of their own, so a change of one knob leaves the other draws alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weft.errors import InputError
from weft.model import applications
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Bools, Floats, Ints, TaskGraph
from weft.model.shapes import (
    Edges,
    Rng,
    block_model,
    chain,
    distinct,
    erdos_renyi,
    fork_join,
    in_tree,
    layered,
    mosaic,
    out_tree,
    pairs,
    phases,
)

GPU_KINDS = ("cnn", "transformer", "lm", "gan", "rl", "recsys")
"""Kinds of deep-learning work that the built-in GPU classes know."""
MOST_TASKS, MOST_SPREAD = 10_000_000, 1000.0
"""Limits of a graph: tasks; coefficients of variation and spreads."""
_STRUCTURE, _WORK, _DATA, _KIND, _TIMES, _LEVELS = range(6)


@dataclass(frozen=True)
class Knobs:
    """What a generated graph looks like besides its family and size."""

    parallelism: float = 1.0
    """Mean layer width over the square root of the size: 0.5 long and thin, 2 short and wide."""
    density: float = 2.0
    """Mean number of edges per task, as far as the shape leaves a choice (layered, erdos-renyi)."""
    jump: int = 1
    """How many layers an edge of a layered graph may span."""
    communities: int = 4
    """Number of equal communities of a block model."""
    p_in: float = 0.3
    """Probability of an edge between two tasks of one community of a block model."""
    p_out: float = 0.001
    """Probability of an edge between tasks of different communities of a block model."""
    cost: str = "log-normal"
    """Distribution of the work: log-normal or uniform."""
    mean_work: float = 10.0
    """Mean run time at speed 1, in seconds."""
    work_cv: float = 0.5
    """Coefficient of variation of the work; at most 0.577 if uniform."""
    level_spread: float = 0.0
    """How much tasks of different depth differ, in run time and in the data that they send: spread of the logarithms of
    two factors that tasks of one depth share."""
    mean_data: float = 1e8
    """Mean bytes per edge; counts only without ``ccr``."""
    data_cv: float = 0.5
    """Coefficient of variation of the log-normal data."""
    ccr: float | None = None
    """Mean transfer time of an edge at ``bandwidth`` over mean run time of a task, met exactly;
    for other links see :meth:`Problem.with_ccr <weft.model.problem.Problem.with_ccr>`."""
    bandwidth: float = 1e9
    """Bytes per second at which ``ccr`` holds."""
    kinds: tuple[str, ...] = GPU_KINDS
    """Names of the task kinds."""
    kind_by: str = "random"
    """Kinds drawn per task (random), or one after another by the depth of the task (level)."""
    classes: tuple[str, ...] = ()
    """Device classes to give run times for; none: run times follow work and the cluster's speeds."""
    heterogeneity: float = 0.0
    """Coefficient of variation of the log-normal factor (mean 1) per task and class."""

    def __post_init__(self) -> None:
        for name in ("parallelism", "mean_work", "bandwidth"):
            _refuse(not 0 < getattr(self, name) < np.inf, name, "a finite number > 0", getattr(self, name))
        for name in ("density", "mean_data"):
            _refuse(not 0 <= getattr(self, name) < np.inf, name, "a finite number >= 0", getattr(self, name))
        for name in ("work_cv", "data_cv", "heterogeneity", "level_spread"):
            value = getattr(self, name)
            _refuse(not 0 <= value <= MOST_SPREAD, name, f"a number from 0 to {MOST_SPREAD:g}", value)
        for name in ("p_in", "p_out"):
            _refuse(not 0 <= getattr(self, name) <= 1, name, "a probability", getattr(self, name))
        for name in ("jump", "communities"):
            _refuse(getattr(self, name) < 1, name, "a whole number >= 1", getattr(self, name))
        _refuse(self.ccr is not None and not 0 <= self.ccr < np.inf, "ccr", "a finite ratio >= 0", self.ccr)
        _refuse(self.cost not in ("log-normal", "uniform"), "cost", "log-normal or uniform", self.cost)
        too_wide = self.cost == "uniform" and self.work_cv * 3**0.5 > 1
        _refuse(too_wide, "work_cv", "at most 0.577 for uniform work", self.work_cv)
        _refuse(self.kind_by not in ("random", "level"), "kind_by", "random or level", self.kind_by)
        _refuse(not self.kinds, "kinds", "at least one kind", "none")
        lonely = self.heterogeneity > 0 and not self.classes
        _refuse(lonely, "classes", "the classes that the heterogeneity is between", "none")


def _refuse(condition: bool, name: str, expected: str, got: object) -> None:
    if condition:
        raise InputError(f"expected {expected}, got {got}", field=name)


def generate(family: str, size: int, *, seed: int = 0, knobs: Knobs | None = None) -> TaskGraph:
    """A graph of exactly ``size`` tasks; the same arguments give the same columns.

    ``FAMILIES`` lists the families. The ``opgraph`` families have distributions of their own and
    take no knobs.
    """
    if family not in FAMILIES:
        close = difflib.get_close_matches(family, FAMILIES, 1)
        hint = f"; did you mean {close[0]!r}?" if close else f" (there are {', '.join(FAMILIES)})"
        raise InputError(f"no family {family!r}{hint}", field="family")
    chosen = FAMILIES[family]
    _refuse(size < chosen.least, "size", f"at least {chosen.least} tasks for {family}", size)
    _refuse(size > MOST_TASKS, "size", f"at most {MOST_TASKS:,} tasks", f"{size:,}")
    _refuse(seed < 0, "seed", "a whole number >= 0", seed)
    if knobs is not None and not chosen.takes_knobs:
        raise InputError(f"{family} has fixed distributions and takes no knobs", field="family")
    knobs = knobs or Knobs()
    edges = chosen.edges(size, knobs, _stream(seed, _STRUCTURE))
    dress = _dress if chosen.takes_knobs else _dress_opgraph
    with np.errstate(over="ignore", invalid="ignore"):  # the graph refuses what is not finite
        return dress(f"{family}-{size}-{seed}", size, edges, seed, knobs)


def _stream(seed: int, stream: int) -> Rng:
    return np.random.default_rng([seed, stream])


# -- work, data, kinds ----------------------------------------------------------------------------


def _dress(name: str, size: int, edges: Edges, seed: int, knobs: Knobs) -> TaskGraph:
    """Work, data, kinds and times by the knobs."""
    work = _work(size, knobs, _stream(seed, _WORK))
    mean_data = knobs.mean_data if knobs.ccr is None else 1.0
    data = _log_normal(mean_data, knobs.data_cv, (len(edges[0]),), _stream(seed, _DATA))
    if knobs.level_spread:
        level = _levels(size, edges)
        rng = _stream(seed, _LEVELS)
        factors = np.exp(knobs.level_spread * rng.standard_normal((2, level.max() + 1)))
        work, data = work * factors[0][level], data * factors[1][level[edges[0]]]
    times = None
    if knobs.classes:
        shape = (size, len(knobs.classes))
        times = work[:, None] * _log_normal(1.0, knobs.heterogeneity, shape, _stream(seed, _TIMES))
    if knobs.ccr is not None and len(data):
        mean_time = float(work.mean() if times is None else times.mean())
        data *= knobs.ccr * mean_time * knobs.bandwidth / data.mean()
    kind = _stream(seed, _KIND).integers(len(knobs.kinds), size=size)
    if knobs.kind_by == "level":
        kind = _levels(size, edges) % len(knobs.kinds)
    return TaskGraph(
        work, *edges, data, kinds=knobs.kinds, kind=kind, classes=knobs.classes, times=times, name=name
    )


def _work(size: int, knobs: Knobs, rng: Rng) -> Floats:
    if knobs.cost == "log-normal":
        return _log_normal(knobs.mean_work, knobs.work_cv, (size,), rng)
    half = knobs.mean_work * knobs.work_cv * 3**0.5
    return rng.uniform(knobs.mean_work - half, knobs.mean_work + half, size)


def _log_normal(mean: float, cv: float, shape: tuple[int, ...], rng: Rng) -> Floats:
    """Log-normal draws with this mean and coefficient of variation."""
    variance = np.log1p(cv**2)
    return mean * np.exp(variance**0.5 * rng.standard_normal(shape) - variance / 2.0)


def _levels(size: int, edges: Edges) -> Ints:
    """Number of edges on the longest path to each task."""
    by_source = np.argsort(edges[0], kind="stable")
    level = [0] * size
    for source, target in zip(edges[0][by_source].tolist(), edges[1][by_source].tolist(), strict=True):
        level[target] = max(level[target], level[source] + 1)
    return np.array(level, dtype=np.int64)


# -- operator graphs of the one-shot study --------------------------------------------------------

OPGRAPH_UNITS = (1, 1, 4)
"""Devices per machine type of the operator-graph study."""


def _dress_opgraph(name: str, size: int, edges: Edges, seed: int, knobs: Knobs) -> TaskGraph:
    """Durations round(100 m) + 1, m from four Gaussians cut at 0; types in proportion to devices."""
    rng = _stream(seed, _WORK)
    m = np.full(size, -1.0)
    while (m < 0).any():
        again = np.flatnonzero(m < 0)
        part = rng.integers(4, size=len(again))
        m[again] = rng.normal(np.array([0.5, 1, 3, 5])[part], np.array([0.5, 1, 1, 1])[part])
    units = np.array(OPGRAPH_UNITS)
    kind = _stream(seed, _KIND).choice(len(units), size=size, p=units / units.sum())
    types = tuple(f"type{k}" for k in range(len(units)))
    times = _only(np.rint(100 * m) + 1, kind, len(units))
    return TaskGraph(
        np.full(size, np.nan), *edges, kinds=types, kind=kind, classes=types, times=times, name=name
    )


def as_opgraph(graph: TaskGraph, seed: int = 0) -> TaskGraph:
    """The tasks and edges of a graph with run times and types drawn as for generated operator graphs."""
    edges = graph.sources.astype(np.int64), graph.targets.astype(np.int64)
    return _dress_opgraph(graph.name, graph.num_tasks, edges, seed, Knobs()).with_names(graph.names)


def _only(duration: Floats, column: Ints, num_columns: int) -> Floats:
    """Run times that are finite in one column per task."""
    times = np.full((len(duration), num_columns), np.inf)
    times[np.arange(len(duration)), column] = duration
    return times


def opgraph_cluster() -> Cluster:
    """Six devices of three types, transfers free."""
    classes = [DeviceClass(f"type{k}") for k in range(len(OPGRAPH_UNITS))]
    return Cluster.uniform(classes, OPGRAPH_UNITS, name="opgraph")


@dataclass(frozen=True)
class Family:
    """One entry of the table of families."""

    edges: Callable[[int, Knobs, Rng], Edges]
    summary: str
    least: int = 1
    """Smallest size."""
    takes_knobs: bool = True


def _er_opgraph(size: int, knobs: Knobs, rng: Rng) -> Edges:
    return pairs(size, 0.05, rng)


FAMILIES: dict[str, Family] = {
    "layered": Family(layered, "layers of random width (parallelism, density, jump)"),
    "fork-join": Family(fork_join, "forks and joins in turn (parallelism)", 3),
    "erdos-renyi": Family(erdos_renyi, "every pair alike (density)"),
    "block-model": Family(block_model, "dense communities, few edges between (communities, p_in, p_out)"),
    "out-tree": Family(out_tree, "one root, everything fans out"),
    "in-tree": Family(in_tree, "everything flows together in one task"),
    "chain": Family(chain, "one task after another"),
    "mosaic": Family(mosaic, "shaped like the Montage workflow", 8),
    "phases": Family(phases, "phases that split, run side by side and merge, like recorded workflows"),
    **{
        name: Family(application.edges, application.summary, application.least)
        for name, application in applications.APPLICATIONS.items()
    },
    "opgraph-layered": Family(layered, "operator graphs of the one-shot study, layered", 1, False),
    "opgraph-er": Family(_er_opgraph, "the same with edges at random, p = 0.05", 1, False),
    "opgraph-sbm": Family(block_model, "the same as a block model, k = 4, 0.3, 0.001", 1, False),
}


# -- job shops and queries ------------------------------------------------------------------------


def jobshop(num_jobs: int, num_machines: int, *, seed: int = 0) -> TaskGraph:
    """Every job visits every machine once, in random order, for uniform 1..99; kinds are the jobs.

    Operation o of job j is ``J<j>-O<o>``; it can run on one machine of :func:`jobshop_cluster`.
    """
    return flexible_jobshop(num_jobs, num_machines, seed=seed, most_machines=1)


def flexible_jobshop(num_jobs: int, num_machines: int, *, seed: int = 0, most_machines: int = 3) -> TaskGraph:
    """A job shop whose operations may run on 1..``most_machines`` machines, up to 20 % apart in time."""
    _refuse(num_jobs < 1, "num_jobs", "at least one job", num_jobs)
    _refuse(num_machines < 1, "num_machines", "at least one machine", num_machines)
    _refuse(most_machines < 1, "most_machines", "at least one machine", most_machines)
    size = num_jobs * num_machines
    preference = _stream(seed, _STRUCTURE).permuted(np.tile(np.arange(num_machines), (num_jobs, 1)), axis=1)
    duration = _stream(seed, _WORK).integers(1, 100, size).astype(np.float64)
    times = _only(duration, preference.ravel(), num_machines)
    if most_machines > 1:
        _add_machines(times, duration, min(most_machines, num_machines), _stream(seed, _TIMES))
    task = np.arange(size)
    before = task[task % num_machines < num_machines - 1]
    return TaskGraph(
        np.full(size, np.nan),
        before,
        before + 1,
        names=[f"J{i // num_machines}-O{i % num_machines}" for i in range(size)],
        kinds=tuple(f"J{j}" for j in range(num_jobs)),
        kind=task // num_machines,
        classes=tuple(f"m{k}" for k in range(num_machines)),
        times=times,
        name=f"jobshop-{num_jobs}x{num_machines}-{seed}",
    )


def _add_machines(times: Floats, duration: Floats, most: int, rng: Rng) -> None:
    """Let each task run on up to ``most`` machines; ``times`` is modified in place."""
    rank = np.argsort(rng.random(times.shape), axis=1)
    more = (rank < rng.integers(0, most, len(times))[:, None]) & np.isinf(times)
    other = np.maximum(np.rint(duration[:, None] * rng.uniform(0.8, 1.2, times.shape)), 1.0)
    times[more] = other[more]


def jobshop_cluster(num_machines: int) -> Cluster:
    """One device per machine, classes ``m0``, ``m1``, ..., transfers free."""
    classes = [DeviceClass(f"m{k}") for k in range(num_machines)]
    return Cluster.uniform(classes, [1] * num_machines, name=f"jobshop-{num_machines}")


_TABLES = (593.0, 133.0, 91.0, 19.0, 2.0)
_READ = (0.06, 0.17, 0.09, 0.28, 0.40)
"""Tasks of a scan at 100 GB per table (lineitem, orders, partsupp, part or customer, small ones), and how
often each is read beside the first scan of a query, which mostly is of the first table."""
_SIZES = (2.0, 5.0, 10.0, 20.0, 50.0, 80.0, 100.0)
"""GB of data that queries run on."""


def tpch_like(num_queries: int, *, seed: int = 0) -> TaskGraph:
    """Look-alikes of TPC-H queries on Spark: stages hold as many slots as they have tasks, in ms.

    A query is an in-tree of 2..18 stages (9.2 on average) with now and then an extra edge, on 2 to
    100 GB. Leaves scan a table for about 2.5 s with as many tasks as the table has parts at that
    size; inner stages have mostly 200 tasks, short ones, some long where there is much data.
    """
    _refuse(num_queries < 1, "num_queries", "at least one query", num_queries)
    rng = _stream(seed, _STRUCTURE)
    sizes = 2 + (17 * rng.beta(0.95, 1.15, num_queries)).astype(np.int64)
    first = np.cumsum(sizes) - sizes
    trees = [_query(int(size), rng) for size in sizes]
    sources = np.concatenate([tree[0] + base for tree, base in zip(trees, first, strict=True)])
    targets = np.concatenate([tree[1] + base for tree, base in zip(trees, first, strict=True)])
    total = int(sizes.sum())
    is_leaf, is_last = np.ones(total, bool), np.ones(total, bool)
    is_leaf[targets], is_last[sources] = False, False
    draw = _stream(seed, _WORK)
    data = np.repeat(draw.choice(_SIZES, num_queries), sizes)
    table = draw.choice(_TABLES, total, p=_READ)
    table[first[draw.random(num_queries) < 0.75]] = _TABLES[0]
    work, slots = _stages(draw, data, table, is_leaf, is_last)
    return TaskGraph(
        work,
        sources,
        targets,
        names=[f"q{q}-s{s}" for q, size in enumerate(sizes.tolist()) for s in range(size)],
        kinds=("scan", "shuffle"),
        kind=~is_leaf,
        slots=slots,
        name=f"tpch-like-{num_queries}-{seed}",
        time_unit="ms",
    )


def _stages(draw: Rng, data: Floats, table: Floats, is_leaf: Bools, is_last: Bools) -> tuple[Floats, Floats]:
    """Run times and slots of the stages of queries on this many GB, if leaves read these tables."""
    count = len(data)
    scans = np.maximum(2.0, np.rint(table * data / 100.0))
    growth = np.log(data / 2.0) / np.log(50.0)  # 0 at 2 GB, 1 at 100 GB
    is_small = table == _TABLES[-1]
    noise = draw.standard_normal(count)
    scan = np.where(is_small, 1800.0, 2700.0) * np.exp(np.where(is_small, 0.7, 0.25) * noise)
    inner = (120.0 + 50.0 * growth) * np.exp((0.75 + 0.5 * growth) * noise)
    last = 190.0 * np.exp(0.35 * noise)
    work = np.where(is_leaf, scan, np.where(is_last, last, inner))
    shuffles = np.where(draw.random(count) < 0.95, 200.0, scans)
    slots = np.where(is_leaf, scans, np.where(is_last, draw.integers(1, 7, count), shuffles))
    return np.clip(work, 16.0, 4965.0), np.clip(slots, 1, 593)


def _query(size: int, rng: Rng) -> Edges:
    """A random in-tree in which a stage has at most two inputs, plus 0.3 extra edges on average."""
    open_inputs = [0, 0]
    sources, targets = [], []
    for stage in range(1, size):
        parent = open_inputs.pop(int(rng.integers(len(open_inputs))))
        open_inputs += [stage, stage]
        sources.append(size - 1 - stage)
        targets.append(size - 1 - parent)
    for _ in range(int(rng.binomial(2, 0.23))):
        low, high = np.sort(rng.choice(size, 2, replace=False))
        sources.append(int(low))
        targets.append(int(high))
    return distinct(size, np.array(sources), np.array(targets))


def tpch_cluster() -> Cluster:
    """One pool of 6000 slots."""
    return Cluster.uniform([DeviceClass("pool", slots=6000)], [1], name="tpch")
