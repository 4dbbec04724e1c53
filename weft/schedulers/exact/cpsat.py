"""The CP-SAT model of a problem in ticks. The only home of ortools, which is loaded on use.

A task that can run in one pool only gets a start and a fixed interval, so that a job shop becomes the
plain disjunctive model; others get an optional interval per pool.
"""

from __future__ import annotations

import importlib
import math
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise, permutations
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weft.errors import InfeasibleError, InputError, MissingExtra
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.schedulers.base import is_stopped
from weft.schedulers.exact.ticks import Answer, TickProblem, whole_units
from weft.sim.arrays import SLOTS

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    Held = list[tuple[int, cp_model.IntervalVar]]
    """Tasks and their intervals in one pool."""

OLDEST = (9, 15)
"""The oldest version of ortools that will do; also in pyproject and the doctor."""
MOST_RELATED = 200
"""Up to this many tasks a proof is within reach, and what only helps a proof is added."""
HINTED = 0.05
"""Deterministic time for which a shop is searched along the hint: about a quarter of a second."""
MOST_ORDERED = 60
"""Up to this many tasks that share a device, the order of each two of them is a variable."""

Progress = Callable[[float, float, float], None]
"""Called with seconds since the start, makespan and bound whenever a better schedule is found."""


def load_solver() -> ModuleType:
    """The module of CP-SAT, or one line that says why there is none."""
    try:
        found = importlib.import_module("ortools.sat.python.cp_model")
        _refuse_old(importlib.import_module("ortools").__version__)
        return found
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "ortools":
            raise MissingExtra("ortools", "solve", "the exact planner") from None
        raise InputError(_broken(error), field="scheduler") from None
    except Exception as error:  # a package that is there but does not load fails in its own ways
        raise InputError(_broken(error), field="scheduler") from None


def _refuse_old(version: str) -> None:
    """Some versions before take minutes for what this one does in a tenth of a second."""
    found = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if found < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise InputError(
            f"the exact planner needs ortools {oldest} or newer, found {version}: pip install -U 'weft[solve]' "
            "(in a checkout: '.[solve]')",
            field="scheduler",
        )


def _broken(error: Exception) -> str:
    return f"the exact planner needs ortools, which does not load: {type(error).__name__}: {error}"


def refuse_solver() -> str | None:
    try:
        load_solver()
    except InputError as error:
        return error.message
    return None


