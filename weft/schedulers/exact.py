"""Proven optima: CP-SAT over devices, orders and transfers, started from the best cheap plan.

The only home of ortools, which is loaded on use. The solver works in whole ticks; the schedule is
rebuilt from its devices and order with the true times.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InfeasibleError, InputError, MissingExtra
from weft.model.bounds import Bound
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.schedulers.base import Limit, Planner, refuse_unplannable
from weft.schedulers.starts import cheap_plans
from weft.schedulers.ticks import Answer, Case, decode, make_pools, whole_units
from weft.sim.arrays import SLOTS, Arrays, compile_problem

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    Held = list[tuple[int, cp_model.IntervalVar]]
    """Tasks and their intervals in one pool."""

MOST_CHOICES = 20_000
"""Largest number of (task, device) pairs; many equal devices count as one where transfers are free."""
MOST_LAGS = 200_000
"""Largest number of (edge, link group, link group) triples."""
MOST_RELATED = 200
"""Up to this many tasks, the work before and after each task is weighed against the time there is."""
MOST_ORDERED = 60
"""Up to this many tasks that share a device, the order of each two of them is a variable."""
EFFORT_PER_TICK = 1_000
"""Effort per unit of the solver's deterministic time: some seconds of one core, see ``Exact``."""

Progress = Callable[[float, float, float], None]
"""Called with seconds since the start, makespan and bound whenever a better schedule is found."""


