"""What weights of a rule are tuned on. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from weft.errors import InputError
from weft.scenarios.splits import check_training_seed
from weft.tables import MOST_UPDATES, Rule, checked, one_of, whole
from weft.training.cells import cells_of, dealt, in_turn
from weft.training.es.config import ENERGY, ESConfig
from weft.training.scenario_recipe import ScenarioRecipe, TaskValidation, settings_in_words

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.scenarios import Scenario
    from weft.training.run.folder import Outcome
    from weft.training.run.metrics import Row

_MIX = Rule(
    "tables of settings",
    lambda x: isinstance(x, list | tuple) and all(isinstance(one, Mapping) for one in x),
)


@dataclass(frozen=True)
class WeightsRecipe(ScenarioRecipe[ESConfig, TaskValidation]):
    """A :class:`weft.training.algorithms.TrainingRecipe` of the weights of a rule; problems take the cells of lists in turn."""

    unit: ClassVar[str] = "episodes"

    streams: int = checked(512, whole(1, MOST_UPDATES))
    """Problems in all; those of later generations are the same again, with other run times."""
    split: str = checked("train", one_of("train", "validation"))
    """Where the problems come from; what is tuned on the validation split is a rule, not a policy to be proud of."""

    mix: tuple[Mapping[str, object], ...] = checked((), _MIX)
    """Tables of settings, whose cells take turns, each with those that all share; none: only these."""

    @cached_property
    def cells(self) -> tuple[Scenario, ...]:
        """The scenario with each of its settings, table by table of the mix in turn."""
        return dealt([cells_of(self.scenario, {**self.settings, **one}) for one in self.mix or ({},)])

    def problem(self, split: str, number: int) -> Problem:
        """One of the problems of a split: cells take turns."""
        cell, index = in_turn(self.cells, number)
        return cell.problem(split, index)

    def check(self, seed: int) -> None:
        check_training_seed(seed)
        self.validation.refuse_unknown()
        classes = self.problem(self.split, 0).cluster.classes
        if self.config.objective[ENERGY] and not any(one.watts or one.idle_watts for one in classes):
            raise InputError(
                f"expected no weight of energy: the cluster of {self.scenario} states no watts",
                field="config.objective",
            )

    def progress_in_words(self, row: Row) -> str:
        return f"generation {row.get('generation')}, {row.get('percent'):+.2f} % against {row.get('against', self.config.begin)}"

    def validation_in_words(self, row: Row) -> str:
        percent = row.get("envelope_percent")
        return f"{percent:+.2f} % against the best rule" if isinstance(percent, float) else ""

    def best_in_words(self, outcome: Outcome) -> str:
        return "" if outcome.best is None else f"best weights {-outcome.best:+.2f} % against the best rule"

    def next_command(self, run: str) -> str:
        told = settings_in_words(self.settings)
        return f"weft evaluate {self.scenario} -s {run},{','.join(self.validation.rules)}{told} --seeds 8"
