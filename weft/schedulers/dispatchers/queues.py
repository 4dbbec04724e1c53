"""Dispatchers of the queue view: named rules for any graph and cluster, and running them.

A dispatcher turns a problem into a rule of the kernel (``sim/queues/rules.py``). Episodes run in the
kernel from start to end; a learned policy is asked decision by decision instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weft.errors import InputError
from weft.model.graph import ALWAYS, Bools, Floats, Ints, TaskGraph
from weft.model.problem import Problem
from weft.sim.jit import kernel, lean_kernel
from weft.sim.queues import rules as kernels
from weft.sim.queues.kernel import WAIT, State, Stream, advance, apply_action, begin
from weft.sim.queues.layout import compile_stream, edge_probabilities
from weft.sim.queues.layout import refuse_stream as refuse_stream
from weft.sim.queues.observation import Sight, observe, write_mask
from weft.sim.queues.rules import Rule
from weft.sim.random import new_state

HEAVY_FACTOR = 3.0
"""A kind is heavy if its shortest run time is at least this many times the median kind's."""
_AGE_RULES = (kernels.FIFO, kernels.EARLIEST)
"""Rules that look at the age of tasks and so need no kinds to tell them apart."""
_ORDERS = ("none", "upward", "remaining")


@dataclass(frozen=True)
class Dispatcher:
    """A rule by name, for any graph and cluster; ``rule`` makes it concrete."""

    name: str
    number: int
    """Which rule of the kernel."""
    by_count: bool = False
    """Choose the kind first, then the smallest free device its queue fills."""
    waits: bool = False
    """A device without work stays free until the next event instead of idling."""
    small_heavy: int = 0
    """Heavy-last: how many one-task devices may run a heavy kind at a time."""
    least_heavy: int = 1
    """Heavy-last: the fewest waiting heavy tasks the largest device starts."""
    heavy_factor: float = HEAVY_FACTOR
    """Heavy-last: a kind is heavy from this multiple of the median kind's run time."""
    order: str = "none"
    """Ranked: ``upward`` (longest expected path first) or ``remaining`` (least expected work first)."""

    def __post_init__(self) -> None:
        if self.small_heavy < 0 or self.least_heavy < 1:
            raise InputError(
                f"expected small_heavy >= 0 and least_heavy >= 1, got {self.small_heavy} and "
                f"{self.least_heavy}",
                field=self.name,
            )
        if not self.heavy_factor > 0:
            raise InputError(f"expected a factor > 0, got {self.heavy_factor}", field="heavy_factor")
        if self.order not in _ORDERS:
            raise InputError(f"expected one of {', '.join(_ORDERS)}, got {self.order!r}", field="order")

    def waiting(self) -> Dispatcher:
        """The variant that waits for the next event where this one idles."""
        if self.waits:
            raise InputError(f"{self.name} waits for the next event anyway", field="scheduler")
        return replace(self, name=f"{self.name}+wait", waits=True)

    def supports(self, problem: Problem) -> str | None:
        """None if it can act on a stream of this problem's graph, else the reason why not."""
        reason = refuse_stream(problem)
        if reason is not None:
            return reason
        graph = problem.graph
        if self.number not in _AGE_RULES and len(graph.kinds) == 1 and graph.num_tasks > 1:
            return f"it chooses between kinds, and all tasks are of kind {graph.kinds[0]!r}: give them kinds"
        return self.refuse_devices(problem, compile_stream(problem))

    def refuse_devices(self, problem: Problem, stream: Stream) -> str | None:
        """The reason why it would leave tasks waiting forever on the devices of this stream, or None."""
        if self.number != kernels.HEAVY_LAST:
            return None
        heavy = heavy_kinds(kind_times(problem, stream), self.heavy_factor)
        if not heavy.any():
            return None
        largest = len(stream.batch) - 1 - int(np.argmax(stream.batch[::-1]))
        if stream.batch[largest] == 1 and not self.small_heavy:
            return "it keeps heavy kinds on the device with the largest batch, and no device takes batches"
        stuck = np.flatnonzero(heavy & ~stream.can_run[largest])
        if len(stuck):
            kind = problem.graph.kinds[stuck[0]]
            return f"the device with the largest batch cannot run the heavy kind {kind!r}"
        return None

    def rule(self, problem: Problem, stream: Stream, seeds: Ints) -> Rule:
        """The kernel's rule for this problem, with fresh state for one environment per seed."""
        times = kind_times(problem, stream)
        made = Rule(
            number=self.number,
            by_count=self.by_count,
            waits=self.waits,
            small_heavy=self.small_heavy,
            least_heavy=self.least_heavy,
            kind_time=times,
            depth=depth_ranks(problem.graph),
            is_heavy=heavy_kinds(times, self.heavy_factor),
            rank=np.zeros(len(times)),
            state=np.array([new_state(s & 0xFFFFFFFF, s >> 32)[0] for s in seeds.tolist()], np.uint64),
            last=np.full(len(seeds), -1 if self.number == kernels.ROUND_ROBIN else 0, np.int64),
            order=problem.graph.order[::-1].astype(np.int64),
            node_time=problem.mean_run_times.copy(),
            node_rank=np.zeros(problem.num_tasks),
            guess=equal_odds(problem.graph),
        )
        if self.order == "upward":
            kernels.write_ranks(made, stream, edge_probabilities(problem), np.zeros((0, 2)))
        elif self.order == "remaining":
            made.rank[:] = -_least_by_kind(expected_work(problem), problem.graph)
        return made


