"""Schedule documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.catalog import Result
from weft.errors import InputError
from weft.io.files import read_schedule, schedule_document, write_schedule
from weft.io.schedules import schedule_from_document
from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem
from weft.model.schedule import Schedule

GOOD = {"task": "root", "device": "cpu-0", "start": 0, "finish": 1}


@pytest.fixture
def plan(fork_problem: Problem) -> Schedule:
    """Root twice, children on either device."""
    return Schedule(
        fork_problem, [0, 1, 0, 2], [0, 0, 1, 1], [0.0, 1.0, 0.0, 1.0], [1.0, 11.0, 1.0, 11.0], [0, 0, 1, 0]
    )


def test_document_is_what_the_command_prints(plan: Schedule):
    document = schedule_document(Result("deft", plan, 0.5, 7, True, "all well"), valid=True)
    placements = document.pop("placements")
    assert document == {
        "schema": "weft/schedule/1",
        "weft": weft.__version__,
        "seed": 7,
        "scheduler": "deft",
        "makespan": 11.0,
        "lower_bound": 11.0,
        "bound_by": "critical-path",
        "bound_copies": True,
        "gap_percent": 0.0,
        "seconds": 0.5,
        "valid": True,
        "repeatable": True,
        "note": "all well",
        "time_unit": "s",
    }
    assert placements[0] == {
        "job": "fork",
        "task": "root",
        "copy": 0,
        "device": "cpu-0",
        "start": 0.0,
        "finish": 1.0,
    }
    assert [p["copy"] for p in placements] == [0, 1, 0, 0]


def test_document_of_a_bare_schedule_leaves_its_origin_open(plan: Schedule):
    document = schedule_document(plan, scheduler="mine")
    assert (document["scheduler"], document["seed"], document["valid"]) == ("mine", None, None)


def test_written_schedule_reads_back_the_same(plan: Schedule, tmp_path: Path):
    write_schedule(plan, tmp_path / "s.json")
    again = read_schedule(tmp_path / "s.json", plan.problem)
    for key in ("task", "device", "start", "finish", "copy", "attempt", "batch", "outcome"):
        assert np.array_equal(getattr(again, key), getattr(plan, key)), key


def test_written_rows_keep_what_is_unusual(fork_problem: Problem, tmp_path: Path):
    plan = Schedule(
        fork_problem,
        [0, 1, 2],
        [0, 0, -1],
        [0.0, 1.0, 0.0],
        [1.0, 11.0, 0.0],
        attempt=[1, 0, 0],
        batch=[3, -1, -1],
        outcome=[0, 0, 1],
        units=np.array([[1.0], [2.0], [0.0]]),
        launch=[5, 5, -1],
    )
    write_schedule(plan, tmp_path / "s.json")
    again = read_schedule(tmp_path / "s.json", fork_problem)
    for key in ("task", "device", "attempt", "batch", "outcome", "units", "launch"):
        assert np.array_equal(getattr(again, key), getattr(plan, key)), key


def test_read_takes_bare_placements_without_job_and_copy(fork_problem: Problem):
    assert schedule_from_document({"placements": [GOOD]}, fork_problem).task.tolist() == [0]


def test_schedule_of_no_tasks_survives_a_round_trip(tmp_path: Path, pair: Cluster):
    problem = Problem(TaskGraph([]), pair)
    write_schedule(Schedule(problem, [], [], [], []), tmp_path / "s.json")
    assert len(read_schedule(tmp_path / "s.json", problem)) == 0


def test_read_tells_jobs_apart(fork: TaskGraph, pair: Cluster):
    problem = Problem((Job(fork, "one"), Job(fork, "two")), pair)
    rows = [GOOD | {"job": "two"}, GOOD | {"job": "one", "device": "cpu-1"}]
    assert schedule_from_document({"placements": rows}, problem).task.tolist() == [3, 0]


@pytest.mark.parametrize(
    ("rows", "field", "message"),
    [
        ([], "placements", "no placements"),
        (None, "placements", "expected a list, got nothing"),
        ([1], "placements[0]", "expected an object, got 1"),
        ([GOOD, GOOD | {"task": "rot"}], "placements[1].task", "got unknown task 'rot'"),
        ([GOOD, {"device": "cpu-0"}], "placements[1].task", "expected a task of the problem, got nothing"),
        (
            [GOOD | {"device": "gpu-0"}],
            "placements[0].device",
            r"the cluster \(cpu-0, cpu-1\), got unknown device 'gpu-0'",
        ),
        ([GOOD | {"device": 3}], "placements[0].device", "got unknown device 3"),
        ([GOOD | {"job": "other"}], "placements[0].job", "got unknown job 'other'"),
        ([GOOD, GOOD], "placements[1]", r"task 'root' copy 0 is placed twice, first in placements\[0\]"),
        ([GOOD | {"start": "0"}], "placements[0].start", "expected a finite number, got '0'"),
        (
            [{k: v for k, v in GOOD.items() if k != "finish"}],
            "placements[0].finish",
            "a finite number, got nothing",
        ),
        ([GOOD | {"copy": 0.5}], "placements[0].copy", "expected a whole number, got 0.5"),
        ([GOOD | {"copy": -1}], "placements[0].copy", ">= 0, got -1"),
        ([GOOD | {"start": True}], "placements[0].start", "got True"),
        (
            [GOOD | {"outcome": "lost"}],
            "placements[0].outcome",
            "expected one of done, skipped, expired, aborted",
        ),
        ([GOOD | {"units": 3}], "placements[0].units", "expected a list of 0 numbers"),
    ],
)
def test_read_names_the_placement_that_is_wrong(
    rows: Any, field: str, message: str, fork_problem: Problem, tmp_path: Path
):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({} if rows is None else {"placements": rows}))
    with pytest.raises(InputError, match=message) as caught:
        read_schedule(path, fork_problem)
    assert (caught.value.file, caught.value.field) == (str(path), field)


def test_read_refuses_another_schema(fork_problem: Problem):
    with pytest.raises(InputError, match="expected 'weft/schedule/1', got 'weft/graph/1'"):
        schedule_from_document({"schema": "weft/graph/1", "placements": [GOOD]}, fork_problem)


def test_read_needs_the_job_where_there_are_several(fork: TaskGraph, pair: Cluster):
    problem = Problem((Job(fork, "one"), Job(fork, "other")), pair)
    with pytest.raises(InputError, match="expected a job of the problem, got nothing"):
        schedule_from_document({"placements": [GOOD]}, problem)
