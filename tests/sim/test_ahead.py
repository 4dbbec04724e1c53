"""What is seen by playing the base rule ahead, and what choices truly cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from weft import catalog
from weft.errors import InputError
from weft.model.problem import Problem, realise
from weft.policies.candidates.architecture import CandidateArchitecture, Q
from weft.policies.candidates.dispatcher import CandidateDispatcher
from weft.policies.candidates.forward import CandidatePolicy
from weft.policies.candidates.net import CandidateNet
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.candidates import WORLD, CandidateSight, check_sight
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.sim.tasks.features import AHEAD, BASE
from weft.testing import check_dispatcher, check_environment
from weft.training.dqn.exploration import base_choices

SIGHT = CandidateSight(tasks=3, pools=2, ahead=6.0)
ES = catalog.task_dispatcher("es").weights


def streams(count: int, **settings: object) -> tuple[Problem, ...]:
    chosen = scenario("workflows", **{"load": 0.9, "jobs": 4, "tasks": 8, **settings})
    return tuple(chosen.dispatched("train", 0, seed) for seed in range(count))


def environment(problems: tuple[Problem, ...], num_envs: int = 1, seed: int = 0) -> TaskEnv:
    return TaskEnv(TaskSetup(problems, SIGHT, base=ES), num_envs, seed)


def rows(env: TaskEnv, e: int = 0) -> np.ndarray:
    return env.observation[e, len(WORLD) :].reshape(env.num_choices, -1)


def drawn_net() -> CandidateDispatcher:
    shape = CandidateArchitecture(len(WORLD), len(SIGHT.columns), 8, head=Q)
    net = CandidateNet(shape)
    net.initialise(torch.Generator().manual_seed(3))
    with torch.no_grad():
        net.score_direct.mul_(100.0)
    policy = CandidatePolicy(net.weights(), shape)
    return CandidateDispatcher("drawn", weights=ES, policy=policy, sight=SIGHT)


def test_environment_that_looks_ahead_keeps_the_contract():
    setup = TaskSetup(streams(3, noise=0.3), SIGHT, base=ES)
    check_environment(lambda: TaskEnv(setup, 2), job_time=lambda env, e: float(env.ended[e]) * 4)


def test_dispatcher_that_looks_ahead_keeps_the_contract():
    check_dispatcher(drawn_net())


def test_choice_of_the_base_rule_is_what_others_are_measured_by():
    env, differ = environment(streams(2), 2), 0
    for _ in range(40):
        for e in range(2):
            ahead = rows(env, e)[:, -len(AHEAD) :]
            assert not ahead[rows(env, e)[:, BASE] > 0].any()
            differ += int(np.count_nonzero(ahead))
        env.step(base_choices(env)[:, None])
    assert differ > 50


def test_playing_ahead_changes_nothing_but_what_is_seen():
    env = environment(streams(1, noise=0.3))
    for _ in range(20):
        before = env.snapshot()
        env.look()
        env.true_costs(5.0)
        after = env.snapshot()
        assert all(np.array_equal(before[name], after[name], equal_nan=True) for name in before)
        env.step(base_choices(env)[:, None])


def test_ends_and_arrivals_to_come_are_not_seen():
    """The same past under other run times and releases of what follows looks the same."""
    first = streams(1, noise=0.5, load=0.5)[0]
    later = tuple(replace(job, release=job.release * (1 + 0.5 * (j > 0))) for j, job in enumerate(first.jobs))
    envs = [environment((one,), seed=seed) for seed, one in enumerate((first, first.replaced(jobs=later)))]
    for _ in range(3):  # starts at time 0, so that tasks run
        assert envs[0].state.now[0] == envs[1].state.now[0] == 0.0
        assert np.array_equal(rows(envs[0])[:, -len(AHEAD) :], rows(envs[1])[:, -len(AHEAD) :])
        for env in envs:
            env.step(base_choices(env)[:, None])


def test_true_cost_is_what_the_episode_costs_more():
    """Played to the end, a choice followed by the base rule costs what the whole episode then costs."""
    env = environment(streams(1, noise=0.3))
    for _ in range(9):
        env.step(base_choices(env)[:, None])
    start, costs = env.snapshot(), env.true_costs(1e6)[0]
    known = np.flatnonzero(np.isfinite(costs))
    totals = {}
    for k in known:
        env.restore(start)
        _, done = env.step(np.array([[k]]))
        while not done[0]:
            _, done = env.step(base_choices(env)[:, None])
        totals[int(k)] = float(env.ended[0]) * 4
        env.reset(0)
    env.restore(start)
    base = int(base_choices(env)[0])
    assert costs[base] == 0.0
    assert set(known) == set(np.flatnonzero(env.mask[0, 0]))
    wanted = np.array([totals[int(k)] - totals[base] for k in known])
    assert np.corrcoef(wanted, costs[known])[0, 1] > 0.99


def test_simulator_and_environment_look_ahead_alike():
    problem = streams(1)[0]
    dispatcher = drawn_net()
    env, done = environment((problem,)), np.array([False])
    while not done[0]:
        _, done = env.step(dispatcher.policy.decide_batch(env.observation, env.mask))
    assert run_one(dispatcher, problem, realise(problem, 0)).mean_jct == pytest.approx(float(env.ended[0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ahead": -1.0}, r"sight.ahead: expected a number from 0 to 1000, got -1.0"),
        ({"ahead": True}, r"sight.ahead: expected a number from 0 to 1000, got True"),
        ({"ahead": float("nan")}, r"sight.ahead: expected a number from 0 to 1000, got nan"),
        ({"ahead": 2.0, "stages": 2}, r"sight.ahead: expected 0 with copies or two stages"),
        ({"ahead": 2.0, "copies": True}, r"sight.ahead: expected 0 with copies or two stages"),
    ],
)
def test_sight_refuses_what_cannot_be_played(change: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        check_sight(CandidateSight()._replace(**change))
