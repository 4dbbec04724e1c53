"""Real runs on three unequal workers: weft on Dask and Ray against Dask itself, plans against what happened.

One part per row of figures: ``speed``, ``fidelity``, ``profile`` (``learnt``: in virtual time), ``noise``, ``stream``, ``overhead``. Every run is listed.
With ``--rows`` what was stopped goes on where it was. Exit code 1: a target was missed, or runs are missing.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
from pathlib import Path

from benchmarks._execute.bench import Bench
from benchmarks._execute.lanes import lane_of, side_by_side
from benchmarks._execute.rows import Rows

PARTS = ("speed", "fidelity", "profile", "learnt", "noise", "stream", "overhead")


def main(arguments: list[str]) -> int:
    """Measure what is not in the rows yet, and judge it."""
    options = _options(arguments)
    began = time.monotonic()
    if options.lanes == 1:
        return _measured(options, began + options.limit)
    with tempfile.TemporaryDirectory() as folder:
        options.rows = options.rows or str(Path(folder, "rows.jsonl"))
        same = ["benchmarks", "execute", *arguments, "--rows", options.rows, "--lanes", "1"]
        codes = side_by_side([[*same, "--lane", f"{k}/{options.lanes}"] for k in range(options.lanes)])
        broken = [k for k, code in enumerate(codes) if code]
        if broken:
            print(f"lanes that did not end well: {', '.join(map(str, broken))}")
        return max(_measured(options, began), int(bool(broken)))


def _measured(options: argparse.Namespace, until: float) -> int:
    bench = Bench(
        Rows(options.rows),
        2 if options.quick else options.runs,
        min(options.median, 0.3) if options.quick else options.median,
        tuple(options.model or ("related", "affinity")),
        options.quick,
        options.gap,
        tuple(options.on or ("dask", "ray")),
        options.load,
        tuple(options.trouble or ()),
        options.lane,
        until,
    )
    for part in options.part or PARTS:
        importlib.import_module(f"benchmarks._execute.{part}").measure(bench)
    if options.lane is None:
        print(f"targets missed: {'; '.join(bench.missed) or 'none'}")
    return 1 if bench.missed else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks execute", description=__doc__)
    add = parser.add_argument
    add("--part", action="append", choices=PARTS, help="all unless given; may be repeated")
    add("--rows", help="file of measurements to go on with, JSON lines")
    add("--runs", type=int, default=10, help="runs of everything")
    add("--median", type=float, default=0.6, help="median cost of a task at speed 1, in seconds")
    add("--model", action="append", choices=("related", "affinity"), help="both unless given")
    add("--on", action="append", choices=("dask", "ray"), help="engines of fidelity; both unless given")
    add("--trouble", action="append", choices=("noise", "slow"), help="of the part noise; both unless given")
    add("--gap", choices=("session", "probe"), default="session", help="where plans know gaps from")
    add("--load", type=float, default=0.8, help="share of the capacity that streams ask for")
    add("--quick", action="store_true", help="two runs of short tasks")
    add("--lanes", type=int, default=1, help="processes that measure side by side, three workers each")
    add("--limit", type=float, default=float("inf"), help="seconds after which no run is begun")
    add("--lane", type=lane_of, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)
