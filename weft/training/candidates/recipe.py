"""What a dispatcher of single tasks is trained on and with. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

from weft import catalog
from weft.errors import InputError
from weft.model.series import series_of
from weft.scenarios.splits import check_training_seed
from weft.schedulers.dispatchers.deciding import DecidingDispatcher
from weft.schedulers.dispatchers.tasks import RuleDispatcher
from weft.sim.tasks.candidates import CandidateSight, check_sight
from weft.sim.tasks.layout import num_pools
from weft.sim.tasks.pipeline_environment import PipelineReward
from weft.sim.tasks.pipeline_features import PipelineSight, check_pipeline_sight
from weft.sim.tasks.reward import Reward
from weft.sim.tasks.rules import LATE
from weft.tables import MOST_UPDATES, NAME, checked, read_table, whole
from weft.training.cells import dealt, shares
from weft.training.distributed.config import OF_UPDATES, Distributed, spread_in_words
from weft.training.distributed.curriculum import Curriculum
from weft.training.distributed.points import period_points, setting_points, used
from weft.training.dqn.config import DQNConfig
from weft.training.make_env import problems_of
from weft.training.memory import refuse_beyond_memory
from weft.training.ppo.config import PPOConfig
from weft.training.replay import shape_of
from weft.training.scenario_recipe import ScenarioRecipe, TaskValidation, settings_in_words

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.training.environment import Ints
    from weft.training.run.folder import Outcome
    from weft.training.run.metrics import Row


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
class TaskRecipe(ScenarioRecipe[C, TaskValidation]):
    """A :class:`weft.training.algorithms.TrainingRecipe` of a policy that points at candidates; problems take the cells of lists in turn."""

    unit: ClassVar[str] = "samples"

    sight: CandidateSight | PipelineSight
    streams: int = checked(64, whole(1, MOST_UPDATES))
    """Of the training split, dealt out to the environments; or single problems where no jobs arrive."""
    reward: Reward | PipelineReward = field(default_factory=Reward)
    base: str = checked("priced", NAME)
    """The rule that orders candidates and whose choice is marked: ``priced``, ``es`` or weights of ``rule-es``."""

    distributed: Distributed = field(default_factory=Distributed)
    """Where actors and learners are; by default there are none but this process."""
    curriculum: Curriculum = field(default_factory=Curriculum)
    """Which cells are played when; by default each environment has its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.config, PPOConfig):
            self._refuse_no_share(self.config.num_envs)
            self.curriculum.refuse_exploring("PPO draws its choices and needs none")
        if self.curriculum.is_leased and not self.distributed.engine:
            raise InputError("expected an engine, such as local, to lease to", field="distributed.engine")
        if self.curriculum.is_leased and self.streams < len(self.cells):
            raise InputError(f"expected at least one for each of {len(self.cells)} cells", field="streams")
        if self.curriculum.needs_errors:
            self._refuse_unknown_errors()
        if len(self.config.hidden) != 1:
            raise InputError(f"expected one width, got {list(self.config.hidden)}", field="config.hidden")

    def _refuse_no_share(self, num_envs: int) -> None:
        """Refuse what PPO would not read, and actors that would have no environment."""
        self.distributed.refuse_unread(OF_UPDATES, "PPO has")
        if self.distributed.actors > num_envs:
            raise InputError(
                f"expected at most num_envs = {num_envs}, got {self.distributed.actors}",
                field="distributed.actors",
            )

    def _refuse_unknown_errors(self) -> None:
        actors, config = self.distributed.actors, self.config
        if isinstance(config, DQNConfig) and not config.knows_errors(actors):
            raise InputError(
                f"'error' needs first_priority = 'error', or 'auto' with several actors, got {config.first_priority!r} with {actors}",
                field="curriculum.score",
            )

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        sight = _sight(document["candidates"])
        paid: type[Reward | PipelineReward] = PipelineReward if isinstance(sight, PipelineSight) else Reward
        return cls(
            **cls.shared(document),
            sight=sight,
            reward=read_table(paid, document["reward"], "reward"),
            distributed=read_table(Distributed, document.get("distributed", {}), "distributed"),
            curriculum=read_table(Curriculum, document.get("curriculum", {}), "curriculum"),
        )

    @cached_property
    def base_weights(self) -> tuple[float, ...]:
        """The weights of the base rule."""
        return base_weights(self.base)

    def by_cell(self, split: str, counts: Sequence[int]) -> list[tuple[Problem, ...]]:
        """The first so many streams of a split in every cell."""
        pairs = zip(self.cells, counts, strict=True)
        copies = isinstance(self.sight, CandidateSight) and self.sight.copies
        return [problems_of(cell, split, count, has_copies=copies) if count else () for cell, count in pairs]

    def problems(self, split: str, count: int) -> tuple[Problem, ...]:
        """The first streams of a split: cells take turns."""
        return dealt(self.by_cell(split, shares(count, len(self.cells))))

    def check(self, seed: int) -> None:
        check_training_seed(seed)
        self.validation.refuse_unknown()
        if isinstance(self.config, DQNConfig):
            self.config.refuse_idle(self.distributed.actors)
            self._refuse_rollouts(self.config.rollouts)
        problems = self.by_cell("train", [1] * len(self.cells))
        if isinstance(self.sight, PipelineSight):
            _refuse_unseen(problems, self.sight)
            _refuse_idle_series(problems)
        if self.curriculum.is_leased:
            used(self._points([one for cell in problems for one in cell]), self.curriculum)
        if isinstance(self.sight, CandidateSight):
            self.base_weights  # noqa: B018 - refuses what is no rule with weights
        if not self.distributed.engine:  # roles have machines of their own
            self._refuse_large()

    def _refuse_rollouts(self, moments: int) -> None:
        """Refuse rollouts where no process makes them, or what they see fits into no memory."""
        if moments and self.distributed.engine:
            raise InputError(f"expected 0 with an engine, got {moments}", field="config.rollouts")
        refuse_beyond_memory(4 * moments * self.sight.num_features, "config.rollouts")

    def _refuse_large(self) -> None:
        """Refuse more environments, or more to learn from, than this machine has memory for."""
        config, sight = self.config, self.sight
        seen = 8 * config.num_envs * sight.num_features
        refuse_beyond_memory(seen, "config.num_envs")
        if isinstance(config, DQNConfig):
            world, columns = len(sight.world), len(sight.columns)
            shape = shape_of(config, config.num_envs, world, columns, sight.num_choices)
            refuse_beyond_memory(seen + shape.num_bytes, "config.replay")
        if isinstance(config, PPOConfig):
            refuse_beyond_memory(seen + 4 * config.batch * sight.num_features, "config.num_steps")

    def _points(self, problems: Sequence[Problem]) -> Ints:
        """Its cells, given a problem of each, as points of a grid."""
        if isinstance(self.sight, PipelineSight):
            return period_points(problems)
        return setting_points([cell.settings for cell in self.cells])

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
        told = settings_in_words(self.settings)
        return f"weft evaluate {self.scenario} -s {run},{','.join(self.validation.rules)}{told} --seeds 8"

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "scenario": self.scenario,
            "streams": self.streams,
            "base": self.base,
            "settings": dict(self.settings),
            "candidates": sight_table(self.sight),
            "reward": asdict(self.reward),
            "config": asdict(self.config),
            "validation": asdict(self.validation),
            **({"distributed": self.distributed.to_dict()} if self.distributed.engine else {}),
            **({"curriculum": self.curriculum.to_dict()} if self.curriculum.is_leased else {}),
        }


