"""Going on with a run whose driver died, wherever its history ends: every promise is kept by the whole of it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from driving import STYLES, ForgetfulTasks, drawn, faults_of, finish, go

from weft.execute.drive import Drive
from weft.execute.engine import Event
from weft.execute.faults import Failure, Faults
from weft.execute.feed import feed_of
from weft.execute.resume import go_on, read_past
from weft.execute.scheduling import Wanted, choose
from weft.execute.told import Told
from weft.execute.virtual import NO_FAULTS, VirtualTasks
from weft.execute.watch import SpeedWatch
from weft.io.histories import History, Row
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder
from weft.model.history_oracle import check_history
from weft.model.problem import Problem, realise


class LaterTasks(ForgetfulTasks):
    """An engine that is driven like one of real time, begins late, and holds no results of before."""

    is_live = True

    def __init__(self, elapsed: float, *given: Any) -> None:
        super().__init__(*given)
        self.now = elapsed

    def _begin(self, run: Any, start: float) -> None:
        """Nobody waits for a time that was planned."""
        super()._begin(run, self._data_there(run))

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


def drawn_run(number: int) -> tuple[list[Row], Problem, Wanted, random.Random]:
    """The history of a run in which things went wrong."""
    rng = random.Random(number)
    wanted = STYLES[number % len(STYLES)]
    seed = rng.randrange(10_000)
    problem = drawn(seed, jobs=3 if wanted.split else 1 + seed % 2, noise=0.3)
    faults = faults_of(rng.randrange(10_000), problem)
    engine_class = rng.choice((VirtualTasks, ForgetfulTasks))
    return go(problem, wanted, faults, seed=seed, engine_class=engine_class).rows, problem, wanted, rng


@pytest.mark.parametrize("number", range(24))
def test_run_goes_on_from_wherever_its_history_ends(number: int):
    rows, problem, wanted, rng = drawn_run(number)
    for end in rng.sample(range(1, len(rows)), min(len(rows) - 1, 16)):
        assert broken(resumed(rows[:end], problem, wanted)) == [], f"after {end} rows"


@pytest.mark.parametrize("number", range(100, 124))
def test_run_goes_on_again_and_again(number: int):
    rows, problem, wanted, rng = drawn_run(number)
    for _ in range(4):
        rows = resumed(rows[: rng.randint(1 + len(rows) // 3, len(rows) - 1)], problem, wanted)
        assert broken(rows) == []
    drivers = [row["driver"] for row in rows if row["event"] == "resumed"]
    assert drivers == list(range(2, 2 + len(drivers)))


def test_nothing_is_told_again_of_a_job_that_was_dropped_in_part():
    builder = GraphBuilder("fork")
    builder.task("a", 1.0)
    for name in "bcd":
        builder.task(name, 1.0, after={"a": 0.0})
    problem, wanted = Problem(builder.build(), Cluster.uniform((DeviceClass("cpu"),), (2,))), Wanted("fifo")
    name = problem.jobs[0].name
    rows = go(problem, wanted, Faults(failures=tuple(Failure(name, "a", k) for k in range(1, 9)))).rows
    dropped = [k for k, row in enumerate(rows) if row["event"] == "dropped"]
    assert len(dropped) == 3
    for end in dropped:
        after = resumed(rows[: end + 1], problem, wanted)
        assert broken(after) == []
        assert sum(row["event"] == "dropped" for row in after) == 3
        assert sum(row["event"] == "failed" for row in after) == 3  # for good: not tried again


@pytest.mark.parametrize("number", range(8))
def test_past_says_what_ran_when_the_driver_died(number: int):
    rows, *_ = drawn_run(number)
    for end in range(1, len(rows)):
        past = read_past(rows[:end])
        assert past.elapsed == max(row["time"] for row in rows[:end])
        assert past.drivers == 1 and not past.is_ok
        assert {
            (row["job"], row["task"]) for row in rows[:end] if row["event"] == "reported"
        } == past.reported
        assert past.ended == {row["job"] for row in rows[:end] if row["event"] == "ended"}
    assert read_past(rows).is_closed and read_past(rows).running == []
