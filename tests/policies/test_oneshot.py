"""The one-shot planner: repeats, improves with samples, refuses what does not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from policies.planners import ALONE, PROBLEMS, saved_policy

from weft import catalog
from weft.errors import InputError
from weft.io.clusters import builtin_cluster
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate, jobshop, jobshop_cluster, opgraph_cluster, tpch_cluster, tpch_like
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.model.validate import validate
from weft.policies.oneshot import planner as oneshot
from weft.policies.oneshot.encoder import TaskScores
from weft.policies.oneshot.features import view_of
from weft.policies.oneshot.planner import OneShot, OneShotSearch
from weft.schedulers.base import Limit
from weft.schedulers.planners.rules import RULES, Decoder, Features

EVERY = pytest.mark.parametrize("kind", PROBLEMS)


def makespan(card: Path, kind: str, samples: int, seed: int = 0) -> float:
    return OneShot(str(card)).plan(PROBLEMS[kind], seed=seed, limit=Limit(effort=samples)).makespan


@EVERY
def test_oneshot_plans_are_valid(kind: str, tmp_path: Path):
    card = saved_policy(tmp_path)
    for samples in (1, 20):
        plan = OneShot(str(card)).plan(PROBLEMS[kind], limit=Limit(effort=samples))
        assert validate(plan) == ()


@EVERY
def test_oneshot_repeats_with_the_seed(kind: str, tmp_path: Path):
    card = saved_policy(tmp_path)
    assert makespan(card, kind, 20, seed=3) == makespan(card, kind, 20, seed=3)


@EVERY
def test_oneshot_with_more_samples_is_never_worse(kind: str, tmp_path: Path):
    card = saved_policy(tmp_path)
    found = [makespan(card, kind, samples) for samples in (1, 17, 33, 65)]
    assert found == sorted(found, reverse=True)


@EVERY
def test_oneshot_search_is_never_worse_than_its_start(kind: str, tmp_path: Path):
    card = saved_policy(tmp_path)
    plan = OneShotSearch(str(card)).plan(PROBLEMS[kind], limit=Limit(effort=200))
    assert validate(plan) == ()
    assert plan.makespan <= makespan(card, kind, 25)


CROWDED = {
    "shop": Problem(jobshop(10, 8, seed=1), jobshop_cluster(8), ALONE),
    "operators": Problem(generate("opgraph-sbm", 120, seed=3), opgraph_cluster(), ALONE),
    "workflow": Problem(generate("layered", 40, seed=4), PROBLEMS["workflow"].cluster),
}


@pytest.mark.parametrize("kind", CROWDED)
def test_oneshot_search_improves_what_was_drawn(kind: str, tmp_path: Path):
    card = str(saved_policy(tmp_path))
    drawn = OneShot(card).plan(CROWDED[kind], limit=Limit(effort=50))
    found = OneShotSearch(card).plan(CROWDED[kind], limit=Limit(effort=400))
    assert validate(found) == () and found.makespan < drawn.makespan


KINDS = {"shop": "jobshop", "queries": "pools", "operators": "graphs", "workflow": "workflows"}


@EVERY
def test_oneshot_takes_the_weights_of_the_kind_of_problem(kind: str):
    planner = OneShot()
    planner.plan(PROBLEMS[kind], limit=Limit(effort=2))
    assert planner.note == f"{KINDS[kind]}-oneshot, best of 2"


def test_oneshot_says_which_weights_and_how_many_draws(tmp_path: Path):
    planner = OneShot(str(saved_policy(tmp_path)))
    planner.plan(PROBLEMS["shop"], limit=Limit(effort=20))
    assert planner.note == "small, best of 20"


def test_oneshot_keeps_to_a_budget(tmp_path: Path):
    planner = OneShot(str(saved_policy(tmp_path)))
    planner.plan(PROBLEMS["shop"], limit=Limit(budget=0.05))
    assert planner.note.startswith("small, best of ")


def test_oneshot_plans_nothing_for_no_tasks():
    empty = Problem(TaskGraph(np.zeros(0)), PROBLEMS["workflow"].cluster)
    assert len(OneShot().plan(empty)) == 0


@EVERY
def test_oneshot_with_scores_that_are_not_numbers_lets_the_best_rule_stand_in(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    card = saved_policy(tmp_path)
    problem = PROBLEMS[kind]
    lost = TaskScores(np.full((1, problem.num_tasks), np.nan), np.zeros((1, 0)), np.zeros((0, 0)))
    monkeypatch.setattr(oneshot.Encoder, "scores", lambda self, view: lost)
    planner, decoder = OneShot(str(card)), Decoder(problem)
    plan = planner.plan(problem)
    features = Features(problem, decoder.a)
    rules = [decoder.schedule(mix.priority(features), mix.decoder).makespan for mix in RULES.values()]
    assert plan.makespan <= min(rules)
    assert "not finite" in planner.note and "stood in" in planner.note
    planner.plan(problem)
    assert oneshot.load(str(card)).fallbacks == 2


def with_ranges(card: Path, low: float, high: float) -> Path:
    document = json.loads(card.read_text())
    document["ranges"] = [[low, high]] * len(document["features"])
    card.write_text(json.dumps(document))
    return card


@EVERY
def test_oneshot_far_from_its_training_is_no_worse_than_rules_and_net(kind: str, tmp_path: Path):
    problem, near = PROBLEMS[kind], saved_policy(tmp_path)
    alone = OneShot(str(near)).plan(problem).makespan
    (tmp_path / "far").mkdir()
    planner = OneShot(str(with_ranges(saved_policy(tmp_path / "far"), 3.0, 4.0)))
    ruled = oneshot.best_rule(Decoder(problem))[1].makespan
    assert planner.plan(problem).makespan == min(alone, ruled)


@pytest.mark.parametrize(
    ("of_rules", "said"), [(9.0, "net won"), (1e-9, "guess won"), (None, "net and guess are equal")]
)
def test_oneshot_far_from_its_training_says_who_won_and_counts_it(
    of_rules: float | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    problem, near = PROBLEMS["workflow"], saved_policy(tmp_path)
    own = OneShot(str(near)).plan(problem, limit=Limit(effort=2))
    (tmp_path / "far").mkdir()
    card = with_ranges(saved_policy(tmp_path / "far"), 3.0, 4.0)
    ruled = (
        own if of_rules is None else replace(own, start=own.start * of_rules, finish=own.finish * of_rules)
    )
    monkeypatch.setattr(oneshot, "best_rule", lambda decoder: ("guess", ruled))
    planner = OneShot(str(card))
    planner.plan(problem, limit=Limit(effort=2))
    assert planner.note.startswith("small, best of 2; unlike the training (duration, head")
    assert planner.note.endswith(f": best of net and rules, {said} (problem 1 of this process)")
    assert oneshot.load(str(card)).fallbacks == 1


@EVERY
def test_oneshot_near_its_training_plans_itself(kind: str, tmp_path: Path):
    planner = OneShot(str(with_ranges(saved_policy(tmp_path), 0.3, 0.8)))
    planner.plan(PROBLEMS[kind], limit=Limit(effort=2))
    assert planner.note == "small, best of 2"


LARGER = {
    "shop": Problem(jobshop(60, 25, seed=1), jobshop_cluster(25), ALONE),
    "operators": Problem(generate("opgraph-layered", 1500, seed=1), opgraph_cluster(), ALONE),
    "queries": Problem(tpch_like(120, seed=1), tpch_cluster(), ALONE),
    "workflow": Problem(generate("mosaic", 3000, seed=1), builtin_cluster("gpu-mix-16")),
    "gathering": Problem(
        TaskGraph(np.arange(1.0, 400.0), np.arange(398), np.full(398, 398), 1e6), builtin_cluster("gpu-mix-8")
    ),
}


@pytest.mark.parametrize("kind", LARGER)
def test_shipped_weights_take_problems_larger_than_those_of_the_training(kind: str):
    decoder = Decoder(LARGER[kind])
    policy = oneshot.load(oneshot.shipped(decoder))
    assert policy.outside(view_of(decoder.a, has_pairs=decoder.by_finish)) == ()


@EVERY
@pytest.mark.parametrize("weights", ["jobshop", "graphs", "pools", "workflows"])
def test_shipped_weights_tell_problems_of_another_kind(weights: str, kind: str):
    decoder = Decoder(PROBLEMS[kind])
    policy = oneshot.load(str(oneshot.ZOO / f"{weights}-oneshot.json"))
    view = view_of(decoder.a, has_pairs=decoder.by_finish)
    other = f"{KINDS[kind]}, not {' or '.join(policy.kinds)}"
    assert (other in policy.strangeness(decoder, view)) == (KINDS[kind] not in policy.kinds)


@pytest.mark.parametrize("source", [None, "jobshop", [1], [{"generator": ["jobshop"]}], [{}]])
def test_weights_that_do_not_say_their_kind_take_any(source: object, tmp_path: Path):
    card = saved_policy(tmp_path)
    document = json.loads(card.read_text())
    document["training"] = {"recipe": {"source": source}}
    card.write_text(json.dumps(document))
    assert oneshot.load(str(card)).kinds == ()


def test_shipped_weights_know_no_tasks_that_fill_a_device():
    device = DeviceClass("node", slots=4)
    graph = TaskGraph(np.ones(6), [0, 1, 2], [3, 4, 5], 1e6, slots=4)
    planner = OneShot()
    planner.plan(Problem(graph, Cluster.uniform([device], [2], bandwidth=1e6)))
    assert "unlike the training (demand): best of net and rules, " in planner.note


def test_oneshot_refuses_weights_of_another_feature_version(tmp_path: Path):
    card = saved_policy(tmp_path, version="tasks/9")
    with pytest.raises(InputError, match="features 'tasks/9', this weft has 'tasks/2'"):
        OneShot(str(card)).plan(PROBLEMS["shop"])


def test_oneshot_refuses_a_dispatcher():
    with pytest.raises(InputError, match="conditional-ppo decides while jobs run: it plans no graphs"):
        OneShot(catalog.policy_file("ppo")).plan(PROBLEMS["shop"])


@pytest.mark.parametrize("damage", ["cut", "altered", "other shape"])
def test_oneshot_refuses_damaged_weights(damage: str, tmp_path: Path):
    card = saved_policy(tmp_path)
    weights = tmp_path / "small.safetensors"
    data = weights.read_bytes()
    if damage == "cut":
        weights.write_bytes(data[:-100])
    elif damage == "altered":
        weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        document = json.loads(card.read_text())
        document["architecture"]["hidden"] = 25
        card.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"SHA-256|expected shape"):
        OneShot(str(card)).plan(PROBLEMS["shop"])


@pytest.mark.parametrize(
    "config", [{"spread": -1}, {"sharpness": []}, {"sharpness": "high"}, {"spread": True}]
)
def test_oneshot_refuses_a_card_whose_recipe_makes_no_sense(config: dict[str, object], tmp_path: Path):
    card = saved_policy(tmp_path)
    document = json.loads(card.read_text())
    document["training"] = {"recipe": {"config": config}}
    card.write_text(json.dumps(document))
    with pytest.raises(InputError, match="spread and sharpness"):
        OneShot(str(card)).plan(PROBLEMS["shop"])


def test_weights_are_the_name_of_a_planner(tmp_path: Path):
    card = saved_policy(tmp_path)
    found = catalog.schedule(PROBLEMS["shop"], str(card), effort=4)
    assert found.schedule.makespan == makespan(card, "shop", 4)


def test_oneshot_draws_from_all_lists_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[float] = []
    draw = oneshot.draw_schedules

    def spy(pools: object, scratch: object, scores: oneshot.Scores, *rest: object) -> None:
        seen.append(float(scores.logit[0]))
        draw(pools, scratch, scores, *rest)

    monkeypatch.setattr(oneshot, "draw_schedules", spy)
    card = saved_policy(tmp_path, num_lists=2)
    OneShot(str(card)).plan(PROBLEMS["queries"], limit=Limit(effort=2 + 4 * oneshot.CHUNK))
    assert len(seen) == 4 and seen[:2] == seen[2:] and seen[0] != seen[1]