@dataclass
class Exact:
    """CP-SAT from a warm start; never worse than the start, and proves how good it is.

    A budget runs ``workers`` threads. An effort runs one and repeats exactly: 1,000 are one unit of
    the solver's deterministic time, which took 2 to 7 seconds of one core on job shops of 225 to 600
    tasks.
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
        return _too_large(compile_problem(problem)) or _refuse_solver()

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """The best schedule without copies found within the limit, with the bound proven for it."""
        _solver()
        limit = limit or Limit()
        start = self._checked(problem) if self.start else self._cheap(problem, seed, limit)
        if start.makespan == 0:
            return self._report(start, Bound(0.0, "cp-sat", copies=False), 0.0)
        if limit.left() <= 0:
            return self._report(start, None, 0.0)
        case = Case(problem, start, self.deadlines)
        program = Program(case)
        program.hint(start)
        answer = program.solve(self._parameters(seed, limit), self.on_progress)
        return self._conclude(case, start, answer)

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
            # the wall time is far off: it ends searches whose deterministic clock stands still
            guard = 60.0 * (1.0 + ticks)
            return {**shared, "num_workers": 1, "max_deterministic_time": ticks, "max_time_in_seconds": guard}
        return {**shared, "num_workers": self.workers, "max_time_in_seconds": max(limit.left(), 1e-3)}

    def _conclude(self, case: Case, start: Schedule, answer: Answer | None) -> Schedule:
        """The better of start and answer; the start alone if the solver found nothing in time."""
        if answer is None:
            return self._report(start, None, 0.0)
        found = decode(case, answer)
        is_met = not (case.has_deadlines and found.misses)
        is_start_met = not (case.has_deadlines and start.misses)
        best = found if (is_met, -found.makespan) > (is_start_met, -start.makespan) else start
        if case.has_deadlines and best.misses:
            return self._report(best, None, 0.0)
        method = "cp-sat, deadlines met" if case.has_deadlines else "cp-sat"
        bound = Bound(min(answer.bound / case.grid.scale, best.makespan), method, copies=False)
        return self._report(best, bound, case.tolerance)

    def _report(self, schedule: Schedule, bound: Bound | None, tolerance: float) -> Schedule:
        """The schedule with its bound; fills the note."""
        self.is_proven = bound is not None and schedule.makespan <= bound.value * (1 + 1e-9) + tolerance
        if bound is None:
            late = f", {schedule.misses} jobs late" if self.deadlines and schedule.misses else ""
            self.note = f"the limit was too short to improve on the start or to prove a bound{late}"
            return schedule
        of = "schedules without copies" + (" that meet the deadlines" if "deadlines" in bound.method else "")
        if self.is_proven:
            within = f", to within {tolerance:.1g} {schedule.time_unit}" if tolerance else ""
            self.note = f"proven optimal among {of}{within}"
        else:
            above = 100.0 * (schedule.makespan / bound.value - 1.0) if bound.value else math.inf
            self.note = f"at most {above:.2f} % above the best of {of}"
        return replace(schedule, lower_bounds=(*schedule.lower_bounds, bound))


def _solver() -> ModuleType:
    """The module of CP-SAT, or one line that says why there is none."""
    try:
        return importlib.import_module("ortools.sat.python.cp_model")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "ortools":
            raise MissingExtra("ortools", "solve", "the exact planner") from None
        raise InputError(_broken(error), field="scheduler") from None
    except Exception as error:  # a package that is there but does not load fails in its own ways
        raise InputError(_broken(error), field="scheduler") from None


def _broken(error: Exception) -> str:
    return f"the exact planner needs ortools, which does not load: {type(error).__name__}: {error}"


def _refuse_solver() -> str | None:
    try:
        _solver()
    except InputError as error:
        return error.message
    return None


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


class Program:
    """The CP-SAT model of a case: an optional interval per (task, pool), a lag per edge."""

    def __init__(self, case: Case) -> None:
        self.case, self.cp = case, _solver()
        self.model: cp_model.CpModel = self.cp.CpModel()
        self.makespan = self.model.new_int_var(0, case.horizon, "makespan")
        self.start: list[cp_model.IntVar] = []
        self.end: list[cp_model.LinearExprT] = []
        self.uses: list[dict[int, cp_model.IntVar]] = []  # per task: pool -> literal
        self.same: list[tuple[cp_model.IntVar, int, int]] = []  # literal, parent, child
        self.inside: dict[tuple[int, int], cp_model.IntVar] = {}  # (task, group) -> literal
        self.before: dict[tuple[int, int], cp_model.IntVar] = {}  # (task, task) -> literal
        held: list[Held] = [[] for _ in case.pools]
        for i in range(case.problem.num_tasks):
            self._add_task(i, held)
        for p, intervals in enumerate(held):
            self._limit(p, intervals)
        for e, i in enumerate(np.repeat(np.arange(len(self.start)), np.diff(case.a.succ_ptr)).tolist()):
            self._add_edge(e, i, int(case.a.succ[e]))
        if case.problem.num_tasks <= MOST_RELATED:
            for j, (before, after) in enumerate(zip(case.descends.T, case.descends, strict=True)):
                self._weigh(np.flatnonzero(before).tolist(), self.start[j])
                self._weigh(np.flatnonzero(after).tolist(), self.makespan - self.end[j])
        for twins in case.twins:
            for i, j in pairwise(twins):
                self.model.add(self.start[i] <= self.start[j])
        self.model.minimize(self.makespan)

    def _add_task(self, i: int, held: list[Held]) -> None:
        """Start, end and one optional interval per pool; empty ones hold nothing."""
        case, model = self.case, self.model
        ticks = {p: int(case.run[i, case.pools[p].device_class]) for p in case.may_use(i)}
        latest = min(case.horizon, int(case.due[i]))
        start = model.new_int_var(int(case.release[i]), case.horizon, f"start {i}")
        end = model.new_int_var(0, latest, f"end {i}")
        uses = {p: model.new_bool_var(f"task {i} in pool {p}") for p in ticks}
        model.add_exactly_one(uses.values())
        lengths = self.cp.LinearExpr.weighted_sum(list(uses.values()), list(ticks.values()))
        model.add(end == start + lengths)
        model.add(self.makespan >= end)
        for p, literal in uses.items():
            if ticks[p]:
                # an interval that ends at `end` says the same, but the presolve of ortools 9.12 to 9.15
                # then loses optima, or all solutions
                interval = model.new_optional_fixed_size_interval_var(start, ticks[p], literal, f"{i} in {p}")
                held[p].append((i, interval))
        self.start.append(start)
        self.end.append(end)
        self.uses.append(uses)

    def _limit(self, p: int, held: Held) -> None:
        """What runs in a pool at one time fits its capacities, and its work fits the makespan."""
        pool = self.case.pools[p]
        for r, capacity in enumerate(pool.capacity):
            demand = self.case.a.demand[[i for i, _ in held], r]
            if not math.isfinite(capacity) or demand.sum() <= capacity:
                continue
            units, most = whole_units(demand, capacity)
            holders = [(i, interval, unit) for (i, interval), unit in zip(held, units, strict=True) if unit]
            intervals, units = [interval for _, interval, _ in holders], [unit for *_, unit in holders]
            if most == 1:
                self.model.add_no_overlap(intervals)
            else:
                self.model.add_cumulative(intervals, units, most)
                self._order([i for i, *_ in holders])
            work = [int(self.case.run[i, pool.device_class]) * unit for i, _, unit in holders]
            load = self.cp.LinearExpr.weighted_sum([self.uses[i][p] for i, *_ in holders], work)
            self.model.add(load <= most * self.makespan)

    def _order(self, tasks: list[int]) -> None:
        """Literals for who is done before whom, without which the search crawls from tick to tick."""
        if len(tasks) > MOST_ORDERED:
            return
        for i, j in permutations(tasks, 2):
            if (i, j) not in self.before and not self.case.descends[i, j] and not self.case.descends[j, i]:
                literal = self.before[i, j] = self.model.new_bool_var(f"{i} before {j}")
                self.model.add(self.end[i] <= self.start[j]).only_enforce_if(literal)
                self.model.add(self.end[i] > self.start[j]).only_enforce_if(~literal)

    def _weigh(self, tasks: list[int], room: cp_model.LinearExprT) -> None:
        """The work of these tasks fits the slots in this time; follows from the rest, helps the bound."""
        for p, pool in enumerate(self.case.pools):
            users = [i for i in tasks if p in self.uses[i]]
            if len(users) > 1:
                slots = self.case.a.demand[users, SLOTS].astype(np.int64)
                work = (self.case.run[users, pool.device_class] * slots).tolist()
                load = self.cp.LinearExpr.weighted_sum([self.uses[i][p] for i in users], work)
                self.model.add(load <= round(pool.capacity[SLOTS]) * room)

    def _add_edge(self, e: int, i: int, j: int) -> None:
        """The child starts after its parent, later by the lag unless both are in one pool."""
        gap = self.start[j] - self.end[i]
        lags = {
            (g, h): int(self.case.lag[e, g, h])
            for g, ps in self._groups(i).items()
            for h, qs in self._groups(j).items()
            if g != h or len({*ps, *qs}) > 1
        }
        least = min(lags.values(), default=0)
        same = self._same(i, j) if any(lags.values()) else None
        self.model.add(gap >= least if same is None else gap >= least - least * same)
        for (g, h), lag in lags.items():
            if lag > least:
                apart = [~same] if same is not None and g == h else []
                self.model.add(gap >= lag).only_enforce_if([*self._in(i, g), *self._in(j, h), *apart])

    def _groups(self, i: int) -> dict[int, list[int]]:
        """Pools that task i may use, by link group."""
        groups: dict[int, list[int]] = {}
        for p in self.uses[i]:
            groups.setdefault(self.case.pools[p].group, []).append(p)
        return groups

    def _in(self, i: int, g: int) -> list[cp_model.IntVar]:
        """Literals that say together that task i is in a link group; none if it cannot be elsewhere."""
        groups = self._groups(i)
        if len(groups) == 1:
            return []
        literals = [self.uses[i][p] for p in groups[g]]
        if len(literals) == 1:
            return literals
        if (i, g) not in self.inside:
            self.inside[i, g] = self.model.new_bool_var(f"task {i} in group {g}")
            self.model.add(sum(literals) == self.inside[i, g])
        return [self.inside[i, g]]

    def _same(self, i: int, j: int) -> cp_model.IntVar | None:
        """A literal that says whether two tasks share a pool; None if they cannot."""
        if not self.uses[i].keys() & self.uses[j].keys():
            return None
        same = self.model.new_bool_var(f"{i} and {j} together")
        for p in dict.fromkeys([*self.uses[i], *self.uses[j]]):
            if p not in self.uses[i] or p not in self.uses[j]:
                alone = self.uses[j if p in self.uses[j] else i][p]
                self.model.add_implication(same, ~alone)
                continue
            one, other = self.uses[i][p], self.uses[j][p]
            self.model.add_bool_or(~same, ~one, other)
            self.model.add_bool_or(~same, one, ~other)
            self.model.add_bool_or(same, ~one, ~other)
        self.same.append((same, i, j))
        return same

    def hint(self, schedule: Schedule) -> None:
        """Begin with this schedule."""
        case, hint = self.case, self.model.add_hint
        pool, start = case.canonical(schedule)
        end = [at + int(case.run[i, case.pools[pool[i]].device_class]) for i, at in enumerate(start)]
        hint(self.makespan, max(end))
        for i, uses in enumerate(self.uses):
            hint(self.start[i], start[i])
            hint(self.end[i], end[i])
            for p, literal in uses.items():
                hint(literal, p == pool[i])
        for literal, i, j in self.same:
            hint(literal, pool[i] == pool[j])
        for (i, j), literal in self.before.items():
            hint(literal, end[i] <= start[j])
        for (i, g), literal in self.inside.items():
            hint(literal, case.pools[pool[i]].group == g)

    def solve(self, parameters: dict[str, float], on_progress: Progress | None) -> Answer | None:
        """Search; None if nothing was found in time."""
        solver = self.cp.CpSolver()
        for key, value in parameters.items():
            setattr(solver.parameters, key, value)
        status = solver.solve(self.model, self._callback(on_progress) if on_progress else None)
        if status == self.cp.INFEASIBLE and self.case.has_deadlines:
            solver.parameters.cp_model_presolve = False  # a verdict that ends the run is asked for twice
            status = solver.solve(self.model)
            if status == self.cp.INFEASIBLE:
                raise InfeasibleError(_late(self.case.problem), field="deadline")
        if status not in (self.cp.OPTIMAL, self.cp.FEASIBLE):
            return None
        return Answer(
            [next(p for p, use in uses.items() if solver.boolean_value(use)) for uses in self.uses],
            [solver.value(start) for start in self.start],
            [solver.value(end) for end in self.end],
            math.ceil(solver.best_objective_bound - 1e-6),
        )

    def _callback(self, on_progress: Progress) -> cp_model.CpSolverSolutionCallback:
        scale, started = self.case.grid.scale, time.perf_counter()

        class Callback(self.cp.CpSolverSolutionCallback):  # type: ignore[name-defined, misc]
            def on_solution_callback(self) -> None:
                seconds = time.perf_counter() - started
                on_progress(seconds, self.objective_value / scale, self.best_objective_bound / scale)

        return Callback()


def _late(problem: Problem) -> str:
    names = [job.name for job in problem.jobs if job.deadline is not None]
    jobs = f"job {names[0]!r} in time" if len(names) == 1 else f"all {len(names)} jobs with deadlines in time"
    return f"no schedule without copies finishes {jobs}"
