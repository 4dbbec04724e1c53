from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from policies.nets import SHAPES, TINY, net_of, some_masks

from weft.policies.checkpoint import Architecture
from weft.policies.mlp.net import Mlp, joint, log_probabilities, mask_bias


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 6))
def test_masked_choices_have_probability_zero_and_the_rest_sum_to_one(seed: int, magnitude: float):
    rng = np.random.default_rng(seed)
    mask = some_masks(rng, 5, 3, 4)
    logits = (rng.normal(size=mask.shape) * 10**magnitude).astype(np.float32)
    found = log_probabilities(torch.from_numpy(logits), mask_bias(torch.from_numpy(mask))).exp().numpy()
    assert (found[~mask] == 0.0).all()
    np.testing.assert_allclose(found.sum(-1), 1.0, atol=1e-5)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_log_probability_equals_brute_force(seed: int):
    rng = np.random.default_rng(seed)
    mask = some_masks(rng, 1, 3, 4)
    logits = rng.normal(size=mask.shape).astype(np.float32)
    actions = np.array([[rng.choice(np.flatnonzero(row)) for row in mask[0]]])
    wanted = 1.0
    for head in range(3):
        allowed = np.exp(logits[0, head].astype(float)) * mask[0, head]
        wanted *= allowed[actions[0, head]] / allowed.sum()
    log_probs = log_probabilities(torch.from_numpy(logits), mask_bias(torch.from_numpy(mask)))
    assert joint(log_probs, torch.from_numpy(actions)).item() == pytest.approx(np.log(wanted), abs=1e-4)


def test_masked_choices_leave_gradients_finite():
    logits = torch.zeros(1, 1, 3, requires_grad=True)
    log_probs = log_probabilities(logits, mask_bias(torch.tensor([[[True, False, True]]])))
    entropy = -(log_probs.exp() * log_probs).sum()
    (entropy + joint(log_probs, torch.tensor([[2]])).sum()).backward()
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 0, 1] == 0.0


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_joint_probabilities_sum_to_one(shape: Architecture):
    net, rng = net_of(shape), np.random.default_rng(3)
    actions = torch.tensor(list(itertools.product(range(3), repeat=3)))
    observation = torch.from_numpy(rng.normal(size=(1, 4)).astype(np.float32)).expand(27, -1)
    bias = mask_bias(torch.from_numpy(some_masks(rng, 1, 3, 3))).expand(27, -1, -1)
    total = joint(log_probabilities(net.logits(observation, actions), bias), actions).exp().sum()
    assert total.item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_choosing_head_by_head_sees_the_same_logits(shape: Architecture):
    net = net_of(shape)
    observation = torch.randn(7, 4, generator=torch.Generator().manual_seed(1))
    for one_by_one in (False, True):
        actions, logits = net.choose(observation, lambda x, heads: x.argmax(-1), one_by_one=one_by_one)
        torch.testing.assert_close(logits, net.logits(observation, actions), atol=1e-5, rtol=1e-5)
        assert torch.equal(actions, logits.argmax(-1))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forward_is_logits_and_values(shape: Architecture):
    net, actions = net_of(shape), torch.zeros(7, 3, dtype=torch.int64)
    observation = torch.randn(7, 4, generator=torch.Generator().manual_seed(1))
    logits, values = net(observation, actions)
    assert torch.equal(logits, net.logits(observation, actions))
    assert torch.equal(values, net.values(observation))


def test_autoregressive_head_sees_only_the_heads_before_it():
    net = net_of(replace(TINY, is_autoregressive=True))
    observation = torch.zeros(2, 4)
    first, second = net.logits(observation, torch.tensor([[0, 1, 0], [0, 2, 2]]))
    torch.testing.assert_close(first[:2], second[:2])
    assert not torch.allclose(first[2], second[2])


def test_autoregressive_logits_need_choices():
    with pytest.raises(ValueError, match="given choices"):
        net_of(replace(TINY, is_autoregressive=True)).logits(torch.zeros(1, 4))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_weights_have_the_names_and_shapes_of_the_architecture(shape: Architecture):
    found = {name: array.shape for name, array in net_of(shape).weights().items()}
    assert found == shape.shapes()


def test_initial_rows_have_length_one_and_the_first_policy_is_even():
    net = Mlp(TINY)
    net.initialise(torch.Generator().manual_seed(0))
    rows = net.weights()
    np.testing.assert_allclose(np.linalg.norm(rows["policy.0.weight"], axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(rows["policy.out.weight"], axis=1), 0.01, atol=1e-6)
    assert not rows["value.out.bias"].any()


def test_nets_leave_the_global_random_state_alone():
    before = torch.random.get_rng_state()
    Mlp(TINY).initialise(torch.Generator().manual_seed(0))
    assert torch.equal(torch.random.get_rng_state(), before)
