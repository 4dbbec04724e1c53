"""Judges a policy of pipelines while it is trained: greedy, on noise of the validation split, by the deadlines it misses."""

from __future__ import annotations

import numpy as np

from weft import catalog
from weft.model.problem import realise
from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.forward import CandidatePolicy
from weft.policies.candidates.pipelines import miss_shares
from weft.policies.checkpoint import Card, Weights
from weft.scenarios.splits import seed_of
from weft.sim.tasks.pipeline_features import PipelineSight
from weft.training.candidates.recipe import TaskConfig, TaskRecipe
from weft.training.distributed.points import held_out
from weft.training.environment import Floats
from weft.training.run.metrics import Metric


class PipelineJudge:
    """Configurations, validation noise, and what the rules make of them."""

    def __init__(self, recipe: TaskRecipe[TaskConfig]) -> None:
        if not isinstance(recipe.sight, PipelineSight):
            raise TypeError("expected a recipe of pipelines")
        self._sight, seeds = recipe.sight, recipe.validation.seeds
        cells = recipe.by_cell("validation", [1] * len(recipe.cells))
        self._problems = [problem for cell in cells for problem in cell for _ in range(seeds)]
        self._worlds = [
            realise(problem, seed_of("validation", k % seeds + seeds * (k // seeds)))
            for k, problem in enumerate(self._problems)
        ]
        self._seeds = seeds
        self._is_held_out = held_out(len(recipe.cells), recipe.curriculum.held_out)  # (num_points,)
        self.points = tuple(float(k) for k in range(len(self._problems) // seeds))
        self.rules = {name: self._rule_shares(name) for name in recipe.validation.rules}
        """Rule -> shares missed (num_points, num_lines)."""

    def _rule_shares(self, name: str) -> Floats:
        chosen = catalog.task_dispatcher(name)
        found = chosen.run_all(self._problems, self._worlds, [0] * len(self._problems))
        return self._means(np.array([[*one.series.misses.values()] for one in found]))

    def _means(self, shares: Floats) -> Floats:
        """Shares (num_points, num_lines) from those of every run: the mean over seeds."""
        return np.asarray(shares.reshape(len(self.points), self._seeds, -1).mean(axis=1), np.float64)

    def job_times(self, weights: Weights, card: Card) -> Floats:
        """Share of deadlines missed (num_points, num_lines) by a policy that always takes its best choice."""
        if not isinstance(card.architecture, CandidateArchitecture):
            raise TypeError(f"expected a net of candidates, got {type(card.architecture).__name__}")
        policy = CandidatePolicy(weights, card.architecture)
        return self._means(miss_shares(policy, self._sight, self._problems, self._worlds))

    @property
    def reference(self) -> Floats | None:
        """Nothing is drawn by how far a policy trails."""
        return None

    def percent_by_cell(self, times: Floats) -> Floats:
        """Percent of deadlines missed (num_points,) in every configuration, the mean over pipelines."""
        return np.asarray(100.0 * times.mean(axis=1))

    def score(self, times: Floats) -> float:
        """Minus the share missed in percent, the mean over configurations and pipelines; held-out ones choose no policy."""
        return -100.0 * float(times[~self._is_held_out].mean())

    def figures(self, times: Floats) -> dict[str, Metric]:
        every = {"validated": times, **self.rules}
        named = {name: shares[~self._is_held_out] for name, shares in every.items()}
        if self._is_held_out.any():
            named |= {f"{name}_held_out": shares[self._is_held_out] for name, shares in every.items()}
        worst = {"validated_worst": float(named["validated"].max(axis=1).mean())}
        return {**{f"{name}_macro": float(shares.mean()) for name, shares in named.items()}, **worst}
