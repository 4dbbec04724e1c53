"""Candidates behind a copy of a parent: which are listed, what they cost, and that others are as without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft import Session
from weft.errors import UnsupportedError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder
from weft.model.problem import Objective, Problem, realise
from weft.model.validate import validate
from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.dispatcher import CandidateDispatcher
from weft.policies.candidates.forward import CandidatePolicy
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.candidates import COLUMNS, WORLD, CandidateSight
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.sim.tasks.features import BASE, COPIED, DATA, STARTS
from weft.sim.tasks.state import arrival
from weft.testing import check_environment

PLAIN = CandidateSight(tasks=6, pools=3)
SIGHT = PLAIN._replace(copies=True)


def stream(seed: int = 0, *, copies: bool = True, **settings: object) -> Problem:
    asked = {"load": 0.7, "jobs": 4, "tasks": 10, "ccr": 5.0, **settings}
    made = scenario("workflows", **asked).dispatched("train", 0, seed)
    return made.replaced(objective=replace(made.objective, copies=copies))


def rows_of(env: TaskEnv, e: int = 0) -> np.ndarray:
    return env.observation[e, len(WORLD) :].reshape(env.num_choices, env.num_columns)


def any_choice(env: TaskEnv, rng: np.random.Generator) -> np.ndarray:
    return np.where(env.mask, rng.random(env.mask.shape), -1.0).argmax(axis=2)


def follower(sight: CandidateSight, **scores: float) -> CandidatePolicy:
    """A policy that goes by single columns."""
    shape = CandidateArchitecture(len(WORLD), len(sight.columns), 4, head="q")
    weights = {name: np.zeros(size, np.float32) for name, size in shape.shapes().items()}
    for name, score in scores.items():
        weights["score_direct"][0, {"base": BASE, "copied": COPIED, "starts": STARTS, "data": DATA}[name]] = (
            score
        )
    return CandidatePolicy(weights, shape)


def test_task_starts_behind_a_copy_of_its_parent_where_data_comes_late():
    builder = GraphBuilder("fork")
    for name, work in (("a", 1.0), ("b", 10.0), ("c", 10.0)):
        builder.task(name, work)
    builder.edge("a", "b", data=20.0)
    builder.edge("a", "c", data=20.0)
    problem = Problem(builder.build(), Cluster.uniform((DeviceClass("cpu"),), (2,), bandwidth=1.0))
    env = TaskEnv(TaskSetup((problem,), SIGHT), 1)
    env.step(np.array([[0]]))  # a on the first device; then b beside its data
    env.step(np.array([[0]]))
    seen = env.snapshot()
    assert seen["count"][0, 0] == 2 and seen["copies"][0, :2].tolist() == [False, True]
    rows = rows_of(env)
    assert rows[:2, COPIED].tolist() == [0.0, 1.0] and rows[:2, BASE].tolist()[1] == 0.0
    unit = 10.0  # of the one task that is ready
    assert rows[:2, DATA].tolist() == pytest.approx(np.log1p([20.0 / unit, 1.0 / unit]).tolist())
    _, done = env.step(np.array([[1]]))
    assert done[0] and env.ended[0] == pytest.approx(1.0 + 1.0 + 10.0)


@pytest.mark.parametrize("seed", range(3))
def test_copies_are_listed_exactly_where_a_task_starts_earlier_behind_one(seed: int):
    """Against plain Python; no copy is made, so that every parent that is done ran once."""
    env, rng, found = TaskEnv(TaskSetup((stream(seed),), SIGHT), 1), np.random.default_rng(seed), 0
    w, f, s = env.tasks, env.facts, env.state
    for _ in range(40):
        now, seen = float(s.now[0]), env.snapshot()
        listed = {}
        for k in range(int(seen["count"][0, 0])):
            place = int(seen["task"][0, k]), int(seen["device"][0, k])
            listed.setdefault(place, []).append(bool(seen["copies"][0, k]))

        def arrivals(i: int, p: int) -> dict[int, float]:
            edges = range(w.pred_ptr[i], w.pred_ptr[i + 1])
            return {
                int(w.pred[e]): float(arrival.py_func(w, s, 0, int(w.pred[e]), float(w.pred_data[e]), p))
                for e in edges
            }

        for (i, p), kinds in listed.items():
            data = arrivals(i, p)
            late = max(data, key=lambda k: data[k]) if data else -1
            helps = False
            if late >= 0 and data[late] > now and p not in s.row_device[s.row_task == late].tolist()[:1]:
                begins = max(now, *arrivals(late, p).values(), float(w.job_release[w.job[late]]))
                others = [there for k, there in data.items() if k != late]
                start = max(now, *others, begins + float(w.run[late, w.device_class[p]]))
                helps = start < data[late]
            assert kinds == ([False, True] if helps else [False])
            found += helps
        env.step(any_choice_of(env, seen["copies"][0], rng))
    assert found > 3
    assert len(f.run) == len(w.run)


def any_choice_of(env: TaskEnv, copies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A choice that copies nothing."""
    allowed = env.mask[0, 0] & ~(copies & (np.arange(env.num_choices) < env.num_choices - 1))
    return np.array([[int(np.where(allowed, rng.random(env.num_choices), -1.0).argmax())]])


