"""Configurations of pipelines have a reference: what a rule earns, in the units of what episodes are reported to earn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft import catalog
from weft.errors import InputError
from weft.model.problem import Problem, realise
from weft.policies.candidates.architecture import Q
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.layout import schedule_of
from weft.sim.tasks.pipeline_environment import PipelineEnv, PipelineReward, PipelineSetup
from weft.training.candidates.recipe import TaskRecipe
from weft.training.candidates.setup import candidate_card
from weft.training.distributed.apex import Apex
from weft.training.distributed.config import Distributed
from weft.training.distributed.curriculum import Curriculum
from weft.training.distributed.leases import Lease, LeaseReport, Seats
from weft.training.distributed.local import LocalTransport
from weft.training.distributed.pipeline_returns import Unshaped, at_stake, earned, rule_returns
from weft.training.distributed.run import grid_of, maker_of
from weft.training.distributed.scheduler import ConfigScheduler
from weft.training.recipes import read_recipe

SCALE = 2.0
TINY = {
    "configuration": [0, 13, 40, 80],
    "horizon": 300.0,
    "streams": 4,
    "samples": 2048,
    "num_envs": 4,
    "num_steps": 64,
    "warmup": 100,
    "replay": 512,
    "minibatch": 32,
    "validation.every": 100,
    "validation.seeds": 1,
}


def board(configuration: int, horizon: float = 400.0) -> Problem:
    return scenario("adas-tx2", configuration=configuration, horizon=horizon).problem("train", 0)


class Watched(PipelineEnv):
    """Keeps what the schedule of every episode is worth, when the next one begins."""

    def _begin(self, which: np.ndarray) -> None:
        if not hasattr(self, "worth"):
            self.worth: list[float] = []
        elif self.done.any():
            for e in which.tolist():
                b = int(self.plays[e])
                problem = self.problems[b]
                found = schedule_of(problem, realise(problem, 0), self.world.w, self.world.s, b)
                self.worth.append(earned(found, self.setup.reward))
        super()._begin(which)


class Played:
    """A step as it is learned from."""

    error = None

    def __init__(self, reward: np.ndarray, done: np.ndarray) -> None:
        self.reward, self.discount = reward * np.float32(SCALE), np.where(done, 0.0, 0.9)


@pytest.mark.parametrize(
    "reward",
    [
        PipelineReward(tau=80.0),
        PipelineReward(tau=80.0, is_shaped=False),
        PipelineReward(tau=80.0, is_faithful=True),
        PipelineReward(tau=80.0, is_shaped=False, is_faithful=True),
    ],
)
def test_episodes_are_reported_to_earn_what_their_schedules_are_worth(reward: PipelineReward):
    """The first candidate is always taken: a simple policy, which misses deadlines."""
    env = Watched(PipelineSetup((board(0), board(40)), reward=reward), 2, shared=True)
    seats = Seats(env, [np.array([0, 1])] * 2, correction=Unshaped(env, SCALE))
    seats.take([Lease(k, k % 2, 1) for k in range(6)])
    reports = []
    while len(reports) < 4:
        paid, done = env.step(np.zeros((2, 1), np.int64))
        seats.note(Played(paid, done))
        reports += seats.reports()
    assert [one.total for one in reports] == pytest.approx(SCALE * np.array(env.worth), abs=1e-4)
    assert min(env.worth) < 0.0


def test_rule_earns_minus_the_intervals_it_misses():
    problem, reward = board(0, 1000.0), PipelineReward()
    found = run_one(catalog.task_dispatcher("rm-pinned"), problem, realise(problem, 0))
    missed = 0.0
    for j, job in enumerate(problem.jobs):
        end = found.first_finish[problem.offsets[j] : problem.offsets[j + 1]].max()
        if job.release + job.deadline <= problem.horizon and not end <= job.release + job.deadline:
            missed += job.interval / 100.0
    assert earned(found, reward) == pytest.approx(-missed)
    assert missed > 0.0
    assert 0.0 < -rule_returns([problem], reward)[0] < at_stake(problem, reward)


def recipe_of(**changes: object) -> TaskRecipe:
    return read_recipe("adas-dqn", {**TINY, **changes})  # type: ignore[return-value]


def test_configurations_of_pipelines_are_known_by_what_the_rule_earns():
    recipe = recipe_of(horizon=1500.0)
    grid = grid_of(recipe, maker_of(recipe, is_leased=True))
    assert np.isfinite(grid.reference).all() and len(set(grid.reference.tolist())) > 1
    assert grid.reference.max() <= 0.0 and grid.reference[0] == grid.reference.min()  # the shortest periods
    problem = recipe.by_cell("train", [1] * 4)[0][0]
    assert grid.reference[0] == pytest.approx(
        recipe.config.reward_scale * rule_returns([problem], recipe.reward)[0]
    )


@pytest.mark.parametrize("order", ["regret", "easy"])
def test_one_actor_gives_regrets_that_differ(order: str):
    recipe = recipe_of()
    maker = maker_of(recipe, is_leased=True)
    lends = ConfigScheduler(
        grid_of(recipe, maker), Curriculum(order=order, episodes=1, exploration="ladder"), ["actor-0"], 1
    )
    spread = replace(Distributed(), engine="local", actors=1)
    learner = Apex(
        LocalTransport(),
        maker,
        recipe.config,
        spread,
        seed=1,
        card=candidate_card(recipe, Q),
        scheduler=lends,
    )
    try:
        for _ in range(learner.num_updates):
            learner.step()
    finally:
        learner.close()
    known = lends.scores()[lends.episodes > 0]
    assert len(known) > 1 and len(set(known.tolist())) > 1
    assert known.max() <= 1.0  # of all that deadlines are worth


def test_easy_grows_by_the_reference_and_not_by_episodes_alone():
    recipe = recipe_of()
    grid = grid_of(recipe, maker_of(recipe, is_leased=True))
    made = ConfigScheduler(grid, Curriculum(order="easy", uniform_share=0.0, rise=0.25), ["actor-0"])
    for _ in range(100):
        lease = made.next_lease("actor-0")
        total = float(grid.reference[lease.config] - grid.unit[lease.config])
        made.report("actor-0", LeaseReport(lease.number, lease.config, total, 10, 0.0, True))
    assert (made.episodes > 0).sum() == 1


def test_score_by_errors_needs_errors():
    asked = {"distributed.engine": "local", "curriculum.order": "regret", "curriculum.score": "error"}
    with pytest.raises(
        InputError, match=r"curriculum\.score: 'error' needs first_priority = 'error', or 'auto' with several"
    ):
        recipe_of(**asked)
    assert recipe_of(**asked, first_priority="error").curriculum.needs_errors
    assert recipe_of(**asked, **{"distributed.actors": 2}).curriculum.needs_errors


def test_orders_are_all_named():
    with pytest.raises(
        InputError, match=r"curriculum.order: expected one of '', lexicographic, uniform, gray"
    ):
        Curriculum(order="hard")
