"""The one-shot planner from the command line: plans after installation, trains, refuses by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.cli import main

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = (str(ROOT / "examples" / "pipeline.json"), "--cluster", "gpu-mix-8")
TINY = {
    "updates": 2, "groups": 1, "graphs": 2, "samples": 4, "width": 8, "layers": 1, "hidden": 8,
    "every": 1, "validation": 2, "heads": '["ancestors", "all"]',
}  # fmt: skip


def made(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main([*words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_schedule_with_more_samples_is_never_longer(capsys: pytest.CaptureFixture[str]):
    one, many = (
        made(capsys, "schedule", *EXAMPLE, "-s", "oneshot", "--samples", count) for count in ("1", "40")
    )
    assert many["makespan"] <= one["makespan"]  # type: ignore[operator]
    assert one["valid"] and many["valid"]


def test_schedule_takes_samples_or_effort(capsys: pytest.CaptureFixture[str]):
    assert main(["schedule", *EXAMPLE, "-s", "oneshot", "--samples", "4", "--effort", "4"]) == 2
    assert "give --samples or --effort, not both" in capsys.readouterr().err


def test_schedule_refuses_a_dispatcher_as_planner(capsys: pytest.CaptureFixture[str]):
    assert main(["schedule", *EXAMPLE, "-s", "ppo"]) == 2
    assert "is a dispatcher: it plans no graphs" in capsys.readouterr().err


def test_schedule_says_that_a_weights_file_is_not_there(capsys: pytest.CaptureFixture[str]):
    assert main(["schedule", *EXAMPLE, "-s", "nowhere@best"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_train_makes_a_run_that_plans(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    sets = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    done = made(capsys, "train", "oneshot-jobshop-quick", "--out", "run", *sets)
    assert done["samples"] == 16
    assert made(capsys, "schedule", *EXAMPLE, "-s", "run@last", "--samples", "3")["valid"]


def test_train_dry_run_shows_the_recipe(capsys: pytest.CaptureFixture[str]):
    found = made(capsys, "train", "oneshot-graphs", "--dry-run")
    assert [source["generator"] for source in found["recipe"]["source"]] == ["opgraph", "tpch"]  # type: ignore[index]


def test_evaluate_refuses_a_planner_for_a_stream(capsys: pytest.CaptureFixture[str]):
    assert main(["evaluate", "conditional", "-s", "jobshop-oneshot", "--seeds", "1"]) == 2
    assert "plans whole graphs: it is no dispatcher" in capsys.readouterr().err
