"""Several training seeds by one command."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import InputError
from weft.training.__main__ import main
from weft.training.algorithms import Asked
from weft.training.recipes import read_recipe
from weft.training.run.folder import Progress
from weft.training.run.metrics import Row
from weft.training.run.once import Reporter
from weft.training.run.seeds import of_seed, parse_seeds, train_group

SMALL = {
    "samples": 400,
    "num_envs": 4,
    "num_steps": 50,
    "minibatch": 100,
    "jobs": 20,
    "hidden": [8],
    "validation.seeds": 1,
    "validation.jobs": 30,
}


@pytest.mark.parametrize(("text", "seeds"), [("3", (3,)), ("1,2,2,5", (1, 2, 5)), ("1:4", (1, 2, 3))])
def test_seeds_are_read(text: str, seeds: tuple[int, ...]):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "one", "1,-2", "4:1", "1:2:3", "4294967296"])
def test_wrong_seeds_are_refused(text: str):
    with pytest.raises(InputError, match="seeds: expected whole numbers as in 1,2,3 or 1:4"):
        parse_seeds(text)


def test_group_trains_every_seed_into_its_folder(tmp_path: Path):
    found = train_group(read_recipe("conditional-quick", SMALL), tmp_path, (1, 2))
    assert [Path(one.run).name for one in found] == ["seed-1", "seed-2"]
    first, second = ((tmp_path / name / "last.json").read_text() for name in ("seed-1", "seed-2"))
    assert first != second


def test_group_leaves_finished_runs_as_they_are(tmp_path: Path):
    recipe = read_recipe("conditional-quick", SMALL)
    train_group(recipe, tmp_path, (1,))
    before = (tmp_path / "seed-1" / "metrics.jsonl").read_bytes()
    train_group(recipe, tmp_path, (1, 2))
    assert (tmp_path / "seed-1" / "metrics.jsonl").read_bytes() == before


def test_group_continues_the_runs_of_another_seed_by_seed(tmp_path: Path):
    for seed in (1, 2):
        (tmp_path / f"seed-{seed}").mkdir()
    group = Asked(start=str(tmp_path))
    assert [of_seed(group, seed) for seed in (1, 2)] == [
        Asked(seed, start=f"{tmp_path / f'seed-{seed}'}@best") for seed in (1, 2)
    ]
    assert of_seed(Asked(start="ppo"), 3) == Asked(3, start="ppo")
    assert of_seed(Asked(), 3) == Asked(3)


def test_group_says_which_run_of_another_is_missing(tmp_path: Path):
    recipe = read_recipe("conditional-quick", SMALL)
    train_group(recipe, tmp_path / "one", (1,))
    with pytest.raises(InputError, match="seed-2"):
        train_group(recipe, tmp_path / "two", (1, 2), Asked(start=str(tmp_path / "one")))
    assert not (tmp_path / "two").exists()


def test_group_is_the_same_in_processes(tmp_path: Path):
    recipe = read_recipe("conditional-quick", SMALL)
    train_group(recipe, tmp_path / "one", (1, 2))
    train_group(recipe, tmp_path / "two", (1, 2), Asked(workers=2))
    for seed in ("seed-1", "seed-2"):
        assert (tmp_path / "one" / seed / "last.json").read_text() == (
            tmp_path / "two" / seed / "last.json"
        ).read_text()


def test_module_trains_without_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    changes = [f"--set={key}={value}" for key, value in SMALL.items() if key != "hidden"]
    assert main(["conditional-quick", "--out", str(tmp_path), "--seeds", "7", *changes]) == 0
    assert (tmp_path / "seed-7" / "best.json").exists()
    assert "400 samples" in capsys.readouterr().out


def test_module_says_what_is_wrong(capsys: pytest.CaptureFixture[str]):
    assert main(["conditinal"]) == 2
    assert "did you mean 'conditional'" in capsys.readouterr().err


def test_progress_does_not_pass_the_end(capsys: pytest.CaptureFixture[str]):
    say = Reporter(read_recipe("conditional-quick"), every=0.0)
    say(Progress(2, 2, 450, 400, 1.0, 1.0, None, {"mean_reward": 0.5}))
    assert "400 of 400 samples" in capsys.readouterr().err


def test_every_validation_is_said(capsys: pytest.CaptureFixture[str]):
    """The figures of ``weft curves`` are those that were seen."""
    said = Reporter(read_recipe("tasks-quick"))
    for update in range(1, 9):
        row: Row = (
            {"mean_reward": -0.1, "envelope_percent": float(update)}
            if update % 3 == 0
            else {"mean_reward": -0.1}
        )
        said(Progress(update, 9, update, 9, 1.0, 1.0, 1.0, row))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("validation: ")[1].split(" %")[0] for line in lines if "validation" in line] == [
        "+3.0",
        "+6.0",
    ]