def _refuse_unseen(cells: Sequence[Sequence[Problem]], sight: PipelineSight) -> None:
    """Refuse problems with more pipelines or kinds of devices than a policy would have places for."""
    every = [problem for problems in cells for problem in problems]
    series, pools = (max(map(count, every)) for count in (lambda one: len(series_of(one)), num_pools))
    if series > sight.series:
        raise InputError(
            f"expected at least {series}, one for each pipeline, got {sight.series}",
            field="candidates.series",
        )
    if pools > sight.pools:
        raise InputError(
            f"expected at least {pools}, one for each kind of device, got {sight.pools}",
            field="candidates.pools",
        )


def _refuse_idle_series(cells: Sequence[Sequence[Problem]]) -> None:
    """Refuse problems that end before every pipeline has had a deadline: what it misses is not known."""
    for problem in (one for cell in cells for one in cell):
        for name, jobs in series_of(problem).items():
            first = problem.jobs[int(jobs[0])]
            due = first.release + (first.deadline or 0.0)
            if problem.horizon is not None and due > problem.horizon:
                raise InputError(
                    f"expected at least {due:g}, the first deadline of {name}, got {problem.horizon:g}",
                    field="settings.horizon",
                )


def sight_table(sight: CandidateSight | PipelineSight) -> dict[str, Any]:
    """What is seen, as recipes and cards keep it."""
    return sight.to_table() if isinstance(sight, PipelineSight) else sight._asdict()


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
