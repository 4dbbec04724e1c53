"""Proven optima: CP-SAT over devices, orders and transfers, started from the best cheap plan.

The solver works in whole ticks; the schedule is rebuilt from its devices and order with the true
times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from weft.errors import InputError
from weft.model.bounds import Bound
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.schedulers.base import Limit, Planner, refuse_unplannable
from weft.schedulers.exact.cpsat import Program, Progress, load_solver, refuse_solver
from weft.schedulers.exact.ticks import Answer, TickProblem, decode, make_pools
from weft.schedulers.planners.first_plans import cheap_plans
from weft.sim.arrays import Arrays, compile_problem

MOST_CHOICES = 20_000
"""Largest number of (task, device) pairs; many equal devices count as one where transfers are free."""
MOST_LAGS = 200_000
"""Largest number of (edge, link group, link group) triples."""
GUARD = 60.0
"""Seconds per unit of deterministic time, and once more, after which the wall clock ends a search
under an effort: far off, for searches whose deterministic clock stands still."""
EFFORT_PER_TICK = 1_000
"""Effort per unit of the solver's deterministic time: some seconds of one core, see ``Exact``."""


@dataclass
class Exact:
    """CP-SAT from a warm start; never worse than the start, and proves how good it is.

    A budget runs ``workers`` threads. An effort runs one and repeats exactly: 1,000 are one unit of
    the solver's deterministic time, which took 2 to 7 seconds of one core on job shops of 225 to 600
    tasks. Should that take 60 seconds or more the search is cut, and ``is_cut`` says so.
    """

    first: Planner | None = None
    """Another planner whose schedule may be the start, beside those of the cheap ones."""
    start: Schedule | None = None
    """Schedule without copies to improve on; None: the best of the cheap planners."""
    deadlines: bool = True
    """Whether every job must meet its deadline; the bound then holds for such schedules only."""
    workers: int = 2
    """Threads under a budget."""
    on_progress: Progress | None = None
    note: str = field(default="", init=False)
    """What was proven by the last call of ``plan``."""
    is_proven: bool = field(default=False, init=False)
    """Whether the last schedule is optimal, to within the resolution of the ticks."""
    is_cut: bool = field(default=False, init=False)
    """Whether the wall clock ended a search that an effort was to end: it does not repeat."""

    name = "exact"
    effort = 10_000

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"expected a whole number >= 1, got {self.workers}", field="workers")

    def supports(self, problem: Problem) -> str | None:
        """None, or why CP-SAT cannot act on the problem."""
        reason = refuse_unplannable(problem)
        if reason is not None:
            return reason
        for device_class, count in zip(problem.cluster.classes, problem.device_counts, strict=True):
            if count and device_class.batch > 1:
                return f"class {device_class.name!r} runs batches: the exact model places tasks one by one"
        return _too_large(compile_problem(problem)) or refuse_solver()

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """The best schedule without copies found within the limit, with the bound proven for it."""
        load_solver()
        limit, self.is_cut = limit or Limit(), False
        start = self._checked(problem) if self.start else self._cheap(problem, seed, limit)
        if start.makespan == 0:
            return self._report(start, Bound(0.0, "cp-sat", copies=False), 0.0)
        if limit.left() <= 0:
            return self._report(start, None, 0.0)
        ticked = TickProblem(problem, start, self.deadlines)
        program = Program(ticked)
        program.hint(start)
        answer = program.solve(self._parameters(seed, limit), self.on_progress)
        self.is_cut = limit.is_repeatable and program.is_cut
        return self._conclude(ticked, start, answer)

    def _checked(self, problem: Problem) -> Schedule:
        start = self.start
        assert start is not None
        if start.problem is not problem:
            raise InputError("expected a schedule of the problem to plan", field="start")
        if start.num_copies or (start.batch >= 0).any():
            raise InputError("expected a schedule without copies and batches", field="start")
        broken = validate(start)
        if broken:
            raise InputError(f"expected a valid schedule, got: {broken[0]}", field="start")
        return start

    def _cheap(self, problem: Problem, seed: int, limit: Limit) -> Schedule:
        plans = cheap_plans(problem, self.first, seed, limit)
        return min(plans, key=lambda plan: (plan.misses if self.deadlines else 0, plan.makespan))

    def _parameters(self, seed: int, limit: Limit) -> dict[str, float]:
        shared = {"random_seed": seed % 2**31}
        if limit.is_repeatable:
            ticks = (limit.effort or self.effort) / EFFORT_PER_TICK
            guard = GUARD * (1.0 + ticks)
            return {**shared, "num_workers": 1, "max_deterministic_time": ticks, "max_time_in_seconds": guard}
        return {**shared, "num_workers": self.workers, "max_time_in_seconds": max(limit.left(), 1e-3)}

    def _conclude(self, ticked: TickProblem, start: Schedule, answer: Answer | None) -> Schedule:
        """The better of start and answer; the start alone if the solver found nothing in time."""
        if answer is None:
            return self._report(start, None, 0.0)
        found = decode(ticked, answer)
        is_met = not (ticked.has_deadlines and found.misses)
        is_start_met = not (ticked.has_deadlines and start.misses)
        best = found if (is_met, -found.makespan) > (is_start_met, -start.makespan) else start
        if ticked.has_deadlines and best.misses:
            return self._report(best, None, 0.0)
        method = "cp-sat, deadlines met" if ticked.has_deadlines else "cp-sat"
        bound = Bound(min(answer.bound / ticked.grid.scale, best.makespan), method, copies=False)
        return self._report(best, bound, ticked.tolerance)

    def _report(self, schedule: Schedule, bound: Bound | None, tolerance: float) -> Schedule:
        """The schedule with its bound; fills the note."""
        self.is_proven = bound is not None and schedule.makespan <= bound.value * (1 + 1e-9) + tolerance
        if bound is None:
            late = f", {schedule.misses} jobs late" if self.deadlines and schedule.misses else ""
            self.note = (
                f"the limit was too short to improve on the start or to prove a bound{late}{self._cut}"
            )
            return schedule
        of = "schedules without copies" + (" that meet the deadlines" if "deadlines" in bound.method else "")
        if self.is_proven:
            within = f", to within {tolerance:.1g} {schedule.time_unit}" if tolerance else ""
            self.note = f"proven optimal among {of}{within}"
        else:
            above = 100.0 * (schedule.makespan / bound.value - 1.0) if bound.value else math.inf
            self.note = f"at most {above:.2f} % above the best of {of}{self._cut}"
        return replace(schedule, lower_bounds=(*schedule.lower_bounds, bound))

    @property
    def _cut(self) -> str:
        return "; cut by the wall clock before the effort was spent" if self.is_cut else ""


def _too_large(a: Arrays) -> str | None:
    pools = make_pools(a)
    choices = sum(int(np.isfinite(a.run[:, pool.device_class]).sum()) for pool in pools)
    if choices > MOST_CHOICES:
        return f"it has {choices} (task, device) pairs, the exact model takes at most {MOST_CHOICES}"
    groups = len({pool.group for pool in pools})
    lags = len(a.succ) * groups**2
    if groups > 1 and lags > MOST_LAGS:
        return f"it has {lags} (edge, link, link) triples, the exact model takes at most {MOST_LAGS}"
    return None
