"""Many problems in one batch: the same episodes as alone, threads, snapshots."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import InputError
from weft.model.arrivals import Arrivals
from weft.model.conditional import SIZES, random_stream
from weft.sim.queues.environment import QueueEnv, Setup
from weft.sim.queues.kernel import NEXT_JOB
from weft.sim.queues.mixed_environment import ManyEnv
from weft.sim.queues.observation import Sight


def setup_of(seed: int, sight: Sight | None = None) -> Setup:
    found = random_stream(seed, SIZES["usual"])
    arrivals = Arrivals("poisson", 30, found.gap)
    return Setup(found.problem, arrivals, sight=sight or Sight(graph=True), waits=True, reward="in-system")


def many(threads: int = 1, seed: int = 3) -> ManyEnv:
    return ManyEnv([setup_of(i) for i in range(4)], 2, seed, reference=np.ones(4), threads=threads)


def step(env: ManyEnv | QueueEnv, times: int = 1) -> None:
    """The first allowed choice of every head."""
    for _ in range(times):
        env.step(env.mask.argmax(axis=2))


def test_problem_goes_as_it_would_alone():
    env = many()
    part = env.envs[2]
    alone = QueueEnv(part.setup, 2)
    alone.reset(3 * env.num_envs + np.array([4, 5]))
    for _ in range(80):
        assert env.observation[4:6].tobytes() == alone.observation.tobytes()
        assert env.mask[4:6].tobytes() == alone.mask.tobytes()
        step(env)
        step(alone)
        assert env.reward[4:6].tobytes() == alone.reward.tobytes()


def test_threads_change_nothing():
    one, three = many(), many(threads=3)
    for _ in range(50):
        step(one)
        step(three)
    assert one.observation.tobytes() == three.observation.tobytes()
    assert one.report() == three.report()


def test_snapshot_brings_everything_back():
    env = many()
    step(env, 20)
    snapshot = env.snapshot()
    step(env, 30)
    after = env.observation.tobytes(), env.elapsed.tobytes()
    other = many(seed=9)
    other.restore(snapshot)
    step(other, 30)
    assert (other.observation.tobytes(), other.elapsed.tobytes()) == after


def test_elapsed_is_in_run_times_of_the_problem():
    env = many()
    step(env, 5)
    scale = [each.setup.problem.mean_run_times.mean() for each in env.envs]
    assert env.elapsed == pytest.approx(env.passed / np.repeat(scale, 2), rel=1e-6)


def test_problems_without_a_graph_sight_are_refused():
    with pytest.raises(InputError, match="expected problems observed by a graph sight"):
        ManyEnv([setup_of(0, Sight())], 2, reference=np.ones(1))


def test_credit_counts_every_arrival_once():
    plain = many()
    paid = ManyEnv([setup_of(i) for i in range(4)], 2, 3, reference=np.ones(4), credit=np.ones(4))
    total = np.zeros(paid.num_envs)
    for _ in range(400):
        state = paid.envs[0].state
        left = state.jobs[0] - state.count[0, NEXT_JOB]
        step(plain)
        step(paid)
        more = paid.reward - plain.reward
        total += more
        if paid.done[0]:
            assert more[0] == pytest.approx(left, abs=1e-3)
    assert (total >= 30).all()
