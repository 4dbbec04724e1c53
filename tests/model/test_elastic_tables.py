"""Speed tables over several resources, rates that change with progress, and the cost of changes, in graphs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from weft.errors import InputError
from weft.io.native import graph_document, graph_from_document
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.model.validate import validate

TABLE = [[[0.0, 0.0, 0.0], [0.0, 1.0, 2.0], [0.0, 1.0, 4.0]]]
"""The rate with CPUs x GPUs: at least one of each; two GPUs are fast with two CPUs."""


def graph_of(**fields) -> TaskGraph:
    return TaskGraph([8.0], curves=TABLE, curve=[0], resources=("cpu", "gpu"), demands=[[1.0, 1.0]], **fields)


def problem_of(graph: TaskGraph) -> Problem:
    return Problem(graph, Cluster.uniform([DeviceClass("node", capacity={"cpu": 2.0, "gpu": 2.0})], [1]))


def schedule_of(problem: Problem, rows: list[tuple[float, float, tuple[float, float]]]) -> Schedule:
    count = len(rows)
    return Schedule(
        problem,
        task=np.zeros(count, np.int64),
        device=np.zeros(count, np.int64),
        start=np.array([row[0] for row in rows]),
        finish=np.array([row[1] for row in rows]),
        units=np.array([row[2] for row in rows]),
    )


@pytest.mark.parametrize(
    ("fields", "rows", "is_valid"),
    [
        ({}, [(0, 8, (1, 1))], True),
        ({}, [(0, 4, (1, 2))], True),
        ({}, [(0, 2, (2, 2))], True),
        ({}, [(0, 2, (1, 2))], False),
        ({}, [(0, 4, (1, 1)), (4, 5, (2, 2))], True),
        ({"switching": [1.0]}, [(0, 4, (1, 1)), (4, 5, (2, 2))], False),
        ({"switching": [1.0]}, [(0, 4, (1, 1)), (4, 6, (2, 2))], True),
        ({"courses": [[2.0, 0.5]]}, [(0, 8, (1, 1))], False),
        ({"courses": [[2.0, 0.5]]}, [(0, 10, (1, 1))], True),
        ({}, [(0, 4, (1, 3))], False),
        ({}, [(0, 5, (0, 1)), (5, 13, (1, 1))], True),
    ],
)
def test_validator_reads_tables_courses_and_switching(fields, rows, is_valid: bool):
    found = schedule_of(problem_of(graph_of(**fields)), rows)
    assert (list(validate(found)) == []) is is_valid


def test_best_run_times_take_the_best_units_over_the_whole_course():
    assert problem_of(graph_of()).best_run_times.tolist() == [2.0]
    assert problem_of(graph_of(courses=[[2.0, 0.5]])).best_run_times.tolist() == [2.5]
    assert problem_of(graph_of(jitter=[1.0])).best_run_times.tolist() == [8.0 / 5.0]


def test_files_keep_tables_courses_switching_and_jitter():
    graph = graph_of(courses=[[2.0, 0.5]], switching=[1.0], jitter=[0.5])
    again = graph_from_document(graph_document(graph))
    for key in ("curves", "courses", "switching", "jitter"):
        assert getattr(again, key).tolist() == getattr(graph, key).tolist()
    plain = graph_document(TaskGraph([1.0], curves=[[1.0, 2.0]], curve=[0]))
    assert not {"courses", "switching", "jitter"} & set(plain)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TaskGraph([1.0], curves=TABLE, curve=[0]), "curves: expected one axis, or one for each of 0 resources, got 2"),
        (lambda: graph_of(courses=[[1.0], [1.0]]), "courses: expected a row for each of 1 curves"),
        (lambda: graph_of(courses=[[0.0]]), "courses: expected finite factors > 0"),
        (lambda: graph_of(switching=[-1.0]), "switching: expected finite times >= 0"),
        (lambda: graph_of(jitter=[float("nan")]), "jitter: expected finite rates >= 0"),
        (lambda: graph_of(jitter=[0.1, 0.2]), "jitter: expected 1 values, got shape (2,)"),
    ],
)  # fmt: skip
def test_wrong_tables_are_refused(make, said: str):
    with pytest.raises(InputError) as raised:
        make()
    assert said in str(raised.value)


@pytest.mark.parametrize("key", ["switching", "jitter"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3, "expected a list, one number for each curve, got 3"),
        ([-1], "[0].value: expected a finite number >= 0, got -1"),
        (["x"], "[0].value: expected a finite number >= 0, got 'x'"),
    ],
)
def test_files_with_wrong_numbers_per_curve_are_refused(key: str, value: object, said: str):
    document = graph_document(graph_of()) | {key: value}
    with pytest.raises(InputError) as raised:
        graph_from_document(document)
    assert str(raised.value).startswith(key) and said in str(raised.value)


def test_neutral_values_change_nothing():
    one = TaskGraph([4.0], curves=[[1.0, 2.0]], curve=[0])
    other = TaskGraph(
        [4.0], curves=[[1.0, 2.0]], curve=[0], courses=[[1.0, 1.0]], switching=[0.0], jitter=[0.0]
    )
    assert one.best_rates.tolist() == other.best_rates.tolist()
    assert dataclasses.is_dataclass(one)
