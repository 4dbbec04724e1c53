"""Plan against actual in strict order: how far off is what a plan says after calibration?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean

from benchmarks._execute.bench import Bench
from benchmarks._execute.gaps import Gaps, gaps_of
from benchmarks._execute.rows import Row
from benchmarks._execute.workers import STRICT, Workers, workers_on
from benchmarks._execute.world import Shape, make_world

TARGETS = {"dask": 4.0, "ray": 3.0}
REHEARSALS = 2
"""Runs before, whose gaps are known to the first plan that counts."""
RECENT = 3
"""So many runs before count: what else the machine does changes."""


def measure(bench: Bench) -> None:
    """All runs, then the errors."""
    for on in bench.on:
        for model in bench.models:
            keys = {run: _key(bench, on, model, run) for run in bench.own}
            print(
                f"fidelity, {on}, {model}: HEFT's plan in strict order; gaps from the {bench.gap}", flush=True
            )
            if bench.lacks(keys.values()):
                with workers_on(on, model) as started:
                    _runs(bench, started.measured(), keys)
        _conclude(bench, on)


def _key(bench: Bench, on: str, model: str, run: int) -> Row:
    return {
        "part": "fidelity",
        "on": on,
        "model": model,
        "median": bench.median,
        "gap": bench.gap,
        "run": run,
    }


def _runs(bench: Bench, workers: Workers, keys: Mapping[int, Row]) -> None:
    workers.run_world(make_world(workers.model, 0, Shape(tasks=9, median=0.05)), STRICT)
    seen: list[Gaps] = []
    for seed in range(1000, 1000 + REHEARSALS) if bench.gap == "session" else ():
        seen.append(_once(workers, seed, replace(bench.shape, median=0.5 * bench.median))[1])
    for run, key in keys.items():
        if bench.is_over:
            return
        if bench.rows.has(key):
            continue
        recent = sum(seen[-RECENT:], Gaps((), (), ()))
        known = workers if not seen else replace(workers, links=recent.links(workers.links.bandwidth))
        found: list[Gaps] = []

        def once(run: int = run, known: Workers = known, found: list[Gaps] = found) -> Row:
            row, gaps = _once(known, run, bench.shape)
            found.append(gaps)
            return row

        bench.rows.of(key, once)
        if bench.gap == "session":
            seen.append(found[0])


def _once(workers: Workers, seed: int, shape: Shape) -> tuple[Row, Gaps]:
    world = make_world(workers.model, seed, shape)
    done = workers.run_world(world, STRICT)
    problem = world.problem(workers.cluster)
    figures = done.figures
    row = {
        **figures,
        "error": 100.0 * (figures["actual"] / figures["planned"] - 1.0),
        "gap_ms": 1e3 * workers.links.gap,
        "latency_ms": 1e3 * workers.links.latency,
    }
    return row, gaps_of(done.run.rows, problem, workers.links.bandwidth)


def _conclude(bench: Bench, on: str) -> None:
    errors: list[float] = []
    for model in bench.models:
        what = f"fidelity {on}, {model}"
        runs = bench.whole(what, lambda run, model=model: [_key(bench, on, model, run)])
        rows = [bench.rows.of(_key(bench, on, model, run), dict) for run in runs]
        if not rows:
            continue
        own = [row["error"] for row in rows]
        every = " ".join(f"{error:+.1f}" for error in own)
        mean_error, most = mean(map(abs, own)), max(map(abs, own))
        print(f"{on}, {model}: errors in % {every}; mean |error| {mean_error:.2f}, most {most:.2f}")
        print(f"broken promises in {len(rows)} histories: {sum(row['faults'] for row in rows)}")
        errors += own
    if errors:
        bench.judge(
            f"fidelity {on}, mean |error|", mean(map(abs, errors)), TARGETS[on], is_least=False, unit="%"
        )
