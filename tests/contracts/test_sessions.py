"""The contract of sessions, over every dispatcher of weft, and on what breaks it."""

from __future__ import annotations

from typing import Any

import pytest
from example_package.weft_example import FirstFinish

from weft import catalog
from weft.schedulers.dispatchers.python_view import DispatchView
from weft.testing import check_session

NAMES = [*catalog.DISPATCHERS, "plan:heft", "plan:peft", "ppo", "es"]


@pytest.mark.parametrize("scheduler", [*NAMES, FirstFinish], ids=[*NAMES, "class"])
def test_session_keeps_the_contract(scheduler: Any):
    check_session(scheduler, streams=1)


class Counting(FirstFinish):
    """Decides by how often it was asked."""

    count = 0

    def decide(self, view: DispatchView) -> list[Any]:
        self.count += 1
        pairs = [(task, device) for task in view.ready for device in view.options(task)]
        return pairs[: self.count % 3 + 1][-1:]


def test_memory_that_no_snapshot_holds_is_seen():
    with pytest.raises(AssertionError, match=r"stream 0 .* does one thing in a session"):
        check_session(Counting, streams=1)


def test_scheduler_without_a_session_is_seen():
    with pytest.raises(AssertionError, match="plan:tdca: no session takes it"):
        check_session("plan:tdca", streams=1)
