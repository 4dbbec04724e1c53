"""Changed clusters: which devices come and go, how they are linked, what it does to a plan."""

from __future__ import annotations

import numpy as np
import pytest

from weft import catalog
from weft.errors import InfeasibleError, InputError
from weft.evaluation.questions.changes import (
    Devices,
    Links,
    Speed,
    apply,
    keep,
    parse_change,
    parse_links,
    parse_speed,
)
from weft.evaluation.questions.whatif import AS_IS, one_of_each, whatif
from weft.io.clusters import builtin_cluster, cluster_from_document
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem
from weft.model.schedule import Schedule

FAST = DeviceClass("fast", speed=2.0, price=2.0, watts=100.0, idle_watts=10.0)
SLOW = DeviceClass("slow", price=1.0, watts=50.0)


@pytest.fixture
def wide() -> Problem:
    """Eight equal tasks on one fast and two slow devices."""
    return Problem(TaskGraph([4.0] * 8), Cluster.uniform([FAST, SLOW], [1, 2], bandwidth=5.0))


def heft(problem: Problem) -> Schedule:
    return catalog.schedule(problem, "heft").schedule


def nodes() -> Cluster:
    """Two nodes of two GPUs, fast links inside."""
    part = {"class": "gpu", "count": 2}
    node = {"count": 2, "inner_bandwidth": 50.0, "device": [part]}
    return cluster_from_document({"bandwidth": 5.0, "latency": 1.0, "node": [node]})


# -- changes ----------------------------------------------------------------------------------------


def test_parse_change_reads_class_and_count() -> None:
    assert parse_change("a100=2", 1, "--add") == Devices("a100", 2)
    assert str(parse_change(" t4 = 3", -1, "--remove")) == "-3 t4"


@pytest.mark.parametrize(
    "text", ["", "a100", "a100=", "=2", "a100=0", "a100=-1", "a100=1.5", "a100=9999999999"]
)
def test_parse_change_refuses(text: str) -> None:
    with pytest.raises(InputError, match=r"--add: expected CLASS=COUNT such as a100=1"):
        parse_change(text, 1, "--add")


def test_one_of_each_names_classes_that_have_devices() -> None:
    cluster = Cluster.uniform([FAST, SLOW], [2, 0])
    assert [str(change) for change in one_of_each(cluster)] == ["+1 fast", "-1 fast"]


# -- clusters ---------------------------------------------------------------------------------------


def test_apply_removes_the_last_devices_of_a_class(wide: Problem) -> None:
    cluster = apply(wide, [Devices("slow", -1)]).cluster
    assert cluster.device_names == ("fast-0", "slow-0")


def test_apply_adds_devices_at_the_end_with_the_links_of_their_class(wide: Problem) -> None:
    cluster = apply(wide, [Devices("fast", 2)]).cluster
    assert cluster.device_names == ("fast-0", "slow-0", "slow-1", "fast-1", "fast-2")
    assert len(np.unique(cluster.node)) == 5
    assert [cluster.transfer_time(4, d, 10.0) for d in range(4)] == [2.0] * 4


def test_apply_in_nodes_adds_a_node_of_its_own() -> None:
    problem = Problem(TaskGraph([1.0]), nodes())
    cluster = apply(problem, [Devices("gpu", 2)]).cluster
    assert cluster.node.tolist() == [0, 0, 1, 1, 2, 3]
    assert [cluster.transfer_time(4, d, 50.0) for d in (0, 1, 2, 3, 5)] == [11.0] * 5
    assert [cluster.transfer_time(d, 4, 50.0) for d in (0, 1, 2, 3, 5)] == [11.0] * 5
    assert cluster.transfer_time(0, 1, 50.0) == problem.cluster.transfer_time(0, 1, 50.0)


def test_apply_in_one_node_links_as_inside_it() -> None:
    document = {
        "bandwidth": 5.0,
        "node": [{"inner_bandwidth": 50.0, "device": [{"class": "gpu", "count": 2}]}],
    }
    problem = Problem(TaskGraph([1.0]), cluster_from_document(document))
    assert apply(problem, [Devices("gpu", 1)]).cluster.transfer_time(2, 0, 100.0) == 2.0


def test_apply_with_a_full_table_copies_the_row_of_the_last_device() -> None:
    table = [[0, 1, 2], [3, 0, 4], [5, 6, 0]]
    document = {
        "device": [{"class": "cpu", "count": 3}],
        "links": {"bandwidth": [[x or 9 for x in row] for row in table]},
    }
    cluster = apply(Problem(TaskGraph([1.0]), cluster_from_document(document)), [Devices("cpu", 1)]).cluster
    assert [1 / cluster.transfer_time(3, d, 1.0) for d in range(3)] == pytest.approx([5, 6, 5])
    assert [1 / cluster.transfer_time(d, 3, 1.0) for d in range(3)] == pytest.approx([2, 4, 2])


