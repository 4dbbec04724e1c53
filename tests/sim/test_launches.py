"""Launches: chains started as one, by hand and by chance, what the validator says of them, and what policies see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft.errors import InputError, UnsupportedError
from weft.model.bounds import critical_path, lower_bound
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Objective, Problem, Realisation, expected, realise
from weft.model.schedule import ABORTED, Schedule
from weft.model.validate import validate
from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.forward import CandidatePolicy
from weft.policies.candidates.pipelines import NOTHING, PipelineDispatcher
from weft.scenarios import scenario
from weft.sim.tasks.layout import schedule_of
from weft.sim.tasks.pipeline_environment import (
    PipelineBatch,
    PipelineEnv,
    PipelineSetup,
    start_all,
    step_all,
)
from weft.sim.tasks.pipeline_features import PipelineListed, PipelineSight, check_pipeline_sight, list_stages
from weft.sim.tasks.replay import replayed

DEPTHS = (1, 2, 3, 4, 12)
SIGHT = PipelineSight(series=4, pools=2, choices=48, depths=DEPTHS)
PLAIN = SIGHT._replace(depths=(1,))


def chain(saved: object = ((0.0,), (0.25,), (0.5,))) -> TaskGraph:
    """Three kernels: 4, 2 and 2 apart, 4, 1.5 and 1 as one launch."""
    return TaskGraph(
        [np.nan] * 3, [0, 1], [1, 2], [1e6, 1e6], names=["a", "b", "c"], classes=["gpu"],
        times=[[4.0], [2.0], [2.0]], saved=saved,
    )  # fmt: skip


def cluster(*classes: str) -> Cluster:
    num = len(classes)
    return Cluster(
        tuple(DeviceClass(name) for name in classes),
        np.arange(num, dtype=np.int32),
        np.zeros(num, np.int32),
        np.arange(num, dtype=np.int32),
        np.full((num, num), 0.5) * (1 - np.eye(num)),
        np.full((num, num), 1e6),
    )


def one_line(graph: TaskGraph, num: int = 1, **changes: object) -> Problem:
    """Instances of one pipeline on one device per class of its graph."""
    jobs = [
        Job(graph, f"x#{k}", release=10.0 * k, deadline=10.0, series="x", interval=10.0, **changes)  # type: ignore[arg-type]
        for k in range(num)
    ]
    return Problem(jobs, cluster(*graph.classes), Objective("miss_macro", copies=False))


def play(problem: Problem, world: Realisation, wanted: list[int], sight: PipelineSight = SIGHT) -> Schedule:
    """The first task listed, with the depth wanted at every decision, then depth 1."""
    batch = PipelineBatch([problem], [world], sight, 1)
    env, out = np.zeros(1, np.int64), batch.buffers
    start_all(batch.seen, batch.world, env, env, False, out)
    left = list(wanted)
    while not out.done[0]:
        depth = left.pop(0) if left else 1
        count = int(out.count[0, 0])
        chosen = next(k for k in range(count) if out.depth[0, k] == depth)
        step_all(batch.seen, batch.world, env, np.array([[chosen]]), NOTHING, False, out)
    return schedule_of(problem, world, batch.world.w, batch.world.s)


def by_chance(problem: Problem, seed: int, sight: PipelineSight = SIGHT) -> Schedule:
    """Any choices that the masks allow."""
    world, rng = realise(problem, seed), np.random.default_rng(seed)
    batch = PipelineBatch([problem], [world], sight, 1)
    env, out = np.zeros(1, np.int64), batch.buffers
    start_all(batch.seen, batch.world, env, env, False, out)
    while not out.done[0]:
        chosen = rng.choice(np.flatnonzero(out.mask[0, 0]))
        step_all(batch.seen, batch.world, env, np.array([[chosen]]), NOTHING, False, out)
    assert not batch.world.s.overflow.any()
    return schedule_of(problem, world, batch.world.w, batch.world.s)


def board(**settings: object) -> Problem:
    return scenario("odroid4", **{"configuration": 0, "horizon": 300.0, **settings}).problem("test", 0)


# -- by hand -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "start", "finish", "launch"),
    [
        ([1, 1, 1], [0, 4, 6], [4, 6, 8], [-1, -1, -1]),
        ([3], [0, 4, 5.5], [4, 5.5, 6.5], [0, 0, 0]),
        ([2, 1], [0, 4, 5.5], [4, 5.5, 7.5], [0, 0, -1]),
        ([1, 2], [0, 4, 6], [4, 6, 7], [-1, 1, 1]),
    ],
)
def test_chain_of_three_kernels(
    wanted: list[int], start: list[float], finish: list[float], launch: list[int]
):
    problem = one_line(chain())
    found = play(problem, expected(problem), wanted)
    assert found.task.tolist() == [0, 1, 2]
    assert found.start.tolist() == start and found.finish.tolist() == finish
    assert found.launch.tolist() == launch
    assert validate(found) == ()


def test_draws_stay_those_of_single_tasks():
    problem = one_line(chain()).replaced(noise=0.2)
    world = realise(problem, 5)
    found = play(problem, world, [3])
    taken = world.run_times[:, 0] * np.array([1.0, 0.75, 0.5])
    np.testing.assert_allclose(found.finish - found.start, taken, rtol=1e-12)
    assert validate(found) == ()


def test_next_instance_is_let_in_when_the_launch_ends():
    problem = _released_early(one_line(on_two_classes(), 2, in_order=True))
    found = play(problem, expected(problem), [3])
    rows = {int(task): row for row, task in enumerate(found.task)}
    assert found.finish[rows[2]] == found.start[rows[3]] == 6.5 and validate(found) == ()
    assert "order" in rules_broken(_moved(found, rows[3], -1.0))


def on_two_classes() -> TaskGraph:
    """The same kernels, on another class too, which saves nothing."""
    times = [[4.0, 4.0], [2.0, 2.0], [2.0, 2.0]]
    return chain(None).replaced(classes=("gpu", "cpu"), times=times, saved=[[0, 0], [0.25, 0], [0.5, 0]])


def _released_early(problem: Problem) -> Problem:
    return problem.replaced(jobs=tuple(replace(job, release=0.0) for job in problem.jobs))


def test_all_of_a_net_takes_what_was_measured():
    problem = board(speed=1.0, noise=0.0)
    batch = PipelineBatch([problem], [expected(problem)], SIGHT, 1)
    for name, taken in (("yolo1", (14.1, 8.1)), ("lenet2", (25.9, 16.1))):
        j = next(j for j, job in enumerate(problem.jobs) if job.series == name)
        rows = slice(problem.offsets[j], problem.offsets[j + 1])
        np.testing.assert_allclose(problem.least_run_times[rows].sum(axis=0), taken)
    assert batch.world.w.saved.shape == problem.run_times.shape


# -- by chance, and tampered with --------------------------------------------------------------------


@pytest.mark.parametrize(("overrun", "order"), [("queue", 1), ("skip", 1), ("queue", 0)])
@pytest.mark.parametrize("seed", range(4))
def test_validator_accepts_what_the_kernel_makes(overrun: str, order: int, seed: int):
    problem = board(overrun=overrun, order=order, configuration=20 * seed, switches=seed)
    found = by_chance(problem, seed)
    assert validate(found) == ()
    sizes = np.bincount(found.launch[found.launch >= 0])
    assert set(sizes[sizes > 0].tolist()) <= set(DEPTHS) and sizes.max() >= 4
    assert found.makespan >= lower_bound(problem.replaced(noise=0.0)).value * 0.9


def test_launches_are_not_replayed():
    problem = one_line(chain())
    with pytest.raises(
        InputError, match="launch: the schedule has launches: a replay starts every task alone"
    ):
        replayed(play(problem, expected(problem), [3]))
    assert replayed(play(problem, expected(problem), [1])).makespan == 8.0


def launched() -> tuple[Schedule, list[int]]:
    """A schedule, and the rows of its first launch of four."""
    found = by_chance(board(), 1)
    sizes = np.bincount(found.launch[found.launch >= 0])
    return found, np.flatnonzero(found.launch == int(np.flatnonzero(sizes == 4)[0])).tolist()


def _moved(found: Schedule, row: int, by: float) -> Schedule:
    start, finish = found.start.copy(), found.finish.copy()
    start[row] += by
    finish[row] += by
    return replace(found, start=start, finish=finish)


def _set(found: Schedule, column: str, rows: list[int], value: float) -> Schedule:
    changed = getattr(found, column).copy()
    changed[rows] = value
    return replace(found, **{column: changed})


def rules_broken(found: Schedule) -> set[str]:
    return {one.rule for one in validate(found)}


def test_validator_refuses_saved_time_without_a_launch():
    found, rows = launched()
    assert rules_broken(_set(found, "launch", rows, -1)) == {"duration"}
    assert rules_broken(_set(found, "launch", rows[2:3], -1)) >= {"duration", "launch"}


def test_validator_refuses_tampered_launches():
    found, rows = launched()
    other = int(found.launch[(found.launch >= 0) & (found.launch != found.launch[rows[0]])][0])
    alone = int(np.flatnonzero(found.launch < 0)[0])
    assert "launch" in rules_broken(_moved(found, rows[3], 0.01))
    assert "launch" in rules_broken(_set(found, "device", rows[2:3], 1 - found.device[rows[2]]))
    assert "launch" in rules_broken(_set(found, "launch", rows, other))
    assert "launch" in rules_broken(_set(found, "launch", [alone], 10**6))
    assert "launch" in rules_broken(_set(found, "outcome", rows[3:], ABORTED))
    assert "duration" in rules_broken(_set(found, "finish", rows[3:], found.finish[rows[3]] - 0.01))
    assert "duration" in rules_broken(_set(found, "finish", rows[3:], found.finish[rows[3]] + 0.01))


def test_validator_refuses_a_launch_across_a_fan_in():
    graph = TaskGraph(
        [np.nan] * 4, [0, 1, 2], [1, 3, 3], names=["a", "b", "other", "d"], classes=["gpu"],
        times=[[1.0]] * 4, saved=[[0], [0.5], [0], [0]],
    )  # fmt: skip
    problem = one_line(graph)
    fits = Schedule(problem, [0, 1, 2, 3], [0] * 4, [1, 2, 0, 2.5], [2, 2.5, 1, 3.5], launch=[7, 7, -1, -1])  # type: ignore[arg-type]
    assert validate(fits) == ()
    assert rules_broken(_set(fits, "launch", [1, 2, 3], 7)) == {"launch"}


# -- the model ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("saved", "why"),
    [
        ([[0.0], [1.0], [0.0]], r"tasks.b.saved: expected shares from 0 to below 1, got \[1.0\]"),
        ([[0.0], [-0.1], [0.0]], r"tasks.b.saved: expected shares from 0 to below 1, got \[-0.1\]"),
        ([[0.2], [0.0], [0.0]], "tasks.a.saved: expected 0 for a task that does not follow one parent"),
        ([[0.2, 0.1]], "saved: expected 3 rows of 1 values"),
    ],
)
def test_wrong_savings_are_refused(saved: object, why: str):
    with pytest.raises(InputError, match=why):
        chain(saved)


def test_no_savings_are_no_column():
    assert chain(None).saved.shape == chain([[0.0]] * 3).saved.shape == (0, 0)
    assert one_line(chain(None)).saved.shape == (0, 0)
    assert chain().replaced(name="other").saved.tolist() == [[0.0], [0.25], [0.5]]


def test_bounds_hold_for_launches():
    problem = one_line(chain())
    assert critical_path(problem).value == 6.5 and lower_bound(problem).value <= 6.5
    assert critical_path(one_line(chain(None))).value == 8.0
    assert play(problem, expected(problem), [3]).makespan == 6.5


# -- what policies see -------------------------------------------------------------------------------


def depths_listed(problem: Problem, sight: PipelineSight = SIGHT) -> list[tuple[int, int]]:
    batch = PipelineBatch([problem], [expected(problem)], sight, 1)
    env, out = np.zeros(1, np.int64), batch.buffers
    start_all(batch.seen, batch.world, env, env, False, out)
    count = int(out.count[0, 0])
    assert out.mask[0, 0, :count].all() and not out.mask[0, 0, count:-1].any()
    return [(int(out.task[0, k]), int(out.depth[0, k])) for k in range(count)]


def test_no_depth_beyond_the_end_of_a_chain():
    assert depths_listed(one_line(chain())) == [(0, 1), (0, 2), (0, 3)]
    assert depths_listed(one_line(chain(None))) == [(0, 1)]
    assert depths_listed(one_line(chain()), PLAIN) == [(0, 1)]
    assert depths_listed(one_line(chain([[0.0], [0.25], [0.0]]))) == [(0, 1), (0, 2)]


def test_no_depth_across_a_fan_in_or_a_fan_out():
    graph = TaskGraph(
        [np.nan] * 5, [0, 1, 2, 3], [1, 3, 3, 4], classes=["gpu"], times=[[1.0]] * 5,
        saved=[[0], [0.5], [0], [0], [0.5]],
    )  # fmt: skip
    assert depths_listed(one_line(graph)) == [(0, 1), (0, 2), (2, 1)]
    fan_out = TaskGraph([np.nan] * 3, [0, 0], [1, 2], classes=["gpu"], times=[[1.0]] * 3)
    assert depths_listed(one_line(fan_out)) == [(0, 1)]


def test_no_depth_for_kernels_whose_turn_has_not_come():
    problem = _released_early(one_line(on_two_classes(), 2, in_order=True))
    batch = PipelineBatch([problem], [expected(problem)], SIGHT, 1)
    env, out = np.zeros(1, np.int64), batch.buffers
    start_all(batch.seen, batch.world, env, env, False, out)
    listed = {(int(out.task[0, k]), int(out.depth[0, k])) for k in range(int(out.count[0, 0]))}
    assert listed == {(0, 1), (0, 2), (0, 3)}
    one = next(k for k in range(4) if out.depth[0, k] == 1 and out.device[0, k] == 0)
    step_all(batch.seen, batch.world, env, np.array([[one]]), NOTHING, False, out)
    while batch.world.s.status[0] != 3:  # the second instance may follow with what the first is through with
        step_all(batch.seen, batch.world, env, np.array([[48]]), NOTHING, False, out)
    listed = {(int(out.task[0, k]), int(out.depth[0, k])) for k in range(int(out.count[0, 0]))}
    assert listed == {(1, 1), (1, 2), (3, 1)}


def test_depths_add_columns_behind_all_others():
    assert SIGHT.columns[: len(PLAIN.columns)] == PLAIN.columns and SIGHT.world == PLAIN.world
    assert PipelineSight().to_table().get("depths") is None and SIGHT.to_table()["depths"] == [*DEPTHS]
    assert check_pipeline_sight(PipelineSight(**SIGHT.to_table())) == SIGHT
    for wrong in ([], [2], [1, 1], [1, 4, 2], [1, 300], [1, 2.0], 3, "1"):
        with pytest.raises(InputError, match=r"candidates.depths: expected ascending whole numbers from 1"):
            check_pipeline_sight(PipelineSight(depths=wrong))  # type: ignore[arg-type]


def test_without_depths_savings_change_nothing():
    """A board whose kernels save time in launches, and the same without: schedules of single kernels are equal."""
    problem = board()
    bare = problem.replaced(jobs=tuple(replace(j, graph=j.graph.replaced(saved=None)) for j in problem.jobs))
    one, other = by_chance(problem, 3, PLAIN), by_chance(bare, 3, PLAIN)
    for column in ("task", "device", "start", "finish", "launch"):
        assert np.array_equal(getattr(one, column), getattr(other, column)), column
    assert (one.launch == -1).all()


def test_a_launch_shows_nothing_of_its_true_times():
    problem = board(configuration=10)
    env = PipelineEnv(PipelineSetup((problem,), SIGHT), 1, 0)
    rng = np.random.default_rng(4)
    s, w = env.world.s, env.world.w
    checked = 0
    for _ in range(120):
        env.step(np.array([[rng.choice(np.flatnonzero(env.mask[0, 0]))]]))
        if (s.lead[s.status == 2] >= 0).any():
            seen, kept, out, world = env.observation.copy(), env.world.f.run.copy(), env.buffers, env.world
            world.f.run[s.status <= 2] *= 3.0
            found = PipelineListed(out.task[0], out.device[0], out.count[0], out.later[0], out.depth[0])
            list_stages(
                env.seen, world.lines, w, world.f, s, world.v, 0, world.look, found, out.observation[0]
            )
            assert np.array_equal(env.observation, seen)
            world.f.run[:] = kept
            checked += 1
    assert checked > 5


def some_policy(sight: PipelineSight = SIGHT, seed: int = 0) -> PipelineDispatcher:
    """A net with drawn weights."""
    shape = CandidateArchitecture(len(sight.world), len(sight.columns), 16)
    rng = np.random.default_rng(seed)
    weights = {name: rng.normal(0, 0.5, size).astype(np.float32) for name, size in shape.shapes().items()}
    return PipelineDispatcher("some", policy=CandidatePolicy(weights, shape), sight=sight)


def test_the_future_changes_no_decision():
    problem, until = board(horizon=600.0), 200.0
    late = np.array([job.release for job in problem.jobs])[problem.job_of] > until
    world = realise(problem, 1)
    other = replace(world, run_times=np.where(late[:, None], 2.0 * world.run_times, world.run_times))
    plain, changed = some_policy().run_all([problem] * 2, [world, other], [0, 0])
    rows = plain.start <= until
    assert (plain.launch[rows] >= 0).any() and validate(plain) == validate(changed) == ()
    for column in ("task", "device", "start", "launch"):
        assert np.array_equal(getattr(plain, column)[rows], getattr(changed, column)[: rows.sum()]), column
    assert not np.array_equal(plain.start, changed.start)


def test_what_cannot_take_part_is_refused_in_one_line():
    aborted = board(overrun="abort")
    assert "a launch cannot be cut short" in (some_policy().supports(aborted) or "")
    assert some_policy(PLAIN).supports(aborted) is None and some_policy().supports(board()) is None
    with pytest.raises(UnsupportedError, match=r"depths: problem .* a launch cannot be cut short"):
        PipelineEnv(PipelineSetup((aborted,), SIGHT), 1, 0)
