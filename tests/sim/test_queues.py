"""The event kernel: exact figures of the reference simulator, and a slow twin in plain Python."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
import peer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InfeasibleError, InputError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import ALWAYS, TaskGraph
from weft.model.problem import Job, Problem, Realisation, realise
from weft.sim.queues import rules as queue_rules
from weft.sim.queues.kernel import (
    COMPLETED,
    DECISIONS,
    EXPIRED,
    IDLES,
    IN_SYSTEM,
    JOB_TIME,
    NOW,
    QUEUE_TIME,
    SUM_JCT,
    WAIT,
    State,
    Stream,
    advance,
    apply_action,
    begin,
)
from weft.sim.queues.layout import Rules, compile_stream, edge_probabilities, new_state
from weft.sim.queues.rules import DEPTH_FIRST, FIFO, MRU, run_episodes

LONG_SPOTS = [
    (FIFO, 0.0, 150.132086446, 12945, 12),
    (FIFO, 0.5, 87.983252994, 16608, 208),
    (FIFO, 1.0, 36.339083359, 23639, 4022),
    (MRU, 0.0, 135.817921307, 15303, 24),
    (MRU, 0.5, 93.800183284, 17806, 130),
    (MRU, 1.0, 37.598045575, 24506, 3551),
    (DEPTH_FIRST, 0.0, 134.903645181, 15211, 22),
    (DEPTH_FIRST, 0.5, 89.994530085, 18022, 206),
    (DEPTH_FIRST, 1.0, 36.356644067, 23527, 4092),
]
"""Rule, p(c), mean job time, decisions, idle decisions: 10,000 jobs, seed 1."""
SHORT_SPOTS = [
    (FIFO, False, 88.53320557169013, 4940, 85),
    (MRU, False, 92.98841037233355, 5221, 55),
    (DEPTH_FIRST, False, 90.13857438160191, 5336, 74),
    (FIFO, True, 83.82608502495003, 4983, 150),
    (MRU, True, 92.50160949239003, 5327, 72),
]
"""Rule, by count, mean job time, decisions, idle decisions: 3,000 jobs, seed 1, p(c) = 0.5."""
HEAVY_LAST_MEANS = [
    ("H1", 0, 1, (106.5, 92.9, 72.7, 51.2, 34.1)),
    ("H3", 1, 2, (108.9, 95.1, 72.9, 49.0, 34.1)),
    ("H5", 0, 3, (106.4, 92.5, 72.0, 53.1, 34.1)),
]
"""Mean job time over seeds 1..4 of 10,000 jobs at p(c) = 0, .2, .5, .8, 1."""


def figures(state: State, num_jobs: int) -> tuple[float, int, int]:
    """Mean job time, decisions and idle decisions of environment 0."""
    assert not state.overflow.any()
    return state.total[0, SUM_JCT] / num_jobs, int(state.count[0, DECISIONS]), int(state.count[0, IDLES])


@pytest.mark.parametrize(("number", "p_c", "mean_jct", "decisions", "idles"), LONG_SPOTS)
def test_kernel_equals_reference_over_ten_thousand_jobs(
    number: int, p_c: float, mean_jct: float, decisions: int, idles: int
):
    stream, state = peer.traced([1], 10_000, p_c)
    run_episodes(peer.rule(number), stream, state, peer.START)
    # the reference prints nine decimals
    assert figures(state, 10_000) == (pytest.approx(mean_jct, abs=1e-9), decisions, idles)


@pytest.mark.parametrize(("number", "by_count", "mean_jct", "decisions", "idles"), SHORT_SPOTS)
def test_kernel_equals_reference_over_three_thousand_jobs(
    number: int, by_count: bool, mean_jct: float, decisions: int, idles: int
):
    stream, state = peer.traced([1], 3000, 0.5)
    run_episodes(peer.rule(number, by_count=by_count), stream, state, peer.START)
    assert figures(state, 3000) == (pytest.approx(mean_jct, abs=1e-9), decisions, idles)


def test_kernel_ends_when_reference_ends():
    stream, state = peer.traced([1], 3000, 0.5)
    run_episodes(peer.rule(FIFO), stream, state, peer.START)
    assert state.total[0, NOW] == pytest.approx(24314.466545, abs=1e-6)


@pytest.mark.parametrize(("name", "small_heavy", "least_heavy", "means"), HEAVY_LAST_MEANS)
def test_device_aware_rules_come_near_published_means(
    name: str, small_heavy: int, least_heavy: int, means: tuple[float, ...]
):
    for p_c, mean in zip((0.0, 0.2, 0.5, 0.8, 1.0), means, strict=True):
        stream, state = peer.traced([1, 2, 3, 4], 10_000, p_c)
        run_episodes(peer.heavy_last(small_heavy, least_heavy, 4), stream, state, peer.START)
        assert state.total[:, SUM_JCT].mean() / 10_000 == pytest.approx(mean, rel=0.01), (name, p_c)


@dataclass
class Twin:
    """The same stream in plain Python: sorted lists, one event at a time, nothing clever."""

    problem: Problem
    world: Realisation
    rules: Rules
    arrival: list[float]
    now: float = -1.0
    next_job: int = 0
    running: list[tuple[float, int, int]] = field(default_factory=list)
    waiting: list[tuple[int, int]] = field(default_factory=list)
    finish: dict[int, float] = field(default_factory=dict)
    expired: list[int] = field(default_factory=list)
    alive: dict[int, int] = field(default_factory=dict)
    settled: dict[tuple[int, int], list[bool]] = field(default_factory=dict)
    seen: dict[tuple[int, int, int], list[bool]] = field(default_factory=dict)
    decisions: int = 0
    idles: int = 0
    job_time: float = 0.0
    queue_time: float = 0.0

    def __post_init__(self) -> None:
        cluster = self.problem.cluster
        self.classes = cluster.device_class.tolist()
        self.batch = [cluster.classes[c].batch for c in self.classes]
        self.free_at = [self.now] * len(self.classes)
        self.num_kinds = len(self.problem.jobs[0].graph.kinds)

    def graph(self, job: int) -> TaskGraph:
        return self.problem.jobs[job].graph

    def duration(self, job: int, node: int, p: int) -> float:
        return float(self.problem.run_times[self.problem.offsets[job] + node, self.classes[p]])

    def queue(self, kind: int) -> list[tuple[int, int]]:
        return sorted((job, node) for job, node in self.waiting if self.graph(job).kind[node] == kind)

    def can_run(self, kind: int, p: int) -> bool:
        nodes = [(j, v) for j in range(len(self.arrival)) for v in range(len(self.graph(j)))]
        return all(np.isfinite(self.duration(j, v, p)) for j, v in nodes if self.graph(j).kind[v] == kind)

    def start(self, p: int, kind: int) -> None:
        batch = self.queue(kind)[: self.batch[p]]
        self.waiting = [item for item in self.waiting if item not in batch]
        end = self.now + max(self.duration(job, node, p) for job, node in batch)
        self.running += [(end, job, node) for job, node in batch]
        self.free_at[p] = end

    def decide(self, action: list[int]) -> None:
        self.decisions += 1
        for p, kind in enumerate(action):
            if self.free_at[p] > self.now:
                continue
            if kind == self.num_kinds:
                self.idles += 1
                if self.rules.idle_block > 0:
                    self.free_at[p] = self.now + self.rules.idle_block
            elif kind != WAIT and self.queue(kind) and self.can_run(kind, p):
                self.start(p, kind)

    def next_time(self) -> float:
        coming = self.arrival[self.next_job : self.next_job + 1] + [end for end, _, _ in self.running]
        return min(coming, default=float("inf"))

    def pass_time(self, time: float) -> None:
        passed = max(0.0, time - self.now)
        self.job_time += passed * (self.next_job - len(self.finish))
        self.queue_time += passed * len(self.waiting)
        self.now = max(self.now, time)

    def pop_event(self) -> None:
        self.pass_time(self.next_time())
        ends = sorted(event for event in self.running if event[0] <= self.now)
        if ends:
            self.running.remove(ends[0])
            self.end(ends[0][1], ends[0][2])
        else:
            job = self.next_job
            self.next_job += 1
            for node in range(len(self.graph(job))):
                if len(self.graph(job).predecessors(node)) == 0:
                    self.enqueue(job, node)

    def enqueue(self, job: int, node: int) -> None:
        self.alive[job] = self.alive.get(job, 0) + 1
        self.waiting.append((job, node))

    def end(self, job: int, node: int) -> None:
        self.settle(job, node, has_run=True)
        self.alive[job] -= 1
        if self.alive[job] == 0 and job not in self.finish:
            self.finish[job] = self.now

    def settle(self, job: int, node: int, *, has_run: bool) -> None:
        """A task runs when all its edges are settled and one is taken; skipped when none is."""
        graph = self.graph(job)
        for e in np.flatnonzero(graph.sources == node).tolist():
            target, is_taken = int(graph.targets[e]), bool(self.world.taken[job][e])
            edges = self.settled.setdefault((job, target), [])
            edges.append(has_run and is_taken)
            if has_run and graph.branch[e] != ALWAYS:
                self.seen.setdefault((job, node, int(graph.branch[e])), []).append(is_taken)
            if len(edges) == len(graph.predecessors(target)):
                if any(edges):
                    self.enqueue(job, target)
                else:
                    self.settle(job, target, has_run=False)

    def advance(self) -> bool:
        soonest, has_popped = min(self.free_at), False
        while self.next_time() < float("inf"):
            if soonest <= self.now and self.waiting and self.next_time() > self.now:
                break
            self.pop_event()
            has_popped = True
        if not has_popped:
            if self.next_time() < float("inf"):
                self.pop_event()
            elif soonest > self.now:
                self.pass_time(soonest)
            else:
                self.start_anything()
        self.expire()
        return self.next_time() == float("inf") and not self.waiting

    def start_anything(self) -> None:
        for p in range(len(self.classes)):
            for kind in range(self.num_kinds):
                if self.free_at[p] <= self.now and self.queue(kind) and self.can_run(kind, p):
                    self.start(p, kind)
                    return
        blocked = [time for time in self.free_at if time > self.now]
        if blocked:
            self.pass_time(min(blocked))

    def expire(self) -> None:
        old = [item for item in self.waiting if self.now - self.arrival[item[0]] > self.rules.expiry]
        self.waiting = [item for item in self.waiting if item not in old]
        for job, _ in sorted(old):
            self.alive[job] -= 1
            if job not in self.finish:
                self.finish[job] = self.arrival[job] + self.rules.expiry
                self.expired.append(job)

    def choices(self, p: int) -> list[int]:
        """What device p may be told: wait, idle, any kind, also one of no use."""
        return [self.num_kinds] if self.free_at[p] > self.now else list(range(WAIT, self.num_kinds + 1))


def make_graph(rng: np.random.Generator, num_tasks: int, num_classes: int) -> TaskGraph:
    """Forks, joins and up to two branches out of one task, in any mixture."""
    ends = [(i, j) for i in range(num_tasks) for j in range(i + 1, num_tasks) if rng.random() < 0.5]
    branch = rng.integers(-1, 2, len(ends))
    probability = np.ones(len(ends))
    for source in range(num_tasks):
        for group in (0, 1):
            edges = [e for e, (i, _) in enumerate(ends) if i == source and branch[e] == group]
            probability[edges] = rng.dirichlet(np.ones(len(edges))) if edges else 1.0
    kind = rng.integers(0, 3, num_tasks)
    times = rng.choice([0.0, 1.0, 2.0, 5.0], (num_tasks, num_classes))
    times[kind == 2, 1:] = np.inf
    return TaskGraph(
        np.full(num_tasks, np.nan),
        [i for i, _ in ends],
        [j for _, j in ends],
        kinds=("a", "b", "c"),
        kind=kind,
        classes=tuple(f"c{c}" for c in range(num_classes)),
        times=times,
        probability=probability,
        branch=branch,
    )


def make_case(seed: int, num_jobs: int, num_tasks: int) -> tuple[Problem, Rules, list[float]]:
    """Jobs of different graphs on up to three devices; times are whole or half, so that they tie."""
    rng = np.random.default_rng(seed)
    num_devices = int(rng.integers(1, 4))
    classes = [DeviceClass(f"c{c}", batch=int(rng.integers(1, 4))) for c in range(num_devices)]
    graphs = [make_graph(rng, num_tasks, num_devices) for _ in range(num_jobs)]
    problem = Problem([Job(g) for g in graphs], Cluster.uniform(classes, [1] * num_devices))
    rules = Rules(
        expiry=float(rng.choice([np.inf, 12.0])), idle_block=float(rng.choice([0.0, 1.5])), peeks=False
    )
    return problem, rules, np.sort(rng.integers(0, 3 * num_jobs, num_jobs).astype(float)).tolist()


def make_kernel(problem: Problem, rules: Rules, arrival: list[float], seed: int) -> tuple[Stream, State]:
    """The same case for the kernel; job j walks graph j."""
    stream = compile_stream(problem, rules)
    state = new_state(stream, 1, len(arrival), edge_probabilities(problem), room=256, mixed=True)
    state.seed[0], state.arrival[0], state.graph[0] = seed, arrival, np.arange(len(arrival))
    return stream, state


def assert_same(twin: Twin, s: State) -> None:
    """Clock, queues, devices and counts agree."""
    max_nodes = s.open_edges.shape[2]
    for kind in range(twin.num_kinds):
        items = sorted(s.queue[0, kind, : s.queued[0, kind]].tolist())
        assert items == [job * max_nodes + node for job, node in twin.queue(kind)]
    assert s.total[0, NOW] == twin.now
    assert s.free_at[0].tolist() == twin.free_at
    assert s.count[0, [DECISIONS, IDLES, EXPIRED]].tolist() == [twin.decisions, twin.idles, len(twin.expired)]
    assert s.count[0, COMPLETED] == len(twin.finish) - len(twin.expired)
    assert s.count[0, IN_SYSTEM] == twin.next_job - len(twin.finish)
    assert s.total[0, [JOB_TIME, QUEUE_TIME]] == pytest.approx([twin.job_time, twin.queue_time])


def play(twin: Twin, stream: Stream, s: State, rng: np.random.Generator) -> None:
    """Random decisions in both until the end."""
    is_over = twin.advance()
    assert begin(stream, s, 0, -1.0) == is_over
    while not is_over:
        assert_same(twin, s)
        action = [int(rng.choice(twin.choices(p))) for p in range(len(twin.classes))]
        apply_action(stream, s, 0, np.array(action))
        twin.decide(action)
        is_over = twin.advance()
        assert advance(stream, s, 0) == is_over
    assert_same(twin, s)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 7))
def test_kernel_equals_plain_twin(seed: int, num_jobs: int, num_tasks: int):
    problem, rules, arrival = make_case(seed, num_jobs, num_tasks)
    twin = Twin(problem, realise(problem, seed), rules, arrival)
    stream, state = make_kernel(problem, rules, arrival, seed)
    play(twin, stream, state, np.random.default_rng(seed))
    assert state.finish[0].tolist() == [twin.finish[job] for job in range(num_jobs)]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_estimates_count_every_outcome_once(seed: int, num_tasks: int):
    problem, rules, arrival = make_case(seed, 1, num_tasks)
    twin = Twin(problem, realise(problem, seed), rules, arrival)
    stream, state = make_kernel(problem, rules, arrival, seed)
    play(twin, stream, state, np.random.default_rng(seed))
    counted = [[1.0, float(outcomes[0])] for _, outcomes in sorted(twin.seen.items())]
    assert sorted(row for row in state.seen[0].tolist() if row[0] > 0) == sorted(counted)


def test_first_items_of_a_queue_stand_as_in_heapq():
    stream, state = peer.traced([1], 200, 0.5)
    state.arrival[0] = 0.0
    begin(stream, state, 0, peer.START)
    apply_action(stream, state, 0, np.array([0, 0, 0, 0]))
    queue = list(range(200))
    for _ in range(17):
        heapq.heappop(queue)
    assert state.queue[0, 0, : state.queued[0, 0]].tolist() == [6 * job for job in queue]


def test_full_queue_ends_episode_as_overflow():
    stream = compile_stream(peer.problem(), peer.RULES)
    state = new_state(stream, 1, 50, edge_probabilities(peer.problem()), room=8)
    assert begin(stream, state, 0, peer.START)
    assert state.overflow[0]


def test_environments_do_not_touch_one_another():
    stream, state = peer.traced([1, 2, 3], 300, 0.5)
    run_episodes(peer.rule(queue_rules.FIFO, num_envs=3), stream, state, peer.START)
    alone_stream, alone = peer.traced([2], 300, 0.5)
    run_episodes(peer.rule(queue_rules.FIFO), alone_stream, alone, peer.START)
    assert state.finish[1].tobytes() == alone.finish[0].tobytes()


def test_kernels_have_one_signature():
    stream, state = peer.traced([1], 50, 0.5)
    run_episodes(peer.rule(FIFO), stream, state, peer.START)
    run_episodes(peer.heavy_last(0, 1, 1), stream, state, peer.START)
    begin(stream, state, 0, peer.START)
    apply_action(stream, state, 0, np.zeros(4, np.int64))
    advance(stream, state, 0)
    for kernel in (run_episodes, begin, apply_action, advance):
        assert len(kernel.signatures) == 1


def two_devices() -> tuple[Stream, State]:
    """One task that only the second of two devices can run; idling blocks a device for 5."""
    graph = TaskGraph([np.nan], [], [], kinds=("a",), kind=[0], classes=("c0", "c1"), times=[[np.inf, 2.0]])
    classes = [DeviceClass("c0"), DeviceClass("c1")]
    problem = Problem(graph, Cluster.uniform(classes, [1, 1]))
    stream = compile_stream(problem, Rules(idle_block=5.0))
    state = new_state(stream, 1, 1, edge_probabilities(problem))
    begin(stream, state, 0, 0.0)
    return stream, state


def test_time_passes_while_the_only_able_device_is_blocked():
    stream, state = two_devices()
    for action in ([WAIT, 1], [WAIT, WAIT], [WAIT, 0]):
        assert not state.finish[0, 0] > 0
        apply_action(stream, state, 0, np.array(action))
        is_over = advance(stream, state, 0)
    assert is_over
    assert state.finish[0, 0] == 7.0


def branching(name: str, groups: tuple[int, ...]) -> TaskGraph:
    """A task that branches into two in each of these groups."""
    targets = list(range(1, 2 * len(groups) + 1))
    branch = [group for group in groups for _ in range(2)]
    return TaskGraph(
        np.ones(1 + len(targets)), [0] * len(targets), targets, branch=branch,
        probability=np.full(len(targets), 0.5), names=("root", *(f"{name}{i}" for i in targets)), name=name,
    )  # fmt: skip


def choices(*graphs: TaskGraph, tracked: tuple[str, ...] | None) -> list[int]:
    problem = Problem([Job(graph) for graph in graphs], Cluster.uniform([DeviceClass("c")], [1]))
    return compile_stream(problem, Rules(tracked=tracked)).choice.tolist()


@pytest.mark.parametrize("tracked", [None, ("root",)])
def test_every_branch_group_of_a_task_is_tracked(tracked: tuple[str, ...] | None):
    assert choices(branching("x", (0, 1)), tracked=tracked) == [0, 0, 1, 1]


def test_branches_of_several_graphs_have_numbers_of_their_own():
    assert choices(branching("x", (0,)), branching("y", (0, 1)), tracked=None) == [0, 0, 1, 1, 2, 2]


def test_jobs_of_the_same_graph_share_their_branches():
    graph = branching("x", (0,))
    assert choices(graph, graph, tracked=None) == [0, 0, 0, 0]


def test_tracking_a_task_that_does_not_branch_is_refused():
    with pytest.raises(InputError, match="expected a task that branches in graph 'x', got 'x1'"):
        choices(branching("x", (0,)), tracked=("x1",))


def test_kind_that_no_device_can_run_is_refused():
    times = [[1.0, np.inf], [np.inf, 1.0]]
    graph = TaskGraph([np.nan] * 2, [], [], kinds=("a",), kind=[0, 0], classes=("c0", "c1"), times=times)
    problem = Problem(graph, Cluster.uniform([DeviceClass("c0"), DeviceClass("c1")], [1, 1]))
    with pytest.raises(InfeasibleError, match="no device can run every task of kind 'a'"):
        compile_stream(problem)
