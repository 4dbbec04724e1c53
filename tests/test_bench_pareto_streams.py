"""The table of dispatchers by mean job time, energy and unfairness."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.pareto_streams import main, table


def test_table_says_who_is_beaten_by_whom():
    first = np.log(np.array([[10.0, 5.0, 2.0], [20.0, 6.0, 3.0], [15.0, 4.0, 2.5]]))
    logs = np.array([first, first + np.log([0.9, 1.1, 1.0]), first + np.log([1.2, 1.1, 1.0])])
    lines = table(["first", "faster", "worse"], logs).splitlines()
    assert lines[1].endswith("on the front")
    assert "-10.00 (-10.00 to -10.00)" in lines[2] and lines[2].endswith("on the front")
    assert "+20.00" in lines[3] and lines[3].endswith("beaten by first, faster")


def test_dispatchers_are_played_on_test_streams(capsys: pytest.CaptureFixture[str]):
    small = ["--loads", "0.8", "--devices", "4", "--jobs", "5", "--tasks", "10", "--seeds", "2"]
    assert main(["priced", "srw", *small]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("2 streams, percent against priced")
    assert "priced" in shown and "srw" in shown
