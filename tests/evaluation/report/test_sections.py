"""Sections on a sweep: figures with captions, tables with intervals, rows of any number."""

from __future__ import annotations

import numpy as np
import pytest
from report_examples import example_frame

from weft.evaluation.report.blocks import BigTable, Figure, Figures, Table, Text
from weft.evaluation.report.sections import (
    all_rows,
    difference,
    results,
    signed,
    utilisation,
    with_interval,
)
from weft.evaluation.report.typical import profiles
from weft.evaluation.sweep.summary import Summary, summary_of


def cost(name: str, p: float, seed: int) -> float:
    return (90.0 if name == "ppo" else 100.0) + 10.0 * p + 0.1 * seed


def test_results_of_a_swept_number_have_two_curves_and_tables_with_the_tail():
    section = results(example_frame(cost))
    names = [type(block).__name__ for block in section.blocks]
    assert names == ["Figure", "Figure", "Table", "Table", "Table", "Text"]
    means, tail = section.blocks[2:4]
    assert isinstance(means, Table) and isinstance(tail, Table)
    assert tail.caption == "Mean 99th percentile of the job time (ms) with 95 % intervals"
    assert (tail.rows[0][0], tail.strong) == ("0", ((0, 2), (1, 2), (2, 2)))
    assert means.headers == ("p_c", "fifo", "ppo")
    assert means.rows[0] == ("0", "100.35 (100.08 to 100.62)", "90.35 (90.08 to 90.62)")
    assert means.strong == ((0, 2), (1, 2), (2, 2))


def test_results_of_one_point_are_one_table():
    section = results(example_frame(cost, schedulers=("fifo", "ppo", "srw"), points=(0.5,)))
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    assert [name.split(" with")[0] for name in table.headers[:3]] == [
        "scheduler",
        "Mean job time (ms)",
        "Mean 99th percentile of the job time (ms)",
    ]
    assert table.headers[3].startswith("Mean job time against fifo in %")
    assert table.strong == ((1, 1), (1, 2))


def test_many_schedulers_are_lines_of_a_table():
    names = tuple(f"s{k}" for k in range(9))
    section = results(example_frame(lambda name, p, seed: 10.0 + int(name[1]) + seed, schedulers=names))
    means, _, against = [block for block in section.blocks if isinstance(block, Table)]
    assert means.headers == ("scheduler", "p_c=0", "p_c=0.8", "p_c=1")
    assert [row[0] for row in means.rows] == list(names)
    assert means.strong == ((0, 1), (0, 2), (0, 3))
    assert against.rows[0][1:] == ("baseline",) * 3


def test_results_of_one_sample_have_no_intervals():
    section = results(example_frame(cost, num_seeds=1))
    said = [block.caption for block in section.blocks if isinstance(block, Figure | Table)]
    assert said and not any("interval" in text for text in said)
    assert not any("bar c" in block.svg for block in section.blocks if isinstance(block, Figure))


def test_intervals_keep_to_the_values_there_can_be():
    frame = example_frame(lambda name, p, seed: 1.0 if seed else 1000.0, num_seeds=3)
    found = frame.sum_up("mean_jct", "p_c=0", "fifo")
    assert (found.low, found.high is not None and found.high > 1000.0) == (0.0, True)
    means = summary_of("", "heft", "slr", np.array([1.0, 1.01, 1.5]))
    assert means.low == 1.0
    shares = summary_of("", "heft", "utilisation", np.array([1.0, 0.2]))
    assert (shares.low, shares.high) == (0.0, 1.0)


def test_too_few_samples_are_said_with_how_many_it_takes():
    said = results(example_frame(cost, num_seeds=5)).blocks[-1]
    assert isinstance(said, Text)
    assert "5 seeds are too few for a verdict; at least 7 are needed" in said.lines[0]


def test_results_of_one_point_draw_dots_with_intervals():
    section = results(example_frame(cost, points=(0.5,)))
    assert isinstance(section.blocks[0], Figure)
    assert "relative to fifo with 95 % intervals" in section.blocks[0].caption


def test_profiles_count_how_often_each_is_best():
    section = profiles(example_frame(cost))
    assert section is not None
    table = section.blocks[1]
    assert isinstance(table, Table)
    assert table.rows[0][:2] == ("fifo", "0 %")
    assert table.rows[1][:2] == ("ppo", "100 %")


def test_utilisation_draws_every_device_and_fill_where_there_are_batches():
    section = utilisation(example_frame(cost))
    assert section is not None
    use, fill = section.blocks[:2]
    assert isinstance(use, Figures) and isinstance(fill, Figures)
    assert (len(use.svgs), len(fill.svgs)) == (2, 1)


def test_utilisation_of_one_point_draws_bars():
    section = utilisation(example_frame(cost, points=(0.5,)))
    assert section is not None
    assert isinstance(section.blocks[0], Figure)


def test_all_rows_are_there_without_columns_that_say_nothing():
    table = all_rows(example_frame(cost)).blocks[0]
    assert isinstance(table, BigTable)
    assert table.num_rows == 3 * 8 * 2
    assert "expired" not in table.headers and "valid" not in table.headers


def test_difference_marks_what_may_be_chance():
    frame = example_frame(lambda name, p, seed: 100.0 + (seed * 7 + len(name) * 3) % 5)
    assert difference(frame.against["p_c=0", "ppo"]).startswith("\N{ALMOST EQUAL TO}")
    assert difference(None) == "-"


def test_profile_comes_with_typical_differences_to_the_baseline():
    section = profiles(example_frame(cost))
    assert section is not None
    typical = section.blocks[2]
    assert isinstance(typical, Table)
    assert typical.headers[-1] == "below fifo (% of samples)"
    assert typical.rows[0][0] == "ppo" and typical.rows[0][1].startswith("-9.")
    assert typical.rows[0][3] == "100 (68 to 100)"
    assert len(profiles(example_frame(cost, num_seeds=1)).blocks) == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(("value", "text"), [(1.25, "+1.2"), (-0.04, "0.0"), (-3.0, "\N{MINUS SIGN}3.0")])
def test_signed_percentages(value: float, text: str):
    assert signed(value) == text


@pytest.mark.parametrize(
    ("mean", "low", "high", "text"),
    [
        (8066.4, 7980.0, 8156.0, "8066 (7980 to 8156)"),
        (0.95481, 0.9521, 0.9583, "0.9548 (0.9521 to 0.9583)"),
        (3.0, None, None, "3"),
        (3.0, 3.0, 3.0, "3"),
        (float("nan"), None, None, "-"),
    ],
)
def test_means_have_the_decimals_of_their_interval(
    mean: float, low: float | None, high: float | None, text: str
):
    assert with_interval(Summary("", "fifo", "mean_jct", mean, None, low, high)) == text
