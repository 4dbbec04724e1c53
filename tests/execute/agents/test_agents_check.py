"""The checker of agents' journals finds what is wrong in them."""

from __future__ import annotations

import copy

import pytest
from agents_in_memory import World, play, problem_of

from weft.execute.agents.check import Checker, Rules


@pytest.fixture(scope="module")
def world() -> World:
    found = World(problem_of("multi", num_tasks=20), 3)
    play(found)
    return found


def checked(clusters, source):
    problem = problem_of("multi", num_tasks=20)
    return Checker(Rules(problem.capacity.tolist(), [[16, 16]] * 2, 20)).check(clusters, source)


def acts(lines, key):
    return next(line for line in lines if line["kind"] == "act" and line.get(key))


def finished(lines):
    return next(line for line in lines if line["kind"] == "act" and line["did"]["finished"])


def place_twice(clusters, source):
    """Another cluster places what the first has taken."""
    task, at, units = acts(clusters[0], "place")["place"][0]
    line = next(one for one in clusters[1] if one["kind"] == "act")
    line["place"] = [*line.get("place", []), [task, at, units]]


def lose_a_task(clusters, source):
    finished(clusters[0])["did"]["finished"].pop()


def give_too_much(clusters, source):
    acts(clusters[0], "place")["place"][0][2] = [16, 17]


def obey_an_old_term(clusters, source):
    acts(clusters[0], "place")["term"] = -5


def skip_orders(clusters, source):
    acts(clusters[0], "place")["seq"] += 1


def jump_in_time(clusters, source):
    acts(clusters[0], "advance")["did"]["step"] += 1


def hide_an_end(clusters, source):
    next(line for line in source if line.get("ended"))["ended"].pop()


def forget_an_arrival(clusters, source):
    source.remove(next(line for line in source if line["kind"] == "task"))


def withdraw_for_no_reason(clusters, source):
    line = finished(clusters[0])
    task = line["did"]["finished"][0]
    after = clusters[0].index(line) + 1
    later = next(one for one in clusters[0][after:] if one["kind"] == "act")
    later["withdraw"] = [task]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (place_twice, "was placed on clusters"),
        (lose_a_task, "were complete"),
        (give_too_much, "has [16, 17] units"),
        (obey_an_old_term, "obeyed (-5, 1)"),
        (skip_orders, "in place of"),
        (jump_in_time, "step"),
        (hide_an_end, "the source was not told"),
        (forget_an_arrival, "19 tasks of 20 arrived"),
        (withdraw_for_no_reason, "was never given up"),
    ],
)
def test_check_finds_damage(world, damage, said):
    clusters, source = copy.deepcopy((world.journals, world.journal))
    damage(clusters, source)
    faults = checked(clusters, source).faults
    assert any(said in fault for fault in faults), faults


def test_check_finds_nothing_in_a_good_run(world):
    found = checked(world.journals, world.journal)
    assert found.ok
    assert (found.num_completed, found.num_terms, found.num_again) == (20, 1, 0)
    assert found.mean_completion > 2.0
