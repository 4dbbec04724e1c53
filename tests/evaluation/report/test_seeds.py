"""Runs of one folder of training seeds as one scheduler of a report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from report_examples import example_frame

from weft.evaluation.report.devices import device_uses
from weft.evaluation.report.sections import results, utilisation
from weft.evaluation.report.seeds import together
from weft.evaluation.report.typical import profiles
from weft.evaluation.report.words import headline
from weft.evaluation.statistics import mean_interval
from weft.evaluation.sweep.breaches import Breach
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.standing import standing

RUNS = tuple(f"runs/pi-4/seed-{k}@best" for k in (1, 2, 3))


def frame(*more: str) -> Evaluation:
    level = {"fifo": 100.0, **dict(zip(RUNS, (80.0, 90.0, 95.0), strict=True))}
    names = ("fifo", *RUNS, *more)
    policies = dict.fromkeys(names[1:], "hash")
    return example_frame(
        lambda name, p, seed: level.get(name, 97.0) + seed, schedulers=names, policies=policies
    )


def test_runs_of_one_folder_are_one_scheduler_with_their_mean():
    found = together(frame("other@best"))
    assert found.schedulers == ("fifo", "runs/pi-4", "other@best")
    assert found.learned == ("runs/pi-4", "other@best")
    assert found.shown("runs/pi-4") == "pi-4"
    assert found.costs("p_c=0", "runs/pi-4").tolist() == pytest.approx([265 / 3 + seed for seed in range(8)])
    assert len(found.rows_of("p_c=0", "runs/pi-4")) == 3 * 8
    assert device_uses(found, "p_c=0", "runs/pi-4") == device_uses(found, "p_c=0", "fifo")


def test_intervals_of_such_a_scheduler_are_over_both_kinds_of_seeds():
    found = together(frame())
    logs = np.log(np.array([[80.0], [90.0], [95.0]]) + np.arange(8.0)) - np.log(100.0 + np.arange(8.0))
    runs = mean_interval(logs.mean(axis=1))
    one = found.against["p_c=0", "runs/pi-4"]
    assert one.percent == pytest.approx(100 * np.expm1(logs.mean()))
    assert one.low_percent < 100 * np.expm1(runs.low) and one.high_percent > 100 * np.expm1(runs.high)
    assert one.verdict == "not distinguishable"
    summary = found.sum_up("mean_jct", "p_c=0", "runs/pi-4")
    assert summary.low is not None and summary.low < 80.0


def test_one_run_the_baseline_and_who_was_asked_for_stay_apart():
    assert together(replace(frame(), learned=RUNS[:1])).runs == {}
    assert together(frame(), (RUNS[1],)).runs == {}
    assert together(replace(frame(), baseline=RUNS[0])).runs == {}


def test_a_run_that_broke_a_rule_takes_its_folder_with_it():
    found = together(replace(frame(), breaches={RUNS[1]: Breach(1, 3, "slots")}))
    assert found.sound == ("fifo",)


def test_sections_and_headline_speak_of_the_folder():
    found = together(frame())
    assert standing(found).winner == "runs/pi-4"
    assert headline(found, "runs/pi-4")[0].startswith(
        "conditional: pi-4 has the lowest mean job time by ratios, but fifo"
    )
    section = results(found)
    assert "pi-4 for 3" in section.blocks[0].lines[0]  # type: ignore[union-attr]
    assert utilisation(found) is not None
    typical = profiles(found).blocks[2]  # type: ignore[union-attr]
    assert typical.rows[0][0] == "pi-4"  # type: ignore[union-attr]
