"""``weft.train`` and ``weft.make_env``: any recipe into a folder, any stream as an environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weft
from weft.cli import main
from weft.errors import InputError
from weft.training.algorithms import ALGORITHMS, resolved
from weft.training.recipes import read_recipe, recipe_names

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


def test_run_notes_what_its_recipe_is_called(tmp_path: Path):
    recipe = tmp_path / "own.toml"
    recipe.write_text('schema = "weft/training/1"\nextends = "conditional-quick"\nname = "policy"\n')
    for origin, folder in ((str(recipe), "a"), ("conditional-quick", "b")):
        weft.train(origin, tmp_path / folder, settings=SMALL)
        assert json.loads((tmp_path / folder / "config.json").read_text())["origin"] == origin


def test_train_several_seeds_makes_a_folder_of_runs(tmp_path: Path):
    done: list[str] = []
    found = weft.train(
        "conditional-quick", tmp_path, settings=SMALL, seeds=(1, 2), on_done=lambda one: done.append(one.run)
    )
    assert [one.run for one in found.runs] == done == [str(tmp_path / "seed-1"), str(tmp_path / "seed-2")]
    assert list(found.to_dict()) == ["schema", "weft", "seed", "run", "runs"]


def test_train_several_seeds_of_a_planner(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    small = {"updates": 1, "groups": 1, "graphs": 1, "samples": 2, "every": 1, "validation": 1, "width": 20}
    found = weft.train("oneshot-jobshop-quick", tmp_path, settings=small, seeds=(1, 2), threads=1)
    assert [one.samples for one in found.runs] == [2, 2]
    assert "2 schedules in " in str(found) and "above the bound" in capsys.readouterr().err


@pytest.mark.parametrize("recipe", ["conditional-quick", "conditional-many", "oneshot-jobshop-quick"])
def test_dry_run_refuses_the_seeds_a_run_refuses(recipe: str, capsys: pytest.CaptureFixture[str]):
    assert main(["train", recipe, "--dry-run", "--seed", str(2**32)]) == 2
    assert "later ones belong to validation" in capsys.readouterr().err
    assert main(["train", recipe, "--dry-run", "--seeds", f"1,{2**32}"]) == 2


ADDRESS = "ray://127.0.0.1:1"
REFUSED = {
    "device": ("conditional --device foo", "--device: expected cpu or cuda for training by ppo, got 'foo'"),
    "number of a device": ("adas-dqn --device cuda:x", "--device: expected cpu or cuda for training by"),
    "device that no rule needs": ("workflows-es --device cuda", "--device: expected cpu for training by rule-es"),
    "engine": ("adas-dqn --engine dask", "--engine: expected one of local, processes, ray, got 'dask'"),
    "engine of another": ("conditional --engine local", "--engine: training by ppo cannot be spread over"),
    "actors of another": ("conditional --actors 2", "--actors: training by ppo cannot be spread over"),
    "actors alone": ("adas-dqn --actors 2", "--actors: expected an engine too (local, processes or ray)"),
    "actors of a planner": ("oneshot-jobshop-quick --actors 2", "--actors: expected an engine too"),
    "too many actors": ("oneshot-jobshop-quick --engine local --actors 900", "--actors: expected at most groups"),
    "no weights": ("adas-dqn --from nowhere", "--from: expected weights, a run or a policy that ships, got"),
    "weights of another": ("adas-dqn --from conditional-ppo", "expected a net of candidates as the recipe trains"),
    "weights of no rule": ("workflows-es --from conditional-ppo", "conditional-ppo is no vector of weights"),
    "too short": ("adas-dqn --set samples=100", "samples: expected more than warmup = 20000, or nothing is learned"),
    "too many actors to learn": (
        "adas-dqn --engine local --actors 100 --set num_envs=9 --set warmup=500 --set samples=2000",
        "samples: expected at least 3600, for 100 x 9 environments return_steps + 1 = 4 decisions each, or nothing",
    ),
    "no batch": (
        "adas-dqn --set num_envs=9 --set warmup=570 --set samples=576",
        "minibatch: expected at most 48, what is learned from after warmup, or nothing is, got 512",
    ),
    "no deadlines": ("adas-quick --set horizon=1", "none lies within the horizon, got 1"),
    "other base": ("conditional --set jobs=0xf", "--set jobs: expected a decimal number, got '0xf'"),
}  # fmt: skip


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--seeds", "1,2")])
@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals_come_before_anything_is_said_or_written(
    words: str, message: str, more: tuple[str, ...], capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("weft.cli.output.PATIENCE", 0.0)
    assert main(["train", *words.split(), *more]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert not list(tmp_path.iterdir())


def test_no_cuda_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    words = ["train", "conditional-quick", "--device", "cuda", "--out", str(tmp_path / "run")]
    for more in ([], ["--seeds", "1,2", "--workers", "2"]):
        assert main([*words, *more]) == 2
        assert capsys.readouterr().err == "weft: --device: this torch finds no CUDA device: use cpu\n"
    assert not (tmp_path / "run").exists()


def test_ray_that_does_not_answer_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    pytest.importorskip("ray")
    words = ["--engine", "ray", "--address", ADDRESS, "--out", str(tmp_path / "run")]
    assert main(["train", "adas-dqn", *words]) == 2
    assert capsys.readouterr().err == f"weft: --address: no Ray answers at {ADDRESS} within 5 s\n"
    assert not (tmp_path / "run").exists()


def test_dry_run_says_what_would_be_trained(capsys: pytest.CaptureFixture[str]):
    assert main(["train", "oneshot-jobshop", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("a planner, by oneshot: priorities and devices")
    assert main(["train", "conditional-many", "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["algorithm"], document["role"]) == ("graph-ppo", "dispatcher")


def test_every_algorithm_has_recipes_that_read_into_its_config():
    for name, row in ALGORITHMS.items():
        found = [one for one in map(read_recipe, recipe_names()) if one.algorithm == name]
        assert found and all(isinstance(one.config, resolved(row.config)) for one in found)


def test_make_env_is_the_training_stream_of_a_scenario():
    pytest.importorskip("gymnasium")
    env = weft.make_env("conditional", jobs=10)
    _, info = env.reset(seed=1)
    while "mean_jct" not in info:
        _, _, _, _, info = env.step(env.action_space.sample(info["action_mask"]))
    assert info["mean_jct"] > 0
    assert weft.make_env(weft.scenario("conditional", jobs=10), "vector", 3).num_envs == 3


def test_make_env_takes_single_problems_too_but_no_agents_there():
    pytest.importorskip("gymnasium")
    assert weft.make_env("workflows", tasks=8).action_masks().any()
    with pytest.raises(InputError, match="expected single or vector"):
        weft.make_env("workflows", "agents", tasks=8)
