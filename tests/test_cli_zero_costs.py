"""The verbs evaluate and report where the deciding figure may be 0: the commands of the page on deadlines, in short."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import Weft

from weft import catalog
from weft.kinds import TASKS

SHORT = ("--set", "horizon=500")
ASKED = ("evaluate", "adas-tx2", "-s", "rm-pinned,edf-pinned,edf-eft", "--problems", "38", *SHORT)


def test_evaluate_compares_miss_ratios_some_of_which_are_zero(weft: Weft):
    ran = weft(*ASKED, "--seeds", "1")
    assert (ran.code, "Warning" in ran.err) == (0, False)
    assert " points higher (" in ran.out and "against rm-pinned" in ran.out
    assert (
        "lower, higher: the difference of the means in points of 0.01, then in percent of the mean of"
        in ran.out
    )
    assert "rm-pinned" in ran.out.split("* lowest plain mean")[1] and "by ratios" not in ran.out


def test_evaluate_json_has_differences_of_miss_ratios(weft: Weft):
    found = weft(*ASKED, "--seeds", "1", "--json").json
    rows = [row["miss_macro"] for row in found["rows"]]
    assert min(rows) == 0.0 < max(rows)
    for one in found["comparisons"]:
        means = {s["scheduler"]: s["mean"] for s in found["summary"] if s["metric"] == "miss_macro"}
        difference = means[one["scheduler"]] - means["rm-pinned"]
        assert one["difference"]["mean"] == pytest.approx(100.0 * difference)
        assert one["percent"] == pytest.approx(100.0 * difference / means["rm-pinned"])
    assert next(one for one in found["metrics"] if one["name"] == "miss_macro")["may_be_zero"]
    assert found["aggregates"][1]["against"]["unit"] == "points" and found["aggregates"][1]["within"] == {}


def test_evaluate_prints_aggregates_of_miss_ratios_without_a_profile(weft: Weft):
    ran = weft(*ASKED, "--aggregates", "--seeds", "1")
    assert "differences in points; below it: the chance to be below the baseline, in percent" in ran.out
    assert "Left out: how often each is close to the best" in ran.out and "within" not in ran.out


def test_report_of_a_sweep_by_miss_ratios(weft: Weft, tmp_path: Path):
    weft(*ASKED, "--seeds", "2", "--out", "sweep", "--plot", "sweep.svg")
    ran = weft("report", "sweep", "--out", "r.html")
    assert ran.code == 0
    page, twin = (tmp_path / "r.html").read_text(), (tmp_path / "r.md").read_text()
    for text in (page, twin):
        assert "macro miss ratio" in text and "in points, with 95 % intervals" in text
        assert "Typical differences" in text and "Left out: how often each is close to the best" in text
    assert "macro miss ratio against rm-pinned (points)" in page and "Performance profile" not in page
    assert (tmp_path / "sweep.svg").exists()


def test_cells_of_one_configuration_each_are_shown_without_verdicts(weft: Weft):
    words = ("--seeds", "2", "--set", "configuration=[27, 35]", *SHORT)
    ran = weft("evaluate", "adas-tx2", "-s", "rm-pinned,edf-pinned", *words, "--out", "sweep")
    assert (ran.code, "Warning" in ran.err) == (0, False) and "no verdicts: a single problem" in ran.out
    assert weft("report", "sweep", "--out", "r.md").code == 0


def test_the_other_commands_of_the_page_run(weft: Weft):
    skipped = ("--set", "configuration=27", "--set", "overrun=skip")
    assert (
        weft("evaluate", "adas-tx2", "-s", "rm-pinned,edf-pinned+late", *skipped, "--seeds", "2", *SHORT).code
        == 0
    )
    words = ("-s", "rm-pinned,edf-fastest-idle", "--set", "speed=1.5", "--problems", "6", *SHORT)
    ran = weft("evaluate", "odroid4", *words)
    assert (
        ran.code == 0
        and "rm-pinned and edf-fastest-idle have the lowest macro miss ratio: they are equal" in ran.out
    )


def test_evaluate_judges_training_seeds_by_miss_ratios(weft: Weft, tmp_path: Path):
    card = Path(str(catalog.policy_file("ppo", TASKS)))
    for seed in (1, 2):
        folder = tmp_path / "runs" / f"seed-{seed}"
        folder.mkdir(parents=True)
        shutil.copy(card.with_suffix(".json"), folder / "best.json")
        shutil.copy(card.with_suffix(".safetensors"), folder)
    ran = weft("evaluate", "adas-tx2", "-s", "runs,rm-pinned", "--problems", "8", *SHORT)
    assert ran.code == 0 and " points (" in ran.out.splitlines()[-1]
    assert "runs (2 training seeds): -" in ran.out and ran.out.rstrip().endswith("against rm-pinned")
