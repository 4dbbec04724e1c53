"""Shapes of the small parts of weft's files (clusters, problem headers), checked by pydantic.

The only module of ``io`` that imports pydantic; it is imported inside functions, on use.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from weft.errors import InputError
from weft.io.columns import unknown_key
from weft.io.sources import shown
from weft.io.units import parse_bandwidth, parse_bytes, parse_seconds, parse_time
from weft.model.units import SECONDS

Bandwidth = Annotated[float, AllowInfNan(True), BeforeValidator(parse_bandwidth)]
Size = Annotated[float, AllowInfNan(True), BeforeValidator(parse_bytes)]
Seconds = Annotated[float, BeforeValidator(parse_seconds)]
Time = Annotated[float, BeforeValidator(lambda value: parse_time(value) if type(value) is str else value)]
"""A number in the unit of the graph, or a text with a unit, then in seconds."""
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Text = Annotated[str, Field(min_length=1)]


def _known_unit(unit: str) -> str:
    if unit not in SECONDS:
        raise ValueError(f"expected one of {', '.join(SECONDS)}, got {shown(unit)}")
    return unit


TimeUnit = Annotated[str, AfterValidator(_known_unit)]


def _time(kind: str, value: object, unit: str, is_plain_known: bool) -> object:
    """A run time of a class in this unit; plain numbers only where their unit is known."""
    if type(value) is not str:
        if is_plain_known:
            return value
        raise ValueError(f"times.{kind}: expected a time with a unit, as others have, got {shown(value)}")
    try:
        return parse_time(value, unit)
    except ValueError as error:
        raise ValueError(f"times.{kind}: {error}") from None


class _Part(BaseModel):
    """Unknown keys and silent conversions are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=False)


class DevicePart(_Part):
    """``[[device]]`` or ``[[node.device]]``; ``count = 0`` defines a class without devices."""

    class_name: Text = Field(alias="class")
    count: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    speed: Annotated[float, Field(gt=0)] | None = None
    times: dict[str, Annotated[float, Field(ge=0)]] = {}
    time_unit: TimeUnit | None = None
    speeds: dict[str, Annotated[float, Field(gt=0)]] = {}
    slots: Count = 1
    memory: Size = float("inf")
    batch: Count = 1
    watts: Annotated[float, Field(ge=0)] = 0.0
    idle_watts: Annotated[float, Field(ge=0)] = 0.0
    price: Annotated[float, Field(ge=0)] = 0.0
    overhead: Seconds = 0.0
    capacity: dict[str, Annotated[float, Field(ge=0)]] = {}

    @model_validator(mode="before")
    @classmethod
    def _times_of_one_unit(cls, given: Any) -> Any:
        """Texts with a unit become numbers of ``time_unit``, in seconds where none is given."""
        times = given.get("times") if isinstance(given, dict) else None
        if not isinstance(times, dict) or str not in map(type, times.values()):
            return given
        unit = given.get("time_unit", "s")
        if not isinstance(unit, str) or unit not in SECONDS:
            return given
        is_plain_known = "time_unit" in given
        read = {kind: _time(kind, value, unit, is_plain_known) for kind, value in times.items()}
        return {**given, "times": read, "time_unit": unit}


class NodePart(_Part):
    """``[[node]]``: devices that sit together; ``count`` equal nodes."""

    count: Count = 1
    inner_bandwidth: Bandwidth | None = None
    inner_latency: Seconds | None = None
    device: Annotated[list[DevicePart], Field(min_length=1)]


class LinkPart(_Part):
    """``[[link]]``: an exception for two classes (``between``) or two nodes (``nodes``)."""

    between: Annotated[list[str], Field(min_length=2, max_length=2)] | None = None
    nodes: Annotated[list[int], Field(min_length=2, max_length=2)] | None = None
    bandwidth: Bandwidth | None = None
    latency: Seconds | None = None


class LinkTablePart(_Part):
    """``links``: full tables over the devices, row = from, column = to; the diagonal is not used."""

    bandwidth: list[list[float | str]] | None = None
    latency: list[list[float | str]] | None = None


