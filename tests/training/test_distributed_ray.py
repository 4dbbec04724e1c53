"""Spread training on a Ray cluster of three nodes on this machine, nodes of which are killed."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402
from ray.exceptions import RayActorError  # noqa: E402
from training.toy_roles import SMALL, spread  # noqa: E402

from weft.training.distributed.apex import Apex  # noqa: E402
from weft.training.distributed.gradients import Gradients  # noqa: E402
from weft.training.distributed.ray_transport import RayTransport  # noqa: E402

OPTIONS = {"num_cpus": 4, "object_store_memory": 80_000_000}
CONFIG = replace(SMALL, samples=2_400)


@pytest.fixture(scope="session")
def machines() -> Iterator[Any]:
    """One cluster for all tests: a head, and two nodes that can be killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_failure_threshold", "3")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        tests = Path(__file__).parents[1]  # workers make toys too
        patch.setenv("PYTHONPATH", os.pathsep.join([str(tests.parent), str(tests)]))
        made = Cluster(initialize_head=True, head_node_args={**OPTIONS, "include_dashboard": False})
        for _ in range(2):
            made.add_node(**OPTIONS)
        made.wait_for_nodes()
        try:
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


def kill_a_node(machines: Any, transport: RayTransport) -> str:
    """One with roles on it, not the head; another one takes its place. Returns one of the roles that are lost."""
    killable = {node.node_id: node for node in machines.worker_nodes}
    role, node = next((role, node) for role, node in transport.nodes().items() if node in killable)
    machines.remove_node(killable[node], allow_graceful=False)
    machines.add_node(wait=False, **OPTIONS)
    return role


def wait_until_lost(transport: RayTransport, role: str) -> None:
    """Until Ray has noticed: a short run may be over before."""
    with contextlib.suppress(RayActorError, KeyError):  # the crew may have stopped it since
        while True:
            transport.pid(role)
            time.sleep(0.1)


def run_through(learner: Apex | Gradients, machines: Any, at: int) -> list[dict[str, object]]:
    """The rows of a whole run in which a node is killed after an update; no step may fail."""
    rows = []
    try:
        while learner.update < learner.num_updates:
            rows.append(learner.step())
            if learner.update == at:
                lost = kill_a_node(machines, learner.crew.transport)
            if learner.update == learner.num_updates - 2 and not learner.crew.restarts:
                wait_until_lost(learner.crew.transport, lost)
        return rows
    finally:
        learner.close()


def check(learner: Apex | Gradients, rows: list[dict[str, object]]) -> None:
    """Everything was collected, each block counted once, and learned from as often as the recipe says."""
    assert learner.num_samples <= learner.collected == rows[-1]["samples"]
    blocks = sum(last + 1 for last in learner.collecting.counted.values())
    assert learner.collected == learner.spread.block * CONFIG.num_envs * blocks
    assert learner.drawn / learner.collected == pytest.approx(CONFIG.replay_ratio, abs=1.0)


def test_training_goes_on_when_a_node_is_killed(machines: Any):
    transport = RayTransport(f"ray://{machines.address}")
    spreading = {"engine": "ray", "actors": 2, "shards": 2, "block": 5}
    learner = spread(transport, CONFIG, **spreading)
    rows = run_through(learner, machines, 2)
    check(learner, rows)
    assert learner.crew.restarts >= 1


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ten_kills_at_random_moments_are_ten_whole_runs(machines: Any):
    moments, restarts = random.Random(0), []
    for number in range(10):
        transport = RayTransport(f"ray://{machines.address}")
        modes = {"mode": "sync", "learners": 2, "backups": 1} if number % 2 else {}
        spreading = {"engine": "ray", "actors": 3, "shards": 2, "block": 5, **modes}
        learner = spread(transport, CONFIG, **spreading)
        rows = run_through(learner, machines, moments.randint(1, 9))
        check(learner, rows)
        restarts.append(learner.crew.restarts)
        machines.wait_for_nodes()
    print(f"roles started again in ten runs: {restarts}")
    assert min(restarts) > 0
