"""weft calibrate, on processes of this machine."""

from __future__ import annotations

from pathlib import Path

from command_line import Weft

from weft.io.files import read_cluster
from weft.io.workers import read_workers


def test_calibrate_writes_a_cluster_that_schedules(weft: Weft, tmp_path: Path):
    ran = weft("calibrate", "--workers", "2", "--budget", "2s", "--out", "mine.toml")
    assert ran.code == 0, ran.err
    assert "local: 2 workers, measured in" in ran.out
    assert "links within a host:" in ran.out
    assert "next: weft run FILE --on local --cluster mine.toml" in ran.err
    assert read_cluster("./mine.toml").device_names == ("cpu-0", "cpu-1")
    assert read_workers("mine.toml") == {"cpu-0": "local-0", "cpu-1": "local-1"}
    again = weft("calibrate", "--out", "mine.toml")
    assert (again.code, "--force replaces it" in again.err) == (2, True)


def test_calibrate_refuses_what_it_does_not_know(weft: Weft):
    ran = weft("calibrate", "--on", "spark")
    assert (ran.code, "on: expected local, dask, dask://..., ray or ray://..., got 'spark'" in ran.err) == (
        2,
        True,
    )
    ran = weft("calibrate", "--budget", "0s")
    assert (ran.code, "--budget: expected a time > 0" in ran.err) == (2, True)
    ran = weft("calibrate", "--on", "dask://127.0.0.1:9", "--workers", "2")
    assert (ran.code, "they are there already" in ran.err) == (2, True)
