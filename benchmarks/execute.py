"""Real runs on three unequal workers: weft on Dask and Ray against Dask itself, plans against what happened.

One part per row of figures: ``speed``, ``fidelity``, ``profile``, ``noise``, ``stream``, ``overhead``. Every run is listed.
Exit code 1: a target was missed.
"""

from __future__ import annotations

import argparse
import importlib

from benchmarks._execute.bench import Bench
from benchmarks._execute.rows import Rows

PARTS = ("speed", "fidelity", "profile", "noise", "stream", "overhead")


def main(arguments: list[str]) -> int:
    """Measure what is not in the rows yet, and judge it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks execute", description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="all unless given; may be repeated")
    parser.add_argument("--rows", help="file of measurements to go on with, JSON lines")
    parser.add_argument("--runs", type=int, default=10, help="runs of everything")
    parser.add_argument(
        "--median", type=float, default=0.6, help="median cost of a task at speed 1, in seconds"
    )
    parser.add_argument("--model", action="append", choices=("related", "affinity"), help="both unless given")
    parser.add_argument(
        "--on", action="append", choices=("dask", "ray"), help="engines of fidelity; both unless given"
    )
    parser.add_argument(
        "--gap", choices=("session", "probe"), default="session", help="where plans know gaps from"
    )
    parser.add_argument("--load", type=float, default=0.8, help="share of the capacity that streams ask for")
    parser.add_argument("--quick", action="store_true", help="two runs of short tasks")
    options = parser.parse_args(arguments)
    bench = Bench(
        Rows(options.rows),
        2 if options.quick else options.runs,
        min(options.median, 0.3) if options.quick else options.median,
        tuple(options.model or ("related", "affinity")),
        options.quick,
        options.gap,
        tuple(options.on or ("dask", "ray")),
        options.load,
    )
    for part in options.part or PARTS:
        importlib.import_module(f"benchmarks._execute.{part}").measure(bench)
    print(f"targets missed: {'; '.join(bench.missed) or 'none'}")
    return 1 if bench.missed else 0
