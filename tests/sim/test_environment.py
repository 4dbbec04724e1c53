"""Many streams in one call: paired draws, features, masks, rewards, snapshots."""

from __future__ import annotations

import numpy as np
import peer
import pytest

from weft.errors import InputError
from weft.model.arrivals import Arrivals
from weft.model.graph import Ints
from weft.sim.queues.environment import REWARDS, QueueEnv, Setup, _start_all, _step_all
from weft.sim.queues.kernel import (
    COMPLETED,
    EXPIRED,
    JOB_TIME,
    LAST_KIND,
    NOW,
    QUEUE_TIME,
    advance,
    apply_action,
)
from weft.sim.queues.layout import Rules
from weft.sim.queues.observation import Sight

NUM_KINDS = 6
FULL_SIGHT = Sight(flags=True, last_kind=True, devices=True, device_kinds=True, age_scale=100.0)


def make_setup(num_jobs: int = 60, **changes: object) -> Setup:
    """The conditional stream with few jobs."""
    fields = {
        "problem": peer.problem(),
        "arrivals": Arrivals("normal", num_jobs, peer.GAP, peer.SPREAD),
        "rules": peer.RULES,
        **changes,
    }
    return Setup(**fields)  # type: ignore[arg-type]


def random_actions(env: QueueEnv, rng: np.random.Generator) -> Ints:
    """Allowed choices, each as likely."""
    weight = rng.random(env.mask.shape) * env.mask
    return weight.argmax(axis=2)


def fifo_like(env: QueueEnv) -> Ints:
    """The first allowed choice of every device: no chance in it."""
    return env.mask.argmax(axis=2)


def test_episode_does_not_depend_on_other_environments():
    few, many = (QueueEnv(make_setup(), count, seed=7, staggered=False) for count in (2, 5))
    rng = np.random.default_rng(0)
    for _ in range(300):  # goes through the ends of episodes
        assert few.observation.tobytes() == many.observation[:2].tobytes()
        actions = random_actions(many, rng)
        actions[:2] = fifo_like(few)
        few.step(fifo_like(few))
        many.step(actions)
    assert few.state.count[:2, COMPLETED].tolist() == many.state.count[:2, COMPLETED].tolist()


def test_draws_do_not_depend_on_actions():
    one, other = QueueEnv(make_setup(), 3, seed=7), QueueEnv(make_setup(), 3, seed=7)
    rng = np.random.default_rng(0)
    for _ in range(20):
        one.step(fifo_like(one))
        other.step(random_actions(other, rng))
    assert one.state.arrival.tobytes() == other.state.arrival.tobytes()
    assert one.state.seed.tolist() == other.state.seed.tolist()


def test_same_seed_gives_same_episodes_again():
    env = QueueEnv(make_setup(), 2, seed=3)
    first = env.observation.copy()
    env.step(fifo_like(env))
    env.reset(3)
    assert env.observation.tobytes() == first.tobytes()


def test_other_seed_gives_other_episodes():
    one, other = (QueueEnv(make_setup(), 2, seed=seed, staggered=False) for seed in (3, 4))
    assert not np.intersect1d(one.state.arrival, other.state.arrival).size


def test_array_of_seeds_gives_every_environment_what_it_has_alone():
    env = QueueEnv(make_setup(), 3, staggered=False)
    env.reset(np.array([5, 9, 5]))
    alone = QueueEnv(make_setup(), 1, seed=9, staggered=False)
    assert env.state.arrival[1].tobytes() == alone.state.arrival[0].tobytes()
    assert env.state.arrival[0].tobytes() == env.state.arrival[2].tobytes()


def test_reset_without_seed_goes_on_to_the_next_episode():
    env, stepped = (QueueEnv(make_setup(), 1, seed=9, staggered=False) for _ in range(2))
    env.reset(None)
    while not stepped.done[0]:
        stepped.step(fifo_like(stepped))
    assert env.state.arrival.tobytes() == stepped.state.arrival.tobytes()


@pytest.mark.parametrize("kind", ["normal", "poisson", "periodic"])
def test_arrivals_are_those_of_the_model(kind: str):
    law = Arrivals(kind, 200, gap=8.0, spread=4.0 if kind == "normal" else 0.0)
    env = QueueEnv(make_setup(arrivals=law), 2, seed=5, staggered=False)
    for b in range(2):
        np.testing.assert_allclose(env.state.arrival[b], law.draw(int(env.state.seed[b])), rtol=1e-12)


