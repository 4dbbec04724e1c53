"""Calls of Ray's that the engine makes, and how its errors are read."""

from __future__ import annotations

import sys
import time
from functools import cache
from typing import Any

from weft.execute.ray_connect import RayNode
from weft.execute.ray_lane import Lane
from weft.execute.ray_orders import RayDevice, RunningLane

_PINGS = 5
_FROM_FILES = "weft_plugin_"
"""How names of modules start that were loaded from a file the user named: workers do not have them."""


@cache
def _actor_class() -> Any:
    import ray

    # Calls of the default group are carried out one by one, in the order in which they were made. A call of "news" waits
    # until there are some.
    remote: Any = ray.remote
    return remote(concurrency_groups={"news": 1, "orders": 1})(Lane)


def open_lane(given: RayDevice, node: RayNode | None) -> RunningLane:
    """Have a lane made, on a node or wherever there is room; it is up when its hello is there."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    where = {"scheduling_strategy": NodeAffinitySchedulingStrategy(node.id, soft=False)} if node else {}
    takes = {"num_cpus": given.num_cpus, "num_gpus": given.num_gpus, "resources": dict(given.resources)}
    actor = _actor_class().options(**takes, **where, max_restarts=0, max_task_retries=0).remote()
    hello, clock, begun = (
        method.options(concurrency_group="news") for method in (actor.hello, actor.clock, actor.begun)
    )
    withdraw = actor.withdraw.options(concurrency_group="orders")
    return RunningLane(actor, actor.run.options(num_returns=2), withdraw, begun, clock, hello.remote())


def offset_of(lane: RunningLane) -> float:
    """Seconds that a lane's clock is ahead of ours, by the quickest of a few calls; 0 where that explains it."""
    import ray

    best = (float("inf"), 0.0)
    for _ in range(_PINGS):
        before = time.time()
        there = ray.get(lane.clock.remote())
        after = time.time()
        best = min(best, (after - before, there - (before + after) / 2))
    return best[1] if abs(best[1]) > best[0] / 2 else 0.0


def written(work: object) -> bytes:
    """What is to be done, for a lane; code of files that only this process has travels along."""
    import ray

    cloudpickle: Any = ray.cloudpickle
    for name, module in list(sys.modules.items()):
        if name.startswith(_FROM_FILES) and name not in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.register_pickle_by_value(module)
    return bytes(cloudpickle.dumps(work))


def is_of(error: Exception, lane: RunningLane) -> bool:
    """Whether a call failed since its own lane is dead, not that of an input."""
    from ray.exceptions import RayActorError, RayTaskError

    is_actors = isinstance(error, RayActorError) and not isinstance(error, RayTaskError)
    return is_actors and getattr(error, "actor_id", None) in (None, lane.id)


def said(error: Exception) -> str:
    """What Ray says, in one line that a person can read."""
    cause = getattr(error, "cause", None)
    lines = [line.strip() for line in str(cause or error).splitlines()]
    telling = [line for line in lines if line.startswith("The actor is dead because")] or lines[:1]
    text = telling[0].partition("Worker exit type")[0].removeprefix("The actor is dead because ").strip(" .")
    return (text or type(error).__name__)[:160]
