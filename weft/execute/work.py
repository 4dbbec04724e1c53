"""What a task does when it is carried out, and how a worker does it.

This is what workers load, wherever they run: it imports the standard library alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from weft.execute.capture import Logs, captured

GRACE = 2.0
"""Seconds between asking a program to end and making it."""
LONGEST_NOTE = 300
EXIT_CODE = "exit_code.txt"
_BLOCK = 1 << 14
_STEP = 0.002
"""Seconds a rehearsal computes before it looks whether it is still wanted."""


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


_thread = threading.local()


class Workload(Protocol):
    """What the tasks of jobs do."""

    def work(self, job: str | int, task: str) -> Work:
        """What this task does."""


class TaskFailed(Exception):
    """A task has failed; ``str()`` is one line that says how."""


class Stopped(BaseException):
    """Raised in a thread whose task is not wanted any more; no ``except Exception`` of the task's catches it."""


class Control:
    """What whoever has a work carried out may do to it meanwhile.

    Parameters
    ----------
    is_alone
        No other task runs in this process: what programs and libraries write is captured too.
    factor
        How much longer rehearsals take here.
    spawned
        Told the process group of a command.
    """

    def __init__(
        self, *, is_alone: bool = False, factor: float = 1.0, spawned: Callable[[int], None] | None = None
    ) -> None:
        self.is_alone = is_alone
        self.factor = factor
        self.note = ""
        """Why it was stopped; empty: it was not."""
        self.stopped = threading.Event()
        self._spawned = spawned
        self._lock = threading.Lock()
        self._group: int | None = None

    def stop(self, note: str) -> None:
        """Have a command or rehearsal end and fail with this note; a call cannot be stopped so."""
        with self._lock:
            self.note = self.note or note
            self.stopped.set()
            if self._group is None:
                return
            kill_group(self._group, signal.SIGTERM)
        later = threading.Timer(GRACE, self.kill)
        later.daemon = True
        later.start()

    def kill(self) -> None:
        """End the command, if it still runs, without asking."""
        with self._lock:
            if self._group is not None:
                kill_group(self._group, signal.SIGKILL)

    @contextlib.contextmanager
    def holding(self, group: int) -> Iterator[None]:
        """While a process group runs."""
        with self._lock:
            self._group = group
            is_late = self.stopped.is_set()
        if self._spawned is not None:
            self._spawned(group)
        if is_late:
            self.kill()
        try:
            yield
        finally:
            with self._lock:
                self._group = None


def kill_group(group: int, number: int) -> None:
    """Send a signal to a process group, if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def carry_out(work: Work, inputs: Mapping[str, Any], place: Place, control: Control | None = None) -> Any:
    """Do what a task does and return its result; raises ``TaskFailed`` and nothing else.

    Parameters
    ----------
    inputs
        Results of other tasks of the job, by task.
    """
    control = control or Control()
    _thread.place = place
    with captured(place.folder, place.attempt, place.device, is_alone=control.is_alone) as logs:
        try:
            if isinstance(work, Call):
                return _call(work, inputs)
            if isinstance(work, Command):
                return _run(work, place, control, logs)
            return _rehearse(work, place, control)
        except TaskFailed:
            raise
        except BaseException as error:
            if control.note:
                raise TaskFailed(control.note) from None
            logs.error(_traceback(error))
            raise TaskFailed(note_of(error)) from None
        finally:
            _thread.place = None


def this_place() -> Place | None:
    """Which task this thread carries out, and where; None: none."""
    return getattr(_thread, "place", None)


def note_of(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return (f"{name}: {text}" if text else name)[:LONGEST_NOTE]


def timed_out(seconds: float) -> str:
    """The note of a task that took too long."""
    return f"timed out after {seconds:g} s"


def _traceback(error: BaseException) -> str:
    """The traceback of a user's function, without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


# -- calls -----------------------------------------------------------------------------------------


def _call(call: Call, inputs: Mapping[str, Any]) -> Any:
    arguments = [filled(value, inputs) for value in call.arguments]
    keywords = {key: filled(value, inputs) for key, value in call.keywords.items()}
    return call.function(*arguments, **keywords)


