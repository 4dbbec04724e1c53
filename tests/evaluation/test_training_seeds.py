"""Folders of runs that differ in their seed, as one scheduler."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from weft import catalog
from weft.cli.app import main
from weft.evaluation.__main__ import main as evaluate_main
from weft.evaluation.statistics import mean_interval
from weft.evaluation.sweep.training_seeds import _against, _spread, expand


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Two runs whose best policy is the one that ships."""
    card = Path(str(catalog.policy_file("ppo")))
    for seed in (1, 2, 10):
        folder = tmp_path / "runs" / f"seed-{seed}"
        folder.mkdir(parents=True)
        shutil.copy(card.with_suffix(".json"), folder / "best.json")
        shutil.copy(card.with_suffix(".safetensors"), folder)
    return tmp_path / "runs"


def test_group_stands_for_the_best_policies_of_its_runs(group: Path):
    names, groups = expand(["fifo", str(group)])
    runs = tuple(f"{group}/seed-{seed}@best" for seed in (1, 2, 10))
    assert names == ("fifo", *runs)
    assert groups == {str(group): runs}


def test_single_run_is_no_group(group: Path):
    run = str(group / "seed-1")
    assert expand([run, "fifo"]) == ((run, "fifo"), {})


def test_evaluate_judges_a_group_against_the_best_rule(group: Path, capsys: pytest.CaptureFixture[str]):
    names = f"{group},heavy-last-1,heavy-last-3,heavy-last-5"
    cells = ["--set", "p_c=[0, 0.8]", "--set", "jobs=300", "--seeds", "3"]
    assert main(["evaluate", "conditional", "--schedulers", names, *cells, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = document["groups"]
    assert [(one["cell"], one["num_runs"]) for one in found] == [("p_c=0", 3), ("p_c=0.8", 3), ("average", 3)]
    means = {(s["cell"], s["scheduler"]): s["mean"] for s in document["summary"] if s["metric"] == "mean_jct"}
    wanted = 100.0 * (found[0]["mean"] / means["p_c=0", found[0]["rule"]] - 1.0)
    assert found[0]["percent"]["mean"] == pytest.approx(wanted)
    assert found[0]["percent"]["low"] < found[0]["percent"]["mean"] < found[0]["percent"]["high"]
    assert found[2]["percent"]["mean"] == pytest.approx(
        (found[0]["percent"]["mean"] + found[1]["percent"]["mean"]) / 2
    )


def test_spread_of_a_group_is_over_training_seeds_and_workloads():
    rng = np.random.default_rng(1)
    rule = 100.0 + rng.normal(size=8)
    runs = np.array([[80.0], [90.0], [100.0]]) + rng.normal(size=(3, 8))
    found = _spread(_against(runs, rule))
    assert found.mean == pytest.approx(100.0 * (runs.mean() / rule.mean() - 1.0))
    assert found.low is not None and found.high is not None
    alone = mean_interval(100.0 * (runs.mean(axis=1) / rule.mean() - 1.0))
    assert found.low < alone.low < found.mean < alone.high < found.high


def test_module_evaluates_without_the_command_line(
    group: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    asked = ["conditional", "-s", f"{group},heavy-last-1", "--set", "jobs=60", "--seeds", "2"]
    assert evaluate_main([*asked, "--out", str(tmp_path / "sweep")]) == 0
    printed = capsys.readouterr().out
    assert "conditional: heavy-last-1" in printed
    assert "(3 training seeds)" in printed


def test_module_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert evaluate_main(["conditinal", "-s", "fifo", "--out", str(tmp_path / "sweep")]) == 2
    assert "conditinal" in capsys.readouterr().err
