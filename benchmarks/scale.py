"""HEFT on large graphs: cost per task as graphs grow, then a million tasks with two million edges.

CPU time, best of several, fresh problems, compiled kernels. Targets: the cost per task grows at most
threefold from the smallest to the largest size; the million-task graph is built, planned and validated
under 2 GB of memory at its peak.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from benchmarks._ratios import report
from weft.io.files import read_cluster
from weft.model import Cluster, Problem, Schedule, TaskGraph
from weft.model.generate import Knobs, generate
from weft.model.validate import validate
from weft.schedulers.planners.lists import Heft

GROWS_AT_MOST, MOST_BYTES = 3.0, 2e9
MILLION, EDGES_PER_TASK = 1_000_000, 2.0
CLUSTER = "gpu-mix-16"
KNOBS = Knobs(density=EDGES_PER_TASK, ccr=1.0)

T = TypeVar("T")


def main(arguments: list[str]) -> int:
    """Print both tables; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("--tasks", type=int, nargs="+", default=[1_000, 3_000, 10_000, 30_000, 100_000])
    parser.add_argument("--repeat", type=int, default=5, help="runs per size, of which the best counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only-growth", action="store_true", help="leave the million tasks out")
    options = parser.parse_args(arguments)
    reached = measure_growth(sorted(options.tasks), options.repeat, options.seed)
    if not options.only_growth:
        reached &= measure_million(options.seed)
    return 0 if reached else 1


def measure_growth(sizes: list[int], repeat: int, seed: int) -> bool:
    """HEFT on every size; whether the cost per task stays within the target."""
    cluster = read_cluster(CLUSTER)
    graphs = [generate("layered", size, seed=seed, knobs=KNOBS) for size in sizes]
    Heft().plan(Problem(graphs[0], cluster))
    print(f"HEFT on {CLUSTER}, CPU time, best of {repeat}")
    print(f"{'tasks':>9} {'edges':>9} {'ms':>10} {'us per task':>12} {'growth':>7}")
    cost = []
    for graph in graphs:
        seconds = min(timed(partial(_plan_anew, graph, cluster))[1] for _ in range(repeat))
        cost.append(seconds / graph.num_tasks)
        print(
            f"{graph.num_tasks:>9} {graph.num_edges:>9} {seconds * 1e3:>10.2f} "
            f"{cost[-1] * 1e6:>12.3f} {cost[-1] / cost[0]:>6.2f}x",
            flush=True,
        )
    report(f"scale.per-task.{sizes[0]}-over-{sizes[-1]}", cost[0] / cost[-1], share=0.7)
    return _verdict(cost[-1] / cost[0], GROWS_AT_MOST, f"growth at most {GROWS_AT_MOST:g}x")


def measure_million(seed: int) -> bool:
    """Build, plan and check the large graph; whether memory stays within the target."""
    print(f"\n{MILLION} tasks on {CLUSTER}, CPU time, once; peak memory of the process so far")
    graph = _step("generate", lambda: generate("layered", MILLION, seed=seed, knobs=KNOBS))
    columns = (graph.work, graph.sources, graph.targets, graph.data)
    graph = _step("build, checked", lambda: TaskGraph(*columns, kinds=graph.kinds, kind=graph.kind))
    problem = _step("problem", lambda: Problem(graph, read_cluster(CLUSTER)))
    schedule = _step("HEFT", lambda: Heft().plan(problem))
    bound = _step("bound", lambda: schedule.bound)
    violations = _step("validate", lambda: validate(schedule))
    print(f"{graph.num_edges} edges, makespan {schedule.makespan:.6g} s, bound {bound.value:.6g} s")
    print("valid" if not violations else f"NOT VALID: {violations[0]}")
    is_small = _verdict(peak_bytes(), MOST_BYTES, f"peak at most {MOST_BYTES / 1e9:g} GB")
    return is_small and not violations


def _plan_anew(graph: TaskGraph, cluster: Cluster) -> Schedule:
    return Heft().plan(Problem(graph, cluster))


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """A result and the CPU seconds it took."""
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def peak_bytes() -> float:
    """Most memory this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def _step(name: str, work: Callable[[], T]) -> T:
    result, seconds = timed(work)
    print(f"{name:<16} {seconds:>8.2f} s   {peak_bytes() / 1e6:>6.0f} MB", flush=True)
    return result


def _verdict(value: float, most: float, target: str) -> bool:
    print(f"target ({target}): {'reached' if value <= most else 'missed'}")
    return value <= most
