"""Sweeps of allocators over edge scenarios."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from weft import catalog
from weft.errors import InputError
from weft.evaluation.sweep.elastic_runs import least_mean_time
from weft.kinds import ELASTIC
from weft.model.elastic_oracle import first_fault
from weft.model.elastic_run import CLUSTER, STEP, UNITS
from weft.model.elastic_schedule import schedule_of
from weft.scenarios import parse_assignments, scenario
from weft.scenarios.scenario import ALLOCATORS_OF_FILES
from weft.schedulers.allocators.rules import static_10
from weft.schedulers.allocators.running import run_all

NAMES = ("optimus", "tiresias", "static-10", "min", "random")


def test_evaluate_compares_allocators_with_intervals_and_valid_rows():
    found = weft.evaluate("edge-single-3", NAMES, settings={"tasks": 60}, seeds=6)
    assert found.kind is ELASTIC and found.metric == "mean_completion" and found.unit == "steps"
    assert len(found.rows) == 30
    assert all(row.valid for row in found.rows)
    means = {one.scheduler: one for one in found.summary if one.metric == "mean_completion"}
    assert means["static-10"].mean < means["min"].mean
    assert means["static-10"].low < means["static-10"].mean < means["static-10"].high
    for row in found.rows:
        assert row["lower_bound"] <= row["mean_completion"]
        assert 0 < row["gpu_use"] <= 1 and row["median_completion"] <= row["p95_completion"]
        assert row["img on c0"] + row["lm on c0"] > 0


def test_same_sweep_same_rows_whatever_the_order():
    one = weft.evaluate("edge-multi-3", ("static-10", "random"), settings={"tasks": 40}, seeds=3)
    other = weft.evaluate("edge-multi-3", ("random", "static-10"), settings={"tasks": 40}, seeds=3)
    assert {row.key: row.trace for row in one.rows} == {row.key: row.trace for row in other.rows}


def test_settings_are_swept(tmp_path: Path):
    found = weft.evaluate(
        "edge-multi-3",
        ("static-10", "min"),
        settings={"tasks": 40, "arrival_rate": [2.0, 3.0]},
        seeds=2,
        out=tmp_path,
    )
    assert [cell.label for cell in found.cells] == ["arrival_rate=2", "arrival_rate=3"]
    page = tmp_path / "page.html"
    weft.report([tmp_path], out=page)
    assert "mean completion time" in page.read_text(encoding="utf-8")


def test_a_users_table_gives_the_types(tmp_path: Path):
    rows = [f"train,{c},{g},{40 / g}" for c in (1, 2) for g in (1, 2)] + [
        f"serve,{c},{g},10" for c in (1, 2) for g in (1, 2)
    ]
    (tmp_path / "speeds.csv").write_text("\n".join(["task,cpu,gpu,seconds", *rows]))
    settings = {
        "types": "table", "table": str(tmp_path / "speeds.csv"), "least": "1x1", "most": "2x2",
        "capacity": ["4x4"], "tasks": 20, "noise": 0,
    }  # fmt: skip
    chosen = scenario("edge-multi-3", **settings)
    problem = chosen.elastic("test", 0)
    assert [kind.name for kind in problem.types] == ["train", "serve"]
    assert problem.types[0].steps((1, 2)) == 2 and problem.types[1].steps((1, 1)) == 1
    assert chosen.inputs == (str(tmp_path / "speeds.csv"),)


def test_a_table_may_state_memory_and_has_losses_where_they_are_asked_for(tmp_path: Path):
    file = tmp_path / "speeds.csv"
    file.write_text("task,cpu,gpu,memory,seconds\ntrain,1,1,8,40\ntrain,4,1,8,10\n")
    settings = {"types": "table", "table": str(file), "least": "1x1", "most": "4x1", "noise": 0}
    problem = scenario("edge-multi-3", **settings, capacity=["4x4x16"]).elastic("test", 0)
    assert problem.types[0].least == (1, 1, 8) and problem.types[0].most == (4, 1, 8)
    assert problem.types[0].steps((2, 1, 8)) == 2  # 0.5 per step, halfway between 0.25 and 1 by a third
    with pytest.raises(InputError, match="column memory: expected capacities with memory, such as 16x16x64"):
        scenario("edge-multi-3", **settings, capacity=["4x4"]).elastic("test", 0)
    with pytest.raises(InputError, match=r"settings\.progress: expected a column loss, for progress=loss"):
        scenario("edge-multi-3", **settings, capacity=["4x4x16"], progress="loss").elastic("test", 0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"capacity": "16"}, "settings.capacity: expected CPUs x GPUs such as 16x16, got '16'"),
        ({"capacity": ["8x8", "4x4"]}, "settings.capacity: expected one or 3 capacities, got 2"),
        ({"types": "table"}, "settings.table: expected a file, got ''"),
        (
            {"capacity": ["1x1"]},
            "settings.capacity: expected at least 2x1 for every cluster, what a task needs (settings.least), got 1x1",
        ),
        ({"capacity": ["16x16", "16x16", "16x0"]}, "(settings.least), got 16x0"),
        ({"capacity": 16}, "settings.capacity: expected a text or a list of texts such as '16x16', got 16"),
        ({"stepping": "both"}, "settings.stepping: expected one of single, multi, got 'both'"),
        (
            {"progress": "loss"},
            "settings.progress: expected constant, for types=synthetic have no losses, got 'loss'",
        ),
    ],
)
def test_wrong_settings_are_explained(settings: dict[str, object], said: str):
    with pytest.raises(InputError) as raised:
        scenario("edge-single-3", **settings).elastic("test", 0)
    assert said in str(raised.value)


def test_elastic_scenarios_make_no_graphs():
    with pytest.raises(InputError, match="has elastic tasks, which allocators place"):
        scenario("edge-single-3").problem("test", 0)
    with pytest.raises(InputError, match="heft"):
        weft.evaluate("edge-single-3", ("heft",))


def test_the_bound_is_what_tasks_take_alone():
    run = run_all(static_10, scenario("edge-multi-3", tasks=80).elastic("test", 0), [3])[0]
    alone = np.where(run.kind == 0, 4, 2)
    assert least_mean_time(run) == pytest.approx(alone.mean())


def test_shapes_of_the_test_bed():
    problem = scenario("edge-testbed-3").elastic("test", 0)
    vision, language, speech = problem.types
    assert vision.gain((16, 1)) > 1.5 * vision.gain((2, 1))  # CPUs help
    assert vision.gain((2, 8)) < 0.6 * vision.gain((2, 1))  # GPUs hurt where CPUs are few
    assert language.gain((2, 8)) > 3.0 * language.gain((2, 1))
    assert speech.gain((16, 8)) < 1.2 * speech.gain((2, 1))
    curved = scenario("edge-testbed-3", progress="loss").elastic("test", 0).types[1]
    assert curved.factor(0.0) > 1.0 > curved.factor(0.99)
    assert abs(curved.steps((2, 8)) - language.steps((2, 8))) <= 1


def test_pointer_tasks_take_one_or_ten_steps_whatever_they_are_given():
    problem = scenario("edge-pointer").elastic("test", 0)
    assert [kind.steps((3, 3)) for kind in problem.types] == [1, 10]
    assert [kind.steps((16, 16)) for kind in problem.types] == [1, 10]


@pytest.mark.parametrize("types", ["synthetic", "test-bed", "amdahl", "pointer"])
def test_memory_is_a_third_resource_that_is_rigid(types: str):
    """Where every task needs half of a cluster's memory, two run at once at most."""
    settings = {"types": types, "capacity": ["16x16x8"], "least": "2x1x4", "most": "16x8x4", "tasks": 30}
    problem = scenario("edge-multi-3", **settings).elastic("test", 0)
    assert problem.resources == ("cpu", "gpu", "memory")
    run = run_all(catalog.find("static-5", ELASTIC), problem, [1])[0]
    assert first_fault(run) is None
    assert (run.rows[:, UNITS + 2] == 4).all()
    steps = np.unique(run.rows[:, [STEP, CLUSTER]], axis=0, return_counts=True)[1]
    assert steps.max() == 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"capacity": ["16x16x8", "16x16", "16x16"]}, "expected memory everywhere or nowhere"),
        ({"capacity": ["16x16x8"]}, "types.img.least: expected 3 resources, got 2"),
        ({"least": "2x1x4"}, "expected as many numbers in least and most"),
        ({"least": "2"}, "expected CPUs x GPUs such as 16x16, got '2'"),
    ],
)
def test_wrong_units_are_refused(settings: dict[str, object], said: str):
    with pytest.raises(InputError, match=said):
        scenario("edge-multi-3", **settings).elastic("test", 0)


