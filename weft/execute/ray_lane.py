"""What Ray's workers load to carry out orders: the standard library, ``weft.execute.work`` and Ray's pickling."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from weft.execute.keeping import keep, keep_rehearsed
from weft.execute.work import Control, Place, Rehearsal, TaskFailed, carry_out, note_of

FINISHED, FAILED, LACKING, WITHDRAWN = "finished", "failed", "lacking", "withdrawn"
_PATIENCE = 30.0
"""Seconds until a lane that has nothing to say is asked again."""

_GUARD = """
import os, signal, sys
if os.fork():
    os._exit(0)
groups = set()
for line in sys.stdin:
    groups ^= {int(line)}
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class Ticket(NamedTuple):
    """One order, as a lane gets it."""

    number: int
    """Tells the orders of one engine apart."""
    work: bytes
    """What is to be done, pickled by Ray: it is read where its failure can be told."""
    place: Place
    inputs: tuple[str, ...]
    """Tasks whose results come along, in order."""


class Report(NamedTuple):
    """How an order ended; times by the clock of the lane's machine."""

    began: float
    ended: float
    outcome: str
    note: str = ""
    """Why it failed; of an order that lacks a result: the task whose result it is."""
    size: float | None = None


NOW = float("inf")
"""The time of what happens as it is told."""


def failed(note: str) -> Report:
    """The report of an order that has failed without a lane's doing."""
    return Report(NOW, NOW, FAILED, note)


@dataclass(frozen=True)
class Unfinished:
    """Stands for the result of an order that has none, for those behind it that were to be handed it."""


class Lane:
    """Carries out one order after the other, in a process of its own, and says when each starts."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._begun: list[tuple[int, float]] = []
        self._withdrawn: set[int] = set()
        self._guard: subprocess.Popen[str] | None = None

    def hello(self) -> str:
        """The id of this actor."""
        import ray

        return str(ray.get_runtime_context().get_actor_id())

    def clock(self) -> float:
        """The time here."""
        return time.time()

    def begun(self) -> list[tuple[int, float]]:
        """Orders that have begun since the last call, with times; waits for one."""
        with self._condition:
            if not self._begun:
                self._condition.wait(_PATIENCE)
            news, self._begun = self._begun, []
        return news

    def withdraw(self, number: int) -> None:
        """Pass over an order when its turn comes; too late for one that has begun."""
        with self._condition:
            self._withdrawn.add(number)

    def run(self, ticket: Ticket, *values: Any) -> tuple[Any, Report]:
        """Carry out one order: its result, and how it ended."""
        began = time.time()
        for task, value in zip(ticket.inputs, values, strict=True):
            if isinstance(value, Unfinished):
                return Unfinished(), Report(began, began, LACKING, task)
        with self._condition:
            if ticket.number in self._withdrawn:
                return Unfinished(), Report(began, began, WITHDRAWN)
            self._begun.append((ticket.number, began))
            self._condition.notify_all()
        try:
            result = self._result(ticket, values)
        except TaskFailed as failure:
            return Unfinished(), Report(began, time.time(), FAILED, str(failure))
        except BaseException as error:  # the end of a thread or a full disk must not end the lane
            return Unfinished(), Report(began, time.time(), FAILED, note_of(error))
        return result, Report(began, time.time(), FINISHED, size=_size(result))

    def _result(self, ticket: Ticket, values: Sequence[Any]) -> Any:
        import ray

        try:
            work = ray.cloudpickle.loads(ticket.work)
        except BaseException as error:  # runs imports of the user's
            raise TaskFailed(f"it cannot be read by its worker: {note_of(error)}") from None
        inputs = dict(zip(ticket.inputs, values, strict=True))
        spawned: list[int] = []

        def watch(group: int) -> None:
            spawned.append(group)
            self._watch(group)

        try:
            result = carry_out(work, inputs, ticket.place, Control(is_alone=True, spawned=watch))
        finally:
            for group in spawned:
                self._watch(group)
        if ticket.place.folder and Path(ticket.place.folder).is_dir():
            if isinstance(work, Rehearsal):
                keep_rehearsed(work.size, ticket.place.folder)
            else:
                keep(result, ticket.place.folder)
        return result

    def _watch(self, group: int) -> None:
        """Have a process group killed if this process ends; told again: not any more.

        A lane that is killed takes its threads with it, but not the programs that it has started.
        """
        if self._guard is None:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _GUARD],
                stdin=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            self._guard.wait()  # it goes on as a process that is nobody's child
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{group}\n")
        self._guard.stdin.flush()


def _size(value: object, depth: int = 3) -> float | None:
    """Bytes of a result, as far as they are easily known."""
    if isinstance(value, bytes | bytearray | str):
        return float(len(value))
    if isinstance(value, int | float | bool | None):
        return float(sys.getsizeof(value))
    nbytes = getattr(value, "nbytes", None)
    if isinstance(nbytes, int):
        return float(nbytes)
    if isinstance(value, Mapping):
        value = list(value.values())
    if depth and isinstance(value, list | tuple) and len(value) <= 1000:
        parts = [_size(one, depth - 1) for one in value]
        return None if None in parts else float(sum(part or 0.0 for part in parts))
    return None
