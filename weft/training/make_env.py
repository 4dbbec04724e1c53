"""Scenarios as environments of other learners: ``weft.make_env`` (extra ``rl``)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from weft.errors import InputError
from weft.kinds import ELASTIC, QUEUES
from weft.scenarios import Scenario
from weft.scenarios import scenario as read_scenario
from weft.sim.queues.environment import Setup, setup_of
from weft.sim.tasks.candidates import CandidateSight
from weft.sim.tasks.environment import TaskSetup
from weft.sim.tasks.layout import refuse_bookings, refuse_tasks

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.sim.adapters import DeviceAgentsEnv, StreamEnv, StreamVectorEnv
    from weft.sim.adapters_elastic import ClusterAgentsEnv

Named = str | Path | Scenario
STREAMS = 16
"""Streams, or single problems, from which the episodes of single tasks are drawn."""


@overload
def make_env(
    scenario: Named,
    kind: Literal["single"] = "single",
    num_envs: int = 1,
    *,
    split: str = "train",
    streams: int = STREAMS,
    sight: CandidateSight | None = None,
    waits: bool = True,
    **settings: object,
) -> StreamEnv: ...
@overload
def make_env(
    scenario: Named,
    kind: Literal["vector"],
    num_envs: int = 1,
    *,
    split: str = "train",
    streams: int = STREAMS,
    sight: CandidateSight | None = None,
    waits: bool = True,
    **settings: object,
) -> StreamVectorEnv: ...
@overload
def make_env(
    scenario: Named,
    kind: Literal["agents"],
    num_envs: int = 1,
    *,
    split: str = "train",
    streams: int = STREAMS,
    sight: CandidateSight | None = None,
    waits: bool = True,
    **settings: object,
) -> DeviceAgentsEnv | ClusterAgentsEnv: ...
def make_env(
    scenario: Named,
    kind: Literal["single", "vector", "agents"] = "single",
    num_envs: int = 1,
    *,
    split: str = "train",
    streams: int = STREAMS,
    sight: CandidateSight | None = None,
    waits: bool = True,
    **settings: object,
) -> StreamEnv | StreamVectorEnv | DeviceAgentsEnv | ClusterAgentsEnv:
    """The streams of a scenario as an environment.

    Jobs of one repeated graph wait in queues by kind, elastic tasks are placed by the agents of clusters, all else is
    dispatched task by task.

    Parameters
    ----------
    scenario
        By its name, recipe file or itself; ``settings`` change what is read.
    kind
        A Gymnasium environment, a vector of ``num_envs`` of them, or PettingZoo agents: of queues one per device, of
        elastic tasks one per cluster.
    split
        ``train``, ``validation`` or ``test``.
    streams, sight, waits
        Of single tasks: from how many streams or problems of the split episodes are drawn, how many
        candidates are listed, and whether waiting is a choice.
    """
    from weft.sim.adapters import make

    chosen = scenario if isinstance(scenario, Scenario) else read_scenario(scenario, **settings)
    if chosen.kind is ELASTIC:
        return _cluster_agents(chosen, split, kind)
    setup: Setup | TaskSetup
    if chosen.kind is QUEUES:
        setup = setup_of(chosen.stream(split, 0))
    else:
        setup = replace(task_setup(chosen, split, streams, sight or CandidateSight()), waits=waits)
    return make(setup, kind, num_envs) if kind == "vector" else make(setup, kind)


def _cluster_agents(chosen: Scenario, split: str, kind: str) -> ClusterAgentsEnv:
    """Elastic tasks have an agent per cluster, and nothing that decides for all."""
    from weft.sim.adapters_elastic import ClusterAgentsEnv

    if kind != "agents":
        raise InputError(f"expected agents, of which every cluster has one, got {kind!r}", field="kind")
    return ClusterAgentsEnv(chosen.elastic(split, 0))


def task_setup(chosen: Scenario, split: str, count: int, sight: CandidateSight) -> TaskSetup:
    """The first streams of a split, or single problems where no jobs arrive, dispatched task by task."""
    return TaskSetup(problems_of(chosen, split, count, has_copies=sight.copies), sight)


def problems_of(chosen: Scenario, split: str, count: int, *, has_copies: bool = False) -> tuple[Problem, ...]:
    """The first streams of a split, or single problems where no jobs arrive, if they can be dispatched task by task."""
    if count < 1:
        raise InputError(f"expected a whole number >= 1, got {count}", field="streams")
    if chosen.seeds_are_samples:
        problems = tuple(chosen.dispatched(split, 0, seed) for seed in range(count))
    else:
        problems = tuple(chosen.problems(split, min(count, chosen.count(split) or count)))
    for problem in problems:
        reason = refuse_tasks(problem)
        if reason is not None:
            raise InputError(f"{chosen.name} cannot be dispatched task by task: {reason}", field="scenario")
        reason = refuse_bookings(problem, has_copies=True) if has_copies else None
        if reason is not None:
            raise InputError(reason, field="copies")
    return problems
