"""Gantt charts of one or several schedules, as a picture, a page or text: ``weft.gantt``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from weft.catalog import Result
from weft.errors import InputError, expect, expect_each
from weft.evaluation.figures import gantt as drawing
from weft.io.sources import write_bytes
from weft.model.schedule import Schedule

PAGE = ".html"


@dataclass(frozen=True)
class Chart:
    """One schedule that was drawn."""

    title: str
    makespan: float


@dataclass(frozen=True)
class Gantt:
    """What was drawn: a picture or page in ``out``, or ``text``."""

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
        A .png or .svg (extra ``plot``), or an .html page; None: lines of text.
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
    check_path(out, "path")
    if len(drawn) == 1:
        ((title, plan),) = drawn.items()
        name = plan.problem.name
        drawn = {f"{name}, {title}" if title else name: plan}
    (_write_page if _is_page(out) else _write_picture)(drawn, out)
    return Gantt(charts, str(out), None)


def check_path(path: str | Path, field: str) -> None:
    """Refuse a chart that cannot be drawn; worth asking before a long plan is made for it."""
    if Path(path).suffix.lower() not in (".png", ".svg", PAGE):
        raise InputError(f"expected a path that ends in .png, .svg or {PAGE}, got {str(path)!r}", field=field)
    if not _is_page(path):
        drawing.check_path(path, field)


def _is_page(path: str | Path) -> bool:
    return Path(path).suffix.lower() == PAGE


def _write_picture(plans: Mapping[str, Schedule], out: str | Path) -> None:
    drawing.several(list(plans.items()), out)


def _write_page(plans: Mapping[str, Schedule], out: str | Path) -> None:
    """A page that holds the chart alone."""
    from weft.evaluation.report.blocks import Report, Section
    from weft.evaluation.report.page import render
    from weft.evaluation.report.plan_chart import chart

    lines = tuple(f"{title}: {drawing.quality(plan)}" for title, plan in plans.items())
    name = next(iter(plans.values())).problem.name
    write_bytes(render(Report(name, lines, (Section("The plan", (chart(plans),)),))).encode(), out)


def _titled(plans: Schedule | Result | Mapping[str, Schedule]) -> Mapping[str, Schedule]:
    if isinstance(plans, Schedule):
        return {"": plans}
    if isinstance(plans, Result):
        return {plans.scheduler: plans.schedule}
    words = "a schedule, a result, or schedules by their titles"
    expect(plans, Mapping, words, "plans")
    expect_each(plans.values(), Schedule, words, "plans")
    return plans
