"""The published JSON Schemas hold for what weft writes, and refuse what it would."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from strategies import problems

from weft.io.clusters import builtin_clusters, cluster_document
from weft.io.native import graph_document
from weft.io.problems import problem_document
from weft.io.schedules import schedule_document
from weft.model.problem import Problem
from weft.model.schedule import Schedule

jsonschema = pytest.importorskip("jsonschema")
FOLDER = resources.files("weft.io")


def validator(name: str) -> Any:
    schema = json.loads(FOLDER.joinpath("schemas", f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@given(problems())
@settings(max_examples=50, deadline=None, derandomize=True)
def test_written_documents_follow_their_schemas(problem: Problem):
    if not all(job.graph.num_tasks for job in problem.jobs):
        return
    validator("problem").validate(problem_document(problem))
    validator("cluster").validate(cluster_document(problem.cluster))
    for job in problem.jobs:
        validator("graph").validate(graph_document(job.graph))


def test_graph_schema_takes_sizes_with_units():
    tasks = [{"name": "a", "work": 1, "memory": "2 GB"}, {"name": "b", "work": 1, "after": {"a": "1 MB"}}]
    validator("graph").validate({"tasks": tasks, "edges": []})


def test_schemas_take_times_with_units():
    graph = {
        "tasks": [{"name": "a", "work": "5 min"}, {"name": "b", "times": {"gpu": "3 ms", "cpu": "never"}}]
    }
    cluster = {"device": [{"class": "gpu", "times": {"a": "1 h"}}, {"class": "b", "time_unit": "ms"}]}
    job = {"graph": graph | {"edges": []}, "release": "1 h", "deadline": "2 h", "period": "1 d"}
    validator("problem").validate({"jobs": [job], "cluster": cluster})
    validator("cluster").validate(cluster)


def test_written_schedules_follow_their_schema(fork_problem: Problem):
    plan = Schedule(fork_problem, [0, 1, 2], [0, 0, 1], [0.0, 1.0, 101.0], [1.0, 11.0, 111.0])
    validator("schedule").validate(schedule_document(plan, valid=True))


@pytest.mark.parametrize("name", list(builtin_clusters()))
def test_builtin_clusters_follow_their_schema(name: str):
    validator("cluster").validate(tomllib.loads(FOLDER.joinpath("clusters", f"{name}.toml").read_text()))


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("graph", {"tasks": []}),
        ("graph", {"tasks": [{"name": "a"}]}),
        ("graph", {"tasks": [{"name": "a", "work": -1}]}),
        ("graph", {"tasks": [{"name": "a", "work": 1, "wrok": 1}]}),
        ("cluster", {}),
        ("cluster", {"device": [{"class": "a", "speed": 0}]}),
        ("cluster", {"device": [{"class": "a"}], "link": [{"bandwidth": 1}]}),
        ("problem", {"jobs": [], "cluster": "cpu-4"}),
        ("schedule", {"placements": [{"task": "a"}]}),
    ],
)
def test_schemas_refuse_wrong_documents(name: str, document: dict[str, Any]):
    assert not validator(name).is_valid(document)
