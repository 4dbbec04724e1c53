"""Run times that are off by 30 %, and a worker that turns four times slower: who copes?"""

from __future__ import annotations

import time
from functools import partial
from statistics import median

from benchmarks._execute.bench import Bench, compare
from benchmarks._execute.rows import Row, turns
from benchmarks._execute.workers import STRICT, Workers, heft, live, workers_on
from benchmarks._execute.world import MODELS, Shape, make_world
from weft.execute.run import Manner

STATIC = "static plan"
MANNERS: dict[str, Manner] = {
    STATIC: STRICT,
    "planned again": heft(),
    "live eft": live("eft"),
    "live srw": live("srw"),
    "live plan:heft": live("plan:heft"),
}
NOISE, SLOW = "noise", "slow"
TARGETS = {NOISE: 1.0, SLOW: 1.3}
SHARE, FACTOR = 0.3, 4.0
WHEN = 0.25
"""Share of the plan after which the worker turns slow."""


def measure(bench: Bench) -> None:
    """All runs, then ratios."""
    for trouble in bench.troubles or (NOISE, SLOW):
        for model in bench.models:
            _measure(bench, model, trouble)


def _measure(bench: Bench, model: str, trouble: str) -> None:
    said = "run times off by up to 30 %" if trouble == NOISE else "the busiest worker turns 4x slower"
    print(f"noise, {model}: {said}; seconds until the last task ended", flush=True)
    keys = [
        (run, way, _key(bench, model, trouble, run, way)) for run, way in turns(tuple(MANNERS), bench.own)
    ]
    if bench.lacks(key for *_, key in keys):
        with workers_on("dask", model) as started:
            workers = started.measured()
            for way in MANNERS:
                _once(workers, Shape(tasks=9, median=0.05), (0, way, trouble))
            for run, way, key in keys:
                if bench.is_over:
                    break
                bench.rows.of(key, partial(_once, workers, bench.shape, (run, way, trouble)))
    _conclude(bench, model, trouble)


def _conclude(bench: Bench, model: str, trouble: str) -> None:
    runs = bench.whole(
        f"{trouble} {model}", lambda run: [_key(bench, model, trouble, run, way) for way in MANNERS]
    )
    if not runs:
        return
    rows = {
        way: [bench.rows.of(_key(bench, model, trouble, run, way), dict) for run in runs] for way in MANNERS
    }
    seconds = {way: [row["actual"] for row in rows[way]] for way in MANNERS}
    ratios = {
        way: median(compare(f"{model}, {trouble}: {STATIC} / {way}", seconds[STATIC], seconds[way]))
        for way in MANNERS
        if way != STATIC
    }
    faults = sum(row["faults"] for way in MANNERS for row in rows[way])
    print(f"broken promises in {len(MANNERS) * len(runs)} histories: {faults}")
    best = max(ratios, key=lambda way: ratios[way])
    bench.judge(f"{trouble} {model}, {STATIC} / {best}", ratios[best], TARGETS[trouble])


def _key(bench: Bench, model: str, trouble: str, run: int, way: str) -> Row:
    return {
        "part": "noise",
        "trouble": trouble,
        "model": model,
        "median": bench.median,
        "run": run,
        "way": way,
    }


def _once(workers: Workers, shape: Shape, what: tuple[int, str, str]) -> Row:
    run, way, trouble = what
    world = make_world(workers.model, run, shape)
    if trouble == NOISE:
        return workers.run_world(world.noisy(run, SHARE), MANNERS[way]).figures
    victim = f"{next(iter(MODELS[workers.model]))}-0"
    planned = 7.0 * shape.median / 0.6  # about what a plan of 60 tasks takes
    workers.slow(victim, time.time() + WHEN * planned, FACTOR)
    try:
        return workers.run_world(world, MANNERS[way]).figures
    finally:
        workers.slow(victim, float("inf"), 1.0)
