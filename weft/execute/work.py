"""What a task does when it is carried out, and how a worker does it.

This is what workers load, wherever they run: it imports the standard library alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Result:
    """Stands for the result of another task of the same job, among the arguments of a call."""

    task: str


@dataclass(frozen=True)
class Call:
    """Calls a function; a ``Result`` among its arguments, or in lists, tuples and dicts there, is replaced."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Command:
    """Runs a program; its result is its exit code, 0, and anything else is a failure."""

    line: str | tuple[str, ...]
    """A line for the shell, or a program and its arguments."""
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    """Where it runs; empty: the folder of the run's task."""


@dataclass(frozen=True)
class Rehearsal:
    """Takes as long as a task would and hands on as many bytes, without doing what it does."""

    seconds: Mapping[str, float]
    """Run time by class of device."""
    size: int = 0
    """Bytes of its result."""
    share: float = 1.0
    """Share of its time that it computes, to leave room where workers outnumber cores; else it sleeps."""


Work = Call | Command | Rehearsal


@dataclass(frozen=True)
class Place:
    """Which attempt at which task this is, and where it runs."""

    job: str
    task: str
    attempt: int
    device: str
    device_class: str
    folder: str = ""
    """Where logs and results of this task are kept; empty, or not there on this machine: nowhere."""
    timeout: float | None = None
    """Seconds after which a command is stopped and fails."""


class Workload(Protocol):
    """What the tasks of jobs do."""

    def work(self, job: str | int, task: str) -> Work:
        """What this task does."""