def test_snapshot_continues_byte_equal():
    env = QueueEnv(make_setup(), 4, seed=1)
    rng = np.random.default_rng(0)
    for _ in range(50):
        env.step(random_actions(env, rng))
    snapshot = env.snapshot()
    other = QueueEnv(make_setup(), 4, seed=99)
    other.restore(snapshot)
    for _ in range(150):
        for each in (env, other):
            each.step(fifo_like(each))
        assert {k: v.tobytes() for k, v in env.snapshot().items()} == {
            k: v.tobytes() for k, v in other.snapshot().items()
        }


def test_snapshot_is_a_copy():
    env = QueueEnv(make_setup(), 1, seed=1)
    snapshot = env.snapshot()
    before = {name: array.tobytes() for name, array in snapshot.items()}
    env.step(fifo_like(env))
    assert {name: array.tobytes() for name, array in snapshot.items()} == before


def test_first_episodes_are_staggered_and_later_ones_are_full():
    env = QueueEnv(make_setup(40), 4, seed=0)
    assert env.state.jobs.tolist() == [10, 20, 30, 40]
    while not env.done[0]:
        env.step(fifo_like(env))
    assert env.state.jobs.tolist() == [40, 20, 30, 40]


def test_mask_allows_waiting_kinds_on_free_devices_and_idle_always():
    env = QueueEnv(make_setup(), 3, seed=2)
    rng = np.random.default_rng(0)
    for _ in range(100):
        s = env.state
        is_free = s.free_at <= s.total[:, NOW, None]
        expected = is_free[:, :, None] & (s.queued > 0)[:, None, :]
        assert (env.mask[:, :, :NUM_KINDS] == expected).all()
        assert env.mask[:, :, NUM_KINDS].all()
        env.step(random_actions(env, rng))