class ClusterPart(_Part):
    """A whole cluster file."""

    schema_name: str = Field("weft/cluster/1", alias="schema")
    name: Text | None = None
    description: str = ""
    provenance: str = ""
    bandwidth: Bandwidth | None = None
    latency: Seconds | None = None
    one_port: bool = False
    node: list[NodePart] = []
    device: list[DevicePart] = []
    link: list[LinkPart] = []
    links: LinkTablePart | None = None
    workers: dict[str, Text] = {}
    calibration: dict[str, Any] = {}


class ObjectivePart(_Part):
    """``objective`` of a problem."""

    metric: Text = "makespan"
    copies: bool = True


class JobPart(_Part):
    """One of the ``jobs`` of a problem, its graph left aside."""

    name: Text = "job"
    release: Annotated[Time, Field(ge=0)] = 0.0
    period: Annotated[Time, Field(gt=0)] | None = None
    deadline: Annotated[Time, Field(ge=0)] | None = None
    weight: Annotated[float, Field(ge=0)] = 1.0
    owner: str = ""
    eligible: list[str] | None = None
    series: str = ""
    interval: Annotated[Time, Field(gt=0)] | None = None
    overrun: str = "queue"
    in_order: bool = False


class ProblemPart(_Part):
    """A problem, its jobs and cluster left aside."""

    schema_name: str = Field("weft/problem/1", alias="schema")
    name: Text | None = None
    noise: Annotated[float, Field(ge=0)] = 0.0
    bias: Annotated[float, Field(ge=0)] = 0.0
    drift: Annotated[float, Field(ge=0)] = 0.0
    noise_law: str = "lognormal"
    horizon: Annotated[float, Field(ge=0)] | None = None
    objective: ObjectivePart = ObjectivePart()


class SeriesPart(_Part):
    """Values of a profile, summed up."""

    count: Annotated[int, Field(ge=1)]
    mean: Annotated[float, Field(ge=0)]
    m2: Annotated[float, Field(ge=0)]
    least: Annotated[float, Field(ge=0)]
    most: Annotated[float, Field(ge=0)]
    recent: Annotated[float, Field(ge=0)]


class SeenKindPart(_Part):
    """A kind of task on a class of device, in a profile."""

    kind: str
    class_name: Text = Field(alias="class")
    seconds: SeriesPart
    pace: SeriesPart | None = None
    size: SeriesPart | None = None


class SeenTaskPart(_Part):
    """A single task of a graph on a class of device, in a profile."""

    graph: Text
    task: Text
    class_name: Text = Field(alias="class")
    seconds: SeriesPart
    pace: SeriesPart | None = None
    size: SeriesPart | None = None


class ProfilePart(_Part):
    """A whole profile."""

    schema_name: str = Field(alias="schema")
    kinds: list[SeenKindPart] = []
    tasks: list[SeenTaskPart] = []


PartT = TypeVar("PartT", bound=_Part)


def checked(part: type[PartT], document: dict[str, Any], where: str = "") -> PartT:
    """The document as this part, or one InputError for the first thing that is wrong."""
    try:
        return part.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = _path(where, first["loc"])
        raise InputError(_message(part, first), field=field) from None


def _path(where: str, loc: tuple[int | str, ...]) -> str:
    path = where
    for step in loc:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.lstrip(".")


def _message(part: type[_Part], error: Any) -> str:
    kind, given = error["type"], error["input"]
    if kind == "extra_forbidden":
        return unknown_key(str(error["loc"][-1]), _keys_at(part, error["loc"][:-1]))
    if kind == "missing":
        return "expected a value, got nothing"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    expected = error["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return f"expected {expected}, got {shown(given)}"


def _keys_at(part: type[_Part], loc: tuple[int | str, ...]) -> list[str]:
    """The keys known at this place of the document."""
    for step in loc:
        inner = {_key(name, field): field.annotation for name, field in part.model_fields.items()}
        if isinstance(step, str) and step in inner:
            part = _part_inside(inner[step]) or part
    return [_key(name, field) for name, field in part.model_fields.items()]


def _key(name: str, field: Any) -> str:
    return str(field.alias or name)


def _part_inside(annotation: Any) -> type[_Part] | None:
    if isinstance(annotation, type) and issubclass(annotation, _Part):
        return annotation
    inside = (_part_inside(a) for a in getattr(annotation, "__args__", ()))
    return next((found for found in inside if found is not None), None)
