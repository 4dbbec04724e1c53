"""Kinds whose run times nobody knows: the second run, after the profiler has seen the first, against one that knows them.

Graphs of two sorts: tasks of a kind take about the same, or every task takes its own time and the same graph runs again.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks._execute.bench import Bench, compare
from benchmarks._execute.rows import Row
from benchmarks._execute.workers import Workers, heft, workers_on
from benchmarks._execute.world import Shape, World, cluster_of, make_world
from weft.io.profiled import with_profile
from weft.io.profiles import Profile

KNOWN, FIRST, SECOND = "known", "first", "second"
SORTS = ("by kind", "by task")
TARGET = 1.03


def measure(bench: Bench) -> None:
    """All runs, then ratios."""
    for model in bench.models:
        for sort in SORTS:
            keys = {run: _key(bench, model, sort, run) for run in bench.own}
            print(f"profile, {model}, run times {sort}: seconds until the last task ended", flush=True)
            if bench.lacks(keys.values()):
                with workers_on("dask", model) as started:
                    workers = started.measured()
                    _round(workers, make_world(model, 0, Shape(tasks=9, median=0.05)), 0)
                    for run, key in keys.items():
                        if bench.is_over:
                            break
                        world = make_world(model, run, _shape(bench, sort))
                        bench.rows.of(key, partial(_round, workers, world, run))
            _conclude(bench, model, sort)


def _key(bench: Bench, model: str, sort: str, run: int) -> Row:
    return {"part": "profile", "model": model, "sort": sort, "median": bench.median, "run": run}


def _shape(bench: Bench, sort: str) -> Shape:
    return replace(bench.shape, is_by_kind=True, spread=0.1) if sort == SORTS[0] else bench.shape


def _round(workers: Workers, world: World, run: int) -> Row:
    """One run that knows everything, before or after the two that learn."""
    found: dict[str, float] = {}
    faults = 0
    blank = world.blank()
    nothing = cluster_of(workers.model, workers.links, is_blank=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "profile.json")
        manner = replace(heft(), profile=path)
        ways = (KNOWN, FIRST, SECOND) if run % 2 else (FIRST, SECOND, KNOWN)
        for way in ways:
            problem = blank.problem(nothing)
            if way == KNOWN:
                done = workers.run_world(world, heft())
            else:
                problem = with_profile(problem, Profile.read(path)) if way == SECOND else problem
                done = workers.run(problem, world, manner)
            figures = done.figures
            found |= {way: figures["actual"], f"{way}_planned": figures["planned"]}
            faults += figures["faults"]
    return {**found, "faults": faults}


def _conclude(bench: Bench, model: str, sort: str) -> None:
    runs = bench.whole(f"profile {model}, {sort}", lambda run: [_key(bench, model, sort, run)])
    if not runs:
        return
    rows = [bench.rows.of(_key(bench, model, sort, run), dict) for run in runs]
    known, first, second = ([row[way] for row in rows] for way in (KNOWN, FIRST, SECOND))
    compare(f"{model}, {sort}: first run / known", first, known)
    ratios = compare(f"{model}, {sort}: second run / known", second, known)
    print(f"broken promises in {3 * len(rows)} histories: {sum(row['faults'] for row in rows)}")
    what = f"profile {model}, {sort}, second run / known"
    if sort == SORTS[0]:
        bench.judge(what, median(ratios), TARGET, is_least=False)
    else:
        print(f"{what}: {median(ratios):.3g} x (no target)")