def test_units_of_none_are_not_a_number():
    assert parse_assignments(["least=0x1"]) == {"least": "0x1"}


def test_errors_in_a_table_name_its_line_and_no_problem(tmp_path: Path):
    file = tmp_path / "speeds.csv"
    file.write_text("task,cpu,gpu,seconds\na,1,1\n")
    settings = {"types": "table", "table": str(file)}
    with pytest.raises(InputError) as raised:
        weft.evaluate("edge-multi-3", ("min",), settings=settings, seeds=1)
    assert str(raised.value) == f"{file}:2: expected 4 values, got 3"


# -- files -----------------------------------------------------------------------------------------

TASKS = """
curves = [[[0, 0, 0], [0, 1, 1.8], [0, 1.1, 2.0]]]

[[tasks]]
name = "resnet"
work = 12
curve = 0
demands = { cpu = 1, gpu = 1 }

[[tasks]]
name = "index"
work = 4
demands = { cpu = 1 }
"""
MACHINES = """
[[device]]
class = "edge"
count = 2
slots = 8
capacity = { cpu = 4, gpu = 2 }
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "tasks.toml").write_text(TASKS)
    (tmp_path / "cluster.toml").write_text(MACHINES)
    return str(tmp_path / "tasks.toml"), str(tmp_path / "cluster.toml")


def test_a_users_file_of_elastic_tasks_runs_under_allocators(files: tuple[str, str]):
    found = weft.evaluate(files[0], ("optimus", "static-10", "min"), cluster=files[1], check="all")
    assert found.kind is ELASTIC and found.metric == "mean_completion" and found.unit == "steps"
    assert [row.valid for row in found.rows] == [True] * 3
    means = {row.scheduler: row.metrics["mean_completion"] for row in found.rows}
    assert means == {"optimus": 5.0, "static-10": 5.5, "min": 8.0}


def test_files_with_elastic_tasks_are_compared_under_allocators_unless_others_are_named(
    files: tuple[str, str],
):
    assert weft.evaluate(files[0], cluster=files[1]).schedulers == ALLOCATORS_OF_FILES
    with pytest.raises(InputError, match="has elastic tasks: only allocators act on them"):
        weft.evaluate(files[0], ("heft",), cluster=files[1])


def test_the_length_of_a_world_step_is_a_setting(files: tuple[str, str]):
    found = weft.evaluate(files[0], ("min",), cluster=files[1], settings={"step": 2.0})
    assert found.rows[0].metrics["mean_completion"] == 4.0


def test_a_schedule_that_breaks_a_rule_of_the_file_is_found(files: tuple[str, str], monkeypatch):
    monkeypatch.setattr(
        "weft.evaluation.sweep.elastic_runs.schedule_of", lambda *given: schedule_of(*given[:2], 0.5)
    )
    found = weft.evaluate(files[0], ("min",), cluster=files[1], check="all")
    assert found.rows[0].valid is False and "duration" in str(found.rows[0].fault)
