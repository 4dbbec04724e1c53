"""The part ``profile`` in virtual time: how far off is what one run has taught, and what does that cost the second run?

Nothing but the knowledge of run times differs, so that many graphs can be had in a minute.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import mean, median

import numpy as np

from benchmarks._execute.bench import Bench
from benchmarks._execute.rows import Row
from benchmarks._execute.world import Links, cluster_of, make_world
from weft.execute.drive import Drive
from weft.execute.feed import feed_of
from weft.execute.scheduling import Wanted, choose
from weft.execute.told import Told
from weft.execute.virtual import VirtualTasks
from weft.execute.watch import SpeedWatch
from weft.io.histories import History
from weft.io.profiled import with_profile
from weft.io.profiles import Profile
from weft.model.problem import Problem, realise

FIRST_SEED = 1000
"""Graphs of their own, which the part ``profile`` does not have."""
SORTS = ("by kind", "by task")


def measure(bench: Bench) -> None:
    """All graphs, then ratios."""
    for model in bench.models:
        for sort in SORTS:
            keys = {run: _key(bench, model, sort, run) for run in bench.own}
            print(f"learnt, {model}, run times {sort}: virtual seconds until the last task ended", flush=True)
            for run, key in keys.items():
                if bench.is_over:
                    break
                bench.rows.of(key, partial(_once, bench, model, sort, run), say=lambda line: None)
            _conclude(bench, model, sort)


def _key(bench: Bench, model: str, sort: str, run: int) -> Row:
    return {"part": "learnt", "model": model, "sort": sort, "median": bench.median, "run": run}


def _once(bench: Bench, model: str, sort: str, run: int) -> Row:
    shape = replace(bench.shape, is_by_kind=True, spread=0.1) if sort == SORTS[0] else bench.shape
    world = make_world(model, FIRST_SEED + run, shape)
    links = Links()
    true = world.problem(cluster_of(model, links))
    blank = world.blank().problem(cluster_of(model, links, is_blank=True))
    known, _ = _driven(true, true)
    first, drive = _driven(blank, true)
    profile = Profile("nowhere.json")  # never written
    for one in drive.observed:
        name = blank.cluster.classes[drive.told.number(one.device)].name
        seconds = max(0.0, one.actual - links.gap)
        profile.add(one.kind, name, seconds, work=one.work, graph=one.graph, task=one.task)
    learnt = with_profile(blank, profile).replaced(noise=0.0)
    second, _ = _driven(learnt, true)
    error = float(np.abs(np.log(learnt.run_times / true.run_times)).mean())
    return {"known": known, "first": first, "second": second, "error": error}


def _driven(said: Problem, true: Problem) -> tuple[float, Drive]:
    """HEFT's plan by what is said, carried out with the run times that are true: when the last task ended."""
    chosen = choose(Wanted("heft"), said, is_stream=False)
    engine, history = VirtualTasks(true, realise(true, 0)), History(None)
    told = Told(said.cluster, chosen.make, None)
    drive = Drive(told, engine, feed_of(said), history, watcher=SpeedWatch())
    drive.run()
    return max(float(row["time"]) for row in history.rows if row["event"] == "finished"), drive


def _conclude(bench: Bench, model: str, sort: str) -> None:
    runs = bench.whole(f"learnt {model}, {sort}", lambda run: [_key(bench, model, sort, run)])
    if not runs:
        return
    rows = [bench.rows.of(_key(bench, model, sort, run), dict) for run in runs]
    ratios = [row["second"] / row["known"] for row in rows]
    first = median(row["first"] / row["known"] for row in rows)
    error = 100.0 * mean(row["error"] for row in rows)
    print(
        f"{model}, {sort}, {len(rows)} graphs: second run / known: median {median(ratios):.3f}, mean {mean(ratios):.3f}; "
        f"first run / known: median {first:.3f}; run times off by {error:.1f} %",
        flush=True,
    )
