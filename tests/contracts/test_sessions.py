"""The contract of sessions, over every dispatcher of weft, and on what breaks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_package.weft_example import FirstFinish

from weft import catalog
from weft.policies.checkpoint import Card, save_policy
from weft.policies.weights.architecture import TENSOR, WeightsArchitecture
from weft.schedulers.dispatchers.python_view import DispatchView
from weft.sim.tasks.weights import NAMES as WEIGHTS
from weft.sim.tasks.weights import NUM_WEIGHTS, PRICED, VERSION
from weft.testing import check_session

NAMES = [
    *catalog.DISPATCHERS,
    "plan:heft",
    "plan:peft",
    "plan:heft+again",
    "ppo",
    "es",
    "decima-deft",
    "lachesis",
]


@pytest.mark.parametrize("scheduler", [*NAMES, FirstFinish], ids=[*NAMES, "class"])
def test_session_keeps_the_contract(scheduler: Any):
    check_session(scheduler, streams=1)


def test_session_of_a_rule_with_a_forecast_keeps_the_contract(tmp_path: Path):
    """Every weight counts, those with the expected load too."""
    weights = np.array([*PRICED[:24], *[0.7] * (NUM_WEIGHTS - 24)], np.float32)
    card = Card(
        "expecting", "rule-es", WeightsArchitecture(NUM_WEIGHTS), feature_version=VERSION, features=WEIGHTS
    )
    save_policy(tmp_path / "expecting.json", {TENSOR: weights}, card)
    check_session(str(tmp_path / "expecting.json"), streams=2)


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
