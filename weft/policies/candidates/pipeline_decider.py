"""A policy of pipelines in one environment, decision by decision: in sessions, and where devices go away.

Pipelines are told apart by their order: of ``names``, then that in which their first instances are told of.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.model.graph import Ints
from weft.model.problem import Problem
from weft.policies.candidates.forward import CandidatePolicy
from weft.sim.tasks.moves import commit
from weft.sim.tasks.pipeline_features import PipelineListed, PipelineSight, list_stages
from weft.sim.tasks.pipelines import (
    Instance,
    Lines,
    LineState,
    Sweep,
    instances_of,
    live_lines,
    new_line_state,
    new_sweep,
    settle_lines,
)
from weft.sim.tasks.rules import TaskRule
from weft.sim.tasks.state import NUM_ASKED, Facts, Tasks, TaskState

ENV = 0


class PipelineDecider:
    """Lists stages in a state of the task view and starts what the policy points at."""

    def __init__(
        self,
        title: str,
        policy: CandidatePolicy,
        sight: PipelineSight,
        problem: Problem,
        names: Sequence[str] = (),
    ) -> None:
        self.title, self._policy, self._sight, self._seen = title, policy, sight, sight.seen()
        self._width, self._names = problem.cluster.num_classes, names
        self._own: list[Instance] = []  # of every job that is there
        self._is_open = problem.num_tasks == 0  # the session knows its cluster alone
        self._lines: tuple[Lines, LineState, Sweep] | None = None
        if not self._is_open:
            self._own = instances_of(problem, self._width)
        self._listed = PipelineListed(
            task=np.zeros(sight.num_choices, np.int64),
            device=np.zeros(sight.num_choices, np.int64),
            count=np.zeros(1, np.int64),
            later=np.zeros(1),
            depth=np.zeros(sight.num_choices, np.int64),
        )
        self._observation = np.zeros(sight.num_features, np.float32)
        self._mask = np.zeros(sight.num_choices, np.bool_)

    def grow(self, rule: TaskRule, problem: Problem, first: int) -> None:
        """Learn of the tasks of a further problem, numbered from ``first``; the rule has grown for them."""
        begins = np.cumsum([0, *(one.num_tasks for one in self._own)])[:-1]
        self._own = [one for one, at in zip(self._own, begins.tolist(), strict=True) if at < first]
        self._own += instances_of(problem, self._width)
        self._lines = None

    def close_up(self, tasks: Ints) -> None:
        """Only these tasks are left, numbered anew in their order."""
        begins = np.cumsum([0, *(one.num_tasks for one in self._own)])[:-1]
        self._own = [self._own[j] for j in np.flatnonzero(np.isin(begins, tasks)).tolist()]
        self._lines = None

    def close(self) -> None:
        """Nobody will tell of another instance."""
        self._is_open, self._lines = False, None

    def decide(self, w: Tasks, f: Facts, s: TaskState) -> None:
        """Start stages until the policy waits or none is left; ``s.wake`` is when to ask again."""
        while self.can_start(w, f, s):
            s.count[ENV, NUM_ASKED] += 1
            listed, count = self._listed, int(self._listed.count[0])
            chosen = self._policy.decide(self._observation, self._mask)
            if chosen >= count:
                s.wake[ENV] = min(s.wake[ENV], listed.later[0])
                return
            commit(w, f, s, ENV, int(listed.task[chosen]), int(listed.device[chosen]))

    def can_start(self, w: Tasks, f: Facts, s: TaskState) -> bool:
        """Whether some ready stage could start now; lists the candidates."""
        if s.num_ready[ENV] == 0 or s.num_free[ENV] == 0:
            return False
        lines, v, look = self._known()
        settle_lines(lines, w, s, v, ENV)
        can_wait = list_stages(self._seen, lines, w, f, s, v, ENV, look, self._listed, self._observation)
        self._mask[:] = np.arange(len(self._mask)) < self._listed.count[0]
        self._mask[-1] = can_wait
        return bool(self._listed.count[0] > 0)

    def _known(self) -> tuple[Lines, LineState, Sweep]:
        """The pipelines as they are laid out now; what has changed of them is looked up from the start."""
        if self._lines is None:
            series = list(dict.fromkeys([*self._names, *(one.series for one in self._own)]))
            lines = live_lines(self._own, series, is_open=self._is_open)
            self._lines = lines, new_line_state(lines), new_sweep(self._width, len(series))
        return self._lines
