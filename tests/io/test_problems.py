"""Problem files: everything inline, or graphs and clusters by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import problems

from weft import catalog
from weft.errors import InfeasibleError, InputError
from weft.io.files import read_graph, read_problem, write_problem
from weft.io.json_files import dump_json, parse_json
from weft.io.problems import problem_document, problem_from_document
from weft.io.toml_files import dump_toml, parse_toml
from weft.model.bookings import Booking
from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Objective, Problem
from weft.model.validate import validate

GRAPH = {"tasks": [{"name": "a", "work": 1.0}]}
CPU = {"device": [{"class": "cpu"}]}


def test_written_problem_keeps_jobs_objective_and_noise(pair: Cluster, tmp_path: Path):
    graph = TaskGraph([1.0, 2.0], [0], [1], 8.0)
    jobs = (
        Job(
            graph,
            "first",
            release=1.5,
            period=10.0,
            deadline=9.0,
            weight=2.0,
            owner="me",
            eligible=("cpu-1",),
        ),
        Job(graph, "second"),
    )
    write_problem(Problem(jobs, pair, Objective("mean_jct", False), 0.25, "two"), tmp_path / "p.toml")
    again = read_problem(tmp_path / "p.toml")
    assert (again.name, again.noise, again.objective) == ("two", 0.25, Objective("mean_jct", False))
    keys = ("name", "release", "period", "deadline", "weight", "owner", "eligible")
    for job, expected in zip(again.jobs, jobs, strict=True):
        assert [getattr(job, key) for key in keys] == [getattr(expected, key) for key in keys]


def test_times_of_jobs_and_classes_may_have_units(tmp_path: Path):
    graph = {
        "time_unit": "ms",
        "tasks": [{"name": "a", "work": "2 s"}, {"name": "b", "work": 3, "kind": "x"}],
    }
    devices = [
        {"class": "gpu", "times": {"x": "1 s"}},
        {"class": "cpu", "times": {"x": 4}, "time_unit": "us", "speed": 2},
    ]
    job = {"graph": graph, "release": "1 min", "deadline": "0.5 h", "period": 7}
    problem = problem_from_document(
        {"jobs": [job], "cluster": {"device": [devices[0] | {"speed": 1}, devices[1]]}}
    )
    (found,) = problem.jobs
    assert (found.release, found.deadline, found.period) == (60_000, 1_800_000, 7)
    assert problem.run_times.tolist() == [[2000, 1000], [1000, 0.004]]
    write_problem(problem, tmp_path / "again.toml")
    again = read_problem(tmp_path / "again.toml")
    assert again.run_times.tolist() == problem.run_times.tolist()
    once = again.replaced(jobs=(Job(again.graph),))
    assert validate(catalog.schedule(once, "heft").schedule) == ()


def test_problem_without_cluster_takes_the_one_given(tmp_path: Path):
    path = tmp_path / "p.json"
    path.write_bytes(dump_json({"jobs": [{"graph": GRAPH, "release": 2}], "noise": 0.1}))
    problem = read_problem(path, "cpu-4")
    assert (problem.cluster.num_devices, problem.jobs[0].release, problem.noise) == (4, 2.0, 0.1)
    assert read_graph(path).names == ("a",)
    with pytest.raises(InputError, match=r"p.json: cluster: the file names no machines: give a cluster file"):
        read_problem(path)


NAMED = [
    ("none.json", "cpu-4", r"none.json: no such file \(named in .*p.json: jobs\[0\].graph\)"),
    (
        "bad.json",
        "cpu-4",
        r"bad.json: tasks\[0\].work: expected .*, got -1 \(named in .*p.json: jobs\[0\].graph\)",
    ),
    ("good.json", "none.toml", r"none.toml: no such file \(named in .*p.json: cluster\)"),
    ("good.json", "cpu-5", r"p.json: cluster: no file and no built-in cluster 'cpu-5'; did you mean 'cpu-4'"),
    (
        "good.json",
        "good.json",
        r"good.json: device: expected a cluster, got .* \(named in .*p.json: cluster\)",
    ),
]


@pytest.mark.parametrize(("graph", "cluster", "message"), NAMED)
def test_error_of_a_named_file_says_who_named_it(graph: str, cluster: str, message: str, tmp_path: Path):
    (tmp_path / "good.json").write_bytes(dump_json(GRAPH))
    (tmp_path / "bad.json").write_bytes(dump_json({"tasks": [{"name": "a", "work": -1}]}))
    (tmp_path / "p.json").write_bytes(dump_json({"jobs": [{"graph": graph}], "cluster": cluster}))
    with pytest.raises(InputError, match=message):
        read_problem(tmp_path / "p.json")


@given(problems())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_documents_read_back_the_same(problem: Problem):
    if not all(job.graph.num_tasks for job in problem.jobs):
        return
    document = problem_document(problem)
    for parsed in (parse_json(dump_json(document), "p"), parse_toml(dump_toml(document), "p")):
        again = problem_from_document(parsed)
        assert np.array_equal(
            again.run_times[:, again.cluster.device_class], problem.run_times[:, problem.cluster.device_class]
        )
        assert np.array_equal(again.eligible, problem.eligible)
        assert [job.release for job in again.jobs] == [job.release for job in problem.jobs]
        assert again.objective == problem.objective


def test_problem_names_files_next_to_it(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "g.json").write_text(json.dumps(GRAPH))
    (tmp_path / "c.toml").write_text('[[device]]\nclass = "gpu"')
    (tmp_path / "p.json").write_text(json.dumps({"cluster": "c.toml", "jobs": [{"graph": "sub/g.json"}]}))
    assert read_problem(tmp_path / "p.json").cluster.device_names == ("gpu-0",)


def test_problem_names_a_builtin_cluster(tmp_path: Path):
    (tmp_path / "p.json").write_text(json.dumps({"cluster": "cpu-4", "jobs": [{"graph": GRAPH}]}))
    assert read_problem(tmp_path / "p.json").cluster.name == "cpu-4"


def test_problem_without_references_must_be_inline():
    with pytest.raises(InputError, match="expected the graph inline, got a file name"):
        problem_from_document({"cluster": CPU, "jobs": [{"graph": "/etc/passwd"}]})
    with pytest.raises(InputError, match="expected the cluster inline, got a name"):
        problem_from_document({"cluster": "c.toml", "jobs": [{"graph": GRAPH}]})


def test_problem_puts_the_job_in_front_of_a_field():
    bad = {"tasks": [{"name": "a", "work": -1}]}
    with pytest.raises(InputError) as caught:
        problem_from_document({"cluster": CPU, "jobs": [{"graph": GRAPH}, {"graph": bad}]})
    assert caught.value.field == "jobs[1].graph.tasks[0].work"


def test_written_problem_keeps_how_wrong_run_times_are(pair: Cluster, tmp_path: Path):
    problem = Problem(TaskGraph([1.0]), pair, noise=0.1, bias=0.5, drift=0.2)
    write_problem(problem, tmp_path / "p.json")
    again = read_problem(tmp_path / "p.json")
    assert (again.noise, again.bias, again.drift) == (0.1, 0.5, 0.2)


def test_exact_run_times_are_not_mentioned_in_a_file(pair: Cluster):
    assert not {"bias", "drift"} & set(problem_document(Problem(TaskGraph([1.0]), pair)))


BOOKED = """
schema = "weft/problem/1"
[cluster]
device = [{ class = "gpu", count = 2, slots = 4, memory = "16 GB" }]
[[jobs]]
name = "booked"
booking = BOOKING
graph = { tasks = [{ name = "a", work = 1.0 }] }
"""
BOOKINGS = {
    'devices = ["gpu"], count = 2': Booking(("gpu",), 2),
    'devices = ["gpu-1"], slots = 3, memory = "8 GB"': Booking(("gpu-1",), 1, 3, 8e9),
}


@pytest.mark.parametrize("text", BOOKINGS)
def test_booking_is_read_and_written(text: str, tmp_path: Path):
    file = tmp_path / "problem.toml"
    file.write_text(BOOKED.replace("BOOKING", f"{{ {text} }}"), encoding="utf-8")
    problem = read_problem(file)
    assert problem.jobs[0].booking == BOOKINGS[text]
    write_problem(problem, tmp_path / "again.json")
    assert read_problem(tmp_path / "again.json").jobs[0].booking == BOOKINGS[text]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "jobs[0].booking.devices"),
        ('devices = []', "jobs[0].booking.devices"),
        ('devices = ["gpu"], slot = 1', "jobs[0].booking"),
        ('devices = ["gpu"], memory = 1', "jobs[0].booking.memory: expected slots with it"),
        ('devices = ["gpu"], count = 3', "books 3 of gpu, the cluster has 2"),
    ],
)  # fmt: skip
def test_wrong_booking_is_named_by_its_field(text: str, message: str, tmp_path: Path):
    file = tmp_path / "problem.toml"
    file.write_text(BOOKED.replace("BOOKING", f"{{ {text} }}"), encoding="utf-8")
    with pytest.raises((InputError, InfeasibleError)) as error:
        read_problem(file)
    assert message in str(error.value)
