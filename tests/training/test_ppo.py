from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from training.toy import BEST_PER_STEP, ToyEnv, best_rule

from weft.errors import InputError, WeftError
from weft.policies.mlp.forward import MlpPolicy
from weft.training.ppo.config import TUNED, PPOConfig
from weft.training.ppo.learner import PPO, advantages, squared_error
from weft.training.recipes import read_recipe

SMALL = PPOConfig(
    samples=38_400,
    num_envs=32,
    num_steps=60,
    minibatch=480,
    learning_rate=1e-2,
    gamma=0.95,
    gae_lambda=0.95,
    hidden=(32,),
    entropy_coefficient=0.01,
)


def trained(config: PPOConfig, **settings) -> PPO:
    learner = PPO(ToyEnv(config.num_envs), config, **settings)
    while learner.update < learner.num_updates:
        learner.step()
    return learner


def mean_reward(learner: PPO, num_steps: int = 120) -> float:
    """Mean reward of the greedy policy in fresh environments."""
    weights, card = learner.policy()
    policy, env = MlpPolicy(weights, card.architecture), ToyEnv(8)
    env.reset(99)
    rewards = [env.step(policy.decide_batch(env.observation, env.mask))[0].mean() for _ in range(num_steps)]
    return float(np.mean(rewards))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"is_autoregressive": True},
        {"critic": "shared", "activation": "relu", "decay": "constant"},
        {"kl_coefficient": 0.2, "gradient_clip": None, "value_limit": 10.0, "clip": 0.3, "gae_lambda": 1.0},
        {"time_unit": 1.0, "hidden": (16, 16)},
    ],
    ids=["plain", "autoregressive", "shared", "paper", "timed"],
)
def test_ppo_reaches_the_known_optimum(change: dict[str, object]):
    assert mean_reward(trained(replace(SMALL, **change))) > 0.95 * BEST_PER_STEP


def test_ppo_starts_far_from_the_optimum():
    assert mean_reward(PPO(ToyEnv(32), SMALL)) < 0.6 * BEST_PER_STEP


def test_ppo_imitates_a_rule_before_it_learns():
    config = replace(SMALL, samples=1, imitation_updates=5, imitation_rate=1e-2)
    learner = PPO(ToyEnv(32), config, rule=best_rule)
    rows = [learner.step() for _ in range(5)]
    assert mean_reward(learner) > 0.99 * BEST_PER_STEP
    assert rows[0]["phase"] == "imitate"
    assert rows[-1]["cross_entropy"] < 0.2 * rows[0]["cross_entropy"]
    assert learner.step()["phase"] == "ppo"


def test_ppo_refuses_a_rule_that_breaks_the_mask():
    config = replace(SMALL, imitation_updates=1)
    learner = PPO(ToyEnv(32), config, rule=lambda env: np.ones((32, 2), np.int64))
    with pytest.raises(InputError, match="rule: chose 1 for head 0, which is masked"):
        learner.step()


