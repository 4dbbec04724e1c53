"""``weft.train`` and ``weft.make_env``: any recipe into a folder, any stream as an environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weft
from weft.cli import main
from weft.errors import InputError

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


def test_train_one_seed_is_what_the_verb_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found = weft.train("conditional-quick", tmp_path / "a", settings=SMALL, seed=3)
    sets = [word for key, value in SMALL.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    main(["train", "conditional-quick", "--out", str(tmp_path / "b"), "--seed", "3", *sets, "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert list(found.to_dict()) == list(printed)
    assert (found.runs[0].best, found.to_dict()["seed"]) == (printed["best"], 3)
    assert (tmp_path / "a" / "last.json").read_text() == (tmp_path / "b" / "last.json").read_text()
    assert str(found).startswith(f"{tmp_path / 'a'}: 400 samples in ")


def test_train_several_seeds_makes_a_folder_of_runs(tmp_path: Path):
    done: list[str] = []
    found = weft.train(
        "conditional-quick", tmp_path, settings=SMALL, seeds=(1, 2), on_done=lambda one: done.append(one.run)
    )
    assert [one.run for one in found.runs] == done == [str(tmp_path / "seed-1"), str(tmp_path / "seed-2")]
    assert list(found.to_dict()) == ["schema", "weft", "seed", "run", "runs"]


def test_train_refuses_seeds_of_a_one_shot_recipe(tmp_path: Path):
    with pytest.raises(InputError, match="oneshot-jobshop trains one seed at a time"):
        weft.train("oneshot-jobshop", tmp_path, seeds=(1, 2))


def test_make_env_is_the_training_stream_of_a_scenario():
    pytest.importorskip("gymnasium")
    env = weft.make_env("conditional", jobs=10)
    _, info = env.reset(seed=1)
    while "mean_jct" not in info:
        _, _, _, _, info = env.step(env.action_space.sample(info["action_mask"]))
    assert info["mean_jct"] > 0
    assert weft.make_env(weft.scenario("conditional", jobs=10), "vector", 3).num_envs == 3


def test_make_env_refuses_what_is_no_stream_of_one_job():
    pytest.importorskip("gymnasium")
    with pytest.raises(InputError, match="expected a scenario of one repeated job, as conditional is, got w"):
        weft.make_env("workflows")
