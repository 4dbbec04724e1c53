"""Tables of docs/results/workflows.md that compare paired rows: streams, best of four, distance to the optimum, large workflows.

Percentages are means of log ratios of rows with the same seed, with their 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft import catalog
from weft.evaluation.statistics import crossed_interval, mean_interval
from weft.model.graph import Floats
from weft.model.problem import Objective, Problem, expected, realise
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.schedulers.base import Limit
from weft.schedulers.dispatchers.tasks import run_one

ONE = {"load": 1.0, "jobs": 1, "arrivals": "once"}
"""One workflow at a time."""
SEEN = ["layered", "erdos-renyi", "block-model", "chain", "mosaic"]
UNSEEN = ["fork-join", "out-tree", "in-tree"]
"""Shapes on which ``es`` was tuned, and others."""
APPLICATIONS = {
    "seen": ["genome", "epigenomics", "blast", "samples"],
    "unseen": ["soykb", "sra-search", "cycles", "seismology"],
}
"""Applications on which ``es`` was tuned, and others."""
AGAIN = {"scale": 2.0, "uneven": 1.5, "kinds": "none", "distinct": 9, "ccr": 1.0, "noise": 0.2}
"""A few workflows that differ a hundredfold in length and come again and again; devices are as fast for all kinds."""
PEERS = (
    "lachesis", "decima-deft", "fifo-deft", "deft", "heft", "heft-job", "plan:peft", "plan:lookahead", "plan:tdca",
    "dask-like",
)  # fmt: skip
LOADS = (0.5, 0.8, 0.95)
RESAMPLES = 10_000
FOUR = ("plan:heft", "plan:peft", "plan:lookahead", "plan:deft")
SMALL = ("es", "priced", "heft", "heft-job", "plan:peft", "plan:lookahead", "plan:oneshot", "plan:search")
"""Judged by their distance to the optimum; all without copies."""


def percent(own: Floats, base: Floats) -> str:
    """How far ``own`` (num_seeds,) or (num_runs, num_seeds) is above ``base`` (num_seeds,) in %, by pairs, with its interval.

    Of several training runs the interval is over runs and seeds.
    """
    logs = np.log(own / base)
    if logs.shape[-1] < 2:
        return f"{100 * np.expm1(logs.mean()):+.1f}"
    if logs.ndim > 1 and len(logs) > 1:
        found = crossed_interval(np.log(own), np.log(base)[None])
    else:
        found = mean_interval(logs.ravel())
    mean, low, high = (100 * np.expm1(x) for x in (found.value, found.low, found.high))
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


class Rows:
    """Rows of a sweep by cell and scheduler."""

    def __init__(
        self,
        options: argparse.Namespace,
        part: str,
        names: Sequence[str],
        what: str | Sequence[str] = "workflows",
        cluster: str | None = None,
        **settings: object,
    ) -> None:
        out = Path(options.out, part) if options.out else None
        found = weft.evaluate(
            what,
            names,
            settings=settings,
            cluster=cluster,
            seeds=options.seeds,
            out=out,
            workers=options.workers,
            check="all",
        )
        self._rows: list[dict[str, Any]] = found.to_dict()["rows"]
        self._swept = {
            key for key, values in settings.items() if isinstance(values, list) and len(values) > 1
        }

    def of(self, metric: str, name: str, **cell: float) -> Floats:
        """A metric by seed in the cell of these settings (num_seeds,); of a folder of runs (num_runs, num_seeds)."""
        text = [f"{key}={value:g}" for key, value in cell.items() if key in self._swept]
        found: dict[str, list[tuple[int, float]]] = {}
        for row in self._rows:
            is_asked = row["scheduler"] == name or row["scheduler"].startswith(f"{name}/")
            if is_asked and all(one in row["cell"].replace(",", " ").split() for one in text):
                found.setdefault(row["scheduler"], []).append((int(row["seed"]), float(row[metric])))
        values = np.array([[value for _, value in sorted(own)] for own in found.values()])
        return values[0] if name in found else values


def table(corner: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Print a table of Markdown."""
    print(f"| {corner} | {' | '.join(columns)} |")
    print(f"| --- |{' --- |' * len(columns)}")
    for name, cells in rows:
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print()


def streams(options: argparse.Namespace) -> None:
    """Mean and 99th percentile of job times in streams of 100, against ``priced``, per CCR and load; what is kept on new shapes."""
    learned = [*options.more, "es", "priced"]
    everyone = [*learned, "srw", *(PEERS if options.peers else ())]
    found = []
    for part, words, names, more in (
        ("streams", "all shapes", everyone, {}),
        ("streams-seen", "shapes it was tuned on", learned, {"family": SEEN}),
        ("streams-unseen", "shapes never tuned on", learned, {"family": UNSEEN}),
    ):
        rows = Rows(options, part, names, load=list(LOADS), noise=0.2, ccr=list(options.ccr), **more)
        found.append(rows)
        for ccr in options.ccr:
            print(
                f"streams of 100 workflows, {words}, CCR {ccr:g}, {options.seeds} per load: against priced in %"
            )
            table("", [f"load {x:g}" for x in LOADS], _of_streams(rows, names, ccr))
    kept = [
        (f"CCR {ccr:g}", [_kept(found[1], found[2], ccr=ccr, load=load) for load in LOADS])
        for ccr in options.ccr
    ]
    print("share of what es gains over priced that is kept on shapes it was not tuned on, in %")
    table("", [f"load {x:g}" for x in LOADS], kept)


