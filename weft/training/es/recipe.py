"""What weights of a rule are tuned on. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from weft.errors import InputError
from weft.scenarios.splits import check_training_seed
from weft.tables import check, checked, one_of, read_table, whole
from weft.training.cells import cells_of, in_turn
from weft.training.es.config import ENERGY, ESConfig
from weft.training.ppo.task_recipe import TaskValidation

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.scenarios.scenario import Scenario
    from weft.training.run.folder import Outcome
    from weft.training.run.metrics import Row


@dataclass(frozen=True)
class WeightsRecipe:
    """A :class:`weft.training.algorithms.TrainingRecipe` of the weights of a rule."""

    unit: ClassVar[str] = "episodes"

    name: str
    scenario: str
    settings: Mapping[str, object]
    """Of the scenario; problems take the cells of lists in turn."""
    config: ESConfig
    streams: int = checked(512, whole(1))
    """Problems in all; those of later generations are the same again, with other run times."""
    split: str = checked("train", one_of("train", "validation"))
    """Where the problems come from; what is tuned on the validation split is a rule, not a policy to be proud of."""
    validation: TaskValidation = field(default_factory=TaskValidation)
    algorithm: str = "rule-es"

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> WeightsRecipe:
        if "scenario" not in document:
            raise InputError("expected the name or file of a scenario", field="scenario")
        return cls(
            str(document.get("name", "recipe")),
            document["scenario"],
            document["settings"],
            read_table(ESConfig, document["config"], "config"),
            document.get("streams", 512),
            document.get("split", "train"),
            read_table(TaskValidation, document["validation"], "validation"),
            document["algorithm"],
        )

    @property
    def every(self) -> int:
        return self.validation.every

    @cached_property
    def cells(self) -> tuple[Scenario, ...]:
        """The scenario with each of its settings."""
        return cells_of(self.scenario, self.settings)

    def problem(self, split: str, number: int) -> Problem:
        """One of the problems of a split: cells take turns."""
        cell, index = in_turn(self.cells, number)
        return cell.problem(split, index)

    def check(self, seed: int) -> None:
        check_training_seed(seed)
        classes = self.problem(self.split, 0).cluster.classes
        if self.config.objective[ENERGY] and not any(one.watts or one.idle_watts for one in classes):
            raise InputError(
                f"expected no weight of energy: the cluster of {self.scenario} states no watts",
                field="config.objective",
            )

    def progress_in_words(self, row: Row) -> str:
        return f"generation {row.get('generation')}, {row.get('percent'):+.2f} % against {self.config.begin}"

    def validation_in_words(self, row: Row) -> str:
        percent = row.get("envelope_percent")
        return f"{percent:+.2f} % against the best rule" if isinstance(percent, float) else ""

    def best_in_words(self, outcome: Outcome) -> str:
        return "" if outcome.best is None else f"best weights {-outcome.best:+.2f} % against the best rule"

    def next_command(self, run: str) -> str:
        return f"weft evaluate {self.scenario} -s {run},{','.join(self.validation.rules)} --set load=0.8 --seeds 8"

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "scenario": self.scenario,
            "streams": self.streams,
            "split": self.split,
            "settings": dict(self.settings),
            "config": asdict(self.config),
            "validation": asdict(self.validation),
        }
