"""Problems with elastic tasks as elastic problems, and the way back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft import catalog
from weft.errors import InputError, UnsupportedError
from weft.kinds import ELASTIC
from weft.model.bookings import Booking
from weft.model.cluster import Cluster, DeviceClass
from weft.model.elastic_oracle import first_fault
from weft.model.elastic_schedule import schedule_of
from weft.model.elastic_tasks import elastic_problem
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem
from weft.model.validate import validate
from weft.schedulers.allocators.running import run_all

NAMES = ("cpu", "gpu")
TABLE = [[0.0, 0.0, 0.0], [0.0, 1.0, 1.5], [0.0, 1.25, 2.0]]


def graph_of(work: float = 8.0, **fields: object) -> TaskGraph:
    given = {"curves": [TABLE], "curve": [0], "resources": NAMES, "demands": [[1.0, 1.0]]} | fields
    return TaskGraph([work], **given)


def cluster_of(slots: int = 100, **fields: object) -> Cluster:
    given: dict[str, object] = {"slots": slots, "capacity": {"cpu": 4.0, "gpu": 2.0}} | fields
    return Cluster.uniform([DeviceClass("edge", **given)], [2])


def problem_of(**fields: object) -> Problem:
    return Problem([Job(graph_of(**fields))], cluster_of())


def drawn_problem(seed: int, has_rigid: bool, has_jitter: bool = True) -> Problem:
    """Jobs of one to three tasks with drawn tables, courses, slots and memory on three unequal devices."""
    rng = np.random.default_rng(seed)
    tables = np.zeros((3, 5, 4))
    tables[:, 1:, 1:] = rng.choice([0.5, 0.8, 1.0, 1.7, 2.5], (3, 4, 3))
    tables[2, 1] = 0.0  # the third needs two CPUs
    courses, jobs = rng.choice([0.5, 1.0, 2.0], (3, 4)), []
    jitter = [0.0, 0.4, 1.2] if has_jitter else 0.0
    for j in range(10):
        n = int(rng.integers(1, 4))
        curve = rng.integers(-1 if has_rigid else 0, 3, n)
        graph = TaskGraph(
            rng.integers(1, 9, n).astype(float), curves=tables, curve=curve, courses=courses, switching=[0.25, 0.375, 0.0], jitter=jitter,
            resources=NAMES, demands=np.stack([rng.integers(1, 3, n), np.ones(n)], axis=1),
            slots=rng.integers(1, 3, n), memory=rng.integers(0, 3, n) * 2e9,
        )  # fmt: skip
        eligible = None if j % 3 else ("big", "small")
        jobs.append(Job(graph, f"j{j}", 0.5 * float(rng.integers(0, 12)), eligible=eligible))
    classes = [
        DeviceClass("big", slots=4, memory=8e9, capacity={"cpu": 6.0, "gpu": 4.0}),
        DeviceClass("small", slots=2, capacity={"cpu": 3.0, "gpu": 2.5}),
        DeviceClass("other", slots=3, memory=6e9, capacity={"cpu": 4.0, "gpu": 3.0}),
    ]
    return Problem(jobs, Cluster.uniform(classes, [1, 1, 1]))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "name", ["random", "min", "static-3", "shortest-first", "drf", "tiresias", "optimus"]
)
def test_what_allocators_do_is_a_valid_schedule_of_the_problem(name: str, seed: int):
    # optimus fits a speed per type and step where speeds vary: see the next test
    problem = drawn_problem(seed, has_rigid=name != "tiresias", has_jitter=name != "optimus")
    for run in run_all(catalog.find(name, ELASTIC), elastic_problem(problem, 0.5), [seed, 9]):
        assert first_fault(run) is None
        found = schedule_of(problem, run, 0.5)
        assert list(validate(found)) == []
        assert len(np.unique(found.task)) == problem.num_tasks


def test_curves_become_types_and_releases_arrivals():
    late = Job(graph_of(), "late", 3.0, eligible=("edge-1",))
    problem = Problem([late, Job(graph_of(4.0)), Job(graph_of(), "again")], cluster_of())
    found = elastic_problem(problem)
    assert found.resources == NAMES and found.cluster_names == ("edge-0", "edge-1")
    assert found.arrivals.tolist() == [[0, 1, 3], [0, 0, 3], [3, 0, 2]]
    assert [kind.name for kind in found.types] == ["task", "task-2"]
    assert found.types[0].least == (1, 1) and found.types[0].most == (2, 2)
    assert found.types[0].gain((2, 2)) == pytest.approx(2.0 / 8.0)
    assert [found.types[t].steps((1, 1)) for t in (0, 1)] == [8, 4]


def test_rounding_never_costs_a_task_a_step():
    for work in range(1, 200):
        kind = elastic_problem(problem_of(work=float(work))).types[0]
        assert kind.steps((1, 1)) == work


def test_a_course_makes_a_task_longer_and_a_change_costs_a_share_of_a_step():
    found = elastic_problem(problem_of(courses=[[2.0, 0.5]], switching=[0.5]), 2.0)
    assert found.types[0].steps((1, 1)) == 5  # 8 x (1/2 + 2) / 2 = 10
    assert found.types[0].switching == 0.75


def test_each_curve_has_its_own_jitter_and_cost_of_a_change():
    graph = TaskGraph(
        [8.0, 4.0], curves=[TABLE, TABLE], curve=[0, 1], resources=NAMES, demands=[[1.0, 1.0]] * 2,
        switching=[0.5, 0.0], jitter=[0.0, 0.8],
    )  # fmt: skip
    found = elastic_problem(Problem([Job(graph)], cluster_of()), 2.0)
    assert found.switching == 1.0 and [kind.switching for kind in found.types] == [0.75, 1.0]
    assert [kind.noise for kind in found.types] == [0.0, pytest.approx(0.4)]


@pytest.mark.parametrize("name", ["min", "optimus"])
def test_the_validator_draws_the_jitter_of_an_episode_again(name: str):
    problem = Problem([Job(graph_of(20.0, jitter=[0.9]), f"j{j}") for j in range(4)], cluster_of())
    (run,) = run_all(catalog.find(name, ELASTIC), elastic_problem(problem), [3])
    found = schedule_of(problem, run)
    assert len(set(run.completion.tolist())) > 1
    assert list(validate(found)) == []
    assert {fault.rule for fault in validate(replace(found, realisation=None))} == {"duration"}
    moved = replace(found.realisation.jitter, key=found.realisation.jitter.key + 1)
    other = replace(found, realisation=replace(found.realisation, jitter=moved))
    assert {fault.rule for fault in validate(other)} == {"duration"}


def test_tasks_without_a_curve_have_what_they_demand():
    found = elastic_problem(Problem([Job(graph_of()), Job(graph_of(curve=[-1]), "rigid")], cluster_of()))
    assert found.types[1].least == found.types[1].most == (1, 1)
    assert found.types[1].steps((1, 1)) == 8


def test_one_resource_has_a_curve_without_a_table():
    graph = TaskGraph([6.0], curves=[[1.0, 1.5, 3.0]], curve=[0], resources=("gpu",))
    found = elastic_problem(Problem([Job(graph)], cluster_of()))
    assert found.types[0].least == (1,) and [found.types[0].steps((u,)) for u in (1, 2, 3)] == [6, 4, 2]


def test_slots_and_memory_count_where_they_limit():
    graph = graph_of(memory=[5e9], slots=[2])
    found = elastic_problem(Problem([Job(graph, f"j{j}") for j in range(4)], cluster_of(3, memory=8e9)))
    assert found.resources == ("slots", "memory", *NAMES)
    assert found.capacity.tolist() == [[3, 1, 4, 2]] * 2
    assert found.types[0].least == (2, 1, 1, 1)


def test_allocators_of_others_do_not_see_what_will_arrive():
    seen = []

    class Curious:
        name = "curious"

        def supports(self, problem):
            seen.append(len(problem.arrivals))
            return "no"

    curious = catalog.find(type("Begun", (Curious,), {"begin": lambda self, problem, seeds: None})(), ELASTIC)
    with pytest.raises(UnsupportedError):
        run_all(curious, elastic_problem(problem_of()), [0])
    assert seen == [0]


def test_allocators_of_others_act_where_devices_differ_in_what_they_have():
    class Waits:
        name = "waits"

        def begin(self, problem, seeds):
            assert problem.links == "told"
            with pytest.raises(
                InputError, match="links: expected arrivals: tasks say which clusters they may use"
            ):
                run_all(catalog.find("min", ELASTIC), problem, [0])
            raise UnsupportedError("waits")

    classes = [
        DeviceClass("cpus", capacity={"cpu": 4.0, "gpu": 0.0}),
        DeviceClass("both", capacity={"cpu": 4.0, "gpu": 2.0}),
    ]
    posed = elastic_problem(Problem([Job(graph_of())], Cluster.uniform(classes, [1, 1])))
    with pytest.raises(UnsupportedError, match="waits"):
        run_all(catalog.find(Waits(), ELASTIC), posed, [0])


def test_static_k_has_nothing_to_be_tuned_on():
    with pytest.raises(UnsupportedError, match="static-k: it is tuned on other episodes, and the arrivals"):
        run_all(catalog.find("static-k", ELASTIC), elastic_problem(problem_of()), [0])


def test_tiresias_refuses_tasks_that_it_could_only_stop():
    problem = Problem([Job(graph_of()), Job(graph_of(curve=[-1]), "rigid")], cluster_of())
    with pytest.raises(
        UnsupportedError, match="takes units away from tasks that run, and task-2 cannot wait"
    ):
        run_all(catalog.find("tiresias", ELASTIC), elastic_problem(problem), [0])
    no_gpu = Problem([Job(graph_of(curve=[-1], demands=[[1.0, 0.0]]))], cluster_of())
    with pytest.raises(UnsupportedError, match="it serves tasks by their gpu, and task may have none"):
        run_all(catalog.find("tiresias", ELASTIC), elastic_problem(no_gpu), [0])


ONE = Job(graph_of())
HOLES = [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 2.0]]
SUMMED = TaskGraph([1.0], curves=[[1.0, 2.0]], curve=[0], resources=NAMES)
TWO = TaskGraph([1.0, 1.0], [0], [1], curves=[[1.0, 2.0]], curve=[0, -1], resources=("gpu",))
OTHER = [DeviceClass("edge", capacity={"cpu": 4.0, "gpu": 2.0}), DeviceClass("fast", speed=2.0, capacity={"cpu": 4.0, "gpu": 2.0})]  # fmt: skip
REFUSED = {
    "edges": (Problem([Job(TWO)], cluster_of()), "job 'job' has edges: allocators place tasks that wait for no other"),
    "noise": (Problem([ONE], cluster_of(), noise=0.1), "run times vary, and allocators act on stated ones"),
    "period": (Problem([replace(ONE, period=3.0)], cluster_of()), "is periodic: unroll it over a horizon first"),
    "booking": (Problem([replace(ONE, booking=Booking(("edge",)))], cluster_of()), "books devices"),
    "order": (Problem([replace(ONE, in_order=True)], cluster_of()), "waits for the instance before it or is dropped"),
    "summed": (Problem([Job(SUMMED)], cluster_of()), "curves over the sum of cpu and gpu: expected tables"),
    "unnamed": (Problem([Job(TaskGraph([1.0], curves=[[1.0, 2.0]], curve=[0]))], cluster_of()), "names no resource"),
    "mixed": (Problem([ONE, Job(TaskGraph([1.0]), "plain")], cluster_of()), "names the resources"),
    "holes": (problem_of(curves=[HOLES]), r"curves\[0\]: is 0 with 1x1 units"),
    "demands": (problem_of(demands=[[3.0, 1.0]]), "demands 3x1 units, and its curve ends at 2x2"),
    "parts": (problem_of(curve=[-1], demands=[[1.5, 1.0]]), "expected whole units, got 1.5, 1"),
    "speeds": (Problem([ONE], Cluster.uniform(OTHER, [1, 1])), "takes 4 on one device and 8 on another"),
    "overhead": (Problem([ONE], cluster_of(overhead=0.5)), "class edge: has an overhead of 0.5 s"),
    "unlimited": (Problem([ONE], cluster_of(capacity={"cpu": 2.0})), "class edge: has no capacity of gpu"),
    "room": (Problem([Job(graph_of(demands=None))], cluster_of(capacity={"cpu": 2.0, "gpu": 0.5})), "needs 1x1 units, and no"),
    "release": (Problem([replace(ONE, release=0.4)], cluster_of()), r"expected a whole number of world steps of 1 s, got 0.4 \(--set step=\)"),
    "switching": (problem_of(switching=[1.5]), r"a change of units costs 1.5, more than a world step of 1 \(--set step=\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_allocators_cannot_act_on_is_refused_with_the_reason(name: str):
    problem, said = REFUSED[name]
    with pytest.raises(UnsupportedError, match=said):
        elastic_problem(problem)


def test_a_step_has_a_length():
    with pytest.raises(InputError, match="step: expected a time > 0, got 0"):
        elastic_problem(problem_of(), 0.0)
