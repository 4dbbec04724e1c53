"""Problems unlike those the one-shot nets were trained on, and who plans them better: net or rules."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from weft.io.clusters import builtin_cluster
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate, jobshop, jobshop_cluster, opgraph_cluster, tpch_cluster, tpch_like
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Objective, Problem
from weft.policies.oneshot.features import view_of
from weft.policies.oneshot.planner import ZOO, best_rule, draw_best, load, shipped
from weft.scenarios.splits import seed_of
from weft.schedulers.base import Limit
from weft.schedulers.planners.rules import Decoder

ALONE = Objective(copies=False)
FAMILIES = ("layered", "block-model", "mosaic")


class Case(NamedTuple):
    """A kind of problem, and the weights that plan it; empty: those that ship for it."""

    make: Callable[[int], Problem]
    weights: str = ""


class Duel(NamedTuple):
    """Net and best rule on one problem."""

    is_strange: bool
    net: float
    rule: float
    name: str
    """Of the best rule."""


def _workflow(k: int) -> Problem:
    graph = generate(FAMILIES[k % len(FAMILIES)], 60, seed=seed_of("test", k))
    return Problem(graph, builtin_cluster("gpu-mix-16")).with_ccr(1.0)


def _late(k: int) -> Problem:
    """Six workflows, the next one released when half of the work of the last could be done."""
    cluster = builtin_cluster("gpu-mix-8")
    graphs = [generate(FAMILIES[k % len(FAMILIES)], 20, seed=seed_of("test", 6 * k + i)) for i in range(6)]
    alone = Problem(graphs[0], cluster)
    gap = float(alone.best_run_times.sum()) / 2
    return Problem([Job(graph, f"job {i}", i * gap) for i, graph in enumerate(graphs)], cluster)


def _filling(k: int) -> Problem:
    """Every task takes all slots of its device, or three of four."""
    graph = generate(FAMILIES[k % len(FAMILIES)], 60, seed=seed_of("test", k))
    graph = replace(graph, slots=np.where(np.arange(60) % 4 == 0, 3, 4))
    classes = (DeviceClass("slow", slots=4), DeviceClass("fast", 2.0, slots=4))
    return Problem(graph, Cluster.uniform(classes, (4, 4), bandwidth=1e9)).with_ccr(1.0)


def _unequal(k: int) -> Problem:
    """Independent tasks and small graphs on devices of very different speed, data free."""
    made = generate(FAMILIES[k % len(FAMILIES)], 60, seed=seed_of("test", k))
    graph = TaskGraph(made.work, made.sources, made.targets)
    classes = tuple(DeviceClass(f"class {i}", 4.0**i) for i in range(4))
    return Problem(graph, Cluster.uniform(classes, (4, 4, 4, 4)))


def _shop(k: int) -> Problem:
    return Problem(jobshop(15, 10, seed=seed_of("test", k)), jobshop_cluster(10), ALONE)


def _queries(k: int) -> Problem:
    return Problem(tpch_like(15, seed=seed_of("test", k)), tpch_cluster(), ALONE)


def _operators(k: int) -> Problem:
    return Problem(generate("opgraph-layered", 150, seed=seed_of("test", k)), opgraph_cluster(), ALONE)


CASES: Mapping[str, Case] = {
    "late releases": Case(_late),
    "tasks that fill devices": Case(_filling),
    "unequal devices, no transfers": Case(_unequal),
    "weights of job shops on workflows": Case(_workflow, "jobshop"),
    "weights of graphs on workflows": Case(_workflow, "graphs"),
    "weights of job shops on query mixes": Case(_queries, "jobshop"),
    "weights of job shops on operator graphs": Case(_operators, "jobshop"),
    "weights of graphs on shops": Case(_shop, "graphs"),
    "weights of workflows on shops": Case(_shop, "workflows"),
    "weights of workflows on operator graphs": Case(_operators, "workflows"),
}


def duel(case: Case, k: int, samples: int) -> Duel:
    """The k-th problem of a kind, planned by net and rules apart."""
    problem = case.make(k)
    decoder = Decoder(problem)
    policy = load(str(ZOO / f"{case.weights}-oneshot.json") if case.weights else shipped(decoder))
    view = view_of(decoder.a, has_pairs=decoder.by_finish)
    found = policy.encoder.scores(view)
    drawn, _ = draw_best(decoder, policy, view, found, limit=Limit(effort=samples))
    name, ruled = best_rule(decoder)
    return Duel(bool(policy.strangeness(decoder, view)), drawn.makespan, ruled.makespan, name)


def summary(duels: list[Duel]) -> str:
    """How often each was better, by how much the net was longer on average, and how often HEFT was the best rule."""
    net, rule = np.array([one.net for one in duels]), np.array([one.rule for one in duels])
    wins, losses = int((net < rule).sum()), int((net > rule).sum())
    ratio = float(np.exp(np.log(net / rule).mean()))
    strange, heft = sum(one.is_strange for one in duels), sum(one.name == "heft" for one in duels)
    return (
        f"{strange} of {len(duels)} strange; net better on {wins}, rules on {losses}, equal on "
        f"{len(duels) - wins - losses}; net over best rule {ratio:.3f}; best rule HEFT on {heft}"
    )


def main(arguments: list[str]) -> int:
    """Net against the best rule, apart from each other, on every kind; a line each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks strange", description=__doc__)
    parser.add_argument("--instances", type=int, default=10, help="problems per kind")
    parser.add_argument("--samples", type=int, default=64, help="schedules drawn per problem")
    options = parser.parse_args(arguments)
    for name, case in CASES.items():
        duels = [duel(case, k, options.samples) for k in range(options.instances)]
        print(f"{name}: {summary(duels)}", flush=True)
    return 0
