"""Many copies of the task view: candidates, rewards, episodes, and what a Gymnasium learner makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_util import make_vec_env

import weft
from weft import catalog
from weft.errors import InputError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder
from weft.model.problem import Job, Problem, realise
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import LOOK, priced, run_one
from weft.sim.adapters import StreamEnv, make
from weft.sim.tasks.candidates import COLUMNS, WORLD, CandidateSight
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.sim.tasks.layout import new_task_state
from weft.sim.tasks.reward import TERMS, Reward
from weft.sim.tasks.rules import first_start, write_ready
from weft.sim.tasks.weights import PRICED
from weft.testing import check_environment

SMALL = CandidateSight(tasks=6, pools=2)
ES = catalog.task_dispatcher("es").weights


def streams(count: int, **settings: object) -> tuple[Problem, ...]:
    chosen = scenario("workflows", **{"load": 0.8, "jobs": 4, "tasks": 8, **settings})
    return tuple(chosen.dispatched("train", 0, seed) for seed in range(count))


def job_time(env: TaskEnv, e: int) -> float:
    """Total time of the jobs of the episode that environment e has ended."""
    return float(env.ended[e]) * 4


def columns(env: TaskEnv, e: int = 0) -> dict[str, np.ndarray]:
    """Every feature of the candidates of an environment."""
    rows = env.observation[e, len(WORLD) :].reshape(env.num_choices, -1)
    return dict(zip(COLUMNS, rows.T, strict=True))


@pytest.mark.parametrize("settings", [{}, {"noise": 0.3}], ids=["expected", "noise"])
def test_task_environment_keeps_the_contract(settings: dict[str, object]):
    setup = TaskSetup(streams(5, **settings), SMALL)
    check_environment(lambda: TaskEnv(setup, 3), job_time=job_time)


def test_following_a_rule_costs_about_what_the_rule_costs():
    problems = streams(4, jobs=10, tasks=15)
    env = TaskEnv(TaskSetup(problems), 4)
    rule = env.known.rule._replace(look=LOOK)
    ended = np.full(4, np.nan)
    while np.isnan(ended).any():
        env.step(env.follow(rule))
        ended = np.where(np.isnan(ended), env.ended, ended)
    wanted = np.mean([run_one(priced, problem, realise(problem, 0)).mean_jct for problem in problems])
    assert ended.mean() == pytest.approx(wanted, rel=0.05)


def test_following_the_base_rule_is_what_its_weights_do():
    problems = streams(2, jobs=8, tasks=15)
    env = TaskEnv(TaskSetup(problems, base=ES), 2)
    starts = 0
    for _ in range(60):
        for e in range(2):
            own = catalog.task_dispatcher("es")
            rule = own.rule(env.problems, new_task_state(env.tasks), [0, 0])
            rule = rule._replace(price=env.known.rule.price)
            task, device = first_start(rule, env.tasks, env.facts, env.state, int(env.plays[e]))
            k = int(env.follow(env.known.base)[e, 0])
            if task >= 0:
                starts += 1
                buffers = env.snapshot()
                assert buffers["task"][e, k] == task
                assert env.tasks.pool[buffers["device"][e, k]] == env.tasks.pool[device]
        env.step(env.follow(env.known.base))
    assert starts > 30


def test_candidates_are_listed_by_the_weights_of_the_base_rule():
    problems = streams(1, jobs=8, tasks=15)
    env = TaskEnv(TaskSetup(problems, CandidateSight(tasks=8, pools=1), base=ES), 1)
    longest = 0
    for _ in range(60):
        size = int(env.state.num_ready[0])
        order, scores = np.zeros(size, np.int64), np.zeros(size)
        write_ready(env.known.rule, env.tasks, env.state, 0, order, scores)
        found = env.snapshot()
        listed = found["task"][0, : found["count"][0, 0]].tolist()
        at = [order.tolist().index(i) for i in listed]
        assert at == sorted(at)
        behind = columns(env)["behind the first in order"][: len(listed)]
        wanted = np.minimum(scores[at] - scores[at[0]], 8.0)
        assert behind.tolist() == wanted.astype(np.float32).tolist()
        longest = max(longest, len(listed))
        env.step(env.follow(env.known.base))
    assert longest > 3


@pytest.mark.parametrize("base", [PRICED[:-2], (*PRICED[:-1], float("nan")), ("a",) * len(PRICED)])
def test_setup_refuses_what_are_no_weights(base: tuple[float, ...]):
    with pytest.raises(InputError, match="base: expected 24, 30, 31 or 36 finite numbers, got"):
        TaskSetup(streams(1), base=base)


@pytest.mark.parametrize("base", [PRICED, ES], ids=["priced", "es"])
@pytest.mark.parametrize("sight", [CandidateSight(), CandidateSight(tasks=2, pools=1)], ids=["all", "few"])
@pytest.mark.parametrize("waits", [True, False])
def test_choice_of_the_base_rule_is_listed_and_marked(
    sight: CandidateSight, waits: bool, base: tuple[float, ...]
):
    setup = TaskSetup(streams(3, jobs=6, tasks=15, noise=0.3), sight, waits=waits, base=base)
    env = TaskEnv(setup, 3)
    rng = np.random.default_rng(0)
    for step in range(120):
        rows = env.observation[:, env.num_world :].reshape(3, env.num_choices, -1)[..., env.base_column]
        assert rows.sum(axis=1).tolist() == [1.0] * 3
        marked = rows.argmax(axis=1)
        assert env.mask[np.arange(3), 0, marked].all()
        if waits:
            assert marked.tolist() == env.follow(env.known.base)[:, 0].tolist()
        chance = [[rng.choice(np.flatnonzero(mask[0]))] for mask in env.mask]
        env.step(np.array(chance) if step % 3 == 0 else marked[:, None])


def test_candidates_are_what_can_start_now_with_expected_times():
    builder = GraphBuilder("two")
    builder.task("long", times={"slow": 8.0, "fast": 4.0})
    builder.task("short", times={"slow": 2.0, "fast": np.inf})
    cluster = Cluster.uniform((DeviceClass("slow"), DeviceClass("fast")), (3, 1))
    env = TaskEnv(TaskSetup((Problem(builder.build(), cluster),), SMALL), 1)
    seen = columns(env)
    assert env.mask[0, 0].sum() == 3  # long on either class, short on slow; nothing runs, so no wait
    assert seen["starts"][:3].tolist() == [1.0, 1.0, 1.0]
    assert sorted(np.exp(seen["run time over the shortest"][:3]).round(6).tolist()) == [1.0, 1.0, 2.0]
    assert np.expm1(sorted(seen["run time"][:3])) == pytest.approx(np.array([2.0, 4.0, 8.0]) / 3.0)
    env.step(np.array([[0]]))
    assert env.elapsed[0] == 0.0
    assert env.mask[0, 0, -1]


def test_wait_is_over_when_something_ends():
    builder = GraphBuilder("one")
    builder.task("a", times={"cpu": 5.0})
    builder.task("b", times={"cpu": 1.0})
    env = TaskEnv(
        TaskSetup((Problem(builder.build(), Cluster.uniform((DeviceClass("cpu"),), (2,))),), SMALL), 1
    )
    env.step(np.array([[0]]))
    reward, done = env.step(np.array([[env.num_choices - 1]]))
    assert (env.elapsed[0], reward[0], done[0]) in [(5.0, -5.0, False), (1.0, -1.0, False)]


def test_more_jobs_in_the_system_cost_more():
    builder = GraphBuilder("one")
    builder.task("a", times={"cpu": 4.0})
    graph = builder.build()
    problem = Problem([Job(graph, "x"), Job(graph, "y", 1.0)], Cluster.uniform((DeviceClass("cpu"),), (1,)))
    env = TaskEnv(TaskSetup((problem,), SMALL), 1)
    total = [env.step(np.array([[0]]))[0][0] for _ in range(2)]
    assert total == [-7.0, -4.0]  # x alone for 1, both for 3, y alone for 4
    assert env.ended[0] == pytest.approx(5.5)


def due_stream() -> Problem:
    found = streams(1, deadline=2.0, noise=0.3)[0]
    return found.replaced(
        cluster=found.cluster.replaced(classes=tuple(replace(c, slots=2) for c in found.cluster.classes))
    )


@pytest.mark.parametrize("of", ["jobs", "elapsed"])
def test_terms_of_the_reward_are_those_of_the_schedule(of: str):
    """Summed over an episode: time, busy time, imbalance step by step and misses, from the rows that ended."""
    weights = {"time": 2.0, "busy": 3.0, "imbalance": 5.0, "misses": 7.0}
    setup = TaskSetup((due_stream(),), SMALL, 0.5, 4.0, reward=Reward(of=of, **weights))
    env, rng = TaskEnv(setup, 1), np.random.default_rng(0)
    devices = env.problems[0].cluster.num_devices
    times, done, total = [0.0], False, 0.0
    while not done:
        reward, over = env.step(np.array([[rng.choice(np.flatnonzero(env.mask[0, 0]))]]))
        done, total = bool(over[0]), total + float(reward[0])
        times.append(times[-1] + float(env.elapsed[0]) * 4.0)
    terms = env.report()
    steps = len(times) - 1
    assert total == pytest.approx(sum(terms[f"reward_{name}"] for name in TERMS) * steps, rel=1e-4)
    counted = job_time(env, 0) if of == "jobs" else times[-1]
    assert terms["reward_time"] * steps == pytest.approx(-0.5 * 2.0 * counted, rel=1e-4)
    again = TaskEnv(setup, 1)
    busy, uneven, misses = np.zeros(devices), 0.0, 0
    rng = np.random.default_rng(0)
    for step in range(steps):
        again.step(np.array([[rng.choice(np.flatnonzero(again.mask[0, 0]))]]))
        if step == steps - 1:
            break  # the state is that of the next episode
        s, w, now = again.state, again.tasks, float(again.state.now[0])
        busy[:] = 0.0
        for row in np.flatnonzero(s.row_status[: s.num_rows[0]] > 0):
            end = s.row_finish[row] if s.row_status[row] == 2 else now
            busy[s.row_device[row]] += max(min(end, now) - s.row_start[row], 0.0) / 2.0
        if now > times[step]:
            uneven += busy.std() / now * (now - times[step])
        late = s.job_finish - w.job_release > [job.deadline for job in again.problems[0].jobs]
        misses = int(late.sum())
    found = again.report()
    assert found["reward_imbalance"] * steps <= -0.5 * 5.0 * uneven + 1e-6
    assert found["reward_misses"] * steps <= -0.5 * 7.0 * 4.0 * misses + 1e-6
    assert 0 < found["reward_busy"] * steps < 0.5 * 3.0 * times[-1]


def test_reward_refuses_weights_below_zero():
    with pytest.raises(InputError, match=r"reward.busy: expected a finite number >= 0, got -1"):
        Reward(busy=-1.0)


def test_sight_refuses_nothing_to_see():
    with pytest.raises(InputError, match=r"sight.tasks: expected a whole number from 1 to 1024, got 0"):
        TaskSetup(streams(1), CandidateSight(tasks=0))


@pytest.mark.parametrize("field", ["reward_scale", "time_unit"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), True])
def test_setup_refuses_scales_that_are_no_numbers_above_zero(field: str, value: float):
    with pytest.raises(InputError, match=f"{field}: expected a number > 0, got {value!r}"):
        TaskSetup(streams(1), **{field: value})


def test_environment_refuses_to_be_none():
    with pytest.raises(InputError, match="num_envs: expected a whole number >= 1, got 0"):
        TaskEnv(TaskSetup(streams(1)), 0)


@pytest.mark.parametrize("action", [-5, 1_000_000])
def test_environment_refuses_choices_that_do_not_exist(action: int):
    env = TaskEnv(TaskSetup(streams(1)), 2)
    with pytest.raises(InputError, match=f"actions: expected 0 to {env.num_choices - 1}, got {action}"):
        env.step(np.array([[0], [action]]))


# -- Gymnasium --------------------------------------------------------------------------------------------


def gym_env(**settings: object) -> StreamEnv:
    chosen = {"load": 0.8, "jobs": 4, "tasks": 8, **settings}
    return weft.make_env("workflows", streams=3, sight=SMALL, **chosen)


def test_wait_can_be_ruled_out():
    env = gym_env(waits=False)
    env.reset(seed=1)
    is_over = False
    while not is_over:
        assert not env.action_masks()[-1]
        _, _, is_over, _, _ = env.step(np.int64(0))


def test_single_passes_gymnasium_checker():
    check_env(gym_env(), skip_render_check=True)


def test_problems_without_arrivals_are_an_environment_too():
    env = gym_env(load=0)
    env.reset(seed=1)
    assert env.action_masks().any()


def test_single_mask_is_what_the_space_samples_with():
    env = gym_env()
    _, info = env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(20):
        action = env.action_space.sample(info["action_mask"])
        assert env.action_masks()[action]
        *_, info = env.step(action)


def test_vector_equals_single_environments_step_by_step():
    setup = TaskSetup(streams(3), SMALL)
    ours = make(setup, "vector", 2)
    theirs = SyncVectorEnv([lambda: make(setup)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    observation, infos = ours.reset(seed=11)
    other, _ = theirs.reset(seed=11)
    num_ended = 0
    while num_ended < 3:
        np.testing.assert_array_equal(observation, other)
        action = infos["action_mask"].argmax(axis=1)
        observation, reward, terminated, _, infos = ours.step(action)
        other, its, *_ = theirs.step(action)
        np.testing.assert_array_equal(reward, its)
        num_ended += int(terminated.sum())


def test_agents_are_refused():
    with pytest.raises(InputError, match="expected single or vector: no device decides about single tasks"):
        weft.make_env("workflows", "agents", load=0.8, jobs=2, tasks=8)


def mean_of(env: StreamEnv, model: MaskablePPO | None, seeds: range) -> float:
    """Mean job time of a model, or of chance."""
    found, rng = [], np.random.default_rng(0)
    for seed in seeds:
        observation, info = env.reset(seed=seed)
        while "mean_jct" not in info:
            masks = env.action_masks()
            if model is None:
                action = rng.choice(np.flatnonzero(masks))
            else:
                action, _ = model.predict(observation, action_masks=masks, deterministic=True)
            observation, *_, info = env.step(action)
        found.append(info["mean_jct"])
    return float(np.mean(found))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("steps", "share"), [(1_024, 1.5), pytest.param(40_000, 1.0, marks=pytest.mark.slow)]
)
def test_maskable_ppo_learns_on_single_tasks(steps: int, share: float):
    environments = make_vec_env(lambda: gym_env(waits=False), n_envs=4, seed=1)
    model = MaskablePPO("MlpPolicy", environments, 1e-3, n_steps=128, batch_size=256, seed=1, device="cpu")
    model.learn(steps)
    held_out = gym_env(split="validation", waits=False)
    assert mean_of(held_out, model, range(4)) < share * mean_of(held_out, None, range(4))
