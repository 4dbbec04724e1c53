"""The task view: a slow twin in plain Python, replay of timelines, capacities, losses, deadlines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import LINKS, SEEDS, make_problem

from weft.errors import InputError, UnsupportedError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Floats, GraphBuilder, TaskGraph
from weft.model.problem import Job, Problem, Realisation, expected, realise
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.schedulers.planners.lists import Deft, FifoDeft, Heft, HeftAppend, ListPlanner, Peft, Random
from weft.schedulers.planners.tdca import Tdca
from weft.sim.tasks import clock as task_time
from weft.sim.tasks import moves as task_moves
from weft.sim.tasks import rules as task_rules
from weft.sim.tasks.clock import advance
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state, schedule_of
from weft.sim.tasks.moves import commit, join, lose, reserve, serve_all
from weft.sim.tasks.replay import plan_order, replayed
from weft.sim.tasks.rules import (
    BY_WEIGHTS,
    IDLE,
    LATE,
    VIRTUAL,
    TaskRule,
    decide,
    keyed_rule,
    run_tasks,
    write_finishes,
    write_ready,
)
from weft.sim.tasks.state import DONE, NUM_DONE, NUM_EXPIRED, NUM_MISSED, Facts, Tasks, TaskState
from weft.sim.tasks.weights import NUM_WEIGHTS, PRICED, SRW, about

PROPERTY = settings(max_examples=100, deadline=None, derandomize=True)
CPU = DeviceClass("cpu")
EVERY = tuple(0.4 * (-1.0) ** k * (1 + k % 3) for k in range(NUM_WEIGHTS))
"""Every feature counts, half of them the wrong way round."""


def rule_of(weights: tuple[float, ...], device: int, w: Tasks, about: Floats | None = None) -> TaskRule:
    """A rule by keys, or by weights with prices of 1."""
    if not weights:
        return keyed_rule(device, 4)
    price = np.ones((len(w.job_release), w.run.shape[1])) if device == LATE else np.zeros((0, 0))
    forecast, tally = np.ones((len(w.job_release), 3)), np.zeros((len(w.job_release), 2))
    return TaskRule(BY_WEIGHTS, device, 4, np.array(weights), about, price, forecast, tally, 0)


def laid_out(problem: Problem, world: Realisation, extra: int = 0) -> tuple[Tasks, Facts, TaskState]:
    """One environment, tasks by the age of their job."""
    w = compile_tasks([problem])
    s = new_task_state(w, extra)
    s.key[:] = w.job_release[w.job]
    s.work[:] = problem.best_run_times
    return w, facts_of([world], w), s


def ran(
    problem: Problem, world: Realisation, device: int = IDLE, weights: tuple[float, ...] = ()
) -> Schedule:
    w, f, s = laid_out(problem, world)
    run_tasks(rule_of(weights, device, w, about(problem)), w, f, s)
    assert not s.overflow.any()
    return schedule_of(problem, world, w, s)


def with_branches(graph: TaskGraph, rng: np.random.Generator) -> TaskGraph:
    """The graph with up to two branches out of every task."""
    branch = rng.integers(-1, 2, graph.num_edges)
    probability = np.ones(graph.num_edges)
    for source in range(graph.num_tasks):
        for group in (0, 1):
            edges = np.flatnonzero((graph.sources == source) & (branch == group))
            probability[edges] = rng.dirichlet(np.ones(len(edges))) if len(edges) else 1.0
    return graph.replaced(branch=branch, probability=probability)


def make_case(seed: int) -> tuple[Problem, Realisation]:
    """Several jobs with releases, links, slots, memory, branches and noise, in any mixture."""
    rng = np.random.default_rng(seed)
    problem = make_problem(
        seed,
        sizes=tuple(int(rng.integers(1, most)) for most in (4, 25, 6, 4)),
        graph_style=(str(rng.choice(["fork", "diamond", "random", "chain"])), "some zero", "uniform"),
        links=str(rng.choice(LINKS)),
        is_plain=bool(rng.random() < 0.5),
        has_copies=True,
    )
    if rng.random() < 0.5:
        jobs = [replace(job, graph=with_branches(job.graph, rng)) for job in problem.jobs]
        problem = problem.replaced(jobs=tuple(jobs))
    problem = problem.replaced(noise=float(rng.choice([0.0, 0.4])))
    return problem, realise(problem, seed)


# -- the twin -----------------------------------------------------------------------------------------


@dataclass
class Twin:
    """The same dispatch in plain Python: lists, one instant at a time, nothing clever."""

    problem: Problem
    world: Realisation
    device: int
    now: float = 0.0
    started: dict[int, tuple[int, float]] = field(default_factory=dict)
    ends: list[tuple[float, int]] = field(default_factory=list)
    done: dict[int, float] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        problem = self.problem
        self.class_of = problem.cluster.device_class.tolist()
        self.edges: list[tuple[int, int, float, bool]] = []
        for j, job in enumerate(problem.jobs):
            base, graph = int(problem.offsets[j]), job.graph
            columns = (graph.sources + base, graph.targets + base, graph.data, self.world.taken[j])
            self.edges += list(zip(*(c.tolist() for c in columns), strict=True))
        self.release = [problem.jobs[j].release for j in problem.job_of.tolist()]

    def taken_into(self, i: int) -> list[tuple[int, float]]:
        return [(k, data) for k, j, data, taken in self.edges if j == i and taken and k in self.done]

    def settle(self) -> None:
        """Tasks all of whose edges come from dead tasks or are not taken are dead too."""
        changed = True
        while changed:
            changed = False
            for i in range(self.problem.num_tasks):
                into = [(k, taken) for k, j, _, taken in self.edges if j == i]
                is_settled = all(k in self.dead or k in self.done for k, _ in into)
                has_none = all(k in self.dead or not taken for k, taken in into)
                if i not in self.dead and into and is_settled and has_none:
                    self.dead.add(i)
                    changed = True

    def ready(self) -> list[int]:
        found = []
        for i in range(self.problem.num_tasks):
            parents = [k for k, j, _, _ in self.edges if j == i]
            is_open = any(k not in self.done and k not in self.dead for k in parents)
            if i not in self.started and i not in self.dead and not is_open and self.release[i] <= self.now:
                found.append(i)
        return sorted(found, key=lambda i: (self.release[i], i))

    def may_use(self, i: int, p: int) -> bool:
        allowed = self.problem.eligible
        is_allowed = not allowed.size or bool(allowed[self.problem.job_of[i], p])
        return is_allowed and bool(np.isfinite(self.problem.run_times[i, self.class_of[p]]))

    def data_ready(self, i: int, p: int) -> float:
        latency, bandwidth = self.problem.links
        inverse, group = 1.0 / bandwidth, self.problem.cluster.link_group
        ready = self.release[i]
        for k, data in self.taken_into(i):
            q = self.started[k][0]
            g, h = group[q], group[p]
            ready = max(ready, self.done[k] + (0.0 if p == q else latency[g, h] + data * inverse[g, h]))
        return ready

    def running(self, p: int) -> list[int]:
        return [i for i, (q, _) in self.started.items() if q == p and i not in self.done]

    def fits(self, i: int, p: int) -> bool:
        job, base = self.problem.jobs, self.problem.offsets
        need: dict[str, float] = {}
        for k in [i, *self.running(p)]:
            graph, local = job[self.problem.job_of[k]].graph, k - int(base[self.problem.job_of[k]])
            held = {"slots": graph.slots[local], "memory": graph.memory[local]}
            held |= dict(zip(graph.resources, graph.demands[local], strict=True))
            need = {name: need.get(name, 0.0) + float(held[name]) for name in held}
        device = self.problem.cluster.classes[self.class_of[p]]
        if device.slots == 1:
            return not self.running(p)
        limits = {"slots": device.slots, "memory": device.memory, **device.capacity}
        return all(need[name] <= limits.get(name, np.inf) * (1 + 1e-9) for name in need)

    def run_time(self, i: int, p: int) -> float:
        return float(self.problem.run_times[i, self.class_of[p]])

    def start(self, i: int, p: int) -> None:
        begin = max(self.now, self.data_ready(i, p))
        self.started[i] = (p, begin)
        self.ends.append((begin + float(self.world.run_times[i, self.class_of[p]]), i))

    def decide_idle(self) -> None:
        for i in self.ready():
            choices = [
                (max(self.now, self.data_ready(i, p)) + self.run_time(i, p), p)
                for p in range(len(self.class_of))
                if self.may_use(i, p) and self.fits(i, p)
            ]
            if choices:
                self.start(i, min(choices)[1])

    def decide_virtual(self) -> None:
        """Only for devices of one slot."""
        upto = [self.now] * len(self.class_of)
        for p in range(len(upto)):
            for k in self.running(p):
                upto[p] = max(self.now, self.started[k][1] + self.run_time(k, p))
        for i in self.ready():
            value, p = min(
                (max(upto[p], self.data_ready(i, p)) + self.run_time(i, p), p)
                for p in range(len(upto))
                if self.may_use(i, p)
            )
            upto[p] = value
            if not self.running(p):
                self.start(i, p)

    def play(self) -> None:
        times = sorted(set(self.release))
        while times or self.ends:
            self.now = max(self.now, min([*times[:1], *(end for end, _ in self.ends)]))
            times = [time for time in times if time > self.now]
            while any(end <= self.now for end, _ in self.ends):
                for end, i in sorted(event for event in self.ends if event[0] <= self.now):
                    self.ends.remove((end, i))
                    self.done[i] = end
                self.settle()
            self.decide_idle() if self.device == IDLE else self.decide_virtual()

    def rows(self) -> list[tuple[int, int, float, float]]:
        return sorted((i, p, begin, self.done[i]) for i, (p, begin) in self.started.items())


def rows_of(schedule: Schedule) -> list[tuple[int, int, float, float]]:
    columns = (schedule.task, schedule.device, schedule.start, schedule.finish)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@PROPERTY
@given(SEEDS)
def test_fifo_equals_its_slow_twin(seed: int):
    problem, world = make_case(seed)
    twin = Twin(problem, world, IDLE)
    twin.play()
    assert rows_of(ran(problem, world)) == twin.rows()


@PROPERTY
@given(SEEDS)
def test_eft_equals_its_slow_twin(seed: int):
    problem, world = make_case(seed)
    classes = tuple(replace(c, slots=1, memory=np.inf, capacity={}) for c in problem.cluster.classes)
    jobs = [replace(job, graph=job.graph.replaced(slots=1)) for job in problem.jobs]
    problem = problem.replaced(cluster=problem.cluster.replaced(classes=classes), jobs=tuple(jobs))
    world = realise(problem, seed)
    twin = Twin(problem, world, VIRTUAL)
    twin.play()
    w, f, s = laid_out(problem, world)
    run_tasks(rule_of((), VIRTUAL, w)._replace(look=1000), w, f, s)
    assert rows_of(schedule_of(problem, world, w, s)) == twin.rows()


@pytest.mark.parametrize("device", [IDLE, VIRTUAL, LATE])
@pytest.mark.parametrize("weights", [(), SRW, PRICED, EVERY])
def test_every_rule_gives_valid_schedules(device: int, weights: tuple[float, ...]):
    @PROPERTY
    @given(SEEDS)
    def check(seed: int) -> None:
        problem, world = make_case(seed)
        assert not validate(ran(problem, world, device, weights))

    check()


# -- replay of timelines ------------------------------------------------------------------------------


def plan_case(seed: int, *, has_copies: bool) -> Problem:
    """Several jobs on a cluster with links and slots; every task takes time."""
    rng = np.random.default_rng(seed)
    problem = make_problem(
        seed,
        sizes=tuple(int(rng.integers(1, most)) for most in (3, 25, 6, 4)),
        graph_style=(str(rng.choice(["fork", "diamond", "random", "chain"])), "some zero", "uniform"),
        links=str(rng.choice(LINKS)),
        is_plain=bool(rng.random() < 0.5),
        has_copies=has_copies,
    )
    jobs = [replace(job, graph=job.graph.replaced(work=job.graph.work + 0.5)) for job in problem.jobs]
    return problem.replaced(jobs=tuple(jobs))


@pytest.mark.parametrize("planner", [Heft(), HeftAppend(), Peft(), Random()], ids=lambda p: p.name)
def test_replay_of_a_timeline_gives_the_same_starts(planner: ListPlanner):
    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(SEEDS)
    def check(seed: int) -> None:
        plan = planner.plan(plan_case(seed, has_copies=False), seed=seed)
        assert rows_of(replayed(plan)) == rows_of(plan)

    check()


@pytest.mark.parametrize("planner", [Heft(), Peft(), Random()], ids=lambda p: p.name)
def test_replay_of_tasks_that_take_no_time_gives_the_same_starts(planner: ListPlanner):
    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(SEEDS)
    def check(seed: int) -> None:
        rng = np.random.default_rng(seed)
        problem = make_problem(
            seed,
            sizes=tuple(int(rng.integers(1, most)) for most in (3, 25, 6, 4)),
            graph_style=(str(rng.choice(["fork", "diamond", "random", "chain"])), "some zero", "uniform"),
            links=str(rng.choice(LINKS)),
            is_plain=True,
            has_copies=False,
        )
        plan = planner.plan(problem, seed=seed)
        assert rows_of(replayed(plan)) == rows_of(plan)

    check()


def left_shifted(plan: Schedule) -> Schedule:
    """Every row as early as the best copies of its parents and the order on its device allow.

    Only for devices of one slot. A row that moves may change the order of starts, so until nothing
    moves.
    """
    problem, before = plan.problem, None
    while before != rows_of(plan):
        before = rows_of(plan)
        start, finish = plan.start.copy(), plan.finish.copy()
        order = plan_order(plan).tolist()
        upto = [0.0] * problem.cluster.num_devices
        for row in order:
            i, p = int(plan.task[row]), int(plan.device[row])
            start[row] = max(upto[p], first_data(plan, order[: order.index(row)], finish, i, p))
            run = problem.run_times[i, problem.cluster.device_class[p]]
            finish[row] = upto[p] = start[row] + run
        plan = replace(plan, start=start, finish=finish)
    return plan


def first_data(plan: Schedule, rows: list[int], finish: np.ndarray, i: int, p: int) -> float:
    """When the data of all parents can be on a device, from the rows that come before."""
    problem = plan.problem
    latency, bandwidth = problem.links
    inverse, group = 1.0 / bandwidth, problem.cluster.link_group
    j = int(problem.job_of[i])
    graph, base = problem.jobs[j].graph, int(problem.offsets[j])
    ready = problem.jobs[j].release
    for e in np.flatnonzero(graph.targets == i - base).tolist():
        sources = [row for row in rows if plan.task[row] == base + graph.sources[e]]
        arrivals = [
            finish[row]
            + (
                0.0
                if plan.device[row] == p
                else latency[group[plan.device[row]], group[p]]
                + graph.data[e] * inverse[group[plan.device[row]], group[p]]
            )
            for row in sources
        ]
        ready = max(ready, min(arrivals))
    return float(ready)


@pytest.mark.parametrize("planner", [Deft(), FifoDeft(), Tdca()], ids=lambda p: p.name)
def test_replay_with_copies_gives_the_same_starts(planner: ListPlanner):
    @PROPERTY
    @given(SEEDS)
    def check(seed: int) -> None:
        problem = plan_case(seed, has_copies=True)
        classes = tuple(replace(c, slots=1, memory=np.inf, capacity={}) for c in problem.cluster.classes)
        jobs = [replace(job, graph=job.graph.replaced(slots=1)) for job in problem.jobs]
        problem = problem.replaced(cluster=problem.cluster.replaced(classes=classes), jobs=tuple(jobs))
        plan = left_shifted(planner.plan(problem, seed=seed))
        assert rows_of(replayed(plan)) == rows_of(plan)

    check()


@PROPERTY
@given(SEEDS)
def test_replay_under_noise_is_valid(seed: int):
    problem = plan_case(seed, has_copies=True).replaced(noise=0.5)
    assert not validate(replayed(Deft().plan(problem), realise(problem, seed)))


def test_replay_refuses_a_plan_that_cannot_end(fork_problem: Problem):
    plan = Schedule(fork_problem, [0, 1, 2], [0, 0, 1], [20.0, 0.0, 30.0], [21.0, 10.0, 40.0])
    with pytest.raises(InputError, match="'left' starts before its parent 'root'"):
        replayed(plan)


# -- single moves -------------------------------------------------------------------------------------


def chain_problem(devices: int = 2, **job: float) -> Problem:
    """Two tasks in a row, 10 bytes between them, one byte per second."""
    builder = GraphBuilder("chain")
    builder.task("a", 4.0)
    builder.task("b", 6.0, after={"a": 10.0})
    return Problem(Job(builder.build(), **job), Cluster.uniform((CPU,), (devices,), bandwidth=1.0))


def test_committed_task_holds_its_device_while_its_data_travels():
    problem = chain_problem()
    w, f, s = laid_out(problem, expected(problem))
    assert not advance(w, f, s, 0)
    commit(w, f, s, 0, 0, 0)
    assert not advance(w, f, s, 0) and s.now[0] == 4.0
    row = commit(w, f, s, 0, 1, 1)
    assert not s.has_room[1] and s.row_start[row] == 14.0
    assert advance(w, f, s, 0) and s.now[0] == 20.0


def test_reserved_task_waits_for_a_busy_device():
    problem = Problem(TaskGraph([4.0, 1.0]), Cluster.uniform((CPU,), (2,)))
    w, f, s = laid_out(problem, expected(problem))
    advance(w, f, s, 0)
    reserve(w, s, 0, 0, 0, 0.0)
    reserve(w, s, 0, 1, 0, 1.0)
    serve_all(w, f, s, 0)
    assert advance(w, f, s, 0)
    assert rows_of(schedule_of(problem, None, w, s)) == [(0, 0, 0.0, 4.0), (1, 0, 4.0, 5.0)]


def test_policy_that_waits_is_asked_again_at_the_next_event():
    jobs = [Job(TaskGraph([1.0]), "a"), Job(TaskGraph([1.0]), "b", release=3.0)]
    problem = Problem(jobs, Cluster.uniform((CPU,), (1,)))
    w, f, s = laid_out(problem, expected(problem))
    assert not advance(w, f, s, 0) and s.now[0] == 0.0
    assert not advance(w, f, s, 0) and s.now[0] == 3.0
    assert s.num_ready[0] == 2
    assert advance(w, f, s, 0)


def test_lost_device_gives_its_tasks_back():
    problem = Problem(TaskGraph([4.0, 4.0]), Cluster.uniform((CPU,), (2,)))
    w, f, s = laid_out(problem, expected(problem), extra=2)
    rule = rule_of((), IDLE, w)
    advance(w, f, s, 0)
    decide(rule, w, f, s, 0)
    lose(w, s, 0, 1)
    assert (s.num_ready[0], s.num_free[0]) == (1, 0)
    while not advance(w, f, s, 0):
        decide(rule, w, f, s, 0)
    found = schedule_of(problem, None, w, s)
    assert [placed.outcome for placed in found.placements()].count("aborted") == 1
    assert not validate(found) and found.makespan == 8.0


def test_joined_device_is_used_again():
    problem = Problem(TaskGraph([4.0, 4.0]), Cluster.uniform((CPU,), (2,)))
    w, f, s = laid_out(problem, expected(problem))
    lose(w, s, 0, 1)
    assert s.num_free[0] == 1
    join(w, s, 0, 1)
    run = rule_of((), IDLE, w)
    while not advance(w, f, s, 0):
        decide(run, w, f, s, 0)
    assert schedule_of(problem, None, w, s).makespan == 4.0


def test_cancelled_reservation_is_ready_again_and_its_row_is_used_again():
    problem = Problem(TaskGraph([4.0]), Cluster.uniform((CPU,), (1,)))
    w, f, s = laid_out(problem, expected(problem))
    advance(w, f, s, 0)
    row = reserve(w, s, 0, 0, 0, 0.0)
    assert s.num_ready[0] == 0
    task_moves.cancel(w, s, 0, row)
    assert s.num_ready[0] == 1
    assert commit(w, f, s, 0, 0, 0) == row
    assert advance(w, f, s, 0) and s.status[0] == DONE


def test_late_job_is_counted_as_missed():
    problem = chain_problem(deadline=5.0)
    w, f, s = laid_out(problem, expected(problem))
    run_tasks(rule_of((), IDLE, w), w, f, s)
    assert s.count[0, [NUM_DONE, NUM_MISSED, NUM_EXPIRED]].tolist() == [1, 1, 0]
    assert schedule_of(problem, expected(problem), w, s).misses == 1


def test_what_has_not_started_when_its_job_is_due_is_dropped():
    problem = Problem(
        [Job(TaskGraph([4.0, 4.0, 4.0]), "late", deadline=5.0), Job(TaskGraph([1.0]), "free", release=6.0)],
        Cluster.uniform((CPU,), (1,)),
    )
    w = compile_tasks([problem], drops_late=True)
    f, s = facts_of([expected(problem)], w), new_task_state(w)
    run_tasks(rule_of((), IDLE, w), w, f, s)
    found = schedule_of(problem, expected(problem), w, s)
    assert s.count[0, NUM_EXPIRED] == 1
    assert [placed.outcome for placed in found.placements()].count("expired") == 1
    assert not validate(found) and found.misses == 1


def test_expected_finishes_count_data_and_what_runs():
    problem = chain_problem()
    w, f, s = laid_out(problem, expected(problem))
    rule, tasks = rule_of((), IDLE, w), np.zeros(4, np.int64)
    advance(w, f, s, 0)
    commit(w, f, s, 0, 0, 0)
    advance(w, f, s, 0)
    assert write_ready(rule, w, s, 0, tasks, np.zeros(4)) == 1 and tasks[0] == 1
    finishes = np.zeros((1, 2))
    write_finishes(w, f, s, 0, tasks[:1], finishes)
    assert finishes.tolist() == [[10.0, 20.0]]


def test_live_state_simulates_no_ends():
    problem = chain_problem()
    w = compile_tasks([problem])
    f, s = facts_of([expected(problem)], w, is_live=True), new_task_state(w)
    task_moves.release(w, s, 0, 0)
    row = commit(w, f, s, 0, 0, 1)
    assert s.num_events[0] == 0
    s.now[0] = 7.0
    task_moves.finish(w, f, s, 0, row)
    assert s.row_finish[row] == 7.0 and s.num_ready[0] == 1


def test_environments_do_not_touch_one_another():
    cases = [make_case(seed) for seed in (1, 5, 9)]
    w = compile_tasks([problem for problem, _ in cases])
    f, s = facts_of([world for _, world in cases], w), new_task_state(w)
    s.key[:] = w.job_release[w.job]
    run_tasks(rule_of((), IDLE, w), w, f, s)
    for b, (problem, world) in enumerate(cases):
        assert rows_of(schedule_of(problem, world, w, s, b)) == rows_of(ran(problem, world))


def test_batches_are_refused():
    problem = Problem(TaskGraph([1.0]), Cluster.uniform((DeviceClass("gpu", batch=4),), (1,)))
    with pytest.raises(UnsupportedError, match="class 'gpu' takes batches"):
        compile_tasks([problem])


def test_kernels_have_one_signature():
    kernels = [
        commit,
        reserve,
        serve_all,
        lose,
        join,
        decide,
        run_tasks,
        write_finishes,
        write_ready,
        advance,
    ]
    kernels += [task_moves.cancel, task_moves.finish, task_moves.release, task_time.begin]
    kernels += [task_rules.best_idle, task_rules.first_start]
    assert [kernel.py_func.__name__ for kernel in kernels if len(kernel.signatures) > 1] == []
