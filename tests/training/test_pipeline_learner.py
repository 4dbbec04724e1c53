"""PPO on pipelines with launches: what the card says of them, and that a policy acts as it was judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import catalog
from weft.cli import main
from weft.errors import InputError
from weft.model.problem import realise
from weft.model.validate import validate
from weft.policies.candidates.pipelines import PipelineDispatcher, miss_shares
from weft.policies.checkpoint import load_policy
from weft.training.recipes import read_recipe

TINY = {
    "samples": 256,
    "num_envs": 2,
    "num_steps": 64,
    "minibatch": 64,
    "streams": 2,
    "horizon": 300.0,
    "configuration": [0, 80],
    "validation.every": 1,
    "validation.seeds": 1,
}


def test_policy_with_depths_says_so_and_acts_as_it_was_judged(tmp_path: Path):
    weft.train("odroid4-fusion", tmp_path / "run", settings=TINY)
    _, card = load_policy(f"{tmp_path / 'run'}@best")
    assert card.training["sight"]["depths"] == [1, 3, 6, 9, 12]  # type: ignore[index]
    assert card.training["recipe"]["candidates"]["depths"] == [1, 3, 6, 9, 12]  # type: ignore[index]
    assert card.features[-3:] == tuple(
        f"candidate: {name}" for name in ("stages in the launch", "share saved", "ends its instance")
    )
    dispatcher = catalog.task_dispatcher(f"{tmp_path / 'run'}@best")
    assert isinstance(dispatcher, PipelineDispatcher) and dispatcher.sight.depths == (1, 3, 6, 9, 12)
    problem = weft.scenario("odroid4", speed=3.0, configuration=0, horizon=300.0).problem("test", 0)
    worlds = [realise(problem, seed) for seed in range(3)]
    found = dispatcher.run_all([problem] * 3, worlds, [0] * 3)
    judged = miss_shares(dispatcher.policy, dispatcher.sight, [problem] * 3, worlds)
    assert np.allclose([[*one.series.misses.values()] for one in found], judged)
    assert all(validate(one) == () and (one.launch >= 0).any() for one in found)


def test_policy_without_depths_is_stored_as_before(tmp_path: Path):
    weft.train("odroid4", tmp_path / "run", settings=TINY)
    _, card = load_policy(f"{tmp_path / 'run'}@best")
    assert "depths" not in card.training["sight"]  # type: ignore[operator]
    assert card.features[-1] == "candidate: time to the next release"


def test_recipe_refuses_wrong_depths_and_overruns_that_abort(tmp_path: Path):
    with pytest.raises(InputError, match=r"candidates.depths: expected ascending whole numbers from 1 on"):
        read_recipe("odroid4-fusion", {"candidates.depths": [2, 4]})
    with pytest.raises(InputError, match="a launch cannot be cut short"):
        weft.train("odroid4-fusion", tmp_path / "run", settings={**TINY, "overrun": "abort"})


def test_policy_refuses_more_pipelines_than_it_has_places_for(capsys: pytest.CaptureFixture[str]):
    words = ["evaluate", "adas-tx2", "-s", "adas-ppo", "--seeds", "1", "--set", "horizon=100"]
    assert main([*words, "--set", "cameras=2"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "candidates.series" in line] == [
        "weft: scheduler: adas-ppo: it was made for at most 5 pipelines (candidates.series), and here are 9"
    ]
    assert "Traceback" not in "".join(said)
    chosen = catalog.task_dispatcher("adas-ppo")
    assert chosen.supports(weft.scenario("adas-tx2", horizon=100.0).problem("test", 0)) is None


def test_recipe_refuses_more_pipelines_than_places():
    with pytest.raises(
        InputError, match=r"candidates\.series: expected at least 9, one for each pipeline, got 5"
    ):
        read_recipe("adas-dqn", {"cameras": 2, "configuration": [0], "streams": 1}).check(0)


def test_recipe_refuses_a_horizon_without_a_deadline_of_every_pipeline():
    wanted = r"settings\.horizon: expected at least 600, the first deadline of loc, got 500"
    with pytest.raises(InputError, match=wanted):
        read_recipe("adas", {"configuration": [0, 80], "streams": 2, "horizon": 500.0}).check(0)


def test_recipe_refuses_more_kinds_of_devices_than_places():
    wanted = r"candidates\.pools: expected at least 3, one for each kind of device, got 2"
    with pytest.raises(InputError, match=wanted):
        read_recipe("adas-dqn", {"candidates.pools": 2, "configuration": [0], "streams": 1}).check(0)


def test_policy_refuses_more_kinds_of_devices_than_it_has_places_for():
    problem = weft.scenario("adas-tx2", horizon=100.0).problem("test", 0)
    policy = catalog.task_dispatcher("adas-ppo")
    assert isinstance(policy, PipelineDispatcher)
    narrow = replace(policy, sight=policy.sight._replace(pools=2))
    assert narrow.supports(problem) == (
        "it was made for at most 2 kinds of devices (candidates.pools), and here are 3"
    )


def test_next_command_has_the_speed_of_the_recipe():
    recipe = read_recipe("odroid4-fusion", {})
    assert recipe.next_command("RUN") == (
        "weft evaluate odroid4 -s RUN,rm-pinned,edf-fastest-idle --set speed=3 --seeds 8"
    )
