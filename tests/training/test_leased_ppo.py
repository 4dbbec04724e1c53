"""PPO on configurations that a scheduler lends: orders, what is held out, several actors, breaks."""

from __future__ import annotations

import json
import weakref
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.errors import InputError
from weft.policies.checkpoint import load_policy
from weft.training.candidates.judges import judge_of
from weft.training.candidates.recipe import TaskRecipe
from weft.training.candidates.setup import env_from
from weft.training.distributed.local import LocalTransport
from weft.training.distributed.points import held_out
from weft.training.distributed.rollouts import SpreadPPO
from weft.training.distributed.run import grid_of, maker_of, scheduler_of
from weft.training.recipes import read_recipe

TINY = {
    "configuration": [0, 1, 27, 80],
    "horizon": 650,
    "streams": 4,
    "num_envs": 4,
    "num_steps": 192,
    "samples": 2304,
    "minibatch": 128,
    "validation.seeds": 1,
    "validation.every": 1,
    "distributed.engine": "local",
    "curriculum.order": "uniform",
    "curriculum.episodes": 1,
}


def recipe_of(**changes: object) -> TaskRecipe:
    return read_recipe("adas", {**TINY, **changes})  # type: ignore[return-value]


def learner_of(recipe: TaskRecipe, dies: dict[str, list[int]] | None = None) -> SpreadPPO:
    maker = maker_of(recipe, is_leased=True)
    return SpreadPPO(
        LocalTransport(dies=dies),
        maker,
        env_from(maker.setup, recipe.config.num_envs, 1),
        recipe.config,
        recipe.distributed,
        seed=1,
        scheduler=scheduler_of(recipe, grid_of(recipe, maker), 1),
    )


def trained(learner: SpreadPPO) -> SpreadPPO:
    try:
        while learner.update < learner.num_updates:
            learner.step()
    finally:
        learner.close()
    return learner


def weights_of(folder: Path) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in load_policy(f"{folder}@last")[0].items()}


@pytest.mark.parametrize("order", ["lexicographic", "uniform", "gray", "easy", "regret"])
def test_orders_reach_the_environments_of_ppo(order: str):
    learner = trained(learner_of(recipe_of(**{"curriculum.order": order, "samples": 4608})))
    lends = learner.scheduler
    assert lends is not None and lends.episodes.sum() > 8
    assert learner.samples - 4 * 400 < lends.decisions.sum() <= learner.samples  # the rest is not over


def test_what_is_held_out_is_never_played_by_ppo():
    recipe = recipe_of(**{"curriculum.held_out": 0.5, "samples": 4608})
    lends = trained(learner_of(recipe)).scheduler
    back = held_out(4, 0.5)
    assert (lends.episodes[back] == 0).all() and (lends.episodes[~back] > 0).all()


def test_lexicographic_order_plays_one_configuration_after_another():
    recipe = recipe_of(**{"curriculum.order": "lexicographic", "curriculum.episodes": 4})
    learner = learner_of(recipe)
    learner.step()
    learner.step()
    learner.close()
    assert (learner.scheduler.episodes[2:] == 0).all() and learner.scheduler.episodes[0] > 0


@pytest.mark.parametrize("actors", [1, 3])
def test_leased_ppo_gives_the_same_twice_and_after_a_break(actors: int, tmp_path: Path):
    class Stop(Exception):
        """Interrupts a run."""

    def stop(progress: object) -> None:
        if progress.update == 2:
            raise Stop

    where = {"settings": {**TINY, "curriculum.order": "regret", "distributed.actors": actors}}
    weft.train("adas", tmp_path / "whole", **where)
    with pytest.raises(Stop):
        weft.train("adas", tmp_path / "cut", **where, on_progress=stop)
    weft.train("adas", tmp_path / "cut", **where, resume=True)
    assert weights_of(tmp_path / "whole") == weights_of(tmp_path / "cut")


def test_leases_of_a_lost_actor_are_lent_again():
    recipe = recipe_of(**{"distributed.actors": 2})
    learner = trained(learner_of(recipe, dies={"actor-1": [1]}))
    assert learner.crew.restarts == 1
    assert learner.samples == recipe.config.num_updates * recipe.config.batch


def test_held_out_configurations_choose_no_policy(tmp_path: Path):
    recipe = recipe_of(**{"curriculum.held_out": 0.5})
    judge, back = judge_of(recipe), held_out(4, 0.5)
    times = np.where(back[:, None], 0.9, 0.1) * np.ones((4, 5))
    assert judge.score(times) == pytest.approx(-10.0)
    figures = judge.figures(times)
    assert figures["validated_macro"] == pytest.approx(0.1)
    assert figures["validated_held_out_macro"] == pytest.approx(0.9)


def test_progress_says_how_many_configurations_were_seen(tmp_path: Path):
    weft.train("adas", tmp_path / "run", settings=TINY)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["configurations"] == 4 and rows[-1]["configurations_seen"] > 1


@pytest.mark.parametrize(
    ("key", "value"),
    [("exploration", "visits"), ("epsilon", 0.5), ("epsilon_end", 0.1), ("score", "error")],
)
def test_ppo_refuses_what_it_would_not_explore_by(key: str, value: object):
    order = {"curriculum.order": "regret", f"curriculum.{key}": value}
    with pytest.raises(
        InputError, match=f"curriculum.{key}: expected .*: PPO draws its choices and needs none"
    ):
        recipe_of(**order)


def test_environments_of_a_closed_learner_are_gone():
    learner = learner_of(recipe_of())
    learner.step()
    made = weakref.ref(learner.crew.transport._roles["actor-0"].env)  # noqa: SLF001
    assert made() is not None
    learner.close()
    assert made() is None
