"""Dispatchers: names, what they know of graph and cluster, what they refuse, that they finish."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import catalog
from weft.errors import InputError, UnsupportedError
from weft.evaluation.sweep.queue_runs import Outcome, fault_of, run_rule
from weft.model.arrivals import Arrivals
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Job, Problem
from weft.schedulers.dispatchers import queues as dispatch
from weft.sim.queues.environment import Setup
from weft.sim.queues.layout import Rules, compile_stream
from weft.sim.queues.rules import write_ranks

PLAIN = [name for name, entry in catalog.DISPATCHERS.items() if catalog.QUEUES.name in entry.acts_on]
WAITING = [name for name in PLAIN if not catalog.dispatcher(name).waits]
NAMES = [*PLAIN, *(f"{name}+wait" for name in WAITING)]
CPU, GPU = DeviceClass("cpu", speed=2.0), DeviceClass("gpu", batch=4)


def walk(p: float = 0.25) -> TaskGraph:
    """A, then B (light) or C (heavy)."""
    builder = GraphBuilder("walk")
    builder.task("A", 10.0, kind="a")
    builder.task("B", 10.0, kind="b")
    builder.task("C", 100.0, kind="c")
    builder.edge("A", "B", probability=p, branch=0)
    builder.edge("A", "C", probability=1.0 - p, branch=0)
    return builder.build()


def diamond() -> TaskGraph:
    builder = GraphBuilder("diamond")
    builder.task("top", 1.0, kind="top")
    builder.task("left", 2.0, kind="left", after=["top"])
    builder.task("right", 4.0, kind="right", after=["top"])
    builder.task("bottom", 8.0, kind="bottom", after=["left", "right"])
    return builder.build()


def mixed(graph: TaskGraph | None = None) -> Problem:
    return Problem(graph or walk(), Cluster.uniform((CPU, GPU), (1, 2)))


def streamed(problem: Problem, jobs: int = 60, gap: float = 12.0) -> Setup:
    return Setup(problem, Arrivals("poisson", jobs, gap), Rules(idle_block=5.0))


def run(name: str, setup: Setup, seeds: tuple[int, ...] = (1, 2)) -> Outcome:
    return run_rule(catalog.dispatcher(name), setup, seeds)


# -- names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_dispatcher_carries_its_name(name: str):
    assert catalog.dispatcher(name).name == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fifi", "no dispatcher 'fifi'; did you mean 'fifo'?"),
        ("fifo+waits", "no dispatcher 'fifo+waits'; did you mean 'fifo'?"),
        ("eft+wait", "eft waits for the next event anyway"),
    ],
)
def test_dispatcher_refuses_a_wrong_name(name: str, message: str):
    with pytest.raises(InputError, match=message.replace("+", r"\+").replace("?", r"\?")):
        catalog.dispatcher(name)


def test_dispatcher_refuses_parameters_out_of_range():
    with pytest.raises(InputError, match="expected small_heavy >= 0 and least_heavy >= 1, got 0 and 0"):
        replace(dispatch.heavy_last, least_heavy=0)


# -- what a rule knows --------------------------------------------------------------------------------


def test_depth_is_by_level_then_index():
    graph = diamond().replaced(kinds=("bottom", "right", "left", "top"), kind=[3, 2, 1, 0])
    assert dispatch.depth_ranks(graph).tolist() == [3, 1, 2, 0]


def test_heavy_kinds_take_three_times_the_median():
    assert dispatch.heavy_kinds(np.array([8.0, 8.0, 23.9, 24.0, 8.0])).tolist() == [0, 0, 0, 1, 0]


def test_kind_times_are_the_shortest_over_the_devices():
    problem = mixed()
    assert dispatch.kind_times(problem, compile_stream(problem)).tolist() == [5.0, 5.0, 50.0]


def test_expected_work_weighs_branches():
    mean = mixed().mean_run_times
    work = dispatch.expected_work(mixed(walk(0.25)))
    assert work.tolist() == pytest.approx([mean[0] + 0.25 * mean[1] + 0.75 * mean[2], mean[1], mean[2]])


def test_expected_work_counts_a_join_once():
    problem = Problem(diamond(), Cluster.uniform((DeviceClass("cpu"),), (1,)))
    assert dispatch.expected_work(problem).tolist() == [15.0, 10.0, 12.0, 8.0]


def test_heft_expected_ranks_by_the_longest_path():
    problem = Problem(diamond(), Cluster.uniform((DeviceClass("cpu"),), (1,)))
    rule = dispatch.heft_expected.rule(problem, compile_stream(problem), np.array([0]))
    assert rule.rank.tolist() == [13.0, 10.0, 12.0, 8.0]


def test_heft_expected_ranks_by_the_expectation_over_branches():
    problem = mixed(walk(0.25))
    mean = problem.mean_run_times
    rule = dispatch.heft_expected.rule(problem, compile_stream(problem), np.array([0]))
    assert rule.rank[0] == pytest.approx(mean[0] + 0.25 * mean[1] + 0.75 * mean[2])


def test_heft_estimated_ranks_by_the_outcomes_seen():
    problem = mixed(walk(0.25))
    stream, mean = compile_stream(problem), problem.mean_run_times
    rule = dispatch.heft_estimated.rule(problem, stream, np.array([0]))
    write_ranks(rule, stream, problem.graph.probability, np.array([[8.0, 5.0]]))
    assert rule.rank[0] == pytest.approx(mean[0] + 0.6 * mean[1] + 0.4 * mean[2])


def test_srw_puts_the_least_expected_work_first():
    problem = mixed()
    rule = dispatch.srw.rule(problem, compile_stream(problem), np.array([0]))
    assert np.argsort(-rule.rank).tolist() == [1, 0, 2]


# -- what they refuse ---------------------------------------------------------------------------------

ONE = Cluster.uniform((DeviceClass("cpu"),), (2,))
REFUSED = [
    (Problem([Job(walk()), Job(walk())], ONE), "fifo", "a stream repeats one job, this problem has 2"),
    (Problem(walk().replaced(curves=[[1.0, 2.0]], curve=0), ONE), "fifo", "elastic tasks"),
    (
        Problem(walk().replaced(slots=2), Cluster.uniform((DeviceClass("cpu", slots=2),), (1,))),
        "fifo",
        "tasks that hold several slots",
    ),
    (Problem(Job(walk(), eligible=("cpu-0",)), ONE), "fifo", "may use some devices only"),
    (
        Problem(walk().replaced(data=1.0), Cluster.uniform((CPU, GPU), (1, 1), bandwidth=1.0)),
        "fifo",
        "queues by kind know no transfers",
    ),
    (Problem(walk(), ONE, noise=0.1), "fifo", "run times vary"),
    (
        Problem(
            walk().replaced(memory=8.0), Cluster.uniform((DeviceClass("cpu", slots=2, memory=10.0),), (1,))
        ),
        "fifo",
        "2 tasks on a device of class 'cpu' may need 16 of its 10 memory",
    ),
    (
        Problem(
            walk().replaced(resources=("cores",), demands=[[3.0], [1.0], [1.0]]),
            Cluster.uniform((DeviceClass("cpu", slots=2, capacity={"cores": 4.0}),), (1,)),
        ),
        "fifo",
        "2 tasks on a device of class 'cpu' may need 6 of its 4 cores",
    ),
    (Problem(Job(walk(), period=5.0), ONE), "fifo", "has a period"),
    (Problem(Job(walk(), deadline=50.0), ONE), "fifo", "has a deadline"),
    (Problem(Job(walk(), release=5.0), ONE), "fifo", "has a release"),
    (Problem(walk().replaced(kinds=("task",), kind=0), ONE), "mru", "all tasks are of kind 'task'"),
    (Problem(walk(), ONE), "heavy-last", "no device takes batches"),
]


@pytest.mark.parametrize(("problem", "name", "reason"), REFUSED, ids=lambda part: str(part)[:30])
def test_dispatcher_names_the_reason_why_it_cannot_act(problem: Problem, name: str, reason: str):
    assert reason in (catalog.dispatcher(name).supports(problem) or "")
    with pytest.raises(UnsupportedError, match=f"{name}: "):
        run(name, streamed(problem))


@pytest.mark.parametrize("slots", [1, 2])
def test_memory_that_all_slots_together_have_is_kept(slots: int):
    cluster = Cluster.uniform((DeviceClass("gpu", slots=slots, memory=16.0, batch=3),), (2,))
    setup = streamed(Problem(walk().replaced(memory=[8.0, 4.0, 8.0]), cluster))
    found = run("fifo", setup)
    assert [fault_of(found, k, "all") for k in range(2)] == [None, None]


def test_a_task_too_large_for_a_device_never_runs_there():
    cluster = Cluster.uniform((DeviceClass("small", memory=4.0), DeviceClass("large", memory=9.0)), (1, 1))
    found = run("fifo", streamed(Problem(walk().replaced(memory=[8.0, 2.0, 2.0]), cluster), gap=60.0))
    assert set(np.unique(found.task_device[..., 0]).tolist()) == {1}
    assert fault_of(found, 0, "all") is None


def test_heft_estimated_guesses_where_no_outcome_is_counted():
    problem = mixed(walk(0.25))
    stream = compile_stream(problem)._replace(choice=np.array([-1, -1]))
    rule = dispatch.heft_estimated.rule(problem, stream, np.array([0]))
    write_ranks(rule, stream, rule.guess, np.zeros((0, 2)))
    assert rule.rank[0] == pytest.approx(problem.mean_run_times @ [1.0, 0.5, 0.5])


def test_fifo_acts_without_kinds():
    assert dispatch.fifo.supports(Problem(walk().replaced(kinds=("task",), kind=0), ONE)) is None


# -- what they do -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_dispatcher_finishes_every_job(name: str):
    found = run(name, streamed(mixed()))
    assert np.isfinite(found.job_times).all()
    assert (found.job_times >= 10.0 - 1e-9).all()


@pytest.mark.parametrize("name", NAMES)
def test_dispatcher_does_not_depend_on_the_batch_it_runs_in(name: str):
    setup = streamed(mixed())
    together, alone = run(name, setup, (1, 2, 3)), run(name, setup, (3,))
    assert together.trace(2) == alone.trace(0)


def bound_kinds() -> Problem:
    """Kind c runs on the GPU only, kind b on the CPU only."""
    graph = walk(0.5).replaced(
        classes=("cpu", "gpu"), times=[[5.0, 10.0], [5.0, np.inf], [np.inf, 30.0]], work=np.full(3, np.nan)
    )
    return Problem(graph, Cluster.uniform((CPU, GPU), (1, 1)))


@pytest.mark.parametrize("name", NAMES)
def test_dispatcher_sends_no_task_where_it_cannot_run(name: str):
    found = run(name, streamed(bound_kinds()))
    assert np.isfinite(found.makespan).all()
    assert np.isfinite(found.device_utilisation).all()


def test_heavy_last_refuses_a_largest_device_that_cannot_run_the_heavy_kind():
    graph = walk(0.5).replaced(
        classes=("cpu", "gpu"), times=[[5.0, 10.0], [5.0, 10.0], [80.0, np.inf]], work=np.full(3, np.nan)
    )
    problem = Problem(graph, Cluster.uniform((CPU, GPU), (1, 1)))
    assert "cannot run the heavy kind 'c'" in (dispatch.heavy_last.supports(problem) or "")


@pytest.mark.parametrize("name", ["top-first", "depth-first"])
def test_levels_count_whatever_the_order_of_kinds(name: str):
    chain = TaskGraph([5.0, 9.0, 20.0], [0, 1], [1, 2], kinds=("a", "b", "c"), kind=[0, 1, 2])
    swapped = chain.replaced(kinds=("c", "b", "a"), kind=[2, 1, 0])
    first, second = (run(name, streamed(mixed(graph), gap=6.0)) for graph in (chain, swapped))
    assert first.trace(0) == second.trace(0)


def test_waiting_variant_never_idles():
    setup = streamed(mixed())
    assert (run("fifo", setup).idles > 0).all()
    assert (run("fifo+wait", setup).idles == 0).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(NAMES),
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 2)), min_size=2, max_size=7),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=4),
    st.integers(0, 2**40),
)
def test_dispatcher_finishes_any_stream_it_supports(
    name: str, tasks: list[tuple[int, int]], devices: list[tuple[int, int]], seed: int
):
    """A chain with shortcuts: forks, joins and branches together, on unequal devices."""
    builder = GraphBuilder("any")
    for i, (work, shape) in enumerate(tasks):
        builder.task(f"t{i}", float(work), kind=f"k{i}")
        if i > 0:
            builder.edge(f"t{i - 1}", f"t{i}", **({"probability": 0.5, "branch": 0} if shape == 2 else {}))
        if i > 1 and shape == 1:
            builder.edge(f"t{i - 2}", f"t{i}")
        if shape == 2 and i > 0:
            builder.task(f"u{i}", 2.0, kind=f"k{i}")
            builder.edge(f"t{i - 1}", f"u{i}", probability=0.5, branch=0)
    classes = [DeviceClass(f"c{i}", float(speed), batch=batch) for i, (speed, batch) in enumerate(devices)]
    problem = Problem(builder.build(), Cluster.uniform(classes, [1] * len(classes)))
    if catalog.dispatcher(name).supports(problem) is None:
        found = run(name, streamed(problem, jobs=20, gap=10.0), (seed,))
        assert np.isfinite(found.job_times).all()
        assert (found.job_times > 0).all()
