from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from weft.errors import MissingExtra
from weft.io.runs import read_metrics
from weft.training.algorithms import Asked
from weft.training.recipes import read_recipe
from weft.training.run.metrics import Metrics
from weft.training.run.once import train_once

MODULE = "torch.utils.tensorboard"


@pytest.fixture
def metrics(tmp_path: Path):
    opened = Metrics(tmp_path / "metrics.jsonl")
    yield opened
    opened.close()


def test_metrics_cut_back_go_on_from_there(metrics: Metrics, tmp_path: Path):
    metrics.append(1, {"loss": 0.5})
    size = metrics.sync()
    metrics.append(2, {"loss": 0.4})
    assert metrics.cut(size)
    metrics.append(2, {"loss": None})
    metrics.sync()
    assert read_metrics(tmp_path) == (
        {"update": 1, "loss": 0.5},
        {"update": 2, "loss": None},
    )


def test_metrics_say_when_there_is_less_than_to_keep(metrics: Metrics):
    assert not metrics.cut(100)


def test_metrics_leave_out_a_row_cut_short(metrics: Metrics, tmp_path: Path):
    metrics.append(1, {})
    metrics.sync()
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"update": 2, "lo')
    assert [row["update"] for row in read_metrics(tmp_path)] == [1]


def test_metrics_go_to_tensorboard_too(metrics: Metrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[object] = []

    class Writer:
        def __init__(self, folder: str, purge_step: int) -> None:
            seen.append((Path(folder).name, purge_step))

        def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
            seen.append((tag, scalar_value, global_step))

        def flush(self) -> None:
            pass

    monkeypatch.setitem(sys.modules, MODULE, SimpleNamespace(SummaryWriter=Writer))
    metrics.log_to_tensorboard(tmp_path / "tensorboard", 4)
    metrics.append(5, {"loss": 0.5, "phase": "ppo", "episode_return": None})
    assert seen == [("tensorboard", 5), ("loss", 0.5, 5)]


def test_training_without_tensorboard_begins_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, MODULE, None)
    with pytest.raises(MissingExtra, match="tensorboard"):
        train_once(read_recipe("conditional-quick"), tmp_path / "run", Asked(has_tensorboard=True))
    assert not (tmp_path / "run").exists()


def test_metrics_without_tensorboard_name_the_extra(
    metrics: Metrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, MODULE, None)
    with pytest.raises(MissingExtra, match="needs tensorboard"):
        metrics.log_to_tensorboard(tmp_path, 0)
