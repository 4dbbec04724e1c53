"""Evaluations: what is paired, what is left out, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_examples import example_config, example_frame, example_row, example_rows, write_sweep

from weft.errors import InputError
from weft.evaluation.report.build import gather
from weft.evaluation.report.devices import device_uses
from weft.evaluation.sweep.answers import evaluation_of, read_evaluation
from weft.evaluation.sweep.store import open_sweep
from weft.kinds import TASKS


def better(name: str, p: float, seed: int) -> float:
    return 10.0 + seed if name == "fifo" else 9.0 + seed


def test_evaluation_has_values_per_cell_and_scheduler():
    swept = example_frame(better)
    assert swept.costs("p_c=0.8", "ppo").tolist() == [9.0 + k for k in range(8)]
    assert (swept.unit, swept.setting, swept.num_samples) == ("ms", "p_c", 24)


@pytest.mark.parametrize(("fill", "is_idle"), [(1.0, True), (0.25, False)])
def test_batch_fill_says_nothing_where_it_is_always_one(fill: float, is_idle: bool):
    rows = [example_row("p_c=0", 0, name, 1.0, batch_fill=fill) for name in ("fifo", "ppo")]
    swept = evaluation_of("sweep", example_config(("fifo", "ppo"), (0.0,), 1), rows)
    assert swept.is_idle("batch_fill") == is_idle


def test_evaluation_sorts_cells_by_number_and_not_by_letter():
    swept = example_frame(better, points=(10.0, 5.0, 1.0))
    assert [cell.label for cell in swept.cells] == ["p_c=1", "p_c=5", "p_c=10"]


def test_evaluation_leaves_out_samples_that_lack_a_scheduler():
    rows = example_rows(("fifo", "ppo"), (0.0,), 4, better)
    swept = evaluation_of("sweep", example_config(("fifo", "ppo"), (0.0,), 4), rows[:-1])
    assert len(swept.samples["p_c=0"]) == 3
    assert (len(swept.rows), swept.num_expected) == (7, 8)


def test_evaluation_pairs_noisy_problems_seed_by_seed():
    names = ("heft", "peft")
    rows = [
        example_row("p_c=0", seed, name, 1.0, makespan=10.0 + seed, p99_jct=None, slr=1.0, speedup=1.0)
        for seed in range(3)
        for name in names
    ]
    config = example_config(names, (0.0,), 3, generator="layered", metric="makespan")
    swept = evaluation_of("sweep", config, rows[:-1])
    assert swept.costs("p_c=0", "heft").tolist() == swept.costs("p_c=0", "peft").tolist() == [10.5]
    assert len(swept.rows_of("p_c=0", "heft")) == 2


def test_evaluation_without_a_whole_sample_is_refused():
    rows = example_rows(("fifo", "ppo"), (0.0,), 1, better)
    with pytest.raises(InputError, match="no problem has rows of every scheduler yet"):
        evaluation_of("sweep", example_config(("fifo", "ppo"), (0.0,), 1), rows[:1])


def test_evaluation_compares_with_the_baseline():
    swept = example_frame(better)
    assert swept.against["p_c=0", "ppo"].percent < 0
    assert ("p_c=0", "fifo") not in swept.against


def test_evaluation_takes_another_baseline(tmp_path: Path):
    names = ("fifo", "ppo")
    write_sweep(tmp_path / "s", example_config(names, (0.0,), 2), example_rows(names, (0.0,), 2, better))
    assert read_evaluation(tmp_path / "s", "ppo").baseline == "ppo"
    with pytest.raises(InputError, match="expected one of fifo, ppo, got 'pp'"):
        read_evaluation(tmp_path / "s", "pp")


def test_evaluation_takes_the_baseline_that_the_sweep_was_evaluated_with(tmp_path: Path):
    names = ("fifo", "ppo")
    config, rows = example_config(names, (0.0,), 2), example_rows(names, (0.0,), 2, better)
    folder = write_sweep(tmp_path / "s", config, rows)
    assert read_evaluation(folder).baseline == "fifo"  # a store that does not say
    for kept in ("ppo", "gone", "ppo"):
        with open_sweep(folder, config) as store:
            store.keep_baseline(kept)
        assert read_evaluation(folder).baseline == ("ppo" if kept == "ppo" else "fifo")
    assert read_evaluation(folder, "fifo").baseline == "fifo"


def test_sweeps_of_one_scenario_are_told_apart_by_their_settings(tmp_path: Path):
    names = ("fifo", "ppo")
    for folder, jobs in (("a", 10), ("b", 20)):
        config = example_config(names, (0.0, 1.0), 2)
        config["cells"] = {f"p_c={p:g}": {"p_c": p, "jobs": jobs} for p in (0.0, 1.0)}
        write_sweep(tmp_path / folder, config, example_rows(names, (0.0, 1.0), 2, better))
    found = gather([tmp_path / "a", tmp_path / "b"]).sweeps
    assert [swept.title for swept in found] == ["conditional (jobs=10)", "conditional (jobs=20)"]


def test_statistics_over_all_cells_are_over_what_they_share():
    swept = example_frame(lambda name, p, seed: 10.0 * (1.0 + p) + seed, num_seeds=4)
    assert (swept.num_samples, len(swept.units)) == (12, 4)
    expected = [
        (10.0 + seed) ** (1 / 3) * (18.0 + seed) ** (1 / 3) * (20.0 + seed) ** (1 / 3) for seed in range(4)
    ]
    assert swept.over_cells("ppo")[0] == pytest.approx(expected)


def test_evaluation_shows_runs_by_their_folder_unless_two_look_the_same():
    swept = example_frame(better, schedulers=("fifo", "out/a@best", "out/b@best"))
    assert swept.shown("out/a@best") == "a@best"
    twins = example_frame(better, schedulers=("fifo", "x/a@best", "y/a@best"))
    assert twins.shown("x/a@best") == "x/a@best"


def test_evaluation_shows_as_many_parts_of_a_path_as_needed():
    names = ("runs/pi-1/seed-1@best", "runs/pi-2/seed-1@best")
    assert example_frame(better, schedulers=names).shown(names[0]) == "pi-1/seed-1@best"


def test_evaluation_averages_the_use_of_devices():
    uses = device_uses(example_frame(better), "p_c=0", "ppo")
    assert [(use.device, use.utilisation, use.batch_fill) for use in uses] == [
        ("cpu-0", 0.5, 1.0),
        ("gpu-0", 0.75, 0.25),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"scenario": []},
        {"cells": None},
        {"seeds": []},
        {"schedulers": "fifo"},
        {"problems": "many"},
        {"split": None},
        {"cells": {"": 1}},
    ],
)
def test_evaluation_refuses_a_configuration_of_something_else(wrong: dict[str, object]):
    config = example_config(("fifo",), (0.0,), 1) | wrong
    with pytest.raises(InputError, match="expected the configuration of a sweep"):
        evaluation_of("sweep", config, [example_row("p_c=0", 0, "fifo", 1.0)])


@pytest.mark.parametrize(("cost", "shown"), [(0.0, "0"), (float("inf"), "inf")])
def test_evaluation_refuses_costs_that_have_no_ratio(cost: float, shown: str):
    with pytest.raises(
        InputError, match=rf"mean_jct: expected a number > 0, got {shown} \(fifo on test/0, seed 0\)"
    ):
        example_frame(lambda name, p, seed: cost)


def test_evaluation_refuses_devices_that_are_no_list():
    row = example_row("p_c=0", 0, "fifo", 1.0, devices="{")
    swept = evaluation_of("sweep", example_config(("fifo",), (0.0,), 1), [row])
    with pytest.raises(InputError, match="test/0, fifo: devices: expected a list of devices"):
        device_uses(swept, "p_c=0", "fifo")


def test_evaluation_of_streams_that_differ_averages_their_seeds():
    swept = example_frame(better, points=(0.0,), num_seeds=4, generator="random-stream")
    assert swept.costs("p_c=0", "fifo").tolist() == [11.5]


def test_evaluation_of_a_stream_is_judged_by_job_times():
    names, points = ("fifo", "ppo"), (0.0, 0.8, 1.0)
    config = example_config(names, points, 8, metric="makespan", generator="workflow")
    loaded = {label: {**settings, "load": 0.8} for label, settings in config["cells"].items()}
    frame = evaluation_of("sweep", {**config, "cells": loaded}, example_rows(names, points, 8, better))
    assert (frame.metric, frame.kind, frame.num_samples) == ("mean_jct", TASKS, 24)


def test_evaluation_of_machines_that_differ_has_no_devices():
    one = json.dumps([{"device": "cpu-0", "utilisation": 1.0, "batch_fill": 1.0}])
    rows = [example_row("p_c=0", 0, "fifo", 1.0), example_row("p_c=0", 1, "fifo", 1.0, devices=one)]
    assert (
        device_uses(evaluation_of("sweep", example_config(("fifo",), (0.0,), 2), rows), "p_c=0", "fifo") == ()
    )


def test_evaluation_of_arriving_workflows_has_the_baseline_of_evaluate():
    names = ("heft", "srw")
    config = example_config(names, (0.0,), 2, generator="workflow", graph="")
    config["cells"] = {"p_c=0": {"p_c": 0.0, "load": 0.8}}
    assert evaluation_of("sweep", config, example_rows(names, (0.0,), 2, better)).baseline == "srw"


def test_evaluations_of_one_scenario_take_a_baseline_that_one_has_and_name_their_folders(tmp_path: Path):
    for folder, names in (("a", ("fifo", "ppo")), ("b", ("fifo", "mru"))):
        config, rows = example_config(names, (0.0,), 2), example_rows(names, (0.0,), 2, better)
        write_sweep(tmp_path / folder, config, rows)
    sweeps = gather([tmp_path / "a", tmp_path / "b"], "mru").sweeps
    assert [(swept.title, swept.baseline) for swept in sweeps] == [
        ("conditional (a)", "fifo"),
        ("conditional (b)", "mru"),
    ]
    assert [swept.scenario for swept in sweeps] == ["conditional"] * 2
    with pytest.raises(InputError, match="expected one of fifo, ppo, mru, got 'x'"):
        gather([tmp_path / "a", tmp_path / "b"], "x")


def test_evaluation_of_a_setting_without_a_default_names_the_sweep():
    config = example_config(("fifo",), (0.0,), 1, settings=[{"name": "p_c"}])
    with pytest.raises(InputError, match="sweep: config: expected the configuration of a sweep"):
        evaluation_of("sweep", config, example_rows(("fifo",), (0.0,), 1, better))