def applications(options: argparse.Namespace) -> None:
    """Streams like those of applications that run again and again: those ``es`` was tuned on, and others."""
    names = [*options.more, "es", "priced", "srw"]
    for part, families in APPLICATIONS.items():
        rows = Rows(options, f"applications-{part}", names, load=list(LOADS), family=families, **AGAIN)
        print(f"streams of 100 workflows, {part} applications, {options.seeds} per load: against priced in %")
        table("", [f"load {x:g}" for x in LOADS], against_priced(rows, names))


def against_priced(rows: Rows, names: Sequence[str], **cell: float) -> list[tuple[str, list[str]]]:
    """Mean and 99th percentile of job times of all but ``priced``, a cell per load."""
    found = []
    for metric, words in (("mean_jct", "mean"), ("p99_jct", "99th percentile")):
        base = [rows.of(metric, "priced", load=load, **cell) for load in LOADS]
        for name in names:
            if name != "priced":
                own = [rows.of(metric, name, load=load, **cell) for load in LOADS]
                found.append((f"`{name}`, {words}", [percent(a, b) for a, b in zip(own, base, strict=True)]))
    return found


def _kept(seen: Rows, unseen: Rows, **cell: float) -> str:
    """The gain of ``es`` on new shapes over that on known ones, with a bootstrap interval over the streams of both."""
    rng, gains = np.random.default_rng(0), []
    for rows in (seen, unseen):
        logs = np.log(rows.of("mean_jct", "priced", **cell) / rows.of("mean_jct", "es", **cell))
        picks = rng.integers(len(logs), size=(RESAMPLES, len(logs)))
        gains.append(np.concatenate([[logs.mean()], logs[picks].mean(axis=1)]))
    shares = 100 * gains[1] / gains[0]
    low, high = np.percentile(shares[1:], [2.5, 97.5])
    return f"{shares[0]:.0f} ({low:.0f} to {high:.0f})"


def _of_streams(rows: Rows, names: Sequence[str], ccr: float) -> list[tuple[str, list[str]]]:
    """Lines of streams of one CCR, a cell per load."""

    def of(metric: str, name: str) -> list[Floats]:
        return [rows.of(metric, name, ccr=ccr, load=load) for load in LOADS]

    found = against_priced(rows, names, ccr=ccr)
    for name in ("es", "priced"):
        pairs = zip(of("mean_jct", name), of("lower_bound", name), strict=True)
        over = [f"{(times / bound).mean():.2f}" for times, bound in pairs]
        found.append((f"`{name}`, mean over the bound, ratio", over))
    return found


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


def kept_rows(
    path: Path | None, keys: Sequence[str], measure: Callable[[str], dict[str, Any]], workers: int
) -> dict[str, dict[str, Any]]:
    """A row for every key; those of a file are not measured again, and new ones are added to it as they end."""
    known: dict[str, dict[str, Any]] = {}
    if path is not None and path.exists():
        known = {row["key"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    missing = [key for key in keys if key not in known]
    with ProcessPoolExecutor(workers) as pool:
        jobs = [pool.submit(measure, key) for key in missing] if workers > 1 else []
        ended = (job.result() for job in as_completed(jobs))
        for row in ended if workers > 1 else map(measure, missing):
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


LARGE = ("es", "es+shortlist", "priced", "priced+shortlist", "heft", "plan:heft")


def large(options: argparse.Namespace) -> None:
    """Workflows of thousands of tasks on 32 devices: rules, the same with a shortlist, and plans."""
    sizes, ccrs = options.sizes, options.ccr
    keys = [f"{size} {ccr:g} {seed}" for size in sizes for ccr in ccrs for seed in range(options.seeds)]
    path = Path(options.out, "large.jsonl") if options.out else None
    names = (*LARGE, *options.more)
    rows = kept_rows(path, keys, partial(of_large, names=names), options.workers)
    print(
        f"single workflows on 32 devices, noise 0.2, {options.seeds} a cell: makespan against es in %, us of processor a task"
    )
    found = []
    for name in names:
        cells = []
        for size in sizes:
            for ccr in ccrs:
                own = [rows[f"{size} {ccr:g} {seed}"] for seed in range(options.seeds)]
                times, flat = (np.array([row[one][0] for row in own]) for one in (name, "es"))
                cost = 1e6 * np.mean([row[name][1] for row in own]) / size
                cells.append(f"{percent(times, flat)}, {cost:.0f}")
        found.append((f"`{name}`", cells))
    table("", [f"{size} tasks, CCR {ccr:g}" for size in sizes for ccr in ccrs], found)


def of_large(key: str, names: Sequence[str]) -> dict[str, Any]:
    """Makespan and processor time of each on one large workflow."""
    size, ccr, seed = key.split()
    chosen = scenario("workflows", tasks=int(size), devices=32, ccr=float(ccr), noise=0.2, family=SPARSE)
    problem, row = chosen.problem("test", int(seed)), {"key": key}
    world = realise(problem, int(seed))
    for name in names:
        dispatcher = catalog.task_dispatcher(name)
        run_one(dispatcher, NOISY, realise(NOISY, 0), 0)  # compiles, once
        started = time.process_time()
        found = run_one(dispatcher, problem, world, 0)
        took = time.process_time() - started
        if validate(found):
            raise AssertionError(f"{name} on {key}: {validate(found)[0]}")
        row[name] = (found.makespan, took)
    return row


SPARSE = ["layered", "fork-join", "erdos-renyi", "out-tree", "in-tree", "mosaic"]
"""Shapes whose edges do not grow with the square of their tasks."""
NOISY = scenario("workflows", tasks=40, devices=32, noise=2.0).problem("test", 0)
