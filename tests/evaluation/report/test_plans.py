"""Which instance is drawn."""

from __future__ import annotations

import pytest
from report_examples import example_config, example_frame, example_row

from weft.errors import InputError
from weft.evaluation.report.blocks import Table, Text
from weft.evaluation.report.plans import check_instance, find_instance, lost, side_by_side
from weft.evaluation.sweep.answers import evaluate, evaluation_of
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.pairing import Sample
from weft.evaluation.sweep.runner import Sweep
from weft.scenarios import sweep


def grid_frame() -> Evaluation:
    """A sweep over two settings, whose labels have a comma."""
    config = example_config(("fifo",), (0.0,), 1)
    cells = {f"p_c={p:g},jobs={jobs}": {"p_c": p, "jobs": jobs} for p in (0.0, 1.0) for jobs in (5, 9)}
    rows = [example_row(label, 0, "fifo", 1.0) for label in cells]
    return evaluation_of("grid", config | {"cells": cells}, rows)


@pytest.mark.parametrize("words", ["p_c=1,jobs=9 test/0", "jobs=9 p_c=1", "p_c=1, jobs=9, seed=0"])
def test_instance_of_a_grid_is_found_by_its_label(words: str):
    assert find_instance(grid_frame(), words) == ("p_c=1,jobs=9", Sample("test/0", 0))


def test_instance_need_be_in_one_of_several_sweeps():
    frames = (example_frame(lambda name, p, seed: 1.0 + seed), grid_frame())
    check_instance(frames, "jobs=9")
    with pytest.raises(InputError, match="expected an instance of the sweep such as 'p_c=0 test/0'"):
        check_instance(frames, "jobs=7")


def test_reason_why_losses_are_not_drawn_is_given_once(monkeypatch: pytest.MonkeyPatch):
    def draw(*given: object, **named: object) -> None:
        raise InputError("this sweep cannot be played again")

    monkeypatch.setattr("weft.evaluation.report.plans.draw", draw)
    frame = example_frame(lambda name, p, seed: (2.0 if name == "ppo" else 1.0) + seed)
    section = lost(frame, "ppo", lambda text: None)
    assert section is not None
    reasons = [block for block in section.blocks if isinstance(block, Text)]
    assert [block.lines for block in reasons] == [("Not drawn: this sweep cannot be played again.",)]


def test_stream_of_tasks_has_neither_charts_nor_lines_on_drawing_them():
    """Work that is dispatched task by task is not drawn."""
    said: list[str] = []
    request = Sweep(sweep("workflows", {"load": 0.8, "jobs": 3, "tasks": 5}), ("fifo", "srw"), 2)
    found = evaluate(request)
    assert side_by_side(found, "fifo", None, said.append) is None
    assert all(
        isinstance(block, Table | Text) for block in getattr(lost(found, "fifo", said.append), "blocks", ())
    )
    assert said == []
