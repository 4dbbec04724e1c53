"""The contracts of ``weft.testing``, on what is not weft's and on what breaks them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from example_package.weft_example import ByNumber, EdgeList, FirstFinish

from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.schedulers.dispatchers.python_view import DispatchView
from weft.testing import check_dispatcher, check_format, check_planner


@pytest.mark.parametrize(
    "planner",
    [ByNumber(), ByNumber, "heft", "deft", "random"],
    ids=["object", "class", "heft", "deft", "random"],
)
def test_planner_keeps_the_contract(planner: Any):
    check_planner(planner, problems=30)


@pytest.mark.parametrize(
    "dispatcher", [FirstFinish, "fifo", "priced", "heft-job"], ids=["class", "fifo", "priced", "heft-job"]
)
def test_dispatcher_keeps_the_contract(dispatcher: Any):
    check_dispatcher(dispatcher, streams=2)


class Overlapping(ByNumber):
    """Starts everything at once."""

    def plan(self, problem: Problem, **given: Any) -> Schedule:
        plan = super().plan(problem, **given)
        length = plan.finish - plan.start
        return Schedule(problem, plan.task, plan.device, 0.0 * plan.start, length)


class Moody(ByNumber):
    """Counts how often it was asked."""

    count = 0

    def plan(self, problem: Problem, **given: Any) -> Schedule:
        self.count += 1
        plan = super().plan(problem, **given)
        return Schedule(problem, plan.task, plan.device, plan.start + self.count, plan.finish + self.count)


class Silent(ByNumber):
    """Refuses everything."""

    def supports(self, problem: Problem) -> str:
        return "no"


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        (Overlapping(), "problem .*: by-number breaks a rule"),
        (Moody(), "problem .*: by-number makes two schedules of one problem and seed"),
        (Silent(), "by-number supports none of 30 drawn problems"),
    ],
)
def test_planner_that_breaks_the_contract_is_seen(planner: object, message: str):
    with pytest.raises(AssertionError, match=message):
        check_planner(planner, problems=30)


class Peeking(FirstFinish):
    """Looks where nobody should: how much is yet to come."""

    def decide(self, view: DispatchView) -> list[Any]:
        for task in view.ready[:: -1 if len(view._all_jobs) % 2 else 1]:  # noqa: SLF001
            for device in view.options(task):
                return [(task, device)]
        return []


class Drawing(FirstFinish):
    """Goes on drawing where the run before ended, in what all runs share."""

    count = [0]  # noqa: RUF012

    def decide(self, view: DispatchView) -> list[Any]:
        self.count[0] += 1
        for task in view.ready:
            options = view.options(task)
            if options:
                return [(task, options[self.count[0] * 7 % len(options)])]
        return []


@pytest.mark.parametrize(
    ("dispatcher", "message"),
    [(Peeking(), "knows what is yet to come"), (Drawing(), "does two things with one seed")],
)
def test_dispatcher_that_breaks_the_contract_is_seen(dispatcher: object, message: str):
    with pytest.raises(AssertionError, match=message):
        check_dispatcher(dispatcher)


def test_formats_keep_the_contract():
    check_format(EdgeList, b"# edges\na 1.0\n")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"detect": lambda head, path: path.suffix == ".edges"}, "takes noise for its own"),
        ({"detect": lambda head, path: False}, "example 0: format .* does not know its own file"),
        ({"dump": lambda graph: b"# edges\na 1.0\n"}, "loses names of tasks"),
    ],
)
def test_format_that_breaks_the_contract_is_seen(changed: dict[str, Any], message: str):
    own = EdgeList()
    usual = {"name": "x", "suffixes": own.suffixes, "detect": own.detect, "read": own.read, "dump": own.dump}
    with pytest.raises(AssertionError, match=message):
        check_format(SimpleNamespace(**usual | changed))
