"""``weft.evaluate``: names and settings in, an evaluation out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weft
from weft import scenarios
from weft.cli import main
from weft.errors import InputError

SMALL = {"tasks": 12}


def without_seconds(document: dict) -> dict:
    return document | {"rows": [row | {"seconds": 0.0} for row in document["rows"]]}


def test_evaluate_document_is_that_of_the_verb(capsys: pytest.CaptureFixture[str]):
    words = "evaluate workflows --set tasks=12 --set ccr=[0.5,2] --problems 2 --seeds 2 --seed 3 -s heft,peft"
    main([*words.split(), "--json"])
    printed = json.loads(capsys.readouterr().out)
    settings = {**SMALL, "ccr": [0.5, 2]}
    found = weft.evaluate("workflows", ["heft", "peft"], settings=settings, problems=2, seeds=(3, 4))
    assert without_seconds(found.to_dict()) == without_seconds(printed)
    assert str(found).startswith("ccr=0.5: heft ")


def test_evaluate_takes_a_scenario_that_is_made():
    made = scenarios.scenario("workflows", **SMALL)
    of_name = weft.evaluate("workflows", ["heft", "random"], settings=SMALL, problems=2)
    assert weft.evaluate(made, ["heft", "random"], problems=2).rows == of_name.rows
    with pytest.raises(InputError, match="expected no files, settings or cluster beside scenarios"):
        weft.evaluate(made, settings=SMALL)


def test_evaluate_keeps_and_finds_its_rows(tmp_path: Path):
    asked = {"settings": SMALL, "problems": 2, "out": tmp_path / "sweep"}
    first = weft.evaluate("workflows", ["heft", "peft"], **asked)
    calls: list[tuple[int, int]] = []
    again = weft.evaluate("workflows", ["heft", "peft"], **asked, progress=lambda *done: calls.append(done))
    assert (again.rows_hash, calls) == (first.rows_hash, [])
