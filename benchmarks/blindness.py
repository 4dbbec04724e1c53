"""Whether a scheduler knows what is yet to come: it is changed, and earlier decisions must not be.

Every dispatcher of both views, every policy that ships, in the event kernel and in sessions. In each
stream a time is drawn; what nobody can know at that time changes (later jobs, run times and branches of
what has not ended, outages), and the decisions before it are compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import reduce

from benchmarks._blindness import Compared, queues
from weft import Session, catalog
from weft.errors import UnsupportedError
from weft.schedulers.dispatchers.replanning import PlanDispatcher, can_join
from weft.testing import blindness as tasks

PLANS = ("plan:heft", "plan:peft", "plan:deft", "plan:min-min", "plan:deft+again", "plan:oneshot")
"""Planners as dispatchers: they plan around others, with copies, again at every event, or each job alone."""
VARIANTS = ("es+shortlist", "es+profile")
"""Weights that choose from a shortlist, or learn run times."""
_VIEWS = {name: entry for name, entry in catalog.POLICIES.items() if isinstance(entry, catalog.Views)}
POLICIES = tuple({entry.queues: name for name, entry in _VIEWS.items() if entry.queues}.values())
"""Policies that ship for queues, each by one of its names."""
TASK_POLICIES = tuple({entry.tasks: name for name, entry in _VIEWS.items() if entry.tasks}.values())
"""The same of single tasks."""

Compare = Callable[[int], Compared]
"""One stream by its number."""
Case = tuple[str, str, Compare]
"""Scheduler, where it runs, and how it is compared."""


def main(arguments: list[str]) -> int:
    """Compare and print a table; 1 if some decision differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks blindness", description=__doc__)
    parser.add_argument("--streams", type=int, default=20, help="streams per scheduler, default 20")
    parser.add_argument("--schedulers", default="", help="only these names, comma-separated")
    options = parser.parse_args(arguments)
    asked = [name for name in options.schedulers.split(",") if name]
    print(f"{'scheduler':<22} {'in':<28} {'streams':>7} {'decisions':>10} {'differ':>7}")
    is_blind = True
    for name, where, compare in cases():
        if not asked or name in asked:
            found = total(compare, options.streams)
            is_blind &= found.differ == 0
            print(
                f"{name:<22} {where:<28} {options.streams:>7} {found.decisions:>10,} {found.differ:>7}",
                flush=True,
            )
    print("target: 0 decisions differ" + ("" if is_blind else ": MISSED"))
    return 0 if is_blind else 1


def total(compare: Compare, num_streams: int) -> Compared:
    """All streams of one scheduler together."""
    return reduce(lambda a, b: a + b, (compare(number) for number in range(num_streams)))


def cases() -> Iterator[Case]:
    """Every scheduler in every place where it decides."""
    for name in _queue_names():
        for stream in queues.STREAMS:
            if _acts_on(name, stream):
                yield name, f"queues, {stream}", _in_queues(name, stream)
                yield name, f"session, {stream}", _in_queue_session(name, stream)
    rules = [name for name, views in catalog.DISPATCHERS.items() if views.tasks]
    for name in (*rules, *PLANS, *VARIANTS, *TASK_POLICIES):
        if _needs_pipelines(name):
            yield name, "tasks", _in_pipelines(name)
            continue
        yield name, "tasks", _in_tasks(name)
        if _has_session(name):
            yield name, "session, tasks", _in_task_session(name)


def _queue_names() -> list[str]:
    """Rules on queues, their waiting variants, and the policies that ship."""
    names = [name for name, views in catalog.DISPATCHERS.items() if views.queues]
    waiting = [f"{name}{catalog.WAIT}" for name in names if not catalog.dispatcher(name).waits]
    return [*names, *waiting, *POLICIES]


def _acts_on(name: str, stream: str) -> bool:
    """Whether a scheduler acts on the streams of a scenario."""
    if name in POLICIES:
        return name == "conditional-graph" or stream == "conditional"
    problems = [queues.drawn(stream, number).case.problem for number in range(3)]
    return all(catalog.dispatcher(name).supports(problem) is None for problem in problems)


def _has_session(name: str) -> bool:
    """Whether a dispatcher of single tasks acts in sessions: they know no copies, and plan around others."""
    try:
        Session(tasks.drawn(0, branches=False, outages=False).problem, name)
    except UnsupportedError:
        return False
    return True


def _needs_pipelines(name: str) -> bool:
    """Whether a dispatcher acts on periodic pipelines alone."""
    chosen = catalog.task_dispatcher(name)
    workflows = tasks.drawn(0, branches=False, outages=False).problem
    return (
        chosen.supports(workflows) is not None and chosen.supports(tasks.drawn_pipelines(0).problem) is None
    )


def _in_pipelines(name: str) -> Compare:
    chosen = catalog.task_dispatcher(name)
    return lambda number: tasks.compare(tasks.by_kernel(chosen), tasks.drawn_pipelines(number), number)


def _in_queues(name: str, stream: str) -> Compare:
    return lambda number: queues.compare(name, queues.drawn(stream, number), number)


def _in_queue_session(name: str, stream: str) -> Compare:
    return lambda number: queues.compare_sessions(name, queues.drawn(stream, number), number)


def _in_tasks(name: str) -> Compare:
    """Every other stream has branches where the dispatcher takes them, and all have outages if it can."""
    chosen = catalog.task_dispatcher(name)

    def compare(number: int) -> Compared:
        has_outages = not isinstance(chosen, PlanDispatcher) or can_join(chosen.planner)
        world = tasks.drawn(number, branches=number % 2 == 1, outages=has_outages)
        if chosen.supports(world.problem) is not None:
            world = tasks.drawn(number, branches=False, outages=has_outages)
        return tasks.compare(tasks.by_kernel(chosen), world, number)

    return compare


def _in_task_session(name: str) -> Compare:
    chosen = catalog.task_dispatcher(name)

    def compare(number: int) -> Compared:
        world = tasks.drawn(number, branches=number % 2 == 1, outages=False)
        if chosen.supports(world.problem) is not None:
            world = tasks.drawn(number, branches=False, outages=False)
        return tasks.compare(tasks.by_session(name), world, number)

    return compare
