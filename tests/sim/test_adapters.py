"""Streams as environments of other learners: their own checkers, and one of their learners."""

from __future__ import annotations

import numpy as np
import peer
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from pettingzoo.test import parallel_api_test, parallel_seed_test
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_util import make_vec_env

from weft.errors import InputError
from weft.model.arrivals import Arrivals
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder
from weft.model.problem import Problem
from weft.sim.adapters import StreamEnv, make
from weft.sim.queues.environment import Setup
from weft.sim.queues.layout import Rules
from weft.sim.queues.observation import Sight

NUM_KINDS, NUM_DEVICES = 6, 4
UNBOUNDED = pytest.mark.filterwarnings(
    "ignore:.*A Box observation space maximum value is infinity.*:UserWarning"
)
"""Ages have no upper limit, which Gymnasium's checker finds worth a remark."""


@pytest.fixture
def setup() -> Setup:
    """The conditional stream with few jobs."""
    return Setup(peer.problem(), Arrivals("normal", 20, peer.GAP, peer.SPREAD), peer.RULES)


def play_allowed(env: StreamEnv, seed: int) -> float:
    """One episode of allowed choices, each as likely; returns the mean job time."""
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    while "mean_jct" not in info:
        action = [int(rng.choice(np.flatnonzero(mask))) for mask in info["action_mask"]]
        *_, info = env.step(np.array(action))
    return float(info["mean_jct"])


@UNBOUNDED
def test_single_passes_gymnasium_checker(setup: Setup):
    check_env(make(setup), skip_render_check=True)  # there is nothing to render


def test_agents_pass_pettingzoo_checker(setup: Setup):
    parallel_api_test(make(setup, "agents"), num_cycles=200)


def test_agents_pass_pettingzoo_seed_checker(setup: Setup):
    parallel_seed_test(lambda: make(setup, "agents"), num_cycles=50)


def test_single_mask_is_what_the_space_samples_with(setup: Setup):
    env = make(setup)
    _, info = env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(30):
        action = env.action_space.sample(info["action_mask"])
        assert env.action_masks().reshape(NUM_DEVICES, -1)[np.arange(NUM_DEVICES), action].all()
        *_, info = env.step(action)


def test_single_flat_mask_is_one_entry_per_choice(setup: Setup):
    env = make(setup)
    _, info = env.reset(seed=1)
    assert env.action_masks().shape == (int(env.action_space.nvec.sum()),)
    assert env.action_masks().dtype == np.bool_
    assert env.action_masks().tolist() == np.concatenate(info["action_mask"]).astype(bool).tolist()


def test_single_ends_with_mean_job_time_and_empty_queues(setup: Setup):
    env = make(setup)
    env.reset(seed=1)
    terminated, info, observation = False, {}, np.zeros(0)
    while not terminated:
        observation, _, terminated, truncated, info = env.step(
            np.zeros(NUM_DEVICES, np.int64) + NUM_KINDS - 1
        )
        assert not truncated
    ages_and_lengths = observation[: 5 * NUM_KINDS]
    assert not ages_and_lengths.any()
    assert info["mean_jct"] > 0
    assert env.action_masks().reshape(NUM_DEVICES, -1).sum() == NUM_DEVICES


def opening(env: StreamEnv, seed: int | None = None) -> list[float]:
    """Rewards at the start of an episode in which all idle: they tell when jobs arrive."""
    env.reset(seed=seed)
    return [env.step(np.full(NUM_DEVICES, NUM_KINDS))[1] for _ in range(6)]


def test_single_reset_with_seed_repeats(setup: Setup):
    env = make(setup)
    assert opening(env, seed=5) == opening(env, seed=5)


def test_single_reset_without_seed_goes_on(setup: Setup):
    env = make(setup)
    assert len({tuple(opening(env, seed)) for seed in (5, None, None)}) == 3


def test_single_without_any_seed_differs_between_environments(setup: Setup):
    assert opening(make(setup)) != opening(make(setup))


