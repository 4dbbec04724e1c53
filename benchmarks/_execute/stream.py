"""Twenty small workflows that arrive on Dask: weft's dispatchers against Dask's own scheduling of the same arrivals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean, median

import numpy as np

from benchmarks._execute.bench import Bench, compare, spread
from benchmarks._execute.rows import Row, turns
from benchmarks._execute.workers import Outcome, Workers, live, workers_on
from benchmarks._execute.world import Shape, World, make_world
from weft.execute.work import Work
from weft.model.problem import Job, Objective, Problem

DASK = "dask"
DISPATCHERS = ("priced", "srw", "eft", "plan:heft")
WAYS = (DASK, *DISPATCHERS)
JOBS = 20
TARGET = 1.3


@dataclass(frozen=True)
class Stream:
    """Workflows and when they arrive, in seconds."""

    worlds: Sequence[World]
    times: Sequence[float]

    def work(self, job: str | int, task: str) -> Work:
        """What a task does."""
        return self.worlds[int(str(job).removeprefix("job"))].work(job, task)

    def problem(self, workers: Workers) -> Problem:
        """All jobs, which a session is told only when they arrive."""
        jobs = [
            Job(world.graph, f"job{k}", float(at))
            for k, (world, at) in enumerate(zip(self.worlds, self.times, strict=True))
        ]
        return Problem(jobs, workers.cluster, Objective(copies=False))


def make_stream(model: str, seed: int, median_cost: float, load: float, jobs: int = JOBS) -> Stream:
    """Poisson arrivals that ask for a share of what the workers can do at best."""
    rng = np.random.default_rng([seed, jobs, 3])
    sizes = rng.integers(8, 16, size=jobs).tolist()
    worlds = [
        make_world(model, 100 * seed + k, Shape(tasks=size, median=median_cost), name=f"job{k}")
        for k, size in enumerate(sizes)
    ]
    # At best every task runs where it is quickest; with related speeds all seven units of speed are in use.
    best = [sum(min(cost.values()) for cost in world.costs.values()) for world in worlds]
    at_once = 7.0 / 4.0 if model == "related" else 3.0
    gaps = rng.exponential(mean(best) / at_once / load, size=jobs)
    return Stream(worlds, (np.cumsum(gaps) - gaps[0]).tolist())


def measure(bench: Bench) -> None:
    """All runs, then ratios."""
    for model in bench.models:
        print(
            f"stream, {model}: {JOBS} workflows of 8 to 15 tasks, load {bench.load:g}; mean job time",
            flush=True,
        )
        keys = [(run, way, _key(bench, model, run, way)) for run, way in turns(WAYS, bench.own)]
        if bench.lacks(key for *_, key in keys):
            with workers_on("dask", model) as started:
                workers = started.measured()
                tiny = make_stream(model, 0, 0.02, 1.0, jobs=2)
                for way in WAYS:
                    _once(workers, tiny, f"w{way[0]}", way)
                for run, way, key in keys:
                    if bench.is_over:
                        break
                    stream = make_stream(model, run, bench.median, bench.load)
                    bench.rows.of(key, partial(_once, workers, stream, f"{way[0]}{run}", way))
        _conclude(bench, model)


def _key(bench: Bench, model: str, run: int, way: str) -> Row:
    return {
        "part": "stream",
        "model": model,
        "median": bench.median,
        "load of": bench.load,
        "run": run,
        "way": way,
    }


def _once(workers: Workers, stream: Stream, mark: str, way: str) -> Row:
    if way == DASK:
        return _figures(own(workers, stream, mark))
    done = workers.run(stream.problem(workers), stream, live(way), is_stream=True)
    more = {name: value for name, value in done.figures.items() if name in ("plans", "faults", "fault")}
    return {**_figures(_job_times(done, stream)), **more}


def own(workers: Workers, stream: Stream, mark: str) -> list[float]:
    """Hand every workflow to Dask when it arrives; seconds from there to its end."""
    workers.refuse_without_stealing()
    ends: dict[int, float] = {}
    began, waiting = time.time(), []
    for k, (world, at) in enumerate(zip(stream.worlds, stream.times, strict=True)):
        graph = world.delayed(f"{mark}x{k}")
        time.sleep(max(0.0, began + at - time.time()))
        future = workers.client.compute(graph)
        future.add_done_callback(lambda future, k=k: ends.setdefault(k, time.time()))
        waiting.append(future)
    workers.client.gather(waiting)
    while len(ends) < len(waiting):
        time.sleep(0.01)
    return [ends[k] - began - at for k, at in enumerate(stream.times)]


def _job_times(done: Outcome, stream: Stream) -> list[float]:
    """Since the time of arrival, whenever the session was told."""
    ends = {row["job"]: row["time"] for row in done.run.rows if row["event"] == "ended"}
    return [ends[f"job{k}"] - at for k, at in enumerate(stream.times)]


def _figures(times: Sequence[float]) -> Row:
    return {"mean": mean(times), "p99": float(np.percentile(times, 99))}


def _conclude(bench: Bench, model: str) -> None:
    runs = bench.whole(f"stream {model}", lambda run: [_key(bench, model, run, way) for way in WAYS])
    if not runs:
        return
    rows = {way: [bench.rows.of(_key(bench, model, run, way), dict) for run in runs] for way in WAYS}
    means = {way: [row["mean"] for row in rows[way]] for way in WAYS}
    ratios = {}
    for way in DISPATCHERS:
        ratios[way] = median(compare(f"{model}: mean job time, {DASK} / {way}", means[DASK], means[way]))
        compare(f"{model}: p99, {DASK} / {way}", *([row["p99"] for row in rows[one]] for one in (DASK, way)))
    print(f"{model}: mean job time of {DASK}: {spread(means[DASK])}")
    faults = sum(row["faults"] for way in DISPATCHERS for row in rows[way])
    print(f"broken promises in {len(DISPATCHERS) * len(runs)} histories: {faults}")
    best = max(ratios, key=lambda way: ratios[way])
    bench.judge(f"stream {model}, {DASK} / {best}", ratios[best], TARGET)
