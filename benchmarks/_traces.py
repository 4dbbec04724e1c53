"""Streams of recorded workflows: every job is drawn from the WfFormat files of a folder, which no policy was tuned on.

Percentages are against ``priced``, by pairs. Workflows of a folder may differ a thousandfold in length, which generated ones do not.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks._workflow_tables import LOADS, Rows, against_priced, percent, table
from weft.errors import InputError

NAMES = ("es", "priced", "srw")
PEERS = ("heft-job", "heft", "dask-like", "fifo-deft", "decima-deft", "lachesis")
CLUSTER = "gpu-mix-8"


def traces(options: argparse.Namespace) -> None:
    """Mean and 99th percentile of job times in streams of 100 jobs of all files, then the mean of each file alone."""
    files = sorted(map(str, Path(options.data or ".").glob("*.json"))) if options.data else []
    if not files:
        raise InputError("expected a folder with workflow files (*.json)", field="--data")
    names = [*options.more, *NAMES, *(PEERS if options.peers else ())]
    fixed = {"noise": 0.2, "ccr": 1.0, "jobs": 100}
    rows = Rows(options, "traces", names, files, cluster=CLUSTER, load=list(LOADS), **fixed)
    print(f"streams of 100 jobs of {len(files)} files, {options.seeds} per load: against priced in %")
    table("", [f"load {x:g}" for x in LOADS], against_priced(rows, names))
    if options.each:
        _each(options, files, [*options.more, "es"], fixed)


def _each(options: argparse.Namespace, files: list[str], names: list[str], fixed: dict[str, float]) -> None:
    """Streams of one file each."""
    print(f"streams of one file each, load 0.8, {options.seeds} seeds: mean against priced in %")
    found = []
    for file in files:
        part = f"traces-{Path(file).stem}"
        rows = Rows(options, part, [*names, "priced"], [file], cluster=CLUSTER, load=0.8, **fixed)
        base = rows.of("mean_jct", "priced")
        found.append((Path(file).stem, [percent(rows.of("mean_jct", name), base) for name in names]))
    table("", [f"`{name}`" for name in names], found)
