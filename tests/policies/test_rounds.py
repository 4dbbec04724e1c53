"""The multi-round planner of the benchmarks against the one-shot planner."""

from __future__ import annotations

import numpy as np
import pytest
from policies.planners import PROBLEMS

from benchmarks._rounds import Rounds, left_of
from weft.model.validate import validate
from weft.policies.oneshot.features import view_of
from weft.policies.oneshot.planner import OneShot
from weft.schedulers.base import Limit
from weft.sim.arrays import compile_problem

KINDS = pytest.mark.parametrize("kind", ["shop", "operators"])


@KINDS
def test_rounds_with_one_pass_is_the_greedy_plan(kind: str):
    rounds = Rounds(PROBLEMS[kind], every=None)
    greedy = OneShot().plan(PROBLEMS[kind], limit=Limit(effort=1))
    assert rounds.plan().makespan == greedy.makespan
    assert rounds.passes == 1


@KINDS
def test_rounds_looks_again_and_stays_valid(kind: str):
    rounds = Rounds(PROBLEMS[kind])
    assert validate(rounds.plan()) == ()
    assert 1 < rounds.passes <= PROBLEMS[kind].num_tasks


def test_left_of_everything_is_the_problem():
    a = compile_problem(PROBLEMS["operators"])
    size = len(a.run)
    rest = left_of(a, np.ones(size, np.bool_), a.run.min(axis=1))
    assert np.array_equal(view_of(rest).features, view_of(a).features)


def test_left_of_keeps_edges_among_what_is_left():
    a = compile_problem(PROBLEMS["shop"])
    is_left = np.ones(len(a.run), np.bool_)
    is_left[a.order[0]] = False
    rest = left_of(a, is_left, a.run.min(axis=1))
    assert (len(rest.run), len(rest.succ)) == (len(a.run) - 1, len(a.succ) - 1)
    assert len(rest.pred) == len(rest.succ)
