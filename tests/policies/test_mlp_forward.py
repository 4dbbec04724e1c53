from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from policies.nets import SHAPES, TINY, net_of, some_masks

from weft.errors import InputError
from weft.policies.checkpoint import Architecture, Card, save_policy
from weft.policies.mlp.forward import MlpPolicy
from weft.policies.mlp.net import mask_bias

PAPER = Architecture(31, 4, 7)


def some_inputs(shape: Architecture, num: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    observation = rng.normal(size=(num, shape.num_features)).astype(np.float32)
    return observation, some_masks(rng, num, shape.num_heads, shape.num_choices)


@pytest.mark.parametrize("shape", [*SHAPES, PAPER], ids=str)
def test_numpy_decides_as_torch_does(shape: Architecture):
    net = net_of(shape)
    if shape == PAPER:
        net.initialise(torch.Generator().manual_seed(4))
    policy = MlpPolicy(net.weights(), shape)
    observation, mask = some_inputs(shape, 200)
    bias = mask_bias(torch.from_numpy(mask))
    chosen, logits = net.choose(
        torch.from_numpy(observation), lambda x, heads: (x + bias[:, heads]).argmax(-1), one_by_one=False
    )
    actions = policy.decide_batch(observation, mask)
    assert np.array_equal(actions, chosen.numpy())
    scale = max(1.0, float(logits.detach().abs().max()))
    np.testing.assert_allclose(
        policy.logits(observation, actions), logits.detach().numpy(), atol=1e-5 * scale
    )


@pytest.mark.parametrize("shape", [*SHAPES, PAPER], ids=str)
def test_one_decision_equals_a_row_of_many(shape: Architecture):
    policy = MlpPolicy(net_of(shape).weights(), shape)
    observation, mask = some_inputs(shape, 50)
    together = policy.decide_batch(observation, mask)
    single = [policy.decide(o, m) for o, m in zip(observation, mask, strict=True)]
    assert np.array_equal(together, np.stack(single))
    assert np.take_along_axis(mask, together[:, :, None], 2).all()


@pytest.mark.parametrize("is_autoregressive", [False, True])
def test_drawn_choices_follow_the_probabilities(is_autoregressive: bool):
    shape = replace(TINY, num_heads=1, is_autoregressive=is_autoregressive)
    policy = MlpPolicy(net_of(shape).weights(), shape)
    observation, mask = np.full((1, 4), 0.3, np.float32), np.array([[[True, False, True]]])
    logits = policy.logits(observation, np.zeros((1, 1), np.int64))[0, 0].astype(float)
    wanted = 1.0 / (1.0 + np.exp(logits[2] - logits[0]))
    rng = np.random.default_rng(0)
    many = policy.decide_batch(np.repeat(observation, 4000, 0), np.repeat(mask, 4000, 0), rng)
    few = np.array([policy.decide(observation[0], mask[0], rng) for _ in range(2000)])
    for drawn in (many, few):
        assert set(np.unique(drawn)) <= {0, 2}
        assert (drawn == 0).mean() == pytest.approx(wanted, abs=0.04)


def test_draws_of_zero_never_choose_what_is_masked():
    class Zeros:
        def standard_exponential(self, shape: tuple[int, ...], dtype: type) -> np.ndarray:
            return np.zeros(shape, dtype)

    policy = MlpPolicy(net_of(PAPER).weights(), PAPER)
    observation, mask = some_inputs(PAPER, 20)
    assert np.take_along_axis(mask, policy.decide_batch(observation, mask, Zeros())[:, :, None], 2).all()
    assert mask[0][np.arange(4), policy.decide(observation[0], mask[0], Zeros())].all()


def test_same_generator_draws_the_same_choices():
    policy = MlpPolicy(net_of(PAPER).weights(), PAPER)
    observation, mask = some_inputs(PAPER, 20)
    first, second = (policy.decide_batch(observation, mask, np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("is_autoregressive", [False, True])
def test_narrowing_holds_for_later_heads_and_leaves_the_mask_alone(is_autoregressive: bool):
    shape = replace(TINY, is_autoregressive=is_autoregressive)
    policy = MlpPolicy(net_of(shape).weights(), shape)

    def distinct(mask: np.ndarray, head: int, choices: np.ndarray) -> None:
        mask[np.arange(len(mask)), head + 1 :, choices] = False

    observation, mask = some_inputs(shape, 30)[0], np.ones((30, 3, 3), np.bool_)
    actions = policy.decide_batch(observation, mask, narrow=distinct)
    assert (np.sort(actions, axis=1) == [0, 1, 2]).all()
    assert np.array_equal(policy.decide(observation[0], mask[0], narrow=distinct), actions[0])
    assert mask.all()


def test_autoregressive_logits_need_choices():
    shape = replace(TINY, is_autoregressive=True)
    with pytest.raises(InputError, match="actions: autoregressive heads"):
        MlpPolicy(net_of(shape).weights(), shape).logits(np.zeros((1, 4), np.float32))


def test_decisions_load_neither_torch_nor_numba(tmp_path: Path):
    save_policy(tmp_path / "toy.json", net_of(TINY).weights(), Card("toy", "ppo", TINY))
    code = f"""
import sys, numpy as np
from weft.policies.mlp.forward import MlpPolicy
policy = MlpPolicy.load({str(tmp_path / "toy.json")!r})
print(policy.decide(np.zeros(4, np.float32), np.ones((3, 3), bool)).shape)
print([name for name in ("torch", "numba", "pydantic", "safetensors", "pickle5") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["(3,)", "[]"]


def test_clone_decides_alike_in_another_thread():
    policy = MlpPolicy(net_of(PAPER).weights(), PAPER)
    observation, mask = some_inputs(PAPER, 300)

    def decide_all(one: MlpPolicy) -> np.ndarray:
        return np.stack([one.decide(o, m) for o, m in zip(observation, mask, strict=True)])

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(decide_all, [policy.clone() for _ in range(4)]))
    alone = decide_all(policy)
    assert all(np.array_equal(actions, alone) for actions in found)
