"""Comparisons by differences, for costs that may be 0, against scipy, brute force, and properties that must hold."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.evaluation.statistics import (
    compare_differences,
    crossed_interval,
    mean_interval,
    paired_differences,
)

close = pytest.approx
cheap = settings(max_examples=200, deadline=None, derandomize=True)
costs = st.one_of(st.just(0.0), st.floats(0.0, 1e6))
cost_pairs = st.lists(st.tuples(costs, costs), min_size=2, max_size=30)


def shares(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Miss ratios of two schedulers, many of them 0."""
    rng = np.random.default_rng(seed)
    b = np.maximum(0.0, rng.normal(0.05, 0.1, n))
    return np.maximum(0.0, b + rng.normal(-0.02, 0.05, n)) * (rng.random(n) < 0.8), b


@pytest.mark.parametrize("n", [6, 20, 81])
def test_compare_differences_figures_equal_scipy(n: int):
    a, b = shares(n, n)
    found = compare_differences([a], [b])
    assert found.t_p == close(scipy.stats.ttest_rel(a, b).pvalue, rel=1e-9)
    assert found.wilcoxon_p == close(scipy.stats.wilcoxon(a, b).pvalue, rel=1e-9)
    assert found.effect_size == close((a - b).mean() / (a - b).std(ddof=1), rel=1e-9)
    assert (found.wins, found.losses) == (int((a < b).sum()), int((a > b).sum()))


def test_compare_differences_states_the_mean_difference_and_its_percentage_of_the_second():
    a, b = shares(1, 20)
    found, interval = compare_differences([a], [b], factor=100.0, unit="points"), mean_interval(a - b)
    assert (found.value, found.low, found.high) == close(
        tuple(100.0 * end for end in (interval.value, interval.low, interval.high))
    )
    assert found.unit == "points"
    expected = [100.0 * end / b.mean() for end in (interval.value, interval.low, interval.high)]
    assert [found.percent, found.low_percent, found.high_percent] == close(expected)


def test_compare_differences_interval_of_normal_values_contains_that_of_student():
    a, b = np.random.default_rng(4).normal(10.0, 1.0, (2, 30))
    found, student = compare_differences([a], [b]), scipy.stats.ttest_rel(a, b).confidence_interval()
    assert found.low < student.low < found.value < student.high < found.high
    assert found.high - found.low == close(student.high - student.low, rel=0.35)


def twin_of_crossed_ends(own: np.ndarray, other: np.ndarray) -> list[float]:
    """The half-widths over seeds and over runs, as the page on evaluation says, put together like a right angle."""
    seeds = mean_interval([float(np.mean(own[:, k]) - np.mean(other[:, k])) for k in range(own.shape[1])])
    runs = mean_interval([float(np.mean(run)) for run in own])
    mean = float(np.mean(own) - np.mean(other))
    below = math.hypot(seeds.value - seeds.low, runs.value - runs.low)
    above = math.hypot(seeds.high - seeds.value, runs.high - runs.value)
    return [mean, mean - below, mean + above]


def test_compare_differences_of_training_runs_equals_its_twin():
    rule = shares(2, 12)[1]
    runs = np.maximum(0.0, rule + np.random.default_rng(3).normal(-0.05, 0.02, (5, 12)))
    found = compare_differences(runs, [rule])
    assert [found.value, found.low, found.high] == close(twin_of_crossed_ends(runs, rule[None]))


def test_compare_differences_against_a_baseline_of_zeros_has_no_percentage():
    found = compare_differences(
        [[0.1, 0.2, 0.0, 0.3, 0.1, 0.2, 0.4]], [[0.0] * 7], factor=100.0, unit="points"
    )
    assert math.isnan(found.percent) and found.verdict == "worse"
    said = found.to_dict()
    assert json.loads(json.dumps(said, allow_nan=False)) == said
    assert (said["percent"], said["low_percent"], said["high_percent"]) == (None, None, None)
    assert str(found).startswith("a is 18.6 points higher than b (95 % CI ")


