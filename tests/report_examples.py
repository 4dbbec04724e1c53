"""Rows, frames and runs made by hand for the tests of reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from weft.evaluation.report.frame import Frame, frame_of
from weft.evaluation.sweep.store import Measured, Row, open_sweep

Cost = Callable[[str, float, int], float]
"""Scheduler, value of the setting, seed -> cost."""

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"


def example_row(cell: str, seed: int, scheduler: str, cost: float, **more: object) -> Row:
    """A row of a stream."""
    usual: dict[str, object] = {
        "scenario": "conditional",
        "cell": cell,
        "problem": "test/0",
        "seed": seed,
        "scheduler": scheduler,
        "makespan": 100.0,
        "slr": None,
        "speedup": None,
        "utilisation": 0.5,
        "mean_jct": cost,
        "gap_percent": 10.0,
        "lower_bound": 1.0,
        "copies": 0,
        "valid": None,
        "fault": None,
        "trace": "",
        "p99_jct": 2.0 * cost,
        "batch_fill": 0.25,
        "expired": 0,
        "devices": json.dumps(
            [
                {"device": "cpu-0", "utilisation": 0.5, "batch_fill": 1.0},
                {"device": "gpu-0", "utilisation": 0.75, "batch_fill": 0.25},
            ]
        ),
    }
    return Row(**(usual | more))  # type: ignore[arg-type]


def example_config(
    schedulers: Sequence[str], points: Sequence[float], num_seeds: int, **recipe: object
) -> dict[str, object]:
    """The configuration of a sweep over ``p_c``."""
    usual: dict[str, object] = {
        "name": "conditional",
        "generator": "stream",
        "metric": "mean_jct",
        "baseline": schedulers[0],
        "settings": [{"name": "p_c", "type": "number", "default": 0.5}],
        "graph": json.dumps({"time_unit": "ms"}),
    }
    return {
        "scenario": usual | recipe,
        "cells": {f"p_c={p:g}": {"p_c": p, "jobs": 10} for p in points},
        "split": "test",
        "problems": 1,
        "seeds": list(range(num_seeds)),
        "schedulers": list(schedulers),
        "effort": None,
        "check": "sample",
        "versions": {"weft": "0.1.0"},
    }


def example_rows(schedulers: Sequence[str], points: Sequence[float], num_seeds: int, cost: Cost) -> list[Row]:
    """One row per point, seed and scheduler."""
    return [
        example_row(f"p_c={p:g}", seed, name, cost(name, p, seed))
        for p in points
        for seed in range(num_seeds)
        for name in schedulers
    ]


def example_frame(
    cost: Cost,
    schedulers: Sequence[str] = ("fifo", "ppo"),
    points: Sequence[float] = (0.0, 0.8, 1.0),
    num_seeds: int = 8,
    **recipe: object,
) -> Frame:
    """A frame of such rows."""
    rows = example_rows(schedulers, points, num_seeds, cost)
    return frame_of("sweep", example_config(schedulers, points, num_seeds, **recipe), rows)


def write_sweep(folder: Path, config: Mapping[str, object], rows: Sequence[Row]) -> Path:
    """The same as a sweep folder."""
    with open_sweep(folder, config) as store:
        store.add([Measured(row, 0.001) for row in rows])
    return folder


def write_run(folder: Path, rows: Sequence[Mapping[str, object]], recipe: str = "conditional-pi-4") -> Path:
    """A run folder with these rows of metrics."""
    folder.mkdir(parents=True)
    trained = {"name": recipe, "validation": {"baselines": ["fifo", "mru", "depth-first"]}}
    config = {"schema": "weft.run/1", "seed": 1, "recipe": trained, "versions": {"weft": "0.1.0"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def write_oneshot_run(folder: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """The run folder of a one-shot planner that draws 128 schedules per update."""
    write_run(folder, rows, "oneshot-jobshop")
    config = json.loads((folder / "config.json").read_text())
    more = {"algorithm": "oneshot", "config": {"groups": 2, "graphs": 8, "samples": 8}}
    (folder / "config.json").write_text(json.dumps(config | more))
    return folder
