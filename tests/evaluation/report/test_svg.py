"""Drawings: the same bytes, texts escaped, marks that differ, axes that fit."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from weft.evaluation.report.svg import (
    Axes,
    Dot,
    Series,
    bar_chart,
    interval_chart,
    legend_of,
    line_chart,
    ticks,
)

X = np.array([0.0, 0.5, 1.0])
LINE = Series("a<b", X, X + 1, X, X + 2, look=1)
AXES = Axes("p_c", "job time (ms)", zero="baseline")

DRAWINGS = {
    "lines": lambda: line_chart([LINE], AXES),
    "steps": lambda: line_chart([LINE], AXES, is_step=True, has_marks=False),
    "intervals": lambda: interval_chart([Dot("a<b", -1.0, -2.0, 0.5)], "against (%)", "baseline"),
    "bars": lambda: bar_chart([("gpu<0>", [0.5, 1.0])], [("a<b", 0), ("c", 9)], "utilisation"),
    "legend": lambda: legend_of([("a<b", 0), ("c", 1)]),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawing_is_well_formed_and_repeats(name: str):
    drawn = DRAWINGS[name]()
    assert drawn == DRAWINGS[name]()
    texts = [node.text for node in ElementTree.fromstring(drawn).iter() if node.text]
    assert "a<b" in " ".join(texts)


def test_line_chart_labels_axes_and_draws_intervals():
    drawn = line_chart([LINE], AXES)
    assert "job time (ms)" in drawn and ">p_c<" in drawn
    assert drawn.count('class="bar c1"') == 3
    assert "a&lt;b: 1.5 at 0.5 (0.5 to 2.5)" in drawn


def test_line_chart_cuts_intervals_that_would_hide_the_values():
    x = np.array([1.0, 2.0])
    wide = Series("a", x, np.array([10.0, 20.0]), np.array([9.0, 0.0]), np.array([11.0, 1e6]))
    text = line_chart([wide], AXES)
    assert "intervals beyond the axis are cut" in text and "(0 to 1e+06)" in text
    assert "1e+06</text>" not in text
    near = Series("a", x, np.array([10.0, 20.0]), np.array([9.0, 0.0]), np.array([11.0, 40.0]))
    assert "are cut" not in line_chart([near], AXES)


def test_line_chart_leaves_out_what_is_not_finite():
    gap = Series("a", X, np.array([1.0, np.nan, 2.0]))
    assert line_chart([gap], AXES).count("<title>") == 2


def test_line_chart_places_factors_evenly_on_a_log_axis():
    series = Series("a", np.array([0.1, 1.0, 10.0]), X)
    drawn = line_chart([series], Axes("ccr", "y", is_log=True, x_ticks=(0.1, 1.0, 10.0)), is_step=False)
    root = ElementTree.fromstring(drawn)
    labels = [n for n in root.iter() if n.text in ("0.1", "1", "10") and n.get("text-anchor") == "middle"]
    places = [float(label.attrib["x"]) for label in labels]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.2)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (-3.0, 11.0, [-2.5, 0, 2.5, 5, 7.5, 10]), (2.0, 2.0, [2.0])],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]):
    assert ticks(low, high) == pytest.approx(expected)
