"""What the rows of a stream say about learned policies, in words: against the usual rules, the
device-aware ones, and one another.

A reference is the best of a group of rules in each cell, by its mean over the seeds. Everything is
paired by seed. Nothing is claimed about schedulers that did not take part or broke a rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from weft.catalog import chooser
from weft.evaluation.statistics import Comparison, holm_family
from weft.evaluation.sweep import scales
from weft.evaluation.sweep.evaluation import Evaluation
from weft.kinds import QUEUES
from weft.model.graph import Floats
from weft.policies.learned import Learned
from weft.scenarios.groups import Group


@dataclass(frozen=True)
class Point:
    """One scheduler against a reference in one cell."""

    cell: str
    reference: str
    """Which rule or policy it is compared with here."""
    comparison: Comparison

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {"cell": self.cell, "reference": self.reference, **_figures(self.comparison)}


@dataclass(frozen=True)
class Claim:
    """What can be said of one scheduler against one reference over all cells."""

    about: str
    """Key of a group of the scenario's reference schedulers, ``specialist`` or ``estimate``."""
    scheduler: str
    reference: str
    points: tuple[Point, ...]
    overall: Comparison
    """Over all cells: the geometric mean of the cells per seed; plain where costs may be 0."""
    setting: str = "the cells"
    """What differs between the points."""
    num_runs: int = 1
    """Training seeds that the scheduler stands for."""
    note: str = ""

    @property
    def num_better(self) -> int:
        """Cells in which the scheduler is better for certain."""
        return sum(point.comparison.verdict == "better" for point in self.points)

    @property
    def text(self) -> str:
        """The claim in one sentence."""
        name = in_words(self.scheduler, self.num_runs)
        overall = f"{self.overall.summary(name, self.reference)}{self.overall.doubt}"
        if len(self.points) == 1:
            return f"{overall}{self.note}"
        values = [point.comparison.value for point in self.points]
        span = f"{min(values):+.1f} to {_signed(max(values), self.overall)} over {self.setting}"
        return f"{overall}; {span}, {self._at_points}{self.note}"

    @property
    def _at_points(self) -> str:
        """At how many points the scheduler is better and worse, or how many seeds it takes to tell."""
        few = [one.comparison for one in self.points if one.comparison.verdict == "too few samples"]
        if few:
            return f"at each point {few[0].too_few('seed')}"
        worse = sum(point.comparison.verdict == "worse" for point in self.points)
        return f"better at {self.num_better} and worse at {worse} of {len(self.points)}"

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "about": self.about,
            "scheduler": self.scheduler,
            "reference": self.reference,
            "num_runs": self.num_runs,
            **_figures(self.overall),
            "better_cells_percent": 100.0 * self.num_better / len(self.points),
            "points": [point.to_dict() for point in self.points],
            "text": self.text,
        }


def claims(found: Evaluation) -> tuple[Claim, ...]:
    """All that the rows of a stream of one problem allow to say of its learned policies; with two seeds or more.

    Policies of one folder, which differ in their training seed, are spoken of together.
    """
    if found.kind is not QUEUES or not found.has_seed_samples or len(found.units) < 2:
        return ()
    whole = found.grouped(found.members)
    table, names = Table(whole), [name for name in whole.sound if name in whole.learned]
    chosen = {name: chooser(whole.runs_of(name)[0]) for name in names}
    learned = {name: one for name, one in chosen.items() if isinstance(one, Learned)}
    made = [table.claim(group.key, name, group) for group in table.groups for name in learned]
    for name, one in learned.items():
        made += [_specialist(table, name, one, other) for other in _generalists(name, one, learned)]
        made += [table.claim("estimate", name, other) for other in _blind(name, one, learned)]
    return tuple(made)


def _generalists(name: str, one: Learned, learned: dict[str, Learned]) -> list[str]:
    """Policies trained at every probability, where this one was trained at a single one."""
    if not one.trained_at:
        return []
    return [other for other, it in learned.items() if other != name and not it.trained_at]


