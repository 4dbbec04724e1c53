"""The store of a sweep: rows, resuming, the lock, what is refused."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from weft.errors import InputError, LockedError
from weft.evaluation.sweep.changed import changes_of_sweep, differences
from weft.evaluation.sweep.store import CONFIG, DATABASE, Measured, Row, open_sweep, read_sweep
from weft.io.folders import LOCK
from weft.kinds import PROBLEMS, QUEUES

CONFIG_A = {"schedulers": ["heft"], "seeds": [0, 1], "cells": {"": {"ccr": 1.0}}}
ROW = Row(
    scenario="workflows",
    cell="",
    problem="test/0",
    seed=0,
    scheduler="heft",
    metrics={"makespan": 0.1 + 0.2, "mean_jct": 1e300, "slr": None, "copies": 0},
    more={"lower_bound": 1e-300},
    valid=None,
    fault=None,
    trace="ab",
)


def test_rows_come_back_as_they_were(tmp_path: Path):
    rows = [ROW, replace(ROW, seed=1, valid=True), replace(ROW, seed=2, valid=False, fault="slots: too many")]
    with open_sweep(tmp_path / "sweep", CONFIG_A) as store:
        store.add([Measured(row, 0.5) for row in rows])
    with open_sweep(tmp_path / "sweep", CONFIG_A) as store:
        assert store.rows() == rows
        assert store.seconds() == {row.key: 0.5 for row in rows}
        assert store.keys() == {row.key for row in rows}


def test_rows_are_kept_in_memory_without_a_folder():
    with open_sweep(None, CONFIG_A) as store:
        store.add([Measured(ROW, 0.1)])
        assert store.rows() == [ROW]


def test_rows_of_one_call_are_kept_all_or_none(tmp_path: Path):
    with (
        pytest.raises(InputError, match="cannot be used as a sweep: UNIQUE"),
        open_sweep(tmp_path, CONFIG_A) as store,
    ):
        store.add([Measured(ROW, 0.1)])
        store.add([Measured(replace(ROW, seed=1), 0.1), Measured(ROW, 0.1)])
    with read_sweep(tmp_path) as store:
        assert store.rows() == [ROW]


def test_hash_of_rows_leaves_out_order_and_seconds(tmp_path: Path):
    other = replace(ROW, seed=1)
    with open_sweep(None, CONFIG_A) as first, open_sweep(None, CONFIG_A) as second:
        first.add([Measured(ROW, 0.1), Measured(other, 0.2)])
        second.add([Measured(other, 7.0)])
        second.add([Measured(ROW, 8.0)])
        assert first.rows_hash() == second.rows_hash()


def test_hash_of_rows_sees_the_last_bit():
    with open_sweep(None, CONFIG_A) as first, open_sweep(None, CONFIG_A) as second:
        first.add([Measured(ROW, 0.1)])
        second.add([Measured(replace(ROW, metrics={**ROW.metrics, "makespan": 0.3}), 0.1)])
        assert first.rows_hash() != second.rows_hash()


def test_folder_holds_a_readable_configuration(tmp_path: Path):
    with open_sweep(tmp_path, CONFIG_A):
        pass
    assert json.loads((tmp_path / CONFIG).read_text("utf-8")) == CONFIG_A


def test_folder_of_another_configuration_is_refused_by_name_of_the_difference(tmp_path: Path):
    with open_sweep(tmp_path, CONFIG_A):
        pass
    expected = r"another sweep \(--seeds: there 0 to 1, here 0\): ask for the same"
    with pytest.raises(InputError, match=expected), open_sweep(tmp_path, CONFIG_A | {"seeds": [0]}):
        pass


SCENARIO = {"name": "mine", "cluster": "{}", "policies": {"ppo": "aa"}, "seed": 0}
ASKED = {
    "scenario": SCENARIO,
    "cells": {"": {"p_c": 0.5, "jobs": 10}},
    "inputs": {"a.json": "hash"},
    "effort": None,
    "versions": {"weft": "0.1.0", "kernels": "aa"},
}
CHANGED = [
    ({"cells": {"": {"p_c": 0.7, "jobs": 10}}}, ["--set p_c: there 0.5, here 0.7"]),
    (
        {"cells": {"p_c=0": {"p_c": 0, "jobs": 10}, "p_c=1": {"p_c": 1, "jobs": 10}}},
        ["--set p_c: there 0.5, here 0,1"],
    ),
    ({"effort": 10}, ["--effort: there none, here 10"]),
    ({"inputs": {"a.json": "other"}}, ["the file a.json has changed"]),
    ({"inputs": {"b.json": "hash"}}, ["the files: there a.json, here b.json"]),
    ({"scenario": SCENARIO | {"name": "yours"}}, ["the scenario: there mine, here yours"]),
    ({"scenario": SCENARIO | {"cluster": "{1}"}}, ["--cluster: the cluster is another one"]),
    ({"scenario": SCENARIO | {"policies": {"ppo": "bb"}}}, ["the policy ppo has other weights"]),
    ({"scenario": SCENARIO | {"seed": 1}}, ["the scenario has changed (seed)"]),
    (
        {"versions": {"weft": "0.1.0", "kernels": "bb"}},
        ["made by another version of weft or of what it needs (kernels)"],
    ),
]


@pytest.mark.parametrize(("changed", "words"), CHANGED)
def test_changes_of_a_sweep_name_the_option(changed: dict[str, object], words: list[str]):
    assert changes_of_sweep(ASKED, ASKED | changed) == words


def test_differences_go_into_tables_and_lists():
    stored = {"a": {"b": 1}, "c": [1, 2], "d": 1}
    wanted = {"a": {"b": 2}, "c": [1, 3], "e": 1}
    assert differences(stored, wanted) == [
        "a.b: there 1, here 2",
        "c[1]: there 2, here 3",
        "d: there 1, here null",
        "e: there null, here 1",
    ]


def test_folder_with_other_things_is_refused(tmp_path: Path):
    (tmp_path / "thesis").write_text("x", "utf-8")
    with (
        pytest.raises(InputError, match="expected an empty folder or a sweep, found 'thesis'"),
        open_sweep(tmp_path, CONFIG_A),
    ):
        pass


def test_folder_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("x", "utf-8")
    with (
        pytest.raises(InputError, match="expected a folder for the sweep"),
        open_sweep(tmp_path / "file", CONFIG_A),
    ):
        pass


def test_database_of_somebody_else_is_refused(tmp_path: Path):
    (tmp_path / DATABASE).write_text("no database at all, but long enough to look at" * 20, "utf-8")
    with pytest.raises(InputError, match="cannot be used as a sweep"), open_sweep(tmp_path, CONFIG_A):
        pass


def test_reading_needs_a_sweep(tmp_path: Path):
    with pytest.raises(InputError, match="expected a sweep folder"), read_sweep(tmp_path):
        pass


def test_second_process_is_told_who_holds_the_sweep(tmp_path: Path):
    script = (
        "import sys\nfrom weft.evaluation.sweep.store import open_sweep\n"
        f"with open_sweep({str(tmp_path)!r}, {CONFIG_A!r}):\n    print('open', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with (
            pytest.raises(LockedError, match=f"process {holder.pid} is running this sweep") as caught,
            open_sweep(tmp_path, CONFIG_A),
        ):
            pass
        holder.kill()
    assert caught.value.exit_code == 4


def test_lock_of_a_dead_process_is_taken_over(tmp_path: Path):
    (tmp_path / LOCK).write_text("999999999\n", "utf-8")
    with open_sweep(tmp_path, CONFIG_A) as store:
        assert store.rows() == []


def test_database_is_in_wal_mode(tmp_path: Path):
    with open_sweep(tmp_path, CONFIG_A):
        connection = sqlite3.connect(tmp_path / DATABASE)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()


@pytest.mark.parametrize("text", ["{", "[]", "1"])
def test_sweep_with_a_damaged_configuration_is_refused_by_name(tmp_path: Path, text: str):
    with open_sweep(tmp_path / "s", {"a": 1}):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / "s" / "sweep.sqlite")) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'config'", (text,))
    with (
        pytest.raises(
            InputError, match=r"sweep\.sqlite: config: expected the configuration of a sweep as JSON"
        ),
        read_sweep(tmp_path / "s"),
    ):
        pass


FORMER = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rows (scenario, cell, problem, seed, scheduler, makespan, slr, speedup, utilisation, mean_jct,
gap_percent, lower_bound, copies, valid, fault, trace, p99_jct, batch_fill, expired, devices);
INSERT INTO meta VALUES ('config', '{"a": 1}');
INSERT INTO rows VALUES ('w', '', 'test/0', 0, 'heft', 3.0, 1.5, 2.0, 0.5, 3.0, 0.0, 3.0, 1, 1, NULL, 'ab',
NULL, NULL, NULL, NULL);
INSERT INTO rows VALUES ('w', '', 'test/0', 1, 'srw', 3.0, NULL, NULL, 0.5, 2.0, 9.0, 1.5, 0, NULL, NULL, 'cd',
4.0, 1.0, 0, '[]');
"""


