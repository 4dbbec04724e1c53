"""Generated graphs: same seed same columns, shapes and statistics as stated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.model.generate import (
    FAMILIES,
    GPU_KINDS,
    Knobs,
    flexible_jobshop,
    generate,
    jobshop,
    jobshop_cluster,
    opgraph_cluster,
    tpch_cluster,
    tpch_like,
)
from weft.model.graph import TaskGraph
from weft.model.problem import Problem

COLUMNS = ("work", "sources", "targets", "data", "kind", "times", "slots")


def columns(graph: TaskGraph) -> list[bytes]:
    return [getattr(graph, name).tobytes() for name in COLUMNS]


@given(st.sampled_from(sorted(FAMILIES)), st.integers(8, 120), st.integers(0, 10**9))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_generate_points_upward_without_duplicates(family: str, size: int, seed: int) -> None:
    size = max(size, FAMILIES[family].least)
    graph = generate(family, size, seed=seed)
    assert graph.num_tasks == size
    assert (graph.sources < graph.targets).all()
    ends = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    assert len(ends) == len(set(ends))


@pytest.mark.parametrize("family", FAMILIES)
def test_generate_same_seed_gives_equal_columns(family: str) -> None:
    assert columns(generate(family, 300, seed=5)) == columns(generate(family, 300, seed=5))


@pytest.mark.parametrize("family", FAMILIES)
def test_generate_other_seed_gives_other_graph(family: str) -> None:
    assert columns(generate(family, 300, seed=5)) != columns(generate(family, 300, seed=6))


@pytest.mark.parametrize("family", FAMILIES)
def test_generate_takes_the_least_size(family: str) -> None:
    least = FAMILIES[family].least
    assert generate(family, least).num_tasks == least


def test_families_hold_every_promised_shape() -> None:
    promised = {"layered", "fork-join", "erdos-renyi", "block-model", "in-tree", "out-tree", "chain"}
    assert promised | {"opgraph-layered", "opgraph-er", "opgraph-sbm"} <= set(FAMILIES)
    assert all(family.summary for family in FAMILIES.values())


def test_structure_does_not_depend_on_cost_knobs() -> None:
    plain = generate("layered", 200, seed=1)
    other = generate("layered", 200, seed=1, knobs=Knobs(work_cv=2.0, cost="log-normal", data_cv=3.0))
    assert plain.sources.tobytes() == other.sources.tobytes()
    assert plain.kind.tobytes() == other.kind.tobytes()
    assert plain.work.tobytes() != other.work.tobytes()


# -- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["layered", "erdos-renyi"])
@pytest.mark.parametrize("density", [1.5, 4.0])
def test_edge_count_follows_density(family: str, density: float) -> None:
    graph = generate(family, 20_000, seed=2, knobs=Knobs(density=density))
    assert graph.num_edges == pytest.approx(density * 20_000, rel=0.03)


def test_layered_tasks_have_a_parent_in_the_layer_before() -> None:
    graph = generate("layered", 500, seed=3, knobs=Knobs(jump=3))
    depth = np.zeros(500, dtype=int)
    for source, target in zip(graph.sources, graph.targets, strict=True):
        depth[target] = max(depth[target], depth[source] + 1)
    orphans = np.flatnonzero(np.diff(graph.predecessor_pointer) == 0)
    assert (np.diff(depth) >= 0).all()
    assert orphans.tolist() == list(range(len(orphans)))


@pytest.mark.parametrize(("parallelism", "layers"), [(0.5, 40), (1.0, 20), (2.0, 10)])
def test_layered_depth_follows_parallelism(parallelism: float, layers: int) -> None:
    graph = generate("layered", 400, seed=0, knobs=Knobs(parallelism=parallelism, kind_by="level"))
    numbered = generate(
        "layered",
        400,
        knobs=Knobs(parallelism=parallelism, kind_by="level", kinds=tuple(f"l{i}" for i in range(64))),
    )
    assert numbered.kind.max() + 1 == layers
    assert graph.kinds == GPU_KINDS


def test_layered_saturates_when_the_density_is_impossible() -> None:
    graph = generate("layered", 9, knobs=Knobs(density=100.0, jump=9, parallelism=1 / 3))
    assert graph.num_edges == 9 * 8 // 2


def test_fork_join_alternates_one_and_many() -> None:
    graph = generate("fork-join", 31, knobs=Knobs(parallelism=9 / 31**0.5))
    fan_out = np.diff(graph.successor_pointer)
    assert np.flatnonzero(fan_out > 1).tolist() == [0, 10, 20]
    assert fan_out[0] == 9
    assert np.diff(graph.predecessor_pointer)[30] == 9


@pytest.mark.parametrize("family", ["out-tree", "in-tree"])
def test_trees_have_one_root_and_one_edge_less(family: str) -> None:
    graph = generate(family, 200, seed=1)
    pointer = graph.predecessor_pointer if family == "out-tree" else graph.successor_pointer
    assert graph.num_edges == 199
    assert sorted(np.diff(pointer).tolist()) == [0] + [1] * 199


def test_block_model_is_denser_inside_communities() -> None:
    knobs = Knobs(communities=2, p_in=1.0, p_out=0.0)
    graph = generate("block-model", 20, seed=4, knobs=knobs)
    assert graph.num_edges == 2 * (10 * 9 // 2)


def test_mosaic_ends_in_one_task() -> None:
    graph = generate("mosaic", 100)
    assert np.flatnonzero(np.diff(graph.successor_pointer) == 0).tolist() == [99]


@pytest.mark.parametrize("size", [1, 2, 9, 150])
def test_phases_have_one_task_or_one_width_and_feed_the_next(size: int) -> None:
    graph = generate("phases", size, seed=size)
    assert graph.num_tasks == size and (graph.sources < graph.targets).all()
    assert (np.diff(graph.predecessor_pointer)[1:] > 0).any() == (size > 1)


# -- work, data, kinds ----------------------------------------------------------------------------


@pytest.mark.parametrize("cost", ["log-normal", "uniform"])
def test_work_has_the_stated_mean_and_cv(cost: str) -> None:
    work = generate("layered", 20_000, seed=1, knobs=Knobs(cost=cost, mean_work=7.0, work_cv=0.4)).work
    assert work.mean() == pytest.approx(7.0, rel=0.02)
    assert work.std() / work.mean() == pytest.approx(0.4, rel=0.03)


def test_level_spread_is_shared_by_tasks_of_one_depth() -> None:
    plain, uneven = (generate("fork-join", 40, seed=2, knobs=Knobs(level_spread=x)) for x in (0.0, 1.5))
    factor = uneven.work / plain.work
    forked = np.flatnonzero(plain.sources == 0)
    assert len(np.unique(factor[plain.targets[forked]].round(9))) == 1 < len(np.unique(factor.round(9)))
    assert plain.work.tobytes() == generate("fork-join", 40, seed=2).work.tobytes()


def test_data_has_the_stated_mean_and_cv() -> None:
    data = generate("layered", 20_000, seed=1, knobs=Knobs(mean_data=3e6, data_cv=0.8)).data
    assert data.mean() == pytest.approx(3e6, rel=0.02)
    assert data.std() / data.mean() == pytest.approx(0.8, rel=0.05)


def test_ccr_holds_on_the_stated_bandwidth() -> None:
    graph = generate("layered", 100, knobs=Knobs(ccr=2.5, bandwidth=1e6))
    problem = Problem(graph, jobshop_cluster(3).replaced(bandwidth=np.array([[1e6]])))
    assert problem.ccr == pytest.approx(2.5)


def test_heterogeneity_gives_times_per_class() -> None:
    knobs = Knobs(classes=("a100", "t4"), heterogeneity=0.3)
    graph = generate("layered", 20_000, seed=1, knobs=knobs)
    factor = graph.times / graph.work[:, None]
    assert graph.classes == ("a100", "t4")
    assert factor.mean() == pytest.approx(1.0, rel=0.01)
    assert factor.std() == pytest.approx(0.3, rel=0.03)


def test_kinds_by_level_are_equal_along_a_level() -> None:
    graph = generate("fork-join", 31, knobs=Knobs(kind_by="level", kinds=("one", "many")))
    fan_out = np.diff(graph.successor_pointer)
    assert (graph.kind[fan_out > 1] == 0).all()
    assert (graph.kind[1:3] == 1).all()


# -- instances of studies -------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["opgraph-layered", "opgraph-er", "opgraph-sbm"])
def test_opgraphs_run_on_their_own_type_only(family: str) -> None:
    graph = generate(family, 300, seed=1)
    problem = Problem(graph, opgraph_cluster())
    assert problem.cluster.num_devices == 6
    assert (np.isfinite(problem.run_times).argmax(axis=1) == graph.kind).all()
    assert (np.isfinite(problem.run_times).sum(axis=1) == 1).all()


def test_opgraph_durations_are_whole_and_types_in_proportion() -> None:
    graph = generate("opgraph-layered", 20_000, seed=1)
    duration = graph.times.min(axis=1)
    assert (duration == np.rint(duration)).all()
    assert duration.min() >= 1
    assert duration.mean() == pytest.approx(254, rel=0.05)
    assert np.bincount(graph.kind) / 20_000 == pytest.approx([1 / 6, 1 / 6, 2 / 3], abs=0.02)


def test_jobshop_visits_every_machine_once_per_job() -> None:
    graph = jobshop(4, 3, seed=2)
    machine = np.isfinite(graph.times).argmax(axis=1).reshape(4, 3)
    assert np.sort(machine, axis=1).tolist() == [[0, 1, 2]] * 4
    assert (graph.names[0], graph.names[11]) == ("J0-O0", "J3-O2")
    assert graph.num_edges == 4 * 2
    assert Problem(graph, jobshop_cluster(3)).best_run_times.max() <= 99


def test_flexible_jobshop_offers_up_to_the_stated_machines() -> None:
    times = flexible_jobshop(20, 6, seed=1, most_machines=3).times
    offered = np.isfinite(times).sum(axis=1)
    assert (offered.min(), offered.max()) == (1, 3)


def test_tpch_like_matches_the_published_statistics() -> None:
    graph = tpch_like(4000, seed=3)
    assert graph.time_unit == "ms"
    assert graph.num_tasks / 4000 == pytest.approx(9.18, rel=0.04)
    assert graph.num_edges / 4000 == pytest.approx(8.5, rel=0.04)
    assert np.median(graph.work) == pytest.approx(313, rel=0.15)
    assert (graph.slots.min(), graph.slots.max()) == (1, 593)
    assert np.median(graph.slots) == 200
    assert Problem(graph, tpch_cluster()).num_tasks == graph.num_tasks


def test_tpch_like_queries_have_2_to_18_stages() -> None:
    graph = tpch_like(1000, seed=3)
    stages = np.bincount([int(name[1:].split("-")[0]) for name in graph.names])
    assert (stages.min(), stages.max()) == (2, 18)


@pytest.mark.parametrize("seed", [0, 9])
def test_instances_repeat_with_their_seed(seed: int) -> None:
    for make in (lambda s: jobshop(5, 4, seed=s), lambda s: tpch_like(5, seed=s)):
        assert columns(make(seed)) == columns(make(seed))
        assert columns(make(seed)) != columns(make(seed + 1))


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("knobs", "text"),
    [
        ({"parallelism": 0.0}, "parallelism: expected a finite number > 0, got 0.0"),
        ({"density": float("nan")}, "density: expected a finite number >= 0, got nan"),
        ({"p_in": 1.5}, "p_in: expected a probability, got 1.5"),
        ({"communities": 0}, "communities: expected a whole number >= 1, got 0"),
        ({"cost": "gamma"}, "cost: expected log-normal or uniform, got gamma"),
        ({"cost": "uniform", "work_cv": 0.9}, "work_cv: expected at most 0.577 for uniform work, got 0.9"),
        ({"kind_by": "job"}, "kind_by: expected random or level, got job"),
        ({"kinds": ()}, "kinds: expected at least one kind, got none"),
        ({"ccr": -1.0}, "ccr: expected a finite ratio >= 0, got -1.0"),
        ({"data_cv": 1e308}, "data_cv: expected a number from 0 to 1000, got 1e+308"),
        ({"work_cv": float("nan")}, "work_cv: expected a number from 0 to 1000, got nan"),
        ({"heterogeneity": 0.2}, "classes: expected the classes that the heterogeneity is between, got none"),
    ],
)
def test_knobs_refuse_bad_values(knobs: dict[str, object], text: str) -> None:
    with pytest.raises(InputError) as caught:
        Knobs(**knobs)  # type: ignore[arg-type]
    assert str(caught.value) == text


def test_generate_suggests_the_family_meant() -> None:
    with pytest.raises(InputError, match="no family 'layred'; did you mean 'layered'"):
        generate("layred", 10)


def test_generate_refuses_a_size_below_the_least() -> None:
    with pytest.raises(InputError, match="size: expected at least 3 tasks for fork-join, got 2"):
        generate("fork-join", 2)


def test_generate_refuses_a_size_beyond_memory() -> None:
    with pytest.raises(InputError, match="size: expected at most 10,000,000 tasks, got 999,999,999,999"):
        generate("layered", 999_999_999_999)


@pytest.mark.parametrize("knobs", [{"mean_work": 1e308}, {"mean_data": 1e308}])
def test_generate_refuses_what_overflows_without_a_warning(knobs: dict[str, float]) -> None:
    with pytest.raises(InputError, match=r"expected (a )?finite"):
        generate("layered", 200, knobs=Knobs(**knobs))  # type: ignore[arg-type]


def test_generate_refuses_knobs_for_fixed_distributions() -> None:
    with pytest.raises(InputError, match="opgraph-er has fixed distributions"):
        generate("opgraph-er", 10, knobs=Knobs())


def test_generate_refuses_too_many_edges_before_drawing() -> None:
    with pytest.raises(InputError, match="expected at most 50000000 edges, got 9"):
        generate("block-model", 1_000_000)
