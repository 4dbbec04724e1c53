"""Starts the processes of a run on this machine, waits for those elsewhere, lets faults happen on request, and says what became of it."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from weft import plugins
from weft.errors import WeftError
from weft.execute.agents.coordinating import decisions_file
from weft.execute.agents.desk import DESK, done_file, kept_file, missing
from weft.execute.agents.journal import read_lines
from weft.execute.agents.places import Address, read_place
from weft.execute.agents.serving import cluster_name
from weft.execute.agents.setup import Setup, write_setup
from weft.model.elastic import ElasticProblem

LOOK = 0.02
"""Seconds between two looks at the processes."""
MOST_KILLED = 100
"""Processes that are started again after somebody killed them; one more ends the run."""
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from weft.execute.agents.__main__ import main; sys.exit(main(sys.argv[2:]))"
)


class AgentsError(WeftError):
    """A run of agents could not go on."""

    code = "agents"


@dataclass(frozen=True)
class Status:
    """How far a run is."""

    step: int
    left: int
    term: int
    rank: int
    """Of the coordinator that made the last decision; -1: none was made."""


class Process:
    """One process, which ends when this one does."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  read when the process has ended
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, json.dumps(sys.path), *self.words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """What it ended with; None: it runs."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        """The last line it wrote to stderr."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        words = (line.strip(" |+-") for line in reversed(lines))  # several errors at once are drawn in frames
        return next((line for line in words if line), "")

    def send(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self) -> None:
        """Kill it, and wait until it has gone."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._errors.close()


class Agents:
    """All processes of a run; to be used in a ``with`` statement."""

    def __init__(
        self,
        folder: Path,
        setup: Setup,
        problem: ElasticProblem,
        on_waiting: Callable[[list[str], Address], None] | None = None,
    ) -> None:
        self.folder, self.setup, self.problem, self.on_waiting = folder, setup, problem, on_waiting
        self._tails = [Tail(decisions_file(folder, rank)) for rank in range(setup.replicas)]
        self.processes: dict[str, Process] = {}
        self._status = Status(0, problem.num_tasks, -1, -1)
        self._num_killed = 0

    def __enter__(self) -> Self:
        write_setup(self.folder, self.setup, self.problem)
        try:
            self.start("source")
            self._start_here("cluster", self.problem.num_clusters)
            if self.setup.elsewhere:
                self.start(DESK)
                self._wait_for_clusters()
            self._start_here("coordinator", self.setup.replicas)
        except BaseException:
            self._end()
            raise
        return self

    def _start_here(self, role: str, count: int) -> None:
        names = [f"{role}-{n}" for n in range(count)]
        for name in names:
            if name not in self.setup.elsewhere:
                self.start(name)

    def _wait_for_clusters(self) -> None:
        """Until all clusters elsewhere have joined; who is waited for is said once, and again when that changes."""
        said: list[str] | None = None
        while (absent := missing(self.folder, self.setup.elsewhere)) or said is None:
            with contextlib.suppress(OSError):
                desk = read_place(self.folder, DESK)
                waited_for = absent or list(self.setup.elsewhere)
                if waited_for != said and self.on_waiting is not None:
                    self.on_waiting(waited_for, desk)
                said = waited_for
            self._look_for_deaths()
            self.start_killed()
            time.sleep(LOOK)

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        for process in self.processes.values():
            process.end()

    def start(self, name: str) -> None:
        """Start a process, or start it again after its death."""
        if name in self.processes:
            self.processes[name].end()
        role, _, index = name.partition("-")
        words = [role, str(self.folder), index]
        if role == "coordinator":
            words.append(json.dumps(plugins.allowed()))
        self.processes[name] = Process(words)

    def kill(self, name: str) -> None:
        """Kill a process at once (SIGKILL)."""
        self.processes[name].send(signal.SIGKILL)

    def start_killed(self) -> None:
        """Start again whatever a signal has ended; where that goes on and on, raise."""
        for name in [name for name, one in self.processes.items() if (one.code or 0) < 0]:
            self._num_killed += 1
            if self._num_killed > MOST_KILLED:
                raise AgentsError(f"{name} was killed, after {MOST_KILLED} others; the run is given up")
            self.start(name)

    @property
    def status(self) -> Status:
        """How far the run is, as coordinators have written down."""
        for rank, tail in enumerate(self._tails):
            for row in tail.new():
                if row["term"] >= self._status.term:
                    self._status = Status(row["step"], row["left"], row["term"], rank)
        return self._status

    @property
    def leader(self) -> str:
        """The coordinator that made the last decision; empty: none was made yet."""
        rank = self.status.rank
        return f"coordinator-{rank}" if rank >= 0 else ""

    def wait(self, on_status: Callable[[Status], None] | None = None, timeout: float = float("inf")) -> None:
        """Until all tasks have ended; raises where no coordinator is left, or it takes too long."""
        until = time.monotonic() + timeout
        while not self.is_over:
            if on_status is not None:
                on_status(self.status)
            self._look_for_deaths()
            if time.monotonic() > until:
                raise AgentsError(f"not over after {timeout:g} s, {self.status.left} tasks left")
            time.sleep(LOOK)

        self._wait_for_copies()

    def _wait_for_copies(self) -> None:
        """Until parties elsewhere have sent all they wrote; one that is away is waited for as long as there is patience."""
        until = time.monotonic() + self.setup.patience
        joined = [name for name in self.setup.elsewhere if kept_file(self.folder, name).exists()]
        while time.monotonic() < until and not all(done_file(self.folder, name).exists() for name in joined):
            self.start_killed()
            time.sleep(LOOK)

    @property
    def is_over(self) -> bool:
        """Whether a coordinator has ended well."""
        here = any(one.code == 0 for name, one in self.processes.items() if name.startswith("coordinator"))
        return here or any(done_file(self.folder, name).exists() for name in self._coordinators_elsewhere)

    @property
    def _coordinators_elsewhere(self) -> list[str]:
        return [name for name in self.setup.elsewhere if name.startswith("coordinator")]

    def _look_for_deaths(self) -> None:
        codes = {name: one.code for name, one in self.processes.items()}
        for name, code in codes.items():
            if code is not None and code > 0:
                raise AgentsError(self.processes[name].last_words or f"{name} ended with {code}")
        ends = [code for name, code in codes.items() if name.startswith("coordinator")]
        if ends and None not in ends and 0 not in ends and not self._coordinators_elsewhere:
            raise AgentsError("no coordinator is left; with --replicas more, another one takes over")


class Tail:
    """Reads what is added to a file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def new(self) -> list[dict[str, Any]]:
        """Whole lines since the last call."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._at)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


def journals(folder: Path, num_clusters: int) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """The journals of all clusters, and that of the source."""
    clusters = [read_lines(folder / f"{cluster_name(n)}.jsonl") for n in range(num_clusters)]
    return clusters, read_lines(folder / "source.jsonl")
