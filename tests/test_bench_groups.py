"""The ablation of what policies see, tiny."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.groups import ALL, GROUPS, against, chosen_recipe, fresh, in_rows, main
from weft.errors import InputError
from weft.sim.tasks.candidates import CandidateSight

TINY = ("samples=256", "num_envs=4", "num_steps=32", "warmup=64", "replay=512", "minibatch=32", "jobs=3", "tasks=6", "streams=4", "validation.seeds=1", "validation.every=1")  # fmt: skip


def test_groups_are_the_switches_of_a_sight():
    assert len(GROUPS) == 7
    assert all(CandidateSight()._asdict()[name] is True for name in GROUPS)


def test_rows_are_paired_by_stream_and_everything_has_no_second_cell():
    rule = np.array([10.0, 20.0, 40.0])
    times = {ALL: np.array([rule * 0.9] * 2), "sees_load": np.array([rule * 0.99] * 2)}
    found = dict(in_rows(times, rule))
    assert found["everything"] == ["-10.0 (-10.0 to -10.0)", ""]
    assert found["without load"] == ["-1.0 (-1.0 to -1.0)", "+10.0 (+10.0 to +10.0)"]


def test_one_stream_has_no_interval():
    assert against(np.array([[11.0]]), np.array([[10.0]])) == "+10.0"


def test_policies_are_judged_on_streams_that_did_not_choose_them():
    recipe = chosen_recipe("workflows-dqn-quick", {"jobs": 2, "tasks": 6, "validation.seeds": 3})
    first = [one.jobs[1].release for one in recipe.problems("validation", 3)]
    assert not set(first) & {one.jobs[1].release for one in fresh(recipe, 4)}


def test_every_row_is_trained_and_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    told = [part for one in TINY for part in ("--set", one)]
    asked = ["--group", "sees_paths", "--seeds", "1", "--streams", "2", "--out", str(tmp_path), *told]
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines[1:5]] == [
        "seen",
        "---",
        "everything",
        "without paths",
    ]
    assert (tmp_path / "sees_paths" / "seed-1" / "config.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "adas"], "--recipe: expected a recipe of policies that point at tasks, got 'adas'"),
        (["--seeds", "0"], "--seeds: expected a whole number >= 1, got 0"),
    ],
)
def test_what_makes_no_table_is_refused(arguments: list[str], message: str):
    with pytest.raises(InputError) as error:
        main(arguments)
    assert str(error.value) == message
