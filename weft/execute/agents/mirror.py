"""The coordinator's copy of all clusters: what they show becomes a state of the kernel, which decides logical steps.

Allocators, conflicts and the order of placing are thus the kernel's own; what comes out are orders for each cluster.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from weft.execute.agents.leader import Decision
from weft.execute.agents.tasks import Held, Message, Shown, Task
from weft.model.elastic import ElasticProblem
from weft.sim.elastic.observation import ElasticSight, new_sight, observe
from weft.sim.elastic.settling import settle_round
from weft.sim.elastic.state import (
    LOST,
    PLACED,
    RUNNING,
    WAITING,
    Move,
    State,
    World,
    compile_world,
    new_move,
    new_outcome,
    new_state,
)


class Fills(Protocol):
    """Decides one logical step of one environment."""

    def __call__(self, world: World, state: State, sight: ElasticSight, move: Move) -> None:
        """Write what every agent does into ``move``."""


class Mirror:
    """Decides world steps, or single logical ones, from what clusters show.

    Parameters
    ----------
    fills
        The allocator at work.
    seed
        Of its own draws.
    is_stepwise
        Order after every logical step, so that state travels for each; else after all of a world step.
    """

    def __init__(
        self, problem: ElasticProblem, fills: Fills, seed: int, *, is_stepwise: bool = False
    ) -> None:
        self.problem, self.fills, self.is_stepwise = problem, fills, is_stepwise
        self.world = compile_world(problem)
        self.state = new_state(problem, 1)
        self.move, self.out = new_move(problem, 1), new_outcome(problem, 1)
        self.sight = new_sight(problem, 1)
        self._blank = {name: value.copy() for name, value in self.state._asdict().items()}
        self._blank["seed"][0] = seed

    def decide(self, views: list[Shown | None], first_round: int) -> Decision:
        """Orders for every cluster."""
        self._fill(views, first_round)
        order: list[int] = []
        was, num_rounds = self.state.units[0].copy(), 0
        while True:
            observe(self.world, self.state, 0, self.sight)
            self.fills(self.world, self.state, self.sight, self.move)
            slots = self.state.slot[0].copy()
            any_placed = settle_round(self.world, self.state, 0, self.move, self.out)
            num_rounds += 1
            order += self._placed(slots)
            advances = not (self.world.is_multi and any_placed)
            if advances or self.is_stepwise:
                return Decision(self._orders(views, order, was), advances, num_rounds)

    def _placed(self, slots: np.ndarray) -> list[int]:
        """Tasks that were placed in this logical step, in the kernel's order: by their first claimant."""
        claims = [
            int(slots[n, self.move.slot[0, n]])
            for n in range(len(slots))
            if self.out.outcome[0, n] in (PLACED, LOST)
        ]
        return list(dict.fromkeys(claims))

    def _orders(self, views: list[Shown | None], order: list[int], was: np.ndarray) -> list[Message]:
        s, found = self.state, []
        winner = {j: int(s.cluster[0, j]) for j in order}
        for n, view in enumerate(views):
            orders: Message = {}
            mine = [j for j in order if int(s.links[0, j]) >> n & 1]
            place = [[j, int(s.placed_round[0, j]), s.units[0, j].tolist()] for j in order if winner[j] == n]
            taken = [[j, winner[j]] for j in mine if winner[j] != n]
            old = [] if view is None else [held.task.number for held in view.running]
            units = [[j, s.units[0, j].tolist()] for j in old if (s.units[0, j] != was[j]).any()]
            if self.world.is_earliest and len(mine) > 1:
                orders["order"] = mine
            parts = {"place": place, "taken": taken, "units": units}
            found.append(orders | {key: value for key, value in parts.items() if value})
        return found

    # from what clusters show to a state of the kernel

    def _fill(self, views: list[Shown | None], first_round: int) -> None:
        s = self.state
        for name, value in s._asdict().items():
            value[:] = self._blank[name]
        here = sum(1 << n for n, view in enumerate(views) if view is not None)
        s.now[0] = max(view.step for view in views if view is not None)
        s.round[0] = first_round
        for n, view in enumerate(views):
            if view is not None:
                self._fill_cluster(n, view, here)

    def _fill_cluster(self, n: int, view: Shown, here: int) -> None:
        s = self.state
        for k, task in enumerate(view.slots):
            if task is not None:
                self._fill_task(task, here, WAITING)
                s.slot[0, n, k] = task.number
                s.in_set[0, n] += 1
        for i, task in enumerate(view.queue):
            self._fill_task(task, here, WAITING)
            s.queue[0, n, i] = task.number
        s.tail[0, n] = len(view.queue)
        s.queued[0, n] = view.queued
        s.free[0, n] = self.world.capacity[n]
        s.num_running[0, n] = len(view.running)
        for k, held in enumerate(view.running):
            s.running[0, n, k] = held.task.number
            self._fill_task(held.task, here, RUNNING)
            self._fill_held(n, held)

    def _fill_task(self, task: Task, here: int, status: int) -> None:
        s, j = self.state, task.number
        s.status[0, j] = status
        s.arrival[0, j], s.kind[0, j], s.links[0, j] = task.arrival, task.type, task.links & here

    def _fill_held(self, n: int, held: Held) -> None:
        s, j = self.state, held.task.number
        s.cluster[0, j], s.start[0, j], s.placed_round[0, j] = n, held.start, held.round
        s.progress[0, j], s.ran[0, j] = held.progress, held.ran
        s.units[0, j], s.served[0, j] = held.units, held.served
        s.before[0, j] = -1 if held.before is None else held.before
        s.free[0, n] -= s.units[0, j]
