"""Draws from scores: exact probabilities, valid schedules, and gradients that average to nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate, jobshop, jobshop_cluster, opgraph_cluster, tpch_like
from weft.model.graph import TaskGraph
from weft.model.problem import Objective, Problem
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.policies.oneshot.features import view_of
from weft.schedulers.planners.rules import Decoder
from weft.sim.random import new_state
from weft.sim.timeline.sampling import Drawn, Scores, draw_schedules, new_drawn, plackett_luce
from weft.sim.timeline.sampling_devices import draw_placements
from weft.sim.timeline.timelines import new_timeline, rows_of

ALONE = Objective(copies=False)
SHOP = Problem(jobshop(4, 3, seed=1), jobshop_cluster(3), ALONE)
QUERIES = Problem(
    tpch_like(3, seed=2), Cluster.uniform([DeviceClass("pool", slots=600)], [1], name="pool"), ALONE
)
OPERATORS = Problem(generate("opgraph-layered", 25, seed=3), opgraph_cluster(), ALONE)
WORKFLOW = Problem(
    generate("layered", 12, seed=4),
    Cluster.uniform([DeviceClass("slow"), DeviceClass("fast", 3.0)], [2, 2], bandwidth=1e7),
)
CROWD = Problem(
    tpch_like(60, seed=5), Cluster.uniform([DeviceClass("pool", slots=900)], [1], name="pool"), ALONE
)
ORDERED = {"shop": SHOP, "queries": QUERIES, "operators": OPERATORS}
BOTH_WAYS = pytest.mark.parametrize("by_list", [True, False], ids=["by list", "by dispatch"])


def scores_for(decoder: Decoder, seed: int = 0, scale: float = 1.0, *, has_holds: bool) -> Scores:
    n, num_classes = decoder.a.run.shape
    rng = np.random.default_rng(seed)
    hold = rng.normal(size=n) if has_holds else np.zeros(0)
    bias = rng.normal(size=(n, num_classes)) if decoder.by_finish else np.zeros((0, 0))
    return Scores(scale * rng.normal(size=n), hold, bias, 0.5, view_of(decoder.a).group)


def drawn_from(decoder: Decoder, scores: Scores, samples: int, *, by_list: bool, gradients: bool) -> Drawn:
    drawn = new_drawn(samples, *decoder.a.run.shape, has_gradients=gradients)
    draw_schedules(decoder.pools, decoder.scratch, scores, by_list, new_state(7), drawn)
    return drawn


def test_plackett_luce_matches_drawing_without_replacement():
    logit = np.array([0.3, -1.0, 0.8, 0.1])
    total = 0.0
    for order in itertools.permutations(range(4)):
        found = plackett_luce(logit, np.array(order), np.zeros(4))
        left, wanted = list(range(4)), 0.0
        for i in order:
            wanted += logit[i] - np.log(np.exp(logit[left]).sum())
            left.remove(i)
        assert found == pytest.approx(wanted, abs=1e-12)
        total += np.exp(found)
    assert total == pytest.approx(1.0, abs=1e-12)


def test_plackett_luce_gradient_matches_differences():
    logit, order = np.array([0.3, -1.0, 0.8, 0.1, 2.0]), np.array([2, 0, 4, 1, 3])
    gradient = np.zeros(5)
    plackett_luce(logit, order, gradient)
    for i in range(5):
        step = 1e-6 * (np.arange(5) == i)
        up, down = (plackett_luce(x, order, np.zeros(5)) for x in (logit + step, logit - step))
        assert gradient[i] == pytest.approx((up - down) / 2e-6, abs=1e-6)


def test_draw_by_list_has_the_frequencies_of_plackett_luce():
    one = Cluster.uniform([DeviceClass("cpu")], [1])
    decoder = Decoder(Problem(TaskGraph([1.0, 2.0, 4.0]), one, ALONE))
    scores = Scores(np.array([1.0, 0.0, -0.5]), np.zeros(0), np.zeros((0, 0)), 0.0, np.zeros(3, np.int64))
    state, counts = new_state(3), {}
    for _ in range(4000):
        drawn = new_drawn(1, 3, 1, has_gradients=False)
        draw_schedules(decoder.pools, decoder.scratch, scores, True, state, drawn)
        order = tuple(np.argsort(drawn.start).tolist())
        counts[order] = counts.get(order, 0) + 1
    for order, count in counts.items():
        probability = np.exp(plackett_luce(scores.logit, np.array(order), np.zeros(3)))
        assert abs(count / 4000 - probability) < 4 * (probability / 4000) ** 0.5


@BOTH_WAYS
@pytest.mark.parametrize("has_holds", [False, True], ids=["free", "holds"])
@pytest.mark.parametrize("kind", ORDERED)
def test_drawn_schedule_is_valid(kind: str, has_holds: bool, by_list: bool):
    decoder = Decoder(ORDERED[kind])
    scores = scores_for(decoder, has_holds=has_holds)
    drawn = drawn_from(decoder, scores, 8, by_list=by_list, gradients=False)
    plan = decoder.placed(drawn.start, drawn.device)
    assert validate(plan) == ()
    assert plan.makespan == drawn.makespan.min()


@BOTH_WAYS
@pytest.mark.parametrize("kind", ORDERED)
def test_draw_gradients_average_to_nothing(kind: str, by_list: bool):
    """The expectation of the score function is 0 exactly if draws have the probabilities they claim."""
    decoder = Decoder(ORDERED[kind])
    scores = scores_for(decoder, has_holds=kind == "queries")
    drawn = drawn_from(decoder, scores, 3000, by_list=by_list, gradients=True)
    columns = [drawn.by_logit, drawn.by_hold] if kind == "queries" else [drawn.by_logit]
    for found in columns:
        error = found.std(axis=0) / 3000**0.5
        assert (np.abs(found.mean(axis=0)) <= 4.5 * error + 1e-12).all()
    assert drawn.by_logit.any()


@BOTH_WAYS
@pytest.mark.parametrize("odds", [-2.0, 2.0])
def test_hold_gradients_average_to_nothing_where_tasks_wait_long(odds: float, by_list: bool):
    """Whether a task holds is drawn once, however often it is passed over."""
    pool = Cluster.uniform([DeviceClass("pool", slots=1200)], [1], name="pool")
    decoder = Decoder(Problem(tpch_like(12, seed=1), pool, ALONE))
    n = len(decoder.a.run)
    scores = Scores(np.zeros(n), np.full(n, odds), np.zeros((0, 0)), 0.0, np.zeros(n, np.int64))
    total = drawn_from(decoder, scores, 1500, by_list=by_list, gradients=True).by_hold.sum(axis=1)
    assert abs(total.mean()) <= 4.0 * total.std() / 1500**0.5


@BOTH_WAYS
@pytest.mark.parametrize("has_holds", [False, True], ids=["free", "holds"])
@pytest.mark.parametrize("kind", ORDERED)
def test_draws_from_far_apart_scores_are_the_list_itself(kind: str, has_holds: bool, by_list: bool):
    decoder = Decoder(ORDERED[kind])
    scores = scores_for(decoder, scale=1e6, has_holds=False)
    if has_holds:
        scores = scores._replace(hold=np.where(np.arange(len(scores.logit)) % 2, 1e3, -1e3))
    drawn = drawn_from(decoder, scores, 2, by_list=by_list, gradients=False)
    wanted = decoder.schedule(scores.logit, hold=scores.hold > 0)
    assert drawn.makespan.tolist() == [wanted.makespan] * 2


@pytest.mark.parametrize("held", [1, 2, 7], ids=["all hold", "half hold", "few hold"])
def test_draws_of_a_crowd_follow_far_apart_scores(held: int):
    decoder = Decoder(CROWD)
    scores = scores_for(decoder, scale=1e6, has_holds=False)
    hold = np.arange(len(scores.logit)) % held == 0
    drawn = drawn_from(
        decoder, scores._replace(hold=np.where(hold, 1e3, -1e3)), 2, by_list=False, gradients=False
    )
    assert (drawn.makespan == decoder.schedule(scores.logit, hold=hold).makespan).all()


@BOTH_WAYS
def test_draws_do_not_depend_on_gradients_being_wanted(by_list: bool):
    decoder = Decoder(QUERIES)
    scores = scores_for(decoder, has_holds=True)
    with_them, without = (
        drawn_from(decoder, scores, 4, by_list=by_list, gradients=wanted) for wanted in (True, False)
    )
    assert with_them.makespan.tolist() == without.makespan.tolist()


@BOTH_WAYS
@pytest.mark.parametrize("duplicate", [False, True], ids=["no copies", "copies"])
def test_drawn_placement_is_valid(duplicate: bool, by_list: bool):
    decoder = Decoder(WORKFLOW)
    scores = scores_for(decoder, has_holds=False)
    t, kept = (new_timeline(decoder.a, len(decoder.a.release)) for _ in range(2))
    drawn = new_drawn(8, *decoder.a.run.shape, has_gradients=False)
    draw_placements(decoder.a, t, kept, scores, by_list, duplicate, new_state(1), drawn)
    plan = Schedule(WORKFLOW, **rows_of(kept))
    assert validate(plan) == ()
    assert plan.makespan == drawn.makespan.min()


@BOTH_WAYS
def test_placement_gradients_average_to_nothing(by_list: bool):
    decoder = Decoder(WORKFLOW)
    scores = scores_for(decoder, has_holds=False)
    t, kept = new_timeline(decoder.a), new_timeline(decoder.a)
    drawn = new_drawn(3000, *decoder.a.run.shape, has_gradients=True)
    draw_placements(decoder.a, t, kept, scores, by_list, False, new_state(1), drawn)
    for found in (drawn.by_logit, drawn.by_bias):
        error = found.std(axis=0) / 3000**0.5
        assert (np.abs(found.mean(axis=0)) <= 4.5 * error + 1e-12).all()
    assert drawn.by_bias.std() == pytest.approx(1.0 / scores.spread, rel=0.05)