def test_nothing_changes_where_the_objective_allows_no_copies():
    problem = stream(copies=False)
    plain, other = TaskEnv(TaskSetup((problem,), PLAIN), 1), TaskEnv(TaskSetup((problem,), SIGHT), 1)
    rng = np.random.default_rng(0)
    for _ in range(60):
        count = int(plain.snapshot()["count"][0, 0])
        assert not rows_of(other)[:, COPIED].any()
        assert rows_of(other)[:count, : len(COLUMNS)].tobytes() == rows_of(plain)[:count].tobytes()
        assert rows_of(other)[-1, : len(COLUMNS)].tobytes() == rows_of(plain)[-1].tobytes()
        action = any_choice(plain, rng)
        waits = action[0, 0] == plain.num_choices - 1
        rewards = [
            env.step(a)[0][0]
            for env, a in (
                (plain, action),
                (other, np.array([[-1]]) % other.num_choices if waits else action),
            )
        ]
        assert rewards[0] == rewards[1]


def test_environment_with_copies_keeps_the_contract():
    problems = tuple(stream(seed, noise=0.3) for seed in range(3))
    check_environment(
        lambda: TaskEnv(TaskSetup(problems, SIGHT), 3), job_time=lambda env, e: float(env.ended[e]) * 4
    )


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_policy_that_copies_makes_valid_schedules_as_in_the_environment(noise: float):
    problem = stream(1, noise=noise)
    policy = follower(SIGHT, base=1.0, copied=2.0)
    dispatcher = CandidateDispatcher("copies", policy=policy, sight=SIGHT)
    found = run_one(dispatcher, problem, realise(problem, 3))
    assert not validate(found) and found.num_copies > 0
    if noise == 0.0:
        env = TaskEnv(TaskSetup((problem,), SIGHT), 1)
        done = np.array([False])
        while not done[0]:
            _, done = env.step(policy.decide_batch(env.observation, env.mask))
        assert env.ended[0] == pytest.approx(found.mean_jct, rel=1e-6)
    alone = problem.replaced(objective=Objective(problem.objective.metric, copies=False))
    assert run_one(dispatcher, alone, realise(alone, 3)).num_copies == 0


def test_session_refuses_a_policy_that_copies_unless_nothing_may_be_copied():
    dispatcher = CandidateDispatcher("copies", policy=follower(SIGHT, base=1.0), sight=SIGHT)
    with pytest.raises(
        UnsupportedError, match="copies: it learned to copy tasks, which a session cannot tell apart"
    ):
        Session(stream(), dispatcher)
    Session(stream(copies=False), dispatcher)
