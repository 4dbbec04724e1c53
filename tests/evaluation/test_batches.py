"""Watched streams: every batch, and the same outcome as unwatched."""

from __future__ import annotations

import numpy as np
import pytest

from weft.evaluation.sweep.batches import record
from weft.evaluation.sweep.queue_runs import play
from weft.scenarios import scenario


@pytest.mark.parametrize("name", ["fifo", "heavy-last-3", "ppo"])
def test_record_gives_the_outcome_of_play_and_batches_that_do_not_overlap(name: str):
    case = scenario("conditional", jobs=200, p_c=0.5).stream("test", 0)
    outcome, trace = record(name, case, 7)
    assert outcome.trace(0) == play(name, case, [7]).trace(0)
    for device in range(4):
        own = trace.device == device
        assert (trace.start[own][1:] >= trace.finish[own][:-1] - 1e-9).all()
    busy = np.bincount(trace.device, trace.finish - trace.start, 4)
    span = float(outcome.makespan[0]) - float(case.arrivals.draw(7).min())
    assert busy / span == pytest.approx(outcome.device_utilisation[0])


def test_record_counts_every_task_of_a_stream():
    case = scenario("conditional", jobs=50, p_c=1.0).stream("test", 0)
    _, trace = record("fifo", case, 3)
    tasks = np.bincount(trace.kind, trace.size, 6)
    assert tasks[0] == tasks[1] == 50
    assert tasks[2] + tasks[3] == 50 and tasks[3] == tasks[4] and tasks[5] == 0
