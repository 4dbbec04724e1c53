"""Dispatching rules as planners: a priority per task, decoded under capacities.

A rule is a weighted sum of features, so every named rule here is a special case of a mix that a
user can write in a file. Where transfers take time the list is decoded by earliest finish with
insertion, otherwise by the event decoder of ``sim/timeline/decoding.py``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from weft.errors import InputError
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.schedulers.base import Limit, refuse_unplannable
from weft.sim.arrays import Arrays, compile_problem
from weft.sim.timeline.decoding import (
    Pools,
    Scratch,
    decode_active,
    decode_batch,
    decode_list,
    descendant_sum,
    new_scratch,
    pools_of,
)
from weft.sim.timeline.list_planning import list_order, place_all, upward_rank
from weft.sim.timeline.timelines import Timeline, clear, new_timeline, rows_of

BACKFILL, WAIT, ACTIVE = "backfill", "wait", "active"
DECODERS = (BACKFILL, WAIT, ACTIVE)
MOST_EXACT = 20_000
"""Above this many tasks, work and operations remaining count the longest path, not all descendants."""


def has_transfers(a: Arrays) -> bool:
    """Whether moving data between devices takes time."""
    if len(a.device_class) < 2 or not len(a.succ):
        return False
    return bool((a.latency > 0).any() or ((a.succ_data > 0).any() and (a.inverse > 0).any()))


class Decoder:
    """Turns priorities of one problem into schedules; keeps its buffers between calls."""

    def __init__(self, problem: Problem, a: Arrays | None = None) -> None:
        self.problem = problem
        self.a = compile_problem(problem) if a is None else a
        self.by_finish = has_transfers(self.a)
        self.pools: Pools = pools_of(self.a)
        self.scratch: Scratch = new_scratch(self.pools)
        self._timeline: Timeline | None = None

    @property
    def is_active_possible(self) -> bool:
        """Whether Giffler-Thompson applies: one class per task, one task per device."""
        return bool(
            self.a.is_unary.all()
            and (self.pools.num_choices == 1).all()
            and not self.a.allowed.size
            and not self.by_finish
        )

    def replaced(self, decoder: str) -> str:
        """What stands in for a decoder that does not apply to this problem, in words; empty: nothing."""
        if self.by_finish and decoder != BACKFILL:
            return f"decoder {decoder!r} does not apply where transfers take time: earliest finish instead"
        if decoder == ACTIVE and not self.is_active_possible:
            return (
                f"decoder {decoder!r} does not apply, it needs one device class per task and devices that "
                "run one task at a time: earliest finish instead"
            )
        return ""

    def schedule(self, priority: Floats, decoder: str = BACKFILL, hold: Bools | None = None) -> Schedule:
        """The schedule of one list."""
        if self.by_finish or self.replaced(decoder):
            return self._by_finish(priority)
        if decoder == ACTIVE:
            decode_active(self.pools, self.scratch, priority)
        else:
            if hold is None:
                hold = np.full(len(priority) if decoder == WAIT else 0, True)
            decode_list(self.pools, self.scratch, priority, hold)
        return self.placed(self.scratch.start.copy(), self.scratch.device.copy())

    def placed(self, start: Floats, device: Ints) -> Schedule:
        """The schedule with these starts and devices, one of each per task."""
        finish = start + self.a.run[np.arange(len(start)), self.a.device_class[device]]
        tasks = np.arange(len(start), dtype=np.int32)
        return Schedule(self.problem, tasks, device.astype(np.int32), start, finish)

    def makespans(self, priorities: Floats, decoder: str = BACKFILL) -> Floats:
        """Makespan of every row; only for problems without transfer times."""
        hold = np.full((1, priorities.shape[1]) if decoder == WAIT else (0, 0), True)
        result = np.empty(len(priorities))
        decode_batch(self.pools, self.scratch, priorities, hold, decoder == ACTIVE, result)
        return result

    def _by_finish(self, priority: Floats) -> Schedule:
        if self._timeline is None:
            self._timeline = new_timeline(self.a)
        clear(self.a.is_unary, self._timeline)
        nobody, no_bias = np.zeros(0, np.int64), np.zeros((0, 0))
        place_all(self.a, self._timeline, list_order(self.a, priority), nobody, no_bias, True, False)
        return Schedule(self.problem, **rows_of(self._timeline))


class Features:
    """Columns a priority is mixed from, each one value per task."""

    def __init__(self, problem: Problem, a: Arrays, seed: int = 0) -> None:
        self.problem = problem
        self.a = a
        self.seed = seed
        self.duration = problem.mean_run_times

    def column(self, name: str) -> Floats:
        """One feature by name."""
        column: Floats = getattr(self, f"_{name.replace('-', '_')}")()
        return column

    def _spt(self) -> Floats:
        return -self.duration

    def _lpt(self) -> Floats:
        return self.duration

    def _cp(self) -> Floats:
        return np.asarray(upward_rank(self.a, self.duration))

    def _area(self) -> Floats:
        """Heaviest path in slot-time."""
        return np.asarray(upward_rank(self._without_data(), self.duration * self.a.demand[:, 0]))

    def _slots(self) -> Floats:
        return self.a.demand[:, 0].copy()

    def _mwkr(self) -> Floats:
        return self._work_remaining

    def _mopnr(self) -> Floats:
        return self._remaining(np.ones(len(self.duration)))

    def _ratio(self) -> Floats:
        remaining = self._work_remaining
        return -self.duration / np.where(remaining > 0, remaining, 1.0)

    def _random(self) -> Floats:
        return np.random.default_rng(self.seed).random(len(self.duration))

    @cached_property
    def _work_remaining(self) -> Floats:
        return self._remaining(self.duration)

    def _remaining(self, amount: Floats) -> Floats:
        """Amount of a task and all its descendants."""
        if len(amount) > MOST_EXACT or _is_forest(self.a.succ_ptr):
            return np.asarray(upward_rank(self._without_data(), amount))
        return np.asarray(descendant_sum(self.a.order, self.a.succ_ptr, self.a.succ, amount))

    def _without_data(self) -> Arrays:
        return self.a._replace(mean_latency=0.0, mean_inverse=0.0)


FEATURES = ("spt", "lpt", "cp", "area", "slots", "mwkr", "mopnr", "ratio", "random")


def _is_forest(succ_ptr: Ints) -> bool:
    """Whether every task has at most one successor: then the longest path is all that remains."""
    return bool((np.diff(succ_ptr) <= 1).all())


@dataclass(frozen=True)
class Mix:
    """A priority: weighted sum of features, each divided by its largest size when normalised."""

    weights: Mapping[str, float]
    decoder: str = BACKFILL
    normalise: bool = True
    name: str = "mix"

    def __post_init__(self) -> None:
        if not self.weights:
            raise InputError("expected at least one weight", field="weights")
        for key, value in self.weights.items():
            if key not in FEATURES:
                raise InputError(
                    f"expected one of {', '.join(FEATURES)}, got {key!r}", field=f"weights.{key}"
                )
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not np.isfinite(value):
                raise InputError(f"expected a finite number, got {value!r}", field=f"weights.{key}")
        if self.decoder not in DECODERS:
            raise InputError(f"expected one of {', '.join(DECODERS)}, got {self.decoder!r}", field="decoder")
        if not isinstance(self.normalise, bool):
            raise InputError(f"expected true or false, got {self.normalise!r}", field="normalise")
        if not isinstance(self.name, str):
            raise InputError(f"expected a text, got {self.name!r}", field="name")

    def priority(self, features: Features) -> Floats:
        """The mixed column."""
        total = np.zeros(len(features.duration))
        for name, weight in self.weights.items():
            column = features.column(name)
            size = float(np.abs(column).max(initial=0.0)) if self.normalise else 1.0
            total += weight * (column / size if size > 0 else column)
        return total


def read_mix(path: str | Path) -> Mix:
    """A mix from a TOML file: ``decoder``, ``normalise`` and a table ``[weights]``."""
    file = str(path)
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the file: {error}", file=file) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not valid TOML: {error}", file=file) from None
    known = {"weights", "decoder", "normalise", "name"}
    for key in document:
        if key not in known:
            raise InputError(f"unknown field; expected {', '.join(sorted(known))}", file=file, field=key)
    if not isinstance(document.get("weights"), dict):
        raise InputError("expected a table of weights", file=file, field="weights")
    try:
        return Mix(**{"name": Path(path).stem, **document})
    except InputError as error:
        raise error.at(file=file) from None


@dataclass
class Rule:
    """A planner made of one mix."""

    mix: Mix
    name: str = field(init=False)
    note: str = field(default="", init=False)
    """Which decoder the last call of ``plan`` had to do without."""

    def __post_init__(self) -> None:
        self.name = self.mix.name

    def supports(self, problem: Problem) -> str | None:
        return refuse_unplannable(problem)

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """Decode the list."""
        decoder = Decoder(problem)
        self.note = decoder.replaced(self.mix.decoder)
        return decoder.schedule(self.mix.priority(Features(problem, decoder.a, seed)), self.mix.decoder)


def _rule(name: str, decoder: str = BACKFILL, **weights: float) -> Mix:
    return Mix(weights, decoder, normalise=len(weights) > 1, name=name)


RULES = {
    mix.name: mix
    for mix in (
        _rule("spt", spt=1.0),
        _rule("mwkr", mwkr=1.0),
        _rule("mopnr", mopnr=1.0),
        _rule("cp", cp=1.0),
        _rule("cp-wait", WAIT, cp=1.0),
        _rule("cp-area", cp=1.0, area=1.0),
        _rule("ratio", ratio=1.0),
    )
}


def spt() -> Rule:
    """Shortest processing time first."""
    return Rule(RULES["spt"])


def mwkr() -> Rule:
    """Most work remaining first."""
    return Rule(RULES["mwkr"])


def mopnr() -> Rule:
    """Most operations remaining first."""
    return Rule(RULES["mopnr"])


def cp() -> Rule:
    """Longest path to the end first."""
    return Rule(RULES["cp"])


def cp_wait() -> Rule:
    """Critical path, and nobody overtakes a waiting task."""
    return Rule(RULES["cp-wait"])


def cp_area() -> Rule:
    """Critical path plus heaviest path in slot-time."""
    return Rule(RULES["cp-area"])


def ratio() -> Rule:
    """Smallest share of the work remaining first."""
    return Rule(RULES["ratio"])
