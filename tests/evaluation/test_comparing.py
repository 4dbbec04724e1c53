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
    for row in (*made["rows"], *printed["rows"]):  # type: ignore[misc]
        row["seconds"] = 0.0
    assert made == printed
