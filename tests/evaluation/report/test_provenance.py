"""Commands and versions at the end of a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_examples import example_frame, write_run

from weft.evaluation.report.provenance import evaluate_command, provenance, train_command
from weft.evaluation.report.runs import read_run
from weft.training.recipes import read_recipe


def test_evaluate_command_names_what_was_asked():
    frame = example_frame(lambda name, p, seed: 1.0 + seed, points=(0.0, 1.0), num_seeds=3)
    assert evaluate_command(frame) == (
        "weft evaluate conditional --schedulers fifo,ppo --baseline fifo --problems 1 --seeds 3 --seed 0 "
        "--set 'p_c=[0.0, 1.0]' --set jobs=10 --out sweep"
    )


@pytest.mark.parametrize("changes", [{}, {"samples": 60_000, "p_c": 0.5}])
def test_train_command_names_what_differs_from_the_recipe(tmp_path: Path, changes: dict[str, object]):
    folder = write_run(tmp_path / "run", [{"samples": 1}], "conditional-quick")
    config = json.loads((folder / "config.json").read_text())
    config["recipe"] = json.loads(json.dumps(read_recipe("conditional-quick", changes).to_dict()))
    (folder / "config.json").write_text(json.dumps(config))
    words = "".join(f" --set {key}={json.dumps(value)}" for key, value in sorted(changes.items()))
    assert train_command(read_run(folder)) == f"weft train conditional-quick --seed 1{words} --out {folder}"


def test_provenance_shows_versions_of_every_source(tmp_path: Path):
    frame = example_frame(lambda name, p, seed: 1.0 + seed)
    run = read_run(write_run(tmp_path / "run", [{"samples": 1}]))
    table = provenance([frame], [run], ["weft report sweep"]).blocks[1]
    assert table.headers[1:] == ("this report", "sweep", run.source)  # type: ignore[union-attr]
