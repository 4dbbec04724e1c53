"""What episodes of pipelines earn: by a base rule, and by whoever plays them, without what the potential adds.

Rewards are shaped by a potential that is discounted, so that its differences do not cancel over an episode: they give back
a large part of what missed deadlines cost. What is compared with the base rule is counted without them. Loads no torch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft import catalog
from weft.model.problem import Problem, realise
from weft.model.schedule import Schedule
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.pipeline_environment import PipelineEnv, PipelineReward
from weft.sim.tasks.pipelines import WEIGHT
from weft.training.environment import Floats

BASE_RULE = "rm-pinned"
"""Whom configurations of pipelines are compared with."""
DRAWS = 4
"""Draws of run times over which its return is averaged."""
_STAGE = 0.1
"""What the faithful reward pays for a stage."""


def rule_returns(problems: Sequence[Problem], reward: PipelineReward, rule: str = BASE_RULE) -> Floats:
    """What a rule earns (num_problems,) in an episode of each of these problems, the mean over draws."""
    dispatcher = catalog.task_dispatcher(rule)
    return np.array(
        [
            np.mean([earned(run_one(dispatcher, one, realise(one, k)), reward) for k in range(DRAWS)])
            for one in problems
        ]
    )


def earned(schedule: Schedule, reward: PipelineReward) -> float:
    """What the environment pays for a schedule, potential left out."""
    series, jobs = schedule.series, _in_series(schedule.problem)
    if not reward.is_faithful:
        return -float((series.interval * (series.counts & series.is_missed))[jobs].sum()) / WEIGHT
    horizon = np.inf if schedule.problem.horizon is None else schedule.problem.horizon
    pays = np.where(series.is_missed, -1.0, 1.0) * (series.finish <= horizon)
    return _STAGE * float((pays * np.diff(schedule.problem.offsets))[jobs].sum())


def at_stake(problem: Problem, reward: PipelineReward) -> float:
    """What all deadlines of an episode together are worth."""
    horizon = np.inf if problem.horizon is None else problem.horizon
    jobs = [problem.jobs[j] for j in _in_series(problem)]
    due = [job for job in jobs if job.release + (job.deadline or 0.0) <= horizon]
    if reward.is_faithful:
        return _STAGE * sum(job.graph.num_tasks for job in due)
    return sum(job.interval or job.deadline or 1.0 for job in due) / WEIGHT


def _in_series(problem: Problem) -> list[int]:
    return [j for j, job in enumerate(problem.jobs) if job.series]


class Unshaped:
    """Takes the potential out of sums of rewards; a :class:`weft.training.distributed.leases.Correction`.

    A step is paid exp(- elapsed / tau) x potential after it - potential before it, and the potential is 0 at the end: over an
    episode that is minus the first potential, minus (1 - exp(- elapsed / tau)) x potential after every step but the last.

    Parameters
    ----------
    scale
        What rewards are multiplied by before they are summed up.
    """

    def __init__(self, env: PipelineEnv, scale: float) -> None:
        self._env = env
        self._scale = scale if env.setup.reward.is_shaped else 0.0

    def at_first(self) -> Floats:
        """Of an episode (B,) that has just begun."""
        return np.asarray(self._scale * self._env.buffers.level)

    def after_step(self) -> Floats:
        """Of a step (B,) that did not end its episode."""
        setup = self._env.setup
        elapsed = self._env.elapsed.astype(np.float64) * setup.time_unit
        return np.asarray(-self._scale * np.expm1(-elapsed / setup.reward.tau) * self._env.buffers.level)
