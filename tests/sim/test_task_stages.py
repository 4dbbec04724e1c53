"""Two stages: a task is picked, then its device, and nothing else is different from one choice of both."""

from __future__ import annotations

import numpy as np
import pytest

from weft import Session
from weft.errors import InputError
from weft.execute.virtual_runs import drive_tasks
from weft.model.problem import Problem, realise
from weft.model.validate import validate
from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.dispatcher import CandidateDispatcher
from weft.policies.candidates.forward import CandidatePolicy
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.candidates import COLUMNS, WORLD, CandidateSight
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.sim.tasks.features import BASE, BEHIND, COPIED, PICKS, PLACE, check_sight
from weft.testing import check_environment

ONE = CandidateSight(tasks=6, pools=3)
TWO = ONE._replace(stages=2)


def stream(seed: int = 0, **settings: object) -> Problem:
    asked = {"load": 0.8, "jobs": 4, "tasks": 10, **settings}
    return scenario("workflows", **asked).dispatched("train", 0, seed)


def rows_of(env: TaskEnv) -> np.ndarray:
    """What is seen of the candidates that are there."""
    rows = env.observation[0, len(WORLD) :].reshape(env.num_choices, env.num_columns)
    return rows[: int(env.snapshot()["count"][0, 0])]


def follower(sight: CandidateSight, columns: dict[int, float]) -> CandidatePolicy:
    """A policy that goes by single columns."""
    shape = CandidateArchitecture(len(WORLD), len(sight.columns), 4, head="q")
    weights = {name: np.zeros(size, np.float32) for name, size in shape.shapes().items()}
    for column, score in columns.items():
        weights["score_direct"][0, column] = score
    return CandidatePolicy(weights, shape)


def test_two_stages_reach_what_one_reaches_and_show_the_same():
    problem = stream()
    one, two = TaskEnv(TaskSetup((problem,), ONE), 1), TaskEnv(TaskSetup((problem,), TWO), 1)
    rng, starts = np.random.default_rng(0), 0
    plain = [c for c in range(len(COLUMNS)) if c not in (BASE, BEHIND, PLACE)]
    for _ in range(80):
        tasks = one.snapshot()["task"][0, : len(rows_of(one))].tolist()
        firsts = [k for k, i in enumerate(tasks) if i not in tasks[:k]]
        assert rows_of(two)[:, PICKS].tolist() == [1.0] * len(firsts)
        wanted = [c for c in range(len(COLUMNS)) if c != BASE]
        assert rows_of(two)[:, wanted].tobytes() == rows_of(one)[firsts][:, wanted].tobytes()
        k = int(np.where(one.mask[0, 0], rng.random(one.num_choices), -1.0).argmax())
        if k == one.num_choices - 1:
            paid = one.step(np.array([[k]]))[0][0], two.step(np.array([[two.num_choices - 1]]))[0][0]
        else:
            starts += 1
            now = float(two.state.now[0])
            first, done = two.step(np.array([[firsts.index(tasks.index(tasks[k]))]]))
            assert first[0] == 0.0 and two.elapsed[0] == 0.0 and not done[0] and two.state.now[0] == now
            own = [m for m, i in enumerate(tasks) if i == tasks[k]]
            assert two.mask[0, 0].sum() == len(own) and not two.mask[0, 0, -1]
            seen = rows_of(two)
            assert not seen[:, [PICKS, COPIED, BEHIND, PLACE]].any()
            assert seen[:, plain].tobytes() == rows_of(one)[own][:, plain].tobytes()
            if one.mask[0, 0, -1]:  # else the first start stands for a wait that is not allowed
                assert seen[:, BASE].tolist() == rows_of(one)[own][:, BASE].tolist()
            paid = one.step(np.array([[k]]))[0][0], two.step(np.array([[own.index(k)]]))[0][0]
        assert paid[0] == paid[1] and one.state.now[0] == two.state.now[0]
    assert starts > 20


@pytest.mark.parametrize("sight", [TWO, TWO._replace(copies=True)], ids=["plain", "copies"])
def test_environment_with_two_stages_keeps_the_contract(sight: CandidateSight):
    problems = tuple(stream(seed, noise=0.3, ccr=4.0) for seed in range(3))
    setup = TaskSetup(problems, sight)
    check_environment(lambda: TaskEnv(setup, 3), job_time=lambda env, e: float(env.ended[e]) * 4)


def test_policy_in_two_stages_acts_the_same_everywhere():
    problem = stream(2)
    policy = follower(TWO, {BASE: 1.0, PLACE: -0.3, BEHIND: -0.1, 3: 0.2})
    dispatcher = CandidateDispatcher("staged", policy=policy, sight=TWO)
    found = run_one(dispatcher, problem, realise(problem, 0))
    assert not validate(found)
    driven = drive_tasks(Session(problem, dispatcher), problem, realise(problem, 0))
    assert driven.start.tolist() == found.start.tolist()
    env, done = TaskEnv(TaskSetup((problem,), TWO), 1), np.array([False])
    while not done[0]:
        _, done = env.step(policy.decide_batch(env.observation, env.mask))
    assert env.ended[0] == pytest.approx(found.mean_jct, rel=1e-6)


def test_following_the_base_rule_is_the_same_in_one_and_two_stages():
    problem, found = stream(1, jobs=6), []
    for sight in (ONE, TWO):
        dispatcher = CandidateDispatcher("base", policy=follower(sight, {BASE: 1.0}), sight=sight)
        found.append(run_one(dispatcher, problem, realise(problem, 0)))
    assert found[0].start.tolist() == found[1].start.tolist()
    env, done = TaskEnv(TaskSetup((problem,), TWO), 1), np.array([False])
    while not done[0]:
        _, done = env.step(env.follow(env.known.base))
    assert env.ended[0] == pytest.approx(found[0].mean_jct, rel=1e-6)


@pytest.mark.parametrize("stages", [0, 3, True, 1.0])
def test_sight_refuses_other_stages(stages: object):
    with pytest.raises(InputError, match=r"sight\.stages: expected 1 or 2, got"):
        check_sight(ONE._replace(stages=stages))
