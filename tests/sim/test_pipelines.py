"""Periodic pipelines in the task view: overruns, order, rules, a slow twin, and the environment that policies learn in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft import catalog
from weft.errors import UnsupportedError
from weft.model.problem import Job, Problem, Realisation, realise
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.schedulers.dispatchers.pins import pinned_classes
from weft.schedulers.dispatchers.static_map import search_map
from weft.sim.tasks.layout import compile_tasks
from weft.sim.tasks.pipeline_environment import PipelineEnv, PipelineReward, PipelineSetup
from weft.sim.tasks.pipeline_features import PipelineSight

HARD = {"periods": "50/150/25/300", "horizon": 400.0}


def board(**settings: object) -> Problem:
    return scenario("adas-tx2", **{**HARD, **settings}).problem("test", 0)


def play(name: str, problem: Problem, seed: int = 0) -> Schedule:
    return catalog.task_dispatcher(name).run_all([problem], [realise(problem, seed)], [seed])[0]


@pytest.mark.parametrize("overrun", ["queue", "skip", "abort"])
@pytest.mark.parametrize("order", [0, 1])
def test_rules_keep_all_rules_of_the_validator(overrun: str, order: int):
    problem = board(overrun=overrun, order=order, switches=2, control=1, fusion=33.0)
    for name in (
        "rm-pinned",
        "edf-eft",
        "edf-gpu-first",
        "llf-random",
        "ledf-fastest-idle",
        "edf-pinned+hopeless",
    ):
        found = play(name, problem)
        assert validate(found) == (), name
        assert found.miss_worst >= found.miss_macro > 0 or name.startswith("rm")
        assert {"fusion_age", "miss_lane", "age"} <= set(found.series.to_dict())


def test_overruns_end_at_their_deadline_or_are_skipped():
    skipped, aborted = (play("edf-gpu-first", board(overrun=one)) for one in ("skip", "abort"))
    assert (skipped.outcome == 1).any() and not (skipped.outcome == 3).any()
    assert (aborted.outcome == 3).any() and not (aborted.outcome == 1).any()
    assert aborted.makespan <= 400.0 + 300.0


def test_neutral_fields_change_nothing():
    problem = board(order=0)
    plain = problem.replaced(
        jobs=tuple(replace(j, series="", interval=None) for j in problem.jobs), horizon=None
    )
    for name in ("edf", "eft", "edf-fastest-idle"):
        one, other = play(name, problem), play(name, plain)
        for column in ("task", "device", "start", "finish"):
            assert np.array_equal(getattr(one, column), getattr(other, column)), (name, column)


def test_every_law_and_board_runs():
    for law in ("folded", "uniform", "truncated", "lognormal"):
        problem = scenario("odroid4", law=law, configuration=40, horizon=300.0).problem("test", 0)
        assert validate(play("rm-pinned", problem)) == ()


@pytest.mark.parametrize(("fused", "num_stages"), [(1, 12), (2, 6), (5, 3), (12, 1)])
def test_fused_kernels_are_one_shorter_stage(fused: int, num_stages: int):
    apart, found = (
        scenario("odroid4", speed=1.0, configuration=40, horizon=300.0, fused=one).problem("test", 0)
        for one in (1, fused)
    )
    yolo = found.jobs[0].graph
    assert yolo.num_tasks == num_stages
    steps = 12 - num_stages  # each saves the same; all together what was measured
    np.testing.assert_allclose(
        yolo.times.sum(axis=0), np.array([20.0, 8.4]) - steps / 11 * np.array([5.9, 0.3])
    )
    assert (found.run_times > 0).all() and len(found.jobs) == len(apart.jobs)
    for name in ("rm-pinned", "edf-eft", "llf-fastest-idle"):
        assert validate(play(name, found)) == (), name


def test_kernels_apart_are_what_they_were_before_fusing():
    graph = scenario("odroid4", configuration=40, horizon=300.0).problem("test", 0).jobs[0].graph
    share = np.where(np.arange(12) % 2 == 0, 3.0, 1.0) / 24.0 * 2.0
    assert np.array_equal(graph.times, np.stack([20.0 * share, 8.4 * share], axis=1))
    assert graph.kinds == ("yolo1-kernel",) and graph.names[3] == "kernel3"


def twin(
    problem: Problem, world: Realisation, keys: np.ndarray, allowed: np.ndarray
) -> dict[int, tuple[int, float]]:
    """Device and start of every task under a fixed order, in plain Python: no transfers are looked up before they are needed."""
    cluster, jobs = problem.cluster, problem.jobs
    former = {}
    for j, job in enumerate(jobs):
        same = [k for k in range(len(jobs)) if jobs[k].series == job.series and jobs[k].release < job.release]
        former[j] = max(same, key=lambda k: jobs[k].release, default=-1)
    placed: dict[int, tuple[int, float]] = {}
    ends: dict[int, float] = {}
    free = [0.0] * cluster.num_devices
    times = sorted({job.release for job in jobs})
    while len(placed) < problem.num_tasks:
        now = times.pop(0)
        ready = []
        for j, job in enumerate(jobs):
            first = int(problem.offsets[j])
            for k in range(job.graph.num_tasks):
                before = [first + k - 1] if k else []
                before += [int(problem.offsets[former[j]]) + k] if former[j] >= 0 else []
                is_open = first + k not in placed and job.release <= now
                if is_open and all(ends.get(i, np.inf) <= now for i in before):
                    ready.append((keys[first + k], first + k, first + k - 1 if k else -1))
        for _, i, parent in sorted(ready):
            best = None
            for p in range(cluster.num_devices):
                c = int(cluster.device_class[p])
                if free[p] <= now and allowed[i, c]:
                    start = now
                    if parent >= 0:
                        job = jobs[problem.job_of[i]]
                        data = float(job.graph.data[parent - problem.offsets[problem.job_of[i]]])
                        start = max(now, ends[parent] + problem.transfer_time(placed[parent][0], p, data))
                    end = start + problem.run_times[i, c]
                    best = min(best, (end, p, start)) if best else (end, p, start)
            if best:
                _, p, start = best
                ends[i] = free[p] = start + float(world.run_times[i, cluster.device_class[p]])
                placed[i] = (p, start)
                times = sorted({*times, ends[i]})
    return placed


def test_kernel_does_what_a_slow_twin_does():
    problem = board(horizon=200.0)
    world = realise(problem, 3)
    for name, allowed in (
        ("rm-pinned", pinned_classes(problem)),
        ("edf-fastest-idle", np.isfinite(problem.run_times)),
    ):
        dispatcher = catalog.task_dispatcher(name)
        slow = twin(problem, world, dispatcher.order(problem), allowed)
        fast = dispatcher.run_all([problem], [world], [0])[0]
        for row in range(len(fast)):
            device, start = slow[int(fast.task[row])]
            assert (device, start) == (fast.device[row], pytest.approx(fast.start[row])), name


def test_searched_map_is_no_worse_than_its_start():
    found, cost = search_map([board()], 30, 1)
    assert validate(found.dispatcher("map").run_all([board()], [realise(board(), 1)], [0])[0]) == ()
    assert cost <= search_map([board()], 12, 1)[1]


# -- environment -------------------------------------------------------------------------------------


def choose(env: PipelineEnv, rng: np.random.Generator) -> np.ndarray:
    return np.array([[rng.choice(np.flatnonzero(mask[0]))] for mask in env.mask])


def make(reward: PipelineReward | None = None, num: int = 2, **settings: object) -> PipelineEnv:
    problems = tuple(board(**settings) for _ in range(num))
    return PipelineEnv(PipelineSetup(problems, PipelineSight(), reward or PipelineReward()), num, 5)


def test_rewards_add_up_to_the_cost_of_missed_deadlines():
    env, rng = make(PipelineReward(is_shaped=False), num=1), np.random.default_rng(0)
    total, done = 0.0, False
    while not done:
        reward, over = env.step(choose(env, rng))
        total, done = total + float(reward[0]), bool(over[0])
        cost = -total
    assert cost > 0 and 0 < (env.report()["miss_macro"] or 0) <= 1


def test_potential_changes_discounted_sums_by_a_constant():
    sums = []
    for is_shaped in (False, True):
        env, rng = make(PipelineReward(tau=50.0, is_shaped=is_shaped), num=1), np.random.default_rng(1)
        first = float(env.buffers.level[0])
        total, weight, done = 0.0, 1.0, False
        while not done:
            reward, over = env.step(choose(env, rng))
            total += weight * float(reward[0])
            weight *= float(np.exp(-env.elapsed[0] / 50.0))
            done = bool(over[0])
        sums.append(total - (0.0 if not is_shaped else -first))
    assert sums[0] == pytest.approx(sums[1], abs=0.02)


def test_snapshot_and_seed_repeat_an_episode():
    env, rng = make(), np.random.default_rng(2)
    for _ in range(20):
        env.step(choose(env, rng))
    kept, state = env.snapshot(), rng.bit_generator.state
    first = [env.step(choose(env, rng))[0].copy() for _ in range(30)]
    env.restore(kept)
    rng.bit_generator.state = state
    again = [env.step(choose(env, rng))[0].copy() for _ in range(30)]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_nothing_is_seen_of_what_has_not_happened():
    """Other run times later on, and periods that change later on, show nothing now."""
    plain, switched = board(horizon=600.0), board(horizon=600.0, switches=1)
    assert len(plain.jobs) != len(switched.jobs)
    first, other = (PipelineEnv(PipelineSetup((one,)), 1, 0) for one in (plain, switched))
    for env, one in ((first, plain), (other, switched)):
        env.world.f.run[:] = one.run_times  # the same run times in both
        env._begin = lambda which: None  # noqa: SLF001
    now = 0.0
    while now < 250.0:
        assert np.array_equal(first.observation, other.observation)
        actions = np.array([[int(np.flatnonzero(first.mask[0, 0])[0])]])
        first.step(actions)
        other.step(actions)
        now = float(first.world.s.now[0])
    late = first.world.w.job_release[first.world.w.job] > now
    seen = first.observation.copy()
    first.world.f.run[late] *= 3.0
    running = first.world.s.status == 2
    first.world.f.run[running] *= 2.0
    from weft.sim.tasks.pipeline_features import PipelineListed, list_stages

    out, world = first.buffers, first.world
    found = PipelineListed(out.task[0], out.device[0], out.count[0], out.later[0], out.depth[0])
    list_stages(
        first.seen, world.lines, world.w, world.f, world.s, world.v, 0, world.look, found, out.observation[0]
    )
    assert np.array_equal(first.observation, seen)


def test_faithful_sight_lists_the_first_stage_by_local_deadline_alone():
    env = PipelineEnv(
        PipelineSetup((board(),), PipelineSight(is_faithful=True), PipelineReward(is_faithful=True)), 1, 0
    )
    rng, total = np.random.default_rng(0), 0.0
    for _ in range(200):
        count = int(env.buffers.count[0, 0])
        assert len(set(env.buffers.task[0, :count].tolist())) == 1
        total += abs(float(env.step(choose(env, rng))[0][0]))
    assert total > 0


def test_spread_puts_every_problem_into_several_environments():
    problems = tuple(scenario("adas-tx2", horizon=60.0).problem("train", k) for k in range(6))
    env = PipelineEnv(PipelineSetup(problems, spread=3), 6, 0)
    own = [env.problems[a:b] for a, b in zip(env._first[:-1], env._first[1:], strict=True)]  # noqa: SLF001
    assert all(len({id(one) for one in mine}) == 3 for mine in own)


def test_jobs_that_are_aborted_when_they_are_due_cannot_be_told_one_by_one():
    graph = board().jobs[0].graph
    problem = Problem(Job(graph, series="a", overrun="abort", deadline=9.0), board().cluster)
    with pytest.raises(UnsupportedError, match="is aborted when it is due"):
        compile_tasks([problem], is_open=True)
