"""What a dispatcher of single tasks is trained on and with. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from weft.errors import InputError
from weft.kinds import QUEUES
from weft.scenarios import Scenario, scenario
from weft.scenarios.splits import check_training_seed
from weft.sim.tasks.candidates import CandidateSight, check_sight
from weft.sim.tasks.reward import Reward
from weft.tables import NAMES, check, checked, read_table, whole
from weft.training.algorithms import algorithm, resolved
from weft.training.make_env import task_setup

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.training.run.folder import Outcome
    from weft.training.run.metrics import Row


@dataclass(frozen=True)
class TaskValidation:
    """How often a policy is judged, on how many streams, and against whom."""

    every: int = checked(5, whole(1))
    """Updates from one time to the next; only a policy judged can become the best one."""
    seeds: int = checked(8, whole(1))
    """Streams of the validation split."""
    rules: tuple[str, ...] = checked(("priced", "srw", "fifo"), NAMES)
    """Dispatchers that play the same streams; the best of them on average scores the policy."""

    def __post_init__(self) -> None:
        check(self, "validation.")
        if not self.rules:
            raise InputError("expected at least one dispatcher", field="validation.rules")


class TaskConfig(Protocol):
    """What the parameters of all learners that point at candidates have; a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def num_envs(self) -> int:
        """Environments that are stepped together."""

    @property
    def hidden(self) -> tuple[int, ...]:
        """Width of the embeddings: one number."""


C = TypeVar("C", bound=TaskConfig, covariant=True)


@dataclass(frozen=True)
class TaskRecipe(Generic[C]):
    """A :class:`weft.training.algorithms.TrainingRecipe` of a policy that points at candidates."""

    unit: ClassVar[str] = "samples"

    name: str
    scenario: str
    settings: Mapping[str, object]
    sight: CandidateSight
    config: C
    streams: int = checked(64, whole(1))
    """Of the training split, dealt out to the environments; or single problems where no jobs arrive."""
    validation: TaskValidation = field(default_factory=TaskValidation)
    algorithm: str = "candidate-ppo"
    reward: Reward = field(default_factory=Reward)

    def __post_init__(self) -> None:
        check(self)
        if len(self.config.hidden) != 1:
            raise InputError(f"expected one width, got {list(self.config.hidden)}", field="config.hidden")

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> TaskRecipe[C]:
        if "scenario" not in document:
            raise InputError("expected the name or file of a scenario", field="scenario")
        return cls(
            str(document.get("name", "recipe")),
            document["scenario"],
            document["settings"],
            _sight(document["candidates"]),
            read_table(resolved(algorithm(document["algorithm"]).config), document["config"], "config"),
            document.get("streams", 64),
            read_table(TaskValidation, document["validation"], "validation"),
            document["algorithm"],
            read_table(Reward, document["reward"], "reward"),
        )

    @property
    def every(self) -> int:
        return self.validation.every

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
        return task_setup(self.chosen, split, count, self.sight).problems

    def check(self, seed: int) -> None:
        check_training_seed(seed)
        self.problems("train", 1)

    def progress_in_words(self, row: Row) -> str:
        return f"mean reward {row.get('mean_reward'):.5g}"

    def validation_in_words(self, row: Row) -> str:
        percent = row.get("envelope_percent")
        return f"{percent:+.1f} % against the best rule" if isinstance(percent, float) else ""

    def best_in_words(self, outcome: Outcome) -> str:
        if outcome.best is None:
            return ""
        return f"best policy {-outcome.best:+.2f} % against the best rule in validation"

    def next_command(self, run: str) -> str:
        load = f" --set load={self.settings['load']}" if "load" in self.settings else ""
        return f"weft evaluate {self.scenario} -s {run},{','.join(self.validation.rules)}{load} --seeds 8"

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "scenario": self.scenario,
            "streams": self.streams,
            "settings": dict(self.settings),
            "candidates": self.sight._asdict(),
            "reward": asdict(self.reward),
            "config": asdict(self.config),
            "validation": asdict(self.validation),
        }


def _sight(table: Mapping[str, Any]) -> CandidateSight:
    for key in table:
        if key not in CandidateSight._fields:
            known = ", ".join(CandidateSight._fields)
            raise InputError(f"unknown; expected one of {known}", field=f"candidates.{key}")
    return check_sight(CandidateSight(**table), "candidates")
