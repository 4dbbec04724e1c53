"""Changing what is yet to come changes no earlier decision, of any dispatcher, policy or session."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks import blindness
from benchmarks._blindness import queues
from benchmarks.blindness import Compare, total
from weft import catalog
from weft.model.prices import class_prices, priced_work
from weft.model.problem import Problem
from weft.schedulers.dispatchers.tasks import RuleDispatcher
from weft.sim.tasks.rules import LATE, TaskRule
from weft.sim.tasks.state import TaskState
from weft.sim.tasks.weights import FORECAST, NAMES, PRICED
from weft.testing import blindness as tasks

STREAMS = 3
CASES = list(blindness.cases())
EXPECTING = tuple(b + (1.0 if name in FORECAST else 0.0) for name, b in zip(NAMES, PRICED, strict=True))
"""``priced`` with all weights that count with the expected load."""


@pytest.mark.parametrize(
    "compare", [case[2] for case in CASES], ids=[f"{case[0]}-{case[1]}" for case in CASES]
)
def test_what_is_yet_to_come_changes_no_earlier_decision(compare: Compare):
    found = total(compare, STREAMS)
    if found.decisions <= 20 * STREAMS:  # who starts little at a time is shown more
        found = total(compare, 2 * STREAMS)
    assert found.decisions > 20 * STREAMS
    assert found.differ == 0


def test_all_names_are_compared():
    views = {name: {place.split(", ")[0] for case, place, _ in CASES if case == name} for name, _, _ in CASES}
    for name, entry in catalog.DISPATCHERS.items():
        expected = {"queues", "session"} if entry.queues else set()
        expected |= {"tasks", "session"} if entry.tasks else set()
        assert views[name] == expected
    assert {"ppo", "conditional-graph", "es"} <= views.keys()
    assert views["decima-deft"] == views["lachesis"] == {"tasks", "session"}


# -- peeks are seen --------------------------------------------------------------------------------------


class Peeking(RuleDispatcher):
    """Prices from all jobs of the problem, as weft once had them."""

    def prepare(self, problems: Sequence[Problem], s: TaskState, seeds: Sequence[int]) -> TaskRule:
        rule = self.rule(problems, s, seeds)
        prices = class_prices(problems[0])
        s.work[:] = priced_work(problems[0], prices)
        rule.price[:] = prices
        return rule


class PeekingForecast(RuleDispatcher):
    """Expects the load of the whole stream from the first arrival on."""

    def prepare(self, problems: Sequence[Problem], s: TaskState, seeds: Sequence[int]) -> TaskRule:
        rule = super().prepare(problems, s, seeds)
        rule.forecast[:] = rule.forecast[-1]
        return rule


def test_forecast_from_jobs_yet_to_come_is_seen():
    run = tasks.by_kernel(PeekingForecast("peeking", LATE, weights=EXPECTING))
    worlds = [tasks.drawn(number, branches=False, outages=False) for number in range(6)]
    assert sum(tasks.compare(run, world, number).differ for number, world in enumerate(worlds)) > 0


def test_forecast_looks_at_no_job_yet_to_come():
    run = tasks.by_kernel(RuleDispatcher("expecting", LATE, weights=EXPECTING))
    worlds = [tasks.drawn(number, branches=False, outages=False) for number in range(6)]
    assert sum(tasks.compare(run, world, number).differ for number, world in enumerate(worlds)) == 0


def test_prices_of_jobs_yet_to_come_are_seen():
    run = tasks.by_kernel(Peeking("peeking", LATE, weights=PRICED))
    worlds = [tasks.drawn(number, branches=False, outages=False) for number in range(6)]
    assert sum(tasks.compare(run, world, number).differ for number, world in enumerate(worlds)) > 0


def test_branches_counted_before_they_are_known_are_seen():
    worlds = [queues.drawn("conditional", number, peeks=True) for number in range(8)]
    assert sum(queues.compare("ppo", world, number).differ for number, world in enumerate(worlds)) > 0
