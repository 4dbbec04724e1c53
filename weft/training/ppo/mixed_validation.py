"""Judges a policy of many problems while it is trained: greedy on problems of the validation split.

Each problem is played on the streams on which its best rule was found, so that the two are paired.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft import catalog
from weft.model.graph import Floats
from weft.policies.checkpoint import Card, Weights
from weft.policies.graph.forward import policy_of
from weft.scenarios.splits import seed_of
from weft.sim.queues.environment import QueueEnv
from weft.training.ppo.validation import play, play_rule
from weft.training.recipes import TRIALS, Recipe
from weft.training.run.metrics import Metric

PROBLEMS, JOBS = 16, 200
"""How much is played at most: problems, and jobs of each stream."""
SEEDS = np.array([seed_of("validation", k) for k in range(TRIALS)], np.int64)
"""Streams of every problem; no training seed has them."""


class ManyJudge:
    """Problems of the validation split, each with the job time of its best rule."""

    def __init__(self, recipe: Recipe) -> None:
        jobs = min(JOBS, int(str(recipe.settings.get("jobs", JOBS))))
        setups = [
            recipe.problem_setup(i, "validation", jobs=jobs) for i in range(min(PROBLEMS, recipe.problems))
        ]
        self.points = tuple(float(i) for i in range(len(setups)))
        self._envs = [QueueEnv(setup, TRIALS, staggered=False) for setup in setups]
        self.reference: Floats = np.array([_best_rule(recipe.rules, env) for env in self._envs])
        """Mean job time (num_problems,) of the best rule of each problem."""

    def job_times(self, weights: Weights, card: Card) -> Floats:
        policy = policy_of(weights, card)
        return np.array([play(policy, _begun(env)).mean() for env in self._envs])

    def score(self, times: Floats) -> float:
        """Percent below the best rule of each problem."""
        return -float(str(self.figures(times)["envelope_percent"]))

    def figures(self, times: Floats) -> dict[str, Metric]:
        """Percent above the best rule of each problem, the geometric mean."""
        return {"envelope_percent": 100.0 * float(np.expm1(np.log(times / self.reference).mean()))}


def _best_rule(names: Sequence[str], env: QueueEnv) -> float:
    """Least mean job time of these rules over the streams of one problem."""
    able = [rule for rule in map(catalog.dispatcher, names) if rule.supports(env.setup.problem) is None]
    return min(float(play_rule(rule, _begun(env), SEEDS).mean()) for rule in able)


def _begun(env: QueueEnv) -> QueueEnv:
    env.reset(SEEDS)
    return env
