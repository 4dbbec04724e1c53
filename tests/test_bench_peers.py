"""The plain twins that benchmarks time weft against: they must say the same."""

from __future__ import annotations

import pytest

from benchmarks import saga
from benchmarks._plain_heft import plain_heft
from benchmarks._shops import SHOPS, Proof, Row, textbook
from weft.io.jssp import job_shop_problem
from weft.schedulers.exact.planner import Exact
from weft.schedulers.planners.lists import Heft


@pytest.mark.parametrize("kind", saga.KINDS)
@pytest.mark.parametrize("ccr", [0.1, 5.0])
def test_plain_heft_and_weft_make_the_same_schedule(kind: str, ccr: float) -> None:
    case = saga.draw_case(kind, 60, 5, ccr, 3)
    plain = plain_heft(case.work, case.edges, case.speeds, case.bandwidth)
    assert Heft().plan(saga.as_problem(case)).makespan == pytest.approx(plain, rel=1e-12)


def test_plain_heft_weighs_transfers_as_the_peer_does_if_asked() -> None:
    case = saga.draw_case("layered", 60, 3, 5.0, 3)
    instance = (case.work, case.edges, case.speeds, case.bandwidth)
    assert plain_heft(*instance) != plain_heft(*instance, self_links=True)


def test_textbook_model_proves_a_small_shop() -> None:
    problem = job_shop_problem([[0, 1], [1, 0], [0, 1]], [[3, 2], [2, 4], [1, 5]])
    found = textbook(problem, limit=5.0, workers=1, seed=0)
    best = Exact().plan(problem).makespan
    assert (found.makespan, found.bound) == (best, best)


NEVER = float("inf")
VERDICTS = [
    (2.1, 1.0, True),
    (2.3, 1.0, False),
    (NEVER, NEVER, True),
    (NEVER, 2.0, False),
    (NEVER, 25.0, True),
]


@pytest.mark.parametrize(("ours", "theirs", "is_in_time"), VERDICTS)
def test_shops_verdict_allows_a_fifth_and_a_second(ours: float, theirs: float, is_in_time: bool) -> None:
    sides = (Proof(seconds, seconds, 1.0, 1.0) for seconds in (ours, theirs))
    assert Row("ft06", *sides, limit=30.0, workers=1, is_sound=True).is_in_time is is_in_time


def test_shops_are_the_published_ones() -> None:
    assert len(SHOPS) == len(set(SHOPS)) == 28
