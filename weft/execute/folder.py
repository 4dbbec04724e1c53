"""The folder of a run: what was asked, the problem, the first plan, the history, and a folder for every task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.io.files import load_problem, write_problem
from weft.io.folders import claim
from weft.io.histories import HISTORY
from weft.io.json_files import parse_json
from weft.io.sources import read_bytes, write_bytes
from weft.model.problem import Problem
from weft.session.messages import Name

RUN, PROBLEM, PLAN, TASKS, INDEX = "run.json", "problem.json", "plan.json", "tasks", "tasks.jsonl"
SCHEMA = "weft/execution/1"


class RunFolder:
    """Files of one run; tasks have numbered folders, in the order in which they were first asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._numbers: dict[tuple[Name, str], int] = {}
        if (path / INDEX).exists():
            for line in (path / INDEX).read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self._numbers[row["job"], row["task"]] = int(row["number"])

    @property
    def history(self) -> Path:
        """Where the history is."""
        return self.path / HISTORY

    def task(self, job: Name, task: str) -> str:
        """The folder of a task, made if it is not there."""
        if (job, task) not in self._numbers:
            number = len(self._numbers) + 1
            self._numbers[job, task] = number
            row = json.dumps({"number": number, "job": job, "task": task})
            with (self.path / INDEX).open("a", encoding="utf-8") as file:
                file.write(row + "\n")
        folder = self.path / TASKS / str(self._numbers[job, task])
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder.resolve())

    def home(self, job: Name, task: str) -> Path:
        """The folder of a task that was given to a worker; it may not be there."""
        return self.path / TASKS / str(self._numbers.get((job, task), 0))

    def write_asked(self, asked: dict[str, Any]) -> None:
        """What the run was asked to do."""
        text = json.dumps({"schema": SCHEMA, **asked}, indent=1, allow_nan=False)
        write_bytes(text.encode() + b"\n", self.path / RUN)

    def read_asked(self) -> dict[str, Any]:
        """What the run was asked to do."""
        found = parse_json(read_bytes(self.path / RUN), self.path / RUN)
        if found.get("schema") != SCHEMA:
            raise InputError(f"expected {SCHEMA!r}", file=str(self.path / RUN), field="schema")
        return found

    def write_problem(self, problem: Problem) -> None:
        """The jobs known at the start, on the cluster of the run."""
        write_problem(problem, self.path / PROBLEM)

    def read_problem(self) -> Problem:
        """The jobs known at the start, on the cluster of the run."""
        return load_problem(self.path / PROBLEM)


def new_folder(out: str | Path | None, name: str) -> RunFolder:
    """An empty folder for a run; ``runs/NAME-1`` and so on unless one is given."""
    if out is None:
        number = 1
        while (Path("runs") / f"{name}-{number}").exists():
            number += 1
        out = Path("runs") / f"{name}-{number}"
    refuse_used(out)
    return RunFolder(claim(out, "run", RUN))


def refuse_used(out: str | Path | None) -> None:
    """Raise where there is a run already."""
    if out is not None and (Path(out) / HISTORY).exists():
        raise InputError("there is a run in this folder: --resume goes on with it", file=str(out))


def old_folder(out: str | Path) -> RunFolder:
    """The folder of a run that was begun."""
    path = Path(out)
    if not (path / HISTORY).is_file() or not (path / RUN).is_file():
        raise InputError(f"expected the folder of a run ({RUN}, {HISTORY})", file=str(path))
    return RunFolder(path)
