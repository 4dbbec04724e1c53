"""Sweeps: paired rows, noise, the oracle, several processes, and kill -9 at random moments."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weft import catalog
from weft.cli import main
from weft.errors import InputError, UnsupportedError
from weft.evaluation.sweep import runner as benchmark
from weft.evaluation.sweep.answers import choose_baseline, evaluate
from weft.evaluation.sweep.checking import is_drawn_for_check, trace_hash
from weft.evaluation.sweep.plan_runs import as_it_happened, noise_seed
from weft.evaluation.sweep.runner import Sweep, run
from weft.evaluation.sweep.store import Row, open_sweep, read_sweep
from weft.model.draws import keyed_uniform
from weft.model.problem import Problem, realise
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.scenarios import scenario, sweep
from weft.schedulers.base import Limit
from weft.sim.tasks.replay import replayed

TEN = ("heft", "cpop", "peft", "lookahead", "deft", "fifo-deft", "tdca", "min-min", "random", "perturbed")
TINY = {"tasks": 8, "family": ["layered", "in-tree"]}


def tiny(
    schedulers: tuple[str, ...] = ("heft", "random"), problems: int = 3, seeds: int = 2, **settings: object
) -> Sweep:
    return Sweep(sweep("workflows", TINY | settings), schedulers, problems, tuple(range(seeds)))


def rows_of(asked: Sweep) -> list[Row]:
    with open_sweep(None, asked.config) as store:
        run(asked, store)
        return store.rows()


# -- rows ---------------------------------------------------------------------------------------------


def test_rows_cover_every_combination_once():
    asked = tiny(ccr=[0.5, 2])
    found = Counter(row.key for row in rows_of(asked))
    assert len(found) == asked.num_rows == 2 * 3 * 2 * 2
    assert set(found.values()) == {1}


def test_rows_agree_with_the_planner():
    asked = tiny(("heft",), problems=1, seeds=1)
    plan = catalog.schedule(asked.cells[0].problem("test", 0), "heft").schedule
    (row,) = rows_of(asked)
    assert (row["makespan"], row["slr"], row.trace) == (plan.makespan, plan.slr, trace_hash(plan))
    assert row.valid is True


def test_rows_without_noise_use_the_seed_for_the_scheduler():
    by_scheduler: dict[str, list[str]] = {}
    for row in rows_of(tiny(problems=1, seeds=3)):
        by_scheduler.setdefault(row.scheduler, []).append(row.trace)
    assert len(set(by_scheduler["heft"])) == 1
    assert len(set(by_scheduler["random"])) == 3


def test_rows_with_noise_differ_between_seeds():
    rows = rows_of(tiny(("heft",), problems=1, seeds=3, noise=0.3))
    assert len({row["makespan"] for row in rows}) == 3


def test_rows_with_noise_are_bounded_by_what_happened():
    rows = rows_of(tiny(("heft", "deft"), problems=4, seeds=5, noise=1.0))
    assert all(row["makespan"] >= row["lower_bound"] * (1 - 1e-9) for row in rows)
    assert all(row.valid for row in rows)


def test_noise_is_drawn_per_problem_and_the_same_for_all_schedulers():
    rows = rows_of(tiny(("heft", "deft"), problems=2, seeds=1, noise=0.5))
    bounds = {(row.problem, row.scheduler): row["lower_bound"] for row in rows}
    assert bounds["test/0", "heft"] == bounds["test/0", "deft"]
    assert noise_seed("test/0", 0) != noise_seed("test/1", 0)


def test_schedule_as_it_happened_keeps_its_times():
    problem = scenario("workflows", **TINY, noise=0.4).problem("test", 0)
    carried = replayed(catalog.schedule(problem, "heft").schedule, realise(problem, 7))
    found = as_it_happened(carried)
    assert found.makespan == carried.makespan
    assert validate(found) == ()


def test_trace_hash_sees_a_moved_task(fork_problem: Problem):
    plan = catalog.schedule(fork_problem, "heft").schedule
    later = replace(plan, start=plan.start + 1e-12, finish=plan.finish)
    assert trace_hash(plan) != trace_hash(later)


def test_scheduler_that_cannot_act_is_named():
    asked = Sweep((scenario("jobshop", jobs=2, machines=2),), ("deft",), 1)
    with pytest.raises(UnsupportedError, match="deft: it runs copies"):
        rows_of(asked)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"schedulers": ("hft",)}, "no planner 'hft'; did you mean 'heft'"),
        ({"schedulers": ()}, "schedulers: expected at least one"),
        ({"seeds": ()}, "seeds: expected at least one"),
        ({"num_problems": 0}, "problems: expected a whole number >= 1, got 0"),
        ({"check": "some"}, "check: expected one of all, sample, none, got 'some'"),
        ({"split": "exam"}, "split: expected one of train, validation, test, got 'exam'"),
    ],
)
def test_sweep_with_a_mistake_is_refused(changes: dict[str, object], text: str):
    asked = tiny()
    with pytest.raises(InputError) as caught:
        replace(asked, **changes)  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_configuration_notices_a_changed_input(tmp_path: Path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text('extends = "workflows"\nseed = 1\n', "utf-8")
    before = Sweep((scenario(recipe),), ("heft",), 1).config
    recipe.write_text('extends = "workflows"\nseed = 2\n', "utf-8")
    assert Sweep((scenario(recipe),), ("heft",), 1).config != before


# -- the oracle ---------------------------------------------------------------------------------------


class Overlapping:
    """A planner that starts everything at once."""

    name = "overlapping"

    def supports(self, problem: Problem) -> str | None:
        return None

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        good = catalog.schedule(problem, "heft").schedule
        return replace(good, start=good.start * 0, finish=good.finish - good.start)


@pytest.fixture
def overlapping(monkeypatch: pytest.MonkeyPatch) -> str:
    entry = catalog.Entry("tests:none", "wrong on purpose")
    monkeypatch.setitem(catalog.PLANNERS, "overlapping", entry)
    known = catalog.find
    monkeypatch.setattr(
        catalog, "find", lambda name, kind: Overlapping() if name == "overlapping" else known(name, kind)
    )
    return "overlapping"


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_oracle_marks_a_schedule_that_breaks_a_rule(overlapping: str, noise: float):
    found = evaluate(tiny(("heft", overlapping), problems=2, seeds=1, noise=noise))
    assert [row.scheduler for row in found.faults] == [overlapping, overlapping]
    assert found.faults[0].fault is not None
    assert "slots" in found.faults[0].fault or "precedence" in found.faults[0].fault


def test_evaluation_compares_nobody_who_broke_a_rule(overlapping: str):
    found = evaluate(tiny(("heft", overlapping, "random"), problems=3, seeds=1))
    assert {name: one.num_broken for name, one in found.breaches.items()} == {overlapping: 3}
    assert found.sound == ("heft", "random")
    assert [one.scheduler for one in found.comparisons] == ["random"]
    assert found.comparisons == evaluate(tiny(problems=3, seeds=1)).comparisons


def test_evaluation_with_a_baseline_that_broke_a_rule_has_no_verdicts(overlapping: str):
    found = evaluate(tiny(("heft", overlapping, "random"), problems=3, seeds=1), baseline=overlapping)
    assert found.comparisons == ()


def test_command_line_marks_as_best_nobody_who_broke_a_rule(
    overlapping: str, capsys: pytest.CaptureFixture[str]
):
    words = ["evaluate", "workflows", "--set", "tasks=8", "--problems", "3"]
    assert main([*words, "-s", f"heft,{overlapping},random"]) == 1
    lines = capsys.readouterr().out.splitlines()
    table = lines[: next(k for k, line in enumerate(lines) if line.startswith("*"))]
    marks = {name: line.split()[0] for name in ("heft", overlapping) for line in table if f" {name} " in line}
    assert marks == {"heft": "*", overlapping: "!"}
    assert any("broke a rule: not compared" in line for line in lines)
    assert "! broke a rule, in this table or another: neither best nor compared (overlapping)" in lines


def test_command_line_says_that_the_baseline_broke_a_rule(
    overlapping: str, capsys: pytest.CaptureFixture[str]
):
    words = ["evaluate", "workflows", "--set", "tasks=8", "--problems", "3", "--baseline", overlapping]
    assert main([*words, "-s", f"heft,{overlapping}"]) == 1
    said = capsys.readouterr().out
    assert "the baseline overlapping did: no verdicts (--baseline NAME takes another)" in said
    assert main([*words, "-s", f"heft,{overlapping}", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["breaches"]["overlapping"]["num_broken"] == 3
    assert found["comparisons"] == []


def test_oracle_is_not_asked_with_check_none(overlapping: str):
    found = evaluate(replace(tiny((overlapping,), problems=1, seeds=1), check="none"))
    assert [row.valid for row in found.rows] == [None]


def test_oracle_sees_all_small_schedules_and_one_in_ten_large_ones():
    keys = [("", f"test/{k}", 0, "heft") for k in range(2000)]
    assert all(is_drawn_for_check("sample", 2000, key) for key in keys)
    assert all(is_drawn_for_check("all", 2001, key) for key in keys)
    drawn = sum(is_drawn_for_check("sample", 2001, key) for key in keys)
    assert 150 < drawn < 250


# -- summary and comparison -----------------------------------------------------------------------------


def test_evaluation_sums_up_over_problems_not_seeds():
    asked = tiny(problems=3, seeds=4)
    found = evaluate(asked)
    values = found.values("makespan", "", "random")
    (one,) = [s for s in found.summary if (s.scheduler, s.metric) == ("random", "makespan")]
    assert len(values) == 3
    assert one.mean == pytest.approx(values.mean())
    assert one.se == pytest.approx(values.std(ddof=1) / np.sqrt(3))
    assert one.low is not None
    assert one.high is not None
    assert one.low < one.mean < one.high


def test_evaluation_says_who_is_worse():
    found = evaluate(tiny(("heft", "random"), problems=12, seeds=2, ccr=5))
    (one,) = found.comparisons
    assert one.comparison.verdict == "worse"
    assert "above heft" in str(one)


def test_evaluation_of_equals_is_not_distinguishable():
    found = evaluate(tiny(("heft", "lookahead"), problems=4, seeds=1, devices=1))
    assert [one.comparison.verdict for one in found.comparisons] == ["not distinguishable"]


def test_evaluation_of_one_problem_has_no_verdict():
    found = evaluate(tiny(problems=1))
    assert found.comparisons == ()
    assert {one.se for one in found.summary} == {None}


def test_evaluation_lists_rows_in_the_order_asked_for():
    found = evaluate(tiny(("random", "heft"), problems=11, seeds=1))
    assert [row.problem for row in found.rows[::2]] == [f"test/{k}" for k in range(11)]
    assert [row.scheduler for row in found.rows[:2]] == ["random", "heft"]


def test_baseline_is_the_scenarios_unless_it_is_missing():
    assert choose_baseline(None, "heft", ("cpop", "heft")) == "heft"
    assert choose_baseline(None, "heft", ("cpop", "random")) == "cpop"
    with pytest.raises(InputError, match="baseline: expected one of cpop, heft, got 'peft'"):
        choose_baseline("peft", "heft", ("cpop", "heft"))


# -- resuming and processes -----------------------------------------------------------------------------


def test_resumed_sweep_computes_only_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = tiny(problems=4)
    with open_sweep(tmp_path, asked.config) as store:
        for unit in asked.units(frozenset())[:5]:
            store.add(benchmark.measure(replace(unit, seeds=unit.seeds[:1])))
    done: list[benchmark.Unit] = []
    measure = benchmark.measure
    monkeypatch.setattr(benchmark, "measure", lambda unit: done.append(unit) or measure(unit))
    found = evaluate(asked, out=tmp_path)
    assert sum(len(unit.seeds) for unit in done) == asked.num_rows - 5
    assert found.rows_hash == evaluate(asked).rows_hash


def test_finished_sweep_computes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = tiny()
    first = evaluate(asked, out=tmp_path)
    monkeypatch.setattr(benchmark, "measure", None)
    assert evaluate(asked, out=tmp_path).rows == first.rows


def test_two_processes_give_the_same_bytes(tmp_path: Path):
    asked = tiny(("heft", "min-min", "random"), problems=6, noise=[0, 0.3])
    one = evaluate(asked, out=tmp_path / "one", workers=1)
    two = evaluate(asked, out=tmp_path / "two", workers=2)
    assert one.rows_hash == two.rows_hash
    assert repr(one.rows) == repr(two.rows)


def test_error_in_a_worker_reaches_the_caller():
    asked = Sweep((scenario("jobshop", jobs=2, machines=2),), ("heft", "deft"), 2)
    with (
        open_sweep(None, asked.config) as store,
        pytest.raises(UnsupportedError, match="deft: it runs copies"),
    ):
        run(asked, store, workers=2)


SCRIPT = """
import json, sys, time
from weft.evaluation.sweep.runner import Sweep
from weft.evaluation.sweep.answers import evaluate
from weft.scenarios import sweep
out, settings, schedulers, problems, seeds, workers, pause = json.loads(sys.argv[1])
asked = Sweep(sweep("workflows", settings), tuple(schedulers), problems, tuple(range(seeds)), effort=8)
evaluate(asked, out=out, workers=workers, progress=lambda done, total: time.sleep(pause))
"""


def started(
    out: Path, schedulers: tuple[str, ...], problems: int, seeds: int, workers: int, pause: float
) -> subprocess.Popen[bytes]:
    arguments = json.dumps([str(out), TINY, schedulers, problems, seeds, workers, pause])
    return subprocess.Popen([sys.executable, "-c", SCRIPT, arguments])


def num_stored(out: Path) -> int:
    """Rows in the database so far; none before it is there."""
    if not (out / "config.json").exists():
        return 0
    with read_sweep(out) as store:
        return len(store.keys())


def survive_kills(
    out: Path, kills: int, schedulers: tuple[str, ...], problems: int, seeds: int, pause: float
) -> None:
    """Kill a sweep again and again at random moments, finish it, and compare with an undisturbed one."""
    asked = Sweep(sweep("workflows", TINY), schedulers, problems, tuple(range(seeds)), effort=8)
    stored = 0
    for kill in range(kills):
        draw = float(keyed_uniform(4, kill, 0))
        until = (
            stored + 1 + int(draw * (asked.num_rows - stored) / (kills - kill + 1))
        )  # a busy machine overshoots
        process = started(out, schedulers, problems, seeds, 1 + kill % 2, pause)
        while num_stored(out) < min(until, asked.num_rows - 1) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.03 * float(keyed_uniform(4, kill, 1)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert num_stored(out) >= stored
        stored = num_stored(out)
    assert 0 < stored < asked.num_rows
    assert evaluate(asked, out=out).rows_hash == evaluate(asked).rows_hash
    assert num_stored(out) == asked.num_rows


def test_sweep_survives_two_kills(tmp_path: Path):
    survive_kills(tmp_path / "sweep", 2, ("heft", "cpop", "min-min", "random"), 20, 3, 0.02)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sweep_of_full_size_survives_twenty_kills(tmp_path: Path):
    survive_kills(tmp_path / "sweep", 20, TEN, 100, 10, 0.0)