def test_apply_to_a_single_device_uses_its_link() -> None:
    problem = Problem(TaskGraph([1.0]), Cluster.uniform([SLOW], [1], bandwidth=2.0))
    assert apply(problem, [Devices("slow", 1)]).cluster.transfer_time(0, 1, 4.0) == 2.0


def test_apply_knows_the_classes_of_built_in_clusters(wide: Problem) -> None:
    cluster = apply(wide, [Devices("a100", 1)]).cluster
    known = builtin_cluster("gpu-mix-8").classes
    assert cluster.classes[2] == next(c for c in known if c.name == "a100")
    assert cluster.device_names[-1] == "a100-0"
    assert cluster.transfer_time(3, 0, 10.0) == 2.0


def test_apply_keeps_devices_that_jobs_name() -> None:
    job = Job(TaskGraph([1.0]), eligible=("slow-1",))
    problem = Problem(job, Cluster.uniform([FAST, SLOW], [1, 2]))
    assert apply(problem, [Devices("fast", -1), Devices("slow", 1)]).num_tasks == 1
    with pytest.raises(InputError, match="with -1 slow: 'slow-1' is neither a device nor a class"):
        apply(problem, [Devices("slow", -1)])


REFUSED = [
    ([Devices("slow", -3)], InputError, "remove: with -3 slow: cannot remove 3 of 'slow': the cluster has 2"),
    ([Devices("slov", -1)], InputError, "no class 'slov' in the cluster; did you mean 'slow'?"),
    ([Devices("a10", 1)], InputError, "add: with +1 a10: no class 'a10' .*did you mean 'a100'?"),
    ([Devices("zzz", 1)], InputError, r"no class 'zzz' .*\(classes: fast, slow, "),
    ([Devices("slow", -2), Devices("fast", -1)], InfeasibleError, "with -2 slow, -1 fast: no device is left"),
]


@pytest.mark.parametrize(("changes", "kind", "text"), REFUSED)
def test_apply_refuses(wide: Problem, changes: list[Devices], kind: type, text: str) -> None:
    with pytest.raises(kind, match=text.replace("+", r"\+")):
        apply(wide, changes)


def test_apply_names_the_task_that_can_run_nowhere() -> None:
    graph = TaskGraph([1.0, 1.0], names=("small", "big"), memory=[1.0, 9.0])
    cluster = Cluster.uniform([DeviceClass("large", memory=10.0), DeviceClass("little", memory=2.0)], [1, 1])
    with pytest.raises(InfeasibleError, match=r"tasks.big: with -1 large: task 'big' needs 9 bytes"):
        apply(Problem(graph, cluster), [Devices("large", -1)])


def test_keep_takes_the_first_devices_of_every_class() -> None:
    assert keep(Cluster.uniform([FAST, SLOW], [2, 3]), (1, 2)).device_names == ("fast-0", "slow-0", "slow-1")


def latency(problem: Problem, *pairs: tuple[int, int]) -> list[float]:
    return [problem.cluster.transfer_time(a, b, 0.0) for a, b in pairs]


def test_links_between_nodes_change_and_those_inside_stay() -> None:
    problem = Problem(TaskGraph([1.0]), nodes())
    faster = apply(problem, [parse_links("x2", "bandwidth"), parse_links("3s", "latency")])
    before, after = problem.cluster, faster.cluster
    assert after.transfer_time(0, 2, 50.0) == 3.0 + 5.0
    assert after.transfer_time(0, 1, 50.0) == before.transfer_time(0, 1, 50.0)
    assert latency(faster, (0, 1), (2, 3)) == latency(problem, (0, 1), (2, 3))


def test_links_of_lone_devices_and_of_one_node_change(wide: Problem) -> None:
    slower = apply(wide, [parse_links("x0.5", "bandwidth")]).cluster
    assert slower.transfer_time(0, 1, 10.0) == 4.0
    node = {"inner_bandwidth": 50.0, "device": [{"class": "gpu", "count": 2}]}
    inner = Problem(TaskGraph([1.0]), cluster_from_document({"bandwidth": 5.0, "node": [node]}))
    assert apply(inner, [parse_links("x2", "bandwidth")]).cluster.transfer_time(0, 1, 100.0) == 1.0


def test_speed_changes_all_run_times_of_a_class() -> None:
    odd = DeviceClass("odd", speed=2.0, speeds={"b": 4.0}, times={"c": 6.0})
    times = [[np.nan], [np.nan], [np.nan], [10.0]]
    graph = TaskGraph([8.0] * 4, kinds=("a", "b", "c"), kind=[0, 1, 2, 0], classes=("odd",), times=times)
    problem = Problem(graph, Cluster.uniform([odd, SLOW], [1, 1]))
    assert problem.run_times[:, 0].tolist() == [4.0, 2.0, 6.0, 10.0]
    faster = apply(problem, [Speed("odd", 2.0)])
    assert faster.run_times[:, 0].tolist() == [2.0, 1.0, 3.0, 5.0]
    assert faster.run_times[:, 1].tolist() == problem.run_times[:, 1].tolist()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (parse_links("x2", "latency"), "with latency x2: expected a latency such as 10us, got x2: that of"),
        (Speed("fsat", 2.0), "with fsat x2: no class 'fsat' in the cluster; did you mean 'fast'?"),
    ],
)
def test_apply_refuses_other_links_and_speeds(wide: Problem, change: Links | Speed, text: str) -> None:
    with pytest.raises(InputError, match=text.replace("?", r"\?")):
        apply(wide, [change])


