"""``weft validate RUN``: the history of a run is checked, and refused in a line where it is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Weft
from history_examples import history


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    write(folder, history("deaths"))
    return folder


def write(folder: Path, rows: list[dict]) -> None:
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_validate_accepts_the_history_of_a_run(weft: Weft, run: Path):
    ran = weft("validate", "run")
    assert (ran.code, ran.out) == (0, "valid: 96 rows, 20 tasks reported\n")
    assert weft("validate", "run/history.jsonl", "--json").json["valid"] is True


def test_validate_rejects_a_history_and_says_why(weft: Weft, run: Path):
    write(run, [row for row in history("deaths") if row["event"] != "lost"])
    ran = weft("validate", "run", "--json")
    assert ran.code == 1 and ran.json["valid"] is False
    assert {one["rule"] for one in ran.json["violations"]} >= {"attempts", "device"}
    assert "not valid: " in weft("validate", "run").out


def test_validate_tells_a_killed_run_apart(weft: Weft, run: Path):
    write(run, history("deaths")[:-1])
    ran = weft("validate", "run", "--json")
    assert ran.code == 1 and [one["rule"] for one in ran.json["violations"]] == ["incomplete"]


def test_validate_accepts_a_run_that_was_stopped(weft: Weft, run: Path):
    rows = history("plain")[:30]
    write(run, [*rows, {"event": "closed", "time": rows[-1]["time"], "ok": False, "reason": "interrupted"}])
    ran = weft("validate", "run")
    assert ran.code == 0 and "; the run was stopped: interrupted" in ran.out


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ("", (), "expected 'weft/history/1' in its first line"),
        ("{}\n", (), "expected a JSON object with an event"),
        ("x\n", (), "history.jsonl:1: expected a JSON object"),
        ('{"event": "run"}\n', (), "expected 'weft/history/1'"),
        ('{"event": "run"}\n', ("--cluster", "cpu-4"), "--cluster cpu-4 is about a workflow: leave it out"),
    ],
    ids=["empty", "no event", "no JSON", "no schema", "cluster"],
)
def test_validate_refuses_in_a_line(weft: Weft, run: Path, content: str, words: tuple[str, ...], said: str):
    (run / "history.jsonl").write_text(content)
    ran = weft("validate", "run", *words)
    assert ran.code == 2 and said in ran.err and ran.err.count("\n") == 1


def test_validate_of_a_workflow_alone_asks_for_a_schedule(weft: Weft, tmp_path: Path):
    (tmp_path / "graph.json").write_text("{}")
    ran = weft("validate", "graph.json")
    assert ran.code == 2 and "expected a schedule to check too" in ran.err
    ran = weft("validate", "nowhere")
    assert ran.code == 2 and "expected a file, or the folder of a run" in ran.err
