"""What policies take with and without threads of BLAS: wall and CPU seconds, the same rows.

Every command runs in a process of its own, in turns with ``OPENBLAS_NUM_THREADS=1`` and without; the
best of the rounds counts. ``--busy N`` keeps N more processes busy meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

COMMANDS = {
    "ppo": ("conditional", "-s", "ppo", "--seeds", "40"),
    "conditional-graph": (
        *("conditional-many", "-s", "conditional-graph", "--problems", "2", "--seeds", "40"),
        *("--set", "jobs=500"),
    ),
    "oneshot": ("jobshop", "-s", "oneshot", "--problems", "10"),
}
"""Arguments of ``weft evaluate``."""
VARIABLE = "OPENBLAS_NUM_THREADS"


class Run(NamedTuple):
    """One run of a command."""

    wall: float
    cpu: float
    rows: str
    """Hash of what it found."""


def main(arguments: list[str]) -> int:
    """Measure and print a table; 1 if threads change any row."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks threads", description=__doc__)
    parser.add_argument("--only", choices=COMMANDS, help="one of the commands")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="busy processes beside it")
    options = parser.parse_args(arguments)
    print(f"{'':<18}{'wall s':>18}{'':>8}{'CPU s':>18}")
    print(f"{'':<18}{'threads':>9}{'one':>9}{'ratio':>8}{'threads':>9}{'one':>9}{'ratio':>8}  same rows")
    is_same = True
    with _busy(options.busy):
        for name in [options.only] if options.only else COMMANDS:
            is_same &= _measure(name, options.rounds)
    return 0 if is_same else 1


def _measure(name: str, rounds: int) -> bool:
    command = [sys.executable, "-m", "weft", "evaluate", *COMMANDS[name], "--check", "none", "--json"]
    _run(command, one=True)  # compiles
    pairs = [(_run(command, one=False), _run(command, one=True)) for _ in range(rounds)]
    shared, alone = zip(*pairs, strict=True)
    line = f"{name:<18}"
    for field in ("wall", "cpu"):
        best = [min(getattr(run, field) for run in runs) for runs in (shared, alone)]
        line += f"{best[0]:>9.2f}{best[1]:>9.2f}{best[0] / best[1]:>8.2f}"
    is_same = len({run.rows for pair in pairs for run in pair}) == 1
    print(f"{line}  {'yes' if is_same else 'NO'}", flush=True)
    return is_same


def _run(command: Sequence[str], *, one: bool) -> Run:
    """Run a command; its CPU time is that of all its threads."""
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
    environment |= {VARIABLE: "1"} if one else {}
    with tempfile.TemporaryFile() as out:
        started = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        out.seek(0)
        rows = str(json.load(out)["rows_hash"])
    return Run(wall, used.ru_utime + used.ru_stime, rows)


@contextmanager
def _busy(num: int) -> Iterator[None]:
    """Other processes that never rest."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(num)]
    try:
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()
