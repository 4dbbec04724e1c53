"""Tables of docs/results/workflows.md that compare paired rows: streams, best of four, noise, distance to the optimum.

Percentages are means of log ratios of rows with the same seed, with their 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft import catalog
from weft.evaluation.statistics import mean_interval
from weft.model.graph import Floats
from weft.model.problem import Objective, Problem, expected
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.schedulers.base import Limit
from weft.schedulers.dispatchers.tasks import run_one

ONE = {"load": 1.0, "jobs": 1, "arrivals": "once"}
"""One workflow at a time."""
UNSEEN = ["fork-join", "out-tree", "in-tree"]
"""Shapes on which ``es`` was not tuned."""
LOADS = (0.5, 0.8, 0.95)
FOUR = ("plan:heft", "plan:peft", "plan:lookahead", "plan:deft")
SMALL = ("es", "priced", "heft", "heft-job", "plan:peft", "plan:lookahead", "plan:oneshot", "plan:search")
"""Judged by their distance to the optimum; all without copies."""


def percent(own: Floats, base: Floats) -> str:
    """How far ``own`` is above ``base`` in %, by pairs, with its interval where there are pairs enough."""
    logs = np.log(own / base)
    if len(logs) < 2:
        return f"{100 * np.expm1(logs.mean()):+.1f}"
    found = mean_interval(logs)
    mean, low, high = (100 * np.expm1(x) for x in (found.value, found.low, found.high))
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


class Rows:
    """Rows of a sweep by cell and scheduler."""

    def __init__(
        self, options: argparse.Namespace, part: str, names: Sequence[str], **settings: object
    ) -> None:
        out = Path(options.out, part) if options.out else None
        found = weft.evaluate(
            "workflows", names, settings=settings, seeds=options.seeds, out=out, workers=options.workers
        )
        self._rows: list[dict[str, Any]] = found.to_dict()["rows"]

    def of(self, metric: str, name: str, **cell: float) -> Floats:
        """A metric by seed, in the cell of these settings."""
        text = [f"{key}={value:g}" for key, value in cell.items()]
        rows = [
            row for row in self._rows
            if row["scheduler"] == name and all(one in row["cell"].split() for one in text)
        ]  # fmt: skip
        return np.array([row[metric] for row in sorted(rows, key=lambda row: int(row["seed"]))], np.float64)


def table(corner: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Print a table of Markdown."""
    print(f"| {corner} | {' | '.join(columns)} |")
    print(f"| --- |{' --- |' * len(columns)}")
    for name, cells in rows:
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print()


def streams(options: argparse.Namespace) -> None:
    """Mean and 99th percentile of job times in streams of 100, against ``priced``."""
    names = [*options.more, "es", "priced", "srw"]
    for title, part, more in (
        ("all shapes", "streams", {}),
        ("shapes never trained on", "streams-unseen", {"family": UNSEEN}),
    ):
        rows = Rows(options, part, names, load=list(LOADS), noise=0.2, **more)
        print(f"streams of 100 workflows, {title}, {options.seeds} per load: against priced in %")
        found = []
        for metric, words in (("mean_jct", "mean"), ("p99_jct", "99th percentile")):
            for name in names:
                if name != "priced":
                    cells = [
                        percent(rows.of(metric, name, load=x), rows.of(metric, "priced", load=x))
                        for x in LOADS
                    ]
                    found.append((f"`{name}`, {words}", cells))
        for name in ("es", "priced"):
            over = [
                f"{(rows.of('mean_jct', name, load=x) / rows.of('lower_bound', name, load=x)).mean():.2f}"
                for x in LOADS
            ]
            found.append((f"`{name}`, mean over the bound, ratio", over))
        table("", [f"load {x:g}" for x in LOADS], found)


def many(options: argparse.Namespace) -> None:
    """Exact run times on many devices, against the best of four planners, workflow by workflow."""
    names, ccrs, counts = ("es", "plan:oneshot", *FOUR), (1, 5), (16, 32)
    rows = Rows(options, "many", names, **ONE, ccr=list(ccrs), devices=list(counts))
    cells = [(ccr, count) for ccr in ccrs for count in counts]
    print(
        f"exact run times, {options.seeds} workflows a cell: makespan against the best of four planners in %"
    )
    found = []
    for name in ("plan:oneshot", "es", *FOUR):
        against = []
        for ccr, count in cells:
            best = np.min([rows.of("makespan", one, ccr=ccr, devices=count) for one in FOUR], axis=0)
            against.append(percent(rows.of("makespan", name, ccr=ccr, devices=count), best))
        found.append((f"`{name}`", against))
    gains = []
    for ccr, count in cells:
        four = [rows.of("makespan", one, ccr=ccr, devices=count) for one in FOUR]
        gains.append(percent(np.min(four, axis=0), four[0]))
    found.append(("the best of the four against HEFT", gains))
    table("", [f"CCR {ccr}, {count} devices" for ccr, count in cells], found)


