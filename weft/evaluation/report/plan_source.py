"""The plan a page is about: a result of ``weft.schedule``, a bare schedule, or a schedule file with its problem."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from weft.catalog import Result
from weft.io.json_files import parse_json
from weft.io.schedules import schedule_from_document
from weft.io.sources import located, read_bytes
from weft.model.bounds import Bound
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.tables import is_number

_SLACK = 1e-9


@dataclass(frozen=True)
class Plan:
    """A schedule with what is known of its origin."""

    schedule: Schedule
    scheduler: str = ""
    """Who made it; empty: not known."""
    seed: int | None = None
    seconds: float | None = None
    """How long planning took."""
    note: str = ""
    """What the scheduler had to say."""
    source: str = ""
    """The file it was read from."""
    digest: str = ""
    """SHA-256 of that file."""

    @property
    def problem(self) -> Problem:
        """What was planned."""
        return self.schedule.problem


def plan_of(planned: Result | Schedule) -> Plan:
    """A plan that was made in Python."""
    if isinstance(planned, Schedule):
        return Plan(planned)
    return Plan(planned.schedule, planned.scheduler, planned.seed, planned.seconds, planned.note)


def read_plan(path: str | Path, problem: Problem) -> Plan:
    """The plan of a schedule file; the bound that it states counts where the plan is the one it speaks of."""
    data = read_bytes(path)
    with located(path):
        document = parse_json(data, path)
        schedule = schedule_from_document(document, problem)
    bound = _stated_bound(document, schedule, Path(path).name)
    seed, seconds = document.get("seed"), document.get("seconds")
    return Plan(
        schedule if bound is None else replace(schedule, lower_bounds=(bound,)),
        _text(document, "scheduler"),
        seed if type(seed) is int else None,
        float(seconds) if is_number(seconds) else None,
        _text(document, "note"),
        str(path),
        hashlib.sha256(data).hexdigest(),
    )


def _text(document: Mapping[str, object], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def _stated_bound(document: Mapping[str, object], schedule: Schedule, name: str) -> Bound | None:
    """What a solver proved, as the file says; None where it cannot be true of this schedule."""
    value, makespan = document.get("lower_bound"), document.get("makespan")
    if not is_number(value) or not is_number(makespan):
        return None
    room = _SLACK * max(1.0, schedule.makespan)
    if abs(makespan - schedule.makespan) > room or value > schedule.makespan + room:
        return None
    method = f"{_text(document, 'bound_by') or 'an unnamed method'}, as {name} states"
    return Bound(float(value), method, document.get("bound_copies") is not False)
