"""What a dispatcher of single tasks is trained on and with. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from weft import catalog
from weft.errors import InputError
from weft.scenarios.splits import check_training_seed
from weft.schedulers.dispatchers.deciding import DecidingDispatcher
from weft.schedulers.dispatchers.tasks import RuleDispatcher
from weft.sim.tasks.candidates import CandidateSight, check_sight
from weft.sim.tasks.pipeline_environment import PipelineReward
from weft.sim.tasks.pipeline_features import PipelineSight, check_pipeline_sight
from weft.sim.tasks.reward import Reward
from weft.sim.tasks.rules import LATE
from weft.tables import NAME, NAMES, check, checked, read_table, whole
from weft.training.algorithms import algorithm, resolved
from weft.training.cells import cells_of, dealt, shares
from weft.training.distributed.config import Distributed, spread_in_words
from weft.training.distributed.curriculum import Curriculum
from weft.training.make_env import problems_of

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.scenarios import Scenario
    from weft.training.run.folder import Outcome
    from weft.training.run.metrics import Row


@dataclass(frozen=True)
class TaskValidation:
    """How often a policy is judged, on how many streams, and against whom."""

    every: int = checked(5, whole(1))
    """Updates from one time to the next; only a policy judged can become the best one."""
    seeds: int = checked(8, whole(1))
    """Streams of the validation split, of each cell."""
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
    """Of the scenario; problems take the cells of lists in turn."""
    sight: CandidateSight | PipelineSight
    config: C
    streams: int = checked(64, whole(1))
    """Of the training split, dealt out to the environments; or single problems where no jobs arrive."""
    validation: TaskValidation = field(default_factory=TaskValidation)
    algorithm: str = "candidate-ppo"
    reward: Reward | PipelineReward = field(default_factory=Reward)
    base: str = checked("priced", NAME)
    """The rule that orders candidates and whose choice is marked: ``priced``, ``es`` or weights of ``rule-es``."""

    distributed: Distributed = field(default_factory=Distributed)
    """Where actors and learners are; by default there are none but this process."""
    curriculum: Curriculum = field(default_factory=Curriculum)
    """Which cells are played when; by default each environment has its own."""

    def __post_init__(self) -> None:
        check(self)
        if self.curriculum.is_leased and not self.distributed.engine:
            raise InputError("expected an engine, such as local, to lease to", field="distributed.engine")
        if self.curriculum.is_leased and self.streams < len(self.cells):
            raise InputError(f"expected at least one for each of {len(self.cells)} cells", field="streams")
        if len(self.config.hidden) != 1:
            raise InputError(f"expected one width, got {list(self.config.hidden)}", field="config.hidden")

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> TaskRecipe[C]:
        if "scenario" not in document:
            raise InputError("expected the name or file of a scenario", field="scenario")
        sight = _sight(document["candidates"])
        paid: type[Reward | PipelineReward] = PipelineReward if isinstance(sight, PipelineSight) else Reward
        return cls(
            str(document.get("name", "recipe")),
            document["scenario"],
            document["settings"],
            sight,
            read_table(resolved(algorithm(document["algorithm"]).config), document["config"], "config"),
            document.get("streams", 64),
            read_table(TaskValidation, document["validation"], "validation"),
            document["algorithm"],
            read_table(paid, document["reward"], "reward"),
            document.get("base", "priced"),
            read_table(Distributed, document.get("distributed", {}), "distributed"),
            read_table(Curriculum, document.get("curriculum", {}), "curriculum"),
        )

    @property
    def every(self) -> int:
        return self.validation.every

    @cached_property
    def cells(self) -> tuple[Scenario, ...]:
        """The scenario with each of its settings."""
        return cells_of(self.scenario, self.settings)

    @cached_property
    def base_weights(self) -> tuple[float, ...]:
        """The weights of the base rule."""
        return base_weights(self.base)

    def by_cell(self, split: str, counts: Sequence[int]) -> list[tuple[Problem, ...]]:
        """The first so many streams of a split in every cell."""
        pairs = zip(self.cells, counts, strict=True)
        return [problems_of(cell, split, count) if count else () for cell, count in pairs]

    def problems(self, split: str, count: int) -> tuple[Problem, ...]:
        """The first streams of a split: cells take turns."""
        return dealt(self.by_cell(split, shares(count, len(self.cells))))

    def check(self, seed: int) -> None:
        check_training_seed(seed)
        self.by_cell("train", [1] * len(self.cells))
        if isinstance(self.sight, CandidateSight):
            self.base_weights  # noqa: B018 - refuses what is no rule with weights

    def progress_in_words(self, row: Row) -> str:
        return f"mean reward {row.get('mean_reward'):.5g}{spread_in_words(row)}"

    def validation_in_words(self, row: Row) -> str:
        macro = row.get("validated_macro")
        if isinstance(macro, float):
            return f"{100 * macro:.2f} % of deadlines missed"
        percent = row.get("envelope_percent")
        return f"{percent:+.1f} % against the best rule" if isinstance(percent, float) else ""

    def best_in_words(self, outcome: Outcome) -> str:
        if outcome.best is None:
            return ""
        if isinstance(self.sight, PipelineSight):
            return f"best policy misses {-outcome.best:.2f} % of deadlines in validation"
        return f"best policy {-outcome.best:+.2f} % against the best rule in validation"

    def next_command(self, run: str) -> str:
        load = _load_in_words(self.settings)
        return f"weft evaluate {self.scenario} -s {run},{','.join(self.validation.rules)}{load} --seeds 8"

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "scenario": self.scenario,
            "streams": self.streams,
            "base": self.base,
            "settings": dict(self.settings),
            "candidates": self.sight._asdict(),
            "reward": asdict(self.reward),
            "config": asdict(self.config),
            "validation": asdict(self.validation),
            **({"distributed": self.distributed.to_dict()} if self.distributed.engine else {}),
            **({"curriculum": self.curriculum.to_dict()} if self.curriculum.is_leased else {}),
        }


def base_weights(name: str) -> tuple[float, ...]:
    """The weights of a dispatcher that starts tasks when their data is there, as candidates are marked by it."""
    try:
        found: object = catalog.task_dispatcher(name)
    except InputError as error:
        raise InputError(error.message, file=error.file, field="base") from None
    is_net = isinstance(found, DecidingDispatcher)
    if isinstance(found, RuleDispatcher) and not is_net and found.device == LATE and not found.profiles:
        return found.weights
    raise InputError(
        f"expected a rule with weights, such as priced, es or a run of rule-es, got {name!r}", field="base"
    )


def _load_in_words(settings: Mapping[str, object]) -> str:
    load = settings.get("load")
    if isinstance(load, list | tuple):
        return f" --set 'load={list(load)}'"
    return "" if load is None else f" --set load={load}"


def _sight(table: Mapping[str, Any]) -> CandidateSight | PipelineSight:
    """What is seen; a table that says how many ``series`` there are is one of pipelines."""
    kind = PipelineSight if "series" in table else CandidateSight
    for key in table:
        if key not in kind._fields:
            known = ", ".join(kind._fields)
            raise InputError(f"unknown; expected one of {known}", field=f"candidates.{key}")
    if kind is PipelineSight:
        return check_pipeline_sight(PipelineSight(**table), "candidates")
    return check_sight(CandidateSight(**table), "candidates")
