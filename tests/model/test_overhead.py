"""Overhead of a class: it passes for every task besides its run time, in planners and oracle alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import problems

import weft
from weft.errors import InputError
from weft.evaluation.sweep.queue_runs import play
from weft.io.files import read_cluster, write_cluster
from weft.model.bounds import lower_bound
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Problem, realise
from weft.model.schedule import Schedule
from weft.model.stream_oracle import validate_stream
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.sim.tasks.replay import replayed

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline.json"


def with_overhead(problem: Problem, *overheads: float) -> Problem:
    """The problem with these overheads, in turn, on its classes."""
    classes = [
        replace(one, overhead=overheads[i % len(overheads)]) for i, one in enumerate(problem.cluster.classes)
    ]
    return problem.replaced(cluster=problem.cluster.replaced(classes=tuple(classes)))


@pytest.mark.parametrize(
    ("unit", "times"),
    [("s", [[2.5], [7.5]]), ("ms", [[502.0], [507.0]]), ("min", [[2 + 1 / 120], [7 + 1 / 120]])],
)
def test_overhead_is_in_seconds_and_counts_for_every_run_time(unit: str, times: list[list[float]]):
    graph = TaskGraph([2.0, np.nan], classes=("cpu",), times=[[np.nan], [7.0]], time_unit=unit)
    problem = Problem(graph, Cluster.uniform([DeviceClass("cpu", overhead=0.5)], [1]))
    assert problem.run_times == pytest.approx(np.array(times))


def test_overhead_leaves_alone_what_cannot_run():
    graph = TaskGraph([1.0], memory=[8.0])
    cluster = Cluster.uniform(
        [DeviceClass("a", overhead=1.0), DeviceClass("b", memory=4.0, overhead=1.0)], [1, 1]
    )
    assert Problem(graph, cluster).run_times.tolist() == [[2.0, np.inf]]


def test_overhead_of_nothing_changes_nothing():
    problem = weft.read_problem(EXAMPLE, "gpu-mix-8")
    same = with_overhead(problem, 0.0)
    assert same.run_times.tobytes() == problem.run_times.tobytes()
    for scheduler in ("heft", "min-min"):
        one, two = (weft.schedule(p, scheduler=scheduler).schedule for p in (problem, same))
        assert one.start.tobytes() == two.start.tobytes()
        assert one.device.tobytes() == two.device.tobytes()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problems(), st.floats(0.001, 5.0), st.sampled_from(["heft", "min-min", "cp"]))
def test_oracle_agrees_with_planners_on_overhead(problem: Problem, overhead: float, scheduler: str):
    slowed = with_overhead(problem, overhead, 0.0, 2 * overhead)
    plan = weft.schedule(slowed, scheduler=scheduler).schedule
    assert validate(plan) == ()
    assert lower_bound(slowed).value <= plan.makespan * (1 + 1e-9)
    if (problem.cluster.device_class[plan.device] == 0).any():
        assert "duration" in {one.rule for one in validate(plan, problem)}
    happened = realise(slowed.replaced(noise=0.3), 1)
    assert validate(replayed(plan, happened)) == ()


def elastic(ends: list[float], units: list[float], overhead: float = 1.0, work: float = 4.0) -> Schedule:
    """One task of 4 s whose speed is 1 with one unit and 2 with three, after 1 s of overhead."""
    graph = TaskGraph([work], curves=[[1.0, 1.5, 2.0]], curve=[0], resources=("gpu",), demands=[[1.0]])
    classes = [DeviceClass("a", capacity={"gpu": 3.0}, overhead=overhead)]
    rows = len(ends)
    return Schedule(
        Problem(graph, Cluster.uniform(classes, [1])),
        [0] * rows,
        [0] * rows,
        [0.0, *ends[:-1]],
        ends,
        units=[[u] for u in units],
    )


@pytest.mark.parametrize(
    ("schedule", "is_valid"),
    [
        (elastic([5.0], [1.0]), True),
        (elastic([3.0], [3.0]), True),
        (elastic([2.5], [3.0]), False),
        (elastic([0.5, 3.0], [1.0, 3.0]), True),
        (elastic([3.0, 4.0], [1.0, 3.0]), True),
        (elastic([1.0], [1.0], work=0.0), True),
        (elastic([0.5], [1.0], work=0.0), False),
    ],
)
def test_overhead_of_elastic_tasks_passes_once_at_no_rate(schedule: Schedule, is_valid: bool):
    assert [one.rule for one in validate(schedule)] == ([] if is_valid else ["duration"])


def test_bound_of_elastic_tasks_does_not_speed_overhead_up():
    problem = elastic([3.0], [3.0]).problem
    assert lower_bound(problem).value == 3.0


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_overhead_survives_a_file(tmp_path: Path, suffix: str):
    path = tmp_path / f"c.{suffix}"
    cluster = Cluster.uniform([DeviceClass("a", overhead=0.0125), DeviceClass("b")], [1, 1])
    write_cluster(cluster, path)
    assert path.read_text().count("overhead") == 1
    assert read_cluster(path).equals(cluster)


def test_overhead_is_read_with_its_unit(tmp_path: Path):
    path = tmp_path / "c.toml"
    path.write_text('[[device]]\nclass = "a"\noverhead = "12 ms"\n')
    assert read_cluster(path).classes[0].overhead == 0.012
    path.write_text('[[device]]\nclass = "a"\noverhead = "12 GB"\n')
    with pytest.raises(InputError, match=r"device\[0\].overhead: expected a time such as '10 us'"):
        read_cluster(path)


def test_overhead_below_zero_is_refused():
    with pytest.raises(InputError, match="class a: overhead: expected a finite number >= 0, got -1"):
        DeviceClass("a", overhead=-1.0)


@pytest.mark.parametrize("scheduler", ["fifo", "batch-fifo"])
def test_both_oracles_agree_with_streams_on_overhead(scheduler: str):
    stream = scenario("conditional", jobs=60, p_c=0.3).stream("test", 1)
    slowed = replace(stream, problem=with_overhead(stream.problem, 0.5, 2.0))
    record = play(scheduler, slowed, [3]).record(0)
    assert validate_stream(record) == ()
    assert validate(record.schedule()) == ()
    assert [one.rule for one in validate_stream(replace(record, problem=stream.problem))] == ["duration"]
