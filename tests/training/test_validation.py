"""Judging a policy during training, and drawing probabilities where it trails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft import catalog
from weft.errors import InputError
from weft.io.runs import read_metrics
from weft.policies.checkpoint import load_policy
from weft.sim.queues.environment import QueueEnv
from weft.sim.queues.rules import choose_all
from weft.training.algorithms import Asked
from weft.training.ppo.validation import LEVELS, trailing_law
from weft.training.recipes import Recipe, read_recipe
from weft.training.run.folder import Progress
from weft.training.run.once import train_once

ENVELOPE = ("heavy-last-1", "heavy-last-3", "heavy-last-5")
POINTS = np.array([0.0, 0.2, 0.5, 0.8, 1.0])
SMALL = {
    "samples": 1200,
    "num_envs": 10,
    "num_steps": 20,
    "minibatch": 100,
    "jobs": 30,
    "hidden": [8],
    "validation.every": 2,
    "validation.seeds": 2,
    "validation.jobs": 60,
}


def small(**changes: object) -> Recipe:
    return read_recipe("conditional-quick", {**SMALL, **changes})


def density(law: np.ndarray) -> np.ndarray:
    return 1.0 / np.diff(law)


def test_trailing_law_is_uniform_where_nothing_trails():
    assert np.allclose(trailing_law(POINTS, np.full(5, 0.97)), np.linspace(0.0, 1.0, LEVELS + 1))


def test_trailing_law_is_denser_where_the_policy_trails():
    law = trailing_law(POINTS, np.array([0.93, 0.95, 0.98, 0.99, 1.01]))
    assert law[0] == 0.0 and law[-1] == 1.0
    assert (np.diff(law) > 0).all()
    assert density(law)[-1] > 2.0 * density(law)[0]


def test_trailing_law_keeps_half_of_the_mass_uniform():
    law = trailing_law(POINTS, np.array([0.5, 1.0, 1.0, 1.0, 1.5]))
    assert (density(law) / LEVELS).min() > 0.499


def test_environment_draws_from_the_law_it_is_given():
    env = QueueEnv(small().setup(), 400, 1)
    env.draw_from(np.array([0.8, 0.9, 0.9, 1.0]))
    env.reset(2)
    drawn = env.state.probability[:, 3]
    assert drawn.min() >= 0.8
    assert (drawn == 0.9).mean() == pytest.approx(1 / 3, abs=0.08)


def test_judge_knows_the_rules_and_the_shipped_policy():
    recipe = read_recipe("conditional-fine", {"validation.seeds": 2, "validation.jobs": 800})
    judge = recipe.judge(recipe.setup())
    row = judge.figures(judge.job_times(*load_policy(str(catalog.policy_file("ppo")))))
    assert sorted(judge.rules) == sorted(("fifo", "mru", "depth-first", *ENVELOPE))
    assert row["baselines_percent"] < -10.0
    assert row["envelope_percent_0"] < -3.0
    assert row["jct_0"] > row["jct_1"]


def test_judge_of_a_fixed_probability_has_one_point():
    recipe = small(p_c=0.9)
    assert recipe.judge(recipe.setup()).points == (0.9,)


def test_judge_repeats_itself():
    recipe = small()
    judge = recipe.judge(recipe.setup())
    policy = train_small(recipe)
    assert judge.job_times(*policy).tolist() == judge.job_times(*policy).tolist()


def train_small(recipe: Recipe) -> tuple[dict[str, np.ndarray], object]:
    from weft.training.ppo.learner import PPO

    return PPO(QueueEnv(recipe.setup(), 10), recipe.config).policy()


def test_imitated_rule_is_the_best_one_at_each_probability():
    recipe = small(**{"validation.jobs": 600})
    env = QueueEnv(recipe.setup(), 10, 3)
    judge = recipe.judge(env.setup)
    env.state.probability[:] = judge.probability[4]
    best = min(ENVELOPE, key=lambda name: judge.rules[name][4])
    wanted = np.zeros((10, 4), np.int64)
    rule = catalog.dispatcher(best).rule(env.setup.problem, env.stream, np.arange(10))
    choose_all(rule, env.stream, env.state, wanted)
    assert judge.rule_to_imitate(10)(env).tolist() == wanted.tolist()


def test_training_writes_judgements_and_chooses_the_best_by_them(tmp_path: Path):
    outcome = train_once(small(), tmp_path)
    judged = [row for row in read_metrics(tmp_path) if "envelope_percent" in row]
    assert [row["update"] for row in judged] == [2, 4, 6]
    best = min(judged, key=lambda row: row["envelope_percent"])
    assert outcome.best == -best["envelope_percent"]
    assert load_policy(f"{tmp_path}@best")[1].training["samples"] == best["samples"]


def test_rules_to_compare_with_are_those_of_the_recipe_or_else_of_its_scenario():
    none: dict[str, object] = {"validation.baselines": [], "validation.envelope": []}
    recipe = small(**{**none, "validation.envelope": ["fifo"]})
    judge = recipe.judge(recipe.setup())
    assert list(judge.rules) == ["fifo"]
    assert judge.score(2.0 * judge.rules["fifo"]) == pytest.approx(-100.0)
    assert recipe.to_dict()["validation"]["envelope"] == ("fifo",)
    assert small(**none).compared["baselines"][:2] == ("fifo", "mru")


class Stop(Exception):
    pass


def stop_at_5(progress: Progress) -> None:
    if progress.update == 5:
        raise Stop


@pytest.mark.parametrize("changes", [{"p_c": "trailing"}, {"imitation_updates": 3}])
def test_interrupted_training_ends_as_one_left_alone(tmp_path: Path, changes: dict[str, object]):
    train_once(small(**changes), tmp_path / "straight", Asked(4))
    with pytest.raises(Stop):
        train_once(small(**changes), tmp_path / "broken", Asked(4), on_progress=stop_at_5)
    train_once(small(**changes), tmp_path / "broken", Asked(4), is_resumed=True)
    assert content(tmp_path / "broken") == content(tmp_path / "straight")


def content(folder: Path) -> list[object]:
    states = [path.read_bytes() for path in sorted(folder.glob("checkpoints/*.safetensors"))]
    rows = read_metrics(folder)
    timeless = [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]
    return [(folder / "best.json").read_text(), *states, timeless]


def test_trailing_draw_changes_the_law(tmp_path: Path):
    train_once(small(p_c="trailing"), tmp_path / "trailing", Asked(4))
    train_once(small(), tmp_path / "uniform", Asked(4))
    assert content(tmp_path / "trailing")[1:] != content(tmp_path / "uniform")[1:]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"validation.every": 0}, "validation.every: expected a whole number >= 1, got 0"),
        (
            {"validation.values": [0.5, 0.2]},
            "validation.values: expected rising numbers from 0 to 1, got [0.5, 0.2]",
        ),
        (
            {"validation.often": 1},
            "validation.often: unknown; expected one of every, seeds, jobs, values, baselines, envelope",
        ),
        (
            {"validation.envelope": ["fifo", 3]},
            "validation.envelope: expected a list of texts, got ['fifo', 3]",
        ),
    ],
)
def test_bad_validation_is_refused(changes: dict[str, object], message: str):
    with pytest.raises(InputError) as error:
        small(**changes)
    assert str(error.value) == message