def feature(env: QueueEnv, name: str) -> float:
    """A feature of environment 0, from the state and its name alone."""
    s, kinds = env.state, "ABCDEF"
    now, scale = s.total[0, NOW], env.setup.sight.age_scale
    what, *words = name.rsplit(" ", 2) if name.startswith("runs") else name.rsplit(" ", 1)
    k = kinds.find(words[-1])
    ages = (
        [now - s.arrival[0, item // NUM_KINDS] for item in s.queue[0, k, : s.queued[0, k]]] if k >= 0 else []
    )
    if what.startswith("age"):
        return ages[int(what[3:])] / scale if int(what[3:]) < len(ages) else 0.0
    if what == "branch":
        return s.seen[0, 0, 1] / (s.seen[0, 0, 0] + 1.0)
    p = int(words[0]) if what in ("free in", "batch", "runs") else 0
    is_running = s.free_at[0, p] > now and s.running_kind[0, p] >= 0
    return {
        "mean age": np.mean(ages) / scale if ages else 0.0,
        "length": min(len(ages) / 50.0, 1.0),
        "waits": float(bool(ages)),
        "last": float(s.count[0, LAST_KIND] == k),
        "free in": max(s.free_at[0, p] - now, 0.0) / scale,
        "batch": s.running_size[0, p] / env.stream.batch[p] if is_running else 0.0,
        "runs": float(is_running and s.running_kind[0, p] == k),
    }[what]


def test_features_are_what_their_names_say():
    env = QueueEnv(make_setup(sight=FULL_SIGHT), 1, seed=2)
    rng = np.random.default_rng(0)
    for _ in range(60):
        expected = [feature(env, name) for name in env.feature_names]
        np.testing.assert_allclose(env.observation[0], expected, rtol=1e-5, err_msg=str(env.feature_names))
        env.step(random_actions(env, rng))


def reward_by_hand(env: QueueEnv, kind: str, before: np.ndarray, done_before: np.ndarray) -> float:
    """Reward of the last step of environment 0, from the state before and after."""
    if kind == "mean-wait":
        queued = env.state.queued[0]
        jobs = np.concatenate([env.state.queue[0, k, :n] for k, n in enumerate(queued)]) // NUM_KINDS
        return -float((env.state.total[0, NOW] - env.state.arrival[0, jobs]).mean()) if len(jobs) else 0.0
    s = env.state
    if kind == "queued":
        return -(s.total[0, NOW] - before[NOW]) * s.queued[0].sum()
    if kind == "in-system":
        return before[JOB_TIME] - s.total[0, JOB_TIME]
    if kind == "waiting":
        return before[QUEUE_TIME] - s.total[0, QUEUE_TIME]
    new = np.flatnonzero(~np.isnan(s.finish[0]) & np.isnan(done_before))
    if not len(new):
        return 0.0
    latest = s.finish[0, new].max()
    job = max(j for j in new if s.finish[0, j] == latest)
    return s.arrival[0, job] - latest


@pytest.mark.parametrize("kind", REWARDS)
def test_reward_is_what_its_name_says(kind: str):
    env = QueueEnv(make_setup(reward=kind, reward_scale=0.5), 1, seed=2)
    rng = np.random.default_rng(0)
    for _ in range(60):
        before, finish = env.state.total[0].copy(), env.state.finish[0].copy()
        reward, _ = env.step(random_actions(env, rng))
        assert reward[0] == pytest.approx(0.5 * reward_by_hand(env, kind, before, finish), rel=1e-5)


def test_expiry_in_a_step_costs_one():
    rules = Rules(expiry=20.0, idle_block=10.0)
    env = QueueEnv(make_setup(rules=rules, reward_scale=0.0), 1, seed=2)
    num_expired = 0
    while num_expired < 40:
        reward, _ = env.step(np.full((1, 4), NUM_KINDS))
        assert reward[0] == (-1.0 if env.state.count[0, EXPIRED] > num_expired else 0.0)
        num_expired = int(env.state.count[0, EXPIRED])


def test_ended_is_the_mean_job_time():
    env = QueueEnv(make_setup(), 1, seed=2, staggered=False)
    twin = QueueEnv(make_setup(), 1, seed=2, staggered=False)
    while True:
        action = fifo_like(env)
        env.step(action)
        if env.done[0]:
            break
        twin.step(action)
    apply_action(twin.stream, twin.state, 0, action[0])
    advance(twin.stream, twin.state, 0)
    assert env.ended[0] == pytest.approx((twin.state.finish[0] - twin.state.arrival[0]).mean())


def test_probability_is_drawn_anew_for_every_episode():
    env = QueueEnv(make_setup(10, low=0.2, high=0.4, varies=True), 200, seed=2, staggered=False)
    drawn = env.state.probability[:, 3]
    assert 0.2 <= drawn.min() < 0.22
    assert 0.38 < drawn.max() <= 0.4
    np.testing.assert_allclose(env.state.probability[:, 3:].sum(axis=1), 1.0)


def test_too_many_jobs_at_once_are_refused():
    env = QueueEnv(make_setup(arrivals=Arrivals("periodic", 3000, gap=0.001)), 1, staggered=False)
    with pytest.raises(InputError, match="more jobs at once"):
        env.step(np.full((1, 4), NUM_KINDS))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"reward": "none"}, "reward"),
        ({"low": 0.5, "high": 0.2}, "low"),
    ],
)
def test_setup_refuses(changes: dict[str, object], field: str):
    with pytest.raises(InputError) as caught:
        make_setup(**changes)
    assert caught.value.field == field


def test_kernels_have_one_signature():
    for setup in (
        make_setup(),
        make_setup(sight=FULL_SIGHT, low=0.1, high=0.9, varies=True, reward="waiting"),
    ):
        env = QueueEnv(setup, 2, seed=1)
        env.step(fifo_like(env))
    assert len(_start_all.signatures) == 1
    assert len(_step_all.signatures) == 1


@pytest.mark.parametrize("law", [Arrivals("once", 5), Arrivals("trace", 3, times=(4.0, 1.0, 2.5))], ids=str)
def test_given_arrivals_are_those_of_every_episode(law: Arrivals):
    env = QueueEnv(make_setup(arrivals=law), 2, seed=1)
    for _ in range(40):
        assert env.state.arrival.tolist() == [law.draw(0).tolist()] * 2
        env.step(fifo_like(env))


def test_narrowing_leaves_later_devices_what_earlier_ones_leave():
    env = QueueEnv(make_setup(arrivals=Arrivals("once", 2), narrows=True), 1, seed=1, staggered=False)
    assert env.narrow is not None
    mask = env.mask.copy()
    env.narrow(mask, 0, np.array([0]))
    assert mask[0, 1:, 0].tolist() == [True] * 3
    env.narrow(mask, 1, np.array([0]))
    assert mask[0, 2:, 0].tolist() == [False] * 2
    assert mask[0, :, -1].all()


def test_environment_does_not_narrow_unless_asked():
    assert QueueEnv(make_setup(), 1).narrow is None