def test_links_are_refused_where_there_are_none() -> None:
    alone = Problem(TaskGraph([1.0]), Cluster.uniform([FAST], [1]))
    with pytest.raises(InputError, match="the cluster has one device and no links"):
        apply(alone, [parse_links("10us", "latency")])
    free = Problem(TaskGraph([1.0]), Cluster.uniform([FAST], [2]))
    with pytest.raises(InputError, match="that of the cluster is infinite"):
        apply(free, [parse_links("x2", "bandwidth")])
    assert apply(free, [parse_links("8bit/s", "bandwidth")]).cluster.transfer_time(0, 1, 3.0) == 3.0


@pytest.mark.parametrize("text", ["", "x", "x0", "x-1", "xx2", "x1e999", "0", "-1", "nan", "fast", "40Gb/s"])
def test_parse_links_refuses(text: str) -> None:
    with pytest.raises(InputError, match=r"bandwidth: expected a factor > 0 such as x2, or a bandwidth"):
        parse_links(text, "bandwidth")


@pytest.mark.parametrize("text", ["", "a100", "a100=", "a100=2", "=x2", "a100=x0", "x2"])
def test_parse_speed_refuses(text: str) -> None:
    with pytest.raises(InputError, match=r"speed: expected CLASS=xFACTOR such as a100=x1.5"):
        parse_speed(text)


# -- answers ----------------------------------------------------------------------------------------


def test_whatif_answers_each_change_and_all_together(wide: Problem) -> None:
    answer = whatif(wide, [Devices("fast", 1), Devices("slow", -1)], heft)
    assert [row.change for row in answer.rows] == [AS_IS, "+1 fast", "-1 slow", "+1 fast, -1 slow"]
    assert [row.devices for row in answer.rows] == [3, 4, 2, 3]
    base, more, fewer, _ = answer.rows
    assert (base.makespan, base.makespan_change_percent) == (8.0, 0.0)
    assert more.makespan < base.makespan < fewer.makespan
    assert more.makespan_change_percent == pytest.approx(100 * (more.makespan / 8.0 - 1))
    assert more.lower_bound < base.lower_bound < fewer.lower_bound


def test_whatif_gives_the_figures_of_the_schedule(wide: Problem) -> None:
    row = whatif(wide, [Devices("fast", 1)], heft).rows[1]
    plan = heft(apply(wide, [Devices("fast", 1)]))
    assert (row.makespan, row.cost, row.energy) == (plan.makespan, plan.cost, plan.energy)
    assert (row.utilisation, row.lower_bound) == (plan.utilisation, plan.bound.value)


def test_whatif_combines_alternatives_with_the_rest(wide: Problem) -> None:
    links = [parse_links(text, "bandwidth") for text in ("x2", "x4")]
    answer = whatif(wide, [Devices("fast", 1), *links], heft)
    alone = ["+1 fast", "bandwidth x2", "bandwidth x4"]
    together = ["+1 fast, bandwidth x2", "+1 fast, bandwidth x4"]
    assert [row.change for row in answer.rows] == [AS_IS, *alone, *together]
    assert [row.change for row in whatif(wide, links, heft).rows] == [AS_IS, *alone[1:]]


def test_whatif_of_one_change_has_no_row_for_all(wide: Problem) -> None:
    assert len(whatif(wide, [Devices("fast", 1)], heft).rows) == 2


def test_whatif_percent_is_none_where_nothing_was_paid() -> None:
    free = Problem(TaskGraph([1.0]), Cluster.uniform([DeviceClass("cpu")], [1]))
    assert whatif(free, [Devices("cpu", 1)], heft).rows[1].cost_change_percent is None


def test_whatif_each_skips_what_cannot_work(wide: Problem) -> None:
    answer = whatif(wide.replaced(cluster=Cluster.uniform([FAST], [1])), [], heft, each=True)
    assert [row.change for row in answer.rows] == [AS_IS, "+1 fast"]
    assert [(s.change, s.reason) for s in answer.skipped] == [("-1 fast", "with -1 fast: no device is left")]


def test_whatif_refuses_before_it_plans(wide: Problem) -> None:
    planned: list[Problem] = []

    def plan(problem: Problem) -> Schedule:
        planned.append(problem)
        return heft(problem)

    with pytest.raises(InputError, match="cannot remove 5"):
        whatif(wide, [Devices("fast", 1), Devices("slow", -5)], plan)
    assert planned == []
