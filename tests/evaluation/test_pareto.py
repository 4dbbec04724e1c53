"""Fronts against their definition, the parts of a cluster that are tried, the figure."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import catalog
from weft.errors import InputError, UnsupportedError
from weft.evaluation.questions.pareto import Exploration, Point, draw, explore, front, grid, parts
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Floats, TaskGraph
from weft.model.problem import Problem
from weft.model.schedule import Schedule

TABLES = st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.5])] * 3), max_size=25)


def is_best(points: Floats, i: int) -> bool:
    """The definition, one pair at a time."""
    for other in points.tolist():
        pairs = list(zip(other, points[i].tolist(), strict=True))
        if all(a <= b for a, b in pairs) and any(a < b for a, b in pairs):
            return False
    return True


def plan(problem: Problem, name: str) -> Schedule:
    return catalog.schedule(problem, name).schedule


@pytest.fixture
def priced() -> Problem:
    """Twelve tasks on two fast, expensive devices and two slow, cheap ones."""
    fast = DeviceClass("fast", speed=4.0, price=9.0, watts=300.0, idle_watts=30.0)
    slow = DeviceClass("slow", price=1.0, watts=40.0, idle_watts=4.0)
    return Problem(TaskGraph(np.arange(600.0, 1800.0, 100.0)), Cluster.uniform([fast, slow], [2, 2]))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(TABLES)
def test_front_is_the_brute_force_one(rows: list[tuple[float, float, float]]) -> None:
    points = np.array(rows).reshape(-1, 3)
    assert front(points).tolist() == [is_best(points, i) for i in range(len(points))]


def test_front_keeps_equal_points() -> None:
    assert front(np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 2.0]])).tolist() == [True, True, False]


def test_front_of_nothing_is_empty() -> None:
    assert front(np.zeros((0, 3))).tolist() == []


@pytest.mark.parametrize(
    ("count", "values"), [(0, [0]), (1, [0, 1]), (2, [0, 1, 2]), (5, [0, 1, 2, 4, 5]), (8, [0, 1, 2, 4, 8])]
)
def test_grid_doubles_up_to_the_count(count: int, values: list[int]) -> None:
    assert grid(count) == values


def test_parts_are_all_combinations_where_few() -> None:
    found, possible = parts([2, 1], 100)
    assert found == [c for c in product((0, 1, 2), (0, 1)) if any(c)]
    assert possible == 5


def test_parts_start_with_the_whole_and_single_classes_where_many() -> None:
    found, possible = parts([8, 8, 8, 0], 20)
    assert possible == 124
    assert found[:4] == [(8, 8, 8, 0), (8, 0, 0, 0), (0, 8, 0, 0), (0, 0, 8, 0)]
    assert len(found) == len(set(found)) == 20
    assert found == parts([8, 8, 8, 0], 20)[0] != parts([8, 8, 8, 0], 20, seed=1)[0]


def test_parts_of_many_classes_need_no_enumeration() -> None:
    found, possible = parts([1] * 80, 100)
    assert (len(found), possible) == (100, 2**80 - 1)


def test_parts_refuse_none() -> None:
    with pytest.raises(InputError, match="most: expected a number >= 1, got 0"):
        parts([1], 0)


def test_explore_plans_on_every_part_with_every_scheduler(priced: Problem) -> None:
    told: list[tuple[int, int]] = []
    found = explore(priced, ["heft", "cpop"], plan, tell=lambda done, total: told.append((done, total)))
    assert (len(found.points), found.num_clusters, found.num_possible, found.num_infeasible) == (16, 8, 8, 0)
    assert told == [(k, 16) for k in range(16)]
    whole = next(p for p in found.points if dict(p.devices) == {"fast": 2, "slow": 2})
    assert whole.makespan == plan(priced, "heft").makespan


def test_explore_best_trades_time_for_money(priced: Problem) -> None:
    best = explore(priced, ["heft"], plan).best
    assert len(best) > 2
    assert [p.makespan for p in best] == sorted(p.makespan for p in best)
    assert dict(best[0].devices) == {"fast": 2, "slow": 2}
    assert "fast" not in min(best, key=lambda p: p.cost).devices


def test_explore_stays_below_the_cap_and_repeats(priced: Problem) -> None:
    first = explore(priced, ["heft", "cpop"], plan, most=7)
    assert (first.num_clusters, len(first.points)) == (3, 6)
    assert first.points == explore(priced, ["heft", "cpop"], plan, most=7).points


def test_explore_counts_parts_that_cannot_run_everything() -> None:
    large, little = DeviceClass("large", memory=10.0), DeviceClass("little", memory=2.0)
    problem = Problem(TaskGraph([1.0, 1.0], memory=[1.0, 9.0]), Cluster.uniform([large, little], [1, 1]))
    found = explore(problem, ["heft"], plan)
    assert (found.num_clusters, found.num_infeasible, len(found.points)) == (3, 1, 2)


def test_explore_skips_a_scheduler_that_refuses(priced: Problem) -> None:
    def refusing(problem: Problem, name: str) -> Schedule:
        if name == "cpop":
            raise UnsupportedError("cpop: not today")
        return plan(problem, name)

    found = explore(priced, ["heft", "cpop"], refusing)
    assert found.skipped == {"cpop": "not today"}
    assert {p.scheduler for p in found.points} == {"heft"}


def test_explore_refuses_no_scheduler(priced: Problem) -> None:
    with pytest.raises(InputError, match="at least one scheduler"):
        explore(priced, [], plan)


def test_best_of_equal_plans_is_the_first() -> None:
    twins = (Point({"a": 1}, "heft", 1.0, 1.0, 1.0), Point({"a": 1}, "cpop", 1.0, 1.0, 1.0))
    assert Exploration(twins, 1, 1, 0, {}).best == twins[:1]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_draw_writes_a_figure(priced: Problem, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"front{suffix}"
    draw(explore(priced, ["heft"], plan), path)
    start = b"\x89PNG" if suffix == ".png" else b"<?xml"
    assert path.read_bytes().startswith(start)
    again = path.read_bytes()
    draw(explore(priced, ["heft"], plan), path)
    assert path.read_bytes() == again


def test_draw_labels_axes_with_units(priced: Problem, tmp_path: Path) -> None:
    import matplotlib

    path = tmp_path / "front.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw(explore(priced, ["heft"], plan), path)
    text = path.read_text("utf-8")
    for label in ("makespan (s)", "cost (currency of the prices)", "energy (MJ)", "beaten by none"):
        assert label in text


def test_draw_takes_plans_that_cost_nothing(tmp_path: Path) -> None:
    free = Problem(TaskGraph([0.0]), Cluster.uniform([DeviceClass("cpu")], [1]))
    draw(explore(free, ["heft"], plan), tmp_path / "front.png")
    assert (tmp_path / "front.png").exists()


def test_draw_refuses_other_suffixes_and_nothing(priced: Problem, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends in .png or .svg"):
        draw(explore(priced, ["heft"], plan), tmp_path / "front.jpg")
    with pytest.raises(InputError, match="no plan was made"):
        draw(Exploration((), 0, 0, 0, {}), tmp_path / "front.png")
    with pytest.raises(InputError, match="cannot be written"):
        draw(explore(priced, ["heft"], plan), tmp_path / "no" / "front.png")
