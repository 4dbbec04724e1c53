"""Policies that point at candidates: torch and NumPy agree, cards say what they are, and they dispatch anywhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from weft import Session, catalog
from weft.errors import InputError, UnsupportedError
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
from weft.policies.candidates.packed import pack
from weft.policies.checkpoint import Card, read_card, save_policy
from weft.policies.learned import load_learned
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.candidates import COLUMNS, FEATURE_VERSION, WORLD, CandidateSight
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.sim.tasks.features import BASE
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


def test_saved_policy_lists_candidates_by_the_base_rule_of_its_card(
    tmp_path: Path, net: CandidateNet, dispatcher: CandidateDispatcher, problem: Problem
):
    base = catalog.task_dispatcher("es").weights
    about = {"sight": SIGHT._asdict(), "base": list(base)}
    card = Card("tuned", "candidate-dqn", SHAPE, FEATURE_VERSION, training=about)
    save_policy(tmp_path / "tuned.json", net.weights(), card)
    name, world = str(tmp_path / "tuned.json"), realise(problem, 0)
    assert catalog.task_dispatcher(name).weights == base
    found = run_one(catalog.task_dispatcher(name), problem, world)
    driven = drive_tasks(Session(problem, name), problem, world)
    assert found.start.tolist() == driven.start.tolist()
    assert found.device.tolist() == driven.device.tolist()
    assert found.start.tolist() != run_one(dispatcher, problem, world).start.tolist()


def test_policy_that_follows_its_base_rule_does_what_the_weights_do(net: CandidateNet, problem: Problem):
    weights = {name: np.zeros_like(array) for name, array in net.weights().items()}
    weights["score_direct"][0, BASE] = 100.0
    chosen = catalog.task_dispatcher("es")
    policy = CandidatePolicy(weights, SHAPE)
    follower = CandidateDispatcher("follower", weights=chosen.weights, policy=policy, sight=CandidateSight())
    found, wanted = (run_one(one, problem, realise(problem, 0)) for one in (follower, chosen))
    assert found.mean_jct == pytest.approx(wanted.mean_jct, rel=0.05)


def test_card_with_a_base_rule_of_another_size_is_refused(tmp_path: Path, net: CandidateNet):
    about = {"sight": SIGHT._asdict(), "base": [1.0]}
    card = Card("mine", "candidate-ppo", SHAPE, FEATURE_VERSION, training=about)
    save_policy(tmp_path / "mine.json", net.weights(), card)
    with pytest.raises(
        InputError, match=r"training\.base: expected 24, 30, 31 or 36 finite numbers, got \[1\.0\]"
    ):
        load_dispatcher(str(tmp_path / "mine.json"))


SEEN = {"sight": SIGHT._asdict()}


@pytest.mark.parametrize(
    ("algorithm", "training", "message"),
    [
        ("candidate-ppo", {}, "training.sight: expected a table with tasks and pools, of tasks, pools, profile"),
        ("candidate-ppo", {"sight": {"tasks": 6}}, "training.sight: expected a table with tasks and pools"),
        ("foo", SEEN, "algorithm: expected candidate-ppo or candidate-dqn, got 'foo'"),
        ("candidate-dqn", {**SEEN, "base": [1.0, "NaN"]}, "training.base[1]: expected a finite number, got nan"),
    ],
)  # fmt: skip
def test_card_that_does_not_say_what_it_is_is_refused(
    tmp_path: Path, net: CandidateNet, algorithm: str, training: dict[str, object], message: str
):
    card = Card("mine", algorithm, SHAPE, FEATURE_VERSION, training=training)
    file = tmp_path / "mine.json"
    save_policy(file, net.weights(), card)
    file.write_text(file.read_text(encoding="utf-8").replace('"NaN"', "NaN"), encoding="utf-8")
    with pytest.raises(InputError) as error:
        load_dispatcher(str(tmp_path / "mine.json"))
    assert message in str(error.value)


def test_policy_has_no_shortlist(saved: str):
    with pytest.raises(UnsupportedError, match="decides by itself what it looks at, so a shortlist would"):
        catalog.task_dispatcher(f"{saved}+shortlist")


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
    with pytest.raises(InputError, match=r"conditional-ppo acts on queues by kind .*, not on single tasks"):
        catalog.task_dispatcher("conditional-ppo")


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


# Nets that learned what choices are worth

WORTH = dataclasses.replace(SHAPE, head="q")


@pytest.fixture(scope="module")
def q_net(net: CandidateNet) -> CandidateNet:
    made = CandidateNet(WORTH)
    made.load_weights(net.weights())
    return made


@pytest.mark.parametrize("waits", [True, False])  # a wait that is listed but masked counts in no mean
def test_numpy_and_torch_value_choices_the_same(q_net: CandidateNet, problem: Problem, waits: bool):
    env = TaskEnv(TaskSetup((problem,), SIGHT, waits=waits), 3)
    policy = CandidatePolicy(q_net.weights(), WORTH)
    for _ in range(20):
        seen, choice = pack(env.observation, env.mask, env.num_world)
        packed = q_net.q_values(seen).detach().numpy()
        dense = np.full(env.mask.shape, -np.inf, np.float32)
        dense[seen.owner, 0, choice] = packed[seen.owner, seen.place]
        found = policy.q_values(env.observation, env.mask)
        np.testing.assert_allclose(found, dense, atol=1e-5)
        chosen = policy.decide_batch(env.observation, env.mask)
        assert chosen.tolist() == dense.argmax(axis=2).tolist() == found.argmax(axis=2).tolist()
        env.step(policy.decide_batch(env.observation, env.mask, np.random.default_rng(0)))


def test_values_of_choices_lie_around_the_value_of_the_state(q_net: CandidateNet, problem: Problem):
    env = environment(problem)
    policy = CandidatePolicy(q_net.weights(), WORTH)
    worth = policy.q_values(env.observation, env.mask)
    _, value = q_net(torch.from_numpy(env.observation))
    mean = np.where(env.mask, worth, 0.0).sum(axis=(1, 2)) / env.mask.sum(axis=(1, 2))
    np.testing.assert_allclose(mean, value.detach().numpy(), atol=1e-5)


def test_policy_of_values_takes_the_best_choice_where_probabilities_would_not(
    q_net: CandidateNet, problem: Problem
):
    env = environment(problem)
    for _ in range(3):
        env.step(CandidatePolicy(q_net.weights(), WORTH).decide_batch(env.observation, env.mask))
    weights = q_net.weights()
    weights["score_out"][:], weights["score_direct"][:] = 0.0, 0.0
    weights["score_direct"][0, 1] = 1e-3  # waiting is a little better than each start alone
    can_wait = env.mask[:, 0, -1]
    assert (can_wait & (env.mask[:, 0].sum(axis=1) > 2)).any()
    last = env.num_choices - 1
    q_chosen = CandidatePolicy(weights, WORTH).decide_batch(env.observation, env.mask)[:, 0]
    assert (q_chosen[can_wait] == last).all()
    chosen = CandidatePolicy(weights, SHAPE).decide_batch(env.observation, env.mask)[:, 0]
    assert (chosen[can_wait & (env.mask[:, 0].sum(axis=1) > 2)] != last).all()


def test_policy_of_values_keeps_the_contracts(q_net: CandidateNet, problem: Problem):
    policy = CandidatePolicy(q_net.weights(), WORTH)
    check_policy(policy, lambda: environment(problem))
    check_dispatcher(CandidateDispatcher("valued", policy=policy, sight=SIGHT), streams=1)


def test_card_says_what_scores_are(tmp_path: Path, q_net: CandidateNet):
    card = Card("valued", "candidate-dqn", WORTH, FEATURE_VERSION, training={"sight": SIGHT._asdict()})
    save_policy(tmp_path / "valued.json", q_net.weights(), card)
    assert load_dispatcher(str(tmp_path / "valued.json")).policy.architecture == WORTH
    text = (tmp_path / "valued.json").read_text()
    (tmp_path / "valued.json").write_text(text.replace('"head": "q"', '"head": "both"'))
    with pytest.raises(InputError, match=r"architecture\.head: expected policy or q, got 'both'"):
        read_card(tmp_path / "valued.json")
    (tmp_path / "valued.json").write_text(text.replace(',\n    "head": "q"', ""))
    assert read_card(tmp_path / "valued.json").architecture == SHAPE  # the first cards did not say
