"""Training one policy on many problems: rules, learning, resuming, files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weft import catalog
from weft.errors import InputError
from weft.evaluation.sweep.queue_runs import chooser, run_policy, run_rule
from weft.policies.checkpoint import load_policy
from weft.policies.graph.forward import policy_of
from weft.scenarios.splits import split_of
from weft.sim.queues.environment import QueueEnv
from weft.sim.queues.mixed_environment import ManyEnv
from weft.sim.queues.rules import choose_all
from weft.training.algorithms import Asked
from weft.training.ppo.graph_learner import TRIALS, BestRules, GraphPPO, graph_card, graph_learner, judge
from weft.training.ppo.mixed_validation import SEEDS, ManyJudge
from weft.training.recipes import read_recipe
from weft.training.run.once import train_once

TINY = {
    "problems": 2,
    "num_envs": 16,
    "num_steps": 32,
    "minibatch": 256,
    "samples": 1024,
    "imitation_updates": 4,
    "imitation_rate": 3e-3,
    "hidden": [16, 16],
    "jobs": 40,
    "rules": ["srw", "eft"],
}


def test_rule_is_the_best_on_its_problem():
    recipe = read_recipe("conditional-many", TINY)
    setup = recipe.problem_setup(0)
    names = ("random", "srw", "eft", "heavy-last-1")
    means = [judge(setup, [name], 0).mean_jct for name in names]
    found = judge(setup, names, 0)
    assert found.mean_jct == min(means)
    assert found.rule.name == names[int(np.argmin(means))]


def test_card_says_the_loads_of_its_problems():
    drawn, fixed = (
        graph_card(read_recipe("conditional-many", {**TINY, **more})) for more in ({}, {"load": 0.6})
    )
    assert drawn.training["loads"] == [0.2, 0.95]
    assert fixed.training["loads"] == [0.6, 0.6]


def test_imitated_choices_are_allowed_and_take_no_more_than_there_is():
    recipe = read_recipe("conditional-many", {**TINY, "rules": ["heavy-last-3", "batch-fifo"]})
    learner = graph_learner(recipe, 0, "cpu", None, 1, lambda line: None)
    env, rule = learner.env, BestRules([judge(recipe.problem_setup(i), recipe.rules, 0) for i in range(2)])
    for _ in range(60):
        actions = rule(env)
        assert np.take_along_axis(env.mask, actions[..., None], 2).all()
        for rows, each in env.parts():
            left = each.state.queued.copy()
            for p, batch in enumerate(each.stream.batch):
                chosen = actions[rows, p]
                for b in np.flatnonzero(chosen < env.num_choices - 1):
                    assert left[b, chosen[b]] > 0
                    left[b, chosen[b]] -= batch
        env.step(actions)


def test_training_beats_random():
    recipe = read_recipe("conditional-many", {**TINY, "imitation_updates": 14, "jobs": 100})
    judged = [judge(recipe.problem_setup(i), recipe.rules, 0) for i in (2, 4)]
    env = ManyEnv([one.setup for one in judged], 8, reference=np.array([one.mean_jct for one in judged]))
    learner = GraphPPO(env, recipe.config, rule=BestRules(judged), card=graph_card(recipe))
    while learner.update < learner.num_updates:
        learner.step()
    policy, setup = policy_of(*learner.policy()), replace(judged[0].setup, sight=recipe.sight)
    trained = run_policy(policy, setup, [1, 2]).mean_jct.mean()
    assert trained < run_rule(catalog.dispatcher("random"), setup, [1, 2]).mean_jct.mean()


def test_resumed_run_equals_one_left_alone_and_its_policy_acts_on_any_problem(tmp_path: Path):
    recipe = read_recipe("conditional-many", {**TINY, "imitation_updates": 1})

    class Stop(Exception):
        pass

    def stop(progress: object) -> None:
        raise Stop

    train_once(recipe, tmp_path / "whole")
    with pytest.raises(Stop):
        train_once(recipe, tmp_path / "parts", on_progress=stop)
    train_once(recipe, tmp_path / "parts", Asked(threads=2), is_resumed=True)
    whole, parts = (load_policy(f"{tmp_path / name}@last")[1].sha256 for name in ("whole", "parts"))
    assert whole == parts
    weights, card = load_policy(f"{tmp_path / 'parts'}@last")
    assert len(card.ranges) == len(card.features) == card.architecture.num_features
    assert sum(array.nbytes for array in weights.values()) < 1_000_000
    assert chooser(f"{tmp_path / 'parts'}@last").shape is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rules": []}, "rules: expected at least one dispatcher to compare with"),
        ({"problems": -1}, "problems: expected a whole number >= 1, got -1"),
        ({"graph": False}, "sight.graph: expected graph = true: many problems need a graph net"),
    ],
)
def test_bad_recipe_is_refused(changes: dict[str, object], message: str):
    with pytest.raises(InputError) as error:
        read_recipe("conditional-many", changes)
    assert str(error.value) == message


def test_environments_that_do_not_divide_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="num_envs: expected a multiple of 2 problems, got 15"):
        train_once(read_recipe("conditional-many", {**TINY, "num_envs": 15}), tmp_path / "run")


def test_layers_of_different_widths_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="hidden: expected equal widths for a graph net"):
        train_once(read_recipe("conditional-many", {**TINY, "hidden": [16, 8]}), tmp_path / "run")


def test_validation_plays_policies_on_the_streams_of_the_rules():
    """Once the streams were others than those of the rules, and keys of training seed 0."""
    recipe = read_recipe("conditional-many", {**TINY, "rules": ["heavy-last-1"]})
    judged, setup = ManyJudge(recipe), recipe.problem_setup(0, "validation", jobs=40)
    env = QueueEnv(setup, TRIALS, staggered=False)
    env.reset(SEEDS)
    rule = catalog.dispatcher("heavy-last-1").rule(setup.problem, env.stream, SEEDS)
    ended = np.full(TRIALS, np.nan)
    while np.isnan(ended).any():
        actions = np.zeros((TRIALS, len(env.stream.batch)), np.int64)
        choose_all(rule, env.stream, env.state, actions)
        env.step(actions)
        ended = np.where(np.isnan(ended), env.ended, ended)
    assert judged.reference[0] == pytest.approx(ended.mean())
    assert {split_of(seed)[0] for seed in SEEDS.tolist()} == {"validation"}
