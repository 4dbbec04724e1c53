"""Judges a policy that points at candidates while it is trained, on the validation split. Loads no torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft import catalog
from weft.model.problem import Problem, realise
from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.dispatcher import CandidateDispatcher
from weft.policies.candidates.forward import CandidatePolicy
from weft.policies.checkpoint import Card, Weights
from weft.schedulers.dispatchers.tasks import TaskDispatcher, run_one
from weft.sim.tasks.candidates import CandidateSight
from weft.sim.tasks.pipeline_features import PipelineSight
from weft.training.candidates.pipeline_judge import PipelineJudge
from weft.training.candidates.recipe import TaskConfig, TaskRecipe
from weft.training.distributed.points import held_out
from weft.training.environment import Floats
from weft.training.run.metrics import Metric


def judge_of(recipe: TaskRecipe[TaskConfig]) -> TaskJudge | PipelineJudge:
    """Who judges the policies of a recipe."""
    return PipelineJudge(recipe) if isinstance(recipe.sight, PipelineSight) else TaskJudge(recipe)


class TaskJudge:
    """Streams of the validation split, and what the rules make of them."""

    def __init__(self, recipe: TaskRecipe[TaskConfig]) -> None:
        if not isinstance(recipe.sight, CandidateSight):
            raise TypeError("expected a recipe of streams, got one of pipelines")
        self._sight, self._base = recipe.sight, recipe.base_weights
        cells = recipe.by_cell("validation", [recipe.validation.seeds] * len(recipe.cells))
        self._problems = [problem for cell in cells for problem in cell]
        self._ends = np.cumsum([len(cell) for cell in cells])  # (num_cells,)
        self._is_held_out = held_out(len(cells), recipe.curriculum.held_out)  # (num_cells,)
        self.points = tuple(float(k) for k in range(len(self._problems)))
        names = recipe.validation.rules
        self.rules = {name: _job_times(catalog.task_dispatcher(name), self._problems) for name in names}
        """Rule -> mean job times (num_points,)."""

    def job_times(self, weights: Weights, card: Card) -> Floats:
        policy = CandidatePolicy(weights, candidate_shape(card))
        dispatcher = CandidateDispatcher(
            card.name, weights=self._base, profiles=self._sight.profile, policy=policy, sight=self._sight
        )
        return _job_times(dispatcher, self._problems)

    @property
    def reference(self) -> Floats:
        """Mean job times (num_points,) of the rule that is best on average, whatever the cell."""
        return min(self.rules.values(), key=lambda times: float(np.log(self._by_cell(times)).mean()))

    def _by_cell(self, times: Floats) -> Floats:
        """Mean job time (num_cells,) of every cell."""
        return np.array([own.mean() for own in np.split(times, self._ends[:-1])])

    def _percent(self, times: Floats, rule: Floats) -> float:
        """Percent above the mean of a rule, the mean over cells: no load or cluster outweighs another, and none that is held out counts."""
        ratio = self._by_cell(times) / self._by_cell(rule)
        return 100.0 * (float(ratio[~self._is_held_out].mean()) - 1.0)

    def percent_by_cell(self, times: Floats) -> Floats:
        """Percent (num_cells,) above the rule that is best on average, of every cell."""
        return np.asarray(100.0 * (self._by_cell(times) / self._by_cell(self.reference) - 1.0))

    def score(self, times: Floats) -> float:
        return -self._percent(times, self.reference)

    def figures(self, times: Floats) -> dict[str, Metric]:
        above = {f"{name}_percent": self._percent(times, rule) for name, rule in self.rules.items()}
        own = {"jct": float(times.mean()), "envelope_percent": self._percent(times, self.reference)}
        return {**own, **above}


def candidate_shape(card: Card) -> CandidateArchitecture:
    """The shape of a card that this learner made."""
    if not isinstance(card.architecture, CandidateArchitecture):
        raise TypeError(f"expected a net of candidates, got {type(card.architecture).__name__}")
    return card.architecture


def _job_times(dispatcher: TaskDispatcher | CandidateDispatcher, problems: Sequence[Problem]) -> Floats:
    found = [run_one(dispatcher, problem, realise(problem, k)) for k, problem in enumerate(problems)]
    return np.array([one.mean_jct for one in found])
