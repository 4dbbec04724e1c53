"""Relations in blocks and lists against the tables they stand for."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policies.planners import PROBLEMS, random_net, small_shape, view
from policies.table_twin import table_scores
from strategies import problems

from weft.model.generate import jobshop, jobshop_cluster
from weft.model.problem import Problem
from weft.policies.oneshot import attention_layout as layout_module
from weft.policies.oneshot import encoder as encoder_module
from weft.policies.oneshot.attention_layout import (
    SMALL,
    Lists,
    attention_of,
    blocks_of,
    patches_of,
    relation_table,
)
from weft.policies.oneshot.encoder import Encoder
from weft.policies.oneshot.encoder_shape import RELATIONS

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)
EVERY = small_shape(RELATIONS)


def table_of_patches(problem: Problem, name: str) -> np.ndarray:
    found = view(problem)
    table = np.zeros((found.num_tasks, found.num_tasks), int)
    for block, penalty in patches_of(found, name):
        shown = penalty == 0 if penalty.size else np.ones((*block.members.shape, block.members.shape[1]))
        rows = np.broadcast_to(block.members[:, :, None], shown.shape)
        columns = np.broadcast_to(block.members[:, None, :], shown.shape)
        real = np.broadcast_to(block.is_member[:, :, None], shown.shape)
        np.add.at(table, (rows[real], columns[real]), shown[real].astype(int))
    return table


@PROPERTY
@given(label=st.lists(st.integers(0, 6), min_size=1, max_size=40).map(np.array))
def test_blocks_hold_every_task_once(label: np.ndarray):
    blocks = blocks_of(label)
    tasks = np.concatenate([block.members[block.is_member] for block in blocks])
    assert sorted(tasks.tolist()) == list(range(len(label)))
    for members, is_member in blocks:
        assert (label[members] == label[members[:, :1]]).all()
        assert is_member.mean() > 2 / 3 or members.shape[1] <= SMALL


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("name", RELATIONS)
def test_patches_hold_the_pairs_of_the_table_once(name: str, kind: str):
    assert (table_of_patches(PROBLEMS[kind], name) == relation_table(view(PROBLEMS[kind]), name)).all()


@PROPERTY
@given(problem=problems(), seed=st.integers(0, 3))
def test_block_attention_is_attention_over_tables(problem: Problem, seed: int):
    if not problem.num_tasks:
        return
    net = random_net(EVERY, seed)
    found = Encoder(net.weights(), EVERY).scores(view(problem))
    wanted = table_scores(net.weights(), EVERY, view(problem))
    np.testing.assert_allclose(np.concatenate([found.logit, found.hold]).T, wanted, atol=2e-5)


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize(
    "limits", [("MOST_PRODUCTS", 400), ("FEW_ROWS", 10**9), ("MOST_CELLS", 50), ("SAFE_SCORE", 0.0)]
)
def test_cuts_do_not_change_the_scores(kind: str, limits: tuple[str, float], monkeypatch: pytest.MonkeyPatch):
    net = random_net(EVERY)
    encoder = Encoder(net.weights(), EVERY)
    wanted = encoder.scores(view(PROBLEMS[kind]))
    monkeypatch.setattr(encoder_module, *limits)
    found = encoder.scores(view(PROBLEMS[kind]))
    np.testing.assert_allclose(found.logit, wanted.logit, atol=1e-5)
    np.testing.assert_allclose(found.bias, wanted.bias, atol=1e-5)


def test_great_scores_stay_finite():
    net = random_net(EVERY)
    weights = {name: 40 * array if "mix" in name else array for name, array in net.weights().items()}
    found = Encoder(weights, EVERY).scores(view(PROBLEMS["shop"]))
    wanted = table_scores(weights, EVERY, view(PROBLEMS["shop"]))
    np.testing.assert_allclose(found.logit[0], wanted[:, 0], atol=1e-2)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_lists_and_blocks_give_the_same_scores(kind: str, monkeypatch: pytest.MonkeyPatch):
    net = random_net(EVERY)
    found = []
    for share in (-1.0, 1.0):
        monkeypatch.setattr(layout_module, "DENSE_SHARE", share)
        found.append(Encoder(net.weights(), EVERY).scores(view(PROBLEMS[kind])).logit)
    np.testing.assert_allclose(*found, atol=1e-5)


def test_shop_looks_within_jobs_and_machines():
    shop = view(Problem(jobshop(7, 5, seed=1), jobshop_cluster(5)))
    shapes = {}
    for name in ("ancestors", "resource", "all"):
        look = attention_of(shop, name)
        assert not isinstance(look, Lists)
        shapes[name] = [patch.block.members.shape for patch in look]
    assert shapes == {"ancestors": [(7, 5)], "resource": [(5, 7)], "all": [(1, 35)]}


THREADED = """
import hashlib
import numpy as np
from weft.model.generate import jobshop, jobshop_cluster
from weft.model.problem import Problem
from weft.policies.oneshot.encoder import Encoder
from weft.policies.oneshot.encoder_shape import EncoderShape
from weft.policies.oneshot.features import FEATURES, PAIR_FEATURES, view_of
from weft.sim.arrays import compile_problem

rng = np.random.default_rng(0)
shape = EncoderShape(len(FEATURES), len(PAIR_FEATURES))
weights = {name: 0.1 * rng.normal(size=size).astype(np.float32) for name, size in shape.shapes().items()}
found = Encoder(weights, shape).scores(view_of(compile_problem(Problem(jobshop(15, 15), jobshop_cluster(15)))))
print(hashlib.sha256(found.logit.tobytes()).hexdigest())
"""


def test_scores_do_not_depend_on_the_threads_of_blas():
    found = []
    for threads in ("1", "2"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", THREADED], env=environment, capture_output=True, text=True, check=True
        )
        found.append(done.stdout)
    assert found[0] == found[1] != ""


@pytest.mark.parametrize("kind", PROBLEMS)
def test_pooled_resource_is_seen_by_its_own_tasks_alone(kind: str):
    found = view(PROBLEMS[kind])
    lists = layout_module.pooled_lists(found, "resource")
    for i in range(found.num_tasks):
        tokens = lists.columns[lists.pointer[i] : lists.pointer[i + 1]]
        seen = np.flatnonzero(np.isin(lists.pool, tokens))
        assert seen.tolist() == np.flatnonzero(found.resource == found.resource[i]).tolist()
