"""Commands that files give their tasks, and rehearsals of those that may not run them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weft
from weft.errors import InputError
from weft.execute.commands import command_works, has_commands, rehearsals, room, scale_to
from weft.execute.work import Command, Place, Rehearsal, carry_out
from weft.io.files import write_graph
from weft.io.native import COMMANDS

TOML = """
[[tasks]]
name = "make"
work = 1.0
command = "echo 7 > made.txt"

[[tasks]]
name = "use"
work = 2.0
after = ["make"]
command = ["sh", "-c", "cat made.txt"]
"""
WORKFLOW = {
    "name": "small",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {
                    "name": "a",
                    "id": "a1",
                    "parents": [],
                    "children": ["b1"],
                    "inputFiles": [],
                    "outputFiles": [],
                },
                {
                    "name": "b",
                    "id": "b1",
                    "parents": ["a1"],
                    "children": [],
                    "inputFiles": [],
                    "outputFiles": [],
                },
            ],
            "files": [],
        },
        "execution": {
            "makespanInSeconds": 3,
            "executedAt": "2024-01-01T00:00:00Z",
            "tasks": [
                {
                    "id": "b1",
                    "runtimeInSeconds": 2,
                    "command": {"program": "echo", "arguments": ["-n x", "y"]},
                },
                {"id": "a1", "runtimeInSeconds": 1, "command": {"program": "true"}},
            ],
        },
    },
}


@pytest.fixture
def graph(tmp_path: Path) -> weft.TaskGraph:
    (tmp_path / "graph.toml").write_text(TOML)
    return weft.read_graph(tmp_path / "graph.toml")


def test_commands_of_a_toml_file_run_where_they_are_allowed(graph: weft.TaskGraph, tmp_path: Path):
    works = command_works(graph, allow_commands=True, folder=str(tmp_path))
    (tmp_path / "logs").mkdir()
    for task in graph.names:
        carry_out(works.work("any", task), {}, Place("any", task, 1, "cpu-0", "cpu", str(tmp_path / "logs")))
    assert (tmp_path / "logs" / "stdout.txt").read_text() == "7\n"


def test_commands_are_refused_in_one_line_without_permission(graph: weft.TaskGraph):
    assert has_commands(graph)
    with pytest.raises(
        InputError, match=r"^g.toml: it gives commands to run, which only --allow-commands lets run$"
    ):
        command_works(graph, allow_commands=False, file="g.toml")


def test_commands_of_wfformat_make_a_line_for_the_shell(tmp_path: Path):
    (tmp_path / "w.json").write_text(json.dumps(WORKFLOW))
    works = command_works(weft.read_graph(tmp_path / "w.json"), allow_commands=True)
    assert works.work("", "b1") == Command("echo -n x y") and works.work("", "a1") == Command("true")


def test_tasks_without_a_command_are_named(graph: weft.TaskGraph, fork: weft.TaskGraph):
    some = graph.replaced(metadata={COMMANDS: {"make": "true"}})
    with pytest.raises(InputError, match="task use: expected a command, found none"):
        command_works(some, allow_commands=True)
    assert not has_commands(fork)
    with pytest.raises(InputError, match="expected commands of tasks, found none"):
        command_works(fork, allow_commands=True)


@pytest.mark.parametrize("bad", ['""', "[]", "3", '["a", 3]', "{}"])
def test_bad_commands_are_refused(tmp_path: Path, bad: str):
    file = tmp_path / "g.toml"
    file.write_text(f'[[tasks]]\nname = "a"\nwork = 1\ncommand = {bad}\n')
    with pytest.raises(InputError, match=r"tasks\[0\].command: expected a line or a list of a program"):
        weft.read_graph(file)


@pytest.mark.parametrize("name", ["again.toml", "again.json"])
def test_commands_survive_writing(graph: weft.TaskGraph, tmp_path: Path, name: str):
    write_graph(graph, tmp_path / name)
    assert weft.read_graph(tmp_path / name).metadata == graph.metadata


def test_rehearsals_take_scaled_times_and_sizes(fork_problem: weft.Problem):
    scale = scale_to(20.0, fork_problem, seconds=2.0)
    assert scale == 0.1
    works = rehearsals(fork_problem, scale, most_bytes=50, share=0.5)
    (job,) = fork_problem.jobs
    root, left = works.work(job.name, "root"), works.work(job.name, "left")
    assert isinstance(root, Rehearsal) and isinstance(left, Rehearsal)
    assert root.seconds["cpu"] == pytest.approx(0.1) and left.seconds["cpu"] == pytest.approx(1.0)
    assert (root.size, left.size, root.share) == (50, 0, 0.5)


def test_rehearsals_leave_room_on_the_cores(fork_problem: weft.Problem):
    work = rehearsals(fork_problem).work(fork_problem.jobs[0].name, "root")
    assert isinstance(work, Rehearsal) and work.share == room(2) and 0 < room(1000) < 0.5 < room(1) + 0.5


def test_rehearsals_know_where_tasks_cannot_run():
    builder = weft.GraphBuilder("g")
    builder.task("a", times={"cpu": 1.0, "gpu": float("inf")})
    cluster = weft.Cluster.uniform([weft.DeviceClass("cpu"), weft.DeviceClass("gpu")], [1, 1])
    work = rehearsals(weft.Problem(builder.build(), cluster)).work("g", "a")
    assert isinstance(work, Rehearsal) and work.seconds == {"cpu": 1.0}


def test_scale_refuses_no_time(fork_problem: weft.Problem):
    with pytest.raises(InputError, match="seconds: expected a number of seconds > 0, got 0"):
        scale_to(1.0, fork_problem, seconds=0)
    assert scale_to(0.0, fork_problem) == 1.0
