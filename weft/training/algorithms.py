"""Algorithms that train, by name: a new one is one file and one row here. Code is resolved on use.

What differs between them stands in their rows and recipes; whoever trains, resumes or reports asks there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from weft.errors import InputError, MissingExtra
from weft.tables import did_you_mean

if TYPE_CHECKING:
    from weft.training.run.folder import Learner, Outcome
    from weft.training.run.metrics import Row

DISPATCHER, PLANNER, ALLOCATOR = "dispatcher", "planner", "allocator"
"""What a trained net is used as: it acts while jobs arrive, plans whole graphs, or gives units to elastic tasks."""


class Asked(NamedTuple):
    """How a recipe is to be trained; of these, only the seed and the first weights change the result."""

    seed: int = 0
    device: str = "cpu"
    start: str | None = None
    """Weights or run to start from."""
    workers: int = 1
    """Processes; those beyond the first may prepare problems."""
    threads: int | None = None
    """None: as many as the algorithm is best with."""
    has_tensorboard: bool = False
    """Whether rows are written for TensorBoard too."""
    address: str | None = None
    """Of the cluster that roles run on; None: one of this machine."""
    recipe: str = ""
    """What the recipe is called on a command line: a name or a file; empty: it was made in Python."""


@runtime_checkable
class TrainingRecipe(Protocol):
    """What a run trains on and with, of whatever algorithm."""

    unit: ClassVar[str]
    """What samples are called."""

    @property
    def name(self) -> str:
        """What policies and runs are called after."""

    @property
    def algorithm(self) -> str:
        """Which row of :data:`ALGORITHMS`."""

    @property
    def config(self) -> Any:
        """The parameters of the learner, a dataclass."""

    @property
    def every(self) -> int:
        """Updates between checkpoints."""

    def check(self, seed: int) -> None:
        """Refuse whatever a run with this seed would refuse, without training."""

    def to_dict(self) -> dict[str, object]:
        """As plain JSON, for the run's record."""

    def progress_in_words(self, row: Row) -> str:
        """What an update reached."""

    def validation_in_words(self, row: Row) -> str:
        """What a row says of validation; empty where nothing was validated."""

    def best_in_words(self, outcome: Outcome) -> str:
        """What the best policy of a run reached in validation; empty where there is none."""

    def next_command(self, run: str) -> str:
        """What to do with the policy of this name."""


LearnerOf = Callable[[Any, Asked, Callable[[str], None]], AbstractContextManager["Learner"]]
"""Of a recipe, how it is trained, and where notices go, the learner; what it holds is released at the end."""


@dataclass(frozen=True)
class Algorithm:
    """One algorithm; ``module:name`` texts are resolved on use."""

    words: str
    config: str
    """The dataclass of its parameters."""
    recipe: str
    """A :class:`TrainingRecipe` with ``read(document)``."""
    learner: str
    """A :data:`LearnerOf`; with ``first_weights`` the only part that may load torch."""
    first_weights: str
    """Of a recipe and the name of weights or a run, or None, what the run begins with; what does not fit is refused."""
    keys: tuple[str, ...]
    """Keys that its recipes have at the top, beside those of every recipe."""
    tables: tuple[str, ...]
    """Tables that its recipes have."""
    role: str
    """``dispatcher``, ``planner`` or ``allocator``: what its policies are."""
    devices: tuple[str, ...] = ("cpu", "cuda")
    """Where it can be trained."""

    def learner_of(self) -> LearnerOf:
        """What makes its learner; without torch, an error that says how to get it."""
        found: LearnerOf = _resolved_by_torch(self.learner)
        return found

    def weights_of(self) -> Callable[[Any, str], object]:
        """What finds the weights that a run of a recipe begins with; without torch, an error."""
        found: Callable[[Any, str], object] = _resolved_by_torch(self.first_weights)
        return found


def _resolved_by_torch(target: str) -> Any:
    try:
        return resolved(target)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtra("torch", "train", "training") from None