def test_sweep_of_a_former_schema_is_read_and_not_added_to(tmp_path: Path):
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.executescript(FORMER)
    with read_sweep(tmp_path) as store:
        plan, stream = store.rows()
        assert store.rows_hash()[:8] == "3de8da75"  # as before figures had a column of their own
    assert list(plan.metrics) == list(PROBLEMS.metrics) and plan.more == {"lower_bound": 3.0}
    assert list(stream.metrics) == list(QUEUES.metrics)
    assert stream.more == {"gap_percent": 9.0, "lower_bound": 1.5, "copies": 0}
    assert stream.to_dict()["slr"] is None and plan.to_dict()["p99_jct"] is None
    with pytest.raises(InputError, match="a former weft: report on it"), open_sweep(tmp_path, {"a": 1}):
        pass


@pytest.mark.parametrize("text", ["{", "[]", '{"makespan": "long"}'])
def test_figures_that_are_no_numbers_are_refused_by_row(tmp_path: Path, text: str):
    with open_sweep(tmp_path, CONFIG_A) as store:
        store.add([Measured(ROW, 0.1)])
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        connection.execute("UPDATE rows SET metrics = ?", (text,))
    with read_sweep(tmp_path) as store, pytest.raises(InputError, match="test/0, heft: metrics: expected a"):
        store.rows()
