"""What compiling costs: CPU seconds of first uses, each in a process of its own with an empty cache folder.

Start times without kernels come with them, as wall time, best of several. ``--beside FOLDER`` measures
another checkout in turns. Exits with 1 if a first plan takes more than 8 CPU seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PROBLEM = ("examples/pipeline.json", "-c", "gpu-mix-8")
WEFT = ("-m", "weft")
FIRST = {
    "schedule": (*WEFT, "schedule", *PROBLEM),
    "schedule --scheduler heft": (*WEFT, "schedule", *PROBLEM, "--scheduler", "heft"),
    "compare": (*WEFT, "compare", *PROBLEM),
    "doctor --compile": (*WEFT, "doctor", "--compile"),
}
"""First uses, by what is printed."""
PLANS = ("schedule", "schedule --scheduler heft")
MOST = 8.0
"""CPU seconds a first plan may take."""
STARTS = {"import weft": ("-c", "import weft"), "weft --help": (*WEFT, "--help")}


class Used(NamedTuple):
    """What a process took."""

    cpu: float
    wall: float
    num_kernels: int
    """Kernels in the cache folder afterwards."""


def main(arguments: list[str]) -> int:
    """Measure and print a table; 1 if a first plan takes too long."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compile", description=__doc__)
    parser.add_argument(
        "--only", choices=FIRST, nargs="+", help="some of the first uses", default=list(FIRST)
    )
    parser.add_argument("--rounds", type=int, default=1, help="of the first uses; the best counts")
    parser.add_argument("--starts", type=int, default=15, help="rounds of the start times; the best counts")
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="another checkout")
    options = parser.parse_args(arguments)
    folders = [ROOT, *([options.beside] if options.beside else [])]
    print(f"{'':<40}" + "".join(f"{name:>20}" for name in ("here", "beside")[: len(folders)]))
    reached = True
    for name in options.only:
        best = _best(FIRST[name], folders, options.rounds)
        print(f"{name:<40}" + "".join(f"{_first(used):>20}" for used in best), flush=True)
        reached &= name not in PLANS or best[0].cpu <= MOST
    for name, words in STARTS.items():
        best = _best(words, folders, options.starts)
        print(f"{name:<40}" + "".join(f"{used.wall * 1000:>17.0f} ms" for used in best), flush=True)
    print(f"target (a first plan <= {MOST:.0f} CPU s): {'reached' if reached else 'missed'}")
    return 0 if reached else 1


def _first(used: Used) -> str:
    return f"{used.cpu:.1f} s, {used.num_kernels} kernels"


def _best(words: Sequence[str], folders: Sequence[Path], rounds: int) -> list[Used]:
    """The best of some rounds in every checkout, in turns."""
    runs = [[_run(words, folder) for folder in folders] for _ in range(rounds)]
    return [min(found) for found in zip(*runs, strict=True)]


def _run(words: Sequence[str], folder: Path) -> Used:
    """Run Python in a checkout with an empty cache folder; its CPU time is that of all its threads."""
    with tempfile.TemporaryDirectory() as cache:
        paths = os.pathsep.join(filter(None, (str(folder.resolve()), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"WEFT_CACHE": cache, "PYTHONPATH": paths}
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, words)
        names = [path.name for path in Path(cache).rglob("*.nbi")]
        kernels = sum(not name.startswith("part-") for name in names)
    return Used(used.ru_utime + used.ru_stime, wall, kernels)