def test_compare_differences_says_lower_in_words():
    b = np.linspace(0.02, 0.06, 20)
    found = compare_differences([b - np.linspace(0.01, 0.02, 20)], [b], factor=100.0, unit="points")
    expected = "edf is 1.5 points (37.5 %) lower than rm (95 % CI 1.3 to 1.7 points), wins 20 of 20"
    assert (found.verdict, found.summary("edf", "rm")) == ("better", expected)


def test_compare_differences_of_plain_numbers_names_no_unit():
    found = compare_differences([[4.0, 5.0, 7.0, 6.0, 4.0, 5.0, 9.0]], [[1.0] * 7])
    assert str(found) == "a is 4.7 (471.4 %) higher than b (95 % CI 2.5 to 8.6), wins 0 of 7"


def test_compare_differences_of_zeros_is_equal():
    found = compare_differences([[0.0] * 8], [[0.0] * 8])
    assert (found.ties, found.value, found.low, found.high) == (8, 0.0, 0.0, 0.0)
    assert (found.verdict, found.doubt, found.ends) == ("not distinguishable", "", "+0.0 to +0.0")


def test_compare_differences_takes_rounding_for_ties():
    found = compare_differences([[0.1 + 0.2] * 10], [[0.3] * 10])
    assert (found.ties, found.value, found.verdict) == (10, 0.0, "not distinguishable")


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_compare_differences_refuses_what_is_no_number(wrong: float):
    with pytest.raises(InputError, match="expected finite numbers"):
        compare_differences([[0.0, wrong]], [[0.0, 1.0]])


@cheap
@given(cost_pairs, st.randoms(use_true_random=False))
def test_compare_differences_ignores_the_order_of_problems(pairs: list[tuple[float, float]], random: object):
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (
        compare_differences(*([side] for side in zip(*rows, strict=True))).to_dict()
        for rows in (pairs, shuffled)
    )
    assert one == other


@cheap
@given(cost_pairs)
def test_compare_differences_mirrors_when_exchanged(pairs: list[tuple[float, float]]):
    a, b = ([side] for side in zip(*pairs, strict=True))
    one, other = compare_differences(a, b), compare_differences(b, a)
    assert (one.wins, one.ties, one.losses) == (other.losses, other.ties, other.wins)
    assert (one.value, one.low, one.high) == (-other.value, -other.high, -other.low)
    assert (one.t_p, one.wilcoxon_p, one.effect_size) == (other.t_p, other.wilcoxon_p, -other.effect_size)


def test_compare_differences_false_alarms_stay_below_the_level():
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(300):
        a, b = np.maximum(0.0, rng.normal(0.05, 0.1, (2, 20)))
        alarms += compare_differences([a], [b]).verdict != "not distinguishable"
    assert alarms <= 0.07 * 300


def test_paired_differences_follow_their_definitions():
    a, b = np.maximum(0.0, np.random.default_rng(0).normal(0.1, 0.1, (2, 12, 5)))
    steps = a - b
    found = paired_differences(a[None], b[None], resamples=50, factor=100.0, unit="points")
    assert found.mean.value == close(100.0 * steps.mean())
    assert found.median.value == close(100.0 * np.median(steps))
    assert found.iqm.value == close(100.0 * scipy.stats.trim_mean(steps, 0.25, axis=None))
    assert found.improvement_percent.value == close(100.0 * ((a < b) + 0.5 * (a == b)).mean())
    assert found.unit == "points"


def test_paired_differences_interval_of_the_mean_is_that_of_problems():
    a, b = np.maximum(0.0, np.random.default_rng(1).normal(0.1, 0.1, (2, 12, 5)))
    found, expected = (
        paired_differences(a[None], b[None], resamples=50).mean,
        crossed_interval([a.mean(1)], [b.mean(1)]),
    )
    assert (found.low, found.high) == close((expected.low, expected.high))


def test_paired_differences_interval_of_the_median_is_near_a_plain_bootstrap():
    a, b = np.random.default_rng(2).normal(0.0, 1.0, (2, 60, 1))
    found = paired_differences(a[None], b[None], resamples=4000).median
    rng, steps = np.random.default_rng(3), (a - b)[:, 0]
    plain = [np.median(steps[rng.integers(0, 60, 60)]) for _ in range(4000)]
    low, high = np.quantile(plain, [0.025, 0.975])
    assert (found.low, found.high) == close((low, high), abs=0.08)
