"""Mean job times of the usual rules against the reference simulator, on weft's own draws."""

from __future__ import annotations

import pytest

from benchmarks.reference import PLACES, REFERENCE, Figure, measured


def test_distance_is_in_standard_errors_of_the_difference():
    one = Figure("fifo", 0.5, reference=10.0, reference_se=0.3, mean=11.0, se=0.4)
    assert one.errors == pytest.approx(2.0)
    assert one.is_reached
    assert not Figure("fifo", 0.5, 10.0, 0.3, 11.1, 0.4).is_reached


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_mean_job_times_are_the_reference_ones():
    figures = measured(num_seeds=40, jobs=10_000)
    assert len(figures) == len(PLACES) * len(REFERENCE)
    assert [one for one in figures if not one.is_reached] == []
