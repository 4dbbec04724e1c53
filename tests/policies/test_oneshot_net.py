"""The trained encoder and its NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from policies.planners import PROBLEMS, random_net, small_shape, view

from weft.errors import InputError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate
from weft.model.problem import Problem
from weft.policies.checkpoint import Card, load_policy, save_policy
from weft.policies.oneshot import attention_layout as looks_module
from weft.policies.oneshot import net as topoformer_module
from weft.policies.oneshot.attention_layout import pooled_lists, relation_table
from weft.policies.oneshot.encoder import Encoder, TaskScores
from weft.policies.oneshot.encoder_shape import DEFAULT_HEADS, PAPER_RELATIONS, RELATIONS, EncoderShape
from weft.policies.oneshot.net import Topoformer, batch_of

CPU = torch.device("cpu")
NETS = {
    "default": small_shape(),
    "two lists": small_shape(num_lists=2),
    "paper": small_shape(PAPER_RELATIONS, num_types=4),
}


@torch.no_grad()
def torch_scores(net: Topoformer, kinds: list[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    views = [view(PROBLEMS[kind]) for kind in kinds]
    score, bias = net(batch_of(views, net.shape, CPU))
    return [
        (score[b, : one.num_tasks].numpy(), bias[b, : one.num_tasks, : one.pairs.shape[1]].numpy())
        for b, one in enumerate(views)
    ]


def together(found: TaskScores) -> np.ndarray:
    """Scores as the net in torch lays them out: logit and hold of every list side by side."""
    return np.stack([found.logit, found.hold], 1).reshape(-1, found.logit.shape[1]).T


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("shape", NETS)
def test_encoder_agrees_with_torch(shape: str, kind: str):
    net = random_net(NETS[shape])
    score, bias = torch_scores(net, [kind])[0]
    found = Encoder(net.weights(), net.shape).scores(view(PROBLEMS[kind]))
    np.testing.assert_allclose(together(found), score, atol=1e-5)
    np.testing.assert_allclose(found.bias, bias, atol=1e-5)


@pytest.mark.parametrize("shape", NETS)
def test_batch_does_not_leak_between_graphs(shape: str):
    net = random_net(NETS[shape])
    together = torch_scores(net, list(PROBLEMS))
    for (score, bias), kind in zip(together, PROBLEMS, strict=True):
        alone = torch_scores(net, [kind])[0]
        np.testing.assert_allclose(score, alone[0], atol=1e-5)
        np.testing.assert_allclose(bias, alone[1], atol=1e-5)


def test_net_follows_a_renumbering_of_tasks():
    net = random_net(NETS["default"])
    first = generate("layered", 12, seed=5)
    place = np.random.default_rng(1).permutation(12)
    order = np.argsort(place)
    second = first.replaced(
        work=first.work[order],
        kind=first.kind[order],
        names=tuple(first.names[i] for i in order),
        sources=place[first.sources],
        targets=place[first.targets],
    )
    cluster = Cluster.uniform([DeviceClass("slow"), DeviceClass("fast", 2.0)], [1, 2], bandwidth=1e7)
    scores = Encoder(net.weights(), net.shape)
    one, two = (scores.scores(view(Problem(graph, cluster))) for graph in (first, second))
    np.testing.assert_allclose(two.logit[:, place], one.logit, atol=1e-5)
    np.testing.assert_allclose(two.bias[place], one.bias, atol=1e-5)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_relations_of_the_paper_hold_every_pair_once(kind: str):
    found = view(PROBLEMS[kind])
    total = sum(relation_table(found, name).astype(int) for name in PAPER_RELATIONS)
    assert (total == 1 - np.eye(found.num_tasks)).all()


def test_pooled_relations_are_exact_where_every_level_has_one_task(monkeypatch: pytest.MonkeyPatch):
    chain = Problem(generate("chain", 20, seed=1), Cluster.uniform([DeviceClass("cpu")], [1]))
    net = random_net(NETS["default"])
    scores = Encoder(net.weights(), net.shape)
    exact = scores.scores(view(chain))
    monkeypatch.setattr(looks_module, "DENSE_LIMIT", 0)
    pooled = scores.scores(view(chain))
    np.testing.assert_allclose(pooled.logit, exact.logit, atol=1e-5)


def test_pooled_encoder_agrees_with_torch_on_a_large_graph():
    cluster = Cluster.uniform([DeviceClass("slow"), DeviceClass("fast", 2.0)], [4, 4], bandwidth=1e9)
    found = view(Problem(generate("layered", 2100, seed=1), cluster))
    net = random_net(NETS["default"])
    with torch.no_grad():
        score, bias = net(batch_of([found], net.shape, CPU))
    wanted = Encoder(net.weights(), net.shape).scores(found)
    np.testing.assert_allclose(score[0, :2100, 0], wanted.logit[0], atol=1e-5)
    np.testing.assert_allclose(bias[0, :2100], wanted.bias, atol=1e-5)


@pytest.mark.parametrize("shape", NETS)
def test_pooled_batch_agrees_with_the_encoder_and_does_not_leak(shape: str, monkeypatch: pytest.MonkeyPatch):
    for module in (looks_module, topoformer_module):
        monkeypatch.setattr(module, "DENSE_LIMIT", 0)
    net = random_net(NETS[shape])
    scores = Encoder(net.weights(), net.shape)
    for (score, bias), kind in zip(torch_scores(net, list(PROBLEMS)), PROBLEMS, strict=True):
        wanted = scores.scores(view(PROBLEMS[kind]))
        np.testing.assert_allclose(score, together(wanted), atol=1e-5)
        np.testing.assert_allclose(bias, wanted.bias, atol=1e-5)


def test_pooled_attention_has_the_gradient_of_the_tables_on_a_chain(monkeypatch: pytest.MonkeyPatch):
    chain = Problem(generate("chain", 20, seed=1), Cluster.uniform([DeviceClass("cpu")], [1]))
    gradients = []
    for limit in (2000, 0):
        monkeypatch.setattr(topoformer_module, "DENSE_LIMIT", limit)
        net = random_net(NETS["default"])
        net(batch_of([view(chain)], net.shape, CPU))[0][0, :20].square().sum().backward()
        gradients.append([p.grad for p in net.parameters() if p.grad is not None])
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two, atol=1e-3, rtol=1e-3)


def test_large_graphs_and_others_share_no_batch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(topoformer_module, "DENSE_LIMIT", 20)
    with pytest.raises(InputError, match="on one side of 20 tasks in a batch, got 14 and 30"):
        batch_of([view(PROBLEMS[kind]) for kind in ("workflow", "operators")], NETS["default"], CPU)


@pytest.mark.parametrize("name", RELATIONS)
def test_pooled_lists_point_at_tokens_that_exist(name: str):
    found = view(PROBLEMS["operators"])
    lists = pooled_lists(found, name)
    most = lists.pool.max() if len(lists.pool) else found.num_tasks - 1
    num_tokens = max(int(most), int(found.level.max()) + 1) * (int(found.resource.max()) + 1)
    assert len(lists.pointer) == found.num_tasks + 1 and lists.pointer[-1] == len(lists.columns)
    assert (lists.columns >= 0).all() and (lists.columns <= num_tokens).all()


def test_encoder_scores_ten_thousand_tasks():
    cluster = Cluster.uniform([DeviceClass("slow"), DeviceClass("fast", 2.0)], [4, 4], bandwidth=1e9)
    net = random_net(NETS["default"])
    found = Encoder(net.weights(), net.shape).scores(
        view(Problem(generate("layered", 10_000, seed=1), cluster))
    )
    assert np.isfinite(found.logit).all() and len(np.unique(found.logit)) > 5_000


def test_net_starts_the_same_for_the_same_seed():
    one, two = (random_net(small_shape(), seed=3).weights() for _ in range(2))
    assert all((one[name] == two[name]).all() for name in one)


def test_card_of_an_encoder_comes_back_as_it_was(tmp_path):
    net = random_net(small_shape(PAPER_RELATIONS, num_types=4))
    stored = save_policy(tmp_path / "x.json", net.weights(), Card("x", "oneshot", net.shape))
    weights, card = load_policy(tmp_path / "x.json")
    assert card == stored and card.architecture == net.shape
    assert all((weights[name] == array).all() for name, array in net.weights().items())


def test_types_beyond_the_one_hot_are_refused():
    net = random_net(small_shape(PAPER_RELATIONS, num_types=2))
    with pytest.raises(InputError, match="tell 2 resources apart, the problem has 4"):
        Encoder(net.weights(), net.shape).scores(view(PROBLEMS["shop"]))


BAD_SHAPES = {
    "width": ({"width": 7}, "multiple of the 10 heads"),
    "heads": ({"heads": ("friends",)}, "expected relations of"),
    "layers": ({"layers": 0}, "whole number from 1"),
    "kind": ({"kind": "mlp"}, "expected 'topoformer'"),
}


@pytest.mark.parametrize("field", BAD_SHAPES)
def test_shape_that_cannot_be_is_refused(field: str):
    changes, message = BAD_SHAPES[field]
    with pytest.raises(InputError, match=message) as caught:
        EncoderShape(**{"num_features": 3, "num_pair_features": 2, "heads": DEFAULT_HEADS, **changes})
    assert caught.value.field == field