def test_ppo_same_seed_gives_the_same_bytes():
    first, second = (trained(replace(SMALL, samples=4000), seed=3).state() for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


def test_ppo_other_seed_gives_other_weights():
    first, second = (trained(replace(SMALL, samples=1), seed=seed).state() for seed in (1, 2))
    assert first["net.policy.0.weight"].tobytes() != second["net.policy.0.weight"].tobytes()


def test_ppo_restored_goes_on_as_if_never_stopped():
    config = replace(SMALL, samples=8000, kl_coefficient=0.2)
    straight, stopped, resumed = (PPO(ToyEnv(32), config, seed=1) for _ in range(3))
    for _ in range(2):
        stopped.step()
    resumed.restore(stopped.state())
    rows = [resumed.step() for _ in range(2)]
    assert [straight.step() for _ in range(4)][2:] == rows
    assert all(straight.state()[name].tobytes() == array.tobytes() for name, array in resumed.state().items())


def test_ppo_continues_from_given_weights():
    weights, _ = trained(replace(SMALL, samples=1)).policy()
    learner = PPO(ToyEnv(32), SMALL, seed=9, start=weights)
    assert all(np.array_equal(array, weights[name]) for name, array in learner.policy()[0].items())


@pytest.mark.parametrize("seed", [2**32, -1, 1.0])
def test_ppo_refuses_seeds_of_other_splits(seed: int):
    with pytest.raises(InputError, match="seed: expected a whole number from 0 to 4294967295"):
        PPO(ToyEnv(32), SMALL, seed=seed)


def test_ppo_restores_the_number_of_threads():
    before = torch.get_num_threads()
    trained(replace(SMALL, samples=1))
    assert torch.get_num_threads() == before


def test_ppo_narrowed_masks_hold_for_later_heads():
    class Exclusive(ToyEnv):
        """Both heads may not choose 2."""

        def narrow(self, mask: np.ndarray, head: int, choices: np.ndarray) -> None:
            if head == 0:
                barred = (choices == 2) & mask[:, 1, :2].any(1)
                mask[barred, 1, 2] = False

        def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            assert not ((actions[:, 0] == 2) & (actions[:, 1] == 2)).any()
            return super().step(actions)

    for is_autoregressive in (False, True):
        config = replace(SMALL, samples=4000, is_autoregressive=is_autoregressive)
        learner = PPO(Exclusive(32), config)
        assert all(abs(learner.step()["policy_loss"]) < 1.0 for _ in range(2))


def test_ppo_row_has_what_a_person_wants_to_see():
    learner = PPO(ToyEnv(32), SMALL)
    row = learner.step()
    assert row["samples"] == 1920
    assert row["episodes"] == 64
    assert row["episode_length"] < 30
    assert 0.0 < row["entropy"] < 2 * np.log(3)
    assert learner.score == row["mean_reward"]


def test_ppo_card_has_the_ranges_of_the_observation():
    _, card = trained(replace(SMALL, samples=1)).policy()
    assert card.ranges == ((0.0, 1.0),) * 6


def test_ppo_says_when_it_diverges():
    learner = PPO(ToyEnv(32), replace(SMALL, learning_rate=1e30, gradient_clip=None))
    with pytest.raises(WeftError, match="diverged in update"):
        for _ in range(3):
            learner.step()


def test_ppo_adapts_the_weight_of_the_kl_penalty():
    learner = PPO(ToyEnv(32), replace(SMALL, kl_coefficient=0.2, learning_rate=1e-7))
    weights = [learner.step()["kl_coefficient"] for _ in range(3)]
    assert weights == [0.2, 0.1, 0.05]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_envs": 0}, "num_envs: expected a whole number from 1 to 65536, got 0"),
        ({"minibatch": 1.5}, "minibatch: expected a whole number from 1 to 1,000,000, got 1.5"),
        ({"learning_rate": 0.0}, "learning_rate: expected a number > 0, got 0.0"),
        ({"gamma": 1.1}, "gamma: expected a number from 0 to 1, got 1.1"),
        ({"gae_lambda": float("nan")}, "gae_lambda: expected a number from 0 to 1, got nan"),
        ({"decay": "cosine"}, "decay: expected linear or constant, got 'cosine'"),
        ({"critic": "none"}, "critic: expected separate or shared, got 'none'"),
        ({"gradient_clip": -1.0}, "gradient_clip: expected a number > 0 or none, got -1.0"),
        ({"kl_coefficient": -0.1}, "kl_coefficient: expected a number >= 0, got -0.1"),
        ({"samples": "many"}, "samples: expected a whole number from 1 to 1,000,000,000,000, got 'many'"),
        ({"clip": "x"}, "clip: expected a number > 0, got 'x'"),
        (
            {"imitation_updates": 0.5},
            "imitation_updates: expected a whole number from 0 to 1,000,000, got 0.5",
        ),
    ],
)
def test_config_refuses(change: dict[str, object], message: str):
    with pytest.raises(InputError) as error:
        replace(TUNED, **change)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_envs": 31}, "num_envs: expected 32 as the environment has, got 31"),
        ({"imitation_updates": 1}, "imitation_updates: expected a rule to imitate, got none"),
    ],
)
def test_ppo_refuses_an_environment_that_does_not_fit(change: dict[str, object], message: str):
    with pytest.raises(InputError) as error:
        PPO(ToyEnv(32), replace(SMALL, **change))
    assert str(error.value) == message


def test_ppo_learns_for_all_agents_together():
    learner = PPO(ToyEnv(SMALL.num_envs, num_agents=2), SMALL)
    while learner.update < learner.num_updates:
        learner.step()
    assert mean_reward(learner) > 0.95 * BEST_PER_STEP


@pytest.mark.parametrize(
    "device",
    ["tpu", pytest.param("cuda", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="has one"))],
)
def test_ppo_refuses_a_device_that_is_not_there(device: str):
    with pytest.raises(InputError, match="device:"):
        PPO(ToyEnv(32), SMALL, device=device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_ppo_learns_on_cuda():
    assert mean_reward(trained(SMALL, device="cuda")) > 0.95 * BEST_PER_STEP


def test_paper_config_is_the_papers():
    paper = read_recipe("conditional-paper").config
    assert (paper.batch, paper.num_updates, paper.hidden) == (80_000, 63, (64, 64))


def slow_advantages(reward, values, ended, gamma, lam):
    """The definition: a sum of discounted errors up to the end of the episode, per environment."""
    num_steps, num_envs = reward.shape
    out = np.zeros_like(reward)
    for b in range(num_envs):
        for t in range(num_steps):
            weight = 1.0
            for k in range(t, num_steps):
                follow = 0.0 if ended[k, b] else gamma[k, b] * values[k + 1, b]
                out[t, b] += weight * (reward[k, b] + follow - values[k, b])
                if ended[k, b]:
                    break
                weight *= gamma[k, b] * lam
    return out


@pytest.mark.parametrize("lam", [0.0, 0.9, 1.0])
def test_advantages_equal_the_definition(lam: float):
    rng = np.random.default_rng(5)
    reward, values = rng.normal(size=(12, 4)), rng.normal(size=(13, 4))
    ended, gamma = rng.random((12, 4)) < 0.2, rng.uniform(0.5, 1.0, (12, 4))
    discount = torch.from_numpy(np.where(ended, 0.0, gamma))
    found = advantages(torch.from_numpy(reward), torch.from_numpy(values), discount, lam)
    np.testing.assert_allclose(found.numpy(), slow_advantages(reward, values, ended, gamma, lam), atol=1e-12)


def test_squared_error_beyond_the_limit_has_no_gradient():
    values = torch.tensor([1.0, 10.0], requires_grad=True)
    loss = squared_error(values, torch.zeros(2), 10.0)
    loss.backward()
    assert loss.item() == pytest.approx(5.5)
    assert values.grad.tolist() == [1.0, 0.0]
