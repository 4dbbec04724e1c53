"""Rules by weights: orders and costs against a twin in plain Python."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from weft.model.problem import Problem, realise
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import RuleDispatcher
from weft.sim.arrays import compile_problem
from weft.sim.tasks.forecast import AT_LOAD, Forecast
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state
from weft.sim.tasks.rules import LATE, TaskRule, first_start, play_until, write_ready
from weft.sim.tasks.state import READY, STARTED, UNRELEASED, Facts, Tasks, TaskState
from weft.sim.tasks.weights import NAMES, NUM_ABOUT, NUM_WEIGHTS, PRICED, about, vector
from weft.sim.timeline.list_planning import optimistic_cost


def stream(seed: int) -> Problem:
    return scenario("workflows", load=4.0, jobs=8, tasks=20, noise=0.3).dispatched("test", 0, seed)


@dataclass
class Moment:
    """A stream stopped halfway, just before something is decided."""

    problem: Problem
    w: Tasks
    f: Facts
    s: TaskState
    rule: TaskRule

    @property
    def ready(self) -> list[int]:
        return [int(i) for i in np.flatnonzero(self.s.status == READY)]

    @property
    def backlog(self) -> float:
        crowd = math.log((len(self.ready) + 1) / (float(self.w.capacity[:, 0].sum()) + 1))
        return max(-2.0, min(2.0, crowd))

    @property
    def spread(self) -> float:
        """How much jobs with ready tasks differ in work left: standard deviation of the logarithms."""
        rank, job, logs = mean_rank(self.problem), self.problem.job_of, []
        for j in {int(job[i]) for i in self.ready}:
            own = [k for k in range(self.problem.num_tasks) if job[k] == j]
            left = sum(float(self.s.work[k]) for k in own if self.s.status[k] in (UNRELEASED, READY))
            logs.append(math.log(max(left, 0.03 * max(rank[k] for k in own))))
        return min(3.0, float(np.std(logs)))

    @property
    def load(self) -> float:
        """Logarithm of the load to be expected: all arrivals of the past summed up anew."""
        slots, work = float(self.w.capacity[:, 0].sum()), self.s.work.tolist()
        jobs = sorted(range(len(self.problem.jobs)), key=lambda j: self.problem.jobs[j].release)
        past = [j for j in jobs if self.problem.jobs[j].release <= self.s.now[0]]
        times = [*(self.problem.jobs[j].release for j in past), float(self.s.now[0])]
        total, load = 0.0, 1.0
        for k, j in enumerate(past):
            own = sum(work[self.problem.offsets[j] : self.problem.offsets[j + 1]])
            total += own
            horizon = 20 * total / (k + 1) / slots
            load = (load + own / slots / horizon if k else 1.0) * math.exp(
                (times[k] - times[k + 1]) / horizon
            )
        return max(-2.0, min(2.0, math.log(load)))


def halfway(seed: int, weights: tuple[float, ...]) -> Moment:
    problem = stream(seed)
    w = compile_tasks([problem])
    f, s = facts_of([realise(problem, seed)], w), new_task_state(w)
    rule = RuleDispatcher("rule", LATE, weights=weights).prepare([problem], s, [0])
    until = float(np.quantile(w.job_release, 0.7)) + 1.0
    play_until(rule, w, f, s, 0, until)
    s.now[0] = until
    return Moment(problem, w, f, s, rule)


def mean_rank(problem: Problem) -> list[float]:
    """Upward ranks, children first."""
    a = compile_problem(problem)
    rank = [0.0] * problem.num_tasks
    for i in a.order[::-1].tolist():
        edges = range(a.succ_ptr[i], a.succ_ptr[i + 1])
        ahead = [a.mean_latency + a.succ_data[e] * a.mean_inverse + rank[a.succ[e]] for e in edges]
        rank[i] = float(problem.mean_run_times[i]) + max(ahead, default=0.0)
    return rank


def features(moment: Moment, i: int) -> list[float]:
    """The numbers by which a ready task is ordered, and 0 for each weight of devices."""
    problem, w, s, b = moment.problem, moment.w, moment.s, moment.backlog
    rank, job = mean_rank(problem), problem.job_of
    own = [k for k in range(problem.num_tasks) if job[k] == job[i]]
    ready = [k for k in moment.ready if job[k] == job[i]]
    left = sum(float(s.work[k]) for k in own if s.status[k] in (UNRELEASED, READY))
    children = [int(w.succ[e]) for e in range(w.succ_ptr[i], w.succ_ptr[i + 1])]
    alone = sum(all(int(p) == i or s.status[p] > STARTED for p in parents(w, c)) for c in children)
    a = compile_problem(problem)
    edges = range(a.succ_ptr[i], a.succ_ptr[i + 1])
    out = sum(a.mean_latency + a.succ_data[e] * a.mean_inverse for e in edges)
    runs = sorted(float(x) for x in problem.run_times[i])
    age = float(s.now[0]) - problem.jobs[job[i]].release
    most = max(rank[k] for k in own)
    length, run = (max(time, 0.03 * most) for time in (rank[i], runs[0]))
    path = math.log(max(max(rank[k], 0.03 * most) for k in ready))
    return [
        math.log(left), b * math.log(left), rank[i] / most, b * rank[i] / most, math.log(length),
        b * math.log(length), path, b * path, math.log(len(ready)), math.log1p(alone), out / (out + runs[0]),
        math.log(run), b * math.log(run), float(s.job_open[job[i]]) / len(own), age / (age + most),
        min(math.log(runs[1] / runs[0]), 3.0), *[0.0] * 8, moment.load * math.log(left),
        moment.load * rank[i] / most, *[0.0] * 5, *[moment.spread * x for x in (math.log(left), math.log(length))],
        *[moment.spread * x for x in (path, math.log(len(ready)))], 0.0,
    ]  # fmt: skip


def parents(w: Tasks, i: int) -> list[int]:
    return [int(w.pred[e]) for e in range(w.pred_ptr[i], w.pred_ptr[i + 1])]


@pytest.mark.parametrize("seed", range(6))
def test_ready_tasks_come_in_the_order_of_the_weighted_features(seed: int):
    rng = np.random.default_rng(seed)
    moment = halfway(seed, PRICED)
    assert len(moment.ready) > 3
    weights = rng.normal(size=NUM_WEIGHTS)
    found = np.zeros(len(moment.ready), np.int64)
    rule = moment.rule._replace(weights=weights)
    written = np.zeros(len(found))
    assert write_ready(rule, moment.w, moment.s, 0, found, written) == len(found)
    scores = {i: float(np.dot(weights, features(moment, i))) for i in moment.ready}
    ordered = [scores[i] for i in found.tolist()]
    assert written.tolist() == pytest.approx(ordered, rel=1e-9)
    assert ordered == pytest.approx(sorted(scores.values()), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_expected_load_nears_the_load_of_a_long_stream(seed: int):
    problem = scenario("workflows", load=0.5, jobs=300, tasks=8).dispatched("test", 0, seed)
    s = new_task_state(compile_tasks([problem]))
    rule = RuleDispatcher("rule", LATE, weights=PRICED).prepare([problem], s, [0])
    assert rule.forecast[100:, AT_LOAD].mean() == pytest.approx(0.5, rel=0.15)
    assert rule.forecast[0, AT_LOAD] == 1.0


def test_expected_load_has_no_unit():
    """Times and sizes ten times as large give the same load, a horizon ten times as long."""
    short, long = Forecast(4.0), Forecast(4.0)
    rows = np.ones((2, 3))
    for time, work in ((0.0, 3.0), (1.0, 5.0), (1.5, 0.0), (4.0, 2.0)):
        short.arrive(time, np.array([work, 1.0]))
        long.arrive(10 * time, np.array([10 * work, 10.0]))
    short.write(rows, 0)
    long.write(rows, 1)
    assert rows[1] == pytest.approx(rows[0] * [10.0, 1.0, 10.0])


def test_jobs_that_take_no_time_leave_the_load_at_one():
    known, rows = Forecast(4.0), np.ones((1, 3))
    known.arrive(0.0, np.zeros(2))
    known.arrive(9.0, np.zeros(1))
    known.write(rows, 0)
    assert rows[0].tolist() == [9.0, 1.0, math.inf]


def test_buffers_are_empty_after_a_decision():
    moment = halfway(1, PRICED)
    found = np.zeros(len(moment.ready), np.int64)
    write_ready(
        moment.rule._replace(weights=np.ones(NUM_WEIGHTS)), moment.w, moment.s, 0, found, np.zeros(len(found))
    )
    assert not moment.rule.tally[:, 0].any()


def test_what_is_known_of_tasks_is_that_of_their_job_alone():
    problem = stream(3)
    whole = about(problem)
    for j, job in enumerate(problem.jobs):
        alone = about(problem.replaced(jobs=(job,)))
        assert (whole[problem.offsets[j] : problem.offsets[j + 1]] == alone).all()


def test_later_costs_are_those_of_peft():
    problem = stream(4)
    later = about(problem)[:, NUM_ABOUT : NUM_ABOUT + problem.cluster.num_classes]
    assert (later == optimistic_cost(compile_problem(problem))).all()


def idle_costs(moment: Moment, i: int, weights: tuple[float, ...]) -> list[float]:
    """Of every device, what the first task in the order costs there while nothing runs or waits on any."""
    w, s, problem = moment.w, moment.s, moment.problem
    by_name = dict(zip(NAMES, weights, strict=True))
    now, price = float(s.now[0]), moment.rule.price[int(s.next_job[0]) - 1]
    classes = problem.cluster.device_class.tolist()
    run = [float(problem.run_times[i, c]) for c in classes]
    cost = [float(price[c]) * one for c, one in zip(classes, run, strict=True)]
    later = [float(moment.rule.about[i, NUM_ABOUT + c]) for c in classes]
    watts = [problem.cluster.classes[c].watts - problem.cluster.classes[c].idle_watts for c in classes]
    mean = sum(watts) / len(watts)
    found = []

    def folded(name: str) -> float:
        crowded, offered = by_name[f"{name} x backlog"], by_name[f"{name} x forecast"]
        return by_name[name] + moment.backlog * crowded + moment.load * offered

    for p in range(len(classes)):
        ready = max(
            [problem.jobs[problem.job_of[i]].release, *(arrival(moment, k, i, p) for k in parents(w, i))]
        )
        start = max(now, ready)
        found.append(
            start + run[p] + by_name["time there"] * run[p]
            + folded("price") * (cost[p] - min(cost)) + folded("idle gap") * (start - now)
            + by_name["data wait"] * max(0.0, ready - now)
            + folded("later") * (later[p] - min(later)) + by_name["energy"] * watts[p] / mean * run[p]
        )  # fmt: skip
    return found


def arrival(moment: Moment, parent: int, child: int, p: int) -> float:
    """When the data of a parent that is done is on a device."""
    s, w, cluster = moment.s, moment.w, moment.problem.cluster
    row = int(s.first_row[parent])
    q, ended = int(s.row_device[row]), float(s.row_finish[row])
    e = next(e for e in range(w.succ_ptr[parent], w.succ_ptr[parent + 1]) if w.succ[e] == child)
    groups = len(moment.problem.links[0])
    link = int(cluster.link_group[q]) * groups + int(cluster.link_group[p])
    return ended if p == q else ended + float(w.latency[link] + w.succ_data[e] * w.inverse[link])


@pytest.mark.parametrize("seed", range(8))
def test_first_task_goes_where_it_costs_least(seed: int):
    """All that runs ends at once, so that the first task in the order has every device before it."""
    rng = np.random.default_rng(seed)
    weights = tuple(rng.normal(scale=0.4, size=NUM_WEIGHTS).tolist())
    moment = halfway(seed, PRICED)
    moment.s.running[:] = -1
    moment.s.free[:] = moment.w.capacity
    moment.s.has_room[:] = True
    moment.s.num_free[0] = len(moment.w.capacity)
    rule = moment.rule._replace(weights=np.array(weights), look=1)
    order = np.zeros(len(moment.ready), np.int64)
    write_ready(rule, moment.w, moment.s, 0, order, np.zeros(len(order)))
    costs = idle_costs(moment, int(order[0]), weights)
    task, device = first_start(rule, moment.w, moment.f, moment.s, 0)
    best = int(np.argmin(costs))
    if task == order[0]:
        assert costs[device] == pytest.approx(costs[best])
    else:  # its data is not there yet: others may start before it
        ready = max(arrival(moment, k, int(order[0]), best) for k in parents(moment.w, int(order[0])))
        assert ready > moment.s.now[0]


def test_vector_refuses_a_name_that_is_no_weight():
    with pytest.raises(KeyError, match="wrk left"):
        vector({"wrk left": 1.0})
