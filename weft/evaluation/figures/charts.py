"""Gantt charts of one or several schedules, as a picture or as text: ``weft.gantt``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from weft.catalog import Result
from weft.errors import expect, expect_each
from weft.evaluation.figures import gantt as drawing
from weft.model.schedule import Schedule


@dataclass(frozen=True)
class Chart:
    """One schedule that was drawn."""

    title: str
    makespan: float


@dataclass(frozen=True)
class Gantt:
    """What was drawn: a picture in ``out``, or ``text``."""

    charts: tuple[Chart, ...]
    out: str | None
    text: str | None

    def __str__(self) -> str:
        return f"wrote {self.out}" if self.text is None else self.text

    def to_dict(self) -> dict[str, object]:
        """The fields of ``weft gantt --json``."""
        return {"out": self.out, "charts": [asdict(one) for one in self.charts], "text": self.text}


def gantt(
    plans: Schedule | Result | Mapping[str, Schedule],
    out: str | Path | None = None,
    *,
    width: int = 100,
    markup: bool = False,
) -> Gantt:
    """Draw a schedule, or several by their titles below one another on one time axis.

    Parameters
    ----------
    out
        A .png or .svg (extra ``plot``); None: lines of text.
    width
        Columns of the text.
    markup
        Whether the text is coloured for rich.
    """
    drawn = _titled(plans)
    charts = tuple(Chart(title, plan.makespan) for title, plan in drawn.items())
    if out is None:
        parts = {title: drawing.terminal(plan, width, markup=markup) for title, plan in drawn.items()}
        several = [f"{title}\n{text}" for title, text in parts.items()]
        return Gantt(charts, None, "\n\n".join(several if len(parts) > 1 else parts.values()))
    if len(drawn) == 1:
        ((title, plan),) = drawn.items()
        name = plan.problem.name
        drawing.draw(plan, out, title=f"{name}, {title}" if title else name)
    else:
        drawing.several(list(drawn.items()), out)
    return Gantt(charts, str(out), None)


def _titled(plans: Schedule | Result | Mapping[str, Schedule]) -> Mapping[str, Schedule]:
    if isinstance(plans, Schedule):
        return {"": plans}
    if isinstance(plans, Result):
        return {plans.scheduler: plans.schedule}
    words = "a schedule, a result, or schedules by their titles"
    expect(plans, Mapping, words, "plans")
    expect_each(plans.values(), Schedule, words, "plans")
    return plans
