"""The drop-in for ``dask.compute``: the same results, where and in the order that the plan says."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

import dask
from dask import delayed

from weft.errors import InputError, WeftError
from weft.execute.dask import annotations_of, compute, scheduled
from weft.execute.dask_cluster import cluster_of
from weft.execute.dask_connect import DaskWorker
from weft.execute.dask_engine import Connection, LocalWorker, connect, workers_of
from weft.execute.dask_graph import graph_of
from weft.io.profiles import Profile
from weft.io.workers import write_workers
from weft.model.cluster import Cluster, DeviceClass
from weft.model.problem import Problem
from weft.model.schedule import Schedule


@pytest.fixture(scope="module")
def started() -> Iterator[Connection]:
    workers = [LocalWorker("fast"), LocalWorker("slow"), LocalWorker("wide", 2, resources={"gpu": 1})]
    with connect("dask", workers) as connection:
        yield connection


@pytest.fixture
def client(started: Connection) -> Any:
    """Of a cluster with all workers, also those that the last test has killed."""
    started.client.wait_for_workers(3, timeout=60)
    return started.client


@pytest.fixture
def only_slow(tmp_path: Path) -> str:
    """A cluster file in which one worker is far the fastest, whatever it is called."""
    classes = [DeviceClass("quick", speed=1e6), DeviceClass("lame", speed=1.0, slots=1)]
    cluster = Cluster.uniform(classes, [1, 2], latency=1.0)
    file = tmp_path / "cluster.toml"
    write_workers(cluster, {"quick-0": "slow", "lame-0": "fast", "lame-1": "wide"}, file)
    return str(file)


@delayed
def inc(x: int) -> int:
    return x + 1


@delayed
def whereabouts(*_: Any) -> str:
    from distributed import get_worker

    return str(get_worker().name)


@delayed
def nap(seconds: float, *_: Any) -> float:
    time.sleep(seconds)
    return time.time()


# -- the same results ------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["heft", "cpop", "fifo"])
def test_compute_returns_what_dask_returns(client: Any, scheduler: str):
    many = [inc(i) for i in range(6)]
    given = ({"total": delayed(sum)(many), "plain": 7}, [many[2], many[3]], "text")
    assert compute(*given, client=client, scheduler=scheduler) == dask.compute(*given, scheduler="sync")


@pytest.mark.parametrize("scheduler", ["heft", "fifo"])
def test_compute_takes_arrays_and_bags(client: Any, scheduler: str):
    plain = np.arange(1000).reshape(20, 50)
    array = pytest.importorskip("dask.array").from_array(plain, chunks=(10, 25))
    bag = pytest.importorskip("dask.bag").range(20, npartitions=4).map(lambda value: value**2)
    product, total = compute(array @ array.T, bag.sum(), client=client, scheduler=scheduler)
    np.testing.assert_array_equal(product, plain @ plain.T)
    assert total == 2470


def test_compute_takes_frames(client: Any):
    pytest.importorskip("pyarrow")
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": range(20), "b": [0, 1] * 10})
    (found,) = compute(frames.from_pandas(table, 4).groupby("b").a.sum(), client=client, scheduler="heft")
    assert found.to_dict() == {0: 90, 1: 100}


def test_compute_uses_what_is_on_the_cluster_already(client: Any):
    there = client.submit(int, "7")
    assert compute(inc(delayed(there)), client=client, scheduler="heft") == (8,)
    with pytest.raises(
        InputError, match="fifo decides task by task, which cannot use what is on the cluster"
    ):
        compute(inc(delayed(there)), client=client, scheduler="fifo")


def test_compute_without_anything_to_compute(client: Any):
    assert compute(7, [8], client=client) == (7, [8])


def test_scheduled_stands_in_for_the_scheduler_of_dask(client: Any, only_slow: str):
    with scheduled(client, "heft", cluster=only_slow):
        assert whereabouts().compute() == "slow"
        assert dask.compute(whereabouts(), whereabouts()) == ("slow", "slow")
    assert inc(1).compute(scheduler="sync") == 2


# -- the plan --------------------------------------------------------------------------------------


def test_compute_runs_tasks_where_the_plan_says(client: Any, only_slow: str):
    chain = whereabouts()
    for _ in range(4):
        chain = whereabouts(chain)
    found = compute(
        *[whereabouts(i) for i in range(20)], chain, client=client, cluster=only_slow, scheduler="heft"
    )
    assert set(found) == {"slow"}


def test_compute_runs_tasks_in_the_order_of_the_plan(client: Any, only_slow: str):
    # The plan of HEFT begins with the head of the longest chain, whatever the order of the keys.
    alone = [nap(0.01) for _ in range(5)]
    head = nap(0.02)
    tail = nap(0.01, nap(0.01, head))
    *times, first, _ = compute(*alone, head, tail, client=client, cluster=only_slow, scheduler="heft")
    assert first < min(times)


def test_annotations_follow_the_plan_and_keep_what_the_user_bound():
    graph = graph_of({"a": (int,), "b": (int,), "c": (sum, ["a", "b"])}, ["c"])
    graph = type(graph)(graph.nodes, {"workers": {"a": ["host"]}, "retries": {"b": 2}})
    problem = Problem(graph.task_graph(None, []), Cluster.uniform([DeviceClass("x")], [2]))
    at = graph.keys.index
    plan = Schedule(problem, [at("b"), at("a"), at("c")], [1, 0, 1], [0.0, 0.5, 2.0], [1.0, 1.5, 3.0])  # type: ignore[arg-type]
    notes = annotations_of(graph, plan, ["one", "two"])
    assert [notes["workers"](key) for key in "abc"] == [["host"], ["two"], ["two"]]
    assert [notes["allow_other_workers"](key) for key in "abc"] == [False, True, True]
    assert [notes["priority"](key) for key in "abc"] == [-1, 0, -2]
    assert [notes["retries"](key) for key in "abc"] == [0, 2, 0]


def test_compute_keeps_resources_of_the_user(client: Any):
    with dask.annotate(resources={"gpu": 1}):
        found = [whereabouts(i) for i in range(3)]
    assert set(compute(*found, client=client, scheduler="heft", optimize_graph=False)) == {"wide"}


def test_compute_learns_run_times_and_plans_with_them(client: Any, tmp_path: Path):
    file = tmp_path / "profile.json"
    compute(*[nap(0.02, i) for i in range(8)], client=client, scheduler="heft", profile=file)
    profile = Profile.read(file)
    seen = [profile.time("nap", name) for name in ("fast", "slow", "wide")]
    assert sum(one.count for one in seen if one is not None) == 8
    assert all(one.seconds.least >= 0.02 for one in seen if one is not None)
    compute(nap(0.02), client=client, scheduler="fifo", profile=file)
    again = [Profile.read(file).time("nap", name) for name in ("fast", "slow", "wide")]
    assert sum(one.count for one in again if one is not None) == 9


def test_workers_become_classes_by_their_names():
    def worker(name: str, threads: int = 1, **resources: float) -> DaskWorker:
        return DaskWorker(name, f"tcp://1.2.3.4:{len(name)}", threads, 0.0, resources, "1.2.3.4")

    cluster, mapping = cluster_of(
        [worker("cpu-0"), worker("cpu-1"), worker("cpu-2", 4), worker("box", gpu=2)]
    )
    assert [one.slots for one in cluster.classes] == [1, 4, 1]
    assert [one.capacity["gpu"] for one in cluster.classes] == [0, 0, 2]
    assert list(mapping.values()) == ["cpu-0", "cpu-1", "cpu-2", "box"]
    assert list(mapping) == list(cluster.device_names)
    cluster, mapping = cluster_of([worker("tcp://1.2.3.4:5"), worker("3")])
    assert mapping == {"worker-0": "tcp://1.2.3.4:5", "worker-1": "3"}


# -- what goes wrong -------------------------------------------------------------------------------


def test_compute_raises_what_a_task_raises(client: Any):
    with pytest.raises(ValueError, match="invalid literal"):
        compute(delayed(int)("seven"), client=client, scheduler="heft")
    with pytest.raises(WeftError, match="has failed: ValueError: invalid literal"):
        compute(inc(delayed(int)("seven")), client=client, scheduler="fifo")


@pytest.mark.parametrize("scheduler", ["heft", "fifo"])
def test_compute_goes_on_when_a_worker_is_killed(client: Any, scheduler: str):
    address = next(worker.address for worker in workers_of(client) if worker.name == "fast")
    pid = client.run(os.getpid, workers=[address])[address]
    timer = Timer(0.6, os.kill, (pid, signal.SIGKILL))
    timer.start()
    first = [nap(0.5, i) for i in range(12)]
    found = compute(*[delayed(bool)(one) for one in first], client=client, scheduler=scheduler)
    timer.join()
    assert found == (True,) * 12


def test_compute_refuses_what_it_cannot_use(client: Any, tmp_path: Path):
    with pytest.raises(InputError, match="no planner 'nonsense'"):
        compute(inc(1), client=client, scheduler="nonsense")
    with pytest.raises(InputError, match="no worker 'nobody' for device x-0; there are fast, slow, wide"):
        file = tmp_path / "cluster.toml"
        write_workers(Cluster.uniform([DeviceClass("x")], [1]), {"x-0": "nobody"}, file)
        compute(inc(1), client=client, scheduler="heft", cluster=file)
    with pytest.raises(InputError, match="there is no current one"):
        compute(inc(1))
