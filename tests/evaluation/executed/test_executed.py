"""Plan against actual: what a history tells, in numbers that can be worked out by hand, and sums that must hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from history_examples import EXAMPLES, Faults, Row, World, history

from weft import Cluster, DeviceClass, GraphBuilder, Problem
from weft.errors import InputError
from weft.evaluation.executed import Executed, executed_of, read_executed, schedule_of, summary
from weft.evaluation.executed.records import (
    AGAIN,
    CAUSES,
    DATA,
    DISPATCH,
    GONE,
    HELD,
    LATE,
    NO_TASK,
)
from weft.io.json_files import dump_json
from weft.io.problems import problem_document


def problem() -> Problem:
    """a -> b and a -> c: two seconds of work each, one second of data to the other device."""
    builder = GraphBuilder("fork")
    builder.task("a", 2.0, kind="load")
    builder.task("b", 2.0, kind="fit", after={"a": 1e9})
    builder.task("c", 2.0, kind="fit", after={"a": 1e9})
    cluster = Cluster.uniform((DeviceClass("slow"), DeviceClass("fast")), (1, 1), bandwidth=1e9)
    return Problem(builder.build(), cluster, name="fork")


HEAD: Row = {
    "event": "run", "time": 0.0, "schema": "weft/history/1", "weft": "0", "run": "r", "on": "test", "scheduler": "heft",
    "seed": 1, "time_unit": "s", "policy": "plan", "started_at": 0.0,
    "devices": [{"name": "slow-0", "class": "slow", "slots": 1}, {"name": "fast-0", "class": "fast", "slots": 1}],
}  # fmt: skip


def row(event: str, time: float, task: str = "", device: str = "", attempt: int = 1, **more: Any) -> Row:
    about = {"job": "fork", "task": task, "attempt": attempt} if task else {}
    return {"event": event, "time": time, **about, **({"device": device} if device else {}), **more}


def order(
    task: str, device: str, times: tuple[float, float, float], sequence: int, attempt: int = 1
) -> list[Row]:
    submitted, started, ended = times
    return [
        row("submitted", submitted, task, device, attempt, sequence=sequence, ahead=False),
        row("started", started, task, device, attempt),
        row("finished", ended, task, device, attempt),
        row("reported", ended, task, attempt=attempt),
    ]


def fork(*rows: list[Row]) -> list[Row]:
    """A history of the fork: planned a and b on slow-0, c on fast-0; rows by time."""
    plan = [
        ["fork", "a", "slow-0", 0.0, 2.0],
        ["fork", "b", "slow-0", 2.0, 4.0],
        ["fork", "c", "fast-0", 3.0, 5.0],
    ]
    edges = [["a", "b"], ["a", "c"]]
    arrived = {"event": "arrived", "time": 0.0, "job": "fork", "tasks": ["a", "b", "c"], "edges": edges}
    first = [HEAD, arrived, row("planned", 0.0, reason="arrival", rows=plan)]
    middle = sorted((one for part in rows for one in part), key=lambda one: one["time"])
    last = middle[-1]["time"]
    return [
        *first,
        *middle,
        row("ended", last, job="fork", outcome="done", reason=""),
        row("closed", last, ok=True),
    ]


LATE_RUN = fork(
    order("a", "slow-0", (0.0, 0.1, 3.1), 1),  # a second longer than planned
    order("b", "slow-0", (3.1, 3.2, 5.2), 2),
    order("c", "fast-0", (3.1, 4.3, 6.3), 3),  # its data takes a second
)


def test_executed_says_what_was_planned_and_what_was():
    found = executed_of(LATE_RUN, problem())
    assert (found.planned_makespan, found.makespan) == (5.0, 6.3)
    assert found.error_percent == pytest.approx(26.0)
    a, b, c = found.tasks
    assert a.error == pytest.approx(1.1) and b.error == pytest.approx(1.2) and c.error == pytest.approx(1.3)
    assert (a.kind, b.kind, a.attempts, a.outcome, c.parents) == ("load", "fit", 1, "done", ("a",))
    assert found.throughput == pytest.approx(3 / 6.3)
    assert found.faults == () and found.is_ok is True


def test_executed_divides_idle_time_by_cause():
    slow, fast = executed_of(LATE_RUN, problem()).workers
    assert (slow.busy, slow.planned_busy, slow.tasks) == (pytest.approx(5.0), 4.0, 2)
    assert slow.idle[DISPATCH] == pytest.approx(0.2) and slow.idle[NO_TASK] == pytest.approx(1.1)
    assert fast.idle[NO_TASK] == pytest.approx(2.0)  # until a should have been done
    assert fast.idle[LATE] == pytest.approx(1.1)  # until it was
    assert fast.idle[DATA] == pytest.approx(1.0)
    assert fast.idle[DISPATCH] == pytest.approx(0.2)
    assert slow.ratio == pytest.approx((1.5 + 1.0) / 2)


def test_executed_walks_the_chain_that_ended_the_run():
    found = executed_of(LATE_RUN, problem())
    assert [(link.attempt.task, link.held_by) for link in found.chain] == [("a", "arrival"), ("c", "parent")]
    assert found.chain_waits == {DATA: pytest.approx(1.0), DISPATCH: pytest.approx(0.3)}
    assert found.why["run times"] == pytest.approx(1.0)
    assert sum(found.why.values()) == pytest.approx(1.3)


def test_executed_says_what_the_calibration_got_wrong():
    worst, *rest = executed_of(LATE_RUN, problem()).kinds
    assert (worst.device_class, worst.kind, worst.num) == ("slow", "load", 1)
    assert worst.ratio == pytest.approx(1.5) and all(one.ratio == pytest.approx(1.0) for one in rest)


def test_executed_expects_run_times_of_the_class_where_a_task_ran():
    rows = fork(
        order("a", "slow-0", (0.0, 0.0, 2.0), 1),
        order("b", "fast-0", (2.0, 3.0, 5.0), 2),
        order("c", "fast-0", (5.0, 5.0, 7.0), 3),
    )
    found = executed_of(rows, problem())
    assert [task.is_moved for task in found.tasks] == [False, True, False]
    assert [link.held_by for link in found.chain] == ["arrival", "parent", "device"]
    assert {(one.device_class, one.kind): one.num for one in found.kinds} == {
        ("slow", "load"): 1,
        ("fast", "fit"): 2,
    }
    assert len(executed_of(rows).kinds) == 2  # without the problem, b was never expected there
    assert sum(one.num for one in executed_of(rows).kinds) == 2


def test_executed_counts_attempts_and_losses():
    rows = fork(
        [
            row("submitted", 0.0, "a", "slow-0", sequence=1, ahead=False),
            row("started", 0.0, "a", "slow-0"),
            row("failed", 1.0, "a", "slow-0", note="ValueError: no"),
            row("lost", 1.0, device="slow-0", note="killed"),
        ],
        order("a", "fast-0", (1.0, 1.0, 3.0), 2, attempt=2),
        order("b", "fast-0", (3.0, 3.0, 5.0), 3),
        order("c", "fast-0", (5.0, 5.0, 7.0), 4),
    )
    found = executed_of(rows, problem())
    assert found.tasks[0].attempts == 2
    assert [(one.outcome, one.note) for one in found.failures] == [("failed", "ValueError: no")]
    slow, fast = found.workers
    assert (slow.wasted, slow.losses, slow.idle[GONE]) == (1.0, 1, 6.0)
    assert fast.idle[AGAIN] == pytest.approx(1.0)
    assert found.chain[0].held_by == "arrival" and found.chain[1].held_by == "attempt"
    assert found.why["attempts that failed or were lost"] == pytest.approx(1.0)


def test_executed_tells_holding_back_from_dispatching():
    rows = fork(
        order("a", "slow-0", (0.0, 0.0, 2.0), 1),
        [row("waited", 2.5, reason="c is better off later")],
        order("b", "slow-0", (2.0, 2.0, 4.0), 2),
        order("c", "slow-0", (6.0, 6.0, 8.0), 3),
    )
    slow, _ = executed_of(rows, problem()).workers
    assert slow.idle[HELD] == pytest.approx(2.0) and slow.idle[DISPATCH] == pytest.approx(0.0)


def test_executed_counts_pairs_against_the_planned_order():
    plan = [["j", f"t{k}", "slow-0", float(k), k + 1.0] for k in range(4)]
    names = [f"t{k}" for k in range(4)]
    rows = [HEAD, {"event": "arrived", "time": 0.0, "job": "j", "tasks": names, "edges": []}]
    rows.append(row("planned", 0.0, reason="arrival", rows=plan))
    for k, name in enumerate(("t3", "t0", "t1", "t2")):
        rows += [one | {"job": "j"} for one in order(name, "slow-0", (float(k), float(k), k + 1.0), k)]
    rows += [row("ended", 4.0, job="j", outcome="done", reason=""), row("closed", 4.0, ok=True)]
    found = executed_of(rows)
    assert (found.inversions, found.workers[0].displacement) == (3, 3)


def test_executed_without_a_plan_has_no_error():
    rows = [one for one in LATE_RUN if one["event"] != "planned"]
    found = executed_of(rows, problem())
    assert found.planned_makespan is None and found.error_percent is None and found.why == {}
    assert found.kinds[0].ratio == pytest.approx(1.5)
    assert "nothing was planned beforehand" in summary(found)


def test_executed_shadow_agrees_where_devices_do():
    shadow = row("shadow", 0.0, scheduler="fifo", starts=[["fork", "a", "fast-0"], ["fork", "b", "slow-0"]])
    found = executed_of([*LATE_RUN[:3], shadow, *LATE_RUN[3:]], problem())
    assert found.shadow is not None
    assert (found.shadow.num, found.shadow.agreeing, found.shadow.share) == (2, 1, 0.5)
    assert "fifo in the shadow agrees on 50.0 % of 2 placements" in summary(found)


def test_executed_compares_schedulers_that_jobs_were_divided_between():
    rows = World(3, num_tasks=5, jobs=8).run()
    arrivals = [one for one in rows if one["event"] == "arrived"]
    for k, one in enumerate(arrivals):
        one["scheduler"] = "heft" if k % 2 else "fifo"
    found = executed_of(rows)
    assert found.split is not None and found.split.difference is not None
    assert (found.split.first, found.split.num_first, found.split.num_second) == ("fifo", 4, 4)
    assert found.split.difference.value == pytest.approx(found.split.mean_second - found.split.mean_first)
    assert "Mean job time: fifo " in summary(found)


@pytest.mark.parametrize("seed", range(40))
def test_executed_times_add_up(seed: int):
    deaths = ((3.0 + seed % 5, seed % 3, None if seed % 2 else 7.0 + seed % 5),)
    kills = (2.0 + seed % 7,) if seed % 3 else ()
    faults = Faults(deaths, 0.1 * (seed % 3), ("t4",) if seed % 5 == 0 else (), kills)
    found = executed_of(World(seed, 12 + seed % 9, jobs=1 + seed % 3, faults=faults).run())
    for worker in found.workers:
        assert worker.busy + worker.idle_time == pytest.approx(worker.slots * found.makespan)
        assert list(worker.idle) == list(CAUSES) and min(worker.idle.values()) >= 0.0
    along = sum(link.attempt.run_time + sum(link.waits.values()) for link in found.chain)
    assert along == pytest.approx(found.makespan)
    if found.why:
        assert sum(found.why.values()) == pytest.approx(found.makespan - (found.planned_makespan or 0.0))


@pytest.mark.parametrize("name", EXAMPLES)
def test_summary_is_three_to_six_lines(name: str):
    said = summary(executed_of(history(name))).split("\n")
    assert 3 <= len(said) <= 6 and all(said)


def test_executed_of_a_run_that_was_killed():
    found = executed_of(history("plain")[:40])
    assert found.is_ok is None and "Its history has no end." in summary(found)
    assert any(task.outcome == "open" for task in found.tasks)


def folder(path: Path, rows: list[Row]) -> Path:
    path.mkdir()
    (path / "history.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    (path / "problem.json").write_bytes(dump_json(problem_document(problem())))
    return path


def test_executed_is_read_from_a_run_folder(tmp_path: Path):
    found = read_executed(folder(tmp_path / "run", LATE_RUN))
    assert isinstance(found, Executed) and found.name == "run"
    assert found.kinds[0].kind == "load"
    assert json.dumps(found.to_dict())


def test_executed_takes_the_plan_beside_the_history(tmp_path: Path):
    from weft.catalog import schedule
    from weft.io.schedules import write_schedule

    run = folder(tmp_path / "run", [one for one in LATE_RUN if one["event"] != "planned"])
    plan = schedule(problem(), "heft").schedule
    write_schedule(plan, run / "plan.json")
    assert read_executed(run).planned_makespan == pytest.approx(plan.makespan)


def test_executed_refuses_what_it_cannot_tell():
    with pytest.raises(InputError, match="not the history of a run: job"):
        executed_of([HEAD, *order("a", "slow-0", (0.0, 0.0, 1.0), 1)])


def test_executed_as_a_schedule_of_its_problem():
    found = schedule_of(executed_of(LATE_RUN, problem()), problem())
    assert found.makespan == pytest.approx(6.3) and len(found) == 3
    with pytest.raises(InputError, match="no task 't0' of job 'job0'"):
        schedule_of(executed_of(history("plain")), problem())


def test_difference_interval_holds_the_difference_of_independent_means():
    from weft.evaluation.statistics import difference_interval

    found = difference_interval([5.0, 6.0, 7.0, 5.5, 6.5], [1.0, 2.0, 3.0, 1.5, 2.5, 2.0])
    assert found.value == pytest.approx(4.0) and 2.0 < found.low < 4.0 < found.high < 6.0
    same = difference_interval([2.0, 2.0], [1.0, 1.0])
    assert (same.low, same.high) == (1.0, 1.0)
    with pytest.raises(InputError, match="at least 2"):
        difference_interval([1.0], [1.0, 2.0])