def test_choice_ruled_out_by_the_mask_leaves_the_device_free():
    builder = GraphBuilder("two")
    builder.task("a", kind="a", times={"slow": 2.0, "fast": np.inf})
    builder.task("b", kind="b", times={"slow": 2.0, "fast": 1.0}, after=["a"])
    cluster = Cluster.uniform((DeviceClass("fast"), DeviceClass("slow")), (1, 1))
    env = make(Setup(Problem(builder.build(), cluster), Arrivals("periodic", 2, gap=10.0)))
    _, info = env.reset(seed=0)
    assert [mask.tolist() for mask in info["action_mask"]] == [[0, 0, 1], [1, 0, 1]]
    *_, info = env.step(np.array([0, 0]))
    assert [mask.tolist() for mask in info["action_mask"]] == [[0, 1, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (np.array([0, 0, 0]), "expected whole numbers of shape"),
        (np.array([0.0, 0.0, 0.0, 0.0]), "got float64"),
        (np.array([0, 0, 0, 7]), "expected choices in 0..6"),
        (np.array([0, 0, 0, -1]), "expected choices in 0..6"),
    ],
)
def test_single_refuses_action(setup: Setup, action: np.ndarray, reason: str):
    env = make(setup)
    env.reset(seed=0)
    with pytest.raises(InputError, match=reason):
        env.step(action)


def test_make_refuses_unknown_kind(setup: Setup):
    with pytest.raises(InputError, match="expected one of single, vector, agents"):
        make(setup, "several")  # type: ignore[call-overload]


def test_vector_refuses_wrong_number_of_seeds(setup: Setup):
    with pytest.raises(InputError, match="expected 3 seeds, got 2"):
        make(setup, "vector", 3).reset(seed=[1, 2])


def test_vector_declares_its_autoreset_mode(setup: Setup):
    env = make(setup, "vector", 3)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert env.observation_space.shape == (3, 31)
    assert env.action_space.shape == (3, NUM_DEVICES)


def assert_same_infos(ours: dict[str, object], theirs: dict[str, object]) -> None:
    """Same keys, same rows where they are filled."""
    assert sorted(ours) == sorted(theirs)
    for key in (key for key in ours if not key.startswith("_")):
        filled = ours[f"_{key}"]
        assert filled.tolist() == theirs[f"_{key}"].tolist()
        if isinstance(ours[key], dict):
            assert_same_infos(ours[key], theirs[key])
        else:
            for b in np.flatnonzero(filled):
                np.testing.assert_array_equal(ours[key][b], np.array(theirs[key][b]))


