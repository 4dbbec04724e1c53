"""Explanations: what held a start, what other devices offered, slack and chain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import Knobs, generate
from weft.model.graph import GraphBuilder
from weft.model.problem import Job, Problem
from weft.model.schedule import SKIPPED, Schedule
from weft.schedulers.explain import critical_chain, explain


def greedy(problem: Problem) -> Schedule:
    """Index order, append, earliest finish; one slot per device and one job."""
    graph, cluster = problem.graph, problem.cluster
    free = [0.0] * cluster.num_devices
    device, start, finish = [], [], []
    for i in range(graph.num_tasks):
        edges = graph.predecessor_edges[graph.predecessor_pointer[i] : graph.predecessor_pointer[i + 1]]
        offers = []
        for d in range(cluster.num_devices):
            there = [
                finish[graph.sources[e]] + cluster.transfer_time(device[graph.sources[e]], d, graph.data[e])
                for e in edges
            ]
            begin = max([free[d], *there])
            offers.append((begin + problem.run_times[i, cluster.device_class[d]], begin, d))
        end, begin, d = min(offers)
        free[d] = end
        device.append(d)
        start.append(begin)
        finish.append(end)
    return Schedule(problem, np.arange(graph.num_tasks), device, start, finish)


def random_schedule(size: int, seed: int) -> Schedule:
    graph = generate("layered", size, seed=seed, knobs=Knobs(ccr=1.0))
    classes = [DeviceClass("fast", speed=2.0), DeviceClass("slow")]
    return greedy(Problem(graph, Cluster.uniform(classes, [1, 2], bandwidth=1e9)))


@pytest.fixture
def diamond() -> Schedule:
    """a on cpu-0; b after a there; c on cpu-1 after a transfer of 2; d on cpu-0 waits for c."""
    builder = GraphBuilder("diamond")
    builder.task("a", 4.0)
    builder.task("b", 3.0, after={"a": 2.0})
    builder.task("c", 5.0, after={"a": 2.0})
    builder.task("d", 1.0, after={"b": 2.0, "c": 2.0})
    problem = Problem(builder.build(), Cluster.uniform([DeviceClass("cpu")], [2], bandwidth=1.0))
    return Schedule(problem, [0, 1, 2, 3], [0, 0, 1, 0], [0, 4, 6, 13], [4, 7, 11, 14])


def test_cause_is_the_release_for_a_first_task(diamond: Schedule) -> None:
    assert explain(diamond, "a").cause.reason == "release"


def test_cause_is_data_with_its_transfer(diamond: Schedule) -> None:
    cause = explain(diamond, "c").cause
    assert (cause.reason, cause.time) == ("data", 6.0)
    assert cause.text == ("it waited for a on cpu-0, which finished at 4; the data took 2 and arrived at 6")


def test_cause_is_the_busy_device() -> None:
    builder = GraphBuilder()
    builder.task("x", 3.0)
    builder.task("y", 2.0)
    problem = Problem(builder.build(), Cluster.uniform([DeviceClass("cpu")], [1]))
    cause = explain(Schedule(problem, [0, 1], [0, 0], [0, 3], [3, 5]), "y").cause
    assert cause.reason == "busy"
    assert cause.text == "its data was there at 0, cpu-0 was busy with x until 3"


def test_cause_is_a_choice_when_nothing_held_it(diamond: Schedule) -> None:
    start = diamond.start + np.array([0, 0, 0, 2])
    late = Schedule(diamond.problem, diamond.task, diamond.device, start, start + np.array([4, 3, 5, 1]))
    cause = explain(late, "d").cause
    assert (cause.reason, cause.time) == ("choice", 13.0)


def test_alternatives_use_the_next_gap_elsewhere(diamond: Schedule) -> None:
    found = explain(diamond, "b").alternatives
    assert [(a.device, a.ready, a.start, a.finish) for a in found] == [("cpu-1", 6.0, 11.0, 14.0)]


def test_alternatives_say_where_a_task_cannot_run() -> None:
    builder = GraphBuilder()
    builder.task("x", times={"gpu": 1.0, "cpu": float("inf")})
    classes = [DeviceClass("gpu"), DeviceClass("cpu")]
    problem = Problem(builder.build(), Cluster.uniform(classes, [1, 1]))
    text = str(explain(Schedule(problem, [0], [0], [0.0], [1.0]), "x"))
    assert "why here: no other device can run it" in text
    assert "cpu-0      cannot run there" in text


def test_alternatives_respect_slots_and_memory() -> None:
    builder = GraphBuilder()
    builder.task("small", 10.0, slots=1, memory=6.0)
    builder.task("other", 4.0, slots=1, memory=1.0)
    builder.task("asked", 2.0, slots=1, memory=3.0)
    cluster = Cluster.uniform([DeviceClass("gpu", slots=4, memory=8.0)], [2])
    problem = Problem(builder.build(), cluster)
    plan = Schedule(problem, [0, 1, 2], [1, 0, 0], [0.0, 0.0, 0.0], [10.0, 4.0, 2.0])
    assert explain(plan, "asked").alternatives[0].start == 10.0


def test_slack_is_what_the_makespan_leaves(diamond: Schedule) -> None:
    assert explain(diamond, "b").slack == 6.0
    assert not explain(diamond, "b").is_critical


def test_critical_chain_goes_back_to_the_start(diamond: Schedule) -> None:
    found = explain(diamond, "d")
    assert found.is_critical
    assert [(link.placement.task, link.reason) for link in found.chain] == [
        ("a", "release"),
        ("c", "data"),
        ("d", "data"),
    ]


def test_summary_reads_as_documented(diamond: Schedule) -> None:
    assert str(explain(diamond, "b")).splitlines() == [
        "b (task) runs on cpu-0 from 4 to 7 s",
        "why then: it waited for a on cpu-0, which finished at 4",
        "why here: no other device would have finished it sooner (next: cpu-1 at 14)",
        "  elsewhere   data there        start       finish",
        "  cpu-1                6           11           14",
        "slack: 6 s before the makespan moves, if the order is kept",
        "chain back to the start:",
        "  a on cpu-0, 0 to 4: its release",
        "  b on cpu-0, 4 to 7: data from above",
    ]


def test_copies_are_listed_and_the_first_to_finish_is_explained() -> None:
    builder = GraphBuilder()
    builder.task("root", 1.0)
    builder.task("left", 10.0, after={"root": 100.0})
    builder.task("right", 10.0, after={"root": 100.0})
    problem = Problem(builder.build(), Cluster.uniform([DeviceClass("cpu")], [2], bandwidth=1.0))
    plan = Schedule(
        problem, [0, 0, 1, 2], [0, 1, 0, 1], [0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 11.0, 11.0], [0, 1, 0, 0]
    )
    assert [copy.device for copy in explain(plan, "root").copies] == ["cpu-1"]
    assert explain(plan, "right").cause.text == "it waited for root on cpu-1, which finished at 1"


def test_slack_on_slots_follows_who_takes_them_over() -> None:
    builder = GraphBuilder()
    builder.task("long", 9.0)
    builder.task("short", 2.0)
    builder.task("next", 3.0)
    cluster = Cluster.uniform([DeviceClass("pool", slots=2)], [1])
    plan = Schedule(Problem(builder.build(), cluster), [0, 1, 2], [0, 0, 0], [0, 0, 2], [9, 2, 5])
    assert explain(plan, "short").slack == 4.0
    assert explain(plan, "long").is_critical


def test_long_chains_are_shortened_in_the_summary() -> None:
    plan = greedy(Problem(generate("chain", 40), Cluster.uniform([DeviceClass("cpu")], [1])))
    lines = str(explain(plan, "t39")).splitlines()
    assert "  ... 29 more ..." in lines
    assert len(explain(plan, "t39").chain) == 40


def test_explain_takes_job_and_task_names() -> None:
    graph = generate("chain", 2)
    problem = Problem([Job(graph, "one"), Job(graph, "two")], Cluster.uniform([DeviceClass("cpu")], [2]))
    run = problem.run_times[:, 0]
    start = [0.0, run[0], 0.0, run[2]]
    plan = Schedule(problem, [0, 1, 2, 3], [0, 0, 1, 1], start, start + run)
    assert explain(plan, "two/t1").placement.device == "cpu-1"


def test_explain_suggests_the_task_meant(diamond: Schedule) -> None:
    with pytest.raises(InputError, match="no task 'dd' in problem 'diamond'; did you mean 'd'"):
        explain(diamond, "dd")


def test_explain_refuses_a_number_out_of_range(diamond: Schedule) -> None:
    with pytest.raises(InputError, match="task: expected a task number below 4, got 9"):
        explain(diamond, 9)


def test_explain_says_that_a_task_never_ran(diamond: Schedule) -> None:
    plan = Schedule(diamond.problem, [0], [-1], [0.0], [0.0], outcome=np.array([SKIPPED]))
    with pytest.raises(InputError, match="task 'a' never ran"):
        explain(plan, "a")


@given(st.integers(2, 25), st.integers(0, 10**6))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_alternatives_name_free_time_after_the_data(size: int, seed: int) -> None:
    plan = random_schedule(size, seed)
    for task in range(0, size, 5):
        for other in explain(plan, task).alternatives:
            there = plan.device == plan.problem.cluster.device_index[other.device]
            overlap = (plan.start < other.finish - 1e-9) & (plan.finish > other.start + 1e-9)
            assert other.start >= other.ready
            assert not (there & overlap).any()


@given(st.integers(2, 25), st.integers(0, 10**6))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_chain_links_touch(size: int, seed: int) -> None:
    plan = random_schedule(size, seed)
    last = int(plan.task[np.argmax(plan.finish)])
    found = explain(plan, last)
    assert found.is_critical
    assert found.chain[0].reason == "release"
    for before, after in zip(found.chain, found.chain[1:], strict=False):
        waited = after.placement.start - before.placement.finish
        assert waited >= -1e-9
        assert waited < 1e-9 or after.reason == "data"


@given(st.integers(2, 20), st.integers(0, 10**6), st.integers(0, 19))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_slack_is_exact_on_single_slot_devices(size: int, seed: int, pick: int) -> None:
    plan = random_schedule(size, seed)
    task = pick % size
    slack = explain(plan, task).slack
    assert delayed_makespan(plan, task, slack) <= plan.makespan * (1 + 1e-9)
    assert delayed_makespan(plan, task, slack + 0.5) > plan.makespan * (1 + 1e-9)


def delayed_makespan(plan: Schedule, task: int, delay: float) -> float:
    """Makespan if one task takes longer by ``delay`` and all others keep device, order and start."""
    graph, cluster = plan.problem.graph, plan.problem.cluster
    row_of = {int(t): row for row, t in enumerate(plan.task)}
    finish = np.zeros(len(plan))
    free = np.zeros(cluster.num_devices)
    for row, (number, d) in enumerate(zip(plan.task.tolist(), plan.device.tolist(), strict=True)):
        begin = max(plan.start[row], free[d])
        for e in np.flatnonzero(graph.targets == number).tolist():
            sender = row_of[int(graph.sources[e])]
            travel = cluster.transfer_time(int(plan.device[sender]), d, float(graph.data[e]))
            begin = max(begin, finish[sender] + travel)
        finish[row] = begin + plan.finish[row] - plan.start[row] + (delay if number == task else 0.0)
        free[d] = finish[row]
    return float(finish.max())


def test_critical_chain_ends_with_what_is_done_last(diamond: Schedule) -> None:
    chain = critical_chain(diamond)
    assert [(link.task, link.reason) for link in chain] == [("a", "release"), ("c", "data"), ("d", "data")]


def test_critical_chain_of_nothing_done_is_empty(diamond: Schedule) -> None:
    skipped = Schedule(diamond.problem, [0], [-1], [0.0], [0.0], outcome=[SKIPPED])
    assert critical_chain(skipped) == ()
