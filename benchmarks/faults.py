"""Runs in which something goes wrong, judged by the checker of histories and by results that are known.

Every run draws a small workflow and one fault: a worker is killed, two are, one is killed and comes back, one turns four
times slower, a task raises once or always, a task hangs, the driver is killed by -9 and resumed. Exit code 1: a run broke
a promise, whose number does it again, or runs are missing.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._execute.rows import Row, Rows
from benchmarks._faulty import ALWAYS, HANG, NEVER, ONCE, Flow, judged
from weft.execute.backends import Backend, LocalBackend, open_backend
from weft.execute.drive import Drive
from weft.execute.folder import new_folder
from weft.execute.run import Manner, carry_out
from weft.execute.sources import Doing, put_on, source_of
from weft.io.files import read_cluster

KILL, KILL_TWO, RESTART, SLOW = "kill a worker", "kill two", "restart", "slow worker"
RAISE, FAIL, HANGS, DRIVER = "raising task", "failing task", "hanging task", "driver killed"
FAULTS = (KILL, KILL_TWO, RESTART, SLOW, RAISE, FAIL, HANGS, DRIVER)
WRONG = {RAISE: ONCE, FAIL: ALWAYS, HANGS: HANG}
TIMEOUT = 3.0
"""Seconds after which a task that hangs is stopped; none takes as long by itself."""
PERIOD = 0.04
"""Seconds in which a slow worker stands still for three quarters."""


@dataclass
class Case:
    """One run: where, what goes wrong, and what is drawn."""

    number: int
    on: str
    fault: str

    @property
    def rng(self) -> random.Random:
        """The same numbers whenever it is asked for."""
        return random.Random(f"{self.number} {self.on} {self.fault}")


@dataclass
class Trouble:
    """Does something to the workers of a run once its time has come."""

    case: Case
    backend: Backend
    at: float
    done: bool = False
    stops: list[threading.Event] = field(default_factory=list)

    def __call__(self, drive: Drive) -> None:
        """Called after every moment of the run."""
        if self.done or drive.now < self.at or self.case.fault not in (KILL, KILL_TWO, RESTART, SLOW):
            return
        self.done = True
        names = list(drive.told.devices)
        chosen = self.case.rng.sample(names, 2 if self.case.fault == KILL_TWO else 1)
        for name in chosen:
            if self.case.fault == SLOW:
                self._slow(worker_pid(self.backend, drive, name))
            else:
                kill_worker(self.backend, drive, name, comes_back=self.case.fault == RESTART)

    def _slow(self, pid: int | None) -> None:
        """Let a process stand still for three quarters of its time."""
        stop = threading.Event()
        self.stops.append(stop)

        def pulse() -> None:
            while pid is not None and not stop.is_set():
                try:
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(0.75 * PERIOD)
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    return
                time.sleep(0.25 * PERIOD)

        threading.Thread(target=pulse, daemon=True).start()

    def end(self) -> None:
        """Leave all workers as fast as they are."""
        for stop in self.stops:
            stop.set()


def worker_pid(backend: Backend, drive: Drive, device: str) -> int | None:
    """The process that runs a device; None: on Ray, where nobody says."""
    if isinstance(backend, LocalBackend):
        pids: dict[str, int] = drive.engine.pids  # type: ignore[attr-defined]
        return pids.get(device)
    if backend.name == "dask":
        nanny = backend.connection.cluster.workers[device]  # type: ignore[attr-defined]
        return int(nanny.pid) if nanny.pid else None
    return None


def kill_worker(backend: Backend, drive: Drive, device: str, *, comes_back: bool) -> None:
    """Kill the process of a device."""
    if backend.name == "ray":
        import ray

        for lane in drive.engine._devices[device].lanes:  # type: ignore[attr-defined] # noqa: SLF001
            ray.kill(lane.actor)
        return
    if backend.name == "dask" and not comes_back:
        backend.connection.cluster.workers[device].auto_restart = False  # type: ignore[attr-defined]
    pid = worker_pid(backend, drive, device)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)


@contextmanager
def machines(case: Case, task: Any) -> Iterator[Backend]:
    """Workers of one run."""
    problem = task.problem
    if case.on == "local":
        options = {"restart": case.fault not in (KILL, KILL_TWO)}
        backend: Backend = LocalBackend(problem.cluster, problem.seconds_per_unit, options=options)
    else:
        backend = open_backend(case.on, problem.cluster, problem.seconds_per_unit)
    try:
        backend.check(task)
        yield backend
    finally:
        backend.close()


def carried_out(case: Case, home: Path) -> list[str]:
    """Carry a case out in this process; returns what is wrong."""
    flow = Flow.drawn(case.number)
    wrong = flow.write(home, WRONG.get(case.fault, NEVER))
    source = source_of(home / "graph.json", None)
    task = put_on(source, read_cluster(home / "cluster.toml"), Doing(str(home / "functions.py")))
    manner = Manner(timeout=TIMEOUT if case.fault == HANGS else None)
    with machines(case, task) as backend:
        trouble = Trouble(case, backend, case.rng.uniform(0.1, 0.8))
        try:
            carry_out(task, backend, manner, new_folder(home / "run", "run"), trouble)
        finally:
            trouble.end()
    return judged(flow, home / "run", wrong if case.fault == FAIL else "")


def killed_and_resumed(case: Case, home: Path) -> list[str]:
    """Kill the driver at random moments and resume until the run is over; returns what is wrong."""
    flow, rng = Flow.drawn(case.number, 0.05, 0.15), case.rng
    flow.write(home)
    command = [sys.executable, "-m", "weft.cli", "--quiet", "run", str(home / "graph.json")]
    command += ["--on", case.on, "--cluster", str(home / "cluster.toml")]
    command += ["--functions", str(home / "functions.py"), "--out", str(home / "run")]
    history, places = home / "run" / "history.jsonl", rng.sample(range(3, 5 * len(flow.tasks)), 2)
    mark = f"weft-{uuid.uuid4().hex}"
    for place in sorted(places):
        more = ["--resume"] if history.exists() else []
        driver = subprocess.Popen(
            [*command, *more], stderr=subprocess.PIPE, env={**os.environ, "WEFT_MARK": mark}
        )
        while driver.poll() is None and _rows(history) < place:
            time.sleep(0.005)
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
        if left := left_over(mark):
            return [f"{len(left)} processes outlive their driver"]
        if history.exists() and b'"closed"' in history.read_bytes():
            return judged(flow, home / "run")
    more = ["--resume"] if history.exists() else []
    last = subprocess.run([*command, *more], capture_output=True, text=True, timeout=120)
    if last.returncode:
        return [f"exit code {last.returncode}: {last.stderr.strip()[-300:]}"]
    return judged(flow, home / "run")


def left_over(mark: str, patience: float = 30.0) -> list[int]:
    """Processes with this in their environment that do not end by themselves."""
    until = time.monotonic() + patience
    while (found := _marked(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def _marked(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def _rows(history: Path) -> int:
    return history.read_bytes().count(b"\n") if history.exists() else 0


def run_case(case: Case) -> list[str]:
    """Carry one case out in a folder of its own; returns what is wrong."""
    do: Callable[[Case, Path], list[str]] = killed_and_resumed if case.fault == DRIVER else carried_out
    with tempfile.TemporaryDirectory(prefix="weft-faults-") as home:
        try:
            return do(case, Path(home))
        except Exception as error:
            return [f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"]


def drawn_cases(runs: int, engines: Sequence[str], seed: int) -> list[Case]:
    """So many cases, faults in turn, engines in turn within each fault."""
    cases = []
    for k in range(runs):
        on = engines[k // len(FAULTS) % len(engines)]
        fault = FAULTS[k % len(FAULTS)]
        if on == "ray" and fault == SLOW:  # nobody says which process a lane is
            on = engines[0] if engines[0] != "ray" else on
        cases.append(Case(seed * 1_000_003 + k, on, fault))
    return cases


def main(arguments: list[str]) -> int:
    """Run all cases and print how each kind of fault went."""
    options = _options(arguments)
    cases = drawn_cases(options.runs, options.on.split(","), options.seed)
    cases = [case for case in cases if options.fault in (None, case.fault)]
    cases = [case for case in cases if options.only in (None, case.number)]
    rows, until = Rows(options.rows), time.monotonic() + options.limit
    if options.lanes == 1:
        for case in cases:
            if time.monotonic() < until:
                rows.of(_key(case), partial(_row, case), say=_say)
    else:
        _side_by_side(cases, rows, options, until)
    return _conclude(cases, rows)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--on", default="local,dask", help="engines, in turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=FAULTS, help="this one alone")
    parser.add_argument("--only", type=int, help="only the run of this number, as a failure names it")
    parser.add_argument("--rows", help="file of runs to go on with, JSON lines")
    parser.add_argument(
        "--lanes", type=int, default=1, help="runs side by side, each in a process of its own"
    )
    parser.add_argument(
        "--limit", type=float, default=float("inf"), help="seconds after which no run is begun"
    )
    return parser.parse_args(arguments)


def _key(case: Case) -> Row:
    return {"part": "faults", "number": case.number, "on": case.on, "fault": case.fault}


def _row(case: Case) -> Row:
    began = time.monotonic()
    found = run_case(case)
    return {"broken": found[:5], "seconds": time.monotonic() - began}


def _say(line: str) -> None:
    print(line, flush=True)


def _side_by_side(cases: Sequence[Case], rows: Rows, options: argparse.Namespace, until: float) -> None:
    """A process for each case, so many at a time; they write into the same file."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.lanes) as pool:
        path = options.rows or str(Path(folder, "rows.jsonl"))
        same = ["benchmarks", "faults", "--runs", str(options.runs), "--on", options.on]
        same += ["--seed", str(options.seed), "--rows", path, "--only"]

        def one(case: Case) -> None:
            if time.monotonic() < until:
                command = [sys.executable, "-m", *same, str(case.number)]
                done = subprocess.run(command, capture_output=True, text=True)
                lines = (done.stdout + done.stderr).splitlines()
                _say("\n".join(line for line in lines if line.startswith("  ") or done.returncode > 1))

        list(pool.map(one, [case for case in cases if not rows.has(_key(case))]))
        rows.read(path)


def _conclude(cases: Sequence[Case], rows: Rows) -> int:
    good, every = Counter[str](), Counter[str]()
    for case in cases:
        if rows.has(_key(case)):
            broken = rows.of(_key(case), dict)["broken"]
            every[case.fault] += 1
            good[case.fault] += not broken
            for line in broken:
                print(f"{case.number} {case.on} {case.fault}: {line}")
    for fault in FAULTS:
        if every[fault]:
            print(f"{fault:<14} {good[fault]} of {every[fault]}")
    print(f"{'all':<14} {good.total()} of {every.total()}")
    if every.total() < len(cases):
        print(f"{len(cases) - every.total()} runs are missing; the same command goes on")
    return 0 if good.total() == len(cases) else 1
