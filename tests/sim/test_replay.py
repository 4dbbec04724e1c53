"""Replays of plans on any device: against a plain twin, the plan itself and the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SEEDS, problems

from weft import catalog
from weft.evaluation.questions.robustness import robustness
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate
from weft.model.graph import TaskGraph
from weft.model.problem import Problem, Realisation, expected, realise
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.sim.tasks.replay import plan_order, replayed

PROPERTY = settings(max_examples=150, deadline=None, derandomize=True)
PLANNERS = st.sampled_from(["heft", "deft", "min-min", "random"])


def plan_of(problem: Problem, name: str) -> Schedule | None:
    """A plan, or None where the planner refuses the problem."""
    if catalog.planner(name).supports(problem) is not None:
        return None
    return catalog.schedule(problem, name).schedule


def shared_plan(seed: int) -> Schedule:
    """Sixty tasks on four devices with slots and memory."""
    rng = np.random.default_rng(seed)
    graph = generate("layered", 60, seed=seed)
    graph = graph.replaced(slots=rng.integers(1, 4, 60), memory=np.floor(rng.uniform(0, 7, 60)))
    classes = [DeviceClass("a", slots=4, memory=16.0), DeviceClass("b", 2.0, slots=3, memory=12.0)]
    cluster = Cluster.uniform(classes, [2, 2], bandwidth=1e9)
    return catalog.schedule(Problem(graph, cluster), "heft").schedule


def starts_of(plan: Schedule) -> dict[tuple[int, int, int], float]:
    """Start of every (task, copy, device)."""
    keys = zip(plan.task.tolist(), plan.copy.tolist(), plan.device.tolist(), strict=True)
    return dict(zip(keys, plan.start.tolist(), strict=True))


def starts_nothing_later(again: Schedule, plan: Schedule) -> bool:
    found, planned = starts_of(again), starts_of(plan)
    return found.keys() == planned.keys() and all(
        found[key] <= start * (1 + 1e-9) for key, start in planned.items()
    )


def twin(plan: Schedule, world: Realisation) -> Schedule:
    """Row by row in plain Python; for plans without copies, of tasks that take time."""
    problem, start, finish = plan.problem, np.zeros(len(plan)), np.zeros(len(plan))
    order = plan_order(plan).tolist()
    row_of = {int(task): row for row, task in enumerate(plan.task)}
    for at, row in enumerate(order):
        i, p = int(plan.task[row]), int(plan.device[row])
        j = int(problem.job_of[i])
        graph, base = problem.jobs[j].graph, int(problem.offsets[j])
        time = problem.jobs[j].release
        for e in np.flatnonzero(graph.targets == i - base):
            sender = row_of[base + int(graph.sources[e])]
            lag = problem.transfer_time(int(plan.device[sender]), p, float(graph.data[e]))
            time = max(time, finish[sender] + lag)
        before = [other for other in order[:at] if plan.device[other] == p]
        time = max([time, *(start[other] for other in before)])
        ends = sorted(finish[other] for other in before if finish[other] > time)
        start[row] = next(
            t for t in (time, *ends) if has_room(plan, [o for o in before if finish[o] > t], i, p)
        )
        finish[row] = start[row] + world.run_times[i, problem.cluster.device_class[p]]
    return Schedule(problem, plan.task, plan.device, start, finish, realisation=world)


def has_room(plan: Schedule, running: list[int], i: int, p: int) -> bool:
    graph, problem = plan.problem.jobs[0].graph, plan.problem
    kind = problem.cluster.classes[int(problem.cluster.device_class[p])]
    tasks = [*(int(plan.task[row]) for row in running), i]
    return graph.slots[tasks].sum() <= kind.slots and graph.memory[tasks].sum() <= kind.memory


@pytest.mark.parametrize("seed", range(8))
def test_replay_under_noise_is_that_of_a_plain_twin(seed: int):
    plan = shared_plan(seed)
    world = realise(plan.problem.replaced(noise=0.5), seed)
    again = replayed(plan, world)
    assert starts_of(again) == pytest.approx(starts_of(twin(plan, world)), rel=1e-12)
    assert validate(again) == ()


def test_replays_by_all_callers_are_one():
    """Once two replays disagreed on devices with slots by up to 11 %."""
    plan = shared_plan(0)
    noisy = plan.problem.replaced(noise=0.3)
    one_by_one = [replayed(plan, realise(noisy, seed)).makespan for seed in range(6)]
    assert robustness(plan, 0.3, 6).rows.tolist() == one_by_one
    assert one_by_one == [twin(plan, realise(noisy, seed)).makespan for seed in range(6)]


@PROPERTY
@given(problems(), PLANNERS, st.sampled_from([1.0, 1.5]))
def test_replay_of_any_plan_starts_nothing_later(problem: Problem, name: str, stretch: float):
    plan = plan_of(problem, name)
    if plan is None:
        return
    start = plan.start * stretch  # a plan that leaves gaps is as valid
    loose = Schedule(problem, plan.task, plan.device, start, start + (plan.finish - plan.start), plan.copy)
    assert starts_nothing_later(replayed(loose), loose)


@PROPERTY
@given(problems(), PLANNERS)
def test_replay_of_a_replay_changes_nothing(problem: Problem, name: str):
    plan = plan_of(problem, name)
    if plan is not None:
        tight = replayed(plan)
        assert starts_nothing_later(replayed(tight), tight)
        assert tight.makespan <= plan.makespan * (1 + 1e-9)


@PROPERTY
@given(problems(), PLANNERS, SEEDS)
def test_replay_under_noise_overloads_nothing(problem: Problem, name: str, seed: int):
    plan = plan_of(problem, name)
    if plan is not None:
        again = replayed(plan, realise(problem.replaced(noise=0.8), seed))
        assert validate(again) == ()
        assert starts_of(again).keys() == starts_of(plan).keys()


def test_copies_that_take_no_time_on_one_class_need_no_room_there():
    """Task 1 runs on both devices; on the second, where it takes no time, it lies within task 0."""
    graph = TaskGraph([np.nan] * 2, classes=("a", "b"), times=[[9.0, 9.0], [2.0, 0.0]])
    problem = Problem(graph, Cluster.uniform([DeviceClass("a"), DeviceClass("b")], [1, 1]))
    plan = Schedule(problem, [0, 1, 1], [1, 0, 1], [0.0, 0.0, 5.0], [9.0, 2.0, 5.0], copy=[0, 0, 1])
    assert validate(plan) == ()
    assert set(starts_of(replayed(plan, expected(problem))).values()) == {0.0}


def test_batch_classes_replay_plans_without_batches():
    problem = Problem(TaskGraph([1.0, 2.0]), Cluster.uniform([DeviceClass("a", batch=4)], [1]))
    plan = Schedule(problem, [0, 1], [0, 0], [0.0, 1.0], [1.0, 3.0])
    assert replayed(plan).start.tolist() == [0.0, 1.0]
