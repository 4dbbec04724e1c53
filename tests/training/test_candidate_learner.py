"""PPO on streams of single tasks: it imitates, resumes to the bit, and ends as a scheduler's name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import catalog
from weft.errors import InputError
from weft.io.runs import read_record
from weft.model.problem import realise
from weft.model.validate import validate
from weft.policies.checkpoint import load_policy
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.candidates import COLUMNS
from weft.training.candidates.judges import TaskJudge
from weft.training.recipes import read_recipe

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TINY = {
    "samples": 256,
    "num_envs": 4,
    "num_steps": 32,
    "minibatch": 64,
    "streams": 4,
    "jobs": 3,
    "tasks": 8,
    "imitation_updates": 2,
    "validation.every": 1,
    "validation.seeds": 2,
}


def test_tasks_quick_trains_and_its_run_is_a_dispatcher(tmp_path: Path):
    found = weft.train("tasks-quick", tmp_path / "run", settings=TINY)
    assert found.runs[0].samples == 4 * 32 * 4
    problem = weft.scenario("workflows", load=0.8, jobs=3, tasks=8).dispatched("validation", 0, 0)
    dispatcher = catalog.task_dispatcher(f"{tmp_path / 'run'}@best")
    schedule = run_one(dispatcher, problem, realise(problem, 0))
    assert np.isfinite(schedule.mean_jct)
    rules = read_record(tmp_path / "run").against["envelope_percent"]
    assert rules == "the best of priced, srw and fifo"


def test_stream_of_files_is_trained_on(tmp_path: Path):
    settings = {key: value for key, value in TINY.items() if key != "tasks"}
    recipe = read_recipe(str(EXAMPLES / "policy.toml"), settings)
    releases = {
        split: [[job.release for job in one.jobs] for one in recipe.problems(split, 2)]
        for split in ("train", "validation")
    }
    assert releases["train"][0] != releases["train"][1]
    assert releases["train"] != releases["validation"]
    assert recipe.next_command("RUN") == (
        f"weft evaluate {recipe.scenario} -s RUN,priced,srw,fifo --seeds 8"  # the scenario knows its load
    )


def test_resumed_run_ends_with_the_same_bytes(tmp_path: Path):
    class Stop(Exception):
        """Interrupts a run."""

    def stop(progress: object) -> None:
        if progress.update == 2:
            raise Stop

    weft.train("tasks-quick", tmp_path / "whole", settings=TINY)
    with pytest.raises(Stop):
        weft.train("tasks-quick", tmp_path / "cut", settings=TINY, on_progress=stop)
    weft.train("tasks-quick", tmp_path / "cut", settings=TINY, resume=True)
    ends = [load_policy(f"{tmp_path / name}@last")[0] for name in ("whole", "cut")]
    assert {name: array.tobytes() for name, array in ends[0].items()} == {
        name: array.tobytes() for name, array in ends[1].items()
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates.tasks": 0}, "candidates.tasks: expected a whole number from 1 to 1024"),
        ({"candidates.views": 3}, "candidates.views: unknown; expected one of tasks, pools"),
        ({"hidden": [32, 32]}, "config.hidden: expected one width"),
        ({"streams": 0}, "streams: expected a whole number from 1 to 1,000,000, got 0"),
        ({"num_envs": 10_000_000}, "num_envs: expected a whole number from 1 to 65536, got 10000000"),
        ({"validation.rules": ["nope"]}, "^validation.rules: no dispatcher 'nope'"),
        (
            {"num_envs": 60_000, "num_steps": 60_000},
            r"config.num_steps: expected what fits into .* GB of memory, got what takes",
        ),
    ],
)
def test_recipe_refuses(change: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        read_recipe("tasks-quick", {**TINY, **change}).check(0)


def test_base_rule_of_a_recipe_is_imitated_and_stored_in_the_card(tmp_path: Path):
    weft.train("tasks-quick", tmp_path / "run", settings={**TINY, "base": "es"})
    weights = catalog.task_dispatcher("es").weights
    assert load_policy(f"{tmp_path / 'run'}@best")[1].training["base"] == list(weights)
    assert catalog.task_dispatcher(f"{tmp_path / 'run'}@best").weights == weights
    assert catalog.task_dispatcher("priced").weights == read_recipe("tasks-quick", TINY).base_weights


@pytest.mark.parametrize(
    "change", [{"candidates.copies": True}, {"candidates.stages": 2}], ids=["copies", "stages"]
)
@pytest.mark.parametrize("recipe", ["tasks-quick", "workflows-dqn-quick"])
def test_policy_learns_with_copies_and_in_stages(tmp_path: Path, recipe: str, change: dict[str, object]):
    settings = {
        key: value for key, value in TINY.items() if recipe == "tasks-quick" or key != "imitation_updates"
    }
    more = {**change, "ccr": 5.0} | ({} if recipe == "tasks-quick" else {"warmup": 64})
    weft.train(recipe, tmp_path / "run", settings={**settings, **more})
    dispatcher = catalog.task_dispatcher(f"{tmp_path / 'run'}@last")
    assert dispatcher.policy.architecture.column == len(COLUMNS) + 2
    problem = weft.scenario("workflows", load=0.8, jobs=3, tasks=8, ccr=5.0).dispatched("validation", 0, 0)
    assert not validate(run_one(dispatcher, problem, realise(problem, 0)))


@pytest.mark.parametrize("name", ["fifo", "srw", "es+profile", "lachesis", "plan:heft"])
def test_recipe_refuses_a_base_rule_without_weights(name: str):
    with pytest.raises(InputError, match="base: expected a rule with weights, such as priced, es"):
        read_recipe("tasks-quick", {**TINY, "base": name}).check(0)


def test_recipe_refuses_a_base_rule_that_is_none():
    with pytest.raises(InputError, match=r"^base: no dispatcher 'pricey'; did you mean 'priced'"):
        read_recipe("tasks-quick", {**TINY, "base": "pricey"}).check(0)


def test_problems_take_the_cells_of_lists_in_turn():
    recipe = read_recipe("tasks-quick", {**TINY, "load": [0.5, 0.9], "devices": [4, 8]})
    assert [problem.cluster.num_devices for problem in recipe.problems("train", 6)] == [4, 8, 4, 8, 4, 8]
    alone = read_recipe("tasks-quick", {**TINY, "load": 0.9, "devices": 4}).problems("train", 2)
    mixed = recipe.problems("train", 8)
    for number, problem in ((2, alone[0]), (6, alone[1])):
        assert [job.release for job in mixed[number].jobs] == [job.release for job in problem.jobs]
    assert recipe.next_command("RUN").endswith("--set 'load=[0.5, 0.9]' --seeds 8")


def test_validation_gives_every_cell_the_same_weight():
    recipe = read_recipe("tasks-quick", {**TINY, "load": [0.3, 0.95], "validation.seeds": 1})
    judge = TaskJudge(recipe)
    assert len(judge.points) == 2
    times = judge.rules["priced"] * np.array([1.0, 1.2])
    assert judge.figures(times)["priced_percent"] == pytest.approx(10.0)


def test_recipe_refuses_a_repeated_job():
    recipe = replace(read_recipe("tasks-quick"), scenario="conditional", settings={})
    with pytest.raises(InputError, match="scenario: conditional is one repeated job"):
        recipe.check(0)


def test_other_base_rule_than_that_of_the_first_weights_is_said(tmp_path: Path):
    weft.train("tasks-quick", tmp_path / "run", settings=TINY)
    said: list[str] = []
    start = f"{tmp_path / 'run'}@best"
    for base in ("priced", "es"):
        weft.train(
            "tasks-quick",
            tmp_path / base,
            settings={**TINY, "base": base},
            start=start,
            on_notice=said.append,
        )
    assert [line for line in said if "base rule" in line] == [
        f"{start} was trained with another base rule than es: candidates now come in another order, "
        "and another choice is marked"
    ]
