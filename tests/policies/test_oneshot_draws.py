"""How the one-shot planner uses its scores: lists, holds, biases, sharpness, noise, copies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from policies.planners import ALONE, PROBLEMS, saved_policy

from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.policies.oneshot import planner as oneshot
from weft.policies.oneshot.encoder import TaskScores
from weft.policies.oneshot.features import view_of
from weft.policies.oneshot.planner import CHUNK, OneShot
from weft.schedulers.base import Limit
from weft.schedulers.planners.rules import Decoder

POOL = Problem(
    TaskGraph(np.array([3.0, 1.0, 3.0]), slots=[2, 4, 2]),
    Cluster.uniform([DeviceClass("pool", slots=4)], [1]),
    ALONE,
)
"""A wide task between two narrow ones: 7 long where it may not be overtaken, else 4."""


def card_with(folder: Path, config: dict[str, object], num_lists: int = 1) -> str:
    card = saved_policy(folder, num_lists=num_lists)
    document = json.loads(card.read_text())
    document["training"] = {"recipe": {"config": config}}
    card.write_text(json.dumps(document))
    return str(card)


def say(monkeypatch: pytest.MonkeyPatch, scores: TaskScores) -> None:
    """Every net gives these scores."""
    monkeypatch.setattr(oneshot.Encoder, "scores", lambda self, view: scores)


def spied(monkeypatch: pytest.MonkeyPatch, name: str) -> list[tuple[object, ...]]:
    """The arguments of all calls of a kernel, which is still called."""
    calls: list[tuple[object, ...]] = []
    kernel = getattr(oneshot, name)

    def spy(*arguments: object) -> object:
        calls.append(arguments)
        return kernel(*arguments)

    monkeypatch.setattr(oneshot, name, spy)
    return calls


@pytest.mark.parametrize(("odds", "expected"), [(1.0, 7.0), (-3.0, 4.0)])
def test_greedy_schedule_holds_where_the_odds_are_for_it(
    odds: float, expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    say(monkeypatch, TaskScores(np.array([[3.0, 2.0, 1.0]]), np.full((1, 3), odds), np.zeros((3, 0))))
    assert OneShot(card_with(tmp_path, {})).plan(POOL, limit=Limit(effort=1)).makespan == expected


@pytest.mark.parametrize(("effort", "expected"), [(1, 7.0), (2, 4.0)])
def test_every_list_has_its_greedy_schedule(
    effort: int, expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    odds = np.array([[9.0] * 3, [-9.0] * 3])
    say(monkeypatch, TaskScores(np.array([[3.0, 2.0, 1.0]] * 2), odds, np.zeros((3, 0))))
    planner = OneShot(card_with(tmp_path, {}, num_lists=2))
    assert planner.plan(POOL, limit=Limit(effort=effort)).makespan == expected


@pytest.mark.parametrize("shunned", [0, 1])
@pytest.mark.parametrize("effort", [1, 20])
def test_bias_keeps_tasks_from_a_class(
    shunned: int, effort: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    problem = PROBLEMS["workflow"]
    bias = np.zeros((problem.num_tasks, 2))
    bias[:, shunned] = 1e6
    say(monkeypatch, TaskScores(np.zeros((1, problem.num_tasks)), np.zeros((1, problem.num_tasks)), bias))
    plan = OneShot(card_with(tmp_path, {})).plan(problem, limit=Limit(effort=effort))
    assert set(problem.cluster.device_class[plan.device]) == {1 - shunned}


def test_draws_are_as_sharp_as_the_card_says_list_by_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = spied(monkeypatch, "draw_schedules")
    card = card_with(tmp_path, {"sharpness": [1.0, 2.5]}, num_lists=2)
    OneShot(card).plan(PROBLEMS["shop"], limit=Limit(effort=2 + 4 * CHUNK))
    first, second, third, fourth = (scores.logit for _, _, scores, *_ in calls)
    assert (first != second).any()
    np.testing.assert_allclose([third, fourth], [2.5 * first, 2.5 * second])


@pytest.mark.parametrize("mode", ["paper", "conflict"])
@pytest.mark.parametrize(("kind", "name"), [("shop", "draw_schedules"), ("workflow", "draw_placements")])
def test_draws_follow_the_mode_of_the_training(
    mode: str, kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    calls = spied(monkeypatch, name)
    OneShot(card_with(tmp_path, {"mode": mode})).plan(PROBLEMS[kind], limit=Limit(effort=2))
    by_list = calls[0][3 if kind == "shop" else 4]
    assert by_list is (mode == "paper")


def test_placements_are_drawn_with_the_noise_of_the_card_in_mean_run_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    calls = spied(monkeypatch, "draw_placements")
    problem = PROBLEMS["workflow"]
    OneShot(card_with(tmp_path, {"spread": 0.25})).plan(problem, limit=Limit(effort=2))
    scale = view_of(Decoder(problem).a).scale
    assert calls[0][3].spread == 0.25 * scale != 0.25  # type: ignore[attr-defined]


@pytest.mark.parametrize("copies", [True, False])
def test_three_of_four_batches_of_placements_make_copies_where_allowed(
    copies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    calls = spied(monkeypatch, "draw_placements")
    problem = PROBLEMS["workflow"] if copies else PROBLEMS["workflow"].replaced(objective=ALONE)
    OneShot(card_with(tmp_path, {})).plan(problem, limit=Limit(effort=1 + 5 * CHUNK))
    expected = [True, True, True, False, True] if copies else [False] * 5
    assert [call[5] for call in calls] == expected
