"""What allocators did with the tasks of a problem, as a schedule of that problem: one row per span with equal units.

Tasks end within a world step where their work does; their device has its units back after the step.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from weft.model.columns import Ints
from weft.model.elastic_oracle import episode_key
from weft.model.elastic_run import CLUSTER, STEP, TASK, UNITS, ElasticRun
from weft.model.elastic_tasks import Curve, arrival_order, curve_of
from weft.model.problem import Problem
from weft.model.realisation import Jitter, expected
from weft.model.schedule import Schedule


class _Span(NamedTuple):
    """Equal units for some time."""

    start: float
    finish: float
    units: list[int]


class _Given(NamedTuple):
    """What one task is given, world step by world step."""

    steps: list[int]
    units: list[list[int]]
    is_enough: list[bool]
    """Whether it runs: it has all that it needs."""


def schedule_of(problem: Problem, run: ElasticRun, step: float = 1.0) -> Schedule:
    """The schedule of a problem that an episode of its elastic problem is, with the same length of a world step."""
    order, width = arrival_order(problem), len(problem.jobs[0].graph.resources)
    jitter = _jitter(problem, run, order, step)
    rows: list[tuple[int, int, _Span]] = []
    by_task = np.lexsort((run.rows[:, STEP], run.rows[:, TASK]))
    for own in np.split(by_task, np.flatnonzero(np.diff(run.rows[by_task, TASK])) + 1):
        task = int(run.rows[own[0], TASK])
        number, kind = int(order[task]), run.problem.types[int(run.kind[task])]
        device, units = int(run.rows[own[0], CLUSTER]), run.rows[own, UNITS:]
        is_enough = np.asarray((units >= kind.least).all(axis=1)).tolist()
        given = _Given(run.rows[own, STEP].tolist(), units.tolist(), is_enough)
        speed = _Speed(curve_of(problem, number), number, jitter)
        rows += [(number, device, span) for span in _spans(speed, given, step)]
    is_stated = all(not job.graph.jitter.any() for job in problem.jobs)
    return Schedule(
        problem,
        np.array([number for number, _, _ in rows]),
        np.array([device for _, device, _ in rows]),
        np.array([span.start for _, _, span in rows]),
        np.array([span.finish for _, _, span in rows]),
        units=np.array([span.units for _, _, span in rows], np.float64).reshape(len(rows), width),
        realisation=None if is_stated else replace(expected(problem), jitter=jitter),
    )


def _jitter(problem: Problem, run: ElasticRun, order: Ints, step: float) -> Jitter:
    """The draws of the episode, by the numbers that tasks have in the problem."""
    number, first = np.empty_like(order), np.empty_like(order)
    number[order], first[order] = np.arange(problem.num_tasks), run.start
    return Jitter(episode_key(run.seed), step, number, first)


class _Speed(NamedTuple):
    """How fast one task of an episode is."""

    curve: Curve
    number: int
    drawn: Jitter

    def at(self, step: int, units: list[int]) -> float:
        """Its speed in a world step, with enough units."""
        shape = self.curve.rate.shape
        rate = float(self.curve.rate[tuple(0 if n == 1 else u for u, n in zip(units, shape, strict=True))])
        if not self.curve.jitter:
            return rate
        return max(0.0, rate + self.curve.jitter * self.drawn.draw(self.number, step))


def _spans(speed: _Speed, given: _Given, step: float) -> list[_Span]:
    """The spans of one task; slots and memory stand before units of what has a name, on which its speed depends."""
    found: list[_Span] = []
    curve = speed.curve
    left, before, ends = curve.length, given.units[0], given.steps[-1]
    for at, units, is_enough in zip(*given, strict=True):
        charged, before = curve.lost if units != before else 0.0, units
        if not is_enough:
            continue
        named = units[len(units) - len(curve.least) :]
        rate = speed.at(at, named)
        is_new = bool(found) and found[-1].units != named
        # the problem counts changes from span to span: where it sees none, the span starts after what was lost
        begin, start = at * step, at * step + (0.0 if is_new else charged)
        took = max(0.0, left) / rate if at == ends and rate > 0 else math.inf
        finish = min((at + 1) * step, begin + charged + took)
        left -= max(0.0, finish - begin - charged) * rate
        if found and not is_new and found[-1].finish == start:
            found[-1] = found[-1]._replace(finish=finish)
        elif start < finish:
            found.append(_Span(start, finish, named))
    return found
