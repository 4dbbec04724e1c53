"""Functions that record a graph: ``@weft.task`` and ``with weft.record(...)``.

Inside a recording, calling a task returns a handle and runs nothing; handles among the arguments become edges.
Outside one, and on workers, the function just runs. Loads no NumPy until a graph is asked for: workers load this too.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from weft.errors import InputError
from weft.execute.work import Call, Result, Work
from weft.plugins import FILE_MODULES

if TYPE_CHECKING:
    from weft.model.cluster import Cluster
    from weft.model.graph import TaskGraph

UNKNOWN_KINDS = "unknown_kinds"
"""Entry of a graph's metadata: the kinds whose run times are not known, as a JSON list."""
UNKNOWN_WORK = 1.0

_flow: ContextVar[Flow | None] = ContextVar("flow", default=None)


@dataclass(frozen=True)
class Needs:
    """What a task holds of its device while it runs, and where it may run."""

    classes: tuple[str, ...] = ()
    """Classes of devices; none: all."""
    slots: int = 1
    memory: float = 0.0
    demands: Mapping[str, float] = field(default_factory=dict)


class TaskFunction:
    """A function whose calls can be recorded."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        kind: str,
        needs: Needs,
        work: float | Mapping[str, float] | None,
        size: float,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.kind = kind
        self.needs = needs
        self.work = work
        """Run time at speed 1 in seconds, or per class; None: not known."""
        self.size = size
        """Bytes of its result, as far as plans reckon with it."""
        self.__name__: str = getattr(function, "__name__", "task")
        self.__qualname__: str = getattr(function, "__qualname__", self.__name__)
        self.__module__: str = function.__module__

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        flow = _flow.get()
        return self.function(*arguments, **keywords) if flow is None else flow.add(self, arguments, keywords)

    def __reduce__(self) -> Any:
        # By name where workers can import it; else by what it is made of, for picklers that send code.
        home: Any = sys.modules.get(self.__module__)
        for name in self.__qualname__.split("."):
            home = getattr(home, name, None)
        is_importable = self.__module__ != "__main__" and not self.__module__.startswith(FILE_MODULES)
        if home is self and is_importable:
            return self.__qualname__
        return _restored, (self.function, self.kind, self.needs, self.work, self.size)

    def __repr__(self) -> str:
        return f"<task {self.__qualname__}>"


def _restored(function: Callable[..., Any], kind: str, needs: Needs, work: Any, size: float) -> TaskFunction:
    return TaskFunction(function, kind=kind, needs=needs, work=work, size=size)


class Handle:
    """Stands for the result of a recorded call; it may be an argument of others and nothing else."""

    __slots__ = ("_flow", "task")

    def __init__(self, task: str, flow: Flow) -> None:
        self.task = task
        self._flow = flow

    def is_of(self, flow: Flow) -> bool:
        """Whether it was recorded there."""
        return self._flow is flow

    def __repr__(self) -> str:
        return f"<result of {self.task}>"

    def _refuse(self, *_: object) -> NoReturn:
        raise InputError(
            f"the result of {self.task!r} is known only when it runs: pass it to another task as it is, or in a "
            "list, tuple or dict"
        )

    __bool__ = __iter__ = __len__ = __getitem__ = __int__ = __float__ = __reduce__ = _refuse


@dataclass(frozen=True)
class _Recorded:
    """One call."""

    name: str
    function: TaskFunction
    call: Call
    after: tuple[str, ...]


class Flow:
    """A graph of calls that is being recorded, or was."""

    def __init__(self, name: str = "flow") -> None:
        self.name = name
        self.outputs: tuple[str, ...] = ()
        """Tasks whose results the recording function returned."""
        self._calls: dict[str, _Recorded] = {}
        self._counts: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"Flow({self.name!r}, {len(self._calls)} tasks)"

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, function: TaskFunction, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Handle:
        """Record one call."""
        after: dict[str, None] = {}
        call = Call(
            function,
            tuple(self._noted(value, after) for value in arguments),
            {key: self._noted(value, after) for key, value in keywords.items()},
        )
        name = self._free_name(function.__name__)
        self._calls[name] = _Recorded(name, function, call, tuple(after))
        return Handle(name, self)

    def _free_name(self, base: str) -> str:
        while True:
            count = self._counts[base] = self._counts.get(base, 0) + 1
            name = base if count == 1 else f"{base}-{count}"
            if name not in self._calls:
                return name

    def _noted(self, value: Any, after: dict[str, None]) -> Any:
        """An argument with ``Result`` in place of handles, which are added to ``after``."""
        if isinstance(value, Handle):
            if not value.is_of(self):
                raise InputError(
                    f"the result of {value.task!r} was recorded in another flow", field=self.name
                )
            after[value.task] = None
            return Result(value.task)
        if type(value) in (list, tuple):
            return type(value)(self._noted(one, after) for one in value)
        if type(value) is dict:
            return {key: self._noted(one, after) for key, one in value.items()}
        return value

    @property
    def works(self) -> dict[str, Work]:
        """What each task does."""
        return {name: recorded.call for name, recorded in self._calls.items()}

    def work(self, job: str | int, task: str) -> Work:
        """What this task does, in any job: a flow is a workload."""
        return self._calls[task].call

    @property
    def workload(self) -> Flow:
        """What the tasks do, as engines ask for it."""
        return self

    @property
    def unknown_kinds(self) -> tuple[str, ...]:
        """Kinds of tasks whose run times nobody gave."""
        kinds = (one.function.kind for one in self._calls.values() if one.function.work is None)
        return tuple(dict.fromkeys(kinds))

    @property
    def graph(self) -> TaskGraph:
        """The graph, on whatever cluster; classes that tasks need are left aside, see ``graph_on``."""
        return self._graph(())

    def graph_on(self, cluster: Cluster) -> TaskGraph:
        """The graph on a cluster: tasks cannot run on classes other than those they need."""
        classes = tuple(one.name for one in cluster.classes)
        for recorded in self._calls.values():
            for name in recorded.function.needs.classes:
                if name not in classes:
                    raise InputError(
                        f"expected a class of the cluster ({', '.join(classes)}), got {name!r}",
                        field=f"task {recorded.name}: needs",
                    )
        return self._graph(classes)

    def _graph(self, classes: Sequence[str]) -> TaskGraph:
        from weft.model.graph import GraphBuilder

        if not self._calls:
            raise InputError("no task was called in this recording", field=self.name)
        builder = GraphBuilder(self.name)
        for one in self._calls.values():
            given, needs = one.function.work, one.function.needs
            times = dict(given) if isinstance(given, Mapping) else {}
            if needs.classes:
                times |= {name: float("inf") for name in classes if name not in needs.classes}
            work = (
                given if isinstance(given, int | float) else UNKNOWN_WORK if given is None else float("nan")
            )
            builder.task(
                one.name,
                work,
                kind=one.function.kind,
                times=times,
                slots=needs.slots,
                memory=needs.memory,
                demands=needs.demands,
                after={parent: self._calls[parent].function.size for parent in one.after},
            )
        graph = builder.build()
        if not self.unknown_kinds:
            return graph
        return graph.replaced(metadata={UNKNOWN_KINDS: json.dumps(self.unknown_kinds)})


def unknown_kinds(graph: TaskGraph) -> tuple[str, ...]:
    """Kinds of a graph whose run times are only placeholders."""
    text = graph.metadata.get(UNKNOWN_KINDS)
    return tuple(json.loads(text)) if isinstance(text, str) else ()


@contextlib.contextmanager
def record(name: str = "flow") -> Iterator[Flow]:
    """Record calls of tasks as a graph.

    >>> import weft
    >>> @weft.task(work=2.0)
    ... def double(x):
    ...     return 2 * x
    >>> with weft.record("doubling") as flow:
    ...     four = double(double(1))
    >>> flow.graph
    TaskGraph('doubling', 2 tasks, 1 edges)
    >>> double(4)
    8
    """
    if _flow.get() is not None:
        raise InputError("a recording was started inside another", field=name)
    flow = Flow(name)
    token = _flow.set(flow)
    try:
        yield flow
    finally:
        _flow.reset(token)


def task(
    function: Callable[..., Any] | None = None,
    *,
    kind: str | None = None,
    needs: str | Sequence[str] | Mapping[str, Any] | None = None,
    work: float | Mapping[str, float] | None = None,
    size: float | str = 0.0,
) -> Any:
    """Make a function a task, whose calls inside a recording become tasks of a graph.

    Parameters
    ----------
    kind
        Tasks of one kind have comparable run times; default: the name of the function.
    needs
        A class of devices or several, or ``{"classes": ..., "slots": 2, "memory": "4GB", "cores": 2}``:
        other names are resources.
    work
        Run time in seconds at speed 1, or per class of device; default: not known, to be learnt from runs.
    size
        Bytes of its result, for plans; a text may have a unit.
    """
    if function is None:
        return functools.partial(task, kind=kind, needs=needs, work=work, size=size)
    if not callable(function) or isinstance(function, type):
        raise InputError(f"expected a function, got {function!r:.60}", field="task")
    name = getattr(function, "__name__", "task")
    where = f"task {name}"
    return TaskFunction(
        function,
        kind=kind or name,
        needs=_needs(needs, where),
        work=_work(work, where),
        size=_bytes(size, f"{where}: size"),
    )


def _needs(given: Any, where: str) -> Needs:
    if given is None:
        return Needs()
    if isinstance(given, str):
        return Needs((given,))
    if not isinstance(given, Mapping):
        return Needs(_classes(given, where))
    demands = {key: value for key, value in given.items() if key not in ("classes", "slots", "memory")}
    for key, value in demands.items():
        _number(value, f"{where}: needs.{key}")
    slots = given.get("slots", 1)
    if type(slots) is not int or slots < 1:
        raise InputError(f"expected a whole number >= 1, got {slots!r}", field=f"{where}: needs.slots")
    classes = given.get("classes", ())
    return Needs(
        (classes,) if isinstance(classes, str) else _classes(classes, where),
        slots,
        _bytes(given.get("memory", 0.0), f"{where}: needs.memory"),
        {key: float(value) for key, value in demands.items()},
    )


def _classes(given: Any, where: str) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, list | tuple | set | frozenset) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"expected names of classes of devices, got {given!r:.60}", field=f"{where}: needs")
    return names


def _work(given: Any, where: str) -> float | Mapping[str, float] | None:
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {key: _number(value, f"{where}: work.{key}") for key, value in given.items()}
    return _number(given, f"{where}: work")


def _number(value: Any, where: str) -> float:
    if type(value) not in (int, float) or not 0 <= value < float("inf"):
        raise InputError(f"expected a number >= 0, got {value!r:.60}", field=where)
    return float(value)


def _bytes(value: Any, where: str) -> float:
    if not isinstance(value, str):
        return _number(value, where)
    from weft.io.units import parse_size

    try:
        return float(parse_size(value))
    except ValueError as error:
        raise InputError(str(error), field=where) from None