def _blind(name: str, one: Learned, learned: dict[str, Learned]) -> list[str]:
    """Policies trained alike that see no estimate, where this one does."""
    if one.trained_at or not one.sight.estimates:
        return []
    others = [(other, it) for other, it in learned.items() if other != name and not it.trained_at]
    return [other for other, it in others if not it.sight.estimates]


def _specialist(table: Table, name: str, one: Learned, other: str) -> Claim:
    made = table.claim("specialist", name, other)
    best = min(made.points, key=lambda point: point.comparison.value)
    where = f" at {best.cell}" if best.cell else ""
    note = (
        f"; trained at {one.trained_at}, at its best{where}: {_signed(best.comparison.value, made.overall)}"
    )
    return replace(made, note=note)


class Table:
    """The metric of every scheduler in every cell by seed, and comparisons with references."""

    def __init__(self, found: Evaluation) -> None:
        self.cells = [cell.label for cell in found.cells]
        self._found = found

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Groups whose rules all took part, and kept the rules of the game."""
        groups = () if self._found.asked is None else self._found.asked.groups
        return tuple(group for group in groups if all(name in self._found.sound for name in group.members))

    def values(self, cell: str, name: str) -> Floats:
        """(num_runs, num_seeds) the metric, in the order of the seeds."""
        return self._found.by_run(self._found.metric, cell, name)

    def reference(self, cell: str, against: Group | str) -> str:
        """The best rule of a group in a cell, or the scheduler itself."""
        if isinstance(against, str):
            return against
        return min(against.members, key=lambda name: float(self.values(cell, name).mean()))

    def points(self, name: str, against: Group | str) -> tuple[Point, ...]:
        """One scheduler against a reference, cell by cell; verdicts are corrected for their number."""
        rivals = [self.reference(cell, against) for cell in self.cells]
        pairs = zip(self.cells, rivals, strict=True)
        found = [
            scales.compare(self._found.deciding, *(self.values(cell, one) for one in (name, rival)))
            for cell, rival in pairs
        ]
        zipped = zip(self.cells, rivals, holm_family(found), strict=True)
        return tuple(Point(cell, rival, comparison) for cell, rival, comparison in zipped)

    def claim(self, about: str, name: str, against: Group | str) -> Claim:
        """One scheduler against a reference over all cells."""
        rivals = [self.reference(cell, against) for cell in self.cells]
        both = (self._mean_over_cells(names) for names in ([name] * len(rivals), rivals))
        overall = scales.compare(self._found.deciding, *both)
        runs = self._found.runs_of
        title = in_words(against, len(runs(against))) if isinstance(against, str) else against.title
        setting = self._found.setting or "the cells"
        return Claim(about, name, title, self.points(name, against), overall, setting, len(runs(name)))

    def _mean_over_cells(self, names: Sequence[str]) -> Floats:
        """(num_runs, num_seeds) mean over the cells, each with its own scheduler."""
        pairs = zip(self.cells, names, strict=True)
        values = [self.values(cell, name) for cell, name in pairs]  # num_cells of (num_runs, num_seeds)
        return scales.centre(self._found.deciding, values, axis=0)


def shown_name(name: str) -> str:
    """A scheduler's name as people read it: of a file its last part, of one of several seeds its folder too."""
    path = Path(name)
    return "/".join(path.parts[-2:]) if path.name.startswith("seed-") else path.name if "/" in name else name


def in_words(name: str, num_runs: int) -> str:
    """The same, with the number of training seeds it stands for."""
    return f"{shown_name(name)} ({num_runs} training seeds)" if num_runs > 1 else shown_name(name)


def _figures(found: Comparison) -> dict[str, object]:
    shown = ("percent", "low_percent", "high_percent", "verdict")
    difference = None if found.difference is None else asdict(found.difference)
    return {name: getattr(found, name) for name in shown} | {"difference": difference}


def _signed(value: float, like: Comparison) -> str:
    return f"{value:+.1f} {like.unit}".rstrip()
