"""What learners need of environments, and what policies owe them, of all that weft has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from training.toy import ToyEnv

from weft import catalog
from weft.policies.learned import load_learned
from weft.scenarios import scenario
from weft.sim.queues.environment import QueueEnv, Setup, setup_of
from weft.sim.queues.mixed_environment import ManyEnv
from weft.sim.queues.observation import Sight
from weft.testing import check_environment, check_policy
from weft.training.environment import BatchEnv


def conditional(**changes: object) -> Setup:
    return replace(setup_of(scenario("conditional", jobs=12).stream("train", 0)), **changes)


def many() -> ManyEnv:
    chosen = scenario("conditional-many", jobs=8)
    setups = [setup_of(chosen.stream("train", k), Sight(graph=True), waits=True) for k in range(2)]
    return ManyEnv(setups, 2, reference=np.ones(2))


ENVIRONMENTS: dict[str, Callable[[], BatchEnv]] = {
    "queues": lambda: QueueEnv(conditional(), 3),
    "queues, one by one": lambda: QueueEnv(conditional(narrows=True), 3),
    "many problems": many,
    "toy": lambda: ToyEnv(3),
    "toy, agents": lambda: ToyEnv(3, num_agents=2),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environment_keeps_the_contract(name: str):
    check_environment(ENVIRONMENTS[name], steps=60)


def test_jobs_in_the_system_are_paid_with_their_time():
    setup = conditional(reward="in-system", reward_scale=1.0)
    check_environment(
        lambda: QueueEnv(setup, 2, staggered=False),
        steps=40,
        job_time=lambda env, e: float(env.ended[e]) * 12,
    )


@pytest.mark.parametrize("name", ["ppo", "conditional-graph"])
def test_policy_keeps_the_contract(name: str):
    learned = load_learned(catalog.policy_file(name))
    case = scenario("conditional", jobs=12).stream("validation", 0)
    setup = setup_of(case, learned.sight, waits=learned.waits, narrows=learned.narrows)
    check_policy(learned.policy, lambda: QueueEnv(setup, 3), steps=30)


class Hasty(ToyEnv):
    """Draws from a generator that its snapshot leaves out."""

    def __init__(self) -> None:
        self._drawn = 0
        super().__init__(2)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        reward, done = super().step(actions)
        self._drawn += 1
        return reward + np.float32(self._drawn), done


def test_state_that_a_snapshot_leaves_out_is_seen():
    with pytest.raises(AssertionError, match="a restored one differs after 1 steps: reward"):
        check_environment(Hasty, steps=10)
