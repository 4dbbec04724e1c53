"""Policies that pick tasks: torch and NumPy agree, jobs are embedded by themselves, and DEFT places what is picked."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from weft import Session, catalog
from weft.errors import InputError
from weft.evaluation.sweep.request import evaluate
from weft.execute.virtual_runs import drive_tasks
from weft.io.files import write_graph
from weft.kinds import TASKS
from weft.model.generate import generate
from weft.model.problem import Problem, realise
from weft.model.validate import validate
from weft.policies.checkpoint import Card, save_policy
from weft.policies.learned import load_learned
from weft.policies.picks.dispatcher import PickDispatcher, load_picker, pick_architecture
from weft.policies.picks.forward import PickPolicy, levels_of
from weft.policies.picks.net import PickNet
from weft.scenarios import scenario
from weft.schedulers.dispatchers.outages import Outage
from weft.schedulers.dispatchers.tasks import run_one
from weft.session.plan_limits import without_copies
from weft.sim.tasks.picks import FEATURE_VERSION, STYLES
from weft.testing import check_dispatcher

SHIPPED = ("decima-deft", "lachesis")


def drawn(style: str) -> PickNet:
    """A net whose scores differ."""
    made = PickNet(pick_architecture(style, 12))
    made.initialise(torch.Generator().manual_seed(3))
    with torch.no_grad():
        made.score_out.mul_(100.0)
    return made


@pytest.fixture(params=list(STYLES))
def policy(request: pytest.FixtureRequest) -> PickPolicy:
    net = drawn(request.param)
    return PickPolicy(net.weights(), net.architecture)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return scenario("workflows", load=0.8, jobs=5, tasks=8).dispatched("validation", 0, 0)


def test_every_job_is_embedded_by_itself(policy: PickPolicy, problem: Problem):
    together = policy.embed([problem])
    for j, job in enumerate(problem.jobs):
        alone = policy.embed([problem.replaced(jobs=(job,))])
        rows = slice(problem.offsets[j], problem.offsets[j + 1])
        np.testing.assert_allclose(together.nodes[rows], alone.nodes, atol=1e-6)
        np.testing.assert_allclose(together.pooled[rows], alone.pooled, atol=1e-6)


def test_embedding_does_not_depend_on_the_unit_of_time(policy: PickPolicy, problem: Problem):
    job = problem.jobs[0]
    one = problem.replaced(jobs=(job,))
    slower = dataclasses.replace(
        job, graph=job.graph.replaced(work=2.0 * job.graph.work, data=2.0 * job.graph.data)
    )
    np.testing.assert_allclose(
        policy.embed([one]).nodes, policy.embed([problem.replaced(jobs=(slower,))]).nodes, atol=1e-3
    )


def test_levels_hold_every_edge_once(problem: Problem):
    levels = levels_of([problem])
    assert sum(len(level.children) for level in levels) == sum(job.graph.num_edges for job in problem.jobs)
    height = np.zeros(problem.num_tasks, np.int64)
    for number, level in enumerate(levels, 1):
        height[level.tasks] = number
    for level in levels:
        sizes = np.diff(np.append(level.first, len(level.children)))
        assert (height[np.repeat(level.tasks, sizes)] > height[level.children]).all()


def test_policy_is_a_dispatcher_that_sees_no_future(policy: PickPolicy):
    check_dispatcher(PickDispatcher("drawn", policy=policy), streams=2)


def test_lost_devices_are_not_used(policy: PickPolicy, problem: Problem):
    found = run_one(
        PickDispatcher("drawn", policy=policy),
        problem,
        realise(problem, 0),
        0,
        [Outage(0, 2.0), Outage(3, 5.0, 40.0)],
    )
    assert not validate(found)
    assert not ((found.device == 0) & (found.finish > 2.0)).any()


@pytest.fixture
def saved(tmp_path: Path, policy: PickPolicy) -> str:
    weights = drawn(policy.architecture.style).weights()
    save_policy(
        tmp_path / "mine.json", weights, Card("mine", "pick-reinforce", policy.architecture, FEATURE_VERSION)
    )
    return str(tmp_path / "mine.json")


def test_saved_policy_decides_the_same_in_simulator_and_session(
    saved: str, policy: PickPolicy, problem: Problem
):
    once, world = without_copies(problem), realise(problem, 0)
    wanted = run_one(PickDispatcher("drawn", policy=policy), once, world)
    found = run_one(catalog.task_dispatcher(saved), once, world)
    driven = drive_tasks(Session(problem, saved), problem, world)
    for one in (found, driven):
        assert sorted(zip(one.task, one.device, one.start, strict=True)) == sorted(
            zip(wanted.task, wanted.device, wanted.start, strict=True)
        )


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policy_repeats_itself_and_is_valid(name: str, problem: Problem):
    runs = [run_one(catalog.task_dispatcher(name), problem, realise(problem, 1)) for _ in range(2)]
    assert runs[0].start.tobytes() == runs[1].start.tobytes()
    assert not validate(runs[0])


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policy_is_a_row_for_one_graph_a_batch_and_a_stream(name: str, tmp_path: Path):
    write_graph(generate("layered", 8, seed=1), tmp_path / "one.json")
    single = evaluate([tmp_path / "one.json"], [name], cluster="gpu-mix-8", check="all")
    assert single.kind is TASKS and single.rows[0].valid
    for arrivals in ("once", "poisson"):
        settings = {"load": 0.8, "arrivals": arrivals, "jobs": 3, "tasks": 8}
        found = evaluate("workflows", [name], settings=settings, seeds=1, check="all")
        assert found.rows[0].valid


def test_policy_that_picks_is_refused_on_queues(saved: str):
    with pytest.raises(InputError, match="mine acts on single tasks, not on queues by kind"):
        load_learned(saved)


def test_shipped_policy_is_refused_where_plans_are_made():
    with pytest.raises(InputError, match="lachesis is a dispatcher"):
        catalog.planner("lachesis")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feature_version": "picks/0"}, "feature_version: trained on another feature version"),
        (
            {"architecture": dataclasses.replace(pick_architecture("decima", 12), node=3)},
            "features of style decima",
        ),
    ],
)
def test_card_of_something_else_is_refused(tmp_path: Path, change: dict[str, object], message: str):
    card = dataclasses.replace(
        Card("mine", "pick-reinforce", pick_architecture("decima", 12), FEATURE_VERSION), **change
    )
    weights = {name: np.zeros(shape, np.float32) for name, shape in card.architecture.shapes().items()}
    save_policy(tmp_path / "mine.json", weights, card)
    with pytest.raises(InputError, match=message):
        load_picker(str(tmp_path / "mine.json"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 0}, "hidden: expected a whole number"),
        ({"style": "other"}, "style: expected decima or lachesis"),
    ],
)
def test_architecture_refuses(change: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(pick_architecture("decima", 12), **change)
