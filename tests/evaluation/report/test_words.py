"""What is said: winners only where the statistics carry it, and the losses by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from report_examples import example_config, example_frame, example_rows

from weft.evaluation.report.words import headline, losses, standing, subject
from weft.evaluation.sweep.answers import evaluation_of


def clear(name: str, p: float, seed: int) -> float:
    return (90.0 if name == "ppo" else 100.0) + seed


def even(name: str, p: float, seed: int) -> float:
    return 100.0 + float(np.sin(7.0 * seed + 3.0 * p + len(name)))


def crossing(name: str, p: float, seed: int) -> float:
    return (110.0 if name == "ppo" and p == 1.0 else 90.0 if name == "ppo" else 100.0) + seed


def test_headline_names_the_winner_and_how_much_is_certain():
    lines = headline(example_frame(clear), "ppo")
    assert lines[0].startswith(
        "conditional: ppo wins. Its mean job time is 9.7 % below that of fifo, the next best"
    )
    assert "with 95 % confidence, over 8 paired seeds, each over all 3 points" in lines[0]
    assert lines[1] == "conditional: ppo has the lowest mean at each of the 3 points of the sweep."
    assert lines[-1] == "conditional: ppo loses on none of 24 samples (8 at each of 3 points)."


def test_headline_says_what_cannot_be_told_apart():
    assert "cannot be told apart" in headline(example_frame(even), "ppo")[0]


def test_headline_names_points_that_others_win():
    lines = headline(example_frame(crossing), "ppo")
    assert any("at 2 of 3 points; not at p_c=1 (fifo)" in line for line in lines)


def test_headline_of_one_sample_claims_nothing():
    frame = example_frame(clear, points=(0.0,), num_seeds=1)
    assert "one sample says nothing about others" in headline(frame, "ppo")[0]


def test_losses_are_sorted_with_the_worst_first():
    found = losses(example_frame(crossing), "ppo")
    assert (found[0].cell, found[0].sample.seed, found[0].rival) == ("p_c=1", 0, "fifo")
    assert found[0].percent > found[-1].percent


def test_subject_is_the_first_policy_else_the_winner():
    assert subject(example_frame(crossing, policies={"ppo": "hash"})) == "ppo"
    assert subject(example_frame(lambda name, p, s: 1.0 + s + len(name))) == "ppo"
    assert subject(example_frame(clear), "fifo") == "fifo"


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


def test_headline_explains_an_interval_that_leaves_out_zero():
    frame = example_frame(
        lambda name, p, seed: (90.0 if name == "ppo" else 100.0) + seed, points=(0.0,), num_seeds=3
    )
    first = headline(frame, "ppo")[0]
    assert "cannot be told apart" in first
    assert "The interval leaves out 0, but the samples are too few" in first
