"""What ``weft.schedule`` says about a plan, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import weft
from weft import catalog, doctor
from weft.kinds import ELASTIC, QUEUES, TASKS, Kind
from weft.model.bounds import Bound
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.scenarios import scenario


@pytest.fixture
def without_copies(fork_problem: Problem) -> Schedule:
    """The optimum without copies: 21, where copies reach 11."""
    return Schedule(fork_problem, [0, 1, 2], [0, 0, 0], [0.0, 1.0, 11.0], [1.0, 11.0, 21.0])


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (Bound(21.0, "cp-sat", copies=False), "optimal among schedules without copies (bound 21 by cp-sat)"),
        (Bound(20.0, "x", copies=False), "at most 5.0 % above the optimum among schedules without copies"),
        (Bound(20.995, "x"), "less than 0.1 % above the optimum (bound 20.995 by x)"),
        (Bound(21.0, "x"), "optimal (bound 21 by x)"),
        (Bound(20.0, "x"), "at most 5.0 % above the optimum (bound 20 by x)"),
    ],
)
def test_quality_says_among_which_schedules(bound: Bound, text: str, without_copies: Schedule):
    assert catalog.quality(replace(without_copies, lower_bounds=(bound,))).startswith(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(2e-5, "20 us"), (0.0123, "12.3 ms"), (2.5, "2.5 s"), (600.0, "10 min")]
)
def test_result_says_how_long_planning_took(seconds: float, text: str, without_copies: Schedule):
    assert str(weft.Result("heft", without_copies, seconds, 0, True)).endswith(f"planned in {text}")


@pytest.mark.parametrize("given", [{}, {"effort": 5}, {"budget": 0.1}])
def test_schedule_warms_up_before_it_measures(
    given: dict[str, float], monkeypatch: pytest.MonkeyPatch, fork_problem: Problem
):
    warmed: list[tuple[str, ...]] = []
    monkeypatch.setattr(doctor, "warm", warmed.append)
    monkeypatch.setattr(catalog, "_warmed", [])
    for _ in range(2):
        weft.schedule(fork_problem, "heft", **given)
    assert warmed == [("heft",)]


def test_schedule_of_a_file_name_names_read_problem():
    with pytest.raises(weft.InputError, match=r"got str.*weft\.read_problem\('a\.json'\)"):
        weft.schedule("a.json")


@pytest.mark.parametrize(
    ("kind", "card"),
    [(None, "conditional-ppo"), (QUEUES, "conditional-ppo"), (TASKS, "adas-ppo"), (ELASTIC, None)],
)
def test_policy_file_of_a_short_name_depends_on_what_it_acts_on(kind: Kind | None, card: str | None):
    found = catalog.policy_file("ppo", kind)
    assert found is None if card is None else Path(str(found)).stem == card


def test_scheduler_for_a_problem_takes_the_policy_that_acts_there():
    pipelines = scenario("adas-tx2", configuration=3).problem("test", 0)
    assert Path(catalog.scheduler_for("ppo", pipelines).name).stem in ("ppo", "adas-ppo")
    fork = scenario("workflows", tasks=5).problem("test", 0)
    with pytest.raises(weft.InputError, match="queues by kind"):
        catalog.find("conditional-ppo", TASKS)
    assert "weft train workflows-dqn" in str(catalog.scheduler_for("ppo", fork).supports(fork))
