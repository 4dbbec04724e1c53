"""What training recipes share whose problems come from one scenario. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from weft import catalog
from weft.errors import InputError
from weft.tables import MOST_AT_ONCE, MOST_SAMPLES, NAMES, check, checked, read_table, whole
from weft.training.algorithms import algorithm, resolved
from weft.training.cells import cells_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from weft.scenarios import Scenario


@dataclass(frozen=True)
class TaskValidation:
    """How often a policy is judged, on how many streams, and against whom."""

    every: int = checked(5, whole(1, MOST_SAMPLES))
    """Updates from one time to the next; only a policy judged can become the best one."""
    seeds: int = checked(8, whole(1, MOST_AT_ONCE))
    """Streams of the validation split, of each cell."""
    rules: tuple[str, ...] = checked(("priced", "srw", "fifo"), NAMES)
    """Dispatchers that play the same streams; the best of them on average scores the policy."""

    def __post_init__(self) -> None:
        check(self, "validation.")
        if not self.rules:
            raise InputError("expected at least one dispatcher", field="validation.rules")

    def refuse_unknown(self) -> None:
        """Refuse rules that are no dispatchers of single tasks."""
        for name in self.rules:
            try:
                catalog.task_dispatcher(name)
            except InputError as error:
                raise InputError(error.message, file=error.file, field="validation.rules") from None


class Judging(Protocol):
    """How a policy is judged; a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def every(self) -> int:
        """Updates from one time to the next."""


C = TypeVar("C", bound="DataclassInstance", covariant=True)
V = TypeVar("V", bound=Judging, covariant=True)


@dataclass(frozen=True)
class ScenarioRecipe(Generic[C, V]):
    """A :class:`weft.training.algorithms.TrainingRecipe` but for its words; keys of its own are fields of their names."""

    judging: ClassVar[type[Any]] = TaskValidation
    """What its table ``[validation]`` is read as."""

    name: str
    scenario: str
    settings: Mapping[str, object]
    """Of the scenario."""
    config: C
    validation: V
    algorithm: str

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        return cls(**cls.shared(document))

    @classmethod
    def shared(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that a document says the same way whatever the algorithm."""
        if "scenario" not in document:
            raise InputError("expected the name or file of a scenario", field="scenario")
        row = algorithm(document["algorithm"])
        return {
            **{key: document[key] for key in row.keys if key in document},
            "name": str(document.get("name", "recipe")),
            "settings": document["settings"],
            "config": read_table(resolved(row.config), document["config"], "config"),
            "validation": read_table(cls.judging, document["validation"], "validation"),
            "algorithm": document["algorithm"],
        }

    @property
    def every(self) -> int:
        return self.validation.every

    @cached_property
    def cells(self) -> tuple[Scenario, ...]:
        """The scenario with each of its settings."""
        return cells_of(self.scenario, self.settings)

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            **{key: getattr(self, key) for key in algorithm(self.algorithm).keys},
            "settings": dict(self.settings),
            "config": asdict(self.config),
            "validation": asdict(self.validation),
        }


def settings_in_words(settings: Mapping[str, object]) -> str:
    """How ``weft evaluate`` is told under what load, or at what speed, a policy was trained."""
    words = ""
    for name in ("load", "speed"):
        value = settings.get(name)
        if isinstance(value, list | tuple):
            words += f" --set '{name}={list(value)}'"
        elif value is not None:
            words += f" --set {name}={value}"
    return words
