"""Looks: nothing looks like something else, labels can be read, pictures and pages agree."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.colors
import numpy as np
import pytest
from matplotlib.figure import Figure
from report_examples import example_config, example_frame, example_row

from weft.evaluation.figures import gantt, sweeps
from weft.evaluation.figures.looks import (
    DASHES,
    HATCHES,
    KINDS,
    MARKS,
    MOST_KINDS,
    SERIES,
    TONES,
    contrast,
    kind_look,
    legend_name,
    series_look,
)
from weft.evaluation.report.page import asset, style
from weft.evaluation.report.sections import results
from weft.evaluation.report.svg import Series, legend_of, line_chart
from weft.evaluation.sweep.answers import evaluation_of
from weft.evaluation.sweep.evaluation import Evaluation

READABLE = 4.5
"""Contrast of text with what it stands on, WCAG 2, level AA."""
MANY = tuple(f"rule-{k}" for k in range(23))


def cost(name: str, p: float, seed: int) -> float:
    return 100.0 + len(name) + 0.1 * seed + p


def drawn(found: Evaluation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Figure:
    """The picture of ``weft evaluate --plot``, as matplotlib has it before it is written."""
    kept: list[Figure] = []
    save = gantt.save
    monkeypatch.setattr(sweeps, "save", lambda figure, path: (kept.append(figure), save(figure, path)))
    sweeps.draw(found, tmp_path / "x.svg")
    return kept[0]


@pytest.mark.parametrize(
    ("first", "second", "value"), [("#000000", "#ffffff", 21.0), ("#777777", "#ffffff", 4.48)]
)
def test_contrast_is_that_of_wcag(first: str, second: str, value: float):
    assert contrast(first, second) == contrast(second, first) == pytest.approx(value, abs=0.005)


def test_no_two_series_look_alike():
    assert len({series_look(k) for k in range(256)}) == 256
    assert len({series_look(k)[:2] for k in range(len(SERIES) * len(DASHES))}) == 32  # without marks
    assert len(set(MARKS)) == len(MARKS) and len(set(TONES)) == len(TONES) == len(DASHES)


def test_no_two_kinds_of_task_look_alike():
    assert len({(kind_look(k).light, kind_look(k).hatch) for k in range(MOST_KINDS + 1)}) == MOST_KINDS + 1
    assert kind_look(MOST_KINDS) == kind_look(MOST_KINDS + 7)
    assert len({pair[1] for pair in KINDS}) == len(KINDS)


@pytest.mark.parametrize("k", range(MOST_KINDS + 1))
def test_labels_of_bars_can_be_read(k: int):
    look = kind_look(k)
    assert contrast(look.light, look.light_ink) >= READABLE
    assert contrast(look.dark, look.dark_ink) >= READABLE


@pytest.mark.parametrize("k", range(MOST_KINDS + 1))
def test_labels_of_hatched_bars_can_be_read(k: int):
    red, green, blue = (
        round(255 * (0.8 + 0.2 * one)) for one in matplotlib.colors.to_rgb(kind_look(k).light)
    )
    assert contrast("#000000", f"#{red:02x}{green:02x}{blue:02x}") >= READABLE


def test_hatches_of_kinds_are_none_of_copies():
    assert not any(set(hatch) & set("/\\xX*") for hatch in HATCHES)
    assert len(set(HATCHES)) == len(HATCHES)


def test_symbols_of_a_terminal_are_different():
    symbols = [gantt.symbol_of(k) for k in range(len(gantt.SYMBOLS) + 1)]
    assert len(set(symbols)) == len(symbols) and not set(symbols) & set(".~[]^|")
    assert gantt.symbol_of(99) == gantt.OTHER_SYMBOL


def test_picture_cuts_intervals_that_would_hide_the_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    found = example_frame(lambda name, p, seed: 100.0 if name == "fifo" or seed else 1e9, num_seeds=7)
    figure = drawn(found, monkeypatch, tmp_path)
    assert "intervals beyond the axis are cut" in figure.axes[0].get_title()
    assert figure.axes[0].get_ylim()[1] < 1e4


def test_texts_of_the_page_can_be_read_in_both_themes():
    themes = re.findall(
        r"--back: (#\w{6}); --ink: (#\w{6}); --soft: (#\w{6}); --line: #\w{6}; --tint: (#\w{6})",
        asset("report.css"),
    )
    assert len(themes) == 3  # light, dark, print
    for back, ink, soft, tint in themes:
        assert min(contrast(text, behind) for text in (ink, soft) for behind in (back, tint)) >= READABLE
    canvas = re.findall(
        r'back: "(#\w{6})", lane: "#\w{6}", ink: "(#\w{6})", soft: "(#\w{6})"', asset("panel.js")
    )
    assert len(canvas) == 2
    assert min(contrast(back, text) for back, *texts in canvas for text in texts) >= READABLE


def test_legend_of_many_series_repeats_no_look():
    text = legend_of([(name, k) for k, name in enumerate(MANY)])
    lines = re.findall(r'<path class="line ([^"]+)"', text)
    assert len(lines) == len(set(lines)) == len(MANY)


def test_every_mark_is_a_shape_of_its_own():
    one = np.array([1.0])
    marks = [legend_of([("a", k)]).partition("<g ")[2].partition("</g>")[0] for k in range(len(MARKS))]
    assert len({re.sub(r"c\d", "", mark) for mark in marks}) == len(MARKS)
    assert "hollow" in line_chart([Series("a", one, one, look=8)], _axes())


def _axes():
    from weft.evaluation.report.svg import Axes

    return Axes("x", "y")


def test_scheduler_has_the_same_colour_in_picture_and_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    found = example_frame(cost, schedulers=MANY[:11], baseline="rule-2")
    figure = drawn(found, monkeypatch, tmp_path)
    page = str(results(found).blocks[0])
    for handle, name in zip(*figure.axes[0].get_legend_handles_labels(), strict=True):
        if "baseline" not in name:
            look = series_look(MANY.index(name))
            assert handle.lines[0].get_color() == SERIES[look.colour][0]
            assert re.search(
                rf'<path class="line c{look.colour}[^"]*"[^>]*/>(?:(?!<path class="line).)*<title>{name}:',
                page,
            )
    assert f"--c3:{SERIES[3][0]};" in style()


def test_picture_of_many_schedulers_repeats_no_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    figure = drawn(example_frame(cost, schedulers=MANY), monkeypatch, tmp_path)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    lines = [
        handle.lines[0] for handle, label in zip(handles, labels, strict=True) if "baseline" not in label
    ]
    seen = {
        (one.get_color(), one.get_marker(), one.get_linestyle(), str(one.get_markerfacecolor()))
        for one in lines
    }
    assert len(seen) == len(lines) == len(MANY) - 1


def test_names_are_drawn_as_they_are(tmp_path: Path):
    names = ("fifo", "_hidden", "$x^2$")
    path = tmp_path / "x.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        sweeps.draw(example_frame(cost, schedulers=names), path)
    text = path.read_text("utf-8")
    assert "_hidden" in text and "$x^2$" in text
    assert legend_name("plain") == "plain"


def of_two_settings() -> Evaluation:
    config = example_config(("fifo", "ppo"), (0.0, 1.0), 7)
    cells = {f"p_c={p:g},load={q:g}": {"p_c": p, "load": q} for p in (0.0, 1.0) for q in (0.5, 0.9)}
    rows = [
        example_row(cell, seed, name, 100.0 + seed + len(name) * (1 + q["load"]))
        for cell, q in cells.items()
        for seed in range(7)
        for name in ("fifo", "ppo")
    ]
    return evaluation_of("sweep", config | {"cells": cells}, rows)


def test_sweep_of_two_settings_says_both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (axes,) = drawn(of_two_settings(), monkeypatch, tmp_path).axes
    assert axes.get_xlabel() == "p_c, load"
    assert [tick.get_text() for tick in axes.get_xticklabels()][1] == "p_c=1\nload=0.5"
    assert "p_c=1,load=0.5: mean job time against fifo (%)" in str(results(of_two_settings()).blocks[1])
