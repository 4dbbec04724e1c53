"""Attention of a batch within blocks against tables, graph by graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from policies.planners import PROBLEMS, random_net, small_shape, view
from policies.table_twin import table_scores
from strategies import problems

from weft.model.problem import Problem
from weft.policies.oneshot.attention_layout import Block, relation_table
from weft.policies.oneshot.block_batch import layouts_of, relation, tables_of
from weft.policies.oneshot.encoder_shape import DEFAULT_HEADS, RELATIONS
from weft.policies.oneshot.net import batch_of

CPU = torch.device("cpu")
PROPERTY = settings(max_examples=40, deadline=None, derandomize=True)
EVERY = small_shape(RELATIONS)
MIXED = small_shape(("all", "ancestors", "resource", "descendants", "all", "incomparable"))


@pytest.mark.parametrize("name", [name for name in RELATIONS if name != "resource"])
def test_relation_is_the_same_in_torch(name: str):
    found = view(PROBLEMS["operators"])
    n = found.num_tasks
    block = Block(np.pad(np.arange(n), (0, 2))[None], np.arange(n + 2)[None] < n)
    table = relation(tables_of([found], block, n, CPU, has_paths=name != "all"), name)[0].numpy()
    assert (table[:n, :n] == relation_table(found, name)).all()
    assert not table[:, n:].any()


@PROPERTY
@given(
    batch=st.lists(problems().filter(lambda p: p.num_tasks > 0), min_size=1, max_size=4),
    seed=st.integers(0, 3),
)
def test_batch_in_blocks_is_attention_over_tables(batch: list[Problem], seed: int):
    shape = (EVERY, MIXED)[seed % 2]
    net = random_net(shape, seed)
    views = [view(problem) for problem in batch]
    with torch.no_grad():
        score, _ = net(batch_of(views, shape, CPU))
    for b, one in enumerate(views):
        wanted = table_scores(net.weights(), shape, one)
        np.testing.assert_allclose(score[b, : one.num_tasks], wanted, atol=2e-5)


@pytest.mark.parametrize("shape", [EVERY, MIXED], ids=["every", "mixed"])
def test_gradient_of_a_graph_is_the_same_in_a_batch(shape):
    views = [view(problem) for problem in PROBLEMS.values()]
    net = random_net(shape)
    net(batch_of(views, shape, CPU))[0][1, : views[1].num_tasks].square().sum().backward()
    together = [p.grad.clone() for p in net.parameters() if p.grad is not None]
    net.zero_grad()
    net(batch_of(views[1:2], shape, CPU))[0].square().sum().backward()
    alone = [p.grad for p in net.parameters() if p.grad is not None]
    for one, two in zip(together, alone, strict=True):
        torch.testing.assert_close(one, two, atol=1e-3, rtol=1e-3)


def test_gradient_is_that_of_finite_differences():
    shape = small_shape(DEFAULT_HEADS)
    net = random_net(shape).double()
    graphs = batch_of([view(PROBLEMS["queries"]), view(PROBLEMS["shop"])], shape, CPU)
    layouts = [
        one._replace(penalties=[p if p is None else p.double() for p in one.penalties])
        for one in graphs.layouts
    ]
    graphs = graphs._replace(inputs=graphs.inputs.double(), pairs=graphs.pairs.double(), layouts=layouts)
    weight = net.layers[0].mix.weight

    def loss() -> torch.Tensor:
        return net(graphs)[0][:, :20].square().sum()

    loss().backward()
    step = 1e-6
    for at in ((0, 0), (25, 3), (59, 7)):
        with torch.no_grad():
            weight[at] += step
            above = loss()
            weight[at] -= 2 * step
            below = loss()
            weight[at] += step
        assert float((above - below) / (2 * step)) == pytest.approx(
            float(weight.grad[at]), rel=1e-4, abs=1e-6
        )


def test_shops_of_one_size_need_no_masks_beside_those_of_paths():
    shop = view(PROBLEMS["shop"])
    layouts = layouts_of([shop, shop], small_shape().heads_of, shop.num_tasks, CPU)
    assert [layout.shapes for layout in layouts] == [[(10, 4)], [(8, 5)], [(2, 20)]]
    assert [layout.penalties == [None] for layout in layouts] == [False, True, True]
    assert not len(layouts[2].place_row) and not len(layouts[1].is_gap)
