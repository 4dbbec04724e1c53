"""Figures of a stream: which are drawn from which rows, and what the curves hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from weft.cli.app import app
from weft.errors import InputError
from weft.evaluation.figures.streams import draw_all, half_widths
from weft.evaluation.statistics import mean_interval
from weft.evaluation.sweep.adaptation import Adaptation, adaptations
from weft.evaluation.sweep.answers import evaluate
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.runner import Sweep
from weft.scenarios import sweep

USUAL = ("fifo", "mru", "depth-first")


def found(schedulers: tuple[str, ...], seeds: int = 3, **given: object) -> Evaluation:
    cells = sweep("conditional", {"jobs": 120} | given)
    return evaluate(Sweep(cells, schedulers, 1, tuple(range(seeds))))


def test_sweep_draws_relative_times_and_devices(tmp_path: Path):
    drawn = draw_all(found(USUAL, p_c=[0, 0.5, 1]), tmp_path / "figures")
    assert [path.name for path in drawn] == ["devices.png", "relative.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


def test_one_seed_draws_devices_alone(tmp_path: Path):
    assert [path.name for path in draw_all(found(USUAL, seeds=1), tmp_path)] == ["devices.png"]


def test_drifting_streams_draw_an_adaptation_each(tmp_path: Path):
    drifting = found(("ppo", "fifo"), drift=["step", "walk"], drift_to=0.9, forget=[1, 0.95])
    names = [path.name for path in draw_all(drifting, tmp_path)]
    assert names == ["devices.png", "adaptation.png", "adaptation-2.png"]


def test_adaptation_plays_rules_once_and_policies_with_every_memory():
    drifting = found(("ppo", "fifo"), drift="step", drift_to=0.9, forget=[1, 0.95])
    (one,) = adaptations(drifting)
    assert list(one.job_times) == ["ppo, forget 1", "ppo, forget 0.95", "fifo"]
    assert list(one.estimates) == ["estimate, forget 1", "estimate, forget 0.95"]
    fifo = [row["mean_jct"] for row in drifting.rows if row.scheduler == "fifo"][:3]
    assert one.job_times["fifo"].mean(axis=1) == pytest.approx(fifo)


def test_window_averages_the_jobs_around_each_point():
    times = np.arange(80.0)[None, :]
    one = Adaptation("", "ms", np.zeros((1, 80)), {}, {"a": times})
    assert one.window == 2
    assert one.windowed(times)[0].tolist() == [job - 0.5 for job in one.jobs]


def test_interval_is_that_of_the_mean():
    found = mean_interval([31.0, 33.0])
    assert half_widths(np.array([[31.0], [33.0]]))[:, 0] == pytest.approx(
        [32.0 - found.low, found.high - 32.0]
    )


def test_interval_keeps_to_the_values_there_can_be():
    shares = half_widths(np.array([[1.0], [99.0]]), most=100.0)[:, 0]
    assert shares == pytest.approx([50.0, 50.0])


def test_figure_folder_that_cannot_be_made_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(InputError, match="cannot be made"):
        draw_all(found(USUAL, seeds=1), tmp_path / "file" / "figures")


def test_plot_option_takes_a_folder_for_streams_only(tmp_path: Path):
    words = ["evaluate", "conditional", "-s", "fifo,mru", "--seeds", "2", "--set", "jobs=50", "--plot"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "figures")], catch_exceptions=False)
    assert done.exit_code == 0
    assert (tmp_path / "figures" / "devices.png").exists()
    with pytest.raises(InputError, match=r"expected a path that ends in .png or .svg"):
        CliRunner().invoke(app, ["evaluate", "jobshop", "--plot", str(tmp_path)], catch_exceptions=False)
