"""The statistics against scipy, published worked examples, and properties that must hold."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.evaluation.statistics import (
    Comparison,
    bca_interval,
    cohens_d_z,
    compare_crossed,
    compare_paired,
    crossed_interval,
    holm,
    holm_family,
    mean_interval,
    paired_aggregates,
    paired_t,
    performance_profile,
    wilcoxon,
    win_tie_loss,
)
from weft.evaluation.statistics.distributions import (
    normal_cdf,
    normal_quantile,
    normal_two_sided,
    t_quantile,
    t_two_sided,
)

close = pytest.approx
cheap = settings(max_examples=200, deadline=None, derandomize=True)
costs = st.floats(0.01, 1e6)
cost_pairs = st.lists(st.tuples(costs, costs), min_size=2, max_size=30)
small_pairs = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=2, max_size=8)

SLEEP_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
DEPRESSION_1 = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
DEPRESSION_2 = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
MAIZE = [6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75]


def random_pairs(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    b = rng.lognormal(3, 1, n)
    return b * rng.lognormal(rng.normal(0, 0.1), 0.2, n), b


# Distributions


@pytest.mark.parametrize("df", [1, 2, 3, 4, 9, 30, 99, 100, 101, 999, 10_000, 1_000_000])
def test_t_two_sided_equals_scipy_into_the_tails(df: int) -> None:
    for t in [1e-9, 1e-3, 0.1, 0.5, 1, 1.5, 1.7, 1.8, 2, 3, 5, 10, 20, 30]:
        assert t_two_sided(t, df) == close(2 * scipy.stats.t.sf(t, df), rel=1e-9, abs=0)
        assert t_two_sided(-t, df) == t_two_sided(t, df)


@pytest.mark.parametrize("t", [1e3, 1e8, 1e100, 1e200])
def test_t_two_sided_of_one_degree_is_the_cauchy_tail(t: float) -> None:
    assert t_two_sided(t, 1) == close(2 / math.pi * math.atan(1 / t), rel=1e-12, abs=0)


@pytest.mark.parametrize(("t", "p"), [(0.0, 1.0), (5e-324, 1.0), (math.inf, 0.0), (-math.inf, 0.0)])
def test_t_two_sided_at_the_ends(t: float, p: float) -> None:
    assert t_two_sided(t, 7) == p


@pytest.mark.parametrize("df", [1, 2, 5, 19, 100, 5000, 1_000_000])
@pytest.mark.parametrize("outside", [0.999, 0.5, 0.1, 0.05, 0.01, 1e-6, 1e-12])
def test_t_quantile_equals_scipy(df: int, outside: float) -> None:
    assert t_quantile(outside, df) == close(scipy.stats.t.isf(outside / 2, df), rel=1e-9, abs=0)


@pytest.mark.parametrize("z", [-37, -8, -1.96, -1e-5, 0, 0.3, 1, 2.5, 8, 37])
def test_normal_functions_equal_scipy(z: float) -> None:
    area = scipy.stats.norm.cdf(z)
    assert normal_cdf(z) == close(area, rel=1e-12, abs=0)
    assert normal_two_sided(z) == close(2 * scipy.stats.norm.sf(abs(z)), rel=1e-12, abs=0)
    if 0 < area < 1:
        assert normal_quantile(area) == close(scipy.stats.norm.ppf(area), rel=1e-12, abs=1e-15)


# Paired t test


@pytest.mark.parametrize("n", [2, 3, 5, 10, 50, 500])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_paired_t_equals_scipy(n: int, confidence: float) -> None:
    for seed in range(10):
        a, b = random_pairs(seed, n)
        found, expected = paired_t(a, b, confidence=confidence), scipy.stats.ttest_rel(a, b)
        interval = expected.confidence_interval(confidence)
        assert found.df == expected.df
        assert found.t == close(expected.statistic, rel=1e-9)
        assert found.p == close(expected.pvalue, rel=1e-9, abs=0)
        assert (found.low, found.high) == close((interval.low, interval.high), rel=1e-9)


def test_paired_t_reproduces_students_sleep_data() -> None:
    found = paired_t(SLEEP_1, SLEEP_2)
    assert (found.t, found.df) == (close(-4.0621, abs=5e-5), 9)
    assert found.p == close(0.002833, abs=5e-7)
    assert (found.low, found.high) == close((-2.4598858, -0.7001142), abs=5e-8)


@pytest.mark.parametrize(("shift", "t", "p"), [(0.0, 0.0, 1.0), (0.5, math.inf, 0.0), (-0.5, -math.inf, 0.0)])
def test_paired_t_of_equal_differences(shift: float, t: float, p: float) -> None:
    found = paired_t([1 + shift, 2 + shift, 4 + shift], [1, 2, 4])
    assert (found.t, found.p, found.low, found.high) == (t, p, shift, shift)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_paired_t_is_free_of_scale(scale: float) -> None:
    found = paired_t(np.array(SLEEP_1) * scale, np.array(SLEEP_2) * scale)
    assert found.t == close(paired_t(SLEEP_1, SLEEP_2).t, rel=1e-12)


def test_paired_t_prints_one_line() -> None:
    text = str(paired_t(SLEEP_1, SLEEP_2))
    assert text == "mean difference -1.58 (95 % CI -2.46 to -0.7001), t(9) = -4.062, p = 0.00283"


# Wilcoxon signed-rank test


@pytest.mark.parametrize("n", [1, 2, 3, 6, 13, 20, 50])
def test_wilcoxon_exact_equals_scipy(n: int) -> None:
    for seed in range(10):
        a, b = random_pairs(seed, n)
        found, expected = wilcoxon(a, b), scipy.stats.wilcoxon(a, b, method="exact")
        assert found.method == "exact"
        assert found.statistic == expected.statistic
        assert found.p == close(expected.pvalue, rel=1e-9, abs=0)


@pytest.mark.parametrize("n", [5, 14, 51, 400])
@pytest.mark.parametrize("levels", [3, 10, 1000])
def test_wilcoxon_approximation_equals_scipy_with_zeros_and_ties(n: int, levels: int) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        a, b = rng.integers(0, levels, n), rng.integers(0, levels, n)
        a[0] = b[0] + 1  # scipy needs one pair that differs
        expected = scipy.stats.wilcoxon(a, b, method="asymptotic", zero_method="wilcox", correction=False)
        found = wilcoxon(a, b, method="approx")
        assert found.statistic == expected.statistic
        assert found.p == close(expected.pvalue, rel=1e-9, abs=0)


def test_wilcoxon_far_tail_of_the_approximation_equals_scipy() -> None:
    values = np.arange(1.0, 1001.0)
    expected = scipy.stats.wilcoxon(values, method="asymptotic").pvalue
    assert wilcoxon(values, np.zeros(1000)).p == close(expected, rel=1e-9, abs=0)


def test_wilcoxon_auto_chooses_as_scipy_does() -> None:
    for n, levels, seed in product([4, 13, 14, 50, 51], [4, 10**6], range(3)):
        rng = np.random.default_rng(seed)
        a, b = rng.integers(0, levels, n), rng.integers(0, levels, n)
        assert wilcoxon(a, b).p == close(scipy.stats.wilcoxon(a, b).pvalue, rel=1e-9, abs=0)


@cheap
@given(small_pairs)
def test_wilcoxon_exact_counts_sign_patterns(pairs: list[tuple[int, int]]) -> None:
    ranks = scipy.stats.rankdata([abs(a - b) for a, b in pairs if a != b])
    signs = np.array(list(product([0, 1], repeat=len(ranks))))
    found = wilcoxon(*zip(*pairs, strict=True), method="exact")
    assert found.p == close(min(1.0, 2 * float(np.mean(signs @ ranks <= found.statistic))), rel=1e-12)


def test_wilcoxon_reproduces_darwins_maize() -> None:
    found = wilcoxon(MAIZE, np.zeros(15))
    assert (found.statistic, found.p) == (24.0, 0.041259765625)


def test_wilcoxon_reproduces_hollander_and_wolfe() -> None:
    found = wilcoxon(DEPRESSION_1, DEPRESSION_2)
    assert (found.statistic, found.p) == (5.0, close(2 * 0.01953, abs=1e-5))


@pytest.mark.parametrize("method", ["auto", "exact", "approx"])
def test_wilcoxon_of_equal_samples_is_one(method: str) -> None:
    found = wilcoxon([1, 2, 3], [1, 2, 3], method=method)  # type: ignore[arg-type]
    assert (found.statistic, found.p, found.num_nonzero) == (0.0, 1.0, 0)


def test_wilcoxon_prints_one_line() -> None:
    assert str(wilcoxon(MAIZE, np.zeros(15))) == "W = 24 over 15 unequal pairs, p = 0.0413 (exact)"


# Wins, effect sizes, Holm


def test_win_tie_loss_counts_with_a_relative_tolerance() -> None:
    found = win_tie_loss([1.0, 100.5, 3.0, 0.0], [2.0, 100.0, 2.0, 0.0], tolerance=0.01)
    assert (found.wins, found.ties, found.losses) == (1, 2, 1)
    assert str(found) == "wins 1 of 4, ties 2"


def test_win_tie_loss_without_tolerance_is_exact() -> None:
    found = win_tie_loss([1.0, 1.0], [1.0, np.nextafter(1.0, 2.0)], tolerance=0.0)
    assert (found.wins, found.ties, found.losses) == (1, 1, 0)


def test_cohens_d_z_is_t_over_root_n() -> None:
    assert cohens_d_z(SLEEP_1, SLEEP_2) == close(paired_t(SLEEP_1, SLEEP_2).t / math.sqrt(10), rel=1e-12)


def test_holm_reproduces_the_textbook_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == close([0.03, 0.06, 0.06, 0.02])


def test_holm_of_nothing_is_nothing() -> None:
    assert holm([]).tolist() == []


@cheap
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_monotone_and_between_raw_and_bonferroni(p: list[float]) -> None:
    raw, adjusted = np.array(p), holm(p)
    order = np.argsort(raw, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()
    assert ((adjusted >= raw) & (adjusted <= np.minimum(1, raw * len(p)))).all()


@cheap
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.999))
def test_holm_rejects_as_the_step_down_procedure(p: list[float], level: float) -> None:
    rejected = set()
    for step, i in enumerate(np.argsort(p, kind="stable").tolist()):
        if (len(p) - step) * p[i] > level:
            break
        rejected.add(i)
    assert {i for i, value in enumerate(holm(p)) if value <= level} == rejected


# Bootstrap


@pytest.mark.parametrize("n", [2, 3, 5, 20, 200])
def test_bootstrap_equals_scipy_on_the_same_resamples(n: int) -> None:
    for seed in range(5):
        values = np.log(random_pairs(seed, n)[0])
        found = bca_interval(values, seed=seed, confidence=0.9, resamples=999)
        rng = np.random.default_rng(seed)
        expected = scipy.stats.bootstrap(
            (values,), np.mean, confidence_level=0.9, n_resamples=999, method="BCa", rng=rng
        ).confidence_interval
        assert (found.low, found.high) == close((expected.low, expected.high), rel=1e-9, abs=1e-12)


def test_bootstrap_draws_the_same_in_several_batches() -> None:
    values = np.random.default_rng(1).normal(size=1500)  # 999 x 1500 cells exceed one batch
    rng = np.random.default_rng(0)
    expected = scipy.stats.bootstrap((values,), np.mean, n_resamples=999, method="BCa", rng=rng)
    found = bca_interval(values, seed=0, resamples=999)
    interval = expected.confidence_interval
    assert (found.low, found.high) == close((interval.low, interval.high), rel=1e-9, abs=1e-12)


def test_bca_interval_equals_scipy_for_another_statistic() -> None:
    values = np.random.default_rng(2).lognormal(size=25)
    rng = np.random.default_rng(4)
    expected = scipy.stats.bootstrap((values,), np.std, n_resamples=999, method="BCa", rng=rng)
    found = bca_interval(values, statistic=lambda x: np.std(x, axis=-1), seed=4, resamples=999)
    interval = expected.confidence_interval
    assert (found.low, found.high) == close((interval.low, interval.high), rel=1e-9)


def test_bca_interval_of_equal_values_has_no_width() -> None:
    found = bca_interval([0.1] * 7)
    assert found.low == found.value == found.high == close(0.1)


def test_bca_interval_stays_finite_where_the_estimate_is_an_extreme() -> None:
    found = bca_interval([1.0, 2.0, 3.0, 50.0], statistic=lambda x: x.max(axis=-1), resamples=99)
    assert 1.0 <= found.low <= found.high <= 50.0


def test_bca_interval_covers_the_mean_of_skewed_data() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for seed in range(300):
        found = bca_interval(rng.exponential(1.0, 40), confidence=0.9, seed=seed, resamples=400)
        hits += found.low <= 1.0 <= found.high
    assert 0.84 <= hits / 300 <= 0.95


def test_bootstrap_repeats_for_a_seed_and_differs_for_another() -> None:
    values = np.random.default_rng(3).normal(size=20)
    assert bca_interval(values, seed=5) == bca_interval(values, seed=5)
    assert bca_interval(values, seed=5) != bca_interval(values, seed=6)


def test_interval_prints_one_line() -> None:
    assert str(bca_interval([0.5, 0.5], confidence=0.99)) == "0.5 (99 % CI 0.5 to 0.5)"


# Intervals of means


def test_mean_interval_of_symmetric_values_is_students_t_with_the_allowance_of_few() -> None:
    values = np.array([-3.0, -1.0, 0.0, 1.0, 3.0]) + 7.0
    half = scipy.stats.t.ppf(0.975, 4) * scipy.stats.sem(values) * (1.0 + 2.5 / 5.0)
    found = mean_interval(values)
    assert (found.value, found.low, found.high) == close((7.0, 7.0 - half, 7.0 + half))


def test_mean_interval_reaches_further_on_the_side_of_the_longer_tail() -> None:
    values = np.array([1.0, 1.1, 1.2, 1.4, 3.0])
    one, other = mean_interval(values), mean_interval(-values)
    skewness = scipy.stats.skew(values, bias=False) / math.sqrt(5.0)
    t = scipy.stats.t.ppf(0.975, 4)
    stretch = 1.0 + (1.0 + 2.0 * t * t) / (3.0 * t) * skewness
    assert (one.high - one.value) / (one.value - one.low) == close(stretch)
    assert (other.low, other.high) == close((-one.high, -one.low))


def test_mean_interval_of_many_is_students_t() -> None:
    values = np.random.default_rng(1).normal(size=20_000)
    found = mean_interval(values, confidence=0.99)
    expected = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(0.99)
    assert (found.low, found.high) == close((expected.low, expected.high), abs=2e-4)


def test_mean_interval_of_equal_values_has_no_width() -> None:
    found = mean_interval([0.1] * 7)
    assert found.low == found.value == found.high


def test_mean_interval_grows_with_confidence() -> None:
    values = np.random.default_rng(2).exponential(size=5)
    found = [mean_interval(values, confidence=level) for level in (0.8, 0.95, 0.995, 0.9999)]
    widths = [one.high - one.low for one in found]
    assert widths == sorted(widths)
    assert widths[-1] > 3.0 * widths[1]


def test_crossed_interval_of_single_runs_is_the_paired_one() -> None:
    own, other = np.random.default_rng(3).normal(size=(2, 1, 12))
    found, expected = crossed_interval(own, other), mean_interval((own - other)[0])
    assert (found.value, found.low, found.high) == close((expected.value, expected.low, expected.high))


def test_crossed_interval_adds_what_runs_and_seeds_contribute() -> None:
    rng = np.random.default_rng(4)
    runs, seeds = rng.normal(size=(5, 1)), rng.normal(size=(1, 40))
    found = crossed_interval(runs + seeds, np.zeros((1, 40)))
    by_run, by_seed = mean_interval(runs[:, 0]), mean_interval(seeds[0])
    assert found.value == close(by_run.value + by_seed.value)
    below = math.hypot(by_run.value - by_run.low, by_seed.value - by_seed.low)
    assert found.value - found.low == close(below)


def test_crossed_interval_is_mirrored_when_the_sides_are_exchanged() -> None:
    own, other = np.random.default_rng(5).lognormal(size=(2, 5, 20))
    one, mirrored = crossed_interval(own, other), crossed_interval(other, own)
    assert (one.low, one.high) == close((-mirrored.high, -mirrored.low))


# Aggregates over runs


# Profiles


def test_performance_profile_of_a_hand_made_table() -> None:
    found = performance_profile([[1, 2], [3, 1], [2, 2], [4, math.inf]])
    assert found.taus.tolist() == [1, 2, 3]
    assert found.shares.tolist() == [[0.75, 0.75, 1.0], [0.5, 0.75, 0.75]]
    assert found.share_within(2.5).tolist() == [0.75, 0.75]
    assert str(found) == "best on 75 %, 50 % of 4 problems"


def test_performance_profile_counts_a_problem_nobody_solved_for_nobody() -> None:
    found = performance_profile([[math.inf, math.inf], [1, 2]], taus=[1, 10])
    assert found.shares.tolist() == [[0.5, 0.5], [0.0, 0.5]]


# Paired aggregates


def test_paired_aggregates_follow_their_definitions() -> None:
    a, b = np.random.default_rng(0).lognormal(0, 0.3, (2, 12, 5))
    a[0, 0] = b[0, 0]
    logs = np.log(a / b)
    found = paired_aggregates(a[None], b[None], resamples=50)
    assert found.mean_percent.value == close(100 * math.expm1(logs.mean()))
    assert found.median_percent.value == close(100 * math.expm1(np.median(logs)))
    assert found.iqm_percent.value == close(100 * math.expm1(scipy.stats.trim_mean(logs, 0.25, axis=None)))
    assert found.improvement_percent.value == close(100 * ((a < b).sum() + 0.5) / a.size)


def test_paired_aggregates_resample_samples_with_all_their_points() -> None:
    ratios = np.random.default_rng(1).lognormal(0, 0.3, (20, 1))
    one, copied = (
        paired_aggregates(x[None], np.ones_like(x)[None]) for x in (ratios, np.repeat(ratios, 10, 1))
    )
    expected = (one.mean_percent.low, one.mean_percent.high)
    assert (copied.mean_percent.low, copied.mean_percent.high) == close(expected)  # copies tell nothing new


def test_paired_aggregates_of_few_samples_cover() -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(300):
        found = paired_aggregates(rng.lognormal(0, 0.3, (1, 5, 1)), np.ones((1, 5, 1)), resamples=200)
        hits += found.median_percent.low <= 0.0 <= found.median_percent.high
    assert hits / 300 >= 0.93


def test_paired_aggregates_of_several_runs_are_wider_where_these_differ() -> None:
    rng = np.random.default_rng(5)
    rule = np.ones((1, 12, 3))
    alike = rng.lognormal(0, 0.01, (5, 12, 3))
    apart = alike * np.array([0.8, 0.9, 1.0, 1.1, 1.2])[:, None, None]
    narrow, wide = (paired_aggregates(runs, rule).iqm_percent for runs in (alike, apart))
    assert wide.high - wide.low > 5.0 * (narrow.high - narrow.low)


def test_paired_aggregates_mirror_when_exchanged() -> None:
    a, b = np.random.default_rng(3).lognormal(0, 0.3, (2, 9, 2))
    one, other = paired_aggregates(a[None], b[None]), paired_aggregates(b[None], a[None])
    assert one.improvement_percent.value == close(100 - other.improvement_percent.value)
    assert (1 + one.iqm_percent.value / 100) * (1 + other.iqm_percent.value / 100) == close(1.0)


# Comparison


def test_compare_paired_figures_are_those_of_the_log_ratios() -> None:
    a, b = random_pairs(3, 20)
    ratios = np.log(a) - np.log(b)
    found = compare_paired(a, b)
    assert found.percent == close(100 * (scipy.stats.gmean(a / b) - 1), rel=1e-9)
    assert found.t_p == close(scipy.stats.ttest_1samp(ratios, 0).pvalue, rel=1e-9)
    assert found.wilcoxon_p == close(scipy.stats.wilcoxon(ratios).pvalue, rel=1e-9)
    assert found.effect_size == close(ratios.mean() / ratios.std(ddof=1), rel=1e-9)
    assert (found.wins, found.losses) == (int((a < b).sum()), int((a > b).sum()))


def test_compare_paired_interval_is_that_of_the_mean_log_ratio() -> None:
    a, b = random_pairs(6, 20)
    expected = mean_interval(np.log(a) - np.log(b))
    found = compare_paired(a, b)
    assert found.low_percent == close(100 * math.expm1(expected.low), rel=1e-9)
    assert found.high_percent == close(100 * math.expm1(expected.high), rel=1e-9)


def test_compare_crossed_of_single_runs_is_the_paired_comparison() -> None:
    a, b = random_pairs(6, 20)
    found, expected = compare_crossed([a], [b]), compare_paired(a, b)
    assert found.verdict == expected.verdict
    assert (found.percent, found.low_percent, found.t_p) == close(
        (expected.percent, expected.low_percent, expected.t_p)
    )


def test_compare_crossed_says_better_only_where_training_runs_agree() -> None:
    rule = np.linspace(10.0, 12.0, 12)
    alike, apart = (np.array(one)[:, None] * rule for one in ([0.89, 0.9, 0.91], [0.7, 0.95, 1.05]))
    assert compare_crossed(alike, [rule]).verdict == "better"
    assert compare_crossed(apart, [rule]).verdict == "not distinguishable"
    with pytest.raises(InputError, match="expected numbers > 0"):
        compare_crossed([rule], [-rule])


def test_compare_paired_says_better_in_words() -> None:
    b = np.arange(10.0, 30.0)
    a = b * np.exp(np.linspace(-0.06, 0.0, 20) - 0.002)
    found = compare_paired(a, b)
    assert found.verdict == "better"
    assert found.summary("heft", "cpop") == "heft is 3.1 % below cpop (95 % CI 2.2 to 4.1 %), wins 20 of 20"


def test_compare_paired_says_worse_in_words() -> None:
    found = compare_paired([2.0] * 6, [1.0] * 6)
    assert found.verdict == "worse"
    assert str(found) == "a is 100.0 % above b (95 % CI 100.0 to 100.0 %), wins 0 of 6"


def test_compare_paired_says_not_distinguishable_in_words() -> None:
    found = compare_paired([1.0, 2.1, 3.0, 3.9, 5.0, 6.0], [1.0, 2.0, 3.1, 4.0, 5.0, 6.0])
    assert found.verdict == "not distinguishable"
    assert str(found).startswith("a and b are not distinguishable: mean difference -0.2 % (95 % CI -4.")
    assert str(found).endswith("%), wins 2 of 6, ties 3")


def test_compare_paired_of_equal_costs_is_not_distinguishable() -> None:
    found = compare_paired([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert (found.percent, found.low_percent, found.high_percent) == (0.0, 0.0, 0.0)
    assert (found.t_p, found.wilcoxon_p, found.effect_size) == (1.0, 1.0, 0.0)
    assert (found.ties, found.verdict) == (3, "not distinguishable")


def test_compare_paired_takes_rounding_for_ties() -> None:
    found = compare_paired([0.1 + 0.2] * 10, [0.3] * 10)
    assert (found.ties, found.percent, found.verdict) == (10, 0.0, "not distinguishable")


def test_compare_paired_of_one_ratio_everywhere_needs_enough_pairs() -> None:
    b = np.arange(1.0, 11.0)
    assert compare_paired(0.9 * b[:3], b[:3]).verdict == "too few samples"
    found = compare_paired(0.9 * b, b)
    assert (found.verdict, found.effect_size) == ("better", -math.inf)
    assert found.low_percent == found.high_percent == close(-10.0)


def test_compare_paired_survives_extreme_costs() -> None:
    found = compare_paired([1e308] * 8, [5e-324] * 8)
    assert (found.verdict, found.percent) == ("worse", math.inf)


def test_compare_paired_dict_is_json() -> None:
    found = compare_paired([0.9, 1.8], [1.0, 2.0]).to_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["effect_size"] is None
    assert (found["verdict"], found["least_n"], found["family"]) == ("too few samples", 6, 1)


def test_compare_paired_false_alarms_stay_below_the_level() -> None:
    rng = np.random.default_rng(11)
    alarms = 0
    for _ in range(300):
        a, b = rng.lognormal(0, 0.3, (2, 15))
        alarms += compare_paired(a, b).verdict != "not distinguishable"
    assert alarms <= 0.07 * 300


@cheap
@given(cost_pairs)
def test_compare_paired_mirrors_when_exchanged(pairs: list[tuple[float, float]]) -> None:
    a, b = (list(side) for side in zip(*pairs, strict=True))
    one, other = compare_paired(a, b), compare_paired(b, a)
    assert (one.wins, one.ties, one.losses) == (other.losses, other.ties, other.wins)
    assert (one.t_p, one.wilcoxon_p) == (other.t_p, other.wilcoxon_p)
    assert one.effect_size == -other.effect_size
    low, high = 1 + one.low_percent / 100, 1 + other.high_percent / 100
    if 1e-6 < low < 1e6:  # beyond that a percentage has too few digits left
        assert low * high == close(1.0, rel=1e-6)
    mirrored = {"better": "worse", "worse": "better"}
    assert one.verdict == mirrored.get(other.verdict, other.verdict)


@cheap
@given(cost_pairs, st.randoms(use_true_random=False))
def test_compare_paired_ignores_the_order_of_problems(
    pairs: list[tuple[float, float]], random: object
) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    found = [compare_paired(*zip(*rows, strict=True)) for rows in (pairs, shuffled)]
    assert found[0] == found[1]


@cheap
@given(cost_pairs, st.integers(-10, 10))
def test_compare_paired_ignores_the_unit_of_cost(pairs: list[tuple[float, float]], exponent: int) -> None:
    a, b = np.array(pairs).T
    one = compare_paired(a, b)
    other = compare_paired(a * 2.0**exponent, b * 2.0**exponent)
    assert one.percent == close(other.percent, rel=1e-6, abs=1e-6)
    assert (one.wins, one.ties, one.losses) == (other.wins, other.ties, other.losses)


def test_holm_family_corrects_both_tests_and_the_verdict() -> None:
    found = [compare_paired(*random_pairs(seed, 16)) for seed in range(20)]
    corrected = holm_family(found)
    assert [one.t_p for one in corrected] == holm([one.t_p for one in found]).tolist()
    assert [one.wilcoxon_p for one in corrected] == holm([one.wilcoxon_p for one in found]).tolist()
    certain = [one.verdict != "not distinguishable" for one in found]
    assert sum(one.verdict != "not distinguishable" for one in corrected) < sum(certain)


# Bad input

BAD = [
    (lambda: compare_paired([1], [1]), "a: expected at least 2 value(s), got 1"),
    (lambda: compare_paired([1, 2], [1, 2, 3]), "b: expected as many values as in a (2), got 3"),
    (lambda: compare_paired([1, math.nan], [1, 2]), "a: expected finite numbers, got nan at position 1"),
    (lambda: compare_paired([1, 2], [1, math.inf]), "b: expected finite numbers, got inf at position 1"),
    (lambda: compare_paired([1, 2], [0, 2]), "b: expected numbers > 0, got 0.0 at position 0"),
    (lambda: compare_paired([1, -2], [1, 2]), "a: expected numbers > 0, got -2.0 at position 1"),
    (lambda: compare_paired(["x", 1], [1, 2]), "a: expected numbers in equal rows"),
    (lambda: compare_paired([[1, 2]], [1, 2]), "a: expected 1 dimension(s), got 2"),
    (
        lambda: compare_paired([1, 2], [1, 2], confidence=95),
        "confidence: expected a number between 0 and 1, got 95",
    ),
    (
        lambda: bca_interval([1, 2], resamples=0),
        "resamples: expected a whole number >= 1, got 0",
    ),
    (
        lambda: paired_aggregates([[[1.0], [2.0]]], [[[1.0]]]),
        "b: expected as many samples, at least 2, and points as in a (2, 1), got (1, 1)",
    ),
    (lambda: mean_interval([1]), "values: expected at least 2 value(s), got 1"),
    (
        lambda: crossed_interval([[1.0]], [[1.0]]),
        "own: expected at least 1 run (row) and 2 seeds (columns), got 1 x 1",
    ),
    (
        lambda: crossed_interval([[1.0, 2.0]], [[1.0, 2.0, 3.0]]),
        "other: expected as many seeds as in own (2), got 3",
    ),
    (
        lambda: compare_paired([1, 2], [1, 2], tolerance=-1),
        "tolerance: expected a number >= 0 and < 1, got -1",
    ),
    (
        lambda: paired_t([1e308, 1], [-1e308, 1]),
        "a: expected differences a - b within range, got inf at position 0",
    ),
    (lambda: wilcoxon([1], [2], method="best"), "method: expected auto, exact or approx, got 'best'"),  # type: ignore[arg-type]
    (lambda: holm([0.5, 1.5]), "p_values: expected p-values from 0 to 1, got 0.5 to 1.5"),
    (lambda: performance_profile([[1.0, 2.0], [3.0]]), "costs: expected numbers in equal rows"),
    (
        lambda: performance_profile([[1, math.nan]]),
        "costs: expected finite numbers, got nan at position 0, 1",
    ),
    (lambda: performance_profile([[]]), "costs: expected at least one problem and one scheduler"),
    (lambda: performance_profile([[1.0]], taus=[2, 1]), "taus: expected ascending values"),
    (lambda: performance_profile([[1], [2]], taus=[]), "taus: expected at least one value"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_refused_in_one_line(call: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value) == message


def test_statistics_load_neither_scipy_nor_numba() -> None:
    code = (
        "import sys, weft.evaluation.statistics;"
        "print([m for m in ('scipy', 'numba', 'torch', 'pydantic', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_comparison_says_why_nothing_is_distinguishable() -> None:
    few = compare_paired([9.0, 9.1, 9.2], [10.0, 10.1, 10.2])
    assert (few.wins, few.verdict, few.least_n) == (3, "too few samples", 6)
    assert str(few).endswith("wins 3 of 3; 3 samples are too few for a verdict; at least 6 are needed")
    open_one = replace(clear_comparison(), wilcoxon_p=0.2)
    assert open_one.doubt == " (the paired tests say it may be chance)"
    wide = compare_paired([9.0, 5.0, 9.9, 15.0, 7.0, 14.0], [10.0] * 6)
    assert wide.doubt == " (the interval includes 0)"
    assert (clear_comparison().verdict, clear_comparison().doubt) == ("better", "")


def clear_comparison() -> Comparison:
    return compare_paired(np.linspace(9.0, 9.5, 20), np.linspace(10.0, 10.5, 20))


@pytest.mark.parametrize("family", [1, 2, 8, 65])
def test_least_number_of_samples_is_the_first_that_allows_for_a_verdict(family: int) -> None:
    own = np.random.default_rng(1).uniform(1.0, 1.1, 40)
    found = {n: holm_family([compare_paired(own[:n], 2.0 * own[:n])] * family)[0] for n in range(2, 20)}
    least = found[2].least_n
    assert {n for n, one in found.items() if one.verdict == "better"} == set(range(least, 20))
    assert all(one.verdict == "too few samples" for n, one in found.items() if n < least)


def test_equal_costs_need_no_more_samples() -> None:
    assert compare_paired([1.0, 2.0], [1.0, 2.0]).verdict == "not distinguishable"
