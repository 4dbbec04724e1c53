"""A session of the task view, driven by a simulated world, carries problems out as the kernel does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LINKS, SEEDS, make_problem

from weft import Session
from weft.evaluation.drive_tasks import drive_tasks
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem, realise
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.sim.task_layout import compile_tasks, facts_of, new_task_state, schedule_of
from weft.sim.task_rules import BY_KEY, BY_LEFT, BY_RATIO, IDLE, LATE, VIRTUAL, TaskRule, run_tasks
from weft.sim.tasks import Tasks, TaskState


@dataclass(frozen=True)
class OldestFirst:
    device: int
    order: int
    name: str = "oldest-first"

    def task_rule(self, problem: Problem, w: Tasks, s: TaskState, seed: int) -> TaskRule:
        s.key[:] = w.job_release[w.job]
        s.work[:] = problem.best_run_times
        price = np.ones(len(w.group)) if self.device == LATE else np.zeros(0)
        return TaskRule(self.order, self.device, 4, np.zeros(len(w.job)), price)


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


def kernel_alone(rule: OldestFirst, problem: Problem, seed: int) -> Schedule:
    world = realise(problem, seed)
    w = compile_tasks([problem])
    f, s = facts_of([world], w), new_task_state(w)
    run_tasks(rule.task_rule(problem, w, s, seed), w, f, s)
    return schedule_of(problem, world, w, s)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    SEEDS,
    st.sampled_from(LINKS),
    st.sampled_from(("chain", "fork", "diamond", "random")),
    st.booleans(),
    st.booleans(),
    st.sampled_from((IDLE, VIRTUAL, LATE)),
    st.sampled_from((BY_KEY, BY_LEFT, BY_RATIO)),
)
def test_driven_session_equals_kernel(
    seed: int, links: str, shape: str, is_plain: bool, is_conditional: bool, device: int, order: int
):
    problem = make(seed, links, shape, is_plain, is_conditional)
    rule = OldestFirst(device, order)
    alone = kernel_alone(rule, problem, seed)
    driven = drive_tasks(Session(problem, rule), problem, realise(problem, seed))
    for name in ("task", "device", "start", "finish"):
        assert getattr(driven, name).tobytes() == getattr(alone, name).tobytes()
    assert validate(driven) == ()
