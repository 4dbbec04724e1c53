"""Dispatching single tasks: cost per task of FIFO as problems grow to a million tasks on 1,000 devices.

CPU time of the event kernel alone, compiled, layout of the arrays left out; best of several. Target:
the cost per task at the largest size is at most three times that at the smallest.
"""

from __future__ import annotations

import argparse
import time

from weft.model import Cluster, Problem
from weft.model.cluster import DeviceClass
from weft.model.generate import Knobs, generate
from weft.model.problem import expected
from weft.schedulers.dispatchers.tasks import by_age
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state
from weft.sim.tasks.rules import IDLE, keyed_rule, run_tasks
from weft.sim.tasks.state import DONE, NUM_STARTED

GROWS_AT_MOST = 3.0
KNOBS = Knobs(density=2.0, ccr=1.0)
CLASSES = tuple(DeviceClass(f"c{k}", speed) for k, speed in enumerate((1.0, 2.0, 3.0, 5.0)))


def main(arguments: list[str]) -> int:
    """Print one line per size; 1 if the target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks dispatch", description=__doc__)
    parser.add_argument("--tasks", type=int, nargs="+", default=[20_000, 1_000_000])
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3, help="runs per size, of which the best counts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    _measure(100, options.devices, 1, options.seed)
    print(f"fifo on {options.devices} devices of {len(CLASSES)} classes, CPU time, best of {options.repeat}")
    print(f"{'tasks':>9} {'edges':>9} {'seconds':>9} {'us per task':>12} {'decisions/s':>12} {'growth':>7}")
    cost: list[float] = []
    for size in sorted(options.tasks):
        seconds, num_tasks, num_edges = _measure(size, options.devices, options.repeat, options.seed)
        cost.append(seconds / num_tasks)
        print(
            f"{num_tasks:>9} {num_edges:>9} {seconds:>9.3f} {cost[-1] * 1e6:>12.3f} "
            f"{num_tasks / seconds:>12.0f} {cost[-1] / cost[0]:>6.2f}x",
            flush=True,
        )
    is_reached = cost[-1] <= GROWS_AT_MOST * cost[0]
    print(f"target (growth at most {GROWS_AT_MOST:g}x): {'reached' if is_reached else 'missed'}")
    return 0 if is_reached else 1


def _measure(size: int, num_devices: int, repeat: int, seed: int) -> tuple[float, int, int]:
    """Least CPU seconds, tasks and edges."""
    graph = generate("layered", size, seed=seed, knobs=KNOBS)
    share = num_devices // len(CLASSES)
    counts = [num_devices - share * (len(CLASSES) - 1), *[share] * (len(CLASSES) - 1)]
    problem = Problem(graph, Cluster.uniform(CLASSES, counts, bandwidth=1e9))
    w = compile_tasks([problem])
    f, s = facts_of([expected(problem)], w), new_task_state(w)
    s.key[:] = by_age(problem, seed)
    rule = keyed_rule(IDLE)
    times = []
    for _ in range(repeat):
        started = time.process_time()
        run_tasks(rule, w, f, s)
        times.append(time.process_time() - started)
    if s.overflow.any() or int(s.count[0, NUM_STARTED]) != graph.num_tasks or (s.status != DONE).any():
        raise SystemExit("the episode did not end")
    return min(times), graph.num_tasks, graph.num_edges
