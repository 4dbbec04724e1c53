"""The oracle of streams: it agrees with the plain one, and finds what is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from weft.catalog import DISPATCHERS, QUEUES
from weft.evaluation.sweep.queue_runs import Outcome, fault_of, play
from weft.model.stream_oracle import validate_stream
from weft.model.stream_record import StreamRecord
from weft.model.validate import validate
from weft.scenarios import scenario

RULES = tuple(name for name, entry in DISPATCHERS.items() if QUEUES.name in entry.acts_on)
CASES: dict[str, tuple[str, dict[str, object]]] = {
    "plain": ("conditional", {"jobs": 60, "p_c": 0.3}),
    "crowded": ("conditional", {"jobs": 120, "p_c": 0.0, "gap": 3.0, "expiry": 150.0}),
    "drift": ("conditional", {"jobs": 60, "drift": "walk", "drift_size": 0.9}),
    "join": ("conditional-join", {"jobs": 60}),
    "many": ("conditional-many", {"jobs": 60}),
}


def played(name: str, scheduler: str, seed: int = 3) -> Outcome:
    recipe, settings = CASES[name]
    return play(scheduler, scenario(recipe, **settings).stream("test", 1), [seed])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("scheduler", ["fifo", "batch-fifo", "random", "srw", "fifo+wait"])
def test_both_oracles_find_streams_valid(name: str, scheduler: str):
    found = played(name, scheduler)
    assert validate_stream(found.record(0)) == ()
    assert validate(found.record(0).schedule()) == ()
    assert fault_of(found, 0, "all") is None


@pytest.mark.parametrize("scheduler", [*RULES, "ppo"])
def test_every_rule_and_policy_keeps_the_rules_of_a_stream(scheduler: str):
    assert fault_of(played("plain", scheduler), 0, "all") is None


def test_tasks_of_expired_jobs_are_dropped_and_have_rows():
    found = played("crowded", "depth-first")
    record = found.record(0)
    assert int(found.expired[0]) > 0
    assert record.job_times == pytest.approx(found.job_times[0])
    schedule = record.schedule()
    assert int((schedule.outcome == 2).sum()) >= int(found.expired[0])
    assert validate(schedule) == ()


def test_schedule_of_a_stream_has_the_metrics_of_its_row():
    found = played("plain", "fifo")
    schedule = found.record(0).schedule()
    assert schedule.mean_jct == pytest.approx(found.mean_jct[0])
    assert schedule.p99_jct == pytest.approx(found.p99_jct[0])
    assert schedule.utilisation == pytest.approx(found.utilisation[0])
    assert schedule.batch_fill == pytest.approx(found.batch_fill[0])


def moved(
    column: str, change: Callable[[StreamRecord, int, int], float]
) -> Callable[[StreamRecord], StreamRecord]:
    """A record with one entry changed: that of the second task of the tenth job."""

    def spoil(record: StreamRecord) -> StreamRecord:
        values = getattr(record, column).copy()
        values[9, 1] = change(record, 9, 1)
        return replace(record, **{column: values})

    return spoil


SPOILED: dict[str, tuple[str, Callable[[StreamRecord], StreamRecord]]] = {
    "takes longer": ("duration", moved("finish", lambda r, j, i: r.finish[j, i] + 1.0)),
    "starts before it arrives": ("release", moved("start", lambda r, j, i: r.arrival[j] - 5.0)),
    "starts before its parent ends": ("precedence", moved("start", lambda r, j, i: r.finish[j, i - 1] - 1.0)),
    "never runs": ("missing", lambda r: replace(r, device=_set(r.device, -1), finish=_set(r.finish, np.nan))),
    "goes to another device": (
        "duration",
        lambda r: replace(r, device=_set(r.device, 2 if r.device[9, 1] < 2 else 0)),
    ),
    "joins a batch": (
        "batch",
        lambda r: replace(r, device=_set(r.device, r.device[9, 0]), batch=_set(r.batch, r.batch[9, 0])),
    ),
    "has no such device": ("device", lambda r: replace(r, device=_set(r.device, -7))),
    "is not finite": ("numbers", moved("finish", lambda r, j, i: np.inf)),
}


ONLY_HERE = ("never runs", "is not finite", "has no such device")
"""The schedule of such a record says that the task expired, or cannot be made."""


def _set(values: np.ndarray, value: float) -> np.ndarray:
    changed = values.copy()
    changed[9, 1] = value
    return changed


@pytest.mark.parametrize("what", SPOILED)
def test_a_spoiled_stream_is_found_by_both_oracles(what: str):
    rule, spoil = SPOILED[what]
    record = spoil(played("plain", "fifo").record(0))
    found = {violation.rule for violation in validate_stream(record)}
    assert rule in found
    if what not in ONLY_HERE:
        assert rule in {violation.rule for violation in validate(record.schedule())}


def test_a_task_of_a_branch_not_taken_is_found():
    record = played("plain", "fifo").record(0)
    job, task = np.argwhere(~record.runs)[0]
    device, start, finish = record.device.copy(), record.start.copy(), record.finish.copy()
    device[job, task], start[job, task], finish[job, task] = 0, 1e6, 1e6 + 8.0
    spoiled = replace(record, device=device, start=start, finish=finish)
    assert "not-taken" in {violation.rule for violation in validate_stream(spoiled)}


def test_overlapping_batches_of_one_device_are_found():
    record = played("plain", "fifo").record(0)
    rows = np.argwhere(record.device == 0)
    first, second = rows[np.argsort(record.start[tuple(rows.T)])][:2]
    start, finish = record.start.copy(), record.finish.copy()
    length = finish[tuple(second)] - start[tuple(second)]
    start[tuple(second)] = start[tuple(first)] + 1.0
    finish[tuple(second)] = start[tuple(second)] + length
    found = validate_stream(replace(record, start=start, finish=finish))
    assert "slots" in {violation.rule for violation in found}


def test_a_wrong_metric_is_a_fault():
    found = played("plain", "fifo")
    wrong = replace(found, job_times=found.job_times * 1.01)
    assert "metric" in str(fault_of(wrong, 0))


def test_a_task_dropped_too_early_is_found():
    record = played("crowded", "depth-first").record(0)
    job, task = np.argwhere(~record.has_run & np.isfinite(record.finish))[0]
    finish = record.finish.copy()
    finish[job, task] = record.arrival[job] + 1.0
    found = validate_stream(replace(record, finish=finish))
    assert "dropped before" in str(found[0])
