"""The one-shot planner: time against size, workflows against the best of five, operator graphs.

Targets: encoder and 256 draws at most 0.06 s CPU for a 15x15 shop and 0.5 s for 100x20; 10,000
tasks greedy under 5 s CPU and 2 GiB; workflows at or below the best of HEFT, CPOP, PEFT, lookahead
and DEFT on average, on shapes no training saw; operator graphs above every rule.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from weft import catalog
from weft.io.clusters import builtin_cluster
from weft.model.generate import generate, jobshop, jobshop_cluster, opgraph_cluster
from weft.model.problem import Objective, Problem
from weft.scenarios.makers import resized
from weft.scenarios.splits import seed_of
from weft.schedulers.base import Limit

PARTS = ("times", "workflows", "graphs")
FIVE = ("heft", "cpop", "peft", "lookahead", "deft")
RULES = ("spt", "mwkr", "mopnr", "cp", "cp-area")
UNSEEN = ("block-model", "mosaic")
ALONE = Objective(copies=False)


def main(arguments: list[str]) -> int:
    """Run the parts asked for and print a table each; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks oneshot", description=__doc__)
    parser.add_argument("--part", choices=PARTS, help="default: all")
    parser.add_argument("--instances", type=int, default=10, help="problems per cell")
    parser.add_argument("--samples", type=int, default=256, help="schedules drawn per problem")
    parser.add_argument("--tasks", type=int, default=1000, help="size of operator graphs")
    parser.add_argument("--scheduler", default="oneshot", help="or weights, or RUN@best")
    options = parser.parse_args(arguments)
    parts = {"times": _times, "workflows": _workflows, "graphs": _graphs}
    missed = [name for name, run in parts.items() if options.part in (None, name) and not run(options)]
    for name in missed:
        print(f"target missed: {name}")
    return int(bool(missed))


def _times(options: argparse.Namespace) -> bool:
    shops = [(15, 15, 256, 0.06), (100, 20, 256, 0.5)]
    fine = True
    for jobs, machines, samples, target in shops:
        problem = Problem(jobshop(jobs, machines, seed=seed_of("test", 0)), jobshop_cluster(machines), ALONE)
        cpu = _cpu(problem, options.scheduler, samples)
        greedy, rule = _cpu(problem, options.scheduler, 1), _cpu(problem, "cp", 1)
        print(
            f"{jobs}x{machines}, {samples} draws: {cpu:.3f} s CPU (target {target}); "
            f"greedy {greedy * 1e3:.1f} ms, {greedy / rule:.0f} times the rule cp"
        )
        fine = fine and cpu <= target
    graph = generate("layered", 10_000, seed=seed_of("test", 0))
    cpu = _cpu(Problem(graph, builtin_cluster("gpu-mix-16")), options.scheduler, 1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"10,000 tasks, greedy: {cpu:.2f} s CPU, peak {memory:.2f} GiB (targets 5 s, 2 GiB)", flush=True)
    return fine and cpu <= 5 and memory <= 2


def _cpu(problem: Problem, scheduler: str, samples: int) -> float:
    """CPU seconds of the second call: the first loads kernels and weights."""
    planner = catalog.planner(scheduler)
    catalog.schedule(problem, scheduler, effort=samples)
    began = time.process_time()
    planner.plan(problem, limit=Limit(effort=samples))
    return time.process_time() - began


def _workflows(options: argparse.Namespace) -> bool:
    fine = True
    for ccr in (0.1, 1.0, 5.0):
        ratios = []
        for devices in (8, 16, 32):
            cluster = resized(builtin_cluster("gpu-mix-16"), devices)
            for k in range(options.instances):
                graph = generate(UNSEEN[k % 2], 60, seed=seed_of("test", k))
                problem = Problem(graph, cluster).with_ccr(ccr)
                best = min(catalog.schedule(problem, name).schedule.makespan for name in FIVE)
                found = catalog.schedule(problem, options.scheduler, effort=options.samples).schedule
                ratios.append(found.makespan / best)
        below = np.mean(np.array(ratios) <= 1 + 1e-9)
        print(
            f"CCR {ccr:g}: {np.mean(ratios):.4f} of the best of five, at or below on {100 * below:.0f} %",
            flush=True,
        )
        fine = fine and float(np.mean(ratios)) <= 1
    return fine


def _graphs(options: argparse.Namespace) -> bool:
    fine = True
    for kind in ("layered", "er", "sbm"):
        speed: dict[str, list[float]] = {}
        for k in range(options.instances):
            graph = generate(f"opgraph-{kind}", options.tasks, seed=seed_of("test", k))
            problem = Problem(graph, opgraph_cluster(), ALONE)
            total = float(problem.best_run_times.sum())
            asked = [(name, name, None) for name in RULES]
            asked += [("greedy", options.scheduler, 1)]
            asked += [(f"S({options.samples})", options.scheduler, options.samples)]
            for label, name, effort in asked:
                found = catalog.schedule(problem, name, effort=effort).schedule
                speed.setdefault(label, []).append(total / found.makespan)
        means = {label: float(np.mean(values)) for label, values in speed.items()}
        print(f"{kind}: " + ", ".join(f"{label} {mean:.3f}" for label, mean in means.items()), flush=True)
        fine = fine and means[f"S({options.samples})"] > max(means[name] for name in RULES)
    return fine
