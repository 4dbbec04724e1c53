"""Kernels that are told what happens: one signature each, whoever decides."""

from __future__ import annotations

import pytest

from weft.evaluation.sweep.queue_runs import setup_of
from weft.execute.virtual_runs import drive_queues
from weft.scenarios import scenario
from weft.session import Session
from weft.sim.queues import step_by_step as live

KERNELS = ("tell_arrival", "tell_end", "tell_outcome", "decide_by_rule", "observe_due", "act_on_choice")


@pytest.fixture(scope="module")
def played() -> None:
    case = scenario("conditional", jobs=30).stream("test", 0)
    for name in ("fifo", "heavy-last-3", "heft-estimated", "ppo"):
        drive_queues(Session(case, name, seed=1), setup_of(case), 1)
    peeking = scenario("conditional", jobs=30, estimate="start").stream("test", 0)
    drive_queues(Session(peeking, "heft-estimated", seed=1), setup_of(peeking), 1)


@pytest.mark.parametrize("name", KERNELS)
def test_live_kernel_has_one_signature(name: str, played: None):
    assert len(getattr(live, name).signatures) == 1
