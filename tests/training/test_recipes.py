"""Training recipes: built in, changed, and a user's own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from weft import catalog
from weft.catalog import chooser
from weft.errors import InputError
from weft.evaluation.sweep.queue_runs import run_policy, run_rule
from weft.policies.checkpoint import load_policy
from weft.policies.mlp.forward import MlpPolicy
from weft.scenarios import scenario
from weft.sim.queues.environment import QueueEnv, setup_of
from weft.training.algorithms import Asked
from weft.training.ppo.run import card_of
from weft.training.recipes import Recipe, read_recipe, recipe_names, recipe_text
from weft.training.run.once import train_once


@pytest.mark.parametrize("name", [n for n in recipe_names() if isinstance(read_recipe(n), Recipe)])
def test_recipe_makes_an_environment(name: str) -> None:
    recipe = read_recipe(name)
    env = QueueEnv(recipe.setup(), 2, 1)
    assert len(card_of(recipe, env).features) == env.num_features


def test_paper_recipe_sees_what_the_paper_does() -> None:
    assert QueueEnv(read_recipe("conditional-paper").setup(), 2, 1).num_features == 31


@pytest.mark.parametrize(("number", "p_c"), [(0, 0.1), (1, 0.5), (2, 0.9), (3, "uniform"), (4, "uniform")])
def test_policies_of_the_study_differ_in_probability_and_estimate(number: int, p_c: object) -> None:
    recipe, paper = read_recipe(f"conditional-pi-{number}"), read_recipe("conditional-paper")
    drawn = "uniform" if recipe.drawn else recipe.points[0]
    assert (drawn, recipe.sight.estimates) == (p_c, number == 4)
    others = {key: value for key, value in recipe.settings.items() if key != "p_c"}
    assert (recipe.config, recipe.reward, others) == (paper.config, paper.reward, paper.settings)


def test_num_tf_is_the_number_of_ages_per_queue() -> None:
    assert QueueEnv(read_recipe("conditional-paper", {"num_tf": 5}).setup(), 2, 1).num_features == 43


def test_changes_reach_learner_scenario_and_sight() -> None:
    changes = {"samples": 1000, "jobs": 50, "devices": False, "p_c": 0.3, "reward": "queued"}
    recipe = read_recipe("conditional-quick", changes)
    assert (recipe.config.samples, recipe.settings["jobs"], recipe.points) == (1000, 50, (0.3,))
    assert not recipe.sight.devices
    assert recipe.setup().reward == "queued"


def test_drift_and_forgetting_reach_the_environment_and_the_card() -> None:
    recipe = read_recipe(
        "conditional-quick", {"drift": "walk", "drift_steps": 5, "forget": 0.98, "narrows": True}
    )
    env = QueueEnv(recipe.setup(), 2, 1)
    assert env.state.drift_value.shape == (2, 6)
    assert env.stream.forget == 0.98
    training = card_of(recipe, env).training
    assert isinstance(training["sight"], dict)
    assert (training["sight"]["forget"], training["narrows"]) == (0.98, True)


def test_card_names_the_feature_version_of_the_observation() -> None:
    recipe = read_recipe("conditional-quick")
    assert card_of(recipe, QueueEnv(recipe.setup(), 2, 1)).feature_version == "queue/1"


@pytest.mark.parametrize(
    ("recipe", "key", "meant"),
    [
        ("tasks-quick", "sample", "samples"),
        ("tasks-quick", "lod", "load"),
        ("tasks-quick", "candidate.tasks", "candidates.tasks"),
        ("edge-quick", "hiden", "hidden"),
        ("conditional", "p_d", "p_c"),
        ("examples/policy.toml", "job", "jobs"),
    ],
)
def test_change_of_what_is_not_there_is_told_what_was_meant(recipe: str, key: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"no parameter or setting '{key}'; did you mean '{meant}'"):
        read_recipe(recipe, {key: 3})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"reward": "money"},
            "reward: expected one of queued, in-system, last-jct, waiting, mean-wait, got 'money'",
        ),
        ({"vary.law": "often"}, "vary.law: expected uniform or trailing, got 'often'"),
        ({"vary.range": [0.5, 0.5]}, "vary.range: expected two rising numbers from 0 to 1, got [0.5, 0.5]"),
        ({"waits": "often"}, "waits: expected true or false, got 'often'"),
        ({"samples": -1}, "samples: expected a whole number from 1 to 1,000,000,000,000, got -1"),
        ({"oldest": "three"}, "sight.oldest: expected a whole number from 0 to 64, got 'three'"),
    ],
)
def test_bad_change_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_recipe("conditional", changes)
    assert str(error.value) == message


def test_setting_that_was_fixed_is_drawn_again_when_somebody_names_a_law() -> None:
    recipe = read_recipe("conditional-pi-0", {"p_c": "trailing"})
    assert recipe.drawn is not None and recipe.drawn.law == "trailing"
    assert "p_c" not in recipe.settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"p_c": 1.5}, "settings.p_c: expected a number >= 0 and <= 1, got 1.5"),
        (
            {"vary.setting": "gap"},
            "vary.setting: expected a setting that is the probability of a branch, got 'gap'",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_recipe("conditional", {"vary.range": [0.1, 0.9], **changes}).check(0)
    assert str(error.value) == message


def test_unknown_setting_is_refused_by_the_scenario() -> None:
    with pytest.raises(InputError, match="hiden"):
        read_recipe("conditional", {"hiden": 3}).setup()


def test_unknown_recipe_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match="did you mean 'conditional'"):
        read_recipe("conditinal")


def test_own_recipe_needs_no_code(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(recipe_text("conditional-quick"), encoding="utf-8")
    assert read_recipe(str(path)).to_dict() == read_recipe("conditional-quick").to_dict()


def test_recipes_load_no_torch() -> None:
    code = "import sys, weft.training.recipes; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_training_learns_and_its_run_is_a_scheduler(tmp_path: Path) -> None:
    changes = {"samples": 120_000, "jobs": 400, "num_envs": 40, "num_steps": 100, "hidden": [32, 32]}
    recipe = read_recipe("conditional-quick", changes)
    outcome = train_once(recipe, tmp_path / "run", Asked(3))
    assert outcome.samples == 120_000
    learned = chooser(f"{tmp_path / 'run'}@last")
    setup = setup_of(scenario("conditional", jobs=400).stream("test", 0), learned.sight)
    seeds = np.arange(500, 508)
    trained = run_policy(learned.policy, setup, seeds).mean_jct.mean()
    random = run_rule(catalog.dispatcher("random"), setup, seeds).mean_jct.mean()
    assert trained < random


def test_start_from_other_features_is_refused(tmp_path: Path) -> None:
    train_once(
        read_recipe(
            "conditional-quick",
            {"samples": 400, "jobs": 20, "num_envs": 4, "num_steps": 50, "minibatch": 100},
        ),
        tmp_path / "run",
    )
    other = read_recipe("conditional-paper", {"samples": 400, "jobs": 20, "num_envs": 4, "num_steps": 50})
    with pytest.raises(InputError, match="see or choose something else") as caught:
        train_once(other, tmp_path / "other", Asked(start=f"{tmp_path / 'run'}@last"))
    assert caught.value.field == "features"


def test_start_may_wait_where_it_idled_before(tmp_path: Path) -> None:
    changes = {"samples": 400, "jobs": 20, "num_envs": 4, "num_steps": 50, "minibatch": 100, "waits": True}
    train_once(read_recipe("conditional", changes), tmp_path, Asked(start="ppo"))
    assert load_policy(f"{tmp_path}@last")[1].choices[-1] == "wait"


def test_shipped_policy_beats_the_strongest_rule_where_heavy_tasks_are_common() -> None:
    weights, card = load_policy(str(catalog.policy_file("ppo")))
    learned = chooser("conditional-ppo")
    case = scenario("conditional", jobs=4000, p_c=0.1).stream("test", 0)
    setup = setup_of(case, learned.sight, waits=learned.waits)
    assert isinstance(learned.policy, MlpPolicy)
    assert (card.name, len(weights)) == ("conditional-ppo", 12)
    seeds = np.arange(900, 908)
    mine = run_policy(learned.policy, setup, seeds).mean_jct
    best = run_rule(catalog.dispatcher("heavy-last-5"), setup, seeds).mean_jct
    assert mine.mean() < 0.97 * best.mean()


TINY = {"samples": 400, "jobs": 20, "num_envs": 4, "num_steps": 50, "minibatch": 100, "validation.jobs": 20}


@pytest.mark.parametrize(
    ("start", "changes", "field"),
    [
        ("ppo", {"hidden": [8]}, "architecture.hidden"),
        ("conditional-graph", {}, "architecture"),
    ],
)
def test_start_of_another_shape_is_refused_by_field(
    tmp_path: Path, start: str, changes: dict[str, object], field: str
) -> None:
    with pytest.raises(InputError) as caught:
        train_once(read_recipe("conditional", {**TINY, **changes}), tmp_path, Asked(start=start))
    assert (caught.value.file, caught.value.field) == (start, field)


def test_refused_training_does_not_block_the_corrected_one(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        train_once(read_recipe("conditional-quick", TINY), tmp_path / "run", Asked(start="conditional-graph"))
    assert train_once(read_recipe("conditional-quick", TINY), tmp_path / "run").samples == 400


@pytest.fixture
def own_recipe(tmp_path: Path) -> Path:
    """The scenario and the recipe of the page on conditional streams, as files."""
    page = Path(__file__).parents[2] / "docs" / "conditional.md"
    scenario_text, recipe = re.findall(r"^```toml\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    (tmp_path / "mine.toml").write_text(scenario_text, "utf-8")
    (tmp_path / "own.toml").write_text(recipe, "utf-8")
    return tmp_path / "own.toml"


def test_recipe_of_the_docs_trains_a_graph_of_ones_own(own_recipe: Path) -> None:
    train_once(read_recipe(str(own_recipe), TINY), own_recipe.parent / "run")
    card = load_policy(f"{own_recipe.parent / 'run'}@last")[1]
    assert card.choices == ("scan", "easy", "hard", "idle")


def test_setting_swept_in_the_scenario_is_refused_by_file_and_key(own_recipe: Path) -> None:
    mine = own_recipe.parent / "mine.toml"
    mine.write_text(mine.read_text("utf-8") + "gap = [8, 9]\n", "utf-8")
    with pytest.raises(InputError, match="expected one value, got 8") as caught:
        read_recipe(str(own_recipe)).setup()
    assert (caught.value.file, caught.value.field) == (str(mine), "settings.gap")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"num_tf": -1}, "sight.oldest"),
        ({"oldest": 10**9}, "sight.oldest"),
        ({"oldest": 2.5}, "sight.oldest"),
        ({"age_scale": 0.0}, "sight.age_scale"),
        ({"length_scale": float("nan")}, "sight.length_scale"),
        ({"forget": 1.5}, "sight.forget"),
        ({"devices": 1}, "sight.devices"),
    ],
)
def test_sight_beyond_its_limits_is_refused(changes: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        read_recipe("conditional-quick", changes)
    assert caught.value.field == field


def test_extended_recipe_leaves_settings_of_another_generator(tmp_path: Path) -> None:
    """``tasks`` of the workflows is nothing that a stream of files has."""
    scenario = Path("examples/stream.toml").resolve()
    path = tmp_path / "mine.toml"
    text = f'schema = "weft/training/1"\nextends = "tasks-quick"\nname = "mine"\nscenario = "{scenario}"\n'
    path.write_text(text)
    assert read_recipe(path).to_dict()["settings"] == {}
    path.write_text(f"{text}[settings]\njobs = 5\n")
    assert read_recipe(path).to_dict()["settings"] == {"jobs": 5}
    read_recipe(path).check(0)


def test_extended_recipe_keeps_settings_of_the_same_generator(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "conditional-join"\n')
    path = tmp_path / "own.toml"
    path.write_text(
        'schema = "weft/training/1"\nextends = "conditional-join"\nname = "own"\nscenario = "mine.toml"\n'
    )
    found = read_recipe(path).to_dict()
    usual = read_recipe("conditional-join").to_dict()
    assert (found["settings"], found["vary"]) == (usual["settings"], usual["vary"])


@pytest.mark.parametrize("name", ["3", "true", '""'])
def test_name_that_is_no_text_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f'schema = "weft/training/1"\nextends = "tasks-quick"\nname = {name}\n')
    with pytest.raises(InputError, match=r"own\.toml: name: expected a name, got"):
        read_recipe(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('algorithm = "ppo"\nscenario = "edge-single-3"', "algorithm: expected mappo for the scenario edge-single-3, which has edge clusters, got 'ppo'"),
        ('algorithm = "mappo"\nscenario = "conditional"', "which has no edge clusters, got 'mappo'"),
        ('extends = "edge-quick"\nscenario = "edge-singl"', "scenario: no scenario 'edge-singl'; did you mean"),
        ('extends = "edge-quick"\n[settings]\nfoo = 3', "settings.foo: no setting 'foo'"),
    ],
)  # fmt: skip
def test_recipe_and_its_scenario_have_to_go_together(tmp_path: Path, text: str, said: str):
    """The error names the file of the recipe."""
    file = tmp_path / "mine.toml"
    file.write_text(f'schema = "weft/training/1"\n{text}\n')
    with pytest.raises(InputError) as raised:
        read_recipe(file)
    assert str(raised.value).startswith(f"{file}: ") and said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('algorithm = ["ppo"]', "algorithm: expected one of ppo, "),
        ("extends = 3", "extends: expected a name, got 3"),
        ('extends = "conditionel"', "extends: no built-in recipe 'conditionel'; did you mean 'conditional'?"),
        ('extends = "conditional"\nsettings = 3', "settings: expected a table, got 3"),
        ('extends = "conditional"\nvalidation = []', "validation: expected a table, got []"),
        ('extends = "conditional"\nscenario = 3', "scenario: expected a name, got 3"),
    ],
)
def test_recipe_with_a_value_of_another_type_is_refused_where_it_stands(tmp_path: Path, text: str, said: str):
    file = tmp_path / "mine.toml"
    file.write_text(f'schema = "weft/training/1"\n{text}\n')
    with pytest.raises(InputError) as raised:
        read_recipe(file)
    assert str(raised.value).startswith(f"{file}: {said}")
