"""Printed 95 % intervals hold the true value often enough, on few samples and skewed ones."""

from __future__ import annotations

import pytest

from benchmarks.coverage import DRAWS, LEVELS, SIZES, TARGET, crossed, means, student, together
from weft.evaluation.statistics import mean_interval

REPEATS = 1500
ROUGH = 0.02
"""Three standard errors of a share of 93 % over so many samples."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", DRAWS)
def test_intervals_of_means_cover(name: str, size: int):
    (found,) = means(name, size, REPEATS, {"weft": mean_interval})
    assert found.share >= TARGET - ROUGH


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["normal", "exponential"])
def test_intervals_over_runs_and_seeds_cover(name: str, level: str):
    _, both = crossed(name, level, 500)
    assert both.share >= TARGET


def test_points_of_a_claim_are_covered_at_once():
    alone, corrected = together("normal", 120)
    assert corrected.share >= max(TARGET, alone.share)
    assert corrected.width > 1.3


def test_students_t_falls_short_on_skewed_samples():
    (found,) = means("exponential", 5, REPEATS, {"t": student})
    assert found.share < 0.91
    assert found.width == pytest.approx(1.0)


def test_seeds_alone_fall_short_where_training_runs_differ():
    alone, _ = crossed("normal", "runs differ most", 300)
    assert alone.share < 0.6
