"""Going on with a run whose driver died, wherever its history ends: every promise is kept by the whole of it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from driving import STYLES, ForgetfulTasks, drawn, faults_of, finish, go
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.execute.drive import Drive
from weft.execute.engine import Event
from weft.execute.faults import Failure, Faults
from weft.execute.feed import feed_of
from weft.execute.resume import go_on, read_past
from weft.execute.scheduling import Wanted, choose
from weft.execute.told import Told
from weft.execute.virtual import NO_FAULTS
from weft.execute.watch import SpeedWatch
from weft.io.histories import History, Row
from weft.model.history_oracle import check_history
from weft.model.problem import Problem, realise

SMALL = st.integers(0, 10_000)


class LaterTasks(ForgetfulTasks):
    """An engine that is driven like one of real time, begins late, and holds no results of before."""

    is_live = True

    def __init__(self, elapsed: float, *given: Any) -> None:
        super().__init__(*given)
        self.now = elapsed

    def events(self, until: float | None) -> list[Event]:
        """Nothing may wait for ever."""
        found = super().events(until)
        assert found or until is not None, "nothing will ever happen"
        return found


def resumed(
    rows: list[Row], problem: Problem, wanted: Wanted, faults: Faults = NO_FAULTS, watches: bool = True
) -> list[Row]:
    """The whole history of a run that another driver goes on with."""
    clean = problem.replaced(noise=0.0)
    past = read_past(rows)
    history = History(None)
    history.rows = [dict(row) for row in rows]
    engine = LaterTasks(past.elapsed, problem, realise(problem, 1), faults)
    feed = feed_of(clean)
    told = Told(clean.cluster, choose(wanted, clean, is_stream=False).make)
    drive = Drive(told, engine, feed, history, watcher=SpeedWatch() if watches else None)
    go_on(drive, past, feed)
    drive.run()
    finish(drive)
    return history.rows


def broken(rows: list[Row]) -> list[str]:
    """What is wrong with the whole history of a run that went on."""
    told = Counter((row["job"], row["task"]) for row in rows if row["event"] in ("reported", "dropped"))
    twice = [f"{key} was told of {count} times" for key, count in told.items() if count > 1]
    return [str(one) for one in check_history(rows)] + twice


@settings(max_examples=25, deadline=None)
@given(SMALL, SMALL, st.sampled_from(STYLES))
def test_run_goes_on_from_wherever_its_history_ends(seed: int, fault_seed: int, wanted: Wanted):
    problem = drawn(seed, jobs=3 if wanted.split else 1 + seed % 2, noise=0.3)
    faults = faults_of(fault_seed, problem)
    rows = go(problem, wanted, faults, seed=seed, engine_class=ForgetfulTasks).rows
    for end in range(1, len(rows)):
        assert broken(resumed(rows[:end], problem, wanted)) == [], end


@settings(max_examples=40, deadline=None)
@given(SMALL, SMALL, st.sampled_from(STYLES))
def test_run_goes_on_again_and_again(seed: int, fault_seed: int, wanted: Wanted):
    rng = random.Random(seed)
    problem = drawn(seed, jobs=3 if wanted.split else 1 + seed % 2, noise=0.3)
    rows = go(problem, wanted, faults_of(fault_seed, problem), seed=seed).rows
    for _ in range(4):
        known = len(rows)
        rows = resumed(rows[: rng.randint(known // 3, known - 1)], problem, wanted)
        assert broken(rows) == []
    drivers = [row["driver"] for row in rows if row["event"] == "resumed"]
    assert drivers == list(range(2, 2 + len(drivers)))


def test_nothing_is_told_again_of_a_job_that_was_dropped_in_part():
    problem, wanted = drawn(5, jobs=1), Wanted("fifo")
    names = problem.graph.names
    first = next(k for k in range(len(names)) if len(problem.graph.successors(k)) > 1)
    failures = tuple(Failure("job0", names[first], attempt) for attempt in range(1, 9))
    rows = go(problem, wanted, Faults(failures=failures)).rows
    dropped = [k for k, row in enumerate(rows) if row["event"] == "dropped"]
    assert len(dropped) > 1
    after = resumed(rows[: dropped[0] + 1], problem, wanted)
    assert broken(after) == []
    assert sum(row["event"] == "dropped" for row in after) == len(dropped)
