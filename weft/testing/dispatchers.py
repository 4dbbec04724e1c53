"""What every dispatcher of single tasks owes, in the simulator and in sessions."""

from __future__ import annotations

from typing import Any

from weft import catalog
from weft.errors import UnsupportedError
from weft.model.validate import validate
from weft.schedulers.dispatchers.tasks import TaskDispatcher, run_one
from weft.testing.blindness import World, by_kernel, compare, drawn
from weft.testing.planners import columns, ensure, told
from weft.testing.sessions import check_same, has_session


def check_dispatcher(dispatcher: Any, *, streams: int = 6) -> None:
    """Hold a dispatcher (an object, a class or a name) against what every dispatcher owes.

    What it does breaks no rule, under noise, branches and outages where it supports them; the same seed gives the
    same; a session does what the simulator does; what is yet to come changes no earlier decision.

    Parameters
    ----------
    streams
        How many drawn streams of workflows it is tried on.
    """
    chosen = catalog.task_dispatcher(dispatcher)
    given = dispatcher if isinstance(dispatcher, str) else chosen
    for number in range(streams):
        with told(f"stream {number} of weft.testing.blindness.drawn"):
            plain = _supported(chosen, number, outages=False)
            check_run(chosen, plain, number)
            check_blind(chosen, plain, number)
            if takes_outages(chosen, plain):
                away = _supported(chosen, number, outages=True)
                check_run(chosen, away, number)
                check_blind(chosen, away, number)
            if has_session(given, plain.problem):
                check_same(given, chosen, plain, number)


def _supported(chosen: TaskDispatcher, number: int, *, outages: bool) -> World:
    """A drawn stream, every other one with branches if the dispatcher takes them."""
    world = drawn(number, branches=number % 2 == 1, outages=outages)
    if chosen.supports(world.problem) is not None:
        world = drawn(number, branches=False, outages=outages)
    reason = chosen.supports(world.problem)
    ensure(reason is None, f"{chosen.name} refuses workflows that keep arriving: {reason}")
    return world


def check_run(chosen: TaskDispatcher, world: World, seed: int) -> None:
    """What it does breaks no rule, and happens again with the same seed."""
    found = [run_one(chosen, world.problem, world.happens, seed, world.outages) for _ in range(2)]
    faults = validate(found[0])
    ensure(not faults, f"{chosen.name} breaks a rule: {faults[0] if faults else ''}")
    ensure(columns(found[0]) == columns(found[1]), f"{chosen.name} does two things with one seed")


def check_blind(chosen: TaskDispatcher, world: World, number: int) -> None:
    """Changing what is yet to come changes no earlier decision in the simulator."""
    found = compare(by_kernel(chosen), world, number)
    ensure(
        found.differ == 0, f"{chosen.name} knows what is yet to come: {found.differ} earlier starts differ"
    )


def takes_outages(chosen: TaskDispatcher, world: World) -> bool:
    """Whether it goes on when devices are lost."""
    try:
        run_one(chosen, world.problem, world.happens, 0, drawn(0, branches=False, outages=True).outages)
    except UnsupportedError:
        return False
    return True
