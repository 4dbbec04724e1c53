"""A session of the task view, driven by a simulated world, carries problems out as the kernel does."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LINKS, SEEDS, make_problem

from weft import Session, catalog
from weft.execute.virtual_runs import drive_tasks
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem, realise
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.schedulers.dispatchers.tasks import run_one


def with_branches(graph: TaskGraph, rng: np.random.Generator) -> TaskGraph:
    """The graph with up to two branches out of every task."""
    branch = rng.integers(-1, 2, graph.num_edges)
    probability = np.ones(graph.num_edges)
    for source in range(graph.num_tasks):
        for group in (0, 1):
            edges = np.flatnonzero((graph.sources == source) & (branch == group))
            probability[edges] = rng.dirichlet(np.ones(len(edges))) if len(edges) else 1.0
    return graph.replaced(branch=branch, probability=probability)


def make(seed: int, links: str, shape: str, is_plain: bool, is_conditional: bool) -> Problem:
    rng = np.random.default_rng(seed)
    problem = make_problem(
        seed, sizes=(int(rng.integers(1, 4)), int(rng.integers(3, 14)), int(rng.integers(1, 5)), 2),
        graph_style=(shape, "some zero", "uniform"), links=links, is_plain=is_plain, has_copies=False,
    )  # fmt: skip
    if not is_conditional:
        return problem.replaced(noise=0.3)
    jobs = [
        Job(with_branches(job.graph, rng), job.name, job.release, eligible=job.eligible)
        for job in problem.jobs
    ]
    return problem.replaced(jobs=tuple(jobs), noise=0.3)


RULES = (
    "fifo", "shortest-first", "edf", "random", "eft", "srw", "heft", "priced", "fifo-deft", "deft", "dask-like",
)  # fmt: skip
PLANS = ("plan:heft", "plan:peft", "heft-job")


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    SEEDS,
    st.sampled_from(LINKS),
    st.sampled_from(("chain", "fork", "diamond", "random")),
    st.booleans(),
    st.booleans(),
    st.sampled_from(RULES),
)
def test_driven_session_equals_kernel(
    seed: int, links: str, shape: str, is_plain: bool, is_conditional: bool, rule: str
):
    problem = make(seed, links, shape, is_plain, is_conditional)
    world = realise(problem, seed)
    alone = run_one(catalog.task_dispatcher(rule), problem, world, seed)
    driven = drive_tasks(Session(problem, catalog.task_dispatcher(rule), seed=seed), problem, world)
    assert_same(driven, alone)


def assert_same(driven: Schedule, alone: Schedule) -> None:
    """Equal rows, whatever their order, and valid ones."""
    one, other = (np.argsort(schedule.task, kind="stable") for schedule in (driven, alone))
    for name in ("task", "device", "start", "finish"):
        assert getattr(driven, name)[one].tobytes() == getattr(alone, name)[other].tobytes()
    assert validate(driven) == ()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(LINKS), st.sampled_from(("chain", "fork", "random")), st.booleans(), st.sampled_from(PLANS))  # fmt: skip
def test_driven_session_carries_out_plans_as_the_kernel_does(
    seed: int, links: str, shape: str, is_plain: bool, plan: str
):
    problem = make(seed, links, shape, is_plain, is_conditional=False)
    world = realise(problem, seed)
    alone = run_one(catalog.task_dispatcher(plan), problem, world, seed)
    driven = drive_tasks(Session(problem, plan, seed=seed), problem, world)
    assert_same(driven, alone)
