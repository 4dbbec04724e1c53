"""The history of a run as :class:`Placed`: what was planned first, and every attempt that was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.io.exports.of_schedule import tasks_of
from weft.io.exports.placed import DONE, Device, Placed, Span, Task
from weft.io.files import load_problem
from weft.io.histories import HISTORY, is_history, read_history
from weft.model.history_form import fault_of

PROBLEM = "problem.json"
FAILED, LOST, OPEN = "failed", "lost", "open"
Row = dict[str, Any]


def of_run(path: str | Path) -> Placed:
    """Plan and actual of a run, by its folder or the history in it."""
    folder = Path(path)
    if not is_history(folder):
        raise InputError(f"expected the folder of a run, there is no {HISTORY} in it", file=str(path))
    folder = folder if folder.is_dir() else folder.parent
    rows = read_history(folder)
    for number, row in enumerate(rows, start=1):
        fault = fault_of(row)
        if fault:
            raise InputError(fault, file=str(folder / HISTORY), line=number)
    if rows[0]["event"] != "run":
        raise InputError("expected the row of the run first", file=str(folder / HISTORY), line=1)
    told = _Told(rows, folder / HISTORY)
    return told.placed(_known_tasks(folder))


def _known_tasks(folder: Path) -> dict[tuple[str, str], Task]:
    """What the problem of the run says of tasks, by job and name; a history alone says less."""
    if not (folder / PROBLEM).is_file():
        return {}
    jobs = load_problem(folder / PROBLEM).jobs
    return {(job.name, task.name): task for job in jobs for task in tasks_of(job.graph, job.name)}


class _Told:
    """Reads the rows one by one."""

    def __init__(self, rows: Sequence[Row], file: Path) -> None:
        self.rows, self.file = rows, file
        self.head = rows[0]
        self.devices = [str(one["name"]) for one in self.head["devices"]]
        self.tasks: list[Task] = []
        self.number: dict[tuple[str, str], int] = {}
        self.edges: list[tuple[int, int]] = []
        self.plan: dict[int, Span] = {}
        self.actual: list[Span] = []
        self.running: dict[tuple[int, int], Span] = {}
        for line, row in enumerate(rows[1:], start=2):
            read = getattr(self, f"_{row['event']}", None)
            if read is not None:
                try:
                    read(row)
                except KeyError as error:
                    raise InputError(
                        f"{row['event']}: {error.args[0]!r} is not known", file=str(file), line=line
                    ) from None
        for key in list(self.running):
            self._end(key, float(rows[-1]["time"]), OPEN)

    def placed(self, known: dict[tuple[str, str], Task]) -> Placed:
        """All of it; ``known`` fills in what a history does not hold of tasks."""
        unplanned = len(self.tasks) - len(self.plan)
        ran = {span.task for span in self.actual if span.outcome == DONE}
        lacking = len(set(range(len(self.tasks))) - set(self.plan) - ran)
        notes = []
        if unplanned and len(self.plan):
            notes.append(
                f"{unplanned} of {len(self.tasks)} tasks were not planned: they are placed as they ran"
            )
        elif unplanned:
            notes.append("nobody planned this run: tasks are placed as they ran")
        if lacking:
            notes.append(f"{lacking} of {len(self.tasks)} tasks were neither planned nor done: left out")
        return Placed(
            str(self.head.get("label") or self.head.get("run") or "run"),
            str(self.head["time_unit"]),
            tuple(map(_device, self.head["devices"])),
            tuple(_filled(task, known.get((task.job, task.name))) for task in self.tasks),
            tuple(self.edges),
            tuple(sorted(self.plan.values(), key=lambda span: span.order)),
            tuple(sorted(self.actual, key=lambda span: span.order)),
            str(self.head.get("scheduler") or ""),
            is_run=True,
            notes=tuple(notes),
        )

    def _task(self, row: Row) -> int:
        return self.number[str(row["job"]), row["task"]]

    def _device(self, name: str) -> int:
        try:
            return self.devices.index(name)
        except ValueError:
            raise KeyError(name) from None

    def _end(self, key: tuple[int, int], time: float, outcome: str) -> None:
        span = self.running.pop(key, None)
        if span is not None:
            self.actual.append(replace(span, finish=max(time, span.start), outcome=outcome))

    # -- one method per event that matters here ---------------------------------------------------

    def _arrived(self, row: Row) -> None:
        job, kinds = str(row["job"]), row.get("kinds") or []
        for i, name in enumerate(row["tasks"]):
            self.number[job, name] = len(self.tasks)
            kind = str(kinds[i]) if isinstance(kinds, list) and i < len(kinds) else "task"
            self.tasks.append(Task(job, name, kind))
        self.edges += [
            (self.number[job, source], self.number[job, target]) for source, target in row["edges"]
        ]

    def _planned(self, row: Row) -> None:
        for job, task, device, start, finish in row["rows"]:
            number = self.number[str(job), task]
            self.plan.setdefault(number, Span(number, self._device(device), float(start), float(finish)))

    def _started(self, row: Row) -> None:
        number, attempt, time = self._task(row), int(row["attempt"]), float(row["time"])
        self.running[number, attempt] = Span(number, self._device(row["device"]), time, time, attempt=attempt)

    def _finished(self, row: Row) -> None:
        self._end((self._task(row), int(row["attempt"])), float(row["time"]), DONE)

    def _failed(self, row: Row) -> None:
        self._end((self._task(row), int(row["attempt"])), float(row["time"]), FAILED)

    def _lost(self, row: Row) -> None:
        device = self._device(row["device"])
        for key in [key for key, span in self.running.items() if span.device == device]:
            self._end(key, float(row["time"]), LOST)

    def _resumed(self, row: Row) -> None:
        for key in list(self.running):
            self._end(key, float(row["time"]), LOST)


def _device(row: Row) -> Device:
    name = str(row["name"])
    return Device(
        name, str(row.get("class") or name), int(row.get("slots") or 1), str(row.get("worker") or "")
    )


def _filled(task: Task, known: Task | None) -> Task:
    return task if known is None else known
