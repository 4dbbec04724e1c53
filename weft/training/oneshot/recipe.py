"""What one-shot planners are trained on and with. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from weft.errors import InputError
from weft.io.runs import VALIDATED
from weft.policies.checkpoint import read_card
from weft.scenarios.splits import check_training_seed
from weft.tables import read_table
from weft.training.distributed.config import OF_UPDATES, Distributed, spread_in_words
from weft.training.oneshot.config import SampleConfig
from weft.training.oneshot.problems import Source
from weft.training.run.folder import BEST, Outcome


@dataclass(frozen=True)
class SampleRecipe:
    """A planner's :class:`~weft.training.algorithms.TrainingRecipe`."""

    unit: ClassVar[str] = "schedules"

    name: str
    sources: tuple[Source, ...]
    config: SampleConfig
    algorithm: str = "oneshot"
    distributed: Distributed = field(default_factory=Distributed)
    """Where actors draw schedules; by default this process does."""

    def __post_init__(self) -> None:
        spread, most = self.distributed, self.config.groups * self.config.graphs
        spread.refuse_unread(OF_UPDATES, "planners have")
        if spread.engine and spread.actors > most:
            raise InputError(
                f"expected at most groups x graphs = {most}, the problems of an update, got {spread.actors}",
                field="distributed.actors",
            )

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> SampleRecipe:
        sources = document.get("source")
        if not isinstance(sources, list) or not sources:
            raise InputError("expected at least one table [[source]]", field="source")
        return cls(
            str(document.get("name", "recipe")),
            tuple(Source.read(table) for table in sources),
            read_table(SampleConfig, document["config"], "config"),
            document["algorithm"],
            read_table(Distributed, document.get("distributed", {}), "distributed"),
        )

    @property
    def every(self) -> int:
        return self.config.every

    def check(self, seed: int) -> None:
        check_training_seed(seed)

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "source": [asdict(source) for source in self.sources],
            "config": asdict(self.config),
            **({"distributed": self.distributed.to_dict()} if self.distributed.engine else {}),
        }

    def progress_in_words(self, row: Mapping[str, object]) -> str:
        return f"drawn {row.get('drawn_percent'):.1f} % above the bound{spread_in_words(row)}"

    def validation_in_words(self, row: Mapping[str, object]) -> str:
        found = {said: row.get(name) for name, said in VALIDATED.items()}
        parts = [f"{said} {value:.1f} %" for said, value in found.items() if isinstance(value, float)]
        return f"{', '.join(parts)} above the bound" if parts else ""

    def best_in_words(self, outcome: Outcome) -> str:
        if outcome.best is None:
            return ""
        card = read_card(Path(outcome.run) / BEST)
        return f"best policy in validation: {self.validation_in_words(card.training)}"

    def next_command(self, run: str) -> str:
        return f"weft schedule FILE --scheduler {run} --samples 64"