def resolved(target: str) -> Any:
    """What ``module:name`` of a row stands for, imported now."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


_STREAM = ("scenario", "reward", "waits")

ALGORITHMS: dict[str, Algorithm] = {
    "ppo": Algorithm(
        "PPO with a perceptron: one graph on one cluster",
        "weft.training.ppo.config:PPOConfig",
        "weft.training.recipes:Recipe",
        "weft.training.ppo.run:flat_learner",
        "weft.training.ppo.run:flat_weights",
        (*_STREAM, "narrows"),
        ("settings", "sight", "config", "vary", "validation"),
        DISPATCHER,
    ),
    "graph-ppo": Algorithm(
        "PPO with a graph net: many graphs and clusters, also those it never saw",
        "weft.training.ppo.config:PPOConfig",
        "weft.training.recipes:Recipe",
        "weft.training.ppo.run:graph_learner",
        "weft.training.ppo.run:graph_weights",
        (*_STREAM, "problems", "rules"),
        ("settings", "sight", "config"),
        DISPATCHER,
    ),
    "candidate-ppo": Algorithm(
        "PPO that points at one of the tasks and devices that could start: any workflows and cluster",
        "weft.training.ppo.config:PPOConfig",
        "weft.training.candidates.recipe:TaskRecipe",
        "weft.training.ppo.candidate_learner:candidate_learner",
        "weft.training.ppo.candidate_learner:candidate_weights",
        ("scenario", "streams", "base"),
        ("settings", "candidates", "reward", "config", "validation", "distributed", "curriculum"),
        DISPATCHER,
    ),
    "rule-es": Algorithm(
        "weights of a rule tuned by an evolution strategy: any workflows and cluster, minutes, no torch",
        "weft.training.es.config:ESConfig",
        "weft.training.es.recipe:WeightsRecipe",
        "weft.training.es.learner:weights_learner",
        "weft.training.es.learner:first_weights",
        ("scenario", "streams", "split", "mix"),
        ("settings", "config", "validation"),
        DISPATCHER,
        ("cpu",),
    ),
    "pick-reinforce": Algorithm(
        "policy gradient with a graph net that picks the next task, placed by DEFT: any workflows and cluster",
        "weft.training.reinforce.config:PickConfig",
        "weft.training.reinforce.recipe:PickRecipe",
        "weft.training.reinforce.learner:pick_learner",
        "weft.training.reinforce.learner:pick_weights",
        ("scenario", "streams"),
        ("settings", "config", "validation"),
        DISPATCHER,
        ("cpu",),
    ),
    "candidate-dqn": Algorithm(
        "DQN that values the tasks and devices that could start: any workflows and cluster",
        "weft.training.dqn.config:DQNConfig",
        "weft.training.candidates.recipe:TaskRecipe",
        "weft.training.dqn.run:candidate_learner",
        "weft.training.dqn.run:candidate_weights",
        ("scenario", "streams", "base"),
        ("settings", "candidates", "reward", "config", "validation", "distributed", "curriculum"),
        DISPATCHER,
    ),
    "mappo": Algorithm(
        "multi-agent PPO with graph attention and a pointer: an agent per cluster gives units to elastic tasks",
        "weft.training.mappo.config:MappoConfig",
        "weft.training.mappo.recipe:MappoRecipe",
        "weft.training.mappo.run:mappo_learner",
        "weft.training.mappo.run:mappo_weights",
        ("scenario",),
        ("settings", "config", "validation"),
        ALLOCATOR,
    ),
    "oneshot": Algorithm(
        "priorities and devices of all tasks in one pass, learned from drawn schedules",
        "weft.training.oneshot.config:SampleConfig",
        "weft.training.oneshot.recipe:SampleRecipe",
        "weft.training.oneshot.run:sample_learner",
        "weft.training.oneshot.run:sample_weights",
        ("source",),
        ("config", "distributed"),
        PLANNER,
    ),
}
"""By the name that recipes use."""


def algorithm(name: object) -> Algorithm:
    """The row of this name."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        hint = did_you_mean(str(name), ALGORITHMS)
        raise InputError(f"expected one of {', '.join(ALGORITHMS)}, got {name!r}{hint}", field="algorithm")
    return ALGORITHMS[name]
