"""Training runs: rows, columns that some rows lack, what is refused; and their curves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_examples import write_oneshot_run, write_run

from weft.errors import InputError
from weft.evaluation.report.blocks import Figure, Table
from weft.evaluation.report.learning import in_words, learning
from weft.evaluation.report.runs import read_run
from weft.io.runs import run_folders

ROWS = [
    {"samples": 10, "mean_reward": -2.0, "seconds": 1.0, "cpu_seconds": 0.5},
    {"samples": 20, "mean_reward": -1.0, "seconds": 2.0, "cpu_seconds": 1.0, "baselines_percent": 5.0},
    {"samples": 30, "mean_reward": None, "seconds": 3.0, "cpu_seconds": 1.5, "baselines_percent": -4.0},
]


def test_columns_are_read_where_rows_have_them(tmp_path: Path):
    run = read_run(write_run(tmp_path / "run", ROWS))
    assert (run.samples, run.seconds, run.best("baselines_percent")) == (30, 3.0, -4.0)
    assert run.column("mean_reward")[1].tolist() == [-2.0, -1.0]
    assert run.best("envelope_percent") is None


def test_folder_of_seeds_holds_several_runs(tmp_path: Path):
    for seed in (1, 2, 10):
        write_run(tmp_path / "pi-4" / f"seed-{seed}", ROWS)
    names = [read_run(folder).name for folder in run_folders(tmp_path / "pi-4")]
    assert names == ["pi-4/seed-1", "pi-4/seed-2", "pi-4/seed-10"]


def test_row_cut_short_by_a_kill_is_left_out(tmp_path: Path):
    folder = write_run(tmp_path / "run", ROWS)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"samples": 4')
    assert read_run(folder).samples == 30


def test_damaged_row_is_an_error_with_its_line(tmp_path: Path):
    folder = write_run(tmp_path / "run", ROWS)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write("[1]\n")
    with pytest.raises(InputError, match=r"metrics.jsonl:4: expected a row of metrics, got list"):
        read_run(folder)


def test_configuration_of_something_else_is_refused(tmp_path: Path):
    folder = write_run(tmp_path / "run", ROWS)
    (folder / "config.json").write_text(json.dumps({"schema": "other"}))
    with pytest.raises(InputError, match="expected a run"):
        read_run(folder)


def test_learning_draws_validation_and_reward(tmp_path: Path):
    section = learning([read_run(write_run(tmp_path / "run", ROWS))])
    assert [type(block).__name__ for block in section.blocks] == ["Figure", "Figure", "Table"]


def test_learning_without_validation_says_so(tmp_path: Path):
    rows = [{"samples": 10, "mean_reward": -2.0}]
    table = learning([read_run(write_run(tmp_path / "run", rows))]).blocks[-1]
    assert "not measured" in table.rows[0]  # type: ignore[union-attr]


def test_learning_draws_training_seeds_as_one_line_with_a_band(tmp_path: Path):
    runs = [read_run(write_run(tmp_path / "pi-4" / f"seed-{seed}", ROWS)) for seed in (1, 2)]
    section = learning(runs)
    figure, table = section.blocks[0], section.blocks[-1]
    assert isinstance(figure, Figure) and isinstance(table, Table)
    assert figure.svg.count('class="band c0"') == 1 and ">pi-4<" in figure.svg
    assert "over up to 2 training seeds" in figure.caption
    assert [len(row) for row in table.rows] == [len(table.headers)] * 2


def test_training_is_told_once_for_all_seeds(tmp_path: Path):
    runs = [read_run(write_run(tmp_path / "pi-4" / f"seed-{seed}", ROWS)) for seed in (1, 2)]
    assert in_words("pi-4", runs) == (
        "Training pi-4: 2 seeds, 30 decisions in 3 s; at best -4.0 % against the best of fifo, mru and depth-first."
    )


PLANNED = [
    {"update": 1, "mean_reward": -50.0, "drawn_percent": 50.0, "seconds": 1.0, "cpu_seconds": 0.5},
    {"update": 2, "greedy_percent": 30.0, "best_of_16_percent": 29.0, "seconds": 2.0, "cpu_seconds": 1.0},
    {"update": 4, "greedy_percent": 20.0, "best_of_16_percent": 18.0, "seconds": 4.0, "cpu_seconds": 2.0},
    {"update": 6, "greedy_percent": 25.0, "best_of_16_percent": 19.0, "seconds": 6.0, "cpu_seconds": 3.0},
]


def test_training_of_a_one_shot_planner_is_told_in_schedules(tmp_path: Path):
    run = read_run(write_oneshot_run(tmp_path / "shops", PLANNED))
    assert in_words("shops", [run]) == (
        "Training shops: 768 schedules and 6 updates in 6 s; greedy 25.0 % above the bound at last, 20.0 % at best; "
        "best of 16 19.0 % above the bound at last, 18.0 % at best."
    )


def test_learning_of_a_one_shot_planner_has_its_own_table_and_curves(tmp_path: Path):
    section = learning([read_run(write_oneshot_run(tmp_path / "shops", PLANNED))])
    *figures, table = section.blocks
    assert len(figures) == 2 and all(isinstance(one, Figure) and ">updates<" in one.svg for one in figures)
    assert isinstance(table, Table) and not any("against" in header for header in table.headers)
    assert table.rows[0][3:] == (
        "768", "6", "6", "3", "+30.0 %", "+25.0 %", "+20.0 %", "+29.0 %", "+19.0 %", "+18.0 %",
    )  # fmt: skip


def test_learning_of_both_kinds_has_a_table_of_each(tmp_path: Path):
    runs = [read_run(write_run(tmp_path / "run", ROWS)), read_run(write_oneshot_run(tmp_path / "s", PLANNED))]
    tables = [block for block in learning(runs).blocks if isinstance(block, Table)]
    assert [[row[0] for row in table.rows] for table in tables] == [["run"], ["s"]]


def test_one_shot_planner_without_validation_says_so(tmp_path: Path):
    run = read_run(write_oneshot_run(tmp_path / "shops", PLANNED[:1]))
    assert in_words("shops", [run]) == "Training shops: 128 schedules and 1 update in 1 s."
    (table,) = learning([run]).blocks
    assert isinstance(table, Table) and table.rows[0][-6:] == ("not measured",) * 6
