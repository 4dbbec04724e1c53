"""Schedulers whose schedules broke a rule: they are named, and nothing is said for or against them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.evaluation.sweep.store import Row


@dataclass(frozen=True)
class Breach:
    """How often a scheduler's schedules broke a rule, of those that were checked."""

    num_broken: int
    num_checked: int
    rule: str
    """The first rule that was broken; empty where the source does not say."""

    def __str__(self) -> str:
        rule = f" ({self.rule})" if self.rule else ""
        return f"broke a rule on {self.num_broken} of {self.num_checked}{rule}"


def breaches_of(rows: Iterable[Row]) -> dict[str, Breach]:
    """Scheduler -> its breach, where it has one."""
    checked: dict[str, list[str | None]] = {}
    for row in rows:
        if row.valid is not None:
            checked.setdefault(row.scheduler, []).append(None if row.valid else row.fault or "")
    broken = {name: [rule for rule in own if rule is not None] for name, own in checked.items()}
    return {name: Breach(len(own), len(checked[name]), own[0]) for name, own in broken.items() if own}