def filled(value: Any, inputs: Mapping[str, Any]) -> Any:
    """An argument with results in place of what stands for them, also in lists, tuples and dicts."""
    if isinstance(value, Result):
        if value.task not in inputs:
            raise TaskFailed(f"the result of {value.task!r} is not there")
        return inputs[value.task]
    if type(value) in (list, tuple):
        return type(value)(filled(one, inputs) for one in value)
    if type(value) is dict:
        return {key: filled(one, inputs) for key, one in value.items()}
    return value


# -- commands --------------------------------------------------------------------------------------


def _run(command: Command, place: Place, control: Control, logs: Logs) -> int:
    is_line = isinstance(command.line, str)
    folder = command.folder or (place.folder if Path(place.folder).is_dir() else "")
    try:
        process = subprocess.Popen(
            command.line if is_line else list(command.line),
            shell=is_line,
            cwd=folder or None,
            env=_environment(command, place),
            stdin=subprocess.DEVNULL,
            stdout=logs.stdout or subprocess.DEVNULL,
            stderr=logs.stderr or subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise TaskFailed(f"cannot run {_program(command)!r}: {note_of(error)}") from None
    with control.holding(process.pid), _deadline(place.timeout, control):
        _wait(process)
        # What it left running in its group would outlive the task.
        kill_group(process.pid, signal.SIGKILL)
        code = process.wait()
    return _exit_code(code, place, control)


def _environment(command: Command, place: Place) -> dict[str, str]:
    own = {
        "WEFT_JOB": place.job,
        "WEFT_TASK": place.task,
        "WEFT_ATTEMPT": str(place.attempt),
        "WEFT_DEVICE": place.device,
    }
    return {**os.environ, **own, **command.environment}


def _program(command: Command) -> str:
    return command.line if isinstance(command.line, str) else next(iter(command.line), "")


@contextlib.contextmanager
def _deadline(seconds: float | None, control: Control) -> Iterator[None]:
    """Stop a command that runs longer."""
    if seconds is None:
        yield
        return
    alarm = threading.Timer(seconds, control.stop, [timed_out(seconds)])
    alarm.daemon = True
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Until it has ended; where the system can, its number is not free for others yet."""
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


def _exit_code(code: int, place: Place, control: Control) -> int:
    if place.folder and Path(place.folder).is_dir():
        Path(place.folder, EXIT_CODE).write_text(f"{code}\n", encoding="utf-8")
    if code == 0:
        return 0
    if control.note:
        raise TaskFailed(control.note)
    if code < 0:
        raise TaskFailed(f"killed by signal {-code}")
    raise TaskFailed(f"exit code {code}")


# -- rehearsals ------------------------------------------------------------------------------------


def _rehearse(work: Rehearsal, place: Place, control: Control) -> bytes:
    if place.device_class not in work.seconds:
        raise TaskFailed(f"no run time is given for class {place.device_class!r}")
    began = time.perf_counter()
    seconds = work.seconds[place.device_class] * control.factor
    result = rehearsed(work.size)
    _compute(seconds * work.share, control)
    left = seconds - (time.perf_counter() - began)
    if left > 0:
        control.stopped.wait(left)
    if control.note:
        raise TaskFailed(control.note)
    return result


def rehearsed(size: int) -> bytes:
    """The result of a rehearsal: this many bytes that do not compress."""
    whole, rest = divmod(size, len(_random_block()))
    return b"".join([*[_random_block()] * whole, _random_block()[:rest]])


@cache
def _random_block() -> bytes:
    return os.urandom(1 << 20)


def _compute(seconds: float, control: Control) -> None:
    """As much work as takes this long where nothing else runs."""
    left = round(seconds * rounds_per_second())
    step = max(1, round(_STEP * rounds_per_second()))
    while left > 0 and not control.stopped.is_set():
        _work_for(min(step, left))
        left -= step


def _work_for(rounds: int) -> None:
    block = bytes(_BLOCK)
    for _ in range(rounds):
        hashlib.sha256(block).digest()


@cache
def rounds_per_second() -> float:
    """How fast this process computes; the best of a few short probes, for others may be in the way."""
    _work_for(20)
    best = float("inf")
    for _ in range(8):
        began = time.perf_counter()
        _work_for(40)
        best = min(best, time.perf_counter() - began)
    return 40 / best
