"""Measured speeds of elastic tasks from a CSV."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.errors import InputError
from weft.io.speed_tables import NUM_PARTS, factors_of, rates_of, read_speed_table

RESOURCES = ("cpu", "gpu")


def table(folder: Path, text: str) -> Path:
    path = folder / "speeds.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_run_times_become_rates_per_step(tmp_path: Path):
    path = table(tmp_path, "task,cpu,gpu,seconds\na,1,1,40\na,1,2,20\na,1,2,30\nb,1,1,5\nb,1,2,5\n")
    first, second = read_speed_table(path, RESOURCES)
    assert (first.name, first.most, second.name) == ("a", (1, 2), "b")
    assert rates_of(first, (1, 1), (1, 2), 10.0).tolist() == [[0, 0, 0], [0, 0.25, 0.4]]
    assert first.curve == ()


def test_lines_may_end_with_a_carriage_return(tmp_path: Path):
    path = tmp_path / "speeds.csv"
    path.write_bytes(b"task,cpu,gpu,seconds\ra,1,1,40\ra,1,2,20\r")
    (found,) = read_speed_table(path, RESOURCES)
    assert found.seconds == {(1, 1): 40.0, (1, 2): 20.0}


def test_losses_give_the_course_of_progress(tmp_path: Path):
    """The loss falls by 8, 4, 2 and 1 in equal times: early progress is faster."""
    rows = [f"a,1,1,{10 * (k + 1)},{loss}" for k, loss in enumerate([16, 8, 4, 2, 1])]
    path = table(tmp_path, "\n".join(["task,cpu,gpu,seconds,loss", *rows]))
    (found,) = read_speed_table(path, RESOURCES)
    assert found.seconds == {(1, 1): 50.0}
    assert len(found.curve) == NUM_PARTS
    assert found.curve[0] > 1.0 > found.curve[-1]
    assert (np.diff(found.curve) < 1e-9).all()
    assert np.mean(1.0 / np.array(found.curve)) == pytest.approx(1.0)


def test_factors_keep_the_whole_run_time():
    assert np.mean(1.0 / np.array(factors_of(np.array([0.1, 0.2, 0.7])))) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task,cpu,seconds\n", "line 1|:1: expected the columns task, cpu, gpu, seconds and perhaps loss, or memory before seconds, got task, cpu, seconds"),
        ("task,cpu,gpu,seconds\n", "expected at least one row"),
        ("task,cpu,gpu,seconds\na,1,1\n", "expected 4 values, got 3"),
        ("task,cpu,gpu,seconds\na,1,x,3\n", "gpu: expected a number, got 'x'"),
        ("task,cpu,gpu,seconds\na,1,1.5,3\n", "expected whole numbers of units, at most 10,000, got 1, 1.5"),
        ("task,cpu,gpu,seconds\na,1,1,0\n", r"seconds: expected a number from 1e-09 to 1e\+12, got 0"),
        ("task,cpu,gpu,seconds\na,1,1,1e-320\n", r"seconds: expected a number from 1e-09 to 1e\+12, got 1e-320"),
        ("task,cpu,gpu,seconds\na,1,1,1_0\n", "seconds: expected a number, got '1_0'"),
        ("task,cpu,gpu,seconds\na,1,1,\u0663\n", "seconds: expected a number, got"),
        (f"task,cpu,gpu,seconds\n{'a' * 140_000},1,1,3\n", "speeds.csv:2: expected a CSV: field larger than field limit"),
        ("task,cpu,gpu,seconds\n,1,1,3\n", "task: expected the name of a task, got an empty one"),
        ("task,cpu,gpu,seconds,loss\na,1,1,2,nan\n", "loss: expected a finite number, got nan"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_said(tmp_path: Path, text: str, said: str):
    with pytest.raises(InputError, match=said):
        read_speed_table(table(tmp_path, text), RESOURCES)


ROWS = [f"a,{c},{g},{40 / (c + g):g}" for c in (1, 2, 4) for g in (1, 3)]


def test_speeds_between_measured_units_lie_on_straight_lines(tmp_path: Path):
    """Speeds of (c + g) / 40 lie on a plane, which lines between measured ones meet everywhere."""
    (found,) = read_speed_table(table(tmp_path, "\n".join(["task,cpu,gpu,seconds", *ROWS])), RESOURCES)
    assert found.measured == ((1, 2, 4), (1, 3))
    rates = rates_of(found, (1, 1), (4, 3), 10.0)
    assert rates[3, 2] == pytest.approx(10.0 * 5 / 40) and rates[2, 3] == pytest.approx(10.0 * 5 / 40)
    assert rates[1, 2] == pytest.approx(10.0 * 3 / 40) and rates[0].max() == rates[:, 0].max() == 0.0


@pytest.mark.parametrize(("least", "most"), [((0, 1), (2, 3)), ((1, 1), (5, 3))])
def test_no_speed_is_guessed_beyond_measured_units(
    tmp_path: Path, least: tuple[int, int], most: tuple[int, int]
):
    (found,) = read_speed_table(table(tmp_path, "\n".join(["task,cpu,gpu,seconds", *ROWS])), RESOURCES)
    with pytest.raises(InputError, match="has a measured with 1 x 1 to 4 x 3 units, and tasks need"):
        rates_of(found, least, most, 10.0)


def test_a_table_may_state_the_memory_of_its_tasks(tmp_path: Path):
    text = "task,cpu,gpu,memory,seconds\na,1,1,8,40\na,1,2,8,20\nb,1,1,0,5\n"
    assert [one.memory for one in read_speed_table(table(tmp_path, text), RESOURCES)] == [8, 0]
    with pytest.raises(InputError, match="memory: expected 8 as in other rows of a, got 4"):
        read_speed_table(table(tmp_path, text + "a,1,1,4,5\n"), RESOURCES)


def test_a_gap_in_a_table_is_named(tmp_path: Path):
    (found,) = read_speed_table(table(tmp_path, "task,cpu,gpu,seconds\na,1,1,3\na,2,2,3\n"), RESOURCES)
    with pytest.raises(InputError, match="has no row of a with 1 x 2 units"):
        rates_of(found, (1, 1), (2, 2), 10.0)
