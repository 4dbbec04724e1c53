"""What ``weft.schedule`` returns, and how it is put into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.model.schedule import Schedule


@dataclass(frozen=True)
class Result:
    """A schedule and how it came about."""

    scheduler: str
    schedule: Schedule
    seconds: float
    """Wall time of planning, compilation excluded."""
    seed: int
    is_repeatable: bool
    """Whether the same seed gives the same schedule: not under a wall-time budget, nor where the
    wall clock cut a search short that had an effort."""
    note: str = ""
    """What the scheduler has to say, e.g. which member of a portfolio won."""

    def __str__(self) -> str:
        plan = self.schedule
        return (
            f"{self.scheduler}: makespan {plan.makespan:.6g} {plan.time_unit}, {quality(plan)}, "
            f"planned in {duration(self.seconds)}"
        )

    def to_dict(self, valid: bool | None = None) -> dict[str, object]:
        """The document of ``weft schedule --json``; ``valid`` is what the validator said, None: not asked."""
        from weft.io.schedules import schedule_document

        return schedule_document(self, valid=valid)


def quality(plan: Schedule) -> str:
    """How far from the optimum a schedule may be, in words, and among which schedules."""
    bound = plan.bound
    among = "" if bound.copies else " among schedules without copies"
    known = f"bound {bound.value:.6g} by {bound.method}"
    if plan.gap_percent < -1e-6:
        return f"below the lower bound, so it cannot be valid ({known})"
    if plan.gap_percent < 1e-7:
        return f"optimal{among} ({known})"
    if plan.gap_percent == float("inf"):
        return "no lower bound above 0 is known"
    most = f"at most {plan.gap_percent:.1f}" if plan.gap_percent >= 0.05 else "less than 0.1"
    return f"{most} % above the optimum{among} ({known})"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    for limit, scale, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds / 60:.3g} min"
