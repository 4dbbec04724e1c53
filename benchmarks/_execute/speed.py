"""Weft on Dask against Dask's own scheduling: the same graphs on the same workers, in turns."""

from __future__ import annotations

from functools import partial

from benchmarks._execute.bench import Bench, compare
from benchmarks._execute.rows import Row, turns
from benchmarks._execute.workers import Workers, auto, heft, workers_on
from benchmarks._execute.world import Shape, make_world

DASK, HINTS, HEFT, AUTO, COMPUTE = "dask", "dask with durations", "weft heft", "weft auto", "weft compute"
WAYS = (DASK, HINTS, HEFT, AUTO, COMPUTE)
TARGETS = {"related": 1.2, "affinity": 1.8}


def measure(bench: Bench) -> None:
    """All runs, then ratios."""
    for model in bench.models:
        print(f"speed, {model}: seconds from handing a graph over to its result", flush=True)
        keys = [(run, way, _key(bench, model, run, way)) for run, way in turns(WAYS, bench.own)]
        if bench.lacks(key for *_, key in keys):
            with workers_on("dask", model) as started:
                workers = started.measured()
                small = Shape(tasks=9, median=0.05)
                for way in WAYS:
                    _once(workers, small, -1, way)
                for run, way, key in keys:
                    if bench.is_over:
                        break
                    bench.rows.of(key, partial(_once, workers, bench.shape, run, way))
        _conclude(bench, model)


def _key(bench: Bench, model: str, run: int, way: str) -> Row:
    return {"part": "speed", "model": model, "median": bench.median, "run": run, "way": way}


def _once(workers: Workers, shape: Shape, run: int, way: str) -> Row:
    world = make_world(workers.model, max(run, 0), shape)
    mark = f"{'abcde'[WAYS.index(way)]}{run % 1000}"
    if way in (DASK, HINTS):
        return {"seconds": workers.own(world, mark, has_hints=way == HINTS)}
    if way == COMPUTE:
        return {"seconds": workers.compute(world, mark, "heft")}
    return workers.run_world(world, heft() if way == HEFT else auto()).figures


def _conclude(bench: Bench, model: str) -> None:
    runs = bench.whole(f"speed {model}", lambda run: [_key(bench, model, run, way) for way in WAYS])
    if not runs:
        return
    rows = {way: [bench.rows.of(_key(bench, model, run, way), dict) for run in runs] for way in WAYS}
    seconds = {way: [row["seconds"] for row in rows[way]] for way in WAYS}
    for way in (HEFT, AUTO, COMPUTE):
        for base in (DASK, HINTS):
            compare(f"{model}: {base} / {way}", seconds[base], seconds[way])
    best = max((HEFT, AUTO), key=lambda way: _median(seconds[DASK], seconds[way]))
    against = min((DASK, HINTS), key=lambda way: _median(seconds[way], seconds[best]))
    print(
        f"broken promises in {2 * len(runs)} histories: {sum(r['faults'] for w in (HEFT, AUTO) for r in rows[w])}"
    )
    bench.judge(f"speed {model}, {DASK} / {best}", _median(seconds[DASK], seconds[best]), TARGETS[model])
    if against == HINTS:
        bench.judge(
            f"speed {model}, {HINTS} / {best}", _median(seconds[HINTS], seconds[best]), TARGETS[model]
        )


def _median(base: list[float], other: list[float]) -> float:
    from statistics import median

    return median(a / b for a, b in zip(base, other, strict=True))
