"""What weft costs: CPU time of client, driver, engine and scheduler per task, and of a decision per event.

Client, driver and scheduler are one process here, whose CPU time is taken, less what it takes when nothing happens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from benchmarks._execute.bench import Bench, spread
from benchmarks._execute.rows import Row, turns
from benchmarks._execute.workers import Workers, heft, live, workers_on
from benchmarks._execute.world import KINDS
from weft.execute.drive import Drive
from weft.execute.told import Told
from weft.execute.work import Call, Result, Work
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Objective, Problem

DASK, COMPUTE, ENGINE, LIVE = "dask", "weft compute", "engine, heft", "engine, live srw"
WAYS = (DASK, COMPUTE, ENGINE, LIVE)
TASKS, QUICK_TASKS = 1500, 300
CPU_TARGET, DECISION_TARGET = 3.0, 1.0
TOLD = ("started", "adopted", "finished", "failed", "arrived", "decide")


def nothing(*_: Any) -> int:
    """Do nothing."""
    return 1


class Noops:
    """A graph of tasks that do nothing, 30 wide, each with two parents in the layer before."""

    def __init__(self, tasks: int) -> None:
        builder = GraphBuilder(f"noops-{tasks}")
        for k in range(tasks):
            builder.task(f"t{k}", 0.001, kind=KINDS[k % 3], after={f"t{p}": 28.0 for p in self.parents(k)})
        self.graph: TaskGraph = builder.build()

    @staticmethod
    def parents(k: int) -> list[int]:
        """Two of the layer before."""
        return sorted({(k // 30 - 1) * 30 + (k % 30), (k // 30 - 1) * 30 + (k + 1) % 30}) if k >= 30 else []

    def work(self, job: str | int, task: str) -> Work:
        """Nothing."""
        return Call(nothing, tuple(Result(f"t{p}") for p in self.parents(int(task[1:]))))

    def delayed(self, mark: str) -> list[Any]:
        """The last layer, for Dask."""
        import dask

        made: list[Any] = []
        for k in range(self.graph.num_tasks):
            task = dask.delayed(nothing, name=f"function-{mark}-{k}", pure=False)
            parents = [made[p] for p in self.parents(k)]
            made.append(task(*parents, dask_key_name=f"{KINDS[k % 3]}-0{k}-{mark}"))
        return made[-30:]


def measure(bench: Bench) -> None:
    """All runs, then the figures per task."""
    tasks = QUICK_TASKS if bench.is_quick else TASKS
    print(
        f"overhead, {tasks} tasks that do nothing: CPU time per task, and per event of decisions", flush=True
    )
    keys = [(run, way, _key(tasks, run, way)) for run, way in turns(WAYS, bench.own)]
    if bench.lacks(key for *_, key in keys):
        with workers_on("dask", "related") as workers:
            graph = Noops(tasks)
            for way in WAYS:
                _once(workers, Noops(60), f"w{WAYS.index(way)}", way)
            idle = _idle()
            for run, way, key in keys:
                if bench.is_over:
                    break
                mark = f"{'abcd'[WAYS.index(way)]}{run}"
                bench.rows.of(
                    key, lambda way=way, mark=mark: _per_task(_once(workers, graph, mark, way), tasks, idle)
                )
    _conclude(bench, tasks)


def _key(tasks: int, run: int, way: str) -> Row:
    return {"part": "overhead", "tasks": tasks, "run": run, "way": way}


def _idle() -> float:
    """CPU seconds per second of this process, the scheduler in it, while nothing happens."""
    cpu, wall = time.process_time(), time.perf_counter()
    time.sleep(3.0)
    return (time.process_time() - cpu) / (time.perf_counter() - wall)


def _per_task(row: Row, tasks: int, idle: float) -> Row:
    cpu = row.pop("cpu") - idle * row["seconds"]
    return {"cpu_ms": 1e3 * cpu / tasks, "idle_share": idle, **row}


def _once(workers: Workers, graph: Noops, mark: str, way: str) -> Row:
    import dask

    import weft.execute.dask as drop_in

    made = graph.delayed(mark) if way in (DASK, COMPUTE) else []
    cpu, wall = time.process_time(), time.perf_counter()
    more: Row = {}
    if way == DASK:
        dask.compute(*made, scheduler=workers.client, optimize_graph=False)
    elif way == COMPUTE:
        drop_in.compute(
            *made, client=workers.client, scheduler="heft", cluster=workers.cluster, optimize_graph=False
        )
    else:
        with _timed() as times:
            problem = Problem(graph.graph, workers.cluster, Objective(copies=False))
            # Run times of nothing are all dispatch: taken to be slow, all would be planned again for ever.
            done = workers.run(problem, graph, heft(is_strict=True) if way == ENGINE else live("srw"))
        events = sum(row["event"] in ("started", "finished", "arrived") for row in done.run.rows)
        more = {
            "decision_us": 1e6 * times["told"] / events,
            "driver_us": 1e6 * times["all"] / events,
            "faults": done.figures["faults"],
        }
    return {"cpu": time.process_time() - cpu, "seconds": time.perf_counter() - wall, **more}


@contextmanager
def _timed() -> Iterator[dict[str, float]]:
    """CPU seconds of this thread in what a session is told and asked, and in all the driver does besides waiting."""
    found = {"told": 0.0, "all": 0.0}
    former = {name: getattr(Told, name) for name in TOLD}
    decide, happen = Drive.decide, Drive.happen

    def counted(function: Callable[..., Any], where: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            began = time.thread_time()
            try:
                return function(*given, **named)
            finally:
                found[where] += time.thread_time() - began

        return call

    try:
        for name in TOLD:
            setattr(Told, name, counted(former[name], "told"))
        Drive.decide, Drive.happen = counted(decide, "all"), counted(happen, "all")  # type: ignore[method-assign]
        yield found
    finally:
        for name in TOLD:
            setattr(Told, name, former[name])
        Drive.decide, Drive.happen = decide, happen  # type: ignore[method-assign]


def _conclude(bench: Bench, tasks: int) -> None:
    runs = bench.whole("overhead", lambda run: [_key(tasks, run, way) for way in WAYS])
    if not runs:
        return
    rows = {way: [bench.rows.of(_key(tasks, run, way), dict) for run in runs] for way in WAYS}
    for way in WAYS:
        print(f"{way}: CPU ms per task: {spread([row['cpu_ms'] for row in rows[way]])}")
    for way in (ENGINE, LIVE):
        print(f"{way}: decision us per event: {spread([row['decision_us'] for row in rows[way]])}")
        print(f"{way}: driver us per event: {spread([row['driver_us'] for row in rows[way]])}")
    print(f"broken promises: {sum(row['faults'] for way in (ENGINE, LIVE) for row in rows[way])}")
    bench.judge(
        f"overhead, {COMPUTE}",
        median(row["cpu_ms"] for row in rows[COMPUTE]),
        CPU_TARGET,
        is_least=False,
        unit="ms",
    )
    worst = max(median(row["decision_us"] for row in rows[way]) / 1e3 for way in (ENGINE, LIVE))
    bench.judge("overhead, decision per event", worst, DECISION_TARGET, is_least=False, unit="ms")
