"""Problems to train one-shot planners on: drawn by number, prepared for the net and the decoder.

A source is a generator and the sizes to draw from. The same seed, split and number give the same
problem, whoever asks. Imports neither torch nor the readers of files.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.model.bounds import simple_bound
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import (
    FAMILIES,
    Knobs,
    generate,
    jobshop,
    jobshop_cluster,
    opgraph_cluster,
    tpch_like,
)
from weft.model.problem import Objective, Problem
from weft.policies.oneshot.features import TaskView, view_of
from weft.scenarios.splits import SEEDS_PER_SPLIT, seed_of
from weft.schedulers.planners.rules import has_transfers
from weft.sim.arrays import Arrays, compile_problem
from weft.tables import NAMES, POSITIVE, check, checked, one_of, read_table, whole

GENERATORS = ("jobshop", "opgraph", "tpch", "workflow")
LARGEST_STAGE = 600
"""No stage of a generated query needs more slots."""
AHEAD = 3
"""Batches that workers prepare in advance."""
Rng = np.random.Generator
_SIZES = whole(1).several("").several("lists of whole numbers >= 1")


@dataclass(frozen=True)
class Source:
    """Where problems come from; a list gives the values to draw from."""

    generator: str = field(metadata={"rule": one_of(*GENERATORS)})
    """``jobshop``, ``opgraph`` (operator graphs on three types), ``tpch`` (look-alikes), ``workflow``."""
    sizes: tuple[tuple[int, ...], ...] = field(metadata={"rule": _SIZES})
    """Jobs and machines of job shops, queries, or tasks."""
    families: tuple[str, ...] = checked((), NAMES)
    """Shapes of operator graphs (``layered``, ``er``, ``sbm``) and workflows."""
    devices: tuple[int, ...] = checked((8,), whole(1).several("a list of whole numbers >= 1"))
    """Devices of the random clusters for workflows."""
    ccr: tuple[float, ...] = checked((1.0,), POSITIVE.several("a list of numbers > 0"))
    """Mean transfer time over mean run time of workflows."""
    share: float = checked(1.0, POSITIVE)
    """How often this source is drawn, relative to the others."""

    def __post_init__(self) -> None:
        check(self, "source.")
        numbers = 2 if self.generator == "jobshop" else 1
        if any(len(size) != numbers for size in self.sizes):
            plural = "s" if numbers > 1 else ""
            raise InputError(
                f"expected lists of {numbers} number{plural}, got {self.sizes}", field="source.sizes"
            )
        prefix = "opgraph-" if self.generator == "opgraph" else ""
        if self.generator in ("opgraph", "workflow") and not self.families:
            raise InputError("expected at least one family", field="source.families")
        for family in self.families:
            if prefix + family not in FAMILIES:
                raise InputError(f"no family {family!r}", field="source.families")

    @classmethod
    def read(cls, table: object) -> Source:
        """A source from its table in a recipe."""
        if isinstance(table, dict) and not {"generator", "sizes"} <= set(table):
            raise InputError("expected generator and sizes", field="source")
        return read_table(cls, table, "source")

    def problem(self, rng: Rng, split: str) -> Problem:
        """Draw a problem; its own seed belongs to the split."""
        size = self.sizes[int(rng.integers(len(self.sizes)))]
        return self.of_size(size, rng, split)

    def of_size(self, size: tuple[int, ...], rng: Rng, split: str) -> Problem:
        """Draw a problem of this size."""
        seed = seed_of(split, int(rng.integers(SEEDS_PER_SPLIT)))
        alone = Objective(copies=False)
        if self.generator == "jobshop":
            return Problem(jobshop(*size, seed=seed), jobshop_cluster(size[1]), alone)
        if self.generator == "tpch":
            return Problem(tpch_like(*size, seed=seed), query_pool(rng, size[0]), alone)
        family = self.families[int(rng.integers(len(self.families)))]
        if self.generator == "opgraph":
            return Problem(generate(f"opgraph-{family}", *size, seed=seed), opgraph_cluster(), alone)
        knobs = Knobs(
            parallelism=float(rng.choice([0.5, 1.0, 2.0])), density=float(rng.uniform(1.0, 4.0)), p_in=0.1
        )
        graph = generate(family, *size, seed=seed, knobs=knobs)
        problem = Problem(graph, random_cluster(rng, int(rng.choice(self.devices))))
        return problem.with_ccr(float(rng.choice(self.ccr))) if problem.ccr else problem


def query_pool(rng: Rng, num_queries: int) -> Cluster:
    """A pool that a mix of queries keeps as busy as the 6000 slots of the study keep 50 to 150."""
    slots = max(LARGEST_STAGE, round(num_queries * rng.uniform(40.0, 160.0)))
    return Cluster.uniform([DeviceClass("pool", slots=slots)], [1], name="pool")


def random_cluster(rng: Rng, num_devices: int) -> Cluster:
    """Devices of two to five classes, speeds log-uniform in 1..8, some faster on certain kinds."""
    num_classes = int(rng.integers(2, 6))
    kinds = Knobs().kinds
    classes = []
    for c in range(num_classes):
        speed = float(8.0 ** rng.random())
        speeds = {kind: speed * float(2.0 ** rng.uniform(-1, 1)) for kind in kinds if rng.random() < 0.5}
        classes.append(DeviceClass(f"class{c}", speed, speeds=speeds))
    counts = np.bincount(rng.integers(num_classes, size=num_devices), minlength=num_classes)
    used = [c for c in range(num_classes) if counts[c]]
    return Cluster.uniform([classes[c] for c in used], [int(counts[c]) for c in used], bandwidth=1e9)


class Instance(NamedTuple):
    """A problem ready for the net and the decoder."""

    a: Arrays
    view: TaskView
    bound: float
    """No schedule ends earlier."""
    has_transfers: bool
    has_copies: bool
    """Whether tasks may run again elsewhere."""


def prepared(problem: Problem) -> Instance:
    """Lay a problem out."""
    a = compile_problem(problem)
    moves = has_transfers(a)
    copies = problem.objective.copies and moves
    return Instance(a, view_of(a, has_pairs=moves), simple_bound(problem).value or 1.0, moves, copies)


Group = list[Instance]
"""Problems of one size, or nearly: few rows of a batch are padding."""


def draw_group(sources: Sequence[Source], seed: int, split: str, number: int, size: int) -> Group:
    """So many problems of one source and size, by the number of the group."""
    rng = np.random.default_rng([seed, number])
    shares = np.array([source.share for source in sources])
    source = sources[int(rng.choice(len(sources), p=shares / shares.sum()))]
    chosen = source.sizes[int(rng.integers(len(source.sizes)))]
    return [prepared(source.of_size(chosen, rng, split)) for _ in range(size)]


def _workers(sources: Sequence[Source], count: int) -> ProcessPoolExecutor:
    """Processes that prepare problems, once the kernels are compiled here for all of them."""
    for source in sources:
        prepared(source.problem(np.random.default_rng(0), "validation"))
    return ProcessPoolExecutor(count, get_context("spawn"), _ignore_interrupts)


def _ignore_interrupts() -> None:
    """Let the learner finish its update when a person interrupts it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Feed:
    """Batches of groups by number, prepared ahead by worker processes where there are some."""

    def __init__(
        self, sources: Sequence[Source], seed: int, num_groups: int, group_size: int, workers: int
    ) -> None:
        self._sources, self._seed = tuple(sources), seed
        self._num_groups, self._group_size = num_groups, group_size
        self._pool = _workers(self._sources, workers) if workers else None
        self._waiting: dict[int, Future[Group]] = {}
        self._last: tuple[int, list[Group]] = (-1, [])

    def batch(self, number: int) -> list[Group]:
        """The groups of a batch."""
        if self._last[0] != number:
            self._ask(number)
            self._last = (number, [self._group(k) for k in self._numbers(number)])
        return self._last[1]

    def close(self) -> None:
        """Let the workers go."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _numbers(self, batch: int) -> Iterator[int]:
        return iter(range(batch * self._num_groups, (batch + 1) * self._num_groups))

    def _ask(self, number: int) -> None:
        if self._pool is None:
            return
        for ahead in range(number, number + AHEAD):
            for k in self._numbers(ahead):
                if k not in self._waiting:
                    self._waiting[k] = self._pool.submit(
                        draw_group, self._sources, self._seed, "train", k, self._group_size
                    )

    def _group(self, k: int) -> Group:
        if self._pool is None:
            return draw_group(self._sources, self._seed, "train", k, self._group_size)
        return self._waiting.pop(k).result()
