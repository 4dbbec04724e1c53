"""Commands and versions at the end of a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_examples import example_config, example_frame, example_row, example_rows, write_run

from weft.evaluation.report.provenance import evaluate_command, provenance, train_command
from weft.evaluation.report.runs import TrainingRun, read_run
from weft.evaluation.sweep.answers import evaluation_of
from weft.reporting import _recipe_of as recipe_of
from weft.training.recipes import read_recipe


def changed_run(
    folder: Path, recipe: str, changes: dict[str, object], start: str | None = None
) -> TrainingRun:
    """A run of a built-in recipe with these values changed."""
    write_run(folder, [{"samples": 1}], recipe)
    config = json.loads((folder / "config.json").read_text())
    config["recipe"] = read_recipe(recipe, changes).to_dict() | {"from": start}
    (folder / "config.json").write_text(json.dumps(config))
    return read_run(folder, lambda name: read_recipe(name).to_dict())


def test_evaluate_command_names_what_was_asked():
    frame = example_frame(lambda name, p, seed: 1.0 + seed, points=(0.0, 1.0), num_seeds=3)
    assert evaluate_command(frame) == (
        "weft evaluate conditional --schedulers fifo,ppo --baseline fifo --problems 1 --seeds 3 --seed 0 "
        "--set 'p_c=[0.0, 1.0]' --set jobs=10 --out sweep"
    )


def test_evaluate_command_of_an_unfinished_sweep_names_every_cell():
    config = example_config(("fifo", "ppo"), (0.0, 1.0), 2)
    frame = evaluation_of(
        "sweep", config, example_rows(("fifo", "ppo"), (0.0,), 2, lambda name, p, seed: 1.0)
    )
    assert "--set 'p_c=[0.0, 1.0]'" in evaluate_command(frame)


def test_evaluate_command_of_files_names_all_of_them_and_the_cluster():
    config = example_config(("heft",), (0.0,), 1, generator="files", name="files", cluster="c.toml")
    config |= {"inputs": {"b.json": "", "a.json": "", "c.toml": ""}, "problems": 2}
    rows = [example_row("p_c=0", 0, "heft", 1.0, problem="b.json")]
    words = (
        "weft evaluate b.json a.json --schedulers heft --baseline heft --seeds 1 --seed 0 --cluster c.toml"
    )
    assert evaluate_command(evaluation_of("sweep", config, rows)).startswith(words)


def test_evaluate_command_of_an_own_recipe_names_a_file():
    frame = example_frame(lambda name, p, seed: 1.0 + seed, name="mine")
    assert evaluate_command(frame).startswith("weft evaluate mine.toml ")


def test_evaluate_command_sets_what_is_swept_in_the_order_of_the_labels():
    config = example_config(("fifo",), (0.0,), 1)
    config["cells"] = {
        f"jobs={jobs},p_c={p:g}": {"p_c": p, "jobs": jobs} for jobs in (5, 9) for p in (0.0, 1.0)
    }
    frame = evaluation_of("sweep", config, [example_row("jobs=5,p_c=0", 0, "fifo", 1.0)])
    assert "--set 'jobs=[5, 9]' --set 'p_c=[0.0, 1.0]'" in evaluate_command(frame)


@pytest.mark.parametrize(
    ("recipe", "changes", "words"),
    [
        ("conditional-quick", {}, ""),
        ("conditional-quick", {"p_c": 0.5, "samples": 60_000}, " --set p_c=0.5 --set samples=60000"),
        (
            "conditional-pi-4",
            {"critic": "shared", "hidden": [8]},
            " --set 'hidden=[8]' --set 'critic=\"shared\"'",
        ),
        ("conditional", {"gradient_clip": "none"}, " --set gradient_clip=none"),
        ("conditional-pi-4", {"validation.every": 2}, " --set validation.every=2"),
        ("conditional-pi-0", {"p_c": "uniform"}, " --set 'p_c=\"uniform\"'"),
    ],
)
def test_train_command_names_what_differs_from_the_recipe(
    tmp_path: Path, recipe: str, changes: dict[str, object], words: str
):
    run = changed_run(tmp_path / "run", recipe, changes)
    assert train_command(run) == f"weft train {recipe} --seed 1{words} --out {run.source}"
    assert run.is_changed == bool(changes)


@pytest.mark.parametrize(("p_c", "words"), [("uniform", ""), (0.9, " --set p_c=0.9")])
def test_run_of_an_older_version_is_compared_with_its_recipe(tmp_path: Path, p_c: object, words: str):
    write_run(tmp_path / "run", [{"samples": 1}], "conditional-pi-4")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    old = {**read_recipe("conditional-pi-4").to_dict(), "p_c": p_c, "validation": {"every": 3, "p_c": [0, 1]}}
    config["recipe"] = {key: value for key, value in old.items() if key != "vary"}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    run = read_run(tmp_path / "run", lambda name: read_recipe(name).to_dict())
    assert train_command(run) == f"weft train conditional-pi-4 --seed 1{words} --out {run.source}"
    assert run.is_changed == bool(words)


def test_train_command_of_a_recipe_of_ones_own_names_a_file(tmp_path: Path):
    write_run(tmp_path / "run", [{"samples": 1}], "mine")
    run = read_run(tmp_path / "run")
    assert train_command(run).startswith("weft train mine.toml --seed ")


def test_train_command_names_the_file_of_the_recipe(tmp_path: Path):
    """``weft train policy`` is no command that works."""
    recipe = tmp_path / "own.toml"
    recipe.write_text('schema = "weft/training/1"\nextends = "conditional-quick"\nname = "policy"\n')
    write_run(tmp_path / "run", [{"samples": 1}], "policy")
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    config = {**stored, "recipe": read_recipe(recipe, {"samples": 7}).to_dict(), "origin": str(recipe)}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    run = read_run(tmp_path / "run", recipe_of)
    assert train_command(run) == f"weft train {recipe} --seed 1 --set samples=7 --out {run.source}"
    recipe.unlink()
    run = read_run(tmp_path / "run", recipe_of)
    assert train_command(run) == f"weft train {recipe} --seed 1 --out {run.source}"


def test_train_command_names_the_weights_it_began_with(tmp_path: Path):
    run = changed_run(tmp_path / "run", "conditional-quick", {}, start="runs/other@best")
    assert " --from runs/other@best " in train_command(run)
    assert run.is_changed


def test_provenance_shows_versions_of_every_source(tmp_path: Path):
    frame = example_frame(lambda name, p, seed: 1.0 + seed)
    run = read_run(write_run(tmp_path / "run", [{"samples": 1}]))
    table = provenance([frame], [run], ["weft report sweep"]).blocks[1]
    assert table.headers[1:] == ("this report", "sweep", run.source)  # type: ignore[union-attr]
