"""Runs that would stand still: early results, sessions that wait for nothing; kernels loaded before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from weft.execute import stalls, warm
from weft.execute.engine import FINISHED, Event
from weft.execute.scheduling import Wanted, choose
from weft.execute.stalls import Stalls
from weft.model import Cluster, DeviceClass, GraphBuilder, Problem


class FakeTold:
    """Takes what is adopted on one device alone."""

    def __init__(self, free: str, waiting: int) -> None:
        self.devices, self.away, self.factors = {"a": 0, "b": 1}, set[str](), [1.0, 1.0]
        self.free, self.done, self.num_made = free, list[str](), 0
        self.session = SimpleNamespace(num_waiting=waiting)

    def adopted(self, order, time) -> bool:
        return order.device == self.free

    def finished(self, order, event) -> None:
        self.done.append(f"{order.task} on {event.device}")

    def slow_down(self, factors) -> bool:
        self.num_made += 1
        return True


def drive_of(told: FakeTold, early=(), orders=()) -> SimpleNamespace:
    ledger = SimpleNamespace(early=dict(early), orders=dict(orders))
    return SimpleNamespace(told=told, ledger=ledger, now=5.0, wake_at=None, forget_decisions=lambda: None)


def test_early_results_are_handed_in_where_there_is_room():
    event = Event(FINISHED, 1.0, "a", "job", "t", 2)
    drive = drive_of(FakeTold("b", 0), {("job", "t"): event}.items())
    Stalls().look(drive)
    assert drive.told.done == ["t on b"] and not drive.ledger.early
    drive = drive_of(FakeTold("", 0), {("job", "t"): event}.items())
    Stalls().look(drive)
    assert drive.ledger.early and not drive.told.done


@pytest.mark.parametrize("is_stalled", [True, False])
def test_a_session_that_waits_for_nothing_is_made_again(monkeypatch, is_stalled):
    monkeypatch.setattr(stalls, "PATIENCE", -1.0)
    told, look = FakeTold("a", 3), Stalls()
    drive = drive_of(told, orders=() if is_stalled else [(("job", "t", 1), "order")])
    look.look(drive)
    assert told.num_made == 0
    look.look(drive)
    assert told.num_made == (1 if is_stalled else 0)


@pytest.mark.parametrize("scheduler", ["heft", "srw", "priced"])
def test_kernels_are_loaded_by_a_session_that_nobody_needs(scheduler, monkeypatch):
    builder = GraphBuilder("flow")
    builder.task("x", 1.0, kind="load")
    problem = Problem(builder.build(), Cluster.uniform((DeviceClass("cpu"),), (2,), bandwidth=1e9))
    chosen = choose(Wanted(scheduler), problem, is_stream=False)
    seen: list[str] = []

    def counted(cluster):
        session = chosen.make(cluster)
        for name in ("adopted", "device_lost", "failed"):
            own = getattr(session, name)
            monkeypatch.setattr(
                session, name, lambda *a, own=own, name=name, **k: (seen.append(name), own(*a, **k))[1]
            )
        return session

    warm.warm(counted, problem)
    assert {"adopted", "device_lost", "failed"} <= set(seen)