def equal_odds(graph: TaskGraph) -> Floats:
    """Probability of every edge without any knowledge: equal within a branch."""
    key = np.stack([graph.sources, graph.branch])
    _, inverse, size = np.unique(key, axis=1, return_inverse=True, return_counts=True)
    return np.where(graph.branch == ALWAYS, 1.0, 1.0 / size[inverse.ravel()])


def kind_times(problem: Problem, stream: Stream) -> Floats:
    """Shortest run time of every kind, the mean over its tasks."""
    num_tasks = np.bincount(stream.kind, minlength=stream.can_run.shape[1])
    total = np.bincount(stream.kind, problem.best_run_times, stream.can_run.shape[1])
    return np.asarray(total / np.maximum(num_tasks, 1), dtype=np.float64)


def heavy_kinds(times: Floats, factor: float = HEAVY_FACTOR) -> Bools:
    """Which kinds take at least this many times as long as the median one."""
    return np.asarray(times >= factor * np.median(times), dtype=np.bool_) & (times > 0)


def depth_ranks(graph: TaskGraph) -> Ints:
    """Place of every kind by the level of its deepest task, then by index."""
    level = np.zeros(graph.num_tasks, np.int64)
    for i in graph.order.tolist():
        after = graph.successors(i)
        level[after] = np.maximum(level[after], level[i] + 1)
    deepest = np.full(len(graph.kinds), -1, np.int64)
    np.maximum.at(deepest, graph.kind, level)
    ranks = np.empty(len(graph.kinds), np.int64)
    ranks[np.argsort(deepest, kind="stable")] = np.arange(len(graph.kinds))
    return ranks


def expected_work(problem: Problem) -> Floats:
    """Mean run time of every task and of all that is expected to follow it.

    A task that several taken edges lead to counts once; where edges exclude one another their
    probabilities add up.
    """
    graph = problem.graph
    position = np.empty(graph.num_tasks, np.int64)
    position[graph.order] = np.arange(graph.num_tasks)
    work = np.zeros(graph.num_tasks)
    pointer = graph.successor_pointer
    for start in range(graph.num_tasks):
        reach = np.zeros(graph.num_tasks)
        reach[start] = 1.0
        for i in graph.order[position[start] :].tolist():
            edges = slice(int(pointer[i]), int(pointer[i + 1]))
            after = graph.targets[edges]
            reach[after] = np.minimum(1.0, reach[after] + reach[i] * graph.probability[edges])
        work[start] = float(reach @ problem.mean_run_times)
    return work


def _least_by_kind(values: Floats, graph: TaskGraph) -> Floats:
    least = np.full(len(graph.kinds), np.inf)
    np.minimum.at(least, graph.kind, values)
    return least


@lean_kernel
def begin_all(stream: Stream, s: State, start: float, done: Bools) -> None:
    """Begin every environment; ``done`` says which are over at once."""
    for b in range(len(done)):
        done[b] = begin(stream, s, b, start)


@lean_kernel
def observe_all(
    stream: Stream, sight: Sight, s: State, done: Bools, observation: Floats, mask: Bools
) -> None:
    """Observation and mask of every environment that is not over."""
    for b in range(len(done)):
        if not done[b]:
            observe(stream, sight, s, b, observation[b])
            write_mask(stream, s, b, mask[b])


@kernel
def act_all(stream: Stream, s: State, actions: Ints, waits: bool, done: Bools) -> None:
    """One decision in every environment that is not over; ``waits``: idling is waiting."""
    num_kinds = stream.can_run.shape[1]
    action = np.empty(actions.shape[1], np.int64)
    for b in range(len(done)):
        if not done[b]:
            for p in range(len(action)):
                action[p] = WAIT if waits and actions[b, p] == num_kinds else actions[b, p]
            apply_action(stream, s, b, action)
            done[b] = advance(stream, s, b)


fifo = Dispatcher("fifo", kernels.FIFO)
mru = Dispatcher("mru", kernels.MRU)
depth_first = Dispatcher("depth-first", kernels.DEPTH_FIRST)
random = Dispatcher("random", kernels.RANDOM)
top_first = Dispatcher("top-first", kernels.TOP_FIRST)
round_robin = Dispatcher("round-robin", kernels.ROUND_ROBIN)
shortest_first = Dispatcher("shortest-first", kernels.SHORTEST_FIRST)
longest_first = Dispatcher("longest-first", kernels.LONGEST_FIRST)
batch_fifo = Dispatcher("batch-fifo", kernels.FIFO, by_count=True)
batch_mru = Dispatcher("batch-mru", kernels.MRU, by_count=True)
batch_depth = Dispatcher("batch-depth", kernels.DEPTH_FIRST, by_count=True)
heavy_last = Dispatcher("heavy-last", kernels.HEAVY_LAST, waits=True)
heavy_last_1 = replace(heavy_last, name="heavy-last-1")
heavy_last_3 = replace(heavy_last, name="heavy-last-3", small_heavy=1, least_heavy=2)
heavy_last_5 = replace(heavy_last, name="heavy-last-5", least_heavy=3)
edf = Dispatcher("edf", kernels.FIFO, waits=True)
eft = Dispatcher("eft", kernels.EARLIEST, waits=True)
srw = Dispatcher("srw", kernels.RANKED, waits=True, order="remaining")
heft_expected = Dispatcher("heft-expected", kernels.RANKED, waits=True, order="upward")
heft_estimated = Dispatcher("heft-estimated", kernels.ESTIMATED, waits=True)
