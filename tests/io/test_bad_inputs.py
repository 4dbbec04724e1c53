"""Bad files: each gets one line that names the file, the place, what was expected and what came."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.errors import InputError, WeftError
from weft.io.files import read_cluster, read_graph, read_problem, write_graph
from weft.model.graph import TaskGraph

WORKFLOW: dict[str, Any] = {
    "name": "w",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {"name": "a", "id": "a", "parents": [], "outputFiles": ["f"]},
                {"name": "b", "id": "b", "parents": ["a"], "inputFiles": ["f"]},
            ],
            "files": [{"id": "f", "sizeInBytes": 1}],
        },
        "execution": {
            "tasks": [{"id": "a", "runtimeInSeconds": 1.0}, {"id": "b", "runtimeInSeconds": 2.0}],
            "machines": [{"nodeName": "m", "cpu": {"coreCount": 2}}],
        },
    },
}
GRAPH: dict[str, Any] = {
    "schema": "weft/graph/1",
    "tasks": [{"name": "a", "work": 1.0}, {"name": "b", "work": 2.0}],
    "edges": [{"source": "a", "target": "b", "data": 5}],
}


def changed(document: dict[str, Any], *steps: Any) -> bytes:
    """The document with the last step put at the place the others name; a list index may be new."""
    document = copy.deepcopy(document)
    *path, key, value = steps
    at: Any = document
    for step in path:
        at = at[step]
    if isinstance(at, list) and key == len(at):
        at.append(value)
    else:
        at[key] = value
    return json.dumps(document).encode()


SPEC = ("workflow", "specification", "tasks")
RUNS = ("workflow", "execution", "tasks")

WORKFLOWS: list[tuple[str, bytes, str, str | None]] = [
    ("version", changed(WORKFLOW, "schemaVersion", "9.9"), "expected WfFormat 1.3 to 1.6, got '9.9'", "schemaVersion"),
    ("version-type", changed(WORKFLOW, "schemaVersion", [1]), "expected WfFormat 1.3 to 1.6", "schemaVersion"),
    ("no-workflow", b'{"schemaVersion": "1.5"}', "expected an object, got nothing", "workflow"),
    ("workflow-type", changed(WORKFLOW, "workflow", 3), "expected an object, got 3", "workflow"),
    ("no-tasks", changed(WORKFLOW, *SPEC, []), "no tasks", "workflow.specification.tasks"),
    ("tasks-type", changed(WORKFLOW, *SPEC, {}), "expected a list, got {}", "workflow.specification.tasks"),
    ("task-type", changed(WORKFLOW, *SPEC, 1, "b"), "expected an object, got 'b'", "workflow.specification.tasks[1]"),
    ("no-id", changed(WORKFLOW, *SPEC, 1, {"name": "b"}), "expected a text, got nothing", "workflow.specification.tasks[1].id"),
    ("unknown-parent", changed(WORKFLOW, *SPEC, 1, "parents", ["x"]), "unknown parent 'x' of task 'b'", "workflow.specification.tasks[1].parents"),
    ("unknown-child", changed(WORKFLOW, *SPEC, 0, "children", ["x"]), "unknown child 'x' of task 'a'", "workflow.specification.tasks[0].children"),
    ("parents-type", changed(WORKFLOW, *SPEC, 1, "parents", "a"), "expected a list, got 'a'", "workflow.specification.tasks[1].parents"),
    ("parent-type", changed(WORKFLOW, *SPEC, 1, "parents", [["a"]]), "unknown parent ['a']", "workflow.specification.tasks[1].parents"),
    ("self-loop", changed(WORKFLOW, *SPEC, 1, "parents", ["b"]), "the graph has a cycle: b -> b", "tasks.b"),
    ("cycle", changed(WORKFLOW, *SPEC, 0, "parents", ["b"]), "the graph has a cycle: a -> b -> a", "workflow"),
    ("duplicate-id", changed(WORKFLOW, *SPEC, 1, "id", "a"), "'a' is given twice", "workflow.specification.tasks[1].id"),
    ("no-run-time", changed(WORKFLOW, *RUNS, [{"id": "a", "runtimeInSeconds": 1}]), "no run time for task 'b'", "workflow.execution.tasks"),
    ("run-time-text", changed(WORKFLOW, *RUNS, 1, "runtimeInSeconds", "2"), "expected a finite number >= 0, got '2'", "workflow.execution.tasks[1].runtimeInSeconds"),
    ("run-time-null", changed(WORKFLOW, *RUNS, 1, "runtimeInSeconds", None), "got nothing", "workflow.execution.tasks[1].runtimeInSeconds"),
    ("run-time-bool", changed(WORKFLOW, *RUNS, 1, "runtimeInSeconds", True), "got True", "workflow.execution.tasks[1].runtimeInSeconds"),
    ("run-time-negative", changed(WORKFLOW, *RUNS, 0, "runtimeInSeconds", -1), ">= 0, got -1", "workflow.execution.tasks[0].runtimeInSeconds"),
    ("run-time-nan", changed(WORKFLOW, *RUNS, 0, "runtimeInSeconds", float("nan")), "expected a finite number, got NaN", None),
    ("run-time-infinity", changed(WORKFLOW, *RUNS, 0, "runtimeInSeconds", float("-inf")), "expected a finite number, got -Infinity", None),
    ("run-time-1e400", changed(WORKFLOW, *RUNS, 0, "runtimeInSeconds", 1).replace(b": 1}", b": 1e400}"), "expected a finite number, got '1e400'", None),
    ("run-time-huge", changed(WORKFLOW, *RUNS, 0, "runtimeInSeconds", 10**400), "expected a finite number >= 0, got 1000", "workflow.execution.tasks[0].runtimeInSeconds"),
    ("run-time-digits", changed(WORKFLOW, *RUNS, 0, "runtimeInSeconds", 7).replace(b": 7", b": " + b"7" * 5000), "at most 4300 digits", None),
    ("cores", changed(WORKFLOW, *RUNS, 0, "coreCount", "many"), "got 'many'", "workflow.execution.tasks[0].coreCount"),
    ("memory", changed(WORKFLOW, *RUNS, 0, "memoryInBytes", -5), "got -5", "workflow.execution.tasks[0].memoryInBytes"),
    ("file-size", changed(WORKFLOW, "workflow", "specification", "files", 0, "sizeInBytes", -1), "got -1", "workflow.specification.files[0].sizeInBytes"),
    ("file-twice", changed(WORKFLOW, "workflow", "specification", "files", 1, {"id": "f"}), "'f' is given twice", "workflow.specification.files[1].id"),
    ("file-unlisted", changed(WORKFLOW, "workflow", "specification", "files", []), "file 'f' of workflow.specification.tasks[1] is not listed", "workflow.specification.files"),
    ("file-list", changed(WORKFLOW, *SPEC, 0, "outputFiles", [1]), "expected a list of file ids", "workflow.specification.tasks[0].outputFiles"),
    ("machine-cores", changed(WORKFLOW, "workflow", "execution", "machines", 0, "cpu", {"coreCount": 0}), "got 0", "workflow.execution.machines[0].cpu.coreCount"),
    ("machine-twice", changed(WORKFLOW, "workflow", "execution", "machines", 1, {"nodeName": "m"}), "'m' is given twice", "workflow.execution.machines[1].nodeName"),
    ("newline-in-name", changed(WORKFLOW, *SPEC, 1, "parents", ["x\ny\x1b[31m\u202e"]), r"unknown parent 'x\ny\x1b[31m\u202e'", "workflow.specification.tasks[1].parents"),
    ("long-name", changed(WORKFLOW, *SPEC, 1, "parents", ["x" * 10_000]), "unknown parent 'xxx", "workflow.specification.tasks[1].parents"),
    ("duplicate-key", b'{"workflow": 1,\n "workflow": 2}', "the key 'workflow' is given twice", None),
    ("surrogate", b'{"tasks": [{"name": "\\ud800", "work": 1}]}', "half of a surrogate pair", None),
    ("not-an-object", b"[1, 2]", "expected a JSON object, got [1, 2]", None),
    ("trailing", json.dumps(WORKFLOW).encode() + b"\n}", "expected JSON: Extra data", None),
    ("deep", b'{"a":' * 200 + b"1" + b"}" * 200, "at most 100 nested levels", None),
    ("very-deep", b'{"a":' + b"[" * 1_000_000, "at most 100 nested levels", None),
    ("deep-behind-brackets", b'{"b": "' + b"]" * 5000 + b'", "a":' + b"[" * 4000 + b"]" * 4000 + b"}", "at most 100 nested levels", None),
    ("empty", b"", "the file is empty", None),
    ("spaces", b" \n\t \n", "the file is empty", None),
    ("utf-16", json.dumps(WORKFLOW).encode("utf-16"), "expected UTF-8 text, got UTF-16", None),
    ("utf-16-bare", json.dumps(WORKFLOW).encode("utf-16-le"), "expected UTF-8 text, got UTF-16", None),
    ("latin-1", '{"name": "wärme"}'.encode("latin-1"), "expected UTF-8 text, got the byte 0xe4", None),
    ("zero-byte", b'{"name": "a\x00b"}', "got a zero byte", None),
    ("pickle", pickle.dumps({"a": 1}), "a Python pickle; weft never loads one", None),
    ("zip", b"PK\x03\x04rest", "got a zip archive", None),
    ("gzip", b"\x1f\x8b\x08rest", "got a gzip archive", None),
    ("unknown-keys", b'{"hello": 1}', "got the keys 'hello'", "schema"),
    ("unknown-schema", b'{"schema": "weft/graph/9"}', "got 'weft/graph/9'", "schema"),
    ("schedule", b'{"placements": []}', "got a schedule", "schema"),
    ("prose", b"Dear reader,\nthis is no workflow.\n", "expected JSON", None),
    ("graph-no-tasks", changed(GRAPH, "tasks", []), "no tasks", "tasks"),
    ("graph-key", changed(GRAPH, "taks", []), "unknown key 'taks'; did you mean 'tasks'?", "taks"),
    ("task-key", changed(GRAPH, "tasks", 1, "wrok", 1), "unknown key 'wrok'; did you mean 'work'?", "tasks[1]"),
    ("task-no-work", changed(GRAPH, "tasks", 1, {"name": "b"}), "expected a finite number >= 0, got nothing", "tasks[1].work"),
    ("task-twice", changed(GRAPH, "tasks", 1, "name", "a"), "'a' is given twice, first in tasks[0]", "tasks[1].name"),
    ("task-name", changed(GRAPH, "tasks", 1, "name", 7), "expected a text, got 7", "tasks[1].name"),
    ("task-slots", changed(GRAPH, "tasks", 1, "slots", 1.5), "expected a whole number, got 1.5", "tasks[1].slots"),
    ("task-times", changed(GRAPH, "tasks", 1, "times", {"gpu": "soon"}), "got 'soon'", "tasks[1].times.gpu"),
    ("task-times-type", changed(GRAPH, "tasks", 1, "times", [1]), "expected an object, got [1]", "tasks[1].times"),
    ("task-after", changed(GRAPH, "tasks", 1, "after", "a"), "expected task names, got 'a'", "tasks[1].after"),
    ("task-after-unknown", changed(GRAPH, "tasks", 1, "after", ["zz"]), "names an unknown task 'zz'", "tasks[1].after"),
    ("task-after-number", changed(GRAPH, "tasks", 1, "after", ["a", 7]), "expected a text, got 7", "tasks[1].after"),
    ("task-after-data", changed(GRAPH, "tasks", 1, "after", {"a": -1}), "expected a finite number >= 0, got -1", "tasks[1].after"),
    ("task-after-unit", changed(GRAPH, "tasks", 1, "after", {"a": "100 MV"}), "got '100 MV' with the unknown unit 'MV'", "tasks[1].after"),
    ("task-memory-unit", changed(GRAPH, "tasks", 1, "memory", "2"), "got '2' without a unit", "tasks[1].memory"),
    ("task-work-unit", changed(GRAPH, "tasks", 1, "work", "5 GB"), "expected a time such as '5 min'", "tasks[1].work"),
    ("task-work-negative", changed(GRAPH, "tasks", 1, "work", "-5 s"), "a number of seconds, got '-5 s'", "tasks[1].work"),
    ("task-times-unit", changed(GRAPH, "tasks", 1, "times", {"gpu": "5"}), "got '5' without a unit", "tasks[1].times.gpu"),
    ("task-memory-infinite", changed(GRAPH, "tasks", 1, "memory", "infinite"), "expected a size such as '16 GB'", "tasks[1].memory"),
    ("edge-data-unit", changed(GRAPH, "edges", 0, "data", "-1 MB"), "got '-1 MB'", "edges[0].data"),
    ("curves", changed(GRAPH, "curves", [[1], [1, 2]]), "expected curves of one length", "curves"),
    ("curve", changed(GRAPH, "tasks", 1, "curve", 3), "expected an index into curves", "tasks.b.curve"),
    ("saved-class", changed(GRAPH, "tasks", 1, "saved", {"gqu": 0.5}), "expected a class that some task has times for, got 'gqu'", "tasks[1].saved"),
    ("saved-type", changed(GRAPH, "tasks", 1, "saved", 0.5), "expected an object, got 0.5", "tasks[1].saved"),
    ("edge-unknown", changed(GRAPH, "edges", 0, "source", "x"), "names an unknown task 'x'", "edges[0].source"),
    ("edge-data", changed(GRAPH, "edges", 0, "data", -1), "got -1", "edges[0].data"),
    ("edge-twice", changed(GRAPH, "edges", 1, {"source": "a", "target": "b"}), "edge a -> b is given twice", "edges"),
    ("edge-back", changed(GRAPH, "edges", 1, {"source": "b", "target": "a"}), "the graph has a cycle: a -> b -> a", "edges"),
    ("edge-branch", changed(GRAPH, "edges", 0, {"source": "a", "target": "b", "branch": 0, "probability": 0.5}), "probabilities sum to 0.5", "tasks.a"),
    ("metadata", changed(GRAPH, "metadata", 1), "expected an object, got 1", "metadata"),
    ("time-unit", changed(GRAPH, "time_unit", 1), "expected a text, got 1", "time_unit"),
]  # fmt: skip

CLUSTERS: list[tuple[str, str, str, str | None]] = [
    ("no-devices", "bandwidth = 1", "got the keys 'bandwidth'", "schema"),
    ("empty-list", "device = []", "expected at least one device", "device"),
    ("no-class", "[[device]]\ncount = 2", "expected a value, got nothing", "device[0].class"),
    ("speed-zero", '[[device]]\nclass = "a"\nspeed = 0', "expected greater than 0, got 0", "device[0].speed"),
    ("speed-nan", '[[device]]\nclass = "a"\nspeed = nan', "expected a finite number, got nan", "device[0].speed"),
    ("speed-text", '[[device]]\nclass = "a"\nspeed = "2"', "got '2'", "device[0].speed"),
    ("count", '[[device]]\nclass = "a"\ncount = -1', "got -1", "device[0].count"),
    ("count-fraction", '[[device]]\nclass = "a"\ncount = 1.5', "got 1.5", "device[0].count"),
    ("too-many", '[[node]]\ncount = 1000\n[[node.device]]\nclass = "a"\ncount = 1001', "at most 1000000 devices", "count"),
    ("unknown-key", '[[device]]\nclass = "a"\nsped = 2', "unknown key 'sped'; did you mean 'speed'?", "device[0].sped"),
    ("unknown-top", 'bandwith = 1\n[[device]]\nclass = "a"', "unknown key 'bandwith'; did you mean 'bandwidth'?", "bandwith"),
    ("unknown-inner", '[[node]]\n[[node.device]]\nclass = "a"\nslot = 1', "did you mean 'slots'?", "node[0].device[0].slot"),
    ("empty-node", "[[node]]\ncount = 2", "expected a value, got nothing", "node[0].device"),
    ("bandwidth-zero", 'bandwidth = 0\n[[device]]\nclass = "a"', "expected a bandwidth", "bandwidth"),
    ("bandwidth-unit", 'bandwidth = "1 Gb/s"\n[[device]]\nclass = "a"', "write GB/s for bytes or Gbit/s for bits", "bandwidth"),
    ("latency", 'latency = "-1 s"\n[[device]]\nclass = "a"', "expected a time", "latency"),
    ("memory", '[[device]]\nclass = "a"\nmemory = "16 GX"', "unknown unit 'GX'", "device[0].memory"),
    ("times-unit", '[[device]]\nclass = "a"\ntimes = { x = "5 mn" }', "times.x: expected a time such as '5 min'", "device[0]"),
    ("times-mixed", '[[device]]\nclass = "a"\ntimes = { x = "5 min", y = 3 }', "times.y: expected a time with a unit, as others have, got 3", "device[0]"),
    ("time-unit", '[[device]]\nclass = "a"\ntime_unit = "year"', "expected one of s, ms, us, min, h, unit, got 'year'", "device[0].time_unit"),
    ("link-class", '[[device]]\nclass = "gpu"\n[[link]]\nbetween = ["gpu", "gpus"]', "no class 'gpus' in the cluster; did you mean 'gpu'?", "link[0].between"),
    ("link-nothing", '[[device]]\nclass = "a"\n[[link]]\nbandwidth = 1', "expected between = [class, class] or nodes", "link[0]"),
    ("link-three", '[[device]]\nclass = "a"\n[[link]]\nbetween = ["a", "a", "a"]', "at most 2", "link[0].between"),
    ("link-node", '[[device]]\nclass = "a"\n[[link]]\nnodes = [0, 1]', "expected node numbers 0 to 0, got 1", "link[0].nodes"),
    ("table-rows", 'links = { bandwidth = [[1]] }\n[[device]]\nclass = "a"\ncount = 2', "expected 2 rows, one per device, got 1", "links.bandwidth"),
    ("table-missing", 'links = { bandwidth = [[0, 1], [1]] }\n[[device]]\nclass = "a"\ncount = 2', "expected 2 values", "links.bandwidth[1]"),
    ("table-zero", 'links = { bandwidth = [[0, 0], [1, 0]] }\n[[device]]\nclass = "a"\ncount = 2', "expected a bandwidth", "links.bandwidth[0][1]"),
    ("table-and-link", 'links = {}\n[[device]]\nclass = "a"\n[[link]]\nbetween = ["a", "a"]', "not both", "links"),
    ("schema", 'schema = "weft/cluster/2"\n[[device]]\nclass = "a"', "got 'weft/cluster/2'", "schema"),
    ("syntax", '[[device]]\nclass = "a', "expected TOML", None),
    ("duplicate", 'name = "a"\nname = "b"\n[[device]]\nclass = "a"', "expected TOML", None),
    ("nested", "a = " + "[" * 5000, "expected TOML", None),
]  # fmt: skip


def refused(read: Callable[[Path], object], path: Path) -> WeftError:
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.file == str(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 800
    return caught.value


@pytest.mark.parametrize(("content", "message", "field"), [pytest.param(*c[1:], id=c[0]) for c in WORKFLOWS])
def test_bad_workflow_gets_one_line(content: bytes, message: str, field: str | None, tmp_path: Path):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    error = refused(read_graph, path)
    assert message in str(error)
    assert field is None or error.field == field


@pytest.mark.parametrize(("content", "message", "field"), [pytest.param(*c[1:], id=c[0]) for c in CLUSTERS])
def test_bad_cluster_gets_one_line(content: str, message: str, field: str | None, tmp_path: Path):
    path = tmp_path / "bad.toml"
    path.write_text(content)
    error = refused(read_cluster, path)
    assert message in str(error)
    assert field is None or error.field == field


@pytest.mark.parametrize(
    ("name", "message"),
    [("none.json", "no such file"), (".", "got a folder"), ("a\0b.json", "cannot be opened")],
)
def test_bad_path_gets_one_line(name: str, message: str, tmp_path: Path):
    path = tmp_path / name
    with pytest.raises(InputError, match=message) as caught:
        read_graph(path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{\n "a": 1,\n "b" 2}', 3),
        (b'{\n "a": [NaN]}', 2),
        (b'{\n\n "a": 1e999}', 3),
        (b'{"a": 1,\n\n "a": 2}', 1),
        (b'{\n "a": "\xff"}', 2),
    ],
)
def test_syntax_errors_name_the_line(content: bytes, line: int, tmp_path: Path):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    assert refused(read_graph, path).line == line


def test_pickle_is_not_run(tmp_path: Path):
    class Canary:
        def __reduce__(self) -> Any:
            return (open, (str(tmp_path / "canary"), "w"))

    path = tmp_path / "bad.json"
    path.write_bytes(pickle.dumps(Canary()))
    refused(read_graph, path)
    assert not (tmp_path / "canary").exists()


SAMPLE = TaskGraph(
    [1.0, 2.5, 3.0],
    [0, 0, 1],
    [1, 2, 2],
    [5.0, 6.0, 7.0],
    names=("load", "train", "report"),
    kinds=("io", "cnn"),
    kind=[0, 1, 0],
)


def cut(path: Path, share: int) -> None:
    """Keep the first byte at share 0, all but the last at share 19."""
    content = path.read_bytes().rstrip()
    path.write_bytes(content[: 1 + (len(content) - 2) * share // 19])


@pytest.mark.parametrize("share", range(20))
@pytest.mark.parametrize("name", ["g.wf.json", "g.json", "g.dot", "g.stg"])
def test_truncated_file_is_refused(name: str, share: int, tmp_path: Path):
    path = tmp_path / name
    write_graph(SAMPLE, path)
    cut(path, share)
    error = refused(read_graph, path)
    assert error.line is not None or error.field is not None


@pytest.mark.parametrize("share", range(20))
def test_truncated_toml_is_refused_or_a_smaller_graph(share: int, tmp_path: Path):
    """A TOML file may end after any line, so a cut there cannot be told from a short file."""
    path = tmp_path / "g.toml"
    write_graph(SAMPLE, path)
    cut(path, share)
    with contextlib.suppress(InputError):
        graph = read_graph(path)
        assert graph.num_tasks + graph.num_edges < SAMPLE.num_tasks + SAMPLE.num_edges


@pytest.mark.parametrize("share", range(20))
def test_truncated_cluster_is_refused_or_smaller(share: int, tmp_path: Path):
    path = tmp_path / "c.toml"
    path.write_text(
        '[[node]]\ncount = 2\n[[node.device]]\nclass = "a100"\nspeed = 3.5\n[[device]]\nclass = "cpu"\n'
    )
    cut(path, share)
    with contextlib.suppress(InputError):
        assert read_cluster(path).num_devices < 3


WORDS = (
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"null",
    b"true",
    b"-1",
    b"1e400",
    b"0",
    b"\n",
    b"\x00",
    b"\xff",
    b"->",
    b"=",
)


@pytest.mark.parametrize("name", ["g.wf.json", "g.json", "g.dot", "g.stg", "g.toml"])
@given(seed=st.integers(0, 2**32 - 1))
@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_damaged_file_is_read_or_refused_with_its_name(name: str, seed: int, tmp_path: Path):
    whole, path = tmp_path / name, tmp_path / f"damaged-{name}"
    if not whole.exists():
        write_graph(SAMPLE, whole)
    content = bytearray(whole.read_bytes())
    rng = np.random.default_rng(seed)
    for _ in range(3):
        at, length, word = rng.integers(len(content)), rng.integers(8), rng.integers(len(WORDS))
        content[at : at + length] = WORDS[word]
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        assert read_graph(path).num_tasks > 0
        return
    refused(read_graph, path)


def test_infeasible_cluster_names_file_and_task(tmp_path: Path):
    path = tmp_path / "g.json"
    path.write_bytes(changed(GRAPH, "tasks", 1, "memory", 1e15))
    with pytest.raises(
        WeftError, match=r"task 'b' needs 1e\+06 GB of memory, no device has more than .* GB"
    ) as caught:
        read_problem(path, "cpu-4")
    assert (caught.value.exit_code, caught.value.file, caught.value.field) == (3, str(path), "tasks.b")
