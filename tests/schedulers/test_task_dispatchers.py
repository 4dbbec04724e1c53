"""Dispatchers of the task view: names, orders, what they refuse, that what they do is valid."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import catalog
from weft.errors import InfeasibleError, InputError, UnsupportedError
from weft.evaluation.sweep.plan_runs import realised_problem
from weft.execute.virtual_runs import drive_tasks
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.prices import class_prices, priced_work
from weft.model.problem import Job, Problem, expected, realise
from weft.model.schedule import ABORTED, Schedule
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.schedulers.dispatchers.outages import Outage
from weft.schedulers.dispatchers.queues import Dispatcher
from weft.schedulers.dispatchers.replanning import PlanDispatcher
from weft.schedulers.dispatchers.tasks import by_draw, run_one
from weft.schedulers.planners.lists import Heft
from weft.session import Session
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state
from weft.sim.tasks.rules import run_tasks
from weft.sim.tasks.weights import AT_RATIO, about

PLAIN = [name for name, entry in catalog.DISPATCHERS.items() if catalog.TASKS.name in entry.acts_on]
NAMES = [*PLAIN, "plan:heft", "plan:deft", "plan:min-min", "es"]
FEW = settings(max_examples=10, deadline=None, derandomize=True)
CPU = DeviceClass("cpu")


def stream(seed: int, *, noise: float = 0.3, jobs: int = 6) -> Problem:
    return scenario("workflows", load=0.9, jobs=jobs, tasks=12, noise=noise).dispatched("test", 0, seed)


def run(name: str, problem: Problem, seed: int = 0) -> Schedule:
    return run_one(catalog.task_dispatcher(name), problem, realise(problem, seed), seed)


def two_jobs() -> Problem:
    """A long job first, then a short one, on one device."""
    jobs = [Job(TaskGraph([10.0, 10.0]), "long"), Job(TaskGraph([1.0]), "short", release=1.0, deadline=5.0)]
    return Problem(jobs, Cluster.uniform((CPU,), (1,)))


@pytest.mark.parametrize("name", NAMES)
def test_dispatcher_gives_valid_schedules(name: str):
    @FEW
    @given(st.integers(0, 1000))
    def check(seed: int) -> None:
        assert not validate(run(name, stream(seed), seed))

    check()


@pytest.mark.parametrize("name", NAMES)
def test_dispatcher_repeats_itself(name: str):
    first, second = run(name, stream(3), 3), run(name, stream(3), 3)
    assert first.start.tobytes() == second.start.tobytes()
    assert catalog.task_dispatcher(name).name == name


@pytest.mark.parametrize("name", ["fifo", "srw", "priced"])
def test_batch_equals_one_problem_after_the_other(name: str):
    problems = [stream(seed, jobs=2 + seed) for seed in range(3)]
    worlds = [realise(problem, 1) for problem in problems]
    together = catalog.task_dispatcher(name).run_all(problems, worlds, [1, 1, 1])
    alone = [run(name, problem, 1) for problem in problems]
    assert [one.start.tobytes() for one in together] == [one.start.tobytes() for one in alone]


@pytest.mark.parametrize(
    ("name", "finish"), [("fifo", 21.0), ("edf", 11.0), ("shortest-first", 11.0), ("srw", 11.0)]
)
def test_order_decides_who_goes_first(name: str, finish: float):
    found = run(name, two_jobs())
    assert found.first_finish[2] == finish


def test_random_order_is_a_function_of_the_seed():
    problem = stream(0)
    assert (by_draw(problem, 1) == by_draw(problem, 1)).all()
    assert (by_draw(problem, 1) != by_draw(problem, 2)).any()


def test_rank_ratio_is_one_at_the_longest_path_of_every_job():
    problem = stream(0)
    ratio = about(problem)[:, AT_RATIO]
    most = [ratio[problem.offsets[j] : problem.offsets[j + 1]].max() for j in range(len(problem.jobs))]
    assert most == [1.0] * len(problem.jobs)


def test_eft_waits_for_a_faster_device():
    classes = (DeviceClass("slow", 0.1), DeviceClass("fast", 1.0))
    problem = Problem(TaskGraph([2.0, 2.0]), Cluster.uniform(classes, (1, 1)))
    assert run("fifo", problem).makespan == 20.0
    assert run("eft", problem).makespan == 4.0


def test_late_start_lets_others_fill_the_gap():
    builder = GraphBuilder("gap")
    builder.task("a", 1.0)
    builder.task("b", 1.0, after={"a": 5.0})
    builder.task("c", 1.0, after={"a": 5.0})
    builder.task("d", 4.0)
    problem = Problem(builder.build(), Cluster.uniform((CPU,), (2,), bandwidth=1.0))
    assert not validate(run("priced", problem))


# -- prices -------------------------------------------------------------------------------------------


def test_equal_classes_have_equal_prices():
    problem = Problem(TaskGraph([1.0, 2.0]), Cluster.uniform((CPU, DeviceClass("other")), (2, 2)))
    assert class_prices(problem) == pytest.approx([1.0, 1.0], rel=0.02)


def test_faster_class_is_dearer_by_its_speed():
    problem = Problem(TaskGraph([1.0] * 8), Cluster.uniform((CPU, DeviceClass("fast", 3.0)), (1, 1)))
    slow, fast = class_prices(problem)
    assert fast / slow == pytest.approx(3.0, rel=0.1)
    assert (slow + fast) / 2 == pytest.approx(1.0)


def test_priced_work_bounds_the_makespan():
    """Fluid capacity: no schedule is shorter than the priced work over the devices."""
    for seed in range(5):
        problem = scenario("workflows", tasks=40).problem("test", seed)
        work = priced_work(problem, class_prices(problem)).sum() / problem.cluster.num_devices
        assert Heft().plan(problem).makespan >= work * (1 - 1e-9)


# -- slots ----------------------------------------------------------------------------------------------


WAITING = [name for name in ("eft", "heft", "srw", "priced") if name in PLAIN]


@pytest.mark.parametrize("name", WAITING)
def test_all_slots_of_a_device_are_filled_at_once(name: str):
    """A device counts for as many ready tasks as it has slots."""
    wide = Cluster.uniform((DeviceClass("wide", slots=16),), (1,))
    found = run(name, Problem(TaskGraph([1.0] * 16), wide))
    assert found.makespan == 1.0


@pytest.mark.parametrize("name", WAITING)
def test_slots_fill_up_virtually(name: str):
    """Two fast slots are not waited for by everybody while slow ones are idle."""
    classes = (DeviceClass("fast", 4.0, slots=2), DeviceClass("slow", slots=8))
    found = run(name, Problem([Job(TaskGraph([4.0])) for _ in range(20)], Cluster.uniform(classes, (1, 1))))
    assert not validate(found)
    assert found.makespan <= 6.0  # all on the fast ones: 10


@pytest.mark.parametrize("name", WAITING)
def test_task_that_waits_for_its_data_blocks_no_other_slot(name: str):
    """What waits for data keeps one slot of two; the other takes what is there."""
    classes = tuple(DeviceClass(name, slots=2) for name in ("left", "right"))
    names, inf = ("left", "right"), float("inf")
    data = TaskGraph([np.nan] * 2, [0], [1], 5.0, classes=names, times=[[1.0, inf], [inf, 1.0]])
    plain = TaskGraph([np.nan], classes=names, times=[[inf, 20.0]])
    jobs = [Job(data, "data"), Job(plain, "plain", release=1.0)]
    found = run(name, Problem(jobs, Cluster.uniform(classes, (1, 1), bandwidth=1.0)))
    assert not validate(found)
    assert found.makespan == 21.0


@pytest.mark.parametrize("name", WAITING)
def test_devices_with_slots_are_simulated_validly(name: str):
    classes = (DeviceClass("fast", 3.0, slots=2), DeviceClass("slow", slots=6))
    cluster = Cluster.uniform(classes, (2, 1), bandwidth=1e9)
    for seed in range(4):
        problem = stream(seed)
        jobs = [
            replace(job, graph=job.graph.replaced(slots=1 + np.arange(job.graph.num_tasks) % 2))
            for job in problem.jobs
        ]
        assert not validate(run(name, problem.replaced(cluster=cluster, jobs=tuple(jobs)), seed))


# -- outages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*PLAIN, "plan:heft", "plan:deft"])
def test_outage_moves_work_to_other_devices(name: str):
    problem = stream(1)
    world = realise(problem, 1)
    plain = run_one(catalog.task_dispatcher(name), problem, world)
    row = int(np.argmax(plain.finish - plain.start))
    device, when = int(plain.device[row]), float((plain.start[row] + plain.finish[row]) / 2)
    outage = Outage(device, when, when + plain.makespan / 4)
    found = run_one(catalog.task_dispatcher(name), problem, world, outages=[outage])
    assert not validate(found)
    own = found.device == device
    assert ((found.finish[own] <= when) | (found.start[own] >= outage.until)).all()
    assert (found.outcome == ABORTED).any()


def test_outage_that_ends_never_and_leaves_no_device_is_infeasible():
    problem = Problem(TaskGraph([4.0]), Cluster.uniform((DeviceClass("cpu"),), (1,)))
    with pytest.raises(InfeasibleError, match="no device is left for some task"):
        run_one(catalog.task_dispatcher("fifo"), problem, expected(problem), outages=[Outage(0, 1.0)])


def test_outage_restarts_what_it_cut_short():
    problem = Problem(TaskGraph([4.0]), Cluster.uniform((DeviceClass("cpu"),), (1,)))
    found = run_one(
        catalog.task_dispatcher("fifo"), problem, expected(problem), outages=[Outage(0, 1.0, 3.0)]
    )
    assert found.start.tolist() == [0.0, 3.0] and found.finish.tolist() == [1.0, 7.0]


@pytest.mark.parametrize(
    ("outages", "message"),
    [
        ([Outage(9, 1.0)], "expected a device below"),
        ([Outage(0, 2.0, 1.0)], "expected 0 <= start < until"),
        ([Outage(0, 1.0, 3.0), Outage(0, 2.0)], "expected one outage of device 0 at a time"),
    ],
)
def test_outages_that_make_no_sense_are_refused(outages: list[Outage], message: str):
    problem = Problem(TaskGraph([4.0]), Cluster.uniform((DeviceClass("cpu"),), (1,)))
    with pytest.raises(InputError, match=message):
        run_one(catalog.task_dispatcher("fifo"), problem, expected(problem), outages=outages)


def test_plan_that_cannot_be_made_again_refuses_outages():
    problem = stream(0)
    with pytest.raises(UnsupportedError, match="cannot plan around what runs"):
        run_one(
            catalog.task_dispatcher("plan:min-min"), problem, realise(problem, 0), outages=[Outage(0, 1.0)]
        )


# -- names and refusals -------------------------------------------------------------------------------


def test_problem_decides_the_view():
    repeated = scenario("conditional", jobs=5).problem("test", 0)
    assert isinstance(catalog.scheduler_for("fifo", repeated), Dispatcher)
    chosen = catalog.scheduler_for("fifo", stream(0))
    assert not isinstance(chosen, Dispatcher) and chosen.name == "fifo"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fifi", "no dispatcher 'fifi'; did you mean 'fifo'?"),
        ("ledf-gpu", "no dispatcher 'ledf-gpu'; did you mean 'ledf-gpu-first'?"),
        ("plan:hefd", "no planner 'hefd'; did you mean 'heft'?"),
    ],
)
def test_task_dispatcher_refuses_a_wrong_name(name: str, message: str):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        catalog.task_dispatcher(name)


@pytest.mark.parametrize("name", ["priced", "plan:heft"])
def test_queue_dispatcher_of_a_task_name_says_where_it_acts(name: str):
    with pytest.raises(InputError, match=f"{name} acts on single tasks .*, not on queues by kind"):
        catalog.dispatcher(name)


@pytest.mark.parametrize("name", ["mru", "fifo+wait"])
def test_task_dispatcher_of_a_queue_name_says_where_it_acts(name: str):
    with pytest.raises(InputError, match=f"{re.escape(name)} acts on queues by kind .*, not on single tasks"):
        catalog.task_dispatcher(name)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Problem(TaskGraph([1.0]), Cluster.uniform((DeviceClass("gpu", batch=2),), (1,))), "takes batches"),
        (Problem(Job(TaskGraph([1.0]), period=2.0), Cluster.uniform((CPU,), (1,))), "is periodic"),
        (
            Problem(TaskGraph([1.0], curves=[[1.0, 2.0]], curve=[0]), Cluster.uniform((CPU,), (1,))),
            "has elastic tasks",
        ),
        (
            Problem(TaskGraph([1.0]), Cluster.uniform((CPU,), (1,)).replaced(one_port=True)),
            "one transfer at a time",
        ),
    ],
)
def test_dispatcher_refuses_what_the_task_view_cannot_run(problem: Problem, message: str):
    with pytest.raises(UnsupportedError, match=message):
        run_one(catalog.task_dispatcher("fifo"), problem, expected(problem))


# -- planners as dispatchers --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plan:heft", "heft-job", "plan:tdca", "plan:spt"])
def test_planned_dispatch_of_one_job_without_noise_is_no_later_than_the_plan(name: str):
    problem = scenario("workflows", tasks=20).problem("test", 0)
    planner = name.removeprefix("plan:") if name.startswith("plan:") else "heft"
    plan = catalog.schedule(problem, planner).schedule
    assert run(name, problem).makespan <= plan.makespan * (1 + 1e-12)


def test_heft_job_of_one_job_is_heft():
    problem = scenario("workflows", tasks=20).problem("test", 0)
    plan = catalog.schedule(problem, "heft").schedule
    assert run("heft-job", problem).start.tobytes() == plan.start.tobytes()


def test_drift_makes_a_plan_change():
    problem = stream(1, noise=0.6, jobs=8)
    world = realise(problem, 1)
    stays = run_one(PlanDispatcher("stays", Heft(), float("inf")), problem, world)
    changes = run_one(PlanDispatcher("changes", Heft(), 0.01), problem, world)
    assert stays.device.tolist() != changes.device.tolist()
    assert not validate(changes)


def test_plan_made_again_at_every_event_needs_no_lateness():
    problem = stream(1, noise=0.6, jobs=3)
    world = realise(problem, 1)
    found = [
        run_one(catalog.task_dispatcher(name), problem, world) for name in ("plan:heft", "plan:heft+again")
    ]
    assert found[0].device.tolist() != found[1].device.tolist()
    assert not validate(found[1])


def test_plan_made_again_at_every_event_sees_what_happened_alone():
    """A task that has not started changes nothing before: a longer one at the end gives the same start of it all."""
    problem = scenario("workflows", tasks=20, noise=0.6).problem("test", 0)
    world = realise(problem, 1)
    first = run_one(catalog.task_dispatcher("plan:deft+again"), problem, world)
    last = int(first.task[np.argmax(first.start)])
    times = world.run_times.copy()
    times[last] *= 3.0
    other = run_one(catalog.task_dispatcher("plan:deft+again"), problem, replace(world, run_times=times))
    assert sorted(first.start.tolist()) == sorted(other.start.tolist())


def test_plan_made_again_at_every_event_needs_a_planner_that_joins():
    problem = scenario("workflows", tasks=8).problem("test", 0)
    with pytest.raises(UnsupportedError, match="cannot plan around what runs, so not again at every event"):
        run("plan:tdca+again", problem)


def test_plan_dispatcher_refuses_no_drift():
    with pytest.raises(InputError, match=r"expected a share > 0, got 0\.0"):
        PlanDispatcher("plan", Heft(), 0.0)


def test_prices_are_ones_for_one_class():
    assert class_prices(two_jobs()).tolist() == [1.0]
    assert np.isfinite(priced_work(two_jobs(), np.ones(1))).all()


# -- run times that are learnt -----------------------------------------------------------------------------


def wrong_stream(seed: int, **settings: object) -> Problem:
    chosen = scenario("workflows", **{"load": 0.8, "jobs": 30, "tasks": 15, "bias": 0.5, **settings})
    return chosen.dispatched("test", 0, seed)


def test_profile_learns_the_moving_mean_of_logarithms_per_kind_and_class():
    problem = wrong_stream(0, noise=0.2)
    world = realise(problem, 5)
    w = compile_tasks([problem])
    f, s = facts_of([world], w), new_task_state(w)
    s.learns[:] = True
    run_tasks(catalog.task_dispatcher("srw").prepare([problem], s, [0]), w, f, s)
    rows = np.argsort(s.row_finish[: s.num_rows[0]], kind="stable")
    mean, count = np.zeros_like(s.ratio), np.zeros_like(s.seen)
    for row in rows.tolist():
        i, c = s.row_task[row], problem.cluster.device_class[s.row_device[row]]
        cell = problem.kind_of[i], c
        took = np.log(world.run_times[i, c] / problem.run_times[i, c]) + np.log1p(0.2**2) / 2
        count[cell] += 1
        mean[cell] += max(1 / (count[cell] + 1), 0.05) * (took - mean[cell])
    np.testing.assert_array_equal(s.seen, count)
    np.testing.assert_allclose(s.ratio, mean, atol=1e-9)
    np.testing.assert_allclose(s.factor, np.exp(mean), atol=1e-9)


def test_without_a_profile_factors_stay_as_stated():
    problem = wrong_stream(0)
    w = compile_tasks([problem])
    f, s = facts_of([realise(problem, 5)], w), new_task_state(w)
    run_tasks(catalog.task_dispatcher("srw").prepare([problem], s, [0]), w, f, s)
    assert (s.factor == 1.0).all() and (s.ratio != 0.0).any()


@pytest.mark.parametrize("name", ["srw", "priced"])
def test_profile_recovers_most_of_what_exact_knowledge_gives(name: str):
    wrongly, learnt, exact = [], [], []
    for seed in range(4):
        problem = wrong_stream(seed)
        world = realise(problem, seed)
        wrongly.append(run(name, problem, seed).mean_jct)
        learnt.append(run(f"{name}+profile", problem, seed).mean_jct)
        known = realised_problem(problem, world)
        exact.append(run_one(catalog.task_dispatcher(name), known, expected(known)).mean_jct)
    assert np.mean(wrongly) - np.mean(learnt) > 0.6 * (np.mean(wrongly) - np.mean(exact)) > 0


@pytest.mark.parametrize("name", ["priced+profile", "eft+profile", "es+profile"])
def test_profile_decides_the_same_in_a_session(name: str):
    problem = wrong_stream(1, jobs=6)
    world = realise(problem, 1)
    inside = run_one(catalog.task_dispatcher(name), problem, world)
    for tells_graphs in (False, True):
        chosen = Session(problem.cluster if tells_graphs else problem, name)
        driven = drive_tasks(chosen, problem, world, tells_graphs=tells_graphs)
        np.testing.assert_array_equal(driven.start, inside.start)
        np.testing.assert_array_equal(driven.device, inside.device)


def test_profile_of_a_session_is_in_its_snapshot():
    problem = wrong_stream(2, jobs=3)
    one = Session(problem, "eft+profile")
    one.arrived(0, 0.0)
    starts = [(start.job, start.task, start.device) for start in one.decide(0.0).starts]
    for job, task, device in starts:
        one.started(job, task, device, 0.0)
    for job, task, device in starts:
        one.finished(job, task, device, 5.0)
    other = Session.restore(problem, one.snapshot())
    assert one.decide(5.0) == other.decide(5.0)
    for session in (one, other):
        session.arrived(1, 6.0)
    assert one.decide(6.0) == other.decide(6.0)


@pytest.mark.parametrize("name", ["heft-job+profile", "batch-fifo+profile", "plan:heft+profile"])
def test_profile_of_what_cannot_learn_is_refused(name: str):
    with pytest.raises(InputError):
        catalog.task_dispatcher(name)


# -- memory and deadlines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fifo", "srw", "priced", "edf", "plan:heft"])
def test_memory_of_slots_and_large_tasks_is_honoured(name: str):
    problem = wrong_stream(3, jobs=5, memory=0.5, deadline=3.0, noise=0.2)
    classes = tuple(replace(c, slots=4) for c in problem.cluster.classes)
    problem = problem.replaced(cluster=problem.cluster.replaced(classes=classes))
    found = run(name, problem)
    assert not validate(found)
    memory = np.concatenate([job.graph.memory for job in problem.jobs])
    limit = problem.cluster.class_column("memory")
    large = memory > limit.min()
    assert 0 < large.sum() < len(large)
    assert (limit[problem.cluster.device_class[found.device]] >= memory[found.task]).all()
