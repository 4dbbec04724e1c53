"""What the rules of the validator share: a broken rule, and how times are compared."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.oracle_input import OracleInput

TOLERANCE = 1e-9
"""Slack of every comparison, relative to the run time or to the time since the first release."""
ROUNDING = 1e-15
"""What adding up two times may lose, relative to their sum."""


@dataclass(frozen=True)
class Violation:
    """One broken rule; task (in a history JOB/TASK) and device by display name, None where the rule names none."""

    rule: str
    task: str | None
    device: str | None
    detail: str

    def __str__(self) -> str:
        where = ", ".join(name for name in (self.task, self.device) if name is not None)
        return f"{self.rule} ({where}): {self.detail}" if where else f"{self.rule}: {self.detail}"


def broken(given: OracleInput, rule: str, detail: str, row: int) -> Violation:
    """A rule that a row breaks."""
    device = given.device[row]
    is_known = 0 <= device < len(given.class_of)
    device_name = given.cluster.device_names[device] if is_known else None
    return Violation(rule, given.task_name(given.task[row]), device_name, detail)


def later(given: OracleInput, time: float, than: float) -> bool:
    """Whether a time is later by more than rounding; releases may be dates, far from zero."""
    return time > than + TOLERANCE * abs(than - given.origin) + ROUNDING * abs(than)
