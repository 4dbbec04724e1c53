"""Elastic problems of scenarios: settings, and the types of task they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InputError
from weft.io.speed_tables import Measured, factors_of, rates_of, read_speed_table
from weft.kinds import ELASTIC
from weft.model.columns import Floats
from weft.model.draws import PROGRESS, keyed_uniform
from weft.model.elastic import (
    CONFLICTS,
    DRAWN_LINKS,
    MOST_CAPACITY,
    MOST_UNITS,
    PENDING,
    STEPPINGS,
    ElasticProblem,
    TaskType,
    amdahl,
    insensitive,
    saturating,
)
from weft.model.problem import Problem
from weft.scenarios.settings import Setting

if TYPE_CHECKING:
    from weft.scenarios.scenario import Scenario

RESOURCES = ("cpu", "gpu")
NAMES = (*RESOURCES, "memory")
"""The third one only where capacities have three parts; speeds do not depend on it."""
TYPES = ("synthetic", "test-bed", "pointer", "amdahl", "table")
PROGRESS_BY = ("constant", "loss")
WITH_LOSSES = ("test-bed", "table")
NUM_EPOCHS = {"vision": 16, "language": 12}
"""Of the types of the test bed that train; the others have none."""

SETTINGS = (
    Setting("clusters", "whole", 3, "clusters, each with an agent", 1, 62),
    Setting("tasks", "whole", 192, "tasks that arrive in an episode", 1, 100_000),
    Setting("arrival_rate", "number", 2.0, "tasks that arrive in a world step, on average", 0.001, 500),
    Setting("capacity", "texts", ("16x16",), "CPUs x GPUs (x memory) of each cluster; one: of all"),
    Setting("types", "text", "synthetic", "types of task; table: those of a file", choices=TYPES),
    Setting("table", "path", "", "a CSV of measured run times: task, cpu, gpu, seconds and perhaps memory and loss"),
    Setting("least", "text", "2x1", "CPUs x GPUs (x memory) that a task needs"),
    Setting("most", "text", "16x16", "CPUs x GPUs (x memory) that a task may have"),
    Setting("progress", "text", "constant", "speed over a task's course: constant, or by its losses", choices=PROGRESS_BY),
    Setting("step_seconds", "number", 10.0, "length of a world step, where run times are in seconds", 0.001, 1e6),
    Setting("noise", "number", 0.1, "progress of a step varies by this much up and down", 0, 1),
    Setting("switching", "number", 0.5, "progress of a step in which units have changed is multiplied by this", 0, 1),
    Setting("stepping", "text", "single", "tasks a cluster takes in a world step: one, or as many as fit", choices=STEPPINGS),
    Setting("conflicts", "text", "own", "who gets a task that several clusters pick; own: as the allocator says", choices=CONFLICTS),
    Setting("links", "text", "subset", "clusters a task may run on: a random subset, or those in reach of its bandwidth", choices=DRAWN_LINKS),
    Setting("bandwidth", "number", 10.0, "bandwidths lie between 0 and this", 0, 1e9),
    Setting("threshold", "number", 5.0, "bandwidth that connects; a task without any has its best link", 0, 1e9),
    Setting("pending", "text", "slots", "pending sets: slots that are filled after a world step, or the earliest tasks", choices=PENDING),
    Setting("slots", "whole", 10, "tasks in a pending set", 1, 1000),
)  # fmt: skip


def refuse_graph(chosen: Scenario, split: str, index: int) -> Problem:
    """Elastic tasks have no graph to plan."""
    raise InputError(
        f"scenario {chosen.name} has elastic tasks, which allocators place: weft evaluate {chosen.name}",
        field="scenario",
    )


def elastic_problem(chosen: Scenario, split: str, index: int) -> ElasticProblem:
    """The problem of a scenario's settings; indices of a split differ in their seeds alone."""
    if chosen.kind is not ELASTIC:
        raise InputError(f"scenario {chosen.name} has no elastic tasks", field="scenario")
    values, capacity = chosen.settings, _capacity(chosen)
    types = _types(chosen)
    _check_room(capacity, types)
    return ElasticProblem(
        capacity=capacity,
        types=types,
        num_tasks=chosen.whole("tasks"),
        arrival_rate=chosen.number("arrival_rate"),
        resources=NAMES[: capacity.shape[1]],
        switching=chosen.number("switching"),
        links=str(values["links"]),
        bandwidth=chosen.number("bandwidth"),
        threshold=chosen.number("threshold"),
        pending=str(values["pending"]),
        num_slots=chosen.whole("slots"),
        stepping=str(values["stepping"]),
        conflicts=str(values["conflicts"]),
        name=chosen.problem_name(split, index),
    )


