"""Dispatchers of single tasks as others have them: DEFT in a fixed order, and the rule of Dask's scheduler.

``weft/sim/tasks/peers.py`` says how they decide, ``weft/sim/tasks/deft.py`` what DEFT is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.model.graph import Bools, Floats, Ints, TaskGraph
from weft.model.problem import Problem, Realisation
from weft.model.schedule import Schedule
from weft.schedulers.dispatchers.deciding import DecidingDispatcher
from weft.schedulers.dispatchers.outages import Move, Outage, extra_rows
from weft.schedulers.dispatchers.playing import Playing
from weft.schedulers.dispatchers.tasks import by_age, by_rank
from weft.sim.tasks.peers import FIFO, RANK, WORKERS, PeerRule, decide_peer, play_peer_until, run_peers
from weft.sim.tasks.rules import TaskRule
from weft.sim.tasks.state import Facts, Tasks, TaskState

ENV = 0
FEW_PARENTS = 5
"""A group of tasks with fewer parents than this begins its graph, if the group is large."""


def by_depth_first(problem: Problem, seed: int, first_job: int = 0) -> Floats:
    """Within each job, what finishes a branch that was begun first."""
    return np.concatenate([_depth_first(job.graph) for job in problem.jobs])


def _depth_first(graph: TaskGraph) -> Floats:
    """The place of every task in an order in which children follow their last parent, those with least below them first."""
    below = np.ones(graph.num_tasks)
    for i in reversed(graph.order.tolist()):
        below[i] += below[graph.successors(i)].sum()
    left = np.diff(graph.predecessor_pointer)
    place, stack = np.zeros(graph.num_tasks), _largest_first(np.flatnonzero(left == 0), below)
    for number in range(graph.num_tasks):
        i = stack.pop()
        place[i] = number
        children = graph.successors(i)
        left[children] -= 1
        stack += _largest_first(children[left[children] == 0], below)
    return place


def _largest_first(tasks: Ints, below: Floats) -> list[int]:
    found: list[int] = tasks[np.lexsort((tasks, below[tasks]))].tolist()
    return found[::-1]


def begins_graph(problem: Problem) -> Bools:
    """Tasks without parents, and those of large groups that depend on few.

    A group is what one job has of one kind at one depth; it is large with more than two tasks per slot.
    """
    return np.concatenate(
        [_begins(job.graph, 2.0 * float(problem.slot_counts.sum())) for job in problem.jobs]
    )


def _begins(graph: TaskGraph, many: float) -> Bools:
    depth = np.zeros(graph.num_tasks, np.int64)
    for i in graph.order.tolist():
        depth[i] = 1 + depth[graph.predecessors(i)].max(initial=-1)
    is_root = np.diff(graph.predecessor_pointer) == 0
    _, group = np.unique(np.stack([graph.kind, depth]), axis=1, return_inverse=True)
    for number in np.flatnonzero(np.bincount(group.ravel()) > many).tolist():
        members = np.flatnonzero(group.ravel() == number)
        parents = np.unique(np.concatenate([graph.predecessors(i) for i in members.tolist()]))
        is_root[members] |= len(parents) < FEW_PARENTS
    return np.asarray(is_root, dtype=np.bool_)


def copy_rows(moves: Sequence[Move], problem: Problem) -> int:
    """Rows beyond one per task: a copy for every task, and again for what is placed anew when a device goes."""
    num_losses = sum(not move.comes for move in moves)
    return 2 * extra_rows(moves, problem) + (1 + 2 * num_losses) * problem.num_tasks


@dataclass(frozen=True)
class PeerDispatcher(DecidingDispatcher):
    """A rule of ``sim/tasks/peers.py``."""

    turn: int = FIFO
    """FIFO, RANK or WORKERS: how ready tasks are ordered and placed."""

    @property
    def binds_ahead(self) -> bool:
        """DEFT places tasks on busy devices too."""
        return self.turn != WORKERS

    def run_all(
        self,
        problems: Sequence[Problem],
        realisations: Sequence[Realisation],
        seeds: Sequence[int],
        outages: Sequence[Outage] = (),
    ) -> list[Schedule]:
        """All problems in one call of the kernel; with outages one after the other."""

        def prepare(s: TaskState) -> PeerRule:
            self.rule(problems, s, seeds)
            return self.peer_rule(problems)

        return Playing(prepare, run_peers, play_peer_until, copy_rows).all(problems, realisations, outages)

    def peer_rule(self, problems: Sequence[Problem]) -> PeerRule:
        """What the rule knows of problems side by side."""
        size, has_workers = sum(problem.num_tasks for problem in problems), self.turn == WORKERS
        nothing: Bools = np.zeros(0, np.bool_)
        return PeerRule(
            order=self.turn,
            copies=np.array([problem.objective.copies for problem in problems]),
            slowness=np.array([problem.mean_link[1] for problem in problems]),
            mean=np.concatenate([problem.mean_run_times for problem in problems])
            if has_workers
            else np.zeros(0),
            is_root=np.concatenate([begins_graph(problem) for problem in problems])
            if has_workers
            else nothing,
            turn=np.zeros(size),
            waits_for=np.zeros(size, np.int64),
            todo=np.zeros(sum(problem.cluster.num_devices for problem in problems)),
        )

    def decider(self, problem: Problem, rule: TaskRule) -> PeerDecider:
        return PeerDecider(self, problem)


class PeerDecider:
    """Lets the rule decide in a state with one environment whose jobs come and go."""

    def __init__(self, dispatcher: PeerDispatcher, problem: Problem) -> None:
        self.title, self._dispatcher = dispatcher.name, dispatcher
        self._rule = dispatcher.peer_rule([problem])

    def grow(self, rule: TaskRule, problem: Problem, first: int) -> None:
        """Learn of the tasks of a further problem, numbered from ``first``."""
        new, last = self._dispatcher.peer_rule([problem]), first + problem.num_tasks
        grown: dict[str, Any] = {}
        for name in ("mean", "is_root", "turn", "waits_for"):
            old, added = getattr(self._rule, name), getattr(new, name)
            if len(added):
                grown[name] = np.zeros(max(len(old), last), added.dtype)
                grown[name][: len(old)] = old
                grown[name][first:last] = added
        self._rule = self._rule._replace(**grown)

    def close_up(self, tasks: Ints) -> None:
        """Only these tasks are left, numbered anew in their order."""
        for column in (self._rule.mean, self._rule.is_root):
            if len(column):
                column[: len(tasks)] = column[tasks]

    def decide(self, w: Tasks, f: Facts, s: TaskState) -> None:
        """Start or reserve what the rule starts or reserves now."""
        decide_peer(self._rule, w, f, s, ENV)

    def can_start(self, w: Tasks, f: Facts, s: TaskState) -> bool:
        """Whether some ready task could start now."""
        return bool(s.num_ready[ENV] > 0 and s.num_free[ENV] > 0)


fifo_deft = PeerDispatcher("fifo-deft", key=by_age, turn=FIFO)
deft = PeerDispatcher("deft", key=by_rank, turn=RANK)
dask_like = PeerDispatcher("dask-like", key=by_depth_first, turn=WORKERS)
