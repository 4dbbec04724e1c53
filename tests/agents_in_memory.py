"""Agents without sockets: a network in memory that delivers at once, or drops, repeats, delays and kills by a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from weft.execute.agents.cluster import ClusterAgent
from weft.execute.agents.leader import SOURCE, Leader, Sends
from weft.execute.agents.mirror import Fills, Mirror
from weft.execute.agents.source import Source, draw_tasks
from weft.execute.agents.tasks import Message
from weft.model.elastic import ElasticProblem, insensitive, saturating

MOST_DECISIONS = 2_000


def problem_of(
    stepping: str = "multi", num_clusters: int = 3, num_tasks: int = 30, noise: float = 0.0, **fields: object
) -> ElasticProblem:
    types = (
        insensitive("img", (2, 1), (16, 16), 0.25, noise),
        saturating("lm", (2, 1), (16, 16), 1, 16.0, noise),
    )
    capacity = np.full((num_clusters, 2), 16)
    rate = float(num_clusters)
    return ElasticProblem(capacity, types, num_tasks, rate, stepping=stepping, **fields)  # type: ignore[arg-type]


def greedy(world, state, sight, move) -> None:
    """Each agent takes a task by a hash of step, round and cluster, with as many GPUs as the hash says."""
    move.changes[:] = False
    for n in range(state.slot.shape[1]):
        held = [k for k in range(state.slot.shape[2]) if state.slot[0, n, k] >= 0]
        move.slot[0, n], move.chance[0, n] = -1, 1.0
        move.units[0, n] = 0
        if held:
            draw = random.Random(int(state.now[0]) * 1000 + int(state.round[0]) * 50 + n)
            move.slot[0, n] = draw.choice(held)
            move.units[0, n] = (2, draw.randint(1, 9))
            move.chance[0, n] = 0.1 + draw.random()


def sharing(world, state, sight, move) -> None:
    """Like ``greedy``, and the running tasks are given new units by turns."""
    greedy(world, state, sight, move)
    for n in range(state.slot.shape[1]):
        count = int(state.num_running[0, n])
        move.changes[0, n] = True
        for k in range(count):
            move.again[0, n, k] = (2, 1 + (int(state.now[0]) + k) % 2)


def as_sent(message: Message) -> Message:
    """A message as it comes out of the wire."""
    return json.loads(json.dumps(message, allow_nan=False))


@dataclass
class World:
    """All parties, their journals, and messages on their way."""

    problem: ElasticProblem
    seed: int
    fills: Fills = greedy
    is_stepwise: bool = False
    leaders: dict[int, Leader] = field(default_factory=dict)
    is_alive: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = self.problem.num_clusters
        self.clusters = [ClusterAgent(self.problem, n, self.seed) for n in range(count)]
        self.source = Source(draw_tasks(self.problem, self.seed), count)
        self.journals: list[list[Message]] = [[] for _ in range(count)]
        self.journal: list[Message] = []
        self.is_alive = [True] * count
        self.mirror = Mirror(self.problem, self.fills, self.seed, is_stepwise=self.is_stepwise)

    def lead(self, term: int) -> Leader:
        return Leader(self.problem.num_clusters, self.problem.num_slots, term, self.mirror.decide)

    def ask(self, party: int, message: Message) -> Message | None:
        """Hand a message over; the reply, once it is written down."""
        message = as_sent(message)
        if party == SOURCE:
            reply = self.source.handle(message)
            self.journal += as_sent({"lines": self.source.lines})["lines"]
            self.source.lines.clear()
            return None if reply is None else as_sent(reply)
        agent = self.clusters[party]
        reply = agent.handle(message)
        self.journals[party] += as_sent({"lines": agent.lines})["lines"]
        agent.lines.clear()
        return as_sent(reply)

    def submit(self, cluster: int) -> Message | None:
        """The source's tasks for a cluster, if any are due."""
        rows = [one.to_row() for one in self.source.unsent(cluster)]
        if not rows:
            return None
        reply = self.ask(cluster, {"kind": "submit", "tasks": rows})
        assert reply is not None
        return self.source.accepted(cluster, reply["tasks"])

    def restart(self, cluster: int) -> None:
        """A cluster's agent is started again from its journal."""
        self.clusters[cluster] = ClusterAgent(self.problem, cluster, self.seed)
        self.clusters[cluster].replay(as_sent({"lines": self.journals[cluster]})["lines"])


def play(world: World, term: int = 0, until: Callable[[Leader], bool] | None = None) -> Leader:
    """Let one coordinator lead without any disturbance until it is over (or ``until`` says so)."""
    leader = world.lead(term)
    sends: Sends = leader.begin()
    for _ in range(MOST_DECISIONS):
        while sends:
            party, message = sends.pop(0)
            reply = world.ask(party, message)
            replies = [(party, reply)]
            if party == SOURCE:
                replies += [(SOURCE, world.submit(n)) for n in range(len(world.clusters))]
            for who, found in replies:
                if found is not None:
                    sends += leader.receive(who, found)
        if leader.phase != "ready" or (until is not None and until(leader)):
            return leader
        sends = leader.next()
    raise AssertionError(f"{leader.left} tasks have not ended after {MOST_DECISIONS} decisions")