def _units(text: str, field: str) -> tuple[int, ...]:
    """``16x16`` or ``16x16x64`` as numbers."""
    if re.fullmatch(r"\d{1,4}(x\d{1,4}){1,2}", text) is None:
        raise InputError(f"expected CPUs x GPUs such as 16x16, got {text!r}", field=f"settings.{field}")
    found = tuple(int(part) for part in text.split("x"))
    limit = MOST_UNITS if field == "most" else MOST_CAPACITY
    if max(found[:2]) > limit:
        raise InputError(
            f"expected at most {limit} units of a resource, got {text}", field=f"settings.{field}"
        )
    return found


def _capacity(chosen: Scenario) -> np.ndarray:
    named = chosen.settings["capacity"]
    texts = named if isinstance(named, tuple) else (str(named),)
    count = chosen.whole("clusters")
    if len(texts) not in (1, count):
        raise InputError(f"expected one or {count} capacities, got {len(texts)}", field="settings.capacity")
    units = [_units(text, "capacity") for text in texts]
    if len({len(one) for one in units}) > 1:
        raise InputError(
            f"expected memory everywhere or nowhere, got {', '.join(texts)}", field="settings.capacity"
        )
    return np.array(units * count if len(units) == 1 else units, np.int64)


def _check_room(capacity: np.ndarray, types: tuple[TaskType, ...]) -> None:
    """Every cluster has what each task needs: a task may be connected to it alone."""
    needs = types[0].least  # all types need the same
    for units in capacity.tolist():
        if len(units) == len(needs) and any(have < need for have, need in zip(units, needs, strict=True)):
            raise InputError(
                f"expected at least {_joined(needs)} for every cluster, what a task needs (settings.least), "
                f"got {_joined(units)}",
                field="settings.capacity",
            )


def _joined(units: Sequence[int]) -> str:
    return "x".join(map(str, units))


def _types(chosen: Scenario) -> tuple[TaskType, ...]:
    named, noise = str(chosen.settings["types"]), chosen.number("noise")
    if (named == "table") != bool(chosen.settings["table"]):
        expected = "a file" if named == "table" else f"no file with types={named}"
        raise InputError(f"expected {expected}, got {chosen.settings['table']!r}", field="settings.table")
    if chosen.settings["progress"] == "loss" and named not in WITH_LOSSES:
        raise InputError(
            f"expected constant, for types={named} have no losses, got 'loss'", field="settings.progress"
        )
    least, most = (_units(str(chosen.settings[key]), key) for key in ("least", "most"))
    if named == "synthetic":
        return (
            insensitive("img", least, most, 0.25, noise),
            saturating("lm", least, most, 1, 16.0, noise),
        )
    if named == "pointer":  # a little above, so that ten steps are enough whatever rounding does
        return (
            insensitive("short", least, most, 1.0, noise),
            insensitive("long", least, most, 0.1 + 1e-12, noise),
        )
    if named == "amdahl":
        none = (0.0,) * (len(least) - len(RESOURCES))
        return (
            amdahl("serial", least, most, 6.0, (0.1, 0.1, *none), noise),
            amdahl("parallel", least, most, 16.0, (0.15, 0.8, *none), noise),
        )
    return (
        _measured(chosen, least, most, noise) if named == "table" else _test_bed(chosen, least, most, noise)
    )


