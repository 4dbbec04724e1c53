"""What users bring: a file of functions that records a graph, or a graph and a file of functions for its tasks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from weft import plugins
from weft.errors import InputError
from weft.execute.recording import Flow, Handle, TaskFunction, record
from weft.execute.work import Call, Result, Work, Workload
from weft.model.graph import TaskGraph

RECORDERS = ("main", "flow")
"""Names a recording function may have where none is given."""
_NO_NAME = re.compile(r"\W|^(?=\d)")


@dataclass(frozen=True)
class Works:
    """What tasks do, whatever the job: one graph, once or many times."""

    works: Mapping[str, Work]

    def work(self, job: str | int, task: str) -> Work:
        """What this task does."""
        return self.works[task]


@dataclass(frozen=True)
class JobWorks:
    """What tasks do, per job."""

    jobs: Mapping[str | int, Workload]

    def work(self, job: str | int, task: str) -> Work:
        """What this task does."""
        return self.jobs[job].work(job, task)


def is_flow_file(name: str) -> bool:
    """Whether a name means a file of functions: ``my_module.py`` or ``my_module.py:other``."""
    return name.endswith(".py") or (plugins.is_code(name) and ".py:" in name)


def record_file(name: str) -> Flow:
    """The graph that a file records: its function ``main`` or ``flow``, or the one named as in ``file.py:other``.

    Runs the file: for names that a person gave, never for those in data files.
    """
    home, _, wanted = name.rpartition(":") if not name.endswith(".py") else (name, "", "")
    module = plugins.file_module(home, "graph")
    function = _recorder(module, home, wanted)
    if isinstance(function, Flow):
        return function
    _check_arguments(function, home)
    with plugins.blamed(f"{function.__name__} cannot be recorded", home), record(Path(home).stem) as flow:
        returned = function()
    if isinstance(returned, Flow):
        return returned
    flow.outputs = tuple(_tasks(returned))
    if not len(flow):
        raise InputError(f"{function.__name__} called no task: mark functions with @weft.task", file=home)
    return flow


def _recorder(module: ModuleType, home: str, wanted: str) -> Any:
    for name in (wanted,) if wanted else RECORDERS:
        found = getattr(module, name, None)
        if isinstance(found, Flow) or (callable(found) and not isinstance(found, TaskFunction)):
            return found
        if found is not None:
            raise InputError(
                f"expected a function that calls tasks, got {found!r:.60}", file=home, field=name
            )
    expected = wanted or " or ".join(RECORDERS)
    raise InputError(f"expected a function {expected} that calls tasks, found none", file=home)


def _check_arguments(function: Callable[..., Any], home: str) -> None:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise InputError(
            f"expected a function without arguments: {error}", file=home, field=function.__name__
        ) from None
    except ValueError:
        pass


def _tasks(returned: Any) -> list[str]:
    """Tasks of the handles that a recording function returned."""
    if isinstance(returned, Handle):
        return [returned.task]
    if isinstance(returned, dict):
        returned = list(returned.values())
    if isinstance(returned, list | tuple):
        return [task for one in returned for task in _tasks(one)]
    return []


def functions_of(name: str) -> Mapping[str, Callable[..., Any]]:
    """The functions of a file, by name; runs the file, see ``record_file``."""
    if not name.endswith(".py"):
        raise InputError("expected a Python file", file=name, field="functions")
    module = plugins.file_module(name, "functions")
    return {
        key: value
        for key, value in vars(module).items()
        if not key.startswith("_") and (inspect.isroutine(value) or isinstance(value, TaskFunction))
    }


def call_functions(graph: TaskGraph, functions: str | Mapping[str, Callable[..., Any]]) -> Works:
    """Each task calls the function of its name, else of its kind, with its parents' results in the graph's order.

    In a name, what cannot stand in one of Python's counts as ``_``: task ``load-2`` calls ``load_2``.
    """
    file = functions if isinstance(functions, str) else None
    known = functions_of(functions) if isinstance(functions, str) else functions
    works: dict[str, Work] = {}
    for index, task in enumerate(graph.names):
        kind = graph.kinds[graph.kind[index]]
        names = (task, _NO_NAME.sub("_", task), kind, _NO_NAME.sub("_", kind))
        function = next((known[name] for name in names if name in known), None)
        if function is None:
            raise InputError(
                f"expected a function {names[1]} or {names[3]} for it, found {', '.join(known) or 'none'}",
                file=file,
                field=f"task {task}",
            )
        parents = [graph.names[parent] for parent in graph.predecessors(index).tolist()]
        works[task] = Call(function, tuple(Result(parent) for parent in parents))
        _check_parents(function, parents, file, task)
    return Works(works)


def _check_parents(function: Callable[..., Any], parents: list[str], file: str | None, task: str) -> None:
    """Refuse a function that cannot take the results of its parents before anything starts."""
    try:
        inspect.signature(function).bind(*parents)
    except TypeError as error:
        got = ", ".join(parents) or "none"
        raise InputError(
            f"expected {function.__name__} to take the results of its parents ({got}): {error}",
            file=file,
            field=f"task {task}",
        ) from None
    except ValueError:
        return
