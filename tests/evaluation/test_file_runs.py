"""A user's own files in every kind of run: planned, dispatched as they are, or arriving at a load."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from weft.catalog import task_dispatcher
from weft.cli import main
from weft.errors import InputError
from weft.evaluation.sweep.request import evaluate
from weft.io.files import read_problem
from weft.kinds import PROBLEMS, TASKS
from weft.model.generate import generate
from weft.model.problem import realise
from weft.scenarios import file_scenarios, scenario
from weft.schedulers.dispatchers.tasks import run_one

CLUSTER = "gpu-mix-8"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    from weft.io.files import write_graph

    found = []
    for seed in range(3):
        path = tmp_path / f"wf{seed}.json"
        write_graph(generate("layered", 12, seed=seed), path)
        found.append(str(path))
    return found


@pytest.fixture
def released(tmp_path: Path, files: list[str]) -> str:
    """A problem file whose jobs come later."""
    jobs = [{"graph": file, "name": f"j{k}", "release": 40.0 * k} for k, file in enumerate(files)]
    path = tmp_path / "released.json"
    path.write_text(json.dumps({"schema": "weft/problem/1", "jobs": jobs, "cluster": CLUSTER}))
    return str(path)


def test_files_keep_arriving_at_a_load(files: list[str]):
    found = evaluate(
        files,
        ["fifo", "srw", "priced"],
        settings={"load": 0.8, "arrivals": "poisson", "jobs": 6},
        cluster=CLUSTER,
        seeds=3,
        check="all",
    )
    assert found.sweep.kind is TASKS and found.metric == "mean_jct" and found.baseline == "srw"
    assert found.sweep.num_samples == 3
    assert len(found.rows) == 9 and all(row.valid for row in found.rows)


def test_files_that_arrive_are_drawn_from_all_and_meet_their_load(files: list[str]):
    slow, fast = file_scenarios(files, {"load": [0.5, 1.0], "jobs": 30, "arrivals": "periodic"}, CLUSTER)
    one, two = slow.dispatched("test", 0, 0), fast.dispatched("test", 0, 0)
    assert {job.name.rpartition("-")[0] for job in one.jobs} == {
        job.name.rpartition("-")[0] for job in two.jobs
    }
    assert len({job.graph.name for job in one.jobs}) == 3
    assert one.jobs[-1].release == pytest.approx(2 * two.jobs[-1].release)
    other = slow.dispatched("test", 0, 1)
    assert [job.graph.name for job in other.jobs] != [job.graph.name for job in one.jobs]


def test_problem_file_with_releases_is_dispatched_as_it_is(released: str):
    found = evaluate([released], ["fifo", "priced"], check="all")
    assert found.sweep.kind is TASKS
    problem = read_problem(released)
    for row in found.rows:
        plan = run_one(task_dispatcher(row.scheduler), problem, realise(problem, 0))
        assert row.metrics["mean_jct"] == plan.mean_jct and row.valid


def test_problem_file_with_releases_is_dispatched_unless_a_name_only_plans(released: str):
    assert evaluate([released]).sweep.kind is TASKS
    assert evaluate([released], ["heft"]).sweep.kind is TASKS
    assert evaluate([released], ["heft"], settings={"run": "plan"}).sweep.kind is PROBLEMS


def test_stream_of_files_keeps_their_noise(tmp_path: Path, files: list[str]):
    path = tmp_path / "noisy.json"
    document = {"schema": "weft/problem/1", "jobs": [{"graph": files[0]}], "cluster": CLUSTER, "noise": 0.3}
    path.write_text(json.dumps(document))
    (cell,) = file_scenarios([str(path)], {"load": 0.5, "jobs": 3})
    assert cell.dispatched("test", 0, 0).noise == 0.3


@pytest.mark.parametrize("key", ["jobs", "arrivals"])
def test_how_jobs_arrive_is_refused_without_a_load(files: list[str], key: str):
    with pytest.raises(InputError, match="does nothing without a load above 0"):
        evaluate(files, ["fifo"], settings={key: {"jobs": 5, "arrivals": "once"}[key]}, cluster=CLUSTER)


def test_problem_file_with_releases_is_planned_by_planners(released: str):
    assert evaluate([released], ["heft", "cpop"], check="all").sweep.kind is PROBLEMS


def test_files_are_dispatched_where_asked_for_in_words(files: list[str]):
    heft, planned = (
        evaluate(files[:1], ["heft"], settings={"run": run}, cluster=CLUSTER).rows[0]
        for run in ("dispatch", "plan")
    )
    assert heft.metrics["mean_jct"] >= planned.metrics["makespan"] * (1 - 1e-9)


def test_planner_among_dispatchers_is_told_how_to_take_part(files: list[str]):
    with pytest.raises(InputError, match=r"cpop is a planner.*plan:cpop plans jobs as they arrive"):
        evaluate(files[:1], ["cpop", "priced"], cluster=CLUSTER)


def test_files_of_a_stream_share_a_cluster(tmp_path: Path, files: list[str]):
    paths = []
    for name in ("gpu-mix-8", "cpu-4"):
        path = tmp_path / f"{name}.json"
        document = {"schema": "weft/problem/1", "jobs": [{"graph": files[0]}], "cluster": name}
        path.write_text(json.dumps(document))
        paths.append(str(path))
    with pytest.raises(InputError, match=r"expected the cluster of .*, or one for all by --cluster"):
        evaluate(paths, ["fifo"], settings={"load": 0.5})


def test_recipe_of_files_needs_no_tables_of_settings(tmp_path: Path, files: list[str]):
    text = (
        f'generator = "files"\nfiles = {json.dumps(files)}\ncluster = "{CLUSTER}"\n[settings]\nload = 0.8\n'
    )
    (tmp_path / "mine.toml").write_text(text)
    chosen = scenario(tmp_path / "mine.toml", jobs=4)
    assert chosen.kind is TASKS and chosen.schedulers == TASKS.schedulers
    assert len(chosen.dispatched("test", 0, 0).jobs) == 4


@pytest.mark.parametrize("verb", ["schedule", "compare"])
def test_dispatcher_where_a_plan_is_wanted_says_what_it_is(
    verb: str, files: list[str], capsys: pytest.CaptureFixture[str]
):
    assert main([verb, files[0], "-c", CLUSTER, "-s", "fifo"]) == 2
    assert capsys.readouterr().err == (
        "weft: scheduler: fifo is a dispatcher: it decides while jobs arrive and run, and makes no plan; "
        "weft evaluate FILE -s fifo runs it, or workflows with --set load=0.8\n"
    )


def test_command_line_streams_files(files: list[str], capsys: pytest.CaptureFixture[str]):
    words = ["--set", "load=0.8", "--set", "arrivals=poisson", "--set", "jobs=4", "--seeds", "1", "--json"]
    assert main(["evaluate", *files, "-c", CLUSTER, "-s", "fifo,srw,priced", *words]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["scheduler"] for row in rows] == ["fifo", "srw", "priced"]
    assert np.isfinite([row["mean_jct"] for row in rows]).all()
