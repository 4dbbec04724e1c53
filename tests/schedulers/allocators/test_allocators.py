"""Allocators: the rules one by one, all of them against the oracle, and against reference means."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarks._edge_reference import REFERENCES, Reference, distance, measured
from weft import catalog
from weft.errors import InputError, UnsupportedError
from weft.kinds import ELASTIC, TASKS
from weft.model.elastic import ElasticProblem, amdahl, insensitive, saturating
from weft.model.elastic_oracle import first_fault
from weft.model.elastic_run import CLUSTER, RAN, STEP, TASK, UNITS
from weft.scenarios import scenario
from weft.schedulers.allocators.own import own_seeds
from weft.schedulers.allocators.protocol import Allocation
from weft.schedulers.allocators.rules import static_units
from weft.schedulers.allocators.running import run_all, tuned_units
from weft.schedulers.allocators.speeds import Beliefs, best_alone

NAMES = [name for name in catalog.ALLOCATORS if name != "static-k"]


def problem_of(name: str, **settings: object) -> ElasticProblem:
    return scenario(name, **settings).elastic("test", 0)


def find(name: str):
    return catalog.find(name, ELASTIC)


VARIANTS = {
    "edge-single-3": {},
    "edge-multi-3": {"links": "bandwidth", "pending": "earliest", "conflicts": "count"},
    "edge-hetero-6": {"tasks": 120},
    "edge-testbed-3": {"tasks": 60, "progress": "loss", "noise": 0.05},
    "edge-pointer": {"tasks": 60},
}


@pytest.mark.parametrize("where", VARIANTS)
@pytest.mark.parametrize("name", NAMES)
def test_every_rule_keeps_all_rules(name: str, where: str):
    for run in run_all(find(name), problem_of(where, **VARIANTS[where]), [1, 2]):
        assert first_fault(run) is None
        assert run.mean_completion >= 1.0


@pytest.mark.parametrize("name", NAMES)
def test_a_run_depends_on_its_seed_alone(name: str):
    problem = problem_of("edge-single-3", tasks=40)
    alone = run_all(find(name), problem, [7])[0]
    among = run_all(find(name), problem, [3, 7, 5])[1]
    assert alone.trace == among.trace


@pytest.mark.parametrize("one", REFERENCES, ids=lambda one: f"{one.where}-{one.name}")
def test_means_are_within_two_standard_errors_of_the_reference(one: Reference):
    assert abs(distance(one, *measured(one, 20))) <= 2.0


def test_repaired_optimus_is_far_better_than_the_swapped_one():
    problem = problem_of("edge-single-3", tasks=96)
    right, swapped = (
        np.mean([run.mean_completion for run in run_all(find(name), problem, range(100, 108))])
        for name in ("optimus", "optimus-swapped")
    )
    assert right < 0.8 * swapped


def test_optimus_measures_and_fits_anew_in_each_world_step():
    noisy, still = problem_of("edge-single-3"), problem_of("edge-multi-3")
    beliefs, fixed = (Beliefs(problem, 3, is_swapped=False) for problem in (noisy, still))
    assert fixed.are_fixed and (fixed.at(0) == fixed.at(90)).all()
    assert not beliefs.are_fixed and not np.allclose(beliefs.at(0), beliefs.at(1))
    assert (beliefs.at(40) == Beliefs(noisy, 3, is_swapped=False).at(40)).all()  # whatever was asked before
    steps = np.arange(200)
    gpus = beliefs.measured(steps)[:, 1].reshape(-1, 17, 17)[:, 4]
    assert np.abs(gpus.mean(0)[1:] - np.tanh(np.arange(1, 17) / 16) * np.sqrt(1.2)).max() < 0.02
    assert (gpus[:, 0] == 0.0).all()


def test_optimus_believes_that_gpus_alone_speed_up_the_sensitive_type():
    problem = problem_of("edge-multi-3")
    right = Beliefs(problem, 0, is_swapped=False).at(0)[1].reshape(17, 17)
    swapped = Beliefs(problem, 0, is_swapped=True).at(0)[1].reshape(17, 17)
    assert right[4, 12] > 2.0 * right[4, 2]
    assert right[12, 4] < 1.3 * right[2, 4]  # CPUs change little
    assert swapped[12, 4] > 2.0 * swapped[2, 4]


def test_swapped_fit_pairs_lists_of_unequal_grids_as_they_come():
    problem = problem_of("edge-testbed-3")
    swapped, right = (Beliefs(problem, 0, is_swapped=swapped).at(0) for swapped in (True, False))
    assert swapped.shape == (3, 17 * 9)
    assert not np.allclose(swapped, right)


def test_best_units_alone_are_the_cheapest_then_the_fastest():
    units, steps = best_alone(problem_of("edge-multi-3"))
    assert units.tolist() == [[2, 1], [2, 10]]
    assert steps.tolist() == [4.0, 2.0]


def test_static_gives_units_of_what_makes_a_type_faster():
    assert static_units(problem_of("edge-multi-3"), 10).tolist() == [[2, 1], [2, 10]]
    assert static_units(problem_of("edge-testbed-3"), 10)[1].tolist() == [2, 8]
    assert static_units(problem_of("edge-pointer"), 10).tolist() == [[3, 3], [3, 3]]


def test_tuned_static_is_at_least_as_good_as_static_10():
    problem = problem_of("edge-multi-3", tasks=96)
    tuned, ten = (
        np.mean([run.mean_completion for run in run_all(find(name), problem, range(12))])
        for name in ("static-k", "static-10")
    )
    assert tuned <= ten + 0.1
    assert (tuned_units(problem) == tuned_units(problem)).all()


def test_min_gives_what_is_needed_and_never_changes_it():
    run = run_all(find("min"), problem_of("edge-single-3", tasks=40), [1])[0]
    assert (run.rows[:, UNITS:] == [2, 1]).all()


def test_tiresias_min_gives_one_gpu_and_divides_the_cpus():
    run = run_all(find("tiresias-min"), problem_of("edge-single-3", tasks=40), [1])[0]
    assert (run.rows[:, UNITS + 1] <= 1).all()
    for step, cluster in {(row[STEP], row[CLUSTER]) for row in run.rows.tolist()}:
        mine = run.rows[(run.rows[:, STEP] == step) & (run.rows[:, CLUSTER] == cluster)]
        cpus = mine[:, UNITS]
        assert cpus.max() - cpus.min() <= 1 and cpus.sum() == 16


def test_tiresias_gives_all_gpus_where_tasks_may_have_them():
    run = run_all(find("tiresias"), problem_of("edge-multi-3", tasks=60), [1])[0]
    for step, cluster in {(row[STEP], row[CLUSTER]) for row in run.rows.tolist()}:
        mine = run.rows[(run.rows[:, STEP] == step) & (run.rows[:, CLUSTER] == cluster)]
        assert mine[:, UNITS + 1].sum() == 16


def test_drf_gives_equal_shares():
    run = run_all(find("drf"), problem_of("edge-multi-3", tasks=60), [1])[0]
    for step, cluster in {(row[STEP], row[CLUSTER]) for row in run.rows.tolist()}:
        mine = run.rows[(run.rows[:, STEP] == step) & (run.rows[:, CLUSTER] == cluster)][:, UNITS]
        assert mine.max() - mine.min() <= 2


def three_resources(most_memory: int = 4) -> ElasticProblem:
    types = (
        insensitive("a", (1, 1, 4), (8, 8, most_memory), 0.3),
        amdahl("b", (1, 1, 8), (8, 8, 8), 6.0, (0.2, 0.5, 0.0)),
    )
    capacity = np.array([[16, 8, 32], [8, 4, 16]])
    return ElasticProblem(capacity, types, 40, 2.0, resources=("cpu", "gpu", "memory"), conflicts="own")


@pytest.mark.parametrize(
    "name", ["random", "min", "static-5", "shortest-first", "tiresias", "drf", "optimus", "optimus-swapped"]
)
def test_a_third_resource_is_rigid(name: str):
    assert first_fault(run_all(find(name), three_resources(), [1])[0]) is None


def test_a_rigid_resource_has_no_place_in_the_fit_of_optimus():
    """With memory that never limits, Optimus decides as if there were none."""
    problem = three_resources()
    plenty = problem.replaced(capacity=np.array([[16, 8, 800], [8, 4, 800]]))
    two = tuple(
        dataclasses.replace(
            kind, least=kind.least[:2], most=kind.most[:2], rate=kind.rate[..., 0], base=kind.base[..., 0]
        )
        for kind in problem.types
    )
    without = problem.replaced(capacity=problem.capacity[:, :2], types=two, resources=("cpu", "gpu"))
    for name in ("optimus", "optimus-swapped"):
        three, alone = (run_all(find(name), one, [1])[0] for one in (plenty, without))
        assert (three.rows[:, : UNITS + 2] == alone.rows).all() and (three.finish == alone.finish).all()


def test_optimus_says_that_it_knows_two_resources_that_are_not_rigid():
    with pytest.raises(UnsupportedError, match="two resources, and tasks may have more than they need of 3"):
        run_all(find("optimus"), three_resources(9), [1])


# -- others' code ----------------------------------------------------------------------------------


class Least:
    """Takes the first task that fits, with what it needs."""

    name = "least"

    def begin(self, problem, seeds):
        return self

    def decide(self, sight):
        num_envs, num_clusters, _ = sight.slot.shape
        slot, units = np.full((num_envs, num_clusters), -1), np.zeros((num_envs, num_clusters, 2), np.int64)
        for b, n in np.argwhere(sight.active):
            for k, row in enumerate(sight.slot[b, n]):
                if row >= 0 and (sight.least[b, row] <= sight.most[b, n]).all():
                    slot[b, n], units[b, n] = k, sight.least[b, row]
                    break
        return Allocation(slot, units, np.ones(slot.shape))


def test_anybodys_object_acts_as_an_allocator():
    problem = problem_of("edge-multi-3", tasks=40)
    runs = run_all(find(Least()), problem, [1, 2, 3])
    assert [first_fault(run) for run in runs] == [None] * 3
    alone = run_all(find(Least()), problem, [2])[0]
    assert alone.trace == runs[1].trace


@pytest.mark.parametrize(("answer", "got"), [(3, "3"), (None, "None"), ((1, 2), "2 parts")])
def test_what_decide_must_return_is_said(answer: object, got: str):
    class Mine:
        name = "mine"

        def begin(self, problem, seeds):
            return self

        def decide(self, sight):
            return answer

    with pytest.raises(InputError) as raised:
        run_all(find(Mine()), problem_of("edge-multi-3", tasks=4), [1])
    said = "decide: expected an Allocation: slot, units, chance and perhaps again, got "
    assert str(raised.value).endswith(said + got)


class Never(Least):
    """Places nothing."""

    name = "never"

    def decide(self, sight):
        found = Least.decide(self, sight)
        return found._replace(slot=np.full_like(found.slot, -1))


class Pausing(Least):
    """Takes tasks, then leaves them without units."""

    name = "pausing"

    def decide(self, sight):
        found = super().decide(sight)
        return found._replace(again=np.zeros((*sight.running.shape[:3], 2), np.int64))


@pytest.mark.parametrize(("allocator", "steps"), [(Never(), "1,001"), (Pausing(), "101")])
def test_an_episode_that_would_never_end_stops_with_an_error(allocator: object, steps: str, monkeypatch):
    monkeypatch.setattr("weft.schedulers.allocators.stalls.STUCK", 100)
    problem = problem_of("edge-multi-3", tasks=4, clusters=1)
    with pytest.raises(
        InputError, match=f"nothing started and nothing ended in {steps} world steps, and 4 tasks"
    ):
        run_all(find(allocator), problem, [1])


def test_errors_of_others_name_their_class():
    class Broken:
        name = "broken"

        def begin(self, problem, seeds):
            return object()

    with pytest.raises(InputError, match=r"Broken.begin: expected an object with 'decide'"):
        run_all(find(Broken()), problem_of("edge-multi-3", tasks=4), [1])
    with pytest.raises(InputError, match="has no 'begin'"):
        find(type("Nothing", (), {"name": "nothing"})())


def test_names_of_allocators():
    assert find("static-7").name == "static-7"
    assert find("static-7+lowest").conflicts == "lowest"
    with pytest.raises(InputError, match="optimus is an allocator: it acts on elastic tasks"):
        catalog.find("optimus", TASKS)
    with pytest.raises(InputError, match="no allocator 'optimsu'; did you mean 'optimus'"):
        find("optimsu")
    with pytest.raises(InputError, match="heft acts on whole problems"):
        find("heft")


# -- the oracle ------------------------------------------------------------------------------------


def broken(run, **columns):
    return dataclasses.replace(run, **columns)


@pytest.fixture(scope="module")
def good():
    return run_all(find("static-10"), problem_of("edge-single-3", tasks=60), [4])[0]


def changed(array: np.ndarray, at: object, value: object) -> np.ndarray:
    made = array.copy()
    made[at] = value
    return made


def test_oracle_finds_every_kind_of_fault(good):
    rows = good.rows
    last = int(np.flatnonzero(rows[:, TASK] == 5)[-1])
    first = rows[:, RAN] == 0
    stranger = next(
        (at, n) for at in np.flatnonzero(first) for n in range(3) if not (good.links[rows[at, TASK]] >> n) & 1
    )
    moved = rows.copy()
    moved[rows[:, TASK] == rows[stranger[0], TASK], CLUSTER] = stranger[1]
    cases = {
        "arrival": broken(good, arrival=changed(good.arrival, 3, good.arrival[3] + 1)),
        "links": broken(good, rows=moved),
        "capacity": broken(good, rows=changed(rows, (slice(None), UNITS), 16)),
        "units": broken(good, rows=changed(rows, (last, UNITS), -1)),
        "progress": broken(good, progress=changed(good.progress, 4, good.progress[4] + 0.01)),
        "end": broken(good, finish=changed(good.finish, 5, good.finish[5] + 1)),
        "place": broken(good, rows=changed(rows, (last, STEP), rows[last, STEP] + 3)),
        "step": broken(good, rows=changed(rows, (slice(None), 3), 1)),
    }
    assert first_fault(good) is None
    for word, run in cases.items():
        assert word in str(first_fault(run)), word


def test_types_have_a_uniform_look_in_the_sight(good):
    assert saturating("lm", (2, 1), (16, 16), 1, 16.0).gain((1, 10)) == 0.0  # below what it needs
    assert good.figures["mean_completion"] == good.mean_completion
    assert good.types_per_cluster.sum() == 60
    assert good.alive.max() == good.figures["peak_alive"]


class Noting(Least):
    """Notes the seeds it is given."""

    def begin(self, problem, seeds):
        self.seeds = seeds.tolist()
        return self


def test_seeds_that_an_allocator_is_given_do_not_tell_what_comes():
    problem, seeds = problem_of("edge-single-3", tasks=40), [3, 4]
    noting = Noting()
    first = run_all(catalog.find(noting, ELASTIC), problem, seeds)
    given = run_all(find("min"), problem, noting.seeds)
    for one, other in zip(first, given, strict=True):
        assert not np.array_equal(one.arrival, other.arrival)
    assert noting.seeds == own_seeds(np.array(seeds)).tolist()
