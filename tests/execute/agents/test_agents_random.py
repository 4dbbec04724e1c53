"""Agents under random interleavings: messages dropped, repeated and late; coordinators and clusters that die."""

from __future__ import annotations

import random

import pytest
from agents_in_memory import World, as_sent, play, problem_of
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.execute.agents.check import Checker, Rules
from weft.execute.agents.leader import SOURCE, Leader


def rules_of(problem) -> Rules:
    most = [list(one.most) for one in problem.types]
    return Rules(problem.capacity.tolist(), most, problem.num_tasks)


def holders(world: World) -> dict[int, list[int]]:
    """Task -> clusters that run it or ended it."""
    found: dict[int, list[int]] = {}
    for n, agent in enumerate(world.clusters):
        for task in [*agent.finished, *(held.task.number for held in agent.running)]:
            found.setdefault(task, []).append(n)
    return found


class Chaos:
    """Coordinators, some of them dead or superseded, and a network that does what it likes."""

    def __init__(self, world: World, seed: int, *, with_loss: bool) -> None:
        self.world, self.rng, self.with_loss = world, random.Random(seed), with_loss
        self.leaders: list[Leader] = []
        self.flying: list[tuple[Leader, int, dict]] = []
        self.replies: list[tuple[Leader, int, dict]] = []
        self.asker: Leader | None = None
        self.kills = 0

    def send(self, leader: Leader, sends) -> None:
        self.flying += [(leader, party, as_sent(message)) for party, message in sends]

    def promote(self) -> None:
        """A new coordinator; the old one may be dead, or only think it leads."""
        if self.leaders and self.rng.random() < 0.6:
            self.leaders.pop()
        leader = self.world.lead(self.kills)
        self.kills += 1
        self.leaders.append(leader)
        self.send(leader, leader.begin())

    def deliver(self) -> None:
        at = self.rng.randrange(len(self.flying)) if self.rng.random() < 0.3 else 0
        leader, party, message = self.flying.pop(at)
        if self.rng.random() < 0.1:
            return
        if self.rng.random() < 0.1:
            self.flying.append((leader, party, message))
        if party != SOURCE and not self.world.is_alive[party]:
            return
        if party == SOURCE and message["kind"] == "due":
            self.asker = leader
        reply = self.world.ask(party, message)
        if reply is not None:
            self.replies.append((leader, party, reply))

    def answer(self) -> None:
        leader, party, reply = self.replies.pop(self.rng.randrange(len(self.replies)))
        if self.rng.random() < 0.1 or leader not in self.leaders:
            return
        self.send(leader, leader.receive(party, reply))

    def submit(self) -> None:
        n = self.rng.randrange(len(self.world.clusters))
        if self.world.is_alive[n]:
            reply = self.world.submit(n)
            if reply is not None and self.asker is not None:
                self.replies.append((self.asker, SOURCE, reply))

    def disturb(self) -> None:
        """A cluster dies or returns, or is given up."""
        n = self.rng.randrange(len(self.world.clusters))
        if self.world.is_alive[n]:
            self.world.is_alive[n] = False
            return
        leader = self.leaders[-1]
        if self.with_loss and self.rng.random() < 0.5 and leader.phase not in ("fenced", "over"):
            self.send(leader, leader.give_up(n))
            return
        self.world.restart(n)
        self.world.is_alive[n] = True
        if n in leader.lost and leader.phase not in ("fenced", "over"):
            self.send(leader, leader.begin())

    def step(self) -> None:
        draw = self.rng.random()
        if draw < 0.003 or not self.leaders or self.leaders[-1].phase == "fenced":
            self.promote()
        elif draw < 0.012:
            self.disturb()
        elif draw < 0.06:
            for leader in self.leaders:
                self.send(leader, list(leader.waiting_for.items()))
        elif draw < 0.2:
            self.submit()
        elif draw < 0.6 and self.flying:
            self.deliver()
        elif self.replies:
            self.answer()
        else:
            for leader in self.leaders:
                if leader.phase == "ready":
                    self.send(leader, leader.next())


def chaos(seed: int, *, with_loss: bool, steps: int = 2500, **fields) -> World:
    problem = problem_of("multi", num_tasks=25, **fields)
    world = World(problem, seed, is_stepwise=bool(seed % 2))
    run = Chaos(world, seed, with_loss=with_loss)
    for _ in range(steps):
        run.step()
        if not with_loss:
            assert all(len(where) == 1 for where in holders(world).values())
    for n, is_alive in enumerate(world.is_alive):
        if not is_alive:
            world.restart(n)
    leader = play(world, term=run.kills)
    assert leader.phase == "over"
    assert all(len(where) == 1 for where in holders(world).values())
    return world


def checked(world: World):
    return Checker(rules_of(world.problem)).check(world.journals, world.journal)


@pytest.mark.parametrize("with_loss", [False, True])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_agents_complete_every_task_once_whatever_happens(with_loss, seed):
    found = checked(chaos(seed, with_loss=with_loss, pending="earliest" if seed % 3 == 0 else "slots"))
    assert found.faults == ()
    assert found.num_completed == 25
    assert with_loss or found.num_again == 0


@pytest.mark.slow
@pytest.mark.parametrize("with_loss", [False, True])
def test_agents_complete_every_task_once_in_many_interleavings(with_loss):
    for seed in range(1500):
        assert checked(chaos(seed, with_loss=with_loss)).faults == ()
