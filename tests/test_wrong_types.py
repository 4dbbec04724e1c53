"""Public functions called with arguments of other types: weft's own error, one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import weft

PIPELINE = str(Path(__file__).resolve().parent.parent / "examples" / "pipeline.json")
PROBLEM = weft.Problem(weft.TaskGraph([1.0]), weft.read_cluster("cpu-4"))
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: weft.gantt(3), "plans: expected a schedule, a result, or schedules by their titles, got int"),
    (lambda: weft.gantt(PROBLEM), "plans: expected a schedule, .* got Problem"),
    (lambda: weft.gantt({"heft": 3}), "plans: expected a schedule, .* got int"),
    (lambda: weft.validate(PROBLEM), "schedule: expected a weft.Schedule .* got Problem"),
    (lambda: weft.validate("plan.json"), "schedule: expected a weft.Schedule .* got str"),
    (
        lambda: weft.validate(weft.schedule(PROBLEM)),
        r"schedule: .*\(of a result, result.schedule\), got Result",
    ),
    (lambda: weft.train(3), "recipe: expected the name of a recipe, a TOML file or a recipe, got int"),
    (lambda: weft.train({"algorithm": "ppo"}), "recipe: expected the name of a recipe, .* got dict"),
    (lambda: weft.train("conditional", seeds=3), "seeds: expected whole numbers, got int"),
    (lambda: weft.train("conditional", seeds=["a"]), "seeds: expected whole numbers, got str"),
    (lambda: weft.report(3), "sources: expected folders or files to report on, got int"),
    (lambda: weft.report([PROBLEM]), "sources: expected folders or files to report on, got Problem"),
    (lambda: weft.report([]), "sources: expected folders or files to report on, got none"),
    (lambda: weft.report("sweep", out=3), "out: expected a path that ends in .html or .md, got int"),
    (lambda: weft.compare(3), "problems: expected problems or files, got int"),
    (lambda: weft.compare([3]), "problems: expected problems or files, got int"),
    (lambda: weft.compare(PROBLEM, 3), "schedulers: expected schedulers, got int"),
    (lambda: weft.show(None), "source: expected a problem, a graph or a file, got NoneType"),
    (lambda: weft.read_graph(None), "path: expected the name of a file, got NoneType"),
    (lambda: weft.read_problem(3), "path: expected the name of a file, got int"),
    (lambda: weft.read_problem(PIPELINE, 3), "cluster: expected the name of a cluster or of a file, got int"),
    (lambda: weft.schedule(PROBLEM, budget="2s"), "budget: expected a number, got str"),
    (lambda: weft.schedule(PIPELINE), "problem: expected a weft.Problem, got str; read the file first"),
    (lambda: weft.evaluate(PROBLEM), "expected a scenario or files, got Problem"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_wrong_type_is_one_line_of_weft(
    call: Callable[[], object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(weft.InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
