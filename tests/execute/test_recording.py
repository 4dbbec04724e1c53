"""Recording calls as a graph, and files of functions."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import local_tasks
import numpy as np
import pytest

import weft
from weft.errors import InputError
from weft.execute.engine import Order
from weft.execute.lanes import Device
from weft.execute.local import LocalEngine, LocalSettings
from weft.execute.recording import Flow, TaskFunction, unknown_kinds
from weft.execute.sending import check_sendable, has_cloudpickle, pack, unpack
from weft.execute.work import Call, Place, Result, Workload, carry_out
from weft.execute.workloads import call_functions, functions_of, is_flow_file, record_file


@weft.task
def load(number: int) -> int:
    return number


@weft.task(kind="math", work=3.0, needs={"slots": 2, "memory": "1 MB", "cores": 2}, size=100)
def double(x: int) -> int:
    return 2 * x


@weft.task(work={"cpu": 4.0, "gpu": 1.0}, needs="gpu")
def merge(*values: Any, **named: Any) -> int:
    return sum(values) + sum(named.values())


def diamond() -> Flow:
    with weft.record("diamond") as flow:
        first = load(5)
        merge(double(first), double(load(6)), extra=first)
    return flow


def values_of(flow: Flow) -> dict[str, Any]:
    """Results of all tasks, each carried out after its parents."""
    results: dict[str, Any] = {}
    for task in flow.graph.names:
        results[task] = carry_out(flow.work("", task), results, Place("", task, 1, "cpu-0", "cpu"))
    return results


def test_tasks_just_run_outside_a_recording():
    assert double(load(4)) == 8 and isinstance(double, TaskFunction)
    assert double.__name__ == "double" and "Any" not in repr(double)


def test_recorded_calls_become_a_graph():
    graph = diamond().graph
    assert graph.names == ("load", "double", "load-2", "double-2", "merge")
    edges = {(edge.source, edge.target, edge.data) for edge in graph.edges()}
    assert edges == {
        ("load", "double", 0.0), ("load-2", "double-2", 0.0), ("load", "merge", 0.0),
        ("double", "merge", 100.0), ("double-2", "merge", 100.0),
    }  # fmt: skip
    twice = graph.task(graph.index["double"])
    assert (twice.kind, twice.work, twice.slots, twice.memory) == ("math", 3.0, 2, 1e6)
    assert graph.resources == ("cores",) and graph.demands[graph.index["double"], 0] == 2


def test_recorded_calls_run_with_their_results():
    results = values_of(diamond())
    assert results["merge"] == 10 + 12 + 5


def test_unknown_run_times_are_marked():
    flow = diamond()
    assert flow.unknown_kinds == ("load",) == unknown_kinds(flow.graph)
    assert flow.graph.work[flow.graph.index["load"]] == 1.0


def test_tasks_run_only_on_classes_they_need():
    cluster = weft.Cluster.uniform(
        [weft.DeviceClass("cpu", slots=2), weft.DeviceClass("gpu", slots=2)], [1, 1]
    )
    problem = weft.Problem(diamond().graph_on(cluster), cluster)
    row = problem.run_times[problem.graph.index["merge"]]
    assert np.isinf(row[0]) and row[1] == 1.0
    alone = weft.Cluster.uniform([weft.DeviceClass("cpu")], [1])
    with pytest.raises(
        InputError, match=r"task merge: needs: expected a class of the cluster \(cpu\), got 'gpu'"
    ):
        diamond().graph_on(alone)


def test_handles_stand_for_results_in_arguments_only():
    with weft.record() as flow:
        handle = load(1)
        merge([handle, (handle,)], named={"k": handle})
        for misuse in (bool, list, len, int, lambda h: h[0], lambda h: pack(h, by_value=True)):
            with pytest.raises(Exception, match="known only when it runs"):
                misuse(handle)
    work = flow.work("", "merge")
    assert isinstance(work, Call) and work.arguments == ([Result("load"), (Result("load"),)],)
    with weft.record("other"), pytest.raises(InputError, match="was recorded in another flow"):
        double(handle)


def test_recordings_do_not_nest_and_need_a_task():
    with weft.record() as flow, pytest.raises(InputError, match="inside another"), weft.record():
        pass
    with pytest.raises(InputError, match="no task was called"):
        _ = flow.graph
    assert load(3) == 3


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"work": -1}, "task f: work: expected a number >= 0, got -1"),
        ({"work": {"cpu": "x"}}, "task f: work.cpu: expected a number >= 0, got 'x'"),
        ({"needs": 3}, "task f: needs: expected names of classes of devices, got 3"),
        ({"needs": {"slots": 0}}, "task f: needs.slots: expected a whole number >= 1, got 0"),
        ({"needs": {"memory": "4 apples"}}, "task f: needs.memory: expected a size"),
        ({"needs": {"cores": "two"}}, "task f: needs.cores: expected a number >= 0, got 'two'"),
        ({"size": None}, "task f: size: expected a number >= 0, got None"),
    ],
)
def test_bad_options_are_refused_in_one_line(options: dict[str, Any], reason: str):
    def f() -> None: ...

    with pytest.raises(InputError) as caught:
        weft.task(**options)(f)
    assert str(caught.value).startswith(reason)


def test_tasks_travel_by_name_and_as_code():
    assert unpack(pack(local_tasks.total).data) is local_tasks.total
    if has_cloudpickle():
        back = unpack(pack(local_tasks.total, by_value=True).data)
        assert back is local_tasks.total or back([1, 2]) == 3


# -- files -----------------------------------------------------------------------------------------

MODULE = """
import weft

