"""What a policy that picks tasks is trained on and with. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.errors import InputError
from weft.kinds import QUEUES
from weft.scenarios import Scenario, scenario
from weft.scenarios.splits import check_training_seed
from weft.sim.tasks.candidates import CandidateSight
from weft.tables import MOST_UPDATES, checked, whole
from weft.training.make_env import task_setup
from weft.training.reinforce.config import PickConfig
from weft.training.scenario_recipe import ScenarioRecipe, TaskValidation, settings_in_words

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.training.run.folder import Outcome
    from weft.training.run.metrics import Row


@dataclass(frozen=True)
class PickRecipe(ScenarioRecipe[PickConfig, TaskValidation]):
    """A :class:`weft.training.algorithms.TrainingRecipe` of a policy that picks tasks."""

    unit: ClassVar[str] = "episodes"

    streams: int = checked(64, whole(1, MOST_UPDATES))
    """Of the training split, from which every update draws some; or single problems where no jobs arrive."""

    @property
    def chosen(self) -> Scenario:
        """The scenario, with its settings."""
        found = scenario(self.scenario, **self.settings)
        if found.kind is QUEUES:
            raise InputError(
                f"{self.scenario} is one repeated job, whose queues algorithm ppo learns", field="scenario"
            )
        return found

    def problems(self, split: str, count: int) -> tuple[Problem, ...]:
        """The first streams of a split."""
        found = task_setup(self.chosen, split, count, CandidateSight()).problems
        if any(job.graph.is_conditional for problem in found for job in problem.jobs):
            raise InputError(
                f"{self.scenario} has branches: which tasks will run is not known", field="scenario"
            )
        return found

    def check(self, seed: int) -> None:
        check_training_seed(seed)
        self.validation.refuse_unknown()
        self.problems("train", 1)

    def progress_in_words(self, row: Row) -> str:
        return f"mean {self.config.reward} {row.get('mean_cost'):.5g}"

    def validation_in_words(self, row: Row) -> str:
        percent = row.get("envelope_percent")
        return f"{percent:+.1f} % against the best rule" if isinstance(percent, float) else ""

    def best_in_words(self, outcome: Outcome) -> str:
        if outcome.best is None:
            return ""
        return f"best policy {-outcome.best:+.2f} % against the best rule in validation"

    def next_command(self, run: str) -> str:
        told = settings_in_words(self.settings)
        return f"weft evaluate {self.scenario} -s {run},{','.join(self.validation.rules)}{told} --seeds 8"
