"""The tables of workflows: what the clairvoyant rows know, and rows that are kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from benchmarks import _finetune
from benchmarks import _workflow_tables as tables
from benchmarks._clairvoyant import best_found, cells_of, checked, of_stream, rows_file
from benchmarks._noisy import NOISE, foreseen
from benchmarks._workflow_tables import kept_rows
from benchmarks.workflows import main
from weft import catalog
from weft.errors import InputError
from weft.evaluation.sweep.checking import digest
from weft.evaluation.sweep.plan_runs import realised_problem
from weft.model.problem import expected, realise
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import run_one
from weft.training.es.learner import made_ready

ES = np.array(catalog.task_dispatcher("es").weights)


def test_row_of_a_stream_is_that_of_the_sweep():
    row = of_stream("0.8 1 0 4", jobs=4)
    problem = scenario("workflows", load=0.8, jobs=4, noise=0.2).dispatched("test", 0, 1)
    world = realise(problem, digest("jobs", 0, "test/0", 1))
    for name in ("es", "priced"):
        assert row[name] == run_one(catalog.task_dispatcher(name), problem, world, 1).mean_jct
    assert row["bound"] < row["tuned"] == row["es"]  # nothing was tried


def test_search_never_ends_above_where_it_began_and_repeats():
    problem = scenario("workflows", load=0.95, jobs=6, tasks=12, noise=0.2).dispatched("test", 0, 0)
    episode = made_ready(problem, 1, ES, (1.0, 0.0, 0.0))
    first, second = (
        checked(episode, best_found(episode, ES, generations=3, population=6, seed=0)) for _ in range(2)
    )
    assert first == second <= episode.reference[0]


def test_cells_compare_with_both_rules():
    rows = [
        {"priced": 10.0, "bound": 5.0, "es": 9.0, "tuned": 8.1, "seen": 7.2, "tuned_seen": 6.3}
        for _ in range(2)
    ]
    cells = dict(cells_of(rows))
    assert cells["`es`, against `priced`"] == "-10.0 (-10.0 to -10.0)"
    assert cells["`es` that sees the run times, against `es`"].startswith("-20.0")
    assert cells["`priced`, over the bound, ratio"] == "2.00"


def test_rows_are_kept_as_they_end_and_not_measured_again(tmp_path: Path):
    path, asked = tmp_path / "rows.jsonl", []

    def measure(key: str) -> dict[str, object]:
        asked.append(key)
        return {"key": key, "value": len(asked)}

    kept_rows(path, ["a", "b"], measure, 1)
    rows = kept_rows(path, ["b", "c"], measure, 1)
    assert asked == ["a", "b", "c"]
    assert rows == {"b": {"key": "b", "value": 2}, "c": {"key": "c", "value": 3}}
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["a", "b", "c"]


@pytest.mark.parametrize(("out", "file"), [("some.jsonl", "some.jsonl"), ("run", "run/clairvoyant.jsonl")])
def test_out_names_a_file_or_a_folder(out: str, file: str):
    assert rows_file(out) == Path(file)
    assert rows_file(None) is None


def test_clairvoyant_part_needs_no_pydantic():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('pydantic', 'typer', 'rich', 'gymnasium', 'torch')))\n"
        "import benchmarks.workflows\n"
        "from benchmarks._clairvoyant import of_stream\n"
        "print(of_stream('0.8 0 1 4', jobs=2)['key'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0.8 0 1 4"


def test_foreseen_run_times_are_those_of_the_sweep():
    rows = weft.evaluate(
        "workflows", ["heft-job"], settings={**tables.ONE, "noise": NOISE, "ccr": 1.0}, seeds=2
    ).to_dict()["rows"]
    chosen = scenario("workflows", **tables.ONE, noise=NOISE, ccr=1.0)
    for row in rows:
        seed = int(row["seed"])
        problem = chosen.dispatched("test", 0, seed)
        world = realise(problem, digest("jobs", 0, "test/0", seed))
        assert row["makespan"] == run_one(catalog.task_dispatcher("heft-job"), problem, world, seed).makespan
        told = realised_problem(problem, world)
        plan = run_one(catalog.task_dispatcher("plan:heft"), told, expected(told), seed)
        assert foreseen(f"1 {seed}", ("plan:heft",))["plan:heft"] == plan.makespan


def test_noise_of_a_folder_of_runs_has_intervals_over_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2):
        weft.train(
            "workflows-es-single", Path("single", f"seed-{seed}"), seed=seed,
            settings={"generations": 1, "episodes": 1, "validation.seeds": 1, "tasks": 6},
        )  # fmt: skip
    assert main(["--part", "noise", "--seeds", "2", "--ccr", "1", "--more", "single"]) == 0
    shown = capsys.readouterr().out
    line = next(line for line in shown.splitlines() if line.startswith("| `single` against the kept plan"))
    assert line.count(" to ") == 1
    assert "`plan:search` that knows the run times, against dispatched ranks" in shown


def test_streams_are_compared_per_ratio_and_load(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    asked: list[dict[str, object]] = []

    class FewRows:
        def __init__(self, options: object, part: str, names: object, **settings: object) -> None:
            asked.append(settings)

        def of(self, metric: str, name: str, ccr: float, load: float) -> np.ndarray:
            return np.array([1.0, 2.0]) * (1.0 + ccr / 10 * (name == "es"))

    monkeypatch.setattr(tables, "Rows", FewRows)
    assert main(["--part", "streams", "--ccr", "1", "5"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| `es`, mean |")]
    assert [line.count("+10.0 (") for line in lines] == [3, 0] * 3
    assert [line.count("+50.0 (") for line in lines] == [0, 3] * 3
    assert main(["--part", "streams"]) == 0
    assert [one["ccr"] for one in asked] == [[1.0, 5.0]] * 3 + [[1.0]] * 3


def test_files_for_fine_tuning_are_split_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    for name in "abcd":
        (tmp_path / f"{name}.json").write_text("{}", "utf-8")
    asked: list[list[str]] = []

    class FewRows:
        def __init__(
            self, options: object, part: str, names: object, what: list[str], **more: object
        ) -> None:
            asked.append([Path(file).stem for file in what])

        def of(self, metric: str, name: str, load: float) -> np.ndarray:
            return np.array([1.0, 2.0]) * (0.9 if name == "fine" else 1.0)

    monkeypatch.setattr(_finetune, "Rows", FewRows)
    monkeypatch.setattr(_finetune, "tuned", lambda folder, files: ("fine", "whole"))
    assert main(["--part", "finetune", "--data", str(tmp_path)]) == 0
    assert asked == [["a", "b", "d"], ["c"]]
    assert "| fine-tuned against tuned from the start | -10.0 (" in capsys.readouterr().out


def test_applications_are_compared_seen_and_unseen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    asked: list[object] = []

    class FewRows:
        def __init__(self, options: object, part: str, names: object, **settings: object) -> None:
            asked.append(settings["family"])

        def of(self, metric: str, name: str, load: float) -> np.ndarray:
            return np.array([1.0, 2.0]) * (0.9 if name == "es" else 1.0)

    monkeypatch.setattr(tables, "Rows", FewRows)
    assert main(["--part", "applications"]) == 0
    assert asked == list(tables.APPLICATIONS.values())
    assert capsys.readouterr().out.count("| `es`, mean | -10.0 (") == 2


def test_fine_tuning_needs_three_files(tmp_path: Path):
    with pytest.raises(InputError, match=r"--data: expected a folder with at least three workflow files"):
        main(["--part", "finetune", "--data", str(tmp_path)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ccr", "nan"], "--ccr: expected numbers >= 0, got nan"),
        (["--part", "streams", "--ccr", "1", "-1"], "--ccr: expected numbers >= 0, got -1.0"),
        (["--ccr", "1"], "--ccr: only --part streams, noise, optimum, large take it"),
        (["--seeds", "0"], "--seeds: expected a whole number >= 1, got 0"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(arguments: list[str], message: str):
    with pytest.raises(InputError) as error:
        main(arguments)
    assert str(error.value) == message
