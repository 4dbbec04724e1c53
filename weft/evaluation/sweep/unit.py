"""What is measured in one go, and who measures it: one module for every kind of run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from weft.evaluation.sweep.store import Measured
from weft.scenarios import Scenario


@dataclass(frozen=True)
class Unit:
    """One scheduler on one problem: what is computed and stored in one go."""

    scenario: Scenario
    split: str
    index: int
    scheduler: str
    seeds: tuple[int, ...]
    effort: int | None
    check: str

    @property
    def problem_name(self) -> str:
        """What the problem is called in results."""
        return self.scenario.problem_name(self.split, self.index)


class Runs(Protocol):
    """How one kind of run is measured."""

    def measure(self, unit: Unit) -> list[Measured]:
        """Run the scheduler with every seed of the unit."""

    def warm(self, scheduler: str) -> None:
        """Run something tiny once, so that loading the kernels is not counted."""

    def inputs(self, scenario: Scenario, schedulers: Sequence[str]) -> dict[str, object]:
        """What decides the rows beside recipe, settings and versions."""
