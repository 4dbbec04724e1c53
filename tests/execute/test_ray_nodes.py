"""Lanes on a Ray cluster of three nodes, one of which is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402

from weft.execute.engine import Event, Order  # noqa: E402
from weft.execute.ray_engine import Connection, RayEngine, connect, workers_of  # noqa: E402
from weft.execute.work import Call, Rehearsal, Result, Work  # noqa: E402

pytestmark = pytest.mark.slow

LARGE = 1_000_000
"""Bytes of results that stay on their node: small ones travel with the reply."""
OPTIONS = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    made = Cluster(initialize_head=True, head_node_args=OPTIONS)
    for name in ("b", "c"):
        made.add_node(num_cpus=1, object_store_memory=80_000_000, resources={name: 1})
    made.wait_for_nodes()
    try:
        with connect(f"ray://{made.address}") as connection:
            yield made, connection
    finally:
        made.shutdown()


class Works(dict[str, Work]):
    def work(self, job: str | int, task: str) -> Work:
        return self[task]


def until(engine: RayEngine, seen: list[Event], kind: str, what: str) -> Event:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for one in seen:
            if one.kind == kind and what in (one.task, one.device):
                return one
        seen += engine.events(None)
    raise AssertionError(f"no {kind} {what} in {seen}")


def test_a_killed_node_takes_its_results_with_it(cluster: tuple[Any, Connection]):
    machines, connection = cluster
    nodes = {next(iter(node.resources), "a"): node for node in workers_of()}
    assert sorted(nodes) == ["a", "b", "c"]
    works = Works(
        p=Rehearsal({"cpu": 0.1}, LARGE),
        q=Rehearsal({"cpu": 0.1}, LARGE),
        child=Call(len, (Result("p"),)),
        other=Call(len, (Result("q"),)),
    )
    engine = RayEngine(connection, [(name, "cpu", 1, node.id, 1.0) for name, node in nodes.items()], works)
    engine.start()
    try:
        seen: list[Event] = []
        engine.submit(Order("j", "p", "b", 1, 1))
        engine.submit(Order("j", "q", "c", 1, 2))
        assert until(engine, seen, "finished", "p").size == LARGE
        until(engine, seen, "finished", "q")
        (dead,) = [one for one in machines.worker_nodes if one.node_id == nodes["b"].id]
        machines.remove_node(dead, allow_graceful=False)
        until(engine, seen, "lost", "b")
        engine.submit(Order("j", "child", "a", 1, 3, ("p",)))
        engine.submit(Order("j", "other", "a", 1, 4, ("q",)))
        assert until(engine, seen, "failed", "child").note == "lost result of p"
        until(engine, seen, "finished", "other")
        assert engine.result("j", "other") == LARGE
        engine.submit(Order("j", "p", "c", 2, 5))
        seen.clear()
        until(engine, seen, "finished", "p")
        engine.submit(Order("j", "child", "a", 2, 6, ("p",)))
        until(engine, seen, "finished", "child")
        assert engine.result("j", "child") == LARGE
    finally:
        engine.close()
