"""Problems carried out by kernels of the task view: side by side, or one after the other while devices come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from weft.errors import InputError
from weft.model.problem import Problem, Realisation
from weft.model.schedule import Schedule
from weft.schedulers.dispatchers.outages import Move, Outage, extra_rows, moves_of, refuse_unfinished
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state, schedule_of
from weft.sim.tasks.state import Facts, Tasks, TaskState

R = TypeVar("R")


@dataclass(frozen=True)
class Playing(Generic[R]):
    """How a kind of rule carries problems out."""

    prepare: Callable[[TaskState], R]
    """Writes into an empty state what the rule goes by, and returns the kernel's rule."""
    run: Callable[[R, Tasks, Facts, TaskState], None]
    """All environments to their ends."""
    play: Callable[[R, Tasks, Facts, TaskState, int, float], None]
    """One environment until a time."""
    room: Callable[[Sequence[Move], Problem], int] = extra_rows
    """Rows beyond one per task."""

    def all(
        self, problems: Sequence[Problem], realisations: Sequence[Realisation], outages: Sequence[Outage]
    ) -> list[Schedule]:
        """What happens: in one call of the kernel; with outages one problem after the other."""
        w = compile_tasks(problems)
        f = facts_of(realisations, w)
        moves = [moves_of(outages, problem) for problem in problems]
        pairs = zip(moves, problems, strict=True)
        s = new_task_state(w, max((self.room(own, problem) for own, problem in pairs), default=0))
        rule = self.prepare(s)
        if outages:
            for b, problem in enumerate(problems):
                for move in moves[b]:
                    self.play(rule, w, f, s, b, move.time)
                    move.carry_out(w, s, b)
                self.play(rule, w, f, s, b, float("inf"))
                refuse_unfinished(problem, s, int(w.job_ptr[b]))
        else:
            self.run(rule, w, f, s)
        if s.overflow.any():
            raise InputError("the event kernel ran out of room for rows or events")
        runs = enumerate(zip(problems, realisations, strict=True))
        return [schedule_of(problem, realisation, w, s, b) for b, (problem, realisation) in runs]
