"""The results page of the one-shot planner: what it keeps, what it measures again, what it prints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import oneshot
from benchmarks._oneshot import measure as measuring
from benchmarks._oneshot.losses import runs_of, summary
from benchmarks._oneshot.measure import Way, draws, key_of, run
from benchmarks._oneshot.page import Target, published
from benchmarks._oneshot.problems import Case
from benchmarks._oneshot.record import Key, Measured, Record
from weft.catalog import policy_file
from weft.errors import InputError
from weft.policies.checkpoint import load_policy, save_policy

KEY = Key("taillard", "ta01", "p", "oneshot", 64, "w", "c")
ROW = Measured(110.0, 100.0, 300.0, 0.25, 0.5)
SMALL = Case("graphs", "er/50", "er/50/0")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A file of one row."""
    Record(tmp_path / "rows.jsonl").add(KEY, ROW)
    return tmp_path / "rows.jsonl"


@pytest.fixture
def mixes(tmp_path: Path) -> str:
    """A folder with one mix of two queries."""
    stages = {"q1": {"tasks": [3000, 4000], "duration_ms": [2, 3], "edges": [[0, 1]]}}
    (tmp_path / "tpch_stages.json").write_text(json.dumps(stages))
    (tmp_path / "tpch_train_sets.json").write_text(json.dumps({"50": [["q1", "q1"]]}))
    return str(tmp_path)


def altered(folder: Path) -> str:
    """The shipped net for graphs with one number changed."""
    weights, card = load_policy(policy_file("graphs-oneshot") or "")
    first = next(iter(weights))
    weights[first] = weights[first] + np.float32(0.01)
    save_policy(folder / "other.json", weights, card)
    return str(folder / "other.json")


def test_record_is_read_back(rows: Path):
    assert Record(rows).rows == {KEY: ROW}


def test_record_drops_a_line_cut_off(rows: Path):
    whole = rows.read_text()
    rows.write_text(whole + whole[:30])
    record = Record(rows)
    record.add(replace(KEY, effort=256), ROW)
    assert len(Record(rows).rows) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[]", "expected a row with suite"),
        ("nonsense", "expected a row with suite"),
        (json.dumps(KEY.__dict__ | ROW.__dict__ | {"cpu": "fast"}), "cpu: expected float, got 'fast'"),
    ],
)
def test_record_refuses_another_file(rows: Path, line: str, reason: str):
    rows.write_text(rows.read_text() + line + "\n")
    with pytest.raises(InputError, match=reason) as caught:
        Record(rows)
    assert caught.value.line == 2


def test_key_of_another_net_is_another(tmp_path: Path):
    shipped, other = draws([4])[0], draws([4], altered(tmp_path))[0]
    assert key_of(SMALL, shipped) != key_of(SMALL, other)
    assert key_of(SMALL, shipped) == key_of(SMALL, shipped)


def test_key_of_a_rule_knows_no_net():
    assert key_of(SMALL, Way("cp", "cp")).weights == ""


def test_key_of_another_problem_is_another():
    way = Way("cp", "cp")
    assert key_of(SMALL, way).problem != key_of(SMALL._replace(instance="er/50/1"), way).problem


def test_run_measures_only_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def noted(case: Case, way: Way) -> Measured:
        asked.append(way.label)
        return ROW

    monkeypatch.setattr(measuring, "measure", noted)
    record = Record(tmp_path / "rows.jsonl")
    first = [(SMALL, way) for way in (Way("cp", "cp"), *draws([1]))]
    run(first, record, 0)
    found = run([*first, (SMALL, draws([1], altered(tmp_path))[0]), first[0]], Record(record.path), 0)
    assert asked == ["cp", "greedy", "greedy"]
    assert len(found.cell("graphs", "er/50", "cp")) == 1


def test_measure_gives_a_valid_plan_above_its_bound():
    found = measuring.measure(SMALL, draws([16])[0])
    assert found.makespan >= found.bound > 0
    assert found.gap_percent >= 0 and found.cpu > 0


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        (Target("x", 1.0, 1.0), "reached"),
        (Target("x", 1.0, 1.1), "missed"),
        (Target("x", 1.0, 1.1, is_least=True), "reached"),
        (Target("x", 1.0, 1.0, is_strict=True), "missed"),
        (Target("x", 1.0, None), "not measured"),
    ],
)
def test_target_verdict_is_computed(target: Target, verdict: str):
    assert target.verdict == verdict


@pytest.mark.parametrize("name", published())
def test_published_rows_have_a_figure_per_group(name: str):
    table = published()[name]
    for row in table["row"]:
        lists = [value for value in row.values() if isinstance(value, list)]
        assert lists and all(len(values) == len(table["groups"]) for values in lists)


def test_summary_has_mean_and_standard_error():
    found = summary({"paper": [[1.0], [3.0]], "label": [[2.0]]}, ["greedy"], 1)
    assert found.rows == (("paper", "2.0 +- 1.0", "2"), ("label", "2.0", "1"))


def test_runs_of_an_empty_folder_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"expected runs with last\.json, found none"):
        runs_of(str(tmp_path), "last")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--part", "queries", "--data", "nowhere"], "nowhere: data: expected a folder"),
        (["--part", "losses", "--losses", "nowhere"], "nowhere: expected a folder of runs"),
        (["--part", "shops", "--out", "nowhere/page.md"], "nowhere/page.md: expected a file in a folder"),
        (["--part", "shops", "--out", "."], ".: expected a file in a folder"),
        (["--part", "shops", "--workers", "-1"], "--workers: expected a whole number >= 0, got -1"),
        (["--part", "shops", "--scheduler", "nowhere.json"], "nowhere.json: expected its card"),
    ],
)
def test_oneshot_refuses_in_one_line(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]):
    assert oneshot.main(["--quick", *words]) == 2
    error = capsys.readouterr().err
    assert reason in error and error.count("\n") == 1


def test_oneshot_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def stopped(case: Case, way: Way) -> Measured:
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "measure", stopped)
    assert oneshot.main(["--quick", "--part", "shops"]) == 130
    assert "interrupted; the same command with --rows FILE goes on" in capsys.readouterr().err


def test_oneshot_quick_page_is_written_and_resumed(
    tmp_path: Path, mixes: str, capsys: pytest.CaptureFixture[str]
):
    rows, page = tmp_path / "rows.jsonl", tmp_path / "page.md"
    words = ["--quick", "--data", mixes, "--rows", str(rows), "--out", str(page)]
    assert oneshot.main(words) == 0
    text, kept = page.read_text("utf-8"), rows.read_bytes()
    for name in oneshot.PARTS:
        assert f"--part {name}" in text or name in ("models", "losses", "seeds")
    assert "| workflows at CCR 1, S(256) over the best of five | at most 1.000 |" in text
    assert "Not measured: no folder of ONNX models" in text
    assert mixes not in text
    assert oneshot.main(words) == 0
    assert (page.read_text("utf-8"), rows.read_bytes()) == (text, kept)
    assert "rows after" in capsys.readouterr().err
