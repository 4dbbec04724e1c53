"""The verb stress: text, JSON, files, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.cli import main
from weft.evaluation.questions import stress

ASKED = ("stress", "--better", "heft", "--worse", "peft", "--tasks", "6", "--devices", "3", "--effort", "300")


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stress, "DRAWS", 40)
    monkeypatch.setattr(stress, "STEPS", 80)
    monkeypatch.setattr(stress, "REPAIRS", 40)


def test_stress_json_says_what_compare_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--out", "found", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "weft/stress/1"
    assert document["reached"]
    assert document["repeatable"]
    for key in ("worst", "smallest"):
        find = document[key]
        assert main(["compare", find["file"], "--schedulers", "heft,peft", "--json"]) == 0
        rows = {row["scheduler"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
        assert rows["heft"]["makespan"] == find["better_makespan"]
        assert rows["peft"]["makespan"] == find["worse_makespan"]
        assert find["ratio"] == rows["heft"]["makespan"] / rows["peft"]["makespan"]
        assert all(row["valid"] for row in rows.values())


def test_stress_without_a_beaten_planner_does_not_say_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED[:5], "--tasks", "3", "--devices", "2", "--effort", "3", "--out", "even"]) == 0
    assert "the problem nearest to peft beating heft" in capsys.readouterr().out


def test_stress_prints_the_smallest_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(ASKED)) == 0
    captured = capsys.readouterr()
    assert "problems on which peft beats heft" in captured.out
    assert "300 problems tried in" in captured.out
    assert "the smallest: " in captured.out
    assert "stress-heft-peft/smallest.json" in captured.out
    assert "next: weft compare stress-heft-peft/smallest.json --schedulers heft,peft" in captured.err


def test_stress_that_finds_no_such_ratio_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--ratio", "1e6"]) == 0
    captured = capsys.readouterr()
    assert "no problem found on which heft takes 1e+06 times as long as peft" in captured.out
    assert "next: weft compare stress-heft-peft/worst.json" in captured.err


def test_stress_interrupted_keeps_the_best_so_far(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = stress.Search.keep

    def keep(search: stress.Search, find: stress.Find) -> None:
        real(search, find)
        if search.evaluations == 60:
            raise KeyboardInterrupt

    monkeypatch.setattr(stress.Search, "keep", keep)
    assert main([*ASKED, "--json"]) == 130
    captured = capsys.readouterr()
    assert "weft: interrupted after 60 problems; to go on: weft stress --better heft" in captured.err
    found = json.loads(captured.out)
    assert (found["interrupted"], found["evaluations"], found["rounds"]) == (True, 60, 0)
    assert (tmp_path / "stress-heft-peft" / "worst.json").exists()


WRONG = [
    (("--worse", "fifo"), "worse: fifo is a dispatcher"),
    (("--budget", "soon"), "expected a time such as '5 min'"),
    (("--budget", "2s"), "give a budget or an effort, not both"),
    (("--tasks", "1"), "tasks: expected 3 to 10,000 tasks, got 1"),
    (("--out", "no/such"), "no/such: cannot be written: no such folder"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_stress_refuses(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    assert main([*ASKED, *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
