"""PPO whose decisions are made by actors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weft
from weft.errors import InputError
from weft.policies.checkpoint import load_policy
from weft.training.recipes import read_recipe

TINY = {
    "streams": 4,
    "jobs": 3,
    "tasks": 8,
    "candidates.tasks": 4,
    "num_envs": 4,
    "num_steps": 32,
    "samples": 384,
    "imitation_updates": 1,
    "minibatch": 64,
    "validation.seeds": 2,
    "validation.every": 2,
}


def weights_of(folder: Path) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in load_policy(f"{folder}@last")[0].items()}


def test_one_actor_in_this_process_learns_what_one_process_learns(tmp_path: Path):
    weft.train("tasks-quick", tmp_path / "alone", settings=TINY)
    weft.train("tasks-quick", tmp_path / "spread", settings=TINY, engine="local", actors=1)
    assert weights_of(tmp_path / "alone") == weights_of(tmp_path / "spread")


@pytest.mark.parametrize("actors", [2, 3])
def test_several_actors_give_the_same_twice_and_after_a_break(actors: int, tmp_path: Path):
    class Stop(Exception):
        """Interrupts a run."""

    def stop(progress: object) -> None:
        if progress.update == 2:
            raise Stop

    where = {"settings": TINY, "engine": "local", "actors": actors}
    weft.train("tasks-quick", tmp_path / "whole", **where)
    with pytest.raises(Stop):
        weft.train("tasks-quick", tmp_path / "cut", **where, on_progress=stop)
    weft.train("tasks-quick", tmp_path / "cut", **where, resume=True)
    assert weights_of(tmp_path / "whole") == weights_of(tmp_path / "cut")


def test_actors_take_environments_unevenly(tmp_path: Path):
    settings = {**TINY, "num_envs": 5, "samples": 320}
    weft.train("tasks-quick", tmp_path / "run", settings=settings, engine="local", actors=3)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["samples"] == 480  # an update that imitates, two that do not


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distributed.actors": 5}, "distributed.actors: expected at most num_envs = 4, got 5"),
        (
            {"distributed.mode": "async"},
            "distributed.mode: expected 'apex': PPO has one learner; got 'async'",
        ),
        ({"distributed.shards": 4}, "distributed.shards: expected 1: PPO has no use for another, got 4"),
    ],
)
def test_ppo_refuses_when_the_recipe_is_read(change: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        read_recipe("tasks-quick", {**TINY, **change, "distributed.engine": "local"})
