"""Streams of workflows: rows, pairing, and what is refused."""

from __future__ import annotations

import pytest

from weft.errors import InputError
from weft.evaluation.sweep.answers import evaluate
from weft.evaluation.sweep.runner import Sweep, run
from weft.evaluation.sweep.store import Row, open_sweep
from weft.scenarios import sweep

SMALL = {"load": 0.8, "jobs": 4, "tasks": 8, "noise": 0.2}
NAMES = ("fifo", "srw", "priced")


def asked(seeds: int = 3, **settings: object) -> Sweep:
    return Sweep(sweep("workflows", SMALL | settings), NAMES, 1, tuple(range(seeds)))


def rows(question: Sweep) -> list[Row]:
    with open_sweep(None, question.config) as store:
        run(question, store)
        return store.rows()


def test_rows_of_a_stream_are_valid_and_complete():
    found = rows(asked())
    assert len(found) == len(NAMES) * 3
    assert all(row.valid for row in found)
    assert all(row["mean_jct"] >= row["lower_bound"] and row["p99_jct"] is not None for row in found)


def test_rows_of_a_stream_meet_the_same_workload():
    bounds = {(row.seed, row["lower_bound"]) for row in rows(asked())}
    assert len(bounds) == 3


def test_rows_of_a_stream_repeat():
    assert [row.trace for row in rows(asked())] == [row.trace for row in rows(asked())]


def test_stream_is_compared_by_mean_job_time_with_srw():
    found = evaluate(asked())
    assert (found.metric, found.baseline) == ("mean_jct", "srw")
    assert {one.metric for one in found.summary} >= {"mean_jct", "p99_jct", "utilisation", "makespan"}


def test_sweep_refuses_streams_beside_single_workflows():
    with pytest.raises(InputError, match="expected loads above 0 only, or 0 alone"):
        asked(load=[0, 0.5])


def test_sweep_refuses_a_planner_in_a_stream():
    with pytest.raises(InputError, match=r"cpop is a planner: .* plan:cpop plans jobs as they arrive"):
        Sweep(sweep("workflows", SMALL), ("cpop",), 1)
