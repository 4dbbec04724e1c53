"""Edge clusters as PettingZoo agents."""

from __future__ import annotations

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import weft
from weft.errors import InputError
from weft.model.elastic import ElasticProblem, TaskType, amdahl
from weft.scenarios import scenario
from weft.sim.adapters_elastic import ClusterAgentsEnv
from weft.sim.elastic.environment import ElasticBatch


def make(stepping: str = "single") -> ClusterAgentsEnv:
    return weft.make_env("edge-single-3", "agents", tasks=20, stepping=stepping)


@pytest.mark.parametrize("stepping", ["single", "multi"])
def test_agents_pass_pettingzoo_checker(stepping: str):
    parallel_api_test(make(stepping), num_cycles=300)


def test_agents_pass_pettingzoo_seed_checker():
    parallel_seed_test(make, num_cycles=60)


def of_units(capacity: list[list[int]], *types: TaskType, **fields: object) -> ElasticProblem:
    given = {"num_tasks": 8, "arrival_rate": 2.0, "resources": ("cpu", "gpu", "fpga")[: len(capacity[0])]}
    return ElasticProblem(np.array(capacity), types, **(given | fields))


CPUS = amdahl("cpu", (1,), (8,), 10, (0.9,))
NO_GPU = amdahl("no-gpu", (1, 0), (8, 0), 10, (0.9, 0.0))
GPU = amdahl("gpu", (1, 1), (8, 4), 10, (0.4, 0.5))
THREE = amdahl("three", (1, 1, 1), (8, 8, 4), 10, (0.3, 0.3, 0.3))
ODD = {
    "one cluster and one task": lambda: scenario("edge-multi-3", clusters=1, tasks=1).elastic("test", 0),
    "forty clusters": lambda: scenario("edge-multi-3", clusters=40, tasks=60).elastic("test", 0),
    "a set of one": lambda: scenario("edge-multi-3", slots=1, tasks=8).elastic("test", 0),
    "memory": lambda: scenario("edge-multi-3", capacity="16x16x64", least="2x1x8", most="16x16x8", tasks=9).elastic("test", 0),
    "one resource": lambda: of_units([[8], [4]], CPUS),
    "three resources": lambda: of_units([[8, 8, 8]] * 2, THREE, stepping="multi"),
    "a resource that nobody uses": lambda: of_units([[8, 0], [8, 4]], NO_GPU),
    "a cluster without GPUs": lambda: of_units(
        [[8, 0], [8, 4]], GPU, NO_GPU, num_tasks=3, arrivals=[[0, 0, 2], [0, 1, 3], [1, 1, 1]], stepping="multi"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_agents_of_odd_clusters_pass_pettingzoo_checkers(name: str):
    def make() -> ClusterAgentsEnv:
        return ClusterAgentsEnv(ODD[name]())

    parallel_api_test(make(), num_cycles=60)
    parallel_seed_test(make, num_cycles=30)


def test_agents_play_the_episodes_of_the_batch():
    env = make("multi")
    batch = ElasticBatch(
        scenario("edge-single-3", tasks=20, stepping="multi").elastic("train", 0), seed=np.array([5])
    )
    env.reset(seed=5)
    rng = np.random.default_rng(0)
    for _ in range(400):
        slot, units = rng.integers(0, 11, 3), rng.integers(1, 12, (3, 2))
        chosen = {agent: np.append(slot[n], units[n]) for n, agent in enumerate(env.possible_agents)}
        _, rewards, ended, _, infos = env.step(chosen)
        found = batch.act(np.where(slot < 10, slot, -1)[None], units[None])
        assert list(rewards.values()) == found.reward[0].tolist()
        if found.done[0]:
            assert all(ended.values()) and env.agents == []
            assert infos["c0"]["mean_completion"] == found.mean_completion[0]
            return
    raise AssertionError("the episode does not end")


def test_masks_are_what_spaces_sample_with_and_leave_only_what_fits_or_nothing():
    env = make()
    _, infos = env.reset(seed=1)
    for _ in range(50):
        chosen = {}
        for agent in env.agents:
            chosen[agent] = env.action_space(agent).sample(infos[agent]["action_mask"])
            assert env.observation_space(agent).shape is not None
        _, _, _, _, infos = env.step(chosen)
        if not env.agents:
            break


def test_wrong_actions_and_kinds_are_refused():
    env = make()
    env.reset(seed=1)
    with pytest.raises(InputError, match="action of c1: expected 3 whole numbers"):
        env.step({"c1": np.array([1])})
    with pytest.raises(
        InputError, match="kind: expected agents, of which every cluster has one, got 'single'"
    ):
        weft.make_env("edge-single-3")


@pytest.mark.parametrize("seed", [1.5, 2**70, -1, "x", True])
def test_seeds_are_whole_numbers_of_64_bits(seed: object):
    with pytest.raises(InputError, match=r"seed: expected a whole number from 0 to 2\^63 - 1, got "):
        make().reset(seed=seed)


def test_no_step_before_or_after_an_episode():
    env = make()
    with pytest.raises(InputError, match="step: expected reset first: no episode is under way"):
        env.step({})


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ({"zz": np.array([1, 2, 3])}, "actions: expected agents of c0, c1, c2, got 'zz'"),
        (3, "actions: expected actions by agent, got 3"),
        ({"c0": np.array([99, 1, 1])}, "action of c0: expected a slot from 0 to 10 and units >= 0, got [99, 1, 1]"),
        ({"c0": np.array([-5, 1, 1])}, "action of c0: expected a slot from 0 to 10"),
        ({"c0": np.array([0, 1, -1])}, "action of c0: expected a slot from 0 to 10"),
    ],
)  # fmt: skip
def test_actions_outside_the_space_are_refused(actions: object, said: str):
    env = make()
    env.reset(seed=1)
    with pytest.raises(InputError) as raised:
        env.step(actions)
    assert said in str(raised.value)


def test_agents_without_an_action_take_nothing():
    env = make()
    env.reset(seed=1)
    assert set(env.step({})[1]) == {"c0", "c1", "c2"}
