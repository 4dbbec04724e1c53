"""Workflows one at a time, in batches and in streams: the tables and pictures of docs/results/workflows.md.

``size``: single workflows of 20 to 150 tasks; ``batch``: several of 60 tasks at once; ``streams``: mean and 99th
percentile of job times; ``applications``: the same of applications that run again and again; ``many``: exact run times
on many devices, against the best of four planners; ``noise``: noisy run times; ``optimum``: small workflows, against
the proven optimum; ``large``: workflows of thousands of tasks, with and without a shortlist; ``clairvoyant``: the
streams again, with weights that are tuned on each of them with hindsight; ``traces``: streams of the workflow files in
a folder; ``finetune``: what tuning on some of them brings. All are dispatched, and paired: every scheduler meets the
same workflows and run times. Learned ones are those that ship, and ``--more``.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

import weft
from benchmarks import _workflow_tables as tables
from benchmarks._clairvoyant import clairvoyant
from benchmarks._finetune import finetune
from benchmarks._noisy import noise
from benchmarks._traces import traces
from weft.errors import InputError

SCHEDULERS = (
    "es", "plan:oneshot", "priced", "heft-job", "plan:peft", "plan:lookahead", "plan:deft", "plan:tdca", "fifo-deft",
    "decima-deft", "lachesis",
)  # fmt: skip
"""The first two are weft's own; ``heft-job`` is HEFT, whose plan is kept."""
PARTS: dict[str, tuple[str, tuple[int, ...], dict[str, object]]] = {
    "size": ("tasks", (20, 50, 80, 110, 150), {"jobs": 1}),
    "batch": ("jobs", (1, 2, 5, 10, 20), {"tasks": 60}),
}
CCRS = (0.1, 1.0, 5.0)
TABLES = {
    "streams": (tables.streams, 20, (1.0,)),
    "applications": (tables.applications, 20, ()),
    "many": (tables.many, 40, ()),
    "noise": (noise, 120, CCRS),
    "optimum": (tables.optimum, 21, CCRS),
    "large": (tables.large, 12, CCRS),
    "clairvoyant": (clairvoyant, 20, ()),
    "traces": (traces, 20, ()),
    "finetune": (finetune, 10, ()),
}
"""Other parts: what prints them, seeds per cell and ratios of transfer to run time."""
QUICK = 3
METRICS = {"makespan": "makespan (s)", "speedup": "speedup", "slr": "schedule length ratio"}
BASE = "heft-job"


def main(arguments: list[str]) -> int:
    """Play, print tables and draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks workflows", description=__doc__)
    parser.add_argument(
        "--part", action="append", choices=(*PARTS, *TABLES), help="size and batch unless given"
    )
    parser.add_argument("--seeds", "--streams", type=int, help="per point, default 14, or as in the results")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} seeds")
    parser.add_argument(
        "--noise", type=float, default=0.2, help="of run times in size and batch, default 0.2"
    )
    parser.add_argument(
        "--ccr",
        type=float,
        nargs="+",
        help="of streams, noise, optimum and large, default 0.1 1 5, streams 1",
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 3000, 10000], help="tasks of large")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of CP-SAT for each of optimum")
    parser.add_argument(
        "--more", action="append", default=[], help="further schedulers of streams, noise and large"
    )
    parser.add_argument("--peers", action="store_true", help="other schedulers in streams and traces too")
    parser.add_argument("--data", help="folder of workflow files, for traces and finetune")
    parser.add_argument("--each", action="store_true", help="streams of one file each too, in traces")
    parser.add_argument("--generations", type=int, default=40, help="of clairvoyant")
    parser.add_argument("--population", type=int, default=16, help="vectors of a generation of clairvoyant")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--figures", help="folder for the pictures; none are drawn unless given")
    parser.add_argument(
        "--out", help="folder for the rows, or a file of clairvoyant's; goes on with what is there"
    )
    options = parser.parse_args(arguments)
    _refuse(options)
    asked, ccrs = QUICK if options.quick else options.seeds, options.ccr
    for part in options.part or PARTS:
        if part in TABLES:
            show, usual, usual_ccrs = TABLES[part]
            options.seeds, options.ccr = asked or usual, ccrs or usual_ccrs
            show(options)
            continue
        options.seeds = asked or 14
        setting, values, fixed = PARTS[part]
        settings = {"load": 1.0, "arrivals": "once", "sizes": "equal", "noise": options.noise, **fixed}
        out = Path(options.out, part) if options.out else None
        found = weft.evaluate(
            "workflows",
            SCHEDULERS,
            settings={**settings, setting: list(values)},
            seeds=options.seeds,
            out=out,
            workers=options.workers,
            check="all",
        )
        rows = found.to_dict()["rows"]
        _table(rows, setting, values)
        if options.figures:
            _draw(rows, setting, values, Path(options.figures, f"workflows-{part}.png"))
    return 0


def _refuse(options: argparse.Namespace) -> None:
    """Refuse numbers that mean nothing, and ratios where no part takes them."""
    if options.seeds is not None and options.seeds < 1:
        raise InputError(f"expected a whole number >= 1, got {options.seeds}", field="--seeds")
    for ratio in options.ccr or ():
        if not 0.0 <= ratio < math.inf:
            raise InputError(f"expected numbers >= 0, got {ratio}", field="--ccr")
    takes = [part for part, (_, _, usual) in TABLES.items() if usual]
    if options.ccr and not set(options.part or PARTS) & set(takes):
        raise InputError(f"only --part {', '.join(takes)} take it", field="--ccr")


def _of(rows: Any, setting: str, value: int, scheduler: str, metric: str) -> np.ndarray:
    """A metric by seed."""
    cell = f"{setting}={value}"
    return np.array([row[metric] for row in rows if row["cell"] == cell and row["scheduler"] == scheduler])


def _table(rows: Any, setting: str, values: tuple[int, ...]) -> None:
    for metric, words in METRICS.items():
        print(f"{words}, mean by {setting}; in brackets the mean against {BASE} in % by pairs")
        print(f"| scheduler | {' | '.join(str(value) for value in values)} |")
        print(f"| --- |{' --- |' * len(values)}")
        for name in SCHEDULERS:
            cells = []
            for value in values:
                own, base = (_of(rows, setting, value, one, metric) for one in (name, BASE))
                ratio = 100.0 * np.expm1(np.log(own / base).mean())
                cells.append(f"{own.mean():.3g} ({ratio:+.1f})")
            print(f"| `{name}` | {' | '.join(cells)} |", flush=True)


def _draw(rows: Any, setting: str, values: tuple[int, ...], path: Path) -> None:
    from matplotlib.figure import Figure

    from weft.evaluation.figures.looks import DASHES, MARKS, SERIES

    figure = Figure(figsize=(13, 4.6), dpi=130, layout="constrained")
    for axes, (metric, words) in zip(figure.subplots(1, 3), METRICS.items(), strict=True):
        for k, name in enumerate(SCHEDULERS):
            means = [_of(rows, setting, value, name, metric).mean() for value in values]
            axes.plot(
                values, means, label=name, color=SERIES[k % len(SERIES)][0], marker=MARKS[k % len(MARKS)],
                linestyle=DASHES[k // len(SERIES) % len(DASHES)], markersize=4, linewidth=1.2,
            )  # fmt: skip
        axes.set_xlabel("tasks per workflow" if setting == "tasks" else "workflows at once")
        axes.set_title(words, fontsize=10)
        axes.grid(color="#DDDDDD", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False, fontsize=8
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(f"wrote {path.name}")
