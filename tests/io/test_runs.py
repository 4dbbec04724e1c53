"""Folders of training runs: which they are, and their rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import InputError
from weft.io.runs import METRICS, read_metrics, run_folders


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / METRICS).write_text(text)
    return folder


def test_metrics_are_the_whole_rows(tmp_path: Path):
    assert read_metrics(write(tmp_path, '{"update": 1}\n{"update": 2}\n{"upd')) == (
        {"update": 1},
        {"update": 2},
    )


def test_metrics_of_a_run_that_has_none_yet_are_empty(tmp_path: Path):
    assert read_metrics(write(tmp_path, "")) == ()


@pytest.mark.parametrize(
    ("row", "said"),
    [("[1]", "expected a row of metrics, got list"), ("{", "expected JSON"), ("[" * 10_000, "expected JSON")],
)
def test_metrics_refuse_a_damaged_row_with_its_line(row: str, said: str, tmp_path: Path):
    with pytest.raises(InputError, match=f"metrics.jsonl:2: {said}"):
        read_metrics(write(tmp_path, f'{{"update": 1}}\n{row}\n'))


def test_metrics_that_are_not_there_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"metrics\.jsonl: "):
        read_metrics(tmp_path)


def test_run_folders_are_in_the_order_of_their_seeds(tmp_path: Path):
    for seed in (1, 2, 10):
        write(tmp_path / f"seed-{seed}", "")
    (tmp_path / "seed-3").mkdir()
    assert [path.name for path in run_folders(tmp_path)] == ["seed-1", "seed-2", "seed-10"]
    assert run_folders(tmp_path / "seed-2") == [tmp_path / "seed-2"]