def test_vector_equals_single_environments_step_by_step(setup: Setup):
    ours = make(setup, "vector", 3)
    theirs = SyncVectorEnv([lambda: make(setup)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    rng = np.random.default_rng(0)
    observation, infos = ours.reset(seed=11)
    other, other_infos = theirs.reset(seed=11)
    num_ended = 0
    while num_ended < 6:
        np.testing.assert_array_equal(observation, other)
        assert_same_infos(infos, other_infos)
        action = (rng.random(infos["action_mask"].shape) * infos["action_mask"]).argmax(axis=2)
        observation, reward, terminated, truncated, infos = ours.step(action)
        other, *rest, other_infos = theirs.step(action)
        for mine, its in zip((reward, terminated, truncated), rest, strict=True):
            np.testing.assert_array_equal(mine, its)
        num_ended += int(terminated.sum())


def test_vector_returns_data_of_its_own(setup: Setup):
    env = make(setup, "vector", 2)
    observation, infos = env.reset(seed=1)
    kept = observation.copy(), infos["action_mask"].copy()
    for _ in range(5):
        env.step(infos["action_mask"].argmax(axis=2))
    np.testing.assert_array_equal(observation, kept[0])
    np.testing.assert_array_equal(infos["action_mask"], kept[1])


def test_vector_works_with_episode_statistics(setup: Setup):
    env = RecordEpisodeStatistics(make(setup, "vector", 2))
    _, infos = env.reset(seed=1)
    total, terminated = np.zeros(2), np.zeros(2, bool)
    while not terminated.any():
        _, reward, terminated, _, infos = env.step(infos["action_mask"].argmax(axis=2))
        total += reward
    np.testing.assert_allclose(infos["episode"]["r"][terminated], total[terminated])


def test_vector_seeds_are_consecutive(setup: Setup):
    observation, _ = make(setup, "vector", 2).reset(seed=6)
    np.testing.assert_array_equal(observation[1], make(setup).reset(seed=7)[0])


def test_agents_are_the_devices(setup: Setup):
    env = make(setup, "agents")
    env.reset(seed=0)
    assert env.agents == ["cpu-0", "cpu-1", "gpu1-0", "gpu2-0"]


def test_agents_act_as_the_single_environment_does(setup: Setup):
    agents, single = make(setup, "agents"), make(setup)
    _, infos = agents.reset(seed=4)
    single.reset(seed=4)
    while agents.agents:
        action = [int(infos[agent]["action_mask"].argmax()) for agent in agents.agents]
        observations, rewards, terminated, _, infos = agents.step(
            dict(zip(agents.agents, action, strict=True))
        )
        observation, reward, is_over, _, info = single.step(np.array(action))
        for p, agent in enumerate(agents.possible_agents):
            np.testing.assert_array_equal(observations[agent], observation)
            np.testing.assert_array_equal(infos[agent]["action_mask"], info["action_mask"][p])
            assert (rewards[agent], terminated[agent]) == (reward, is_over)
    np.testing.assert_array_equal(agents.state(), observation)


def test_busy_agent_can_only_idle(setup: Setup):
    env = make(setup, "agents")
    _, infos = env.reset(seed=4)
    assert infos["cpu-0"]["action_mask"].tolist() == [1, 0, 0, 0, 0, 0, 1]
    idle = dict.fromkeys(env.agents, NUM_KINDS)
    *_, infos = env.step({**idle, "cpu-0": 0, "gpu2-0": 1})
    assert infos["cpu-0"]["action_mask"].tolist() == [0, 0, 0, 0, 0, 0, 1]


@pytest.fixture
def light_and_heavy() -> Setup:
    """A light and a heavy kind on two devices: whoever mixes them up, or idles, lets jobs wait."""
    builder = GraphBuilder("two", time_unit="ms")
    builder.task("light", 10.0, kind="light")
    builder.task("heavy", 40.0, kind="heavy")
    builder.task("end", 10.0, kind="end")
    builder.edge("light", "heavy", probability=0.4, branch=0)
    builder.edge("light", "end", probability=0.6, branch=0)
    classes = (DeviceClass("cpu"), DeviceClass("gpu", speeds={"heavy": 2.0}, batch=4))
    return Setup(
        Problem(builder.build(), Cluster.uniform(classes, (1, 1))),
        Arrivals("poisson", 300, gap=11.0),
        Rules(idle_block=10.0),
        Sight(devices=True, flags=True, age_scale=100.0, length_scale=10.0),
    )


def mean_of_learner(model: MaskablePPO, setup: Setup, seed: int) -> float:
    """Mean job time of a trained sb3-contrib model in one episode."""
    env = make(setup)
    observation, info = env.reset(seed=seed)
    while "mean_jct" not in info:
        action, _ = model.predict(observation, action_masks=env.action_masks(), deterministic=True)
        observation, *_, info = env.step(action)
    return float(info["mean_jct"])


@pytest.mark.usefixtures("one_thread")
def test_maskable_ppo_learns_unchanged_through_its_own_vector_wrapper(light_and_heavy: Setup):
    environments = make_vec_env(lambda: make(light_and_heavy), n_envs=8, seed=1)
    model = MaskablePPO(
        "MlpPolicy",
        environments,
        2e-3,
        n_steps=128,
        batch_size=256,
        n_epochs=4,
        gamma=0.97,
        seed=1,
        device="cpu",
    )
    held_out = range(1000, 1004)
    untrained = np.mean([mean_of_learner(model, light_and_heavy, seed) for seed in held_out])
    chance = np.mean([play_allowed(make(light_and_heavy), seed) for seed in held_out])
    model.learn(16_384)
    learned = np.mean([mean_of_learner(model, light_and_heavy, seed) for seed in held_out])
    assert learned < 0.5 * min(chance, untrained)
