"""Evaluations by a metric that may be 0: plain means and differences all along."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from report_examples import Cost, example_config, example_rows

from weft.errors import InputError
from weft.evaluation.report.claims import Claim
from weft.evaluation.report.measures import Missing, Stage, gain
from weft.evaluation.report.sections import difference, results
from weft.evaluation.report.typical import profiles
from weft.evaluation.report.words import headline, losses
from weft.evaluation.sweep.answers import evaluation_of
from weft.evaluation.sweep.claims import Table
from weft.evaluation.sweep.envelope import envelopes
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.metrics import METRICS, Metric
from weft.evaluation.sweep.standing import prices, standing, who_wins
from weft.evaluation.sweep.training_seeds import group_results

NAMES = ("fifo", "ppo")


def config_by(
    metric: str, names: tuple[str, ...], points: tuple[float, ...], num_seeds: int
) -> dict[str, object]:
    """The configuration of a sweep that is decided by one figure."""
    config = example_config(names, points, num_seeds, metric=metric)
    return config | {"scenario": {**config["scenario"], "schedulers": list(names)}}  # type: ignore[dict-item]


def frame(
    cost: Cost,
    metric: str = "expired",
    names: tuple[str, ...] = NAMES,
    points: tuple[float, ...] = (0.0,),
    num_seeds: int = 8,
) -> Evaluation:
    """A sweep that is decided by one figure, with this value."""
    rows = [
        replace(row, metrics={"mean_jct": 1.0, metric: row.metrics["mean_jct"]})
        for row in example_rows(names, points, num_seeds, cost)
    ]
    return evaluation_of("sweep", config_by(metric, names, points, num_seeds), rows)


def jobs(name: str, p: float, seed: int) -> float:
    """``ppo`` loses no job but in the last two streams, where it loses most."""
    return 4.0 if name == "fifo" else 0.0 if seed < 6 else 40.0


def shares(name: str, p: float, seed: int) -> float:
    return 0.05 + 0.01 * seed if name == "fifo" else 0.02 + 0.008 * seed


def nothing(name: str, p: float, seed: int) -> float:
    return 0.0 if name == "fifo" else 0.01 * (1 + seed)


def test_counts_and_miss_ratios_may_be_zero_and_times_may_not():
    assert all(
        METRICS[name].may_be_zero for name in ("expired", "misses", "miss_macro", "miss_worst", "lateness")
    )
    assert not any(METRICS[name].may_be_zero for name in ("makespan", "mean_jct", "slr", "mean_completion"))
    assert all(one.may_be_zero for one in METRICS.values() if one.is_count)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("miss_macro", (100.0, "points")),
        ("gap_percent", (1.0, "points")),
        ("longest_wait", (1.0, "steps")),
        ("misses", (1.0, "")),
    ],
)
def test_differences_are_stated_in_the_unit_of_the_figure(name: str, step: tuple[float, str]):
    assert METRICS[name].step == step


def test_a_single_zero_does_not_win():
    assert standing(frame(jobs)).winner == "fifo"


def test_winner_is_said_by_plain_means():
    swept = frame(shares, "miss_macro")
    assert who_wins(swept, standing(swept)) == (
        "ppo wins. Its mean macro miss ratio is 3.7 points (43.5 %) lower than that of fifo, the next best, "
        "and at least 3.2 points with 95 % confidence, over 8 paired seeds."
    )


def test_winner_among_few_samples_is_said_without_ratios():
    swept = frame(shares, "miss_macro", num_seeds=3)
    said = who_wins(swept, standing(swept))
    assert said.startswith(
        "ppo has the lowest mean macro miss ratio, before fifo, the next best (-3.9 to -2.5 "
    )
    assert "points), over 3 paired seeds, but 3 seeds are too few" in said


def test_schedulers_that_miss_nothing_are_equal():
    swept = frame(lambda name, p, seed: 0.0, "miss_macro")
    said = "fifo and ppo have the lowest macro miss ratio: they are equal over 8 paired seeds."
    assert who_wins(swept, standing(swept)) == said


def test_samples_over_all_points_have_their_plain_mean():
    swept = frame(lambda name, p, seed: 10.0 * p + seed, points=(0.0, 1.0))
    assert swept.over_cells("fifo")[0].tolist() == [5.0 + seed for seed in range(8)]


def test_comparison_with_a_baseline_of_zeros_has_no_percentage():
    one = frame(nothing, "miss_macro").against["p_c=0", "ppo"]
    assert (one.verdict, one.value) == ("worse", pytest.approx(4.5))
    assert math.isnan(one.percent) and "%" not in difference(one)


def test_document_has_difference_and_percentage():
    (one,) = frame(shares, "miss_macro").to_dict()["comparisons"]
    assert one["difference"]["mean"] == pytest.approx(-3.7)
    assert one["percent"] == pytest.approx(-100.0 * 0.037 / 0.085)


def test_prices_compare_figures_that_may_be_zero_or_below():
    swept = frame(shares, "miss_macro")
    late = {"fifo": -0.5, "ppo": -0.2}
    rows = [
        replace(r, metrics={**r.metrics, "lateness": late[r.scheduler] + 0.01 * r.seed}) for r in swept.rows
    ]
    again = evaluation_of("sweep", example_config(NAMES, (0.0,), 8, metric="miss_macro"), rows)
    (price,) = prices(again, "ppo")
    assert (price.metric, price.is_certain) == ("lateness", True)
    assert price.percent == pytest.approx(100.0 * 0.3 / 0.465)


@pytest.mark.parametrize(
    ("metric", "wrong"), [("miss_macro", -0.5), ("expired", math.inf), ("expired", math.nan)]
)
def test_values_that_cannot_be_are_refused(metric: str, wrong: float):
    with pytest.raises(
        InputError, match=rf"{metric}: expected a number >= 0, got {wrong:g} \(ppo on test/0, seed 3\)"
    ):
        frame(lambda name, p, seed: wrong if (name, seed) == ("ppo", 3) else 1.0, metric)


def test_aggregates_are_differences_without_a_profile():
    swept = frame(shares, "miss_macro")
    base, other = swept.aggregates
    assert base.within == other.within == {} and base.against is None
    assert other.against is not None and other.against.unit == "points"
    assert other.against.mean.value == pytest.approx(-3.7)
    section = profiles(swept)
    assert section is not None and "Left out: how often each is close to the best" in str(section)


def test_losses_are_ordered_by_differences():
    swept = frame(nothing, "miss_macro")
    found = losses(swept, "ppo")
    assert [loss.shown for loss in found][:2] == ["8.0 points", "7.0 points"]
    assert "the worst is 8.0 points above fifo (p_c=0, test/0, seed 7)" in headline(swept, "ppo")[-1]


def test_results_name_the_unit_of_differences():
    said = str(results(frame(shares, "miss_macro", points=(0.0, 1.0))))
    assert (
        "Macro miss ratio against fifo in points, with 95 % intervals, and in % of the mean of fifo" in said
    )
    assert "macro miss ratio against fifo (points)" in said and "mean difference over paired samples" in said


def test_claims_about_policies_speak_of_differences():
    table = Table(frame(shares, "miss_macro", points=(0.0, 1.0)))
    text = table.claim("usual", "ppo", "fifo").text
    assert text.startswith(
        "ppo is 3.7 points (43.5 %) lower than fifo (95 % CI 3.2 to 4.2 points), wins 8 of 8; "
    )
    assert "-3.7 to -3.7 points over p_c" in text


def test_envelope_of_costs_that_may_be_zero_is_in_differences():
    rules = [("fifo", np.array([0.0, 0.4])), ("eft", np.array([0.1, 0.1]))]
    fifo, eft = envelopes("", rules, METRICS["miss_macro"])
    assert (fifo.single, eft.single) == ("eft", "eft")
    assert fifo.against_envelope.text(1) == "+15.0 points" and eft.against_envelope.text(1) == "+5.0 points"
    assert eft.against_envelope.percent == pytest.approx(100.0)


def test_envelope_of_zeros_has_no_percentage():
    found = envelopes("", [(name, np.zeros(3)) for name in ("fifo", "eft")], METRICS["expired"])
    assert math.isnan(found[0].against_envelope.percent) and str(found[0].against_single) == "+0.00"


def test_group_of_training_seeds_is_judged_by_differences():
    names = ("fifo", "a", "b")
    swept = frame(
        lambda name, p, seed: {"fifo": 0.05, "a": 0.0, "b": 0.02}[name] + 0.001 * seed, "miss_macro", names
    )
    (one,) = group_results(swept, {"runs": ("a", "b")})
    assert one.difference is not None and one.difference.mean == pytest.approx(-4.0)
    assert one.percent.mean == pytest.approx(-100.0 * 0.04 / 0.0535)
    assert str(one).startswith("p_c=0: runs (2 training seeds): -4.0 points (")
    assert str(one).endswith("-74.8 % against fifo")


def test_group_against_a_rule_at_zero_has_no_percentage():
    names = ("fifo", "a", "b")
    swept = frame(lambda name, p, seed: 0.0 if name == "fifo" else 0.01 * (1 + seed), "miss_macro", names)
    (one,) = group_results(swept, {"runs": ("a", "b")})
    assert math.isnan(one.percent.mean) and str(one).endswith(" against fifo") and " %" not in str(one)


def test_gain_of_a_claim_is_in_percent_of_the_best_rival():
    swept = frame(shares, "miss_macro")
    stage = Stage(swept, ("ppo",), (("fifo",),), ("ppo", "fifo"))
    (point,) = gain(Claim("", "", "", "gain"), stage)
    assert point.value == pytest.approx(100.0 * 0.037 / 0.085) and point.low < point.value < point.high


def test_gain_over_a_rival_at_zero_is_not_measured():
    stage = Stage(frame(nothing, "miss_macro"), ("ppo",), (("fifo",),), ("ppo", "fifo"))
    with pytest.raises(Missing, match="no percentage of a best rival that is at 0"):
        gain(Claim("", "", "", "gain"), stage)


def test_unknown_figures_are_compared_by_ratios():
    assert not Metric("own", "own", least=None).may_be_zero
    with pytest.raises(InputError, match="own: expected a number > 0, got 0"):
        frame(nothing, "own")
