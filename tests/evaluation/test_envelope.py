"""Distances to the best rule of every problem."""

from __future__ import annotations

import numpy as np
import pytest

from weft.evaluation.sweep.answers import evaluate
from weft.evaluation.sweep.envelope import envelopes, is_rule
from weft.evaluation.sweep.runner import Sweep
from weft.scenarios import sweep

RULES = [("fifo", np.array([10.0, 40.0])), ("eft", np.array([20.0, 20.0]))]


def test_envelope_is_the_best_rule_of_each_problem():
    fifo, eft = envelopes("", RULES)
    assert fifo.against_envelope.percent == pytest.approx(100 * (2**0.5 - 1))
    assert eft.against_envelope.percent == pytest.approx(100 * (2**0.5 - 1))
    assert fifo.single == "fifo" and fifo.against_single.percent == pytest.approx(0.0)


def test_policy_is_no_part_of_the_envelope():
    policy = envelopes("", [*RULES, ("runs/x@best", np.array([9.0, 18.0]))])[-1]
    assert policy.against_envelope.percent == pytest.approx(-10.0)
    assert policy.better_percent == 100.0


def test_single_problem_has_no_interval():
    found = envelopes("", [(name, values[:1]) for name, values in RULES])
    assert found[0].against_envelope.low_percent is None


def test_one_rule_is_no_envelope():
    assert envelopes("", RULES[:1]) == ()


def test_waiting_variant_is_a_rule():
    assert is_rule("fifo+wait") and not is_rule("ppo")


def test_evaluation_of_many_problems_samples_problems():
    cells = sweep("conditional-many", {"jobs": 30})
    found = evaluate(Sweep(cells, ("fifo", "eft"), 3, (0, 1)))
    assert found.sweep.num_samples == 3
    assert [one.scheduler for one in found.envelopes] == ["fifo", "eft"]
    assert min(one.against_envelope.percent for one in found.envelopes) >= 0.0
