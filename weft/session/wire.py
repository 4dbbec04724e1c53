"""Events as plain data, as a service or a log holds them: ``{"event": "finished", "job": ...}``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from weft.errors import InputError
from weft.io.native import graph_from_document
from weft.io.problems import booking_from_document
from weft.model.bookings import Booking
from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem
from weft.model.stream import StreamProblem

SCHEMA = "weft/session/4"
"""Of snapshots."""
MOST_SEED = 2**63 - 1

TASK = ("job", "task", "device", "time")
SETTINGS = ("deadline", "weight", "owner", "eligible", "booking", "series", "interval", "overrun", "in_order")
"""What may be said of a job that comes with its graph, as fields of a ``Job``."""
FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "arrived": (("job", "time"), ("graph", *SETTINGS)),
    "closed": (("time",), ()),
    "started": (TASK, ("attempt", "branch")),
    "adopted": (TASK, ()),
    "finished": (TASK, ("attempt", "branch")),
    "failed": (TASK, ("attempt",)),
    "vacated": (TASK, ()),
    "device_lost": (("device", "time"), ()),
    "device_joined": (("device", "time"), ()),
}
"""Event to the fields it must have and those it may have."""


def arguments_of(event: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and arguments of an event; raises InputError where a field is missing or unknown."""
    if not isinstance(event, Mapping):
        raise InputError(f"expected an event with named fields, got {event!r}", field="event")
    name = event.get("event")
    if not isinstance(name, str) or name not in FIELDS:
        raise InputError(f"expected one of {', '.join(FIELDS)}, got {name!r}", field="event")
    needed, optional = FIELDS[name]
    for key in needed:
        if key not in event:
            raise InputError("expected this field, found none", field=f"{name}.{key}")
    given = {key: value for key, value in event.items() if key != "event"}
    for key in given:
        if key not in needed and key not in optional:
            raise InputError(
                f"no such field; expected {', '.join((*needed, *optional))}", field=f"{name}.{key}"
            )
    if isinstance(given.get("graph"), Mapping):
        given["graph"] = _graph_of(given["graph"])
    return name, given


def _graph_of(document: Mapping[str, Any]) -> TaskGraph:
    """The graph of a ``weft/graph/1`` document."""
    try:
        return graph_from_document(dict(document))
    except InputError as error:
        where = f"arrived.graph.{error.field}" if error.field else "arrived.graph"
        raise InputError(error.message, field=where) from None


Booked = Booking | Mapping[str, Any] | None
"""What a job books: a booking, or its fields."""


def job_of(name: object, time: float, graph: TaskGraph | None, settings: Mapping[str, Any]) -> Job | None:
    """What arrives, if a graph is given; refused where its settings are no job's."""
    if graph is None:
        for key, value in settings.items():
            if value != getattr(Job, key):
                raise InputError(
                    "expected a graph with it: the problem says it of its jobs", field=f"arrived.{key}"
                )
        return None
    if not isinstance(graph, TaskGraph):
        raise InputError(f"expected a task graph, got {_shown(graph)}", field="arrived.graph")
    for key in ("deadline", "weight", "interval"):
        if settings[key] is not None:
            check_finite(settings[key], f"arrived.{key}")
    for key in ("owner", "series", "overrun"):
        if not isinstance(settings[key], str):
            raise InputError(f"expected a text, got {_shown(settings[key])}", field=f"arrived.{key}")
    if type(settings["in_order"]) is not bool:
        raise InputError(
            f"expected true or false, got {_shown(settings['in_order'])}", field="arrived.in_order"
        )
    eligible = settings["eligible"]
    if eligible is not None:
        is_list = isinstance(eligible, Sequence) and not isinstance(eligible, str)
        if not is_list or not all(isinstance(device, str) for device in eligible):
            raise InputError(
                f"expected a list of devices or classes, got {_shown(eligible)}", field="arrived.eligible"
            )
        eligible = tuple(eligible)
    booking = _booking_of(settings["booking"])
    return Job(graph, str(name), float(time), **{**settings, "eligible": eligible, "booking": booking})


def _booking_of(given: object) -> Booking | None:
    """What a job books, as a booking or its fields."""
    if given is None or isinstance(given, Booking):
        return given
    if not isinstance(given, Mapping):
        raise InputError(f"expected a booking or its fields, got {_shown(given)}", field="arrived.booking")
    from weft.io.headers import BookingPart, checked

    return booking_from_document(checked(BookingPart, dict(given), "arrived.booking").model_dump())


def check_finite(time: object, field: str) -> None:
    """A time of an event must be a number that a float can hold."""
    try:
        is_finite = isinstance(time, Real) and math.isfinite(time)
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise InputError(f"expected a finite number, got {_shown(time)}", field=field)


def refuse_arguments(problem: object, scheduler: object, seed: object) -> None:
    """What a session is made of, checked before anything is made."""
    if not isinstance(problem, Problem | StreamProblem | Cluster):
        raise InputError(f"expected a problem, a stream or a cluster, got {_shown(problem)}", field="problem")
    if scheduler is None or isinstance(scheduler, bool | int | float | bytes | list | tuple | dict):
        raise InputError(f"expected a name or a scheduler, got {_shown(scheduler)}", field="scheduler")
    if type(seed) is not int or not 0 <= seed <= MOST_SEED:
        raise InputError(f"expected a whole number from 0 to {MOST_SEED}, got {_shown(seed)}", field="seed")


def refuse_limits(**limits: object) -> None:
    """How often something may go wrong, checked by name."""
    for name, value in limits.items():
        if type(value) is not int or value < 1:
            raise InputError(f"expected a whole number >= 1, got {_shown(value)}", field=name)


def _shown(value: object) -> str:
    """A value in a message, cut where it is long; Python refuses to write very long numbers."""
    try:
        return f"{value!r:.60}"
    except ValueError:
        return "a very long number"


def parts_of(
    given: Problem | StreamProblem | Cluster, time_unit: str, noise: float, noise_law: str
) -> tuple[Problem, StreamProblem | None]:
    """The problem, and the stream it comes from; a cluster alone gets one without tasks."""
    if isinstance(given, StreamProblem):
        return given.problem, given
    if isinstance(given, Cluster):
        empty = Job(TaskGraph([], time_unit=time_unit), "none")
        return Problem(empty, given, noise=noise, noise_law=noise_law), None
    return given, None


def same_scheduler(snapshot: Mapping[str, Any], given: Any) -> Any:
    """Who goes on with a snapshot: whom it names, or what is given if it has that name."""
    chosen = given or str(snapshot["scheduler"])
    name = chosen if isinstance(chosen, str) else str(getattr(chosen, "name", ""))
    if name != snapshot["scheduler"]:
        raise InputError(f"taken with {snapshot['scheduler']!r}, not with {name!r}", field="scheduler")
    return chosen