SCALE = 10

class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

@weft.task(work=1.0)
def load(number):
    return Pair(number, SCALE)

@weft.task(work=1.0)
def product(pair):
    return pair.a * pair.b

def main():
    return product(load(4))

def other():
    return [product(load(1)), product(load(2))]

def loose():
    return 3

def needy(x):
    return load(x)

def broken():
    return 1 / 0

recorded = 7
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(textwrap.dedent(MODULE))
    return str(tmp_path / "mine.py")


def run(workload: Workload, tasks: list[tuple[str, tuple[str, ...]]]) -> Any:
    """The result of the last of some tasks, on two workers in turn."""
    files = check_sendable(workload, [("job", task) for task, _ in tasks])
    devices = [Device("x", "cpu"), Device("y", "cpu")]
    with LocalEngine(devices, workload, LocalSettings(files=files)) as engine:
        engine.start()
        for number, (task, inputs) in enumerate(tasks):
            engine.submit(Order("job", task, "xy"[number % 2], 1, number, inputs))
            ended = False
            while not ended:
                for event in engine.events(None):
                    assert event.kind in ("started", "finished"), event
                    ended = event.kind == "finished"
        return engine.result("job", tasks[-1][0])


def test_a_file_records_its_graph_and_runs_on_workers(module: str):
    flow = record_file(module)
    assert flow.graph.name == "mine" and flow.graph.names == ("load", "product")
    assert flow.outputs == ("product",)
    assert run(flow.workload, [("load", ()), ("product", ("load",))]) == 40


def test_a_function_of_a_file_can_be_named(module: str):
    flow = record_file(f"{module}:other")
    assert flow.outputs == ("product", "product-2") and len(flow) == 4
    assert is_flow_file(module) and is_flow_file(f"{module}:other") and not is_flow_file("graph.json")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("absent", "expected a function absent that calls tasks, found none"),
        ("loose", "loose called no task: mark functions with @weft.task"),
        ("needy", "needy: expected a function without arguments: missing a required argument: 'x'"),
        ("load", "load: expected a function that calls tasks, got <task load>"),
        ("recorded", "recorded: expected a function that calls tasks, got 7"),
        ("broken", "broken cannot be recorded: ZeroDivisionError: division by zero"),
    ],
)
def test_files_that_record_nothing_say_so_in_one_line(module: str, name: str, reason: str):
    with pytest.raises(InputError) as caught:
        record_file(f"{module}:{name}")
    assert reason in str(caught.value) and "mine.py" in str(caught.value)


def test_a_graph_finds_its_functions_by_task_and_by_kind(tmp_path: Path):
    (tmp_path / "functions.py").write_text(
        "def load_1():\n    return 3\ndef load():\n    return 4\ndef add(a, b):\n    return 10 * a + b\n_hidden = print\n"
    )
    builder = weft.GraphBuilder("two")
    builder.task("load-1", 1.0, kind="load")
    builder.task("load-2", 1.0, kind="load")
    builder.task("end", 1.0, kind="add", after=["load-2", "load-1"])
    file = str(tmp_path / "functions.py")
    graph = builder.build()
    works = call_functions(graph, file)
    assert list(functions_of(file)) == ["load_1", "load", "add"]
    assert run(works, [("load-1", ()), ("load-2", ()), ("end", ("load-1", "load-2"))]) == 34
    with pytest.raises(InputError, match=r"task end: expected a function end or add for it, found load"):
        call_functions(graph, {"load": print})
    with pytest.raises(InputError, match="task end: expected one to take the results of its parents"):
        call_functions(graph, {"load": local_tasks.one, "add": local_tasks.one})
