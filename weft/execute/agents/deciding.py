"""From the name of an allocator to something that decides logical steps in the coordinator."""

from __future__ import annotations

import numpy as np

from weft import catalog
from weft.errors import UnsupportedError
from weft.execute.agents.mirror import Fills, Mirror
from weft.execute.agents.setup import Setup
from weft.execute.agents.tasks import Shown
from weft.kinds import ELASTIC
from weft.model.elastic import ElasticProblem
from weft.model.elastic_oracle import episode_key
from weft.schedulers.allocators.protocol import Allocator
from weft.schedulers.allocators.rules import RuleAllocator
from weft.schedulers.allocators.running import settled
from weft.sim.elastic.observation import ElasticSight
from weft.sim.elastic.rules import decide
from weft.sim.elastic.state import Move, State, World


def allocator_of(name: str, problem: ElasticProblem) -> tuple[Allocator | RuleAllocator, ElasticProblem]:
    """An allocator, and the problem with conflicts settled its way where the problem leaves that open."""
    found = catalog.find(name, ELASTIC)
    reason = found.supports(problem)
    if reason is not None:
        raise UnsupportedError(f"{name}: {reason}", field="scheduler")
    return found, settled(problem, found)


def fills_of(allocator: Allocator | RuleAllocator, problem: ElasticProblem, seed: int) -> Fills:
    """The allocator at work on one episode."""
    if isinstance(allocator, RuleAllocator):
        rule = allocator.prepared(problem)(seed)

        def by_rule(world: World, state: State, sight: ElasticSight, move: Move) -> None:
            decide(rule.at(int(state.now[0])), world, state, 0, move)

        return by_rule
    deciding = allocator.begin(problem, np.array([seed], np.int64))

    def by_sight(world: World, state: State, sight: ElasticSight, move: Move) -> None:
        found = deciding.decide(sight)
        move.slot[:], move.units[:], move.chance[:] = found.slot, found.units, found.chance
        move.changes[:] = found.again is not None
        if found.again is not None:
            move.again[:] = found.again

    return by_sight


def warm_mirror(setup: Setup, problem: ElasticProblem) -> Mirror:
    """The coordinator's copy, with everything compiled and tuned before it is needed."""
    allocator, problem = allocator_of(setup.scheduler, problem)
    key = episode_key(setup.seed)

    def new() -> Mirror:
        fills = fills_of(allocator, problem, setup.seed)
        return Mirror(problem, fills, key, is_stepwise=setup.is_stepwise)

    nothing = Shown(0, 0, (None,) * problem.num_slots, 0, (), ())
    mirror = new()
    mirror.decide([nothing] * problem.num_clusters, 0)
    return mirror if isinstance(allocator, RuleAllocator) else new()
