"""``weft.evaluate``: names and settings in, an evaluation out."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

import weft
from weft import scenarios
from weft.cli import main
from weft.errors import InputError
from weft.evaluation.sweep.answers import read_evaluation
from weft.model.generate import generate
from weft.scenarios.settings import Value
from weft.schedulers.dispatchers.python_view import Device, DispatchView, ReadyTask

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


class Chain:
    """All tasks one after the other, by HEFT with another name."""

    name = "chain"

    def plan(self, problem: weft.Problem, *, seed: int = 0, limit: object = None) -> weft.Schedule:
        return weft.schedule(problem, "heft").schedule


class Doubled:
    """Small forks, judged by a figure of their own."""

    name, metric, metrics = "doubled", "doubled", ("doubled",)

    def make(self, settings: dict[str, Value], seed: int) -> weft.Problem:
        return weft.Problem(
            generate("fork-join", 6, seed=seed), weft.Cluster.uniform((weft.DeviceClass("a"),), (2,))
        )

    def measure(self, schedule: weft.Schedule) -> dict[str, float]:
        return {"doubled": 2 * schedule.makespan}


class First:
    """The first ready task on the first device that takes it."""

    name = "first"

    def decide(self, view: DispatchView) -> list[tuple[ReadyTask, Device]]:
        places = ((task, device) for task in view.ready for device in view.options(task))
        return list(itertools.islice(places, 1))


def test_evaluate_takes_planners_that_are_objects_or_classes(tmp_path: Path):
    asked = {"settings": SMALL, "problems": 2, "out": tmp_path / "sweep"}
    found = weft.evaluate("workflows", ["heft", Chain()], **asked)
    assert [row.scheduler for row in found.rows] == ["heft", "chain"] * 2
    assert found.rows[0].trace == found.rows[1].trace
    assert weft.evaluate("workflows", ["heft", Chain], **asked).rows == found.rows
    code = found.asked.recipe["code"]  # type: ignore[union-attr]
    assert len(code["chain"]) == 64


def test_evaluate_keeps_no_rows_of_objects_that_hold_values(tmp_path: Path):
    one = Chain()
    one.depth = 3  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"out: rows of .* are not kept, for it holds values"):
        weft.evaluate("workflows", [one], settings=SMALL, out=tmp_path / "sweep")


def test_evaluate_takes_a_generator_with_metrics_of_its_own():
    found = weft.evaluate(Doubled(), "heft", problems=2)
    assert found.metric == "doubled"
    assert all(row.metrics["doubled"] == 2 * row.metrics["makespan"] for row in found.rows)
    with pytest.raises(InputError, match="expected a scenario or files, got int"):
        weft.evaluate(5, "heft")  # type: ignore[arg-type]


def test_evaluate_takes_dispatchers_that_are_objects():
    settings = {"tasks": 6, "jobs": 3, "load": 0.5}
    found = weft.evaluate("workflows", ["fifo", First()], settings=settings, check="all", seeds=2)
    assert found.sound == ("fifo", "first")


def test_evaluate_refuses_objects_it_cannot_tell_apart_or_send():
    named = Chain()
    named.name = "heft"
    with pytest.raises(InputError, match="'heft' is a name of weft's own"):
        weft.evaluate("workflows", [named], settings=SMALL)
    with pytest.raises(InputError, match="scheduler: expected an object with a text 'name', got <object"):
        weft.evaluate("workflows", [object()], settings=SMALL)  # type: ignore[list-item]
    with pytest.raises(InputError, match="different names, got 'chain' twice"):
        weft.evaluate("workflows", [Chain(), Chain()], settings=SMALL)
    with pytest.raises(InputError, match="workers: expected 1 with schedulers that are objects, got 2"):
        weft.evaluate("workflows", [Chain()], settings=SMALL, workers=2)


def test_evaluate_judges_a_scenario_by_its_own_metric(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(scenarios.recipe_text("workflows").replace('"makespan"', '"weighted_jct"'), "utf-8")
    found = weft.evaluate(path, ["heft", "random"], settings=SMALL, problems=2, out=tmp_path / "sweep")
    assert found.metric == "weighted_jct"
    assert found.rows[0].to_dict()["weighted_jct"] == found.rows[0]["weighted_jct"] > 0.0
    again = read_evaluation(tmp_path / "sweep")
    assert (again.metric, again.summary, again.against) == (found.metric, found.summary, found.against)
    assert (again.rows_hash, again.seconds) == (found.rows_hash, found.seconds)
