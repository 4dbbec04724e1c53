"""The one-shot planner: time against size, workflows against the best of five, operator graphs.

Targets: encoder and 256 draws at most 0.06 s CPU for a 15x15 shop and 0.5 s for 100x20; 10,000
tasks greedy under 5 s CPU and 2 GiB; workflows at or below the best of HEFT, CPOP, PEFT, lookahead
and DEFT on average, on shapes no training saw; operator graphs above every rule. Rounds shows what
another pass of the encoder before every start costs and brings; models are read from ONNX files below
a folder; strange asks whether net or rules plan better what no training saw. These have no target.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator

import numpy as np

from benchmarks._rounds import Rounds
from benchmarks._strange import CASES, duel, summary
from weft import catalog
from weft.errors import InputError
from weft.evaluation.instances import suite
from weft.io.clusters import builtin_cluster
from weft.model.bounds import lower_bound
from weft.model.generate import generate, jobshop, jobshop_cluster, opgraph_cluster
from weft.model.problem import Objective, Problem
from weft.scenarios.splits import seed_of
from weft.scenarios.workflows import resized
from weft.schedulers.base import Limit

PARTS = ("times", "workflows", "graphs", "rounds", "strange", "models")
FIVE = ("heft", "cpop", "peft", "lookahead", "deft")
RULES = ("spt", "mwkr", "mopnr", "cp", "cp-area")
UNSEEN = ("block-model", "mosaic")
ALONE = Objective(copies=False)
SHOPS = {"15x15": 0, "20x20": 20}
"""Groups of Taillard's shops and the number of instances before them."""
SMALL_GRAPH, FEW = 200, 64


def main(arguments: list[str]) -> int:
    """Run the parts asked for and print a table each; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks oneshot", description=__doc__)
    parser.add_argument("--part", choices=PARTS, help="default: all that need no data")
    parser.add_argument("--instances", type=int, default=10, help="problems per cell")
    parser.add_argument("--samples", type=int, default=256, help="schedules drawn per problem")
    parser.add_argument("--tasks", type=int, default=1000, help="size of operator graphs")
    parser.add_argument("--scheduler", default="oneshot", help="or weights, or RUN@best")
    parser.add_argument("--data", help="folder of ONNX models, for the part models")
    options = parser.parse_args(arguments)
    parts = dict(zip(PARTS, (_times, _workflows, _graphs, _rounds, _strange, _models), strict=True))
    asked = [name for name in PARTS if options.part == name or (options.part is None and name != "models")]
    missed = [name for name in asked if not parts[name](options)]
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
            asked: list[tuple[str, str, int | None]] = [(name, name, None) for name in RULES]
            asked += [("greedy", options.scheduler, 1)]
            asked += [(f"S({options.samples})", options.scheduler, options.samples)]
            for label, name, effort in asked:
                found = catalog.schedule(problem, name, effort=effort).schedule
                speed.setdefault(label, []).append(total / found.makespan)
        means = {label: float(np.mean(values)) for label, values in speed.items()}
        print(f"{kind}: " + ", ".join(f"{label} {mean:.3f}" for label, mean in means.items()), flush=True)
        fine = fine and means[f"S({options.samples})"] > max(means[name] for name in RULES)
    return fine


def _rounds(options: argparse.Namespace) -> bool:
    """Gap and CPU of one pass, of one pass with draws, and of a pass before every contested start."""
    weights = None if options.scheduler == "oneshot" else options.scheduler
    for name, problems in _small_problems(options.instances):
        cells: dict[str, list[tuple[float, float]]] = {}
        for problem, best in problems:
            for label, samples in (("greedy", 1), (f"S({FEW})", FEW)):
                spent = _cpu(problem, options.scheduler, samples)
                found = catalog.schedule(problem, options.scheduler, effort=samples).schedule
                cells.setdefault(label, []).append((_percent(found.makespan, best), spent))
            for label, every in (("rounds", 1), ("rounds of 10", 10)):
                began = time.process_time()
                found = Rounds(problem, every, weights).plan()
                spent = time.process_time() - began
                cells.setdefault(label, []).append((_percent(found.makespan, best), spent))
        means = {label: np.mean(values, axis=0) for label, values in cells.items()}
        parts = [f"{label} {gap:.2f} % in {1e3 * cpu:.1f} ms" for label, (gap, cpu) in means.items()]
        print(f"{name}: " + ", ".join(parts), flush=True)
    return True


def _percent(makespan: float, best: float) -> float:
    return 100.0 * (makespan / best - 1.0)


def _small_problems(count: int) -> Iterator[tuple[str, Iterator[tuple[Problem, float]]]]:
    """Groups of problems with what their gaps are to: the best known makespan, or the lower bound."""
    shops = suite("taillard")
    for group, first in SHOPS.items():
        names = shops.names[first : first + min(count, 10)]
        yield group, ((shops.instance(name).problem, shops.best_known[name]) for name in names)
    for kind in ("layered", "er", "sbm"):
        seeds = [seed_of("test", k) for k in range(count)]
        graphs = (generate(f"opgraph-{kind}", SMALL_GRAPH, seed=seed) for seed in seeds)
        problems = (Problem(graph, opgraph_cluster(), ALONE) for graph in graphs)
        yield f"{kind}, {SMALL_GRAPH} tasks", ((p, lower_bound(p).value) for p in problems)


def _strange(options: argparse.Namespace) -> bool:
    """Net against the best rule, apart from each other, on problems unlike the training."""
    for name, case in CASES.items():
        duels = [duel(case, k, options.samples) for k in range(options.instances)]
        print(f"{name}: {summary(duels)}", flush=True)
    return True


def _models(options: argparse.Namespace) -> bool:
    """Sum of run times over makespan per size of the models below a folder."""
    if options.data is None:
        raise InputError("expected a folder of ONNX models: --data DIR", field="data")
    draws = {"greedy": 1, "S(64)": 64, "S(256)": 256}
    speed: dict[str, dict[str, list[float]]] = {}
    for instance in suite("onnx", options.data).instances:
        total = float(instance.problem.best_run_times.sum())
        row = speed.setdefault(instance.group, {})
        asked: list[tuple[str, str, int | None]] = [(name, name, None) for name in RULES]
        asked += [(label, options.scheduler, effort) for label, effort in draws.items()]
        for label, name, effort in asked:
            found = catalog.schedule(instance.problem, name, effort=effort).schedule
            row.setdefault(label, []).append(total / found.makespan)
        row.setdefault("bound", []).append(total / lower_bound(instance.problem).value)
    for group, row in speed.items():
        cells = ", ".join(f"{label} {np.mean(values):.3f}" for label, values in row.items())
        print(f"{group} operators, {len(row['bound'])} models: {cells}", flush=True)
    return True
