"""Functions and values as bytes for other processes, and back.

Functions at the top level of a module travel as their name, which the worker looks up; lambdas, closures and
what a script itself defines travel as code where cloudpickle is installed. Whoever reads such bytes runs what
they say: workers read only what their driver sends, and the driver only what its workers return.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from multiprocessing.reduction import ForkingPickler
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from weft.errors import InputError
from weft.execute.recording import TaskFunction
from weft.execute.work import Call, Work, Workload, note_of
from weft.plugins import FILE_MODULES

MAIN = "__main__"
_PROTOCOL = 5

File = tuple[str, str]
"""Name of a module and the file that a worker must load to have it."""


class NotSendable(Exception):
    """This cannot be sent; ``str()`` is one line that says why."""


class Packed(NamedTuple):
    """Something as bytes."""

    data: bytes
    files: tuple[File, ...] = ()
    """What a worker must have loaded to unpack it."""


def pack(value: Any, *, by_value: bool = False) -> Packed:
    """Anything as bytes; raises ``NotSendable``.

    Parameters
    ----------
    by_value
        Send code of the user's files too, for workers on machines that do not have them; needs cloudpickle.
    """
    reason = "it takes cloudpickle, which is not installed"
    if not by_value:
        try:
            data, modules = _plain(value)
        except Exception as error:
            reason = note_of(error)
        else:
            if MAIN not in modules or not has_cloudpickle():
                return Packed(data, tuple(_file(name) for name in sorted(modules)))
    if not has_cloudpickle():
        raise NotSendable(reason)
    try:
        return Packed(_code(value))
    except Exception as error:
        raise NotSendable(note_of(error)) from None


def unpack(data: bytes) -> Any:
    """What was packed."""
    return ForkingPickler.loads(data)


def check_sendable(
    workload: Workload, tasks: Iterable[tuple[str | int, str]], *, by_value: bool = False
) -> tuple[File, ...]:
    """Refuse, by name, a task whose function or arguments cannot be sent; returns the files that workers must load."""
    files: dict[File, None] = {}
    for job, task in tasks:
        work = workload.work(job, task)
        try:
            files.update(dict.fromkeys(pack(work, by_value=by_value).files))
        except NotSendable as error:
            raise InputError(_refusal(work, str(error)), field=f"task {task}") from None
    return tuple(files)


def _refusal(work: Work, reason: str) -> str:
    name = getattr(work.function, "__name__", repr(work.function)) if isinstance(work, Call) else "its work"
    hint = "" if has_cloudpickle() else "; others can where cloudpickle is installed"
    return (
        f"{name} or its arguments cannot be sent to a worker ({reason}): expected plain values and a "
        f"function at the top level of a file{hint}"
    )


@cache
def has_cloudpickle() -> bool:
    """Whether code itself can be sent."""
    return importlib.util.find_spec("cloudpickle") is not None


class _Plain(ForkingPickler):
    """Names of functions and classes; notes the modules that a fresh interpreter could not import."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, _PROTOCOL)
        self.modules: set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, TaskFunction):
            self._note(value.__module__)
            return value.__qualname__
        if isinstance(value, FunctionType | type):
            self._note(value.__module__)
        return NotImplemented

    def _note(self, module: str) -> None:
        if module == MAIN or module.startswith(FILE_MODULES):
            self.modules.add(module)


def _plain(value: Any) -> tuple[bytes, set[str]]:
    file = io.BytesIO()
    pickler = _Plain(file)
    pickler.dump(value)
    return file.getvalue(), pickler.modules


def _file(module: str) -> File:
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        raise NotSendable("what is typed in at a prompt takes cloudpickle, which is not installed")
    return module, str(file)


def _code(value: Any) -> bytes:
    with _as_code(_modules_from_files()) as cloudpickle:
        return bytes(cloudpickle.dumps(value, protocol=_PROTOCOL))


def _modules_from_files() -> list[ModuleType]:
    return [module for name, module in list(sys.modules.items()) if name.startswith(FILE_MODULES)]


@contextlib.contextmanager
def _as_code(modules: Iterable[ModuleType]) -> Iterator[Any]:
    """While this holds, cloudpickle sends what these modules define as code, not as names."""
    cloudpickle: Any = importlib.import_module("cloudpickle")
    given = list(modules)
    for module in given:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield cloudpickle
    finally:
        for module in given:
            cloudpickle.unregister_pickle_by_value(module)
