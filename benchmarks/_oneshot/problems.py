"""The problems of the page, each made from its suite and name alone, so that any process can make it."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from weft.evaluation.sets.instances import Suite
from weft.evaluation.sets.instances import suite as named_suite
from weft.io.clusters import builtin_cluster
from weft.model.generate import generate, jobshop, jobshop_cluster, opgraph_cluster
from weft.model.problem import Objective, Problem
from weft.scenarios.splits import seed_of
from weft.scenarios.workflows import resized
from weft.sim.arrays import compile_problem
from weft.training.oneshot.problems import Source

ALONE = Objective(copies=False)
UNSEEN = ("block-model", "mosaic")
"""Shapes of workflows that no recipe trains on."""
WORKFLOW_TASKS = 60
LOSSES = {"shops": Source("jobshop", ((15, 15), (20, 10))), "mixes": Source("tpch", ((50,),))}
"""What runs that differ in the loss are compared on, and where the problems come from."""
LOSS_SEED = 12345


class Case(NamedTuple):
    """One problem of the page."""

    suite: str
    group: str
    """The column of its table."""
    instance: str
    data: str = ""
    """Folder of the suite's files, where it needs one."""
    reference: float = math.nan
    """Best known makespan, where one is published."""


def problem_of(case: Case) -> Problem:
    """The problem a case stands for."""
    if case.suite in MADE:
        return MADE[case.suite](case.instance)
    return suite(case.suite, case.data).instance(case.instance).problem


@functools.cache
def suite(name: str, data: str = "") -> Suite:
    """A benchmark set, read once."""
    return named_suite(name, data or None)


def fingerprint(problem: Problem) -> str:
    """Hash of everything a planner sees: the columns of the compiled problem."""
    digest = hashlib.sha256()
    for name, column in compile_problem(problem)._asdict().items():
        array = np.ascontiguousarray(column)
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    digest.update(str(problem.objective).encode())
    return digest.hexdigest()[:16]


def _operator_graph(name: str) -> Problem:
    kind, tasks, index = name.split("/")
    graph = generate(f"opgraph-{kind}", int(tasks), seed=seed_of("test", int(index)))
    return Problem(graph, opgraph_cluster(), ALONE)


def _workflow(name: str) -> Problem:
    ccr, devices, index = name.split("/")
    graph = generate(UNSEEN[int(index) % 2], WORKFLOW_TASKS, seed=seed_of("test", int(index)))
    return Problem(graph, resized(builtin_cluster("gpu-mix-16"), int(devices))).with_ccr(float(ccr))


def _sized(name: str) -> Problem:
    """A job shop ``15x15``, or a layered graph with transfers of so many tasks."""
    jobs, _, machines = name.partition("x")
    if machines:
        return Problem(
            jobshop(int(jobs), int(machines), seed=seed_of("test", 0)), jobshop_cluster(int(machines)), ALONE
        )
    return Problem(generate("layered", int(name), seed=seed_of("test", 0)), builtin_cluster("gpu-mix-16"))


def _for_losses(what: str, name: str) -> Problem:
    rng = np.random.default_rng((LOSS_SEED, int(name)))
    return LOSSES[what].problem(rng, "test")


MADE: dict[str, Callable[[str], Problem]] = {
    "graphs": _operator_graph,
    "workflows": _workflow,
    "times": _sized,
    **{f"losses-{what}": functools.partial(_for_losses, what) for what in LOSSES},
}
"""Suites that are generated: name of an instance to problem."""
