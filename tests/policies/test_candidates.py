"""Policies that point at candidates: torch and NumPy agree, cards say what they are, and they dispatch anywhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from weft import Session, catalog
from weft.errors import InputError
from weft.evaluation.sweep.request import evaluate
from weft.execute.virtual_runs import drive_tasks
from weft.io.files import write_graph
from weft.kinds import TASKS
from weft.model.generate import generate
from weft.model.problem import Problem, realise
from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.dispatcher import CandidateDispatcher, load_dispatcher
from weft.policies.candidates.forward import CandidatePolicy
from weft.policies.candidates.net import CandidateNet
from weft.policies.checkpoint import Card, save_policy
from weft.policies.learned import load_learned
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.candidates import COLUMNS, FEATURE_VERSION, WORLD, CandidateSight
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.testing import check_dispatcher, check_policy

SHAPE = CandidateArchitecture(len(WORLD), len(COLUMNS), 16)
SIGHT = CandidateSight(tasks=6, pools=3)


@pytest.fixture(scope="module")
def net() -> CandidateNet:
    made = CandidateNet(SHAPE)
    made.initialise(torch.Generator().manual_seed(3))
    with torch.no_grad():
        made.score_out.mul_(100.0)
        made.score_direct.mul_(100.0)
    return made


@pytest.fixture
def dispatcher(net: CandidateNet) -> CandidateDispatcher:
    return CandidateDispatcher("drawn", policy=CandidatePolicy(net.weights(), SHAPE), sight=SIGHT)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return scenario("workflows", load=0.8, jobs=5, tasks=8).dispatched("validation", 0, 0)


def environment(problem: Problem) -> TaskEnv:
    return TaskEnv(TaskSetup((problem,), SIGHT), 3)


def test_numpy_and_torch_give_the_same_logits(net: CandidateNet, problem: Problem):
    env = environment(problem)
    policy = CandidatePolicy(net.weights(), SHAPE)
    for _ in range(10):
        logits, _ = net(torch.from_numpy(env.observation))
        np.testing.assert_allclose(policy.logits(env.observation), logits.detach().numpy(), atol=1e-5)
        env.step(policy.decide_batch(env.observation, env.mask, np.random.default_rng(0)))


def test_logits_do_not_depend_on_the_order_of_candidates(net: CandidateNet, problem: Problem):
    env = environment(problem)
    policy = CandidatePolicy(net.weights(), SHAPE)
    world, rows = SHAPE.parts(env.observation)
    turned = np.concatenate([world, rows[:, ::-1].reshape(len(rows), -1)], axis=1)
    np.testing.assert_allclose(policy.logits(turned)[..., ::-1], policy.logits(env.observation), atol=1e-5)


def test_candidate_policy_keeps_the_contract(net: CandidateNet, problem: Problem):
    check_policy(CandidatePolicy(net.weights(), SHAPE), lambda: environment(problem))


def test_candidate_policy_is_a_dispatcher_that_sees_no_future(dispatcher: CandidateDispatcher):
    check_dispatcher(dispatcher, streams=2)


@pytest.fixture
def saved(tmp_path: Path, net: CandidateNet) -> str:
    card = Card("mine", "candidate-ppo", SHAPE, FEATURE_VERSION, training={"sight": SIGHT._asdict()})
    save_policy(tmp_path / "mine.json", net.weights(), card)
    return str(tmp_path / "mine.json")


def test_saved_policy_decides_the_same_in_simulator_and_session(
    saved: str, dispatcher: CandidateDispatcher, problem: Problem
):
    world = realise(problem, 0)
    wanted = run_one(dispatcher, problem, world)
    found = run_one(catalog.task_dispatcher(saved), problem, world)
    driven = drive_tasks(Session(problem, saved), problem, world)
    for one in (found, driven):
        assert one.start.tolist() == wanted.start.tolist()
        assert one.device.tolist() == wanted.device.tolist()


def test_files_are_dispatched_by_a_saved_policy(saved: str, tmp_path: Path):
    write_graph(generate("layered", 8, seed=1), tmp_path / "one.json")
    found = evaluate([tmp_path / "one.json"], [saved], cluster="gpu-mix-8", check="all")
    assert found.kind is TASKS and found.rows[0].valid


def test_session_decides_the_same_whenever_it_learns_of_graphs(saved: str, problem: Problem):
    known, other = Session(problem, saved), Session(problem.cluster, saved)
    for job in problem.jobs:
        known.arrived(job.name, job.release)
        other.arrived(job.name, job.release, graph=job.graph)
        first, second = known.decide(job.release), other.decide(job.release)
        assert first.starts == second.starts


def test_session_restored_goes_on_as_if_never_stopped(saved: str, problem: Problem):
    one = Session(problem, saved)
    one.arrived(0, 0.0)
    assert one.decide(0.0).starts
    other = Session.restore(problem, one.snapshot())
    decisions = []
    for session in (one, other):
        session.arrived(1, 1.0)
        decisions.append(session.decide(1.0))
    assert decisions[0] == decisions[1]


def test_policy_of_queues_is_refused_on_tasks():
    with pytest.raises(InputError, match=r"ppo acts on queues by kind .*, not on single tasks"):
        catalog.task_dispatcher("ppo")


def test_policy_of_tasks_is_refused_on_queues(saved: str):
    with pytest.raises(InputError, match="mine acts on single tasks, not on queues by kind"):
        load_learned(saved)


def test_policy_of_another_feature_version_is_refused(saved: str, net: CandidateNet):
    card = Card("mine", "candidate-ppo", SHAPE, "candidates/0")
    save_policy(saved, net.weights(), card)
    with pytest.raises(InputError, match="feature_version: trained on another feature version"):
        load_dispatcher(saved)


def test_architecture_refuses_no_width():
    with pytest.raises(InputError, match="hidden: expected a whole number from 1 to 1024, got 0"):
        dataclasses.replace(SHAPE, hidden=0)
