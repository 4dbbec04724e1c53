"""Features of candidates against plain Python, in states of streams with noise, memory, slots and deadlines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SEEDS, make_cluster, make_graph

from weft.errors import InputError
from weft.model import Job, Problem
from weft.scenarios import scenario
from weft.sim.tasks.candidates import COLUMNS, MOST, WORLD, CandidateSight, check_sight
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.sim.tasks.ranks import chain_of, rank_of
from weft.sim.tasks.state import DONE, ENDED

SIGHT = CandidateSight(tasks=6, pools=3, profile=True)
GROUPS = {
    "sees_load": {
        *("devices with room", "share of slots in use", "share of the pool that is busy"),
        "share of the listed that are fastest there",
    },
    "sees_queue": {"ready tasks", "jobs in the system", "work left per slot", "tasks listed"},
    "sees_needs": {
        *("run time over the shortest", "run time", "needs over what is free"),
        "needs over what the device has",
    },
    "sees_running": {
        *("next expected end", "mean time left of what runs", "mean time left of what runs in the pool"),
    },
    "sees_paths": {
        *("upward rank over the job's", "upward rank", "children", "tasks in a row behind it"),
        "children that wait for it alone",
    },
    "sees_recent": {
        *("recent run times over those stated", "share of recent starts in the pool"),
        "recent run times of its kind there over those stated",
        "recent run times of the class over those stated",
    },
    "sees_deadlines": {
        *("has a deadline", "time to the deadline", "time to spare before the deadline"),
    },
}
"""Which features every switch hides."""


def problem(seed: int = 0, slots: int = 1) -> Problem:
    """A stream whose tasks need memory and whose jobs are due, half of them."""
    chosen = scenario(
        "workflows", load=0.9, jobs=5, tasks=10, noise=0.3, bias=0.4, drift=0.2, memory=0.5, deadline=4.0
    )
    found = chosen.dispatched("train", 0, seed)
    jobs = [replace(job, deadline=None) if j % 2 else job for j, job in enumerate(found.jobs)]
    classes = tuple(replace(c, slots=slots) for c in found.cluster.classes)
    return found.replaced(jobs=tuple(jobs), cluster=found.cluster.replaced(classes=classes))


class Twin:
    """The features of one environment from its state, slowly; ``w`` has one problem."""

    def __init__(self, env: TaskEnv) -> None:
        self.env, self.w, self.s, self.problem = env, env.tasks, env.state, env.problems[0]
        self.now = float(self.s.now[0])
        self.ready = [int(i) for i in np.flatnonzero(self.s.place >= 0)]
        self.unit = float(np.mean([self.problem.best_run_times[i] for i in self.ready]))
        self.devices = range(len(self.w.device_class))
        self.rows = [r for r in range(int(self.s.num_rows[0])) if self.s.row_status[r] == 1]
        self.rank = rank_of(self.problem)

    def run(self, i: int, p: int) -> float:
        c = self.w.device_class[p]
        return float(self.problem.run_times[i, c] * np.exp(self.s.ratio[self.w.kind[i], c]))

    def data(self, i: int, p: int) -> float:
        """When all data of a ready task is on a device."""
        there = [self.problem.jobs[self.problem.job_of[i]].release]
        for e in range(self.w.pred_ptr[i], self.w.pred_ptr[i + 1]):
            k = self.w.pred[e]
            if self.s.status[k] == DONE:
                rows = np.flatnonzero((self.s.row_task == k) & (self.s.row_status == ENDED))
                size = float(self.w.pred_data[e])
                there.append(
                    min(
                        self.s.row_finish[r] + self.problem.transfer_time(int(self.s.row_device[r]), p, size)
                        for r in rows
                    )
                )
        return max(there)

    def left(self, rows: list[int]) -> float:
        return float(np.mean([max(self.s.row_expected[r] - self.now, 0.0) for r in rows])) if rows else 0.0

    def pool(self, p: int) -> list[int]:
        return [q for q in self.devices if self.w.pool[q] == self.w.pool[p]]

    def world(self) -> dict[str, float]:
        s, w = self.s, self.w
        jobs = [j for j in range(len(w.job_release)) if j < s.next_job[0] and np.isnan(s.job_finish[j])]
        capacity, free = w.capacity[:, 0], s.free[:, 0]
        ends = [max(s.row_expected[r], self.now) - self.now for r in self.rows]
        return {
            "ready tasks": np.log1p(len(self.ready)),
            "devices with room": np.mean(free >= 1),
            "jobs in the system": np.log1p(len(jobs)),
            "work left per slot": np.log1p(s.job_left.sum() / self.unit / capacity.sum()),
            "tasks listed": len({int(i) for i in self.listed()[0]}) / SIGHT.tasks,
            "next expected end": np.log1p(min(ends) / self.unit) if ends else 0.0,
            "share of slots in use": (capacity - free).sum() / capacity.sum(),
            "mean time left of what runs": np.log1p(self.left(self.rows) / self.unit),
            "recent run times over those stated": s.class_ratio[0, np.unique(w.device_class)].mean(),
        }

    def listed(self) -> tuple[np.ndarray, np.ndarray]:
        buffers = self.env.snapshot()
        count = int(buffers["count"][0, 0])
        return buffers["task"][0, :count], buffers["device"][0, :count]

    def task(self, i: int) -> dict[str, float]:
        s, w = self.s, self.w
        j = int(w.job[i])
        job, own = self.problem.jobs[j], range(int(w.job_task_ptr[j]), int(w.job_task_ptr[j + 1]))
        children = [int(k) for k in w.succ[w.succ_ptr[i] : w.succ_ptr[i + 1]]]
        waits_for = [
            [k for k in w.pred[w.pred_ptr[c] : w.pred_ptr[c + 1]] if s.status[k] != DONE] for c in children
        ]
        due = None if job.deadline is None else job.release + job.deadline - self.now
        signed = lambda x: np.sign(x) * np.log1p(abs(x) / self.unit)  # noqa: E731
        return {
            "upward rank over the job's": self.rank[i] / max(self.rank[k] for k in own),
            "upward rank": np.log1p(self.rank[i] / self.unit),
            "work left of the job": np.log1p(s.job_left[j] / self.unit),
            "age of the job": np.log1p((self.now - job.release) / self.unit),
            "share of the job left": sum(s.status[k] != DONE for k in own) / len(own),
            "children": np.log1p(len(children)),
            "tasks in a row behind it": np.log1p(self.chain(i) - 1),
            "children that wait for it alone": np.log1p(sum(one == [i] for one in waits_for)),
            "has a deadline": float(due is not None),
            "time to the deadline": 0.0 if due is None else signed(due),
            "time to spare before the deadline": 0.0 if due is None else signed(due - self.rank[i]),
        }

    def chain(self, i: int) -> int:
        children = self.w.succ[self.w.succ_ptr[i] : self.w.succ_ptr[i + 1]]
        return 1 + max((self.chain(int(k)) for k in children), default=0)

    def place(self, i: int, p: int) -> dict[str, float]:
        s, w, c = self.s, self.w, int(self.w.device_class[p])
        start, run = max(self.now, self.data(i, p)), self.run(i, p)
        can = [q for q in self.devices if np.isfinite(self.problem.run_times[i, w.device_class[q]])]
        limits = range(1 if w.is_unary[p] else 0, w.demand.shape[1])
        pool = self.pool(p)
        running = [r for r in self.rows if int(s.row_device[r]) in pool]
        price = float(self.env.known.rule.price[s.next_job[0] - 1, c])
        return {
            "run time over the shortest": np.log(run / min(self.run(i, q) for q in can)),
            "run time": np.log1p(run / self.unit),
            "time until the data is there": np.log1p((start - self.now) / self.unit),
            "finish": np.log1p((start + run - self.now) / self.unit),
            "price of the device": np.log(price),
            "share of the pool that is busy": len({int(s.row_device[r]) for r in running}) / len(pool),
            "needs over what is free": max((w.demand[i, r] / s.free[p, r] for r in limits), default=0.0),
            "needs over what the device has": max(
                (w.demand[i, r] / w.capacity[p, r] for r in limits), default=0.0
            ),
            "mean time left of what runs in the pool": np.log1p(self.left(running) / self.unit),
            "recent run times of its kind there over those stated": s.ratio[w.kind[i], c],
            "recent run times of the class over those stated": s.class_ratio[0, c],
            "share of recent starts in the pool": s.recent[pool].sum() / max(s.recent.sum(), 1e-300),
        }


def rows_of(env: TaskEnv) -> np.ndarray:
    return env.observation[0, len(WORLD) :].reshape(env.num_choices, -1)


@pytest.mark.parametrize("slots", [1, 3])
def test_features_are_what_plain_python_makes_of_the_state(slots: int):
    env = TaskEnv(TaskSetup((problem(slots=slots),), SIGHT), 1)
    rng = np.random.default_rng(1)
    for _ in range(60):
        twin, rows = Twin(env), rows_of(env)
        for name, value in twin.world().items():
            assert env.observation[0, WORLD.index(name)] == pytest.approx(value, abs=2e-5), name
        tasks, devices = twin.listed()
        for k, (i, p) in enumerate(zip(tasks.tolist(), devices.tolist(), strict=True)):
            for name, value in {**twin.task(i), **twin.place(i, p)}.items():
                wanted = np.clip(value, -MOST, MOST)
                assert rows[k, COLUMNS.index(name)] == pytest.approx(wanted, abs=2e-5), name
        env.step(np.array([[rng.choice(np.flatnonzero(env.mask[0, 0]))]]))


def test_features_of_order_and_choice_of_device():
    env = TaskEnv(TaskSetup((problem(),), SIGHT), 1)
    rng = np.random.default_rng(2)
    for _ in range(40):
        twin, rows = Twin(env), rows_of(env)
        tasks, devices = (column.tolist() for column in twin.listed())
        finish = dict(zip(zip(tasks, devices, strict=True), rows[:, COLUMNS.index("finish")], strict=False))
        for k, (i, p) in enumerate(zip(tasks, devices, strict=True)):
            others = [value for (task, _), value in finish.items() if task == i]
            assert rows[k, COLUMNS.index("finish over the earliest on any device")] >= -1e-5
            assert finish[i, p] >= min(others)
        place = rows[: len(tasks), COLUMNS.index("place in order")]
        assert (np.diff(place) >= 0).all()
        behind = rows[: len(tasks), COLUMNS.index("behind the first in order")]
        assert (np.diff(behind) >= -1e-5).all()
        env.step(np.array([[rng.choice(np.flatnonzero(env.mask[0, 0]))]]))


@pytest.mark.parametrize("switch", GROUPS)
def test_a_switch_hides_its_group_and_nothing_else(switch: str):
    whole = TaskEnv(TaskSetup((problem(),), SIGHT), 1)
    part = TaskEnv(TaskSetup((problem(),), SIGHT._replace(**{switch: False})), 1)
    rng = np.random.default_rng(3)
    hidden = np.array([name in GROUPS[switch] for name in (*WORLD, *COLUMNS * whole.num_choices)])
    shown = np.zeros(len(hidden), np.bool_)
    for _ in range(60):
        np.testing.assert_array_equal(part.observation[0], np.where(hidden, 0.0, whole.observation[0]))
        shown |= whole.observation[0] != 0
        actions = np.array([[rng.choice(np.flatnonzero(whole.mask[0, 0]))]])
        whole.step(actions)
        part.step(actions)
    names = {name for name, seen in zip((*WORLD, *COLUMNS * whole.num_choices), shown, strict=True) if seen}
    assert GROUPS[switch] <= names  # each of them was something


def on_classes(seed: int, num_classes: int) -> Problem:
    """A few jobs under noise on a cluster of up to so many classes."""
    cluster = make_cluster(seed, 2 * num_classes, num_classes, "uniform", is_plain=seed % 2 == 0)
    graphs = [make_graph(seed + j, 6, "random", "uniform", "uniform") for j in range(4)]
    jobs = [Job(graph, f"job{j}", 3.0 * j) for j, graph in enumerate(graphs)]
    return Problem(jobs, cluster, noise=0.3, bias=0.5)


@given(seed=SEEDS, others=st.integers(1, 7))
@settings(max_examples=15, deadline=None)
def test_observation_does_not_depend_on_what_is_beside_it(seed: int, others: int):
    own, other = on_classes(seed, 2), on_classes(seed + 1, others)
    alone, beside = (TaskEnv(TaskSetup(some, SIGHT), len(some), 1) for some in ((own,), (own, other)))
    rng = np.random.default_rng(seed)
    for _ in range(40):
        np.testing.assert_array_equal(beside.observation[0], alone.observation[0])
        chosen = rng.choice(np.flatnonzero(alone.mask[0, 0]))
        alone.step(np.array([[chosen]]))
        beside.step(np.array([[chosen], [beside.mask[1, 0].argmax()]]))


def test_chain_counts_tasks_to_the_end():
    found = problem()
    graph = found.jobs[0].graph
    order = graph.order.tolist()
    chain = dict.fromkeys(range(graph.num_tasks), 1)
    for i in reversed(order):
        for e in range(graph.successor_pointer[i], graph.successor_pointer[i + 1]):
            chain[i] = max(chain[i], 1 + chain[int(graph.targets[e])])
    assert chain_of(found)[: graph.num_tasks].tolist() == list(chain.values())


def test_sight_refuses_what_is_no_switch():
    with pytest.raises(InputError, match=r"sight.sees_load: expected true or false, got 1"):
        check_sight(CandidateSight(sees_load=1))
