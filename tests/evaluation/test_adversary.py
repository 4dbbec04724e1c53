"""Instances of the adversary: moves stay in their space, shrinking keeps what it must."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.evaluation.questions.adversary import (
    MOVES,
    REMOVALS,
    Instance,
    Space,
    changed_parameters,
    draw_instance,
    draw_parameters,
    neighbour,
    shrink,
)

SPACES = st.builds(Space, st.integers(3, 9), st.integers(2, 4), st.floats(1.5, 100.0), st.booleans())
SEEDS = st.integers(0, 2**32 - 1)


def drawn(space: Space, seed: int, moves: int = 0) -> Instance:
    rng = np.random.default_rng(seed)
    instance = draw_instance(draw_parameters(space, rng), space, rng)
    for _ in range(moves):
        instance = neighbour(instance, space, rng)
    return instance


def assert_inside(instance: Instance, space: Space) -> None:
    assert 1 <= instance.num_tasks <= space.tasks
    assert 1 <= instance.num_devices <= space.devices
    assert (instance.edges[:, 0] < instance.edges[:, 1]).all()
    numbers = [*instance.work, *instance.speed, *instance.data[instance.data > 0], instance.bandwidth]
    own = instance.own[~np.isnan(instance.own)]
    assert all(1 <= value <= space.spread for value in [*numbers, *own])
    assert not (space.is_related and len(own))
    problem = instance.problem()
    assert (problem.num_tasks, problem.cluster.num_devices) == instance.size[:2]


@given(SPACES, SEEDS, st.integers(0, 40))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_neighbour_stays_in_the_space(space: Space, seed: int, moves: int) -> None:
    assert_inside(drawn(space, seed, moves), space)


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_move_leaves_the_instance_as_it_was(move) -> None:
    space = Space(8, 4)
    instance = drawn(space, 3)
    before = [np.copy(getattr(instance, field.name)) for field in fields(instance)]
    rng = np.random.default_rng(0)
    moved = [move(instance, space, rng) for _ in range(10)]
    assert any(other is not None for other in moved)
    for field, value in zip(fields(instance), before, strict=True):
        np.testing.assert_array_equal(getattr(instance, field.name), value)


@pytest.mark.parametrize("part", range(len(REMOVALS)))
def test_removal_takes_one_away(part: int) -> None:
    instance = drawn(Space(8, 4), 5, moves=10)
    assert instance.size[part] > 1
    for k in range(instance.size[part]):
        assert REMOVALS[part](instance, k).size[part] == instance.size[part] - 1


def test_without_task_renames_the_ends_of_edges() -> None:
    whole = Instance(
        np.array([1.0, 2.0, 3.0]),
        np.full((3, 1), np.nan),
        np.ones(1),
        np.array([[0, 1], [0, 2], [1, 2]]),
        np.array([4.0, 5.0, 6.0]),
        1.0,
    )
    left = REMOVALS[0](whole, 1)
    assert (left.work.tolist(), left.edges.tolist(), left.data.tolist()) == ([1.0, 3.0], [[0, 1]], [5.0])


@given(SEEDS, st.integers(1, 6), st.integers(0, 4))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_shrink_keeps_what_holds_and_no_more(seed: int, least_tasks: int, least_edges: int) -> None:
    def holds(instance: Instance) -> bool:
        return instance.num_tasks >= least_tasks and instance.num_edges >= least_edges

    instance = drawn(Space(9, 4), seed, moves=5)
    small = shrink(instance, holds)
    if not holds(instance):
        assert small.size <= instance.size
        return
    assert holds(small)
    assert small.num_devices == 1
    assert all(not holds(REMOVALS[2](small, e)) for e in range(small.num_edges))


def test_shrink_of_what_never_holds_is_the_same() -> None:
    instance = drawn(Space(8, 4), 1)
    assert shrink(instance, lambda smaller: False) is instance


def test_changed_parameters_stay_in_the_space() -> None:
    space, rng = Space(5, 2, is_related=True), np.random.default_rng(0)
    at = draw_parameters(space, rng)
    for _ in range(50):
        at = changed_parameters(at, space, rng)
        assert_inside(draw_instance(at, space, rng), space)


def test_space_rounds_to_two_digits_within_the_spread() -> None:
    space = Space(spread=50.0)
    assert [space.rounded(value) for value in (0.2, 3.14159, 27.6, 80.0)] == [1.0, 3.1, 28.0, 50.0]


WRONG = [
    ({"tasks": 2}, "tasks: expected 3 to 10,000 tasks, got 2"),
    ({"tasks": 10**9}, "tasks: expected 3 to 10,000 tasks, got 1,000,000,000"),
    ({"devices": 10**9}, "devices: expected 2 to 1,000 devices, got 1,000,000,000"),
    ({"devices": 1}, "devices: expected 2 to 1,000 devices, got 1"),
    ({"spread": 1.0}, "spread: expected more than 1 and at most 1e+06, got 1"),
    ({"spread": float("nan")}, "spread: expected more than 1 and at most 1e+06, got nan"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_space_refuses(change: dict[str, float], message: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(Space(), **change)
    assert str(caught.value) == message
