"""Graph nets: torch and NumPy agree, relabelling relabels, rows do not mix, foreign files are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from weft.catalog import chooser
from weft.errors import InputError
from weft.model.arrivals import Arrivals
from weft.model.conditional import SIZES, random_stream
from weft.policies.checkpoint import Card, load_policy, save_policy
from weft.policies.graph.architecture import Blocks, GraphArchitecture
from weft.policies.graph.forward import GraphPolicy, policy_of
from weft.policies.graph.net import GraphNet
from weft.sim.queues.environment import QueueEnv, Setup
from weft.sim.queues.graph_observation import DEVICE, KIND, PAIR, WORLD
from weft.sim.queues.layout import Rules
from weft.sim.queues.observation import GRAPH_FEATURES, Sight

SHAPE = GraphArchitecture(len(WORLD), len(KIND), len(DEVICE), len(PAIR), hidden=12, rounds=2)
SIGHT = Sight(graph=True)


def net_of(num_kinds: int, num_devices: int, seed: int = 0) -> GraphNet:
    """A net with weights large enough to matter everywhere."""
    net = GraphNet(SHAPE, num_kinds, num_devices)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in net.parameters():
            tensor.copy_(0.3 * torch.randn(tensor.shape, generator=generator))
    return net


def policy_for(net: GraphNet) -> GraphPolicy:
    return GraphPolicy(net.weights(), SHAPE)


def played(seed: int, sight: Sight = SIGHT, steps: int = 40) -> QueueEnv:
    """A random stream after some decisions at random."""
    found = random_stream(seed, SIZES["usual"])
    env = QueueEnv(
        Setup(found.problem, Arrivals("poisson", 60, found.gap), sight=sight, waits=True), 6, seed=1
    )
    rng = np.random.default_rng(0)
    num_devices, num_kinds = env.stream.can_run.shape
    for _ in range(steps):
        weight = rng.random((6, num_devices, num_kinds + 1))
        mask = np.zeros_like(weight, dtype=bool)
        mask[:, :, :-1], mask[:, :, -1] = env.mask[:, :num_devices, :num_kinds], True
        actions = np.full(env.mask.shape[:2], env.num_choices - 1)
        actions[:, :num_devices] = (weight * mask).argmax(axis=2)
        env.step(actions)
    return env


def sizes(env: QueueEnv) -> tuple[int, int]:
    num_devices, num_kinds = env.stream.can_run.shape
    return num_kinds, num_devices


def flat(blocks: Blocks) -> np.ndarray:
    return np.concatenate([part.reshape(len(part), -1) for part in blocks], axis=1)


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_torch_and_numpy_agree(seed: int):
    env = played(seed)
    net = net_of(*sizes(env))
    actions = policy_for(net).decide_batch(env.observation, env.mask)
    expected, _ = net(torch.from_numpy(env.observation), torch.from_numpy(actions))
    found = policy_for(net).logits(env.observation, actions, sizes(env)[0])
    assert np.abs(found - expected.detach().numpy()).max() < 1e-5


def test_net_chooses_what_the_policy_does():
    env = played(3)
    net = net_of(*sizes(env))
    barred = torch.from_numpy(~env.mask)
    chosen, logits = net.choose(
        torch.from_numpy(env.observation), lambda x, heads: x.masked_fill(barred[:, heads], -1e30).argmax(-1)
    )
    assert (chosen.numpy() == policy_for(net).decide_batch(env.observation, env.mask)).all()
    again, _ = net(torch.from_numpy(env.observation), chosen)
    assert torch.allclose(logits, again, atol=1e-5)


def test_room_for_more_changes_no_score():
    tight, wide = played(4), played(4, SIGHT._replace(room_kinds=14, room_devices=9))
    num_kinds, num_devices = sizes(tight)
    small, large = net_of(num_kinds, num_devices), net_of(14, 9)
    actions = policy_for(small).decide_batch(tight.observation, tight.mask)
    padded = np.full((6, 9), 14)
    padded[:, :num_devices] = np.where(actions == num_kinds, 14, actions)
    one, value = small(torch.from_numpy(tight.observation), torch.from_numpy(actions))
    two, same = large(torch.from_numpy(wide.observation), torch.from_numpy(padded))
    assert torch.allclose(one[..., :-1], two[:, :num_devices, :num_kinds], atol=1e-5)
    assert torch.allclose(one[..., -1], two[:, :num_devices, -1], atol=1e-5)
    assert torch.allclose(value, same, atol=1e-5)


def test_relabelled_kinds_give_the_relabelled_decision():
    env = played(2)
    num_kinds, num_devices = sizes(env)
    policy, order = (
        policy_for(net_of(num_kinds, num_devices)),
        np.random.default_rng(1).permutation(num_kinds),
    )
    parts = SHAPE.blocks(env.observation, num_kinds, num_devices)
    other = parts._replace(
        kinds=parts.kinds[:, order], pairs=parts.pairs[:, :, order], edges=parts.edges[:, order][:, :, order]
    )
    mask = env.mask[:, :, [*order, num_kinds]]
    found = policy.decide_batch(flat(other), mask)
    assert (np.array([*order, num_kinds])[found] == policy.decide_batch(env.observation, env.mask)).all()


def test_relabelled_devices_give_the_relabelled_scores():
    env = played(2)
    num_kinds, num_devices = sizes(env)
    policy, order = policy_for(net_of(num_kinds, num_devices)), np.arange(num_devices)[::-1]
    parts = SHAPE.blocks(env.observation, num_kinds, num_devices)
    other = flat(parts._replace(devices=parts.devices[:, order], pairs=parts.pairs[:, order]))
    nobody = np.full((6, num_devices), num_kinds)  # what a device sees depends on those that chose before
    one, two = policy.logits(env.observation, nobody, num_kinds), policy.logits(other, nobody, num_kinds)
    assert np.allclose(one[:, order], two, atol=1e-5)


def test_rows_of_a_batch_do_not_mix():
    env = played(5)
    net = net_of(*sizes(env))
    observation = torch.from_numpy(env.observation).clone().requires_grad_()
    logits, values = net(
        observation, torch.from_numpy(policy_for(net).decide_batch(env.observation, env.mask))
    )
    (logits[2, :, -1].sum() + values[2]).backward()
    assert observation.grad is not None
    touched = observation.grad.abs().sum(1) > 0
    assert touched.tolist() == [False, False, True, False, False, False]


def test_device_does_not_choose_what_others_took():
    env = played(2)
    actions = policy_for(net_of(*sizes(env))).decide_batch(env.observation, env.mask)
    for b in range(env.num_envs):
        left = env.state.queued[b].copy()
        for p, kind in enumerate(actions[b]):
            if kind < len(left):
                assert left[kind] > 0
                left[kind] -= env.stream.batch[p]


def test_policy_acts_on_larger_problems_than_it_was_made_for():
    policy = policy_for(net_of(3, 2))
    env = played(7)
    actions = policy.decide_batch(env.observation, env.mask)
    assert np.take_along_axis(env.mask, actions[..., None], 2).all()


def saved(folder: Path, **changes: object) -> Path:
    card = Card("tiny", "ppo", SHAPE, GRAPH_FEATURES, training={"sight": SIGHT._asdict(), "waits": True})
    path = folder / "tiny.json"
    save_policy(path, net_of(3, 2).weights(), replace(card, **changes))
    return path


def test_policy_file_comes_back(tmp_path: Path):
    weights, card = load_policy(saved(tmp_path))
    assert card.architecture == SHAPE
    assert isinstance(policy_of(weights, card), GraphPolicy)


def test_policy_of_another_feature_version_is_refused(tmp_path: Path):
    path = saved(tmp_path, feature_version="graph/2")
    with pytest.raises(InputError, match="expected 'graph/1', got 'graph/2'"):
        chooser(str(path)).refuse_misfit(random_stream(1, SIZES["usual"]).problem, Rules())


def test_card_with_a_broken_architecture_is_refused(tmp_path: Path):
    path = saved(tmp_path)
    document = json.loads(path.read_text())
    document["architecture"]["rounds"] = 99
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"architecture\.rounds: expected 0 to 8 rounds, got 99"):
        load_policy(path)


def test_observation_of_another_size_is_refused():
    env = played(2)
    with pytest.raises(InputError, match="numbers for 3 kinds and 2 devices"):
        policy_for(net_of(3, 2)).decide_batch(env.observation, np.ones((6, 2, 4), np.bool_))
