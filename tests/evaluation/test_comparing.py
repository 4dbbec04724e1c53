"""``weft.compare``: typed rows, a summary, and the document of the verb."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import weft
from weft.cli import main
from weft.errors import InputError

PIPELINE = Path(__file__).resolve().parent.parent.parent / "examples" / "pipeline.json"


def test_compare_takes_problems_and_files_and_marks_the_best():
    problem = weft.read_problem(PIPELINE, cluster="gpu-mix-8")
    of_problem, of_file = weft.compare([problem, PIPELINE], ("heft", "random"), cluster="gpu-mix-8").contests
    assert (of_problem.file, of_file.file) == (problem.name, str(PIPELINE))
    assert of_problem.best is not None and of_problem.best.scheduler == "heft"
    assert [row.makespan for row in of_problem.rows] == [row.makespan for row in of_file.rows]
    assert "* heft: makespan 197.362 s" in str(of_problem)


def test_compare_names_who_could_not_act():
    found = weft.compare(PIPELINE, ["heft", "mwkr", "tabu"], cluster="gpu-mix-8")
    assert [one.scheduler for one in found.skipped] == ["tabu"]
    assert "tabu left out: " in str(found)


def test_compare_refuses_a_name_before_it_reads():
    with pytest.raises(InputError, match="no planner 'hefty'"):
        weft.compare("nowhere.json", ["hefty"])


def test_compare_document_is_that_of_the_verb(capsys: pytest.CaptureFixture[str]):
    main(["compare", str(PIPELINE), "--cluster", "gpu-mix-8", "-s", "heft,deft", "--seed", "3", "--json"])
    printed = json.loads(capsys.readouterr().out)
    found = weft.compare(PIPELINE, ["heft", "deft"], cluster="gpu-mix-8", seed=3)
    made = replace(found, command=printed["command"]).to_dict()
    parts = (made["rows"], printed["rows"], made["summary"], printed["summary"])
    for row in (row for part in parts for row in part):  # type: ignore[misc]
        row["seconds"] = 0.0
    assert made == printed


def test_compare_sums_up_over_problems():
    problem = weft.read_problem(PIPELINE, cluster="gpu-mix-8")
    graph = weft.TaskGraph([4.0, 4.0, 2.0], [0, 0], [1, 2], [1e9, 1e9])
    found = weft.compare([problem, weft.Problem(graph, problem.cluster)], ("random", "heft", "tabu"))
    heft, random, tabu = found.standings
    assert (heft.scheduler, heft.problems, heft.wins, heft.mean_ratio, heft.worst_ratio) == (
        "heft",
        2,
        2,
        1,
        1,
    )
    ratios = [contest.rows[0].makespan / contest.rows[1].makespan for contest in found.contests]
    assert random.mean_ratio == pytest.approx((ratios[0] * ratios[1]) ** 0.5)
    assert (random.worst_ratio, random.wins) == (max(ratios), 0)
    assert (tabu.problems, tabu.mean_ratio, str(tabu)) == (0, None, "tabu: no valid plan")
    assert str(found).splitlines()[-3].startswith("heft: shortest on 2 of 2, 1 times the shortest on average")


def test_compare_sums_up_plans_of_no_length():
    nothing = weft.Problem(weft.TaskGraph([0.0]), weft.read_cluster("gpu-mix-8"))
    (heft,) = weft.compare([nothing, nothing], ["heft"]).standings
    assert (heft.wins, heft.mean_ratio) == (2, 1.0)


class Overlapping:
    """Everything at once, which no device can do."""

    name = "overlapping"

    def plan(self, problem: weft.Problem, *, seed: int = 0, limit: object = None) -> weft.Schedule:
        good = weft.schedule(problem, "heft").schedule
        return replace(good, start=good.start * 0, finish=good.finish - good.start)


def test_compare_says_nothing_of_the_quality_of_an_invalid_plan():
    found = weft.compare(PIPELINE, ["heft", Overlapping()], cluster="gpu-mix-8")
    assert str(found).splitlines()[-1].endswith("s, NOT VALID")


def test_compare_ends_with_1_where_a_schedule_breaks_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    text = Path(__file__).read_text(encoding="utf-8")
    (tmp_path / "wrong.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = ["compare", str(PIPELINE), "--cluster", "gpu-mix-8", "-s", "heft,wrong.py:Overlapping"]
    assert main(words) == 1
    line = next(line for line in capsys.readouterr().out.splitlines() if "NOT VALID" in line)
    assert line.split()[2] == "-"
    assert main([*words, "--json"]) == 1


def test_result_gives_the_document_of_the_verb(capsys: pytest.CaptureFixture[str]):
    assert main(["schedule", str(PIPELINE), "--cluster", "gpu-mix-8", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    result = weft.schedule(weft.read_problem(PIPELINE, cluster="gpu-mix-8"), "heft")
    assert result.to_dict(valid=True) | {"seconds": 0.0} == printed | {"seconds": 0.0}