class Program:
    """The CP-SAT model of a problem in ticks: an optional interval per (task, pool), a lag per edge."""

    def __init__(self, ticked: TickProblem) -> None:
        self.ticked, self.cp = ticked, load_solver()
        self.model: cp_model.CpModel = self.cp.CpModel()
        self.always = self.model.new_constant(1)
        self.makespan = self.model.new_int_var(0, ticked.latest, "makespan")
        self.start: list[cp_model.IntVar] = []
        self.end: list[cp_model.LinearExprT] = []
        self.uses: list[dict[int, cp_model.IntVar]] = []  # per task: pool -> literal
        self.same: list[tuple[cp_model.IntVar, int, int]] = []  # literal, parent, child
        self.inside: dict[tuple[int, int], cp_model.IntVar] = {}  # (task, group) -> literal
        self.before: dict[tuple[int, int], cp_model.IntVar] = {}  # (task, task) -> literal
        self.hinted: Answer | None = None
        self.callback: cp_model.CpSolverSolutionCallback | None = None
        self.spent = Spent(0.0, 0.0, False)
        self.is_cut = False
        """Whether the wall clock ended the last search: it was undecided, with deterministic time left.

        The wall time does not tell, for the solver stops a little before its limit."""
        held: list[Held] = [[] for _ in ticked.pools]
        for i in range(ticked.problem.num_tasks):
            self._add_task(i, held)
        for p, intervals in enumerate(held):
            self._limit(p, intervals)
        for e, i in enumerate(np.repeat(np.arange(len(self.start)), np.diff(ticked.a.succ_ptr)).tolist()):
            self._add_edge(e, i, int(ticked.a.succ[e]))
        if ticked.problem.num_tasks <= MOST_RELATED:
            for j, (before, after) in enumerate(zip(ticked.descends.T, ticked.descends, strict=True)):
                self._weigh(np.flatnonzero(before).tolist(), self.start[j])
                self._weigh(np.flatnonzero(after).tolist(), self.makespan - self.end[j])
        for twins in ticked.twins:
            for i, j in pairwise(twins):
                self.model.add(self.start[i] <= self.start[j])
        self.model.minimize(self.makespan)
        self.is_shop = bool(self.uses) and all(len(uses) == 1 for uses in self.uses)
        """Whether only orders are open."""
        if not self.is_shop:  # there the solver has a bound as good at once
            self.model.add(self.makespan >= ticked.least)

    def _add_task(self, i: int, held: list[Held]) -> None:
        """Start, end and intervals; empty ones hold nothing."""
        ticked = self.ticked
        ticks = {p: int(ticked.run[i, ticked.pools[p].device_class]) for p in ticked.may_use(i)}
        latest = int(ticked.due[i]) if ticked.due[i] <= ticked.horizon else ticked.latest
        if len(ticks) == 1:
            self._add_fixed(i, *ticks.popitem(), latest, held)
        else:
            self._add_choice(i, ticks, latest, held)
        if ticked.a.succ_ptr[i] == ticked.a.succ_ptr[i + 1]:  # the others end before their children do
            self.model.add(self.makespan >= self.end[i])

    def _add_fixed(self, i: int, pool: int, ticks: int, latest: int, held: list[Held]) -> None:
        """A task that can be in one pool only: nothing about it is optional."""
        start = self.model.new_int_var(int(self.ticked.release[i]), self.ticked.latest, f"start {i}")
        self.model.add(start + ticks <= latest)
        if ticks:
            held[pool].append((i, self.model.new_fixed_size_interval_var(start, ticks, f"{i} in {pool}")))
        self.start.append(start)
        self.end.append(start + ticks)
        self.uses.append({pool: self.always})

    def _add_choice(self, i: int, ticks: dict[int, int], latest: int, held: list[Held]) -> None:
        """A task with a choice: one optional interval per pool, exactly one of which is there."""
        model = self.model
        start = model.new_int_var(int(self.ticked.release[i]), self.ticked.latest, f"start {i}")
        end = model.new_int_var(0, latest, f"end {i}")
        uses = {p: model.new_bool_var(f"task {i} in pool {p}") for p in ticks}
        model.add_exactly_one(uses.values())
        lengths = self.cp.LinearExpr.weighted_sum(list(uses.values()), list(ticks.values()))
        model.add(end == start + lengths)
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
        pool = self.ticked.pools[p]
        for r, capacity in enumerate(pool.capacity):
            demand = self.ticked.a.demand[[i for i, _ in held], r]
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
            work = [int(self.ticked.run[i, pool.device_class]) * unit for i, _, unit in holders]
            load = self.cp.LinearExpr.weighted_sum([self.uses[i][p] for i, *_ in holders], work)
            self.model.add(load <= most * self.makespan)

    def _order(self, tasks: list[int]) -> None:
        """Literals for who is done before whom, without which the search crawls from tick to tick."""
        if len(tasks) > MOST_ORDERED:
            return
        for i, j in permutations(tasks, 2):
            if (
                (i, j) not in self.before
                and not self.ticked.descends[i, j]
                and not self.ticked.descends[j, i]
            ):
                literal = self.before[i, j] = self.model.new_bool_var(f"{i} before {j}")
                self.model.add(self.end[i] <= self.start[j]).only_enforce_if(literal)
                self.model.add(self.end[i] > self.start[j]).only_enforce_if(~literal)

    def _weigh(self, tasks: list[int], room: cp_model.LinearExprT) -> None:
        """The work of these tasks fits the slots in this time; follows from the rest, helps the bound."""
        for p, pool in enumerate(self.ticked.pools):
            users = [i for i in tasks if p in self.uses[i]]
            if len(users) > 1:
                slots = self.ticked.a.demand[users, SLOTS].astype(np.int64)
                work = (self.ticked.run[users, pool.device_class] * slots).tolist()
                load = self.cp.LinearExpr.weighted_sum([self.uses[i][p] for i in users], work)
                self.model.add(load <= round(pool.capacity[SLOTS]) * room)

    def _add_edge(self, e: int, i: int, j: int) -> None:
        """The child starts after its parent, later by the lag unless both are in one pool."""
        gap = self.start[j] - self.end[i]
        lags = {
            (g, h): int(self.ticked.lag[e, g, h])
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
            groups.setdefault(self.ticked.pools[p].group, []).append(p)
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
        """Begin with this schedule.

        Neither its makespan is hinted at nor do variables end at it: a solver that must stay below it
        from the first node on proves the optimum up to ten times later than one that comes down to it on
        its own way and learns from that.
        """
        ticked, hint = self.ticked, self.model.add_hint
        pool, start = ticked.canonical(schedule)
        end = [at + int(ticked.run[i, ticked.pools[pool[i]].device_class]) for i, at in enumerate(start)]
        self.hinted = Answer(pool, start, end, 0)
        for i, uses in enumerate(self.uses):
            hint(self.start[i], start[i])
            if len(uses) > 1:
                hint(self.end[i], end[i])
                for p, literal in uses.items():
                    hint(literal, p == pool[i])
        for literal, i, j in self.same:
            hint(literal, pool[i] == pool[j])
        for (i, j), literal in self.before.items():
            hint(literal, end[i] <= start[j])
        for (i, g), literal in self.inside.items():
            hint(literal, ticked.pools[pool[i]].group == g)

    def solve(self, parameters: dict[str, float], on_progress: Progress | None) -> Answer | None:
        """Search; None if neither a schedule nor a bound was found in time.

        A shop small enough for a proof is searched a moment along the hint, which may be all it takes, and
        then without: with a start close to the optimum ``ft10`` and ``abz5`` are proven far later.
        """
        self.callback = self._callback(on_progress) if on_progress else None
        if not self.is_shop or len(self.start) > MOST_RELATED:
            return self.search(parameters)
        ticks = parameters.get("max_deterministic_time", math.inf)
        first = self.search({**parameters, "max_deterministic_time": min(HINTED, ticks)})
        rest = {"max_time_in_seconds": parameters["max_time_in_seconds"] - self.spent.wall}
        if ticks < math.inf:
            rest["max_deterministic_time"] = ticks - self.spent.ticks
        if self.spent.is_decided or (self.is_cut and ticks < math.inf) or min(rest.values()) <= 0:
            return first
        self.model.clear_hints()
        return _better(first, self.search({**parameters, **rest}))

    def search(self, parameters: dict[str, float]) -> Answer | None:
        """One run of the solver."""
        solver = self.cp.CpSolver()
        for key, value in parameters.items():
            setattr(solver.parameters, key, value)
        status = self._solved(solver)
        if status == self.cp.INFEASIBLE and self.ticked.has_deadlines:
            solver.parameters.cp_model_presolve = False  # a verdict that ends the run is asked for twice
            status = solver.solve(self.model)
            if status == self.cp.INFEASIBLE:
                raise InfeasibleError(_late(self.ticked.problem), field="deadline")
        is_decided = status in (self.cp.OPTIMAL, self.cp.INFEASIBLE)
        self.spent = Spent(solver.wall_time, solver.response_proto.deterministic_time, is_decided)
        self.is_cut = not is_decided and self.spent.ticks < solver.parameters.max_deterministic_time
        return self._answer(solver, is_found=status in (self.cp.OPTIMAL, self.cp.FEASIBLE))

    def _solved(self, solver: cp_model.CpSolver) -> cp_model.CpSolverStatus:
        """Solve in another thread: this one sees Ctrl-C, which the solver would keep for itself for good."""
        solver.parameters.catch_sigint_signal = False
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(solver.solve, self.model, self.callback)
            try:
                while wait([running], timeout=0.1).not_done:
                    if is_stopped():
                        solver.stop_search()
            except KeyboardInterrupt:
                solver.stop_search()
                raise
        return running.result()

    def _answer(self, solver: cp_model.CpSolver, is_found: bool) -> Answer | None:
        """What was found, else the hint where at least a bound was; None without either."""
        bound = math.ceil(solver.best_objective_bound - 1e-6)
        if not is_found:
            return self.hinted._replace(bound=bound) if self.hinted and bound > 0 else None
        return Answer(
            [next(p for p, use in uses.items() if solver.boolean_value(use)) for uses in self.uses],
            [solver.value(start) for start in self.start],
            [solver.value(end) for end in self.end],
            bound,
        )

    def _callback(self, on_progress: Progress) -> cp_model.CpSolverSolutionCallback:
        scale, started = self.ticked.grid.scale, time.perf_counter()

        class Callback(self.cp.CpSolverSolutionCallback):  # type: ignore[name-defined, misc]
            best = math.inf

            def on_solution_callback(self) -> None:
                if self.objective_value < self.best:
                    self.best = self.objective_value
                    seconds = time.perf_counter() - started
                    on_progress(seconds, self.objective_value / scale, self.best_objective_bound / scale)

        return Callback()


class Spent(NamedTuple):
    """What one run of the solver took, and whether it came to an end of its own."""

    wall: float
    ticks: float
    is_decided: bool


def _better(one: Answer | None, other: Answer | None) -> Answer | None:
    """The shorter of two answers, with the higher bound."""
    if one is None or other is None:
        return one or other
    shorter = min(one, other, key=lambda answer: max(answer.finish))
    return shorter._replace(bound=max(one.bound, other.bound))


def _late(problem: Problem) -> str:
    names = [job.name for job in problem.jobs if job.deadline is not None]
    jobs = f"job {names[0]!r} in time" if len(names) == 1 else f"all {len(names)} jobs with deadlines in time"
    return f"no schedule without copies finishes {jobs}"
