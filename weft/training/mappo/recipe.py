"""What agents of edge clusters are trained on and with. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from weft.errors import InputError
from weft.scenarios import scenario
from weft.scenarios.splits import check_training_seed, seed_of
from weft.schedulers.allocators.running import tuned_units
from weft.sim.elastic.environment import ElasticBatch
from weft.tables import check, checked, whole
from weft.training.mappo.config import MappoConfig
from weft.training.scenario_recipe import ScenarioRecipe

if TYPE_CHECKING:
    from weft.model.columns import Ints
    from weft.model.elastic import ElasticProblem
    from weft.training.run.folder import Outcome
    from weft.training.run.metrics import Row


@dataclass(frozen=True)
class EpisodeValidation:
    """How often agents are judged, and on how many episodes."""

    every: int = checked(10, whole(1))
    """Updates from one time to the next; only a policy judged can become the best one."""
    episodes: int = checked(32, whole(1))
    """Of the validation split, the same every time; each is played in every way to act."""

    def __post_init__(self) -> None:
        check(self, "validation.")


@dataclass(frozen=True)
class MappoRecipe(ScenarioRecipe[MappoConfig, EpisodeValidation]):
    """A :class:`weft.training.algorithms.TrainingRecipe` of agents that place elastic tasks."""

    unit: ClassVar[str] = "states"
    judging = EpisodeValidation

    @cached_property
    def problem(self) -> ElasticProblem:
        """What arrives where; every seed is an episode of its own."""
        return scenario(self.scenario, **self.settings).elastic("train", 0)

    def training_batch(self, seed: int) -> ElasticBatch:
        """Environments to learn in."""
        return ElasticBatch(self.problem, self.config.num_envs, seed=seed)

    def validation_batch(self) -> ElasticBatch:
        """Environments that stand at the start of the episodes of the validation split."""
        seeds = [seed_of("validation", k) for k in range(self.validation.episodes)]
        return ElasticBatch(self.problem, len(seeds), seed=np.array(seeds, np.int64))

    def learned_first(self) -> Ints:
        """Units per type of task (types, resources) that are imitated: those given, or those of ``static-k``."""
        given = self.config.imitation_units
        return np.array(given, np.int64) if given else tuned_units(self.problem)

    def check(self, seed: int) -> None:
        check_training_seed(seed)
        wanted = (len(self.problem.types), self.problem.num_resources)
        given = self.config.imitation_units
        if given and not (len(given) == wanted[0] and all(len(row) == wanted[1] for row in given)):
            raise InputError(
                f"expected units of {wanted[1]} resources for each of {wanted[0]} types of task, got {given}",
                field="config.imitation_units",
            )

    def progress_in_words(self, row: Row) -> str:
        time = row.get("completion_time")
        reached = f"mean completion time {time:.2f}" if isinstance(time, float) else "no episode ended"
        return f"{row.get('phase')}, {reached}"

    def validation_in_words(self, row: Row) -> str:
        time = row.get("validation")
        return f"mean completion time {time:.3f} ({row.get('mode')})" if isinstance(time, float) else ""

    def best_in_words(self, outcome: Outcome) -> str:
        return "" if outcome.best is None else f"best mean completion time {-outcome.best:.3f} in validation"

    def next_command(self, run: str) -> str:
        return f"weft evaluate {self.scenario} -s {run},optimus,static-k --seeds 20"
