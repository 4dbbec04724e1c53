"""Drives in virtual time: whatever goes wrong, the history keeps every promise, and the same faults give the same one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import mean

import pytest
from driving import STYLES, Drove, ForgetfulTasks, drawn, faults_of, go
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weft import catalog
from weft.errors import InputError
from weft.execute.engine import Order
from weft.execute.faults import Failure, Faults, Loss, Slowdown
from weft.execute.ledger import Ledger
from weft.execute.scheduling import Wanted
from weft.execute.virtual import NO_FAULTS
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder
from weft.model.problem import Job, Problem

SMALL = st.integers(0, 10_000)
WANTED = st.sampled_from(STYLES)


def problem_of(seed: int, wanted: Wanted, noise: float = 0.0) -> Problem:
    return drawn(seed, jobs=3 if wanted.split else 1 + seed % 3 // 2, noise=noise)


def ancestors(problem: Problem, job: str, task: str) -> set[str]:
    """All that a task needs, however far."""
    graph = next(one.graph for one in problem.jobs if one.name == job)
    found, stack = set[str](), [task]
    while stack:
        node = graph.index[stack.pop()]
        more = {graph.names[k] for k in graph.predecessors(node).tolist()} - found
        found |= more
        stack += more
    return found


def fates(drove: Drove) -> Counter[tuple[str, str]]:
    """How often each task was reported or dropped."""
    return Counter((row["job"], row["task"]) for row in drove.of("reported", "dropped"))


# -- promises ----------------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None)
@given(SMALL, SMALL, WANTED, st.sampled_from((0.0, 0.3)), st.sampled_from((0, 1, 2)))
def test_history_keeps_its_promises_whatever_goes_wrong(
    seed: int, fault_seed: int, wanted: Wanted, noise: float, ahead: int
):
    problem = problem_of(seed, wanted, noise)
    drove = go(problem, wanted, faults_of(fault_seed, problem), seed=seed, ahead=ahead)
    assert drove.violations == []
    gone_wrong = {(row["job"], row["task"]) for row in drove.of("failed")}
    told = fates(drove)
    reported = {(row["job"], row["task"]) for row in drove.of("reported")}
    for job in problem.jobs:
        for task in job.graph.names:
            key = (job.name, task)
            if told[key] == 0:
                assert key in gone_wrong  # it failed for good itself
            assert told[key] <= 1
    for row in drove.of("dropped"):
        because = (row["job"], row["because"])
        assert because in gone_wrong - reported
        assert row["because"] in ancestors(problem, row["job"], row["task"])


@settings(max_examples=30, deadline=None)
@given(SMALL, SMALL, WANTED)
def test_same_faults_give_the_same_history(seed: int, fault_seed: int, wanted: Wanted):
    problem = problem_of(seed, wanted, 0.3)
    faults = faults_of(fault_seed, problem)
    first, second = (go(problem, wanted, faults, seed=seed).rows for _ in range(2))
    assert first == second


@settings(max_examples=40, deadline=None)
@given(SMALL, SMALL, st.sampled_from((Wanted("heft"), Wanted("plan:heft"))), st.integers(1, 3))
def test_what_is_queued_ahead_starts_after_its_parents(
    seed: int, fault_seed: int, wanted: Wanted, ahead: int
):
    problem = problem_of(seed, wanted, 0.3)
    drove = go(problem, wanted, faults_of(fault_seed, problem), seed=seed, ahead=ahead)
    done = set()
    for row in drove.of("reported", "started"):
        if row["event"] == "reported":
            done.add((row["job"], row["task"]))
            continue
        graph = next(job.graph for job in problem.jobs if job.name == row["job"])
        parents = graph.predecessors(graph.index[row["task"]]).tolist()
        assert {(row["job"], graph.names[k]) for k in parents} <= done


def test_most_tasks_of_a_plan_are_queued_ahead():
    rows = [row for seed in range(20) for row in go(drawn(seed), Wanted("heft")).of("submitted")]
    assert mean(row["ahead"] for row in rows) > 0.2
    assert not any(
        row["ahead"] for seed in range(5) for row in go(drawn(seed), STYLES[0], ahead=0).of("submitted")
    )


@settings(max_examples=120, deadline=None)
@given(SMALL, SMALL, WANTED, st.sampled_from((0, 1, 2)))
@example(8686, 9999, Wanted("priced", split="priced:0.5,fifo:0.5"), 0)  # the only device for a result is away
@example(4120, 4120, Wanted("fifo"), 0)  # a task is decided that needs what is being made again for another
@example(
    1210, 6245, Wanted("heft"), 1
)  # what is queued ahead is first when what comes before it has lost its input
def test_results_that_went_down_with_a_device_are_made_again(
    seed: int, fault_seed: int, wanted: Wanted, ahead: int
):
    problem = problem_of(seed, wanted, 0.3)
    faults = faults_of(fault_seed, problem)
    drove = go(problem, wanted, faults, seed=seed, ahead=ahead, engine_class=ForgetfulTasks)
    assert drove.violations == []
    assert all(count == 1 for count in fates(drove).values())
    kept = go(problem, wanted, faults, seed=seed, ahead=ahead)
    if not faults.failures:
        assert fates(drove) == fates(kept)


def two_classes() -> Problem:
    """a on any gpu and c on the cpu before b on the cpu; data takes no time."""
    builder = GraphBuilder("two classes")
    builder.task("a", times={"gpu": 2.0})
    builder.task("c", times={"cpu": 4.0})
    builder.task("b", times={"cpu": 2.0}, after=("a", "c"))
    classes = (DeviceClass("cpu"), DeviceClass("gpu"))
    return Problem([Job(builder.build(), "j")], Cluster.uniform(classes, (1, 2)))


@pytest.mark.parametrize("wanted", [Wanted("fifo"), Wanted("priced")])
@pytest.mark.parametrize("back", ["gpu-0", "gpu-1"])
def test_result_is_made_again_when_a_device_that_can_is_back(wanted: Wanted, back: str):
    ends = {"gpu-0": 20.0, "gpu-1": 20.0, back: 9.0}
    faults = Faults(tuple(Loss(device, 3.0, until) for device, until in ends.items()))
    drove = go(two_classes(), wanted, faults, engine_class=ForgetfulTasks)
    assert drove.violations == []
    ran = [(row["task"], row["device"], row["time"]) for row in drove.of("started") if row["time"] > 3.0]
    assert ran == [("a", back, 9.0), ("b", "cpu-0", 11.0)]


@pytest.mark.parametrize("wanted", [Wanted("fifo"), Wanted("priced")])
def test_why_a_result_is_not_made_again_is_written_down(wanted: Wanted):
    """All that is left needs a result that only devices which are away can make: nothing could be decided."""
    faults = Faults((Loss("gpu-0", 3.0, 40.0), Loss("gpu-1", 3.0, 40.0)))
    drove = go(two_classes(), wanted, faults, engine_class=ForgetfulTasks)
    assert drove.violations == []
    waits = [(row["time"], row["reason"]) for row in drove.of("waited")]
    assert (4.0, "no device is there that can make the result of a again") in waits


@pytest.mark.parametrize("wanted", [Wanted("fifo"), Wanted("priced")])
def test_result_that_no_device_will_ever_make_again_is_an_error(wanted: Wanted):
    faults = Faults((Loss("gpu-0", 3.0), Loss("gpu-1", 3.0)))
    with pytest.raises(InputError, match="nothing will ever start them"):
        go(two_classes(), wanted, faults, engine_class=ForgetfulTasks)


def test_job_that_is_over_waits_for_no_result_that_was_put_off():
    ledger, waiting = Ledger(), Order("j", "b", "cpu-0", 1, 3)
    under_way, put_off = Order("j", "a", "cpu-0", 2, 1), Order("j", "c", "gpu-0", 2, 2)
    for maker in (under_way, put_off, put_off._replace(job="other")):
        ledger.again.add(maker, waiting._replace(job=maker.job))
    ledger.open(under_way, 1.0, is_decided=True)
    ledger.end_job("j")
    assert [maker.key for maker in ledger.again.on(("cpu-0", "gpu-0"))] == [("j", "a", 2), ("other", "c", 2)]


# -- shadows -----------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(SMALL, SMALL, WANTED, st.sampled_from(("fifo", "priced", "plan:heft")))
def test_shadow_is_written_down_and_changes_nothing(seed: int, fault_seed: int, wanted: Wanted, shadow: str):
    problem = problem_of(seed, wanted, 0.3)
    faults = faults_of(fault_seed, problem)
    alone = go(problem, wanted, faults, seed=seed)
    shadowed = go(problem, wanted, faults, seed=seed, shadow=shadow)
    assert [row for row in shadowed.rows if row["event"] != "shadow"] == alone.rows
    names = {(job.name, task) for job in problem.jobs for task in job.graph.names}
    for row in shadowed.of("shadow"):
        assert row["scheduler"] == shadow
        assert {(job, task) for job, task, _ in row["starts"]} <= names


def test_shadow_says_what_it_would_start():
    problem = drawn(4)
    drove = go(problem, Wanted("heft"), shadow="fifo")
    first = drove.of("shadow")[0]
    assert first["time"] == 0.0 and first["starts"]


# -- plans -------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(SMALL, st.sampled_from((Wanted("heft"), Wanted("cpop"), Wanted("heft", is_strict=True))))
def test_plan_without_faults_is_what_happens(seed: int, wanted: Wanted):
    problem = drawn(seed, costs=("equal", "uniform"))
    schedule = catalog.schedule(problem, wanted.scheduler).schedule
    drove = go(problem, wanted)
    planned = {one.task: (one.device, one.start, one.finish) for one in schedule.placements()}
    began = {row["task"]: (row["device"], row["time"]) for row in drove.of("started")}
    ended = {row["task"]: row["time"] for row in drove.of("finished")}
    assert began.keys() == planned.keys()
    for task, (device, start, finish) in planned.items():
        assert began[task] == (device, pytest.approx(start, abs=2e-6))
        assert ended[task] == pytest.approx(finish, abs=2e-6)


# -- speeds ------------------------------------------------------------------------------------------


def layered(seed: int) -> Problem:
    """Forty tasks of one kind in four layers, on three equal devices."""
    builder = GraphBuilder("layers")
    for layer in range(4):
        for k in range(10):
            after = () if layer == 0 else (f"{layer - 1}.{(k + seed) % 10}", f"{layer - 1}.{k}")
            builder.task(f"{layer}.{k}", 4.0 + (seed * 7 + k * 3) % 5, after=dict.fromkeys(after, 0.0))
    return Problem(builder.build(), Cluster.uniform((DeviceClass("cpu"),), (3,), bandwidth=100.0))


@pytest.mark.parametrize("wanted", [Wanted("heft"), Wanted("plan:heft"), Wanted("priced")])
def test_slow_device_is_found_and_the_run_is_faster_for_it(wanted: Wanted):
    slow = Faults(slowdowns=(Slowdown("cpu-1", 15.0, 4.0),))
    with_watch, without = [], []
    for seed in range(8):
        watched = go(layered(seed).replaced(noise=0.1), wanted, slow, seed=seed)
        found = {row["device"]: row["factor"] for row in watched.of("speed")}
        assert found.keys() == {"cpu-1"} and 2.0 < found["cpu-1"] < 6.0
        with_watch.append(watched.drive.now)
        without.append(
            go(layered(seed).replaced(noise=0.1), wanted, slow, seed=seed, watches=False).drive.now
        )
        assert watched.violations == []
    assert mean(with_watch) < mean(without)


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_no_device_is_taken_to_be_slow_without_cause(noise: float):
    rows = [
        row
        for seed in range(8)
        for row in go(layered(seed).replaced(noise=noise), Wanted("heft"), seed=seed).of("speed")
    ]
    assert len(rows) <= 8 * (noise > 0.2)


def test_speed_found_is_kept_when_devices_go_and_come():
    faults = Faults((Loss("cpu-2", 20.0, 40.0),), (Slowdown("cpu-1", 5.0, 4.0),))
    drove = go(layered(3), Wanted("heft"), faults)
    assert drove.violations == []
    assert {row["event"] for row in drove.of("lost", "joined", "speed")} == {"lost", "joined", "speed"}


# -- failures ----------------------------------------------------------------------------------------


def chain(num_jobs: int = 1) -> Problem:
    """a before b before c, and d alone; on two devices."""
    builder = GraphBuilder("chain")
    for name in "abcd":
        builder.task(name, 2.0)
    builder.edge("a", "b")
    builder.edge("b", "c")
    graph = builder.build()
    jobs = [Job(graph, f"j{k}") for k in range(num_jobs)]
    return Problem(jobs, Cluster.uniform((DeviceClass("cpu"),), (2,)))


@pytest.mark.parametrize("wanted", STYLES[:6])
def test_what_fails_for_good_takes_what_needs_it_and_nothing_else(wanted: Wanted):
    faults = Faults(failures=tuple(Failure("j0", "b", attempt) for attempt in range(1, 9)))
    drove = go(chain(), wanted, faults)
    assert drove.violations == []
    assert {row["task"] for row in drove.of("reported")} == {"a", "d"}
    assert [(row["task"], row["because"]) for row in drove.of("dropped")] == [("c", "b")]
    assert sum(row["task"] == "b" for row in drove.of("failed")) == 3
    assert [(row["outcome"], row["reason"]) for row in drove.of("ended")] == [
        ("failed", drove.rows[-1]["reason"])
    ]
    assert drove.rows[-1]["ok"] is False


@pytest.mark.parametrize("wanted", STYLES)
def test_what_fails_once_is_tried_again(wanted: Wanted):
    drove = go(chain(2), wanted if wanted.split else replace(wanted), Faults(failures=(Failure("j1", "a"),)))
    assert drove.violations == []
    assert len(drove.of("reported")) == 8 and drove.rows[-1]["ok"]
    assert [row["attempt"] for row in drove.of("started") if (row["job"], row["task"]) == ("j1", "a")] == [
        1,
        2,
    ]


@pytest.mark.parametrize("wanted", STYLES)
def test_nothing_waits_for_a_device_that_never_comes_back(wanted: Wanted):
    drove = go(chain(3), wanted, Faults((Loss("cpu-0", 1.0),)))
    assert drove.violations == []
    assert len(drove.of("reported")) == 12
    assert all(row["device"] == "cpu-1" for row in drove.of("finished"))


def test_run_that_has_no_faults_is_closed_well():
    drove = go(chain(), Wanted("heft"), NO_FAULTS)
    assert (drove.rows[-1]["event"], drove.rows[-1]["ok"], drove.rows[-1]["reason"]) == ("closed", True, "")