def noise(options: argparse.Namespace) -> None:
    """Noisy single workflows, against HEFT's plan kept and against its ranks dispatched."""
    names, ccrs = [*options.more, "es", "plan:oneshot", "plan:heft", "heft-job", "heft"], (0.1, 1, 5)
    rows = Rows(options, "noise", names, **ONE, noise=0.6, ccr=list(ccrs))
    print(f"noise 0.6, {options.seeds} workflows per CCR: makespan in %")
    found = []
    for name in names[:-2]:
        for base, words in (("heft-job", "the kept plan"), ("heft", "dispatched ranks")):
            cells = [
                percent(rows.of("makespan", name, ccr=x), rows.of("makespan", base, ccr=x)) for x in ccrs
            ]
            found.append((f"`{name}` against {words}", cells))
    table("", [f"CCR {x:g}" for x in ccrs], found)


def kept_rows(
    path: Path | None, keys: Sequence[str], measure: Callable[[str], dict[str, Any]], workers: int
) -> dict[str, dict[str, Any]]:
    """A row for every key; those of a file are not measured again, and new ones are added to it."""
    known: dict[str, dict[str, Any]] = {}
    if path is not None and path.exists():
        known = {row["key"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    missing = [key for key in keys if key not in known]
    with ProcessPoolExecutor(workers) as pool:
        for row in pool.map(measure, missing) if workers > 1 else map(measure, missing):
            known[row["key"]] = row
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    return {key: known[key] for key in keys}


def optimum(options: argparse.Namespace) -> None:
    """Small workflows on four GPUs: how far above the optimum without copies, as far as it is proven."""
    keys = [f"{ccr:g} {seed}" for ccr in options.ccr for seed in range(options.seeds)]
    path = Path(options.out, "optimum.jsonl") if options.out else None
    rows = kept_rows(path, keys, partial(to_optimum, budget=options.budget), options.workers)
    print(
        f"workflows of {SIZES[0]} to {SIZES[-1]} tasks on four GPUs, exact run times, no copies, {options.seeds} per CCR: "
        "makespan above the optimum in % (of those that were proven)"
    )
    found: dict[str, list[str]] = {f"`{name}`": [] for name in SMALL} | {"proven": []}
    for ccr in options.ccr:
        own = [rows[f"{ccr:g} {seed}"] for seed in range(options.seeds)]
        proven = [row for row in own if row["proven"]]
        found["proven"].append(
            f"{len(proven)} of {len(own)}, {np.mean([row['seconds'] for row in own]):.1f} s each"
        )
        best = np.array([row["best"] for row in proven])
        for name in SMALL:
            found[f"`{name}`"].append(
                percent(np.array([row[name] for row in proven]), best) if proven else "-"
            )
    table("", [f"CCR {ccr:g}" for ccr in options.ccr], list(found.items()))


SIZES = (20, 24, 28, 30)


def small(ccr: float, seed: int) -> Problem:
    """A small workflow on one GPU of each class, without copies."""
    chosen = scenario("workflows", tasks=SIZES[seed % len(SIZES)], devices=4, ccr=ccr)
    return chosen.problem("test", seed).replaced(objective=Objective(copies=False))


def to_optimum(key: str, budget: float) -> dict[str, Any]:
    """The best makespan that CP-SAT finds, and those of the others."""
    from weft.schedulers.exact.planner import Exact

    ccr, seed = key.split()
    problem, exact = small(float(ccr), int(seed)), Exact(workers=1)
    started = time.perf_counter()
    best = exact.plan(problem, limit=Limit(budget=budget))
    row = {
        "key": key,
        "proven": exact.is_proven,
        "best": best.makespan,
        "seconds": time.perf_counter() - started,
    }
    for name in SMALL:
        found = run_one(catalog.task_dispatcher(name), problem, expected(problem), 0)
        if validate(found):
            raise AssertionError(f"{name} on {key}: {validate(found)[0]}")
        row[name] = found.makespan
    return row
