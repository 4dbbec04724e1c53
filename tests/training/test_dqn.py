"""Deep Q-learning: targets by hand, choices that explore, known optima that are reached, and runs that resume."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from training.toy_candidates import BEST_PER_STEP, ToyCandidates, best_choices

import weft
from weft import catalog
from weft.errors import InputError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder
from weft.model.problem import Job, Problem, realise
from weft.policies.candidates.forward import CandidatePolicy
from weft.policies.candidates.packed import pack
from weft.policies.checkpoint import load_policy, read_card
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.candidates import CandidateSight
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.training.dqn.config import DQNConfig
from weft.training.dqn.exploration import Exploration, base_choices, drawn_choices
from weft.training.dqn.learner import DQN
from weft.training.recipes import read_recipe

TOY = DQNConfig(
    samples=6_000,
    num_envs=8,
    num_steps=50,
    warmup=400,
    replay=4096,
    minibatch=64,
    replay_ratio=8.0,
    learning_rate=3e-3,
    gamma=0.95,
    target_every=25,
    hidden=(16,),
)
TINY = {
    "samples": 512,
    "num_envs": 4,
    "num_steps": 32,
    "warmup": 100,
    "replay": 256,
    "minibatch": 32,
    "replay_candidates": 64,
    "streams": 4,
    "jobs": 3,
    "tasks": 8,
    "candidates.tasks": 4,
    "validation.every": 1,
    "validation.seeds": 2,
}


def greedy(learner: DQN, env: ToyCandidates | TaskEnv) -> np.ndarray:
    """What the policy as it is saved does now: (B, 1)."""
    weights, card = learner.policy()
    return CandidatePolicy(weights, card.architecture).decide_batch(env.observation, env.mask)


# First values


ROLLED = {
    **TINY,
    "base": "es",
    "candidates.ahead": 4.0,
    "rollouts": 32,
    "rollout_every": 2,
    "samples": 256,
    "epsilon": 0.0,
}


def test_first_values_come_from_rollouts_and_are_the_same_again(tmp_path: Path):
    for name in ("one", "two"):
        weft.train("workflows-dqn-quick", tmp_path / name, settings=ROLLED)
    one, two = (load_policy(f"{tmp_path / name}@last")[0] for name in ("one", "two"))
    assert all(np.array_equal(one[name], two[name]) for name in one)
    rows = [json.loads(line) for line in (tmp_path / "one" / "metrics.jsonl").read_text().splitlines()]
    assert [row["rollout_loss"] is None for row in rows] == [False, True]


def test_rollouts_teach_what_choices_cost():
    """On streams that it did not see, choices that cost more are worth less."""
    chosen = scenario("workflows", load=0.9, jobs=6, tasks=10, noise=0.2)
    problems = tuple(chosen.dispatched("train", 0, seed) for seed in range(8))
    setup = TaskSetup(problems, CandidateSight(tasks=3, pools=2, ahead=4.0))
    config = replace(TOY, rollouts=800, rollout_epochs=20, base_margin=0.0, samples=1_600, warmup=1_000)
    learner = DQN(TaskEnv(setup, 8), config)
    learner.step()
    env = TaskEnv(setup, 8, seed=1)
    costs, values = [], []
    for _ in range(40):
        known, rows = env.true_costs(12.0), pack(env.observation, env.mask, env.num_world)[0]
        with torch.no_grad():
            worth = learner.net.q_values(rows).numpy()
        at = base_choices(env)
        for e, (cost, own) in enumerate(zip(known, worth, strict=True)):
            choices = np.flatnonzero(env.mask[e, 0])
            more = own[: len(choices)] - own[np.flatnonzero(choices == at[e])[0]]
            costs += cost[choices].tolist()
            values += more.tolist()
        env.step(at[:, None])
    is_known = np.isfinite(costs)
    assert is_known.mean() > 0.9
    assert np.corrcoef(np.array(costs)[is_known], np.array(values)[is_known])[0, 1] < -0.3


def test_rollouts_need_streams():
    with pytest.raises(InputError, match=r"config.rollouts: expected 0, as only streams of workflows"):
        DQN(ToyCandidates(8), replace(TOY, rollouts=10))


# Targets


class Watched(ToyCandidates):
    """Remembers everything that was seen, done and paid, as it was."""

    def __init__(self, num_envs: int) -> None:
        self.log: list[tuple[np.ndarray, ...]] = []
        super().__init__(num_envs)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        before = self.observation.copy(), self.mask.copy(), actions[:, 0].copy()
        reward, done = super().step(actions)
        self.log.append((*before, reward.copy(), done.copy(), self.elapsed.copy()))
        return reward, done


def target_by_hand(
    config: DQNConfig, nets: list[CandidatePolicy], log: list[tuple[np.ndarray, ...]], t: int, e: int
) -> float:
    """Rewards of n decisions, then what the target net thinks of the choice that the net would make."""
    net, target = nets
    total, discount = 0.0, 1.0
    for _, _, _, reward, done, elapsed in log[t : t + config.return_steps]:
        total += discount * config.reward_scale * float(reward[e])
        if done[e]:
            return total
        discount *= config.gamma ** (float(elapsed[e]) / config.time_unit)
    observation, mask = (column[e : e + 1] for column in log[t + config.return_steps][:2])
    best = int(net.q_values(observation, mask).argmax())
    return total + discount * float(target.q_values(observation, mask)[0, 0, best])


def test_targets_are_those_computed_by_hand():
    config = replace(TOY, time_unit=2.0, gamma=0.9, reward_scale=3.0, replay_ratio=0.0, is_half=False)
    env = Watched(config.num_envs)
    learner = DQN(env, config, seed=3)
    env.log.clear()
    learner.step()
    with torch.no_grad():  # two nets that disagree, so that it matters who chooses and who values
        for seed, one in enumerate((learner.net, learner.target)):
            one.initialise(torch.Generator().manual_seed(seed))
            one.score_out.mul_(100.0)
            one.score_direct.mul_(100.0)
    drawn = learner.replay.draw(np.random.default_rng(0).random(64), 1.0, 0.4)
    found = learner.targets(drawn).numpy()
    moment, env_of = np.divmod(drawn.slot, config.num_envs)
    shape = learner.net.architecture
    nets = [CandidatePolicy(one.weights(), shape) for one in (learner.net, learner.target)]
    wanted = [target_by_hand(config, nets, env.log, t, e) for t, e in zip(moment, env_of, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    ends = [any(env.log[t + k][4][e] for k in range(3)) for t, e in zip(moment, env_of, strict=True)]
    assert any(ends) and not all(ends)
    choices = [env.log[t][2][e] for t, e in zip(moment, env_of, strict=True)]
    sizes = np.cumsum(drawn.state.sizes) - drawn.state.sizes
    charges = drawn.state.rows[sizes + drawn.action, 2]
    assert charges.tolist() == [float(choice == 0) for choice in choices]


def learning(**changes: object) -> DQN:
    """A learner about to take its first gradient step."""
    learner = DQN(ToyCandidates(8), replace(TOY, samples=800, **changes), seed=1)
    while learner.replay.num_ready == 0:
        learner.act()
    return learner


def test_target_net_follows_as_configured():
    learner = learning(target_every=2, target_rate=0.25)
    learner.learn()
    before = learner.target.weights()
    learner.learn()
    after = learner.net.weights()
    for name, tensor in learner.target.weights().items():
        np.testing.assert_allclose(tensor, 0.75 * before[name] + 0.25 * after[name], atol=1e-6)


def test_values_begin_at_the_level_of_the_warm_up():
    learner = learning(target_every=10)
    learner.learn()
    assert learner.target.weights()["value_out_bias"] == pytest.approx(learner.replay.level, rel=1e-6)
    assert learner.net.weights()["value_out_bias"] == pytest.approx(learner.replay.level, abs=0.01)
    other = DQN(ToyCandidates(8), learner.config, seed=1, start=learner.target.weights())
    while other.replay.num_ready == 0:
        other.act()
    other.learn()
    assert other.target.weights()["value_out_bias"] == learner.target.weights()["value_out_bias"]


# Exploration


def test_drawn_choices_are_starts_and_now_and_then_the_wait():
    mask = np.array([[True, False, True, True]] * 4000)
    rng = np.random.default_rng(0)
    found = drawn_choices(mask, rng.random(4000) < 0.2, rng.random(4000))
    share = np.bincount(found, minlength=4) / 4000
    np.testing.assert_allclose(share, [0.4, 0.0, 0.4, 0.2], atol=0.03)


@pytest.mark.parametrize(
    ("mask", "waits", "wanted"),
    [
        ([False, False, False, True], False, 3),  # nothing can start
        ([False, True, False, False], True, 1),  # it may not wait
        ([True, True, True, True], True, 3),
    ],
)
def test_drawn_choices_are_allowed(mask: list[bool], waits: bool, wanted: int):
    assert drawn_choices(np.array([mask]), np.array([waits]), np.array([0.99])).tolist() == [wanted]


def test_epsilon_of_a_ladder_differs_by_environment():
    config = DQNConfig(num_envs=3, epsilon=0.4, ladder=7.0)
    np.testing.assert_allclose(Exploration(config, 0).epsilon(10**6), [0.4, 0.4**4.5, 0.4**8])
    assert Exploration(replace(config, num_envs=1), 0).epsilon(0).tolist() == [0.4]


def test_epsilon_falls_exponentially_with_decisions():
    config = DQNConfig(
        num_envs=2, exploration="exponential", epsilon=0.9, epsilon_end=0.05, epsilon_decisions=100.0
    )
    found = [Exploration(config, 0).epsilon(collected)[1] for collected in (0, 100, 10**6)]
    np.testing.assert_allclose(found, [0.9, 0.05 + 0.85 * np.exp(-1.0), 0.05])


def test_epsilon_falls_linearly_with_decisions():
    config = DQNConfig(
        samples=1000, num_envs=2, exploration="linear", epsilon=1.0, epsilon_end=0.2, epsilon_share=0.5
    )
    found = [Exploration(config, 0).epsilon(collected)[0] for collected in (0, 250, 500, 900)]
    np.testing.assert_allclose(found, [1.0, 0.6, 0.2, 0.2])


def test_base_rule_makes_its_share_of_choices_during_warm_up_alone():
    config = replace(TOY, num_envs=2000, replay=20_000, epsilon=0.0, base_share=0.25, warmup=10)
    env = ToyCandidates(2000, base_column=3)
    exploration = Exploration(config, 0)
    wait = np.full(2000, 3)
    shares = [(exploration.choose(env, wait, collected) == base_choices(env)).mean() for collected in (0, 10)]
    assert shares == [pytest.approx(0.25, abs=0.05), 0.0]


@pytest.fixture(scope="module")
def streams() -> TaskSetup:
    chosen = scenario("workflows", load=0.8, jobs=4, tasks=8)
    return TaskSetup(tuple(chosen.dispatched("train", 0, seed) for seed in range(3)), CandidateSight(6, 3))


def test_untrained_net_does_what_the_base_rule_does(streams: TaskSetup):
    env = TaskEnv(streams, 3)
    learner = DQN(env, replace(TOY, num_envs=3, replay_candidates=32), seed=2)
    for _ in range(60):
        choices = greedy(learner, env)
        assert choices[:, 0].tolist() == base_choices(env).tolist()
        env.step(choices)


def test_rows_of_the_metrics_say_how_it_goes():
    learner = DQN(ToyCandidates(8), replace(TOY, warmup=600), seed=1)
    first, second, third = (learner.step() for _ in range(3))
    assert (first["phase"], first["loss"], first["replay_ratio"]) == ("warm-up", None, 0.0)
    assert second["phase"] == third["phase"] == "dqn"
    assert third["samples"] == 1200 and third["replay_fill"] == pytest.approx(1200 / 4096)
    assert third["replay_ratio"] == pytest.approx(8.0 * 600 / 1200, rel=0.02)
    assert first["beta"] < second["beta"] < third["beta"] <= 1.0
    assert third["learning_rate"] < TOY.learning_rate
    assert all(np.isfinite(third[name]) for name in ("loss", "mean_error", "mean_q", "epsilon"))
    assert third["decisions_per_second"] > 0


# Known optima


@pytest.mark.parametrize("base_column", [None, 3])
def test_dqn_learns_the_optimum_of_a_toy(base_column: int | None):
    env = ToyCandidates(8, base_column=base_column)  # its base rule, which fires too early, earns 0.05 a step
    learner = DQN(env, TOY, seed=1)
    while learner.update < learner.num_updates:
        learner.step()
    env.reset(0)
    earned = 0.0
    for _ in range(120):
        choices = greedy(learner, env)
        is_early = env.time < 9  # later, the end of the episode may come before it pays
        assert (choices[:, 0] == best_choices(env))[is_early].all()
        earned += float(env.step(choices)[0].mean())
    assert earned / 120 == pytest.approx(BEST_PER_STEP, rel=0.02)


def small_problem() -> Problem:
    """Two jobs of two tasks on a slow and a fast device, where the base rule is far from the best."""
    jobs = []
    for name, times, release in (("a", ((6.0, 6.0), (4.0, 1.0)), 0.0), ("b", ((4.0, 1.0), (24.0, 6.0)), 1.0)):
        builder = GraphBuilder(name)
        for k, (slow, fast) in enumerate(times):
            builder.task(f"{name}{k}", times={"slow": slow, "fast": fast})
        jobs.append(Job(builder.build(), name, release))
    return Problem(jobs, Cluster.uniform((DeviceClass("slow"), DeviceClass("fast")), (1, 1)))


def best_total(env: TaskEnv) -> float:
    """The greatest sum of rewards of an episode from here: all choices are tried."""
    before, found = env.snapshot(), -np.inf
    for choice in np.flatnonzero(before["mask"][0, 0]):
        env.restore(before)
        reward, done = env.step(np.array([[choice]]))
        paid, is_over = float(reward[0]), bool(done[0])
        found = max(found, paid if is_over else paid + best_total(env))
    env.restore(before)
    return found


def total_of(env: TaskEnv, choose: Callable[[], np.ndarray]) -> float:
    """The sum of rewards of an episode."""
    env.reset(0)
    total = 0.0
    while True:
        reward, done = env.step(choose())
        total += float(reward[0])
        if done[0]:
            return total


def test_dqn_finds_the_best_schedule_of_a_small_stream():
    setup = TaskSetup((small_problem(),), CandidateSight(4, 2), reward_scale=0.1)
    env = TaskEnv(setup, 1)
    best = best_total(env)
    assert total_of(env, lambda: base_choices(env)[:, None]) == pytest.approx(-1.9)
    config = replace(TOY, gamma=1.0, replay_candidates=16, exploration="linear", epsilon=0.5)
    learner = DQN(TaskEnv(setup, 8), config, seed=1)
    while learner.update < learner.num_updates:
        learner.step()
    assert total_of(env, lambda: greedy(learner, env)) == pytest.approx(best) == pytest.approx(-1.3)


# Runs


def test_recipe_trains_and_its_run_is_a_dispatcher(tmp_path: Path):
    found = weft.train("workflows-dqn-quick", tmp_path / "run", settings=TINY)
    assert found.runs[0].samples == 512
    assert read_card(tmp_path / "run" / "best.json").architecture.head == "q"
    problem = scenario("workflows", load=0.8, jobs=3, tasks=8).dispatched("validation", 0, 0)
    dispatcher = catalog.task_dispatcher(f"{tmp_path / 'run'}@best")
    assert np.isfinite(run_one(dispatcher, problem, realise(problem, 0)).mean_jct)


def weights_of(folder: Path) -> Mapping[str, bytes]:
    return {name: array.tobytes() for name, array in load_policy(f"{folder}@last")[0].items()}


def test_resumed_run_ends_with_the_same_bytes(tmp_path: Path):
    class Stop(Exception):
        """Interrupts a run."""

    def stop(progress: object) -> None:
        if progress.update == 2:
            raise Stop

    weft.train("workflows-dqn-quick", tmp_path / "whole", settings=TINY)
    with pytest.raises(Stop):
        weft.train("workflows-dqn-quick", tmp_path / "cut", settings=TINY, on_progress=stop)
    weft.train("workflows-dqn-quick", tmp_path / "cut", settings=TINY, resume=True)
    assert weights_of(tmp_path / "whole") == weights_of(tmp_path / "cut")
    checkpoints = [
        (tmp_path / name / "checkpoints" / "00000004.safetensors").read_bytes() for name in ("whole", "cut")
    ]
    assert checkpoints[0] == checkpoints[1]


def test_run_begins_with_the_weights_of_another(tmp_path: Path):
    weft.train("workflows-dqn-quick", tmp_path / "first", settings=TINY)
    idle = {**TINY, "samples": 128, "replay_ratio": 0.0}
    weft.train("workflows-dqn-quick", tmp_path / "second", settings=idle, start=f"{tmp_path / 'first'}@last")
    assert weights_of(tmp_path / "first") == weights_of(tmp_path / "second")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replay_ratio": -1}, "replay_ratio: expected a number >= 0"),
        ({"exploration": "none"}, "exploration: expected one of linear, exponential, ladder"),
        ({"target_rate": 0.0}, "target_rate: expected a number > 0 and <= 1"),
        ({"minibatch": 512}, "minibatch: expected at most replay = 256, got 512"),
        ({"clip": 0.2}, "settings.clip|clip: "),
        ({"hidden": [32, 32]}, "config.hidden: expected one width"),
    ],
)
def test_recipe_refuses(change: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        read_recipe("workflows-dqn-quick", {**TINY, **change}).check(0)


def test_learner_refuses_another_number_of_environments():
    with pytest.raises(InputError, match="num_envs: expected 4 as the environment has, got 8"):
        DQN(ToyCandidates(4), TOY)


def test_weights_of_a_policy_head_are_refused(tmp_path: Path):
    settings = {
        **{k: TINY[k] for k in ("streams", "jobs", "tasks", "candidates.tasks", "num_envs", "num_steps")}
    }
    settings |= {"samples": 128, "imitation_updates": 0, "minibatch": 64, "validation.seeds": 2}
    weft.train("tasks-quick", tmp_path / "ppo", settings=settings)
    with pytest.raises(InputError, match=r"architecture.head: .*expected 'q', got 'policy'"):
        weft.train("workflows-dqn-quick", tmp_path / "dqn", settings=TINY, start=f"{tmp_path / 'ppo'}@last")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replay_candidates": 10**15}, "replay_candidates: expected a whole number from 1 to 65536, got"),
        ({"replay": 10**11}, "replay: expected a whole number from 1 to 1,000,000,000, got 100000000000"),
        ({"replay": 10**9}, "config.replay: expected what fits into .* GB of memory, got what takes"),
        (
            {"return_steps": 60_000, "samples": 1_000_000},
            "replay: expected at least 240008 for 4 environments, got 256",
        ),
        ({"rollouts": 9, "distributed.engine": "local"}, "config.rollouts: expected 0 with an engine, got 9"),
        ({"rollouts": 10**11}, "config.rollouts: expected what fits into"),
        ({"warmup": 512}, "samples: expected more than warmup = 512, or nothing is learned, got 512"),
        ({"validation.rules": ["nope"]}, "^validation.rules: no dispatcher 'nope'"),
    ],
)
def test_what_cannot_be_trained_is_refused_beforehand(change: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        read_recipe("workflows-dqn-quick", {**TINY, **change}).check(0)