def _measured(
    chosen: Scenario, least: tuple[int, ...], most: tuple[int, ...], noise: float
) -> tuple[TaskType, ...]:
    """The types of a file; its own course of progress counts where ``progress`` asks for it."""
    file, step = str(chosen.settings["table"]), chosen.number("step_seconds")
    found = []
    for one in read_speed_table(file, RESOURCES):
        by_loss = chosen.settings["progress"] == "loss"
        if by_loss and not one.curve:
            raise InputError(
                "expected a column loss, for progress=loss", file=file, field="settings.progress"
            )
        needs, may_have = _with_memory(chosen, one, least, most)
        top = tuple(min(high, own) for high, own in zip(may_have[:2], one.most, strict=True))
        try:
            rates = _over_all(rates_of(one, needs[:2], top, step), len(needs))
        except InputError as error:
            raise error.at(file=file) from None
        law, curve = ("table", one.curve) if by_loss else ("constant", ())
        given = (one.name, needs, (*top, *may_have[2:]), rates, np.zeros_like(rates), law)
        found.append(TaskType(*given, curve=curve, noise=noise))
    return tuple(found)


def _with_memory(
    chosen: Scenario, one: Measured, least: tuple[int, ...], most: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What tasks of a type need and may have, with the memory that its rows state."""
    if one.memory is None:
        return least, most
    if _capacity(chosen).shape[1] < len(NAMES):
        raise InputError(
            "has a column memory: expected capacities with memory, such as 16x16x64",
            file=str(chosen.settings["table"]), field="settings.capacity",
        )  # fmt: skip
    return (*least[:2], one.memory), (*most[:2], one.memory)


def _test_bed(
    chosen: Scenario, least: tuple[int, ...], most: tuple[int, ...], noise: float
) -> tuple[TaskType, ...]:
    """Three types with the shapes of measured ones, and seeded bumps of a few per cent.

    Training of a small vision net speeds up with CPUs, and slows down with GPUs where CPUs are few; training of
    a language model speeds up with GPUs; recognition of speech hardly changes.
    """
    cpus, gpus = (
        np.maximum(part, 1) for part in np.indices([size + 1 for size in most[:2]]).astype(np.float64)
    )
    seconds: dict[str, Floats] = {
        "vision": 30.0 + 47.0 / cpus + 27.0 * (gpus - 1.0) / cpus,
        "language": 47.0 + 218.0 / gpus,
        "speech": 17.6 + 3.0 / cpus,
    }
    step, by_loss, found = chosen.number("step_seconds"), chosen.settings["progress"] == "loss", []
    for number, (name, table) in enumerate(seconds.items()):
        flat = np.arange(table.size).reshape(table.shape)
        bumps = 1.0 + 0.06 * (keyed_uniform(chosen.recipe.seed, PROGRESS, -2, number, flat, 0) - 0.5)
        rates = _over_all(step / (table * bumps), len(least))
        has_epochs = by_loss and name in NUM_EPOCHS
        curve = factors_of(_course(NUM_EPOCHS[name])) if has_epochs else ()
        law = "table" if curve else "constant"
        found.append(TaskType(name, least, most, rates, np.zeros_like(rates), law, curve=curve, noise=noise))
    return tuple(found)


def _over_all(rates: Floats, num_resources: int) -> Floats:
    """A table over CPUs and GPUs as one over all resources; the others have no influence."""
    return rates.reshape(*rates.shape, *(1,) * (num_resources - rates.ndim))


def _course(num_epochs: int) -> Floats:
    """Share of the run time that each epoch's part of the fall in loss takes, where the loss falls as exp(-2 t)."""
    progress = np.linspace(0.0, 1.0, num_epochs + 1)
    times = -0.5 * np.log(1.0 - progress * (1.0 - np.exp(-2.0)))
    return np.asarray(np.diff(times))
