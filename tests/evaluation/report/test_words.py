"""What is said: winners only where the statistics carry it, and the losses by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_examples import example_config, example_frame, example_rows

from weft.evaluation.report.words import headline, losses, subject
from weft.evaluation.sweep.answers import evaluation_of
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.standing import prices, standing, what_it_costs

Tail = Callable[[str, str, int], float]
"""Scheduler, cell, seed -> 99th percentile."""


def clear(name: str, p: float, seed: int) -> float:
    return (90.0 if name == "ppo" else 100.0) + seed


def even(name: str, p: float, seed: int) -> float:
    return 100.0 + float(np.sin(7.0 * seed + 3.0 * p + len(name)))


def crossing(name: str, p: float, seed: int) -> float:
    return (110.0 if name == "ppo" and p == 1.0 else 90.0 if name == "ppo" else 100.0) + seed


def test_headline_names_the_winner_and_how_much_is_certain():
    lines = headline(example_frame(clear), "ppo")
    assert lines[0].startswith(
        "conditional: ppo wins. By ratios its mean job time is 9.7 % below that of fifo, the next best"
    )
    assert "with 95 % confidence, over 8 paired seeds, each over all 3 points" in lines[0]
    assert lines[1] == (
        "conditional: in the 99th percentile of the job time and the makespan nobody is ahead of ppo for certain."
    )
    assert lines[2] == "conditional: ppo has the lowest plain mean at each of the 3 points of the sweep."
    assert (
        lines[-1] == "conditional: by mean job time, ppo loses on none of 24 samples (8 at each of 3 points)."
    )


def test_headline_says_what_cannot_be_told_apart():
    assert "cannot be told apart" in headline(example_frame(even), "ppo")[0]


def test_headline_says_what_is_equal():
    """Nothing is told apart, or not, between equal rows."""
    lines = headline(example_frame(lambda name, p, seed: 100.0 + seed), "ppo")
    assert "are equal over 8 paired seeds" in lines[0]


def test_headline_names_points_that_others_win():
    lines = headline(example_frame(crossing), "ppo")
    assert any("at 2 of 3 points; not at p_c=1 (fifo)" in line for line in lines)


def test_headline_of_one_sample_claims_nothing():
    frame = example_frame(clear, points=(0.0,), num_seeds=1)
    lines = headline(frame, "ppo")
    assert "one sample says nothing about others" in lines[0]
    assert not any("for certain" in line for line in lines)


def test_losses_are_sorted_with_the_worst_first():
    found = losses(example_frame(crossing), "ppo")
    assert (found[0].cell, found[0].sample.seed, found[0].rival) == ("p_c=1", 0, "fifo")
    assert found[0].percent > found[-1].percent


def test_subject_is_the_first_policy_else_the_winner():
    assert subject(example_frame(crossing, policies={"ppo": "hash"})) == "ppo"
    assert subject(example_frame(lambda name, p, s: 1.0 + s + len(name))) == "ppo"
    assert subject(example_frame(clear), "fifo") == "fifo"


@pytest.mark.parametrize("run", ["runs/mine@best", "runs/mine@last", "mine.safetensors", "FOLDER"])
def test_subject_may_be_a_run(run: str, tmp_path: Path):
    """A run of tasks or plans counts as a policy too."""
    name = run.replace("FOLDER", str(tmp_path))
    frame = replace(example_frame(clear), learned=())
    assert subject(replace(frame, schedulers=("fifo", name))) == name
    assert subject(frame) == "ppo"  # the winner


def test_standing_orders_the_others_from_the_next_best():
    costs = {"a": 3.0, "bb": 1.0, "ccc": 2.0}
    frame = example_frame(lambda name, p, seed: costs[name] + 0.001 * seed, schedulers=tuple(costs))
    place = standing(frame)
    assert (place.winner, [name for name, _ in place.others]) == ("bb", ["ccc", "a"])


def test_headline_bars_from_winning_who_broke_a_rule():
    names, points = ("fifo", "mru", "ppo"), (0.0, 1.0)
    rows = [
        replace(row, valid=row.scheduler != "ppo", fault="overlap" if row.scheduler == "ppo" else None)
        for row in example_rows(names, points, 8, clear)
    ]
    frame = evaluation_of("sweep", example_config(names, points, 8), rows)
    lines = headline(frame, subject(frame))
    assert lines[0] == "conditional: ppo broke a rule on 16 of 16 (overlap)."
    assert standing(frame).winner == "fifo"
    assert not any("ppo wins" in line or "(ppo)" in line for line in lines)


def test_frame_compares_nobody_who_broke_a_rule():
    names = ("fifo", "mru", "ppo")
    rows = [replace(row, valid=row.scheduler != "ppo") for row in example_rows(names, (0.0,), 8, clear)]
    config = example_config(names, (0.0,), 8)
    assert [name for _, name in evaluation_of("sweep", config, rows, "fifo").against] == ["mru"]
    assert evaluation_of("sweep", config, rows, "ppo").against == {}


def test_headline_without_a_valid_schedule_names_no_winner():
    rows = [replace(row, valid=False) for row in example_rows(("fifo", "ppo"), (0.0,), 2, clear)]
    frame = evaluation_of("sweep", example_config(("fifo", "ppo"), (0.0,), 2), rows)
    assert headline(frame, "ppo")[-1] == "conditional: nobody wins, every scheduler broke a rule."


def test_headline_says_how_many_samples_a_verdict_takes():
    first = headline(example_frame(clear, points=(0.0,), num_seeds=5), "ppo")[0]
    assert first.startswith(
        "conditional: ppo has the lowest mean job time by ratios to fifo, the next best ("
    )
    assert first.endswith(
        "over 5 paired seeds, but 5 seeds are too few for a verdict; at least 6 are needed."
    )


def with_tails(tail: Tail, num_seeds: int, points: tuple[float, ...] = (0.0, 1.0)) -> Evaluation:
    """``ppo`` is lower in the mean, and its 99th percentile is what ``tail`` says."""
    names = ("fifo", "ppo", "srw")
    rows = [
        replace(row, metrics={**row.metrics, "p99_jct": tail(row.scheduler, row.cell, row.seed)})
        for row in example_rows(names, points, num_seeds, clear)
    ]
    return evaluation_of("sweep", example_config(names, points, num_seeds), rows)


def test_headline_names_what_the_win_costs():
    frame = with_tails(lambda name, cell, seed: (154.0 if name == "ppo" else 100.0) + 0.1 * seed, 12)
    assert headline(frame, "ppo")[1] == (
        "conditional: what it costs: ppo is behind in the 99th percentile of the job time at 2 of 2 points "
        "(most at p_c=0: 53.7 % above fifo)."
    )


def test_headline_names_a_point_where_the_tail_is_behind():
    frame = with_tails(
        lambda name, cell, seed: (105.0 if name == "ppo" and cell == "p_c=1" else 100.0) + 0.1 * seed, 12
    )
    assert "at 1 of 2 points (most at p_c=1: 5.0 % above fifo)" in headline(frame, "ppo")[1]


def test_headline_says_where_a_cost_may_be_chance():
    def tail(name: str, cell: str, seed: int) -> float:
        return 100.0 + (3.0 + 9.0 * (-1) ** seed if name == "ppo" else 0.0)

    line = headline(with_tails(tail, 12), "ppo")[1]
    assert "ppo may be behind in the 99th percentile" in line and "cannot be told from chance" in line
    few = headline(with_tails(lambda name, cell, seed: 154.0 if name == "ppo" else 100.0, 3), "ppo")[1]
    assert "ppo may be behind in the 99th percentile" in few and "the seeds are too few to test that" in few


def test_price_of_a_count_is_said_in_figures():
    names = ("fifo", "ppo")
    rows = [
        replace(row, metrics={**row.metrics, "expired": 4 if row.scheduler == "ppo" else 0})
        for row in example_rows(names, (0.0,), 8, clear)
    ]
    frame = evaluation_of("sweep", example_config(names, (0.0,), 8), rows)
    (price,) = prices(frame, "ppo")
    assert (price.metric, price.percent, price.is_certain) == ("expired", None, True)
    assert "behind in the expired jobs (4 against 0 of fifo)" in what_it_costs(frame, "ppo")


def test_headline_says_where_plain_means_disagree_with_ratios():
    def cost(name: str, p: float, seed: int) -> float:
        return 100.0 if name == "fifo" else 1.0 if seed else 1000.0

    lines = headline(example_frame(cost, points=(0.0,), num_seeds=8), "ppo")
    assert any("by plain means, in which long samples count more, fifo is the lowest" in one for one in lines)
