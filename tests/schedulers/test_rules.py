"""Rules: the numbers each priority is made of, mixes in files, and what a bad file is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft import catalog
from weft.errors import InputError
from weft.io.jssp import job_shop_problem
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.model.validate import validate
from weft.schedulers.planners import rules
from weft.schedulers.planners.rules import ACTIVE, FEATURES, RULES, Decoder, Features, Mix, Rule, read_mix
from weft.sim.arrays import compile_problem

DIAMOND = TaskGraph([1.0, 2.0, 5.0, 4.0], [0, 0, 1, 2], [1, 2, 3, 3], slots=[1, 2, 1, 3])
"""Work 1, then 2 and 5, then 4; slots 1, 2, 1, 3."""


@pytest.fixture
def diamond() -> Problem:
    """The diamond on a pool of three slots."""
    return Problem(DIAMOND, Cluster.uniform([DeviceClass("pool", slots=3)], [1]))


VECTORS = {
    "spt": [-1.0, -2.0, -5.0, -4.0],
    "lpt": [1.0, 2.0, 5.0, 4.0],
    "cp": [10.0, 6.0, 9.0, 4.0],
    "area": [18.0, 16.0, 17.0, 12.0],
    "slots": [1.0, 2.0, 1.0, 3.0],
    "mwkr": [12.0, 6.0, 9.0, 4.0],
    "mopnr": [4.0, 2.0, 2.0, 1.0],
    "ratio": [-1 / 12, -2 / 6, -5 / 9, -1.0],
}


@pytest.mark.parametrize("name", VECTORS)
def test_feature_has_the_published_value(name: str, diamond: Problem):
    column = Features(diamond, compile_problem(diamond)).column(name)
    assert column == pytest.approx(VECTORS[name], rel=1e-15)


def test_every_feature_is_tested():
    assert {*FEATURES} == {*VECTORS, "random"}


def test_feature_random_follows_the_seed(diamond: Problem):
    a = compile_problem(diamond)
    columns = [Features(diamond, a, seed).column("random").tolist() for seed in (1, 1, 2)]
    assert columns[0] == columns[1] != columns[2]


def test_remaining_work_of_a_large_graph_is_its_heaviest_path(
    diamond: Problem, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rules, "MOST_EXACT", 3)
    assert Features(diamond, compile_problem(diamond)).column("mwkr").tolist() == [10.0, 6.0, 9.0, 4.0]


@pytest.mark.parametrize("name", RULES)
def test_rule_is_in_the_catalog_and_plans(name: str, diamond: Problem):
    planner = catalog.planner(name)
    assert isinstance(planner, Rule)
    assert planner.mix is RULES[name]
    assert validate(planner.plan(diamond)) == ()


def test_rules_order_a_small_shop_as_by_hand():
    problem = job_shop_problem(np.array([[0, 1], [0, 1]]), np.array([[3, 2], [1, 9]]), "hand")
    assert catalog.planner("mwkr").plan(problem).makespan == 12.0  # job 1 first: 1 + 9 + 2
    assert catalog.planner("spt").plan(problem).makespan == 12.0
    assert Rule(Mix({"lpt": 1.0})).plan(problem).makespan == 14.0  # job 0 first: 3 + 2 + 9


def test_mix_normalises_by_the_largest_size(diamond: Problem):
    features = Features(diamond, compile_problem(diamond))
    found = Mix({"spt": 2.0, "slots": 1.0}).priority(features)
    assert found == pytest.approx([-2 / 5 + 1 / 3, -4 / 5 + 2 / 3, -2 + 1 / 3, -8 / 5 + 1])
    assert Mix({"spt": 2.0}, normalise=False).priority(features).tolist() == [-2.0, -4.0, -10.0, -8.0]


def test_mix_of_a_feature_that_is_zero_stays_finite():
    problem = Problem(TaskGraph([0.0, 0.0], [0], [1]), Cluster.uniform([DeviceClass("cpu")], [1]))
    features = Features(problem, compile_problem(problem))
    assert all(np.isfinite(Mix({name: 1.0}).priority(features)).all() for name in FEATURES)


def test_mix_in_a_file_is_a_planner(tmp_path: Path, diamond: Problem):
    path = tmp_path / "own.toml"
    path.write_text('decoder = "wait"\n[weights]\ncp = 1.0\n')
    planner = catalog.planner(str(path))
    assert planner.name == "own"
    wanted = catalog.planner("cp-wait").plan(diamond)
    assert planner.plan(diamond).start.tolist() == wanted.start.tolist()


BAD_FILES = {
    "no weights": ("", "weights", "expected a table of weights"),
    "empty weights": ("[weights]", "weights", "at least one weight"),
    "weights a number": ("weights = 1", "weights", "expected a table of weights"),
    "unknown feature": ("[weights]\nmwk = 1", "weights.mwk", "expected one of spt, lpt"),
    "weight a text": ("[weights]\ncp = 'much'", "weights.cp", "expected a finite number, got 'much'"),
    "weight a boolean": ("[weights]\ncp = true", "weights.cp", "expected a finite number, got True"),
    "weight infinite": ("[weights]\ncp = inf", "weights.cp", "expected a finite number, got inf"),
    "weight nan": ("[weights]\ncp = nan", "weights.cp", "expected a finite number, got nan"),
    "decoder": ("decoder = 'fast'\n[weights]\ncp = 1", "decoder", "expected one of backfill, wait, active"),
    "decoder a list": ("decoder = ['wait']\n[weights]\ncp = 1", "decoder", "expected one of backfill"),
    "normalise": ("normalise = 'no'\n[weights]\ncp = 1", "normalise", "expected true or false, got 'no'"),
    "name": ("name = 3\n[weights]\ncp = 1", "name", "expected a text, got 3"),
    "unknown field": ("speed = 1\n[weights]\ncp = 1", "speed", "unknown field"),
    "no toml": ("weights = [", None, "not valid TOML"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_mix_file_errors_name_file_and_field(case: str, tmp_path: Path):
    text, field, message = BAD_FILES[case]
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_mix(path)
    assert (caught.value.file, caught.value.field) == (str(path), field)


def test_mix_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="cannot read the file"):
        read_mix(tmp_path / "none.toml")


@pytest.mark.parametrize("name", ["active", "backfill"])
def test_rule_notes_a_decoder_that_does_not_apply(name: str, diamond: Problem):
    rule = Rule(Mix({"cp": 1.0}, name))
    rule.plan(diamond)
    assert ("'active' does not apply" in rule.note) == (name == "active")


def test_active_decoder_falls_back_to_earliest_finish_on_a_pool(diamond: Problem):
    decoder = Decoder(diamond)
    assert not decoder.is_active_possible
    assert validate(decoder.schedule(np.arange(4.0), ACTIVE)) == ()
