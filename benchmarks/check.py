"""The benchmarks that set weft against something else, in short: have their ratios dropped?

Appends date, commit, machine and ratios to a history and fails (exit code 1) only when a ratio has dropped three
times in a row: below its share of the median of the entries before. A damaged history is exit code 2.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
import subprocess
import sys
from pathlib import Path

from benchmarks._history import Entry, Verdict, append, judge, read_history
from benchmarks._ratios import Ratio, collected
from weft.errors import InputError

ROOT = Path(__file__).resolve().parent.parent
HISTORY = Path(__file__).with_name("history.jsonl")
RUNS: dict[str, tuple[str, ...]] = {
    "saga": ("--tasks", "1000", "--devices", "16", "--ccr", "1", "--kinds", "mosaic", "layered"),
    "planners": ("--scheduler", "search", "--effort", "300", "--tasks", "50", "--instances", "1"),
    "tabu": ("--instances", "ta01,ta11,ta21,ta31,ta41,ta51,ta61,ta71"),
    "portfolio": ("--seconds", "5", "--instances", "ta11,ta21,ta31,ta41"),
    "scale": ("--only-growth", "--tasks", "1000", "30000"),
}
"""Benchmark -> arguments of its short run."""


def main(arguments: list[str]) -> int:
    """Run, append, judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks check", description=__doc__)
    parser.add_argument("--history", type=Path, default=HISTORY)
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), help="some of the benchmarks")
    parser.add_argument("--accept", metavar="REASON", default="", help="take these ratios as the new normal")
    parser.add_argument("--judge", action="store_true", help="judge the last entry, run nothing")
    options = parser.parse_args(arguments)
    try:
        entries = read_history(options.history)
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if not options.judge:
        entries.append(measure(options.only, options.accept))
        append(entries[-1], options.history)
        print(f"appended to {options.history}")
    return summarise(judge(entries))


def measure(names: list[str], accepted: str) -> Entry:
    """Run the benchmarks one after the other; one that lacks a package or a peer is left out."""
    print("short runs: the targets they print are those of the full runs")
    ratios: dict[str, Ratio] = {}
    for k, name in enumerate(names, 1):
        print(f"-- {k} of {len(names)}: {name} {' '.join(RUNS[name])}", flush=True)
        with collected() as found:
            try:
                importlib.import_module(f"benchmarks.{name}").main(list(RUNS[name]))
            except (ImportError, OSError, InputError, subprocess.CalledProcessError) as error:
                print(f"{name} left out: {error}", flush=True)
        ratios |= found
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Entry(now, commit(), machine(), ratios, accepted)


def commit() -> str:
    """The commit measured, ``+`` behind it where files differ from it."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        is_changed = bool(_git("status", "--porcelain", "--", ".", f":!benchmarks/{HISTORY.name}"))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + "+" * is_changed


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def machine() -> str:
    """Processor and cores."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores"


def summarise(verdicts: list[Verdict]) -> int:
    """Print every ratio beside what was usual; 1 if one has dropped three times in a row."""
    print(f"{'ratio':<32} {'now':>10} {'usual':>10}   drops in a row")
    for verdict in verdicts:
        usual = "-" if verdict.usual is None else f"{verdict.usual:.4g}"
        mark = f"{verdict.drops}{'  FAILED' if verdict.is_failed else ''}"
        print(f"{verdict.name:<32} {verdict.value:>10.4g} {usual:>10}   {mark}")
    failed = [verdict.name for verdict in verdicts if verdict.is_failed]
    print(f"dropped three times in a row: {', '.join(failed) if failed else 'none'}")
    return 1 if failed else 0
