"""``auto``: the best plan for the time there is, from everything weft has.

First every cheap planner that applies, and the learned ones it is given; then tabu search for job shops,
local search otherwise; and CP-SAT, started from the best so far, wherever ``exact`` takes the problem. The
result is never worse than HEFT, and up to 5,000 tasks never worse than the best rule. Only the makespan
counts: deadlines are not looked at (``exact`` alone meets them).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from weft.model.bounds import Bound
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.schedulers.base import Limit, Planner, refuse_unplannable
from weft.schedulers.exact.planner import Exact
from weft.schedulers.planners.first_plans import without_copies
from weft.schedulers.planners.lists import Cpop, Deft, Heft, Lookahead, MinMin, Peft, Perturbed
from weft.schedulers.planners.rules import RULES, Decoder, Features, Mix, has_transfers
from weft.schedulers.planners.search import LOOKAHEAD_LIMIT, Search
from weft.schedulers.planners.tabu import Tabu, improve
from weft.schedulers.planners.tdca import Tdca
from weft.sim.arrays import compile_problem

DEFAULT_EFFORT = 5000
SMALL = 40
"""Up to this many tasks with transfers CP-SAT gets most of an effort: it is likely to prove the optimum."""
SHORT_EFFORT = 0.1
"""What it gets of an effort beyond: enough for a bound and some better plans, a second or two."""
SEARCH_SHARE, SEARCH_TASKS = 0.05, 300
"""What local search gets of a budget before CP-SAT does, up to this many tasks; more beyond."""
PLAIN = "search without copies"
"""Has the same share after it, where copies are allowed: its plan may be shorter, and CP-SAT starts from it."""
EXACT_SHARE, POLISH = 0.85, "search of the best"
"""What CP-SAT gets of the rest; local search from the best plan without copies has the end."""
EXACT_OPERATIONS = 1000
"""Largest job shop, or problem without transfers, for which CP-SAT gets a share."""
PAIR_SECONDS = 2e-4
"""Time to set CP-SAT up, per pair of task and device; the share must be four times as long."""
QUICK = 5_000
"""Up to this many tasks rules take some milliseconds and run whatever the budget."""
LEARNED_SECONDS = 1e-4
"""Time a learned planner takes per task for its first schedule; it may have a twentieth of the budget."""
DRAWN_SHARE, MOST_DRAWN, DRAWN_TIME = 8, 64, 0.05
"""One evaluation in this many goes to a learned planner, up to this many schedules; or this part of the time."""
SMALL_SHOP = 260
"""Job shops up to this size (15x15) leave most of the time to CP-SAT."""


@dataclass
class Found:
    """A plan and who made it."""

    member: str
    schedule: Schedule


class Auto:
    """Portfolio of all planners, fitted to the problem and the limit.

    Parameters
    ----------
    learned
        Planners that draw schedules, as many as the effort says; the search goes on from the best.
    """

    name = "auto"

    def __init__(self, *learned: Planner) -> None:
        self.learned = learned
        self.note = ""
        self.is_cut = False
        """Whether the wall clock ended a member that an effort was to end."""
        self.is_proven = False
        """Whether CP-SAT proved that no plan without copies is shorter."""
        self.pace = 0.0
        """Seconds by which a search may stop late: it ends with the schedule at hand, and decodes the best."""

    def supports(self, problem: Problem) -> str | None:
        return refuse_unplannable(problem)

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """Cheap plans, then search, then proof; stops early when the bound is met."""
        limit = limit or Limit(effort=DEFAULT_EFFORT)
        self.is_cut = self.is_proven = False
        if limit.is_repeatable and limit.effort is None:
            limit = replace(limit, effort=DEFAULT_EFFORT)
        best, plain = self._cheap(problem, seed, limit)
        bounds: dict[str, Bound] = {}
        tried = ["rules and list planners"]
        effort = limit.effort or 0
        for found in self._drawn(problem, seed, limit, best):
            effort -= min(effort, _num_drawn(limit))
            best, plain = _better(best, plain, found)
            tried.append(found.member)
        for member, share in self._improvers(problem, limit):
            is_over = limit.left() <= 0 or (limit.is_repeatable and not effort)
            if _is_met(best.schedule) or self.is_proven or is_over:
                break
            part = _part(limit, effort, share, self.pace)
            effort -= part.effort or 0
            found = self._run(member, problem, plain, seed, part)
            bounds |= {bound.method: bound for bound in found.schedule.lower_bounds}
            best, plain = _better(best, plain, found)
            tried.append(member)
        cut = "; exact was cut by the wall clock before its effort was spent" if self.is_cut else ""
        self.note = f"won by {best.member}; tried {', '.join(tried)}{cut}"
        return replace(best.schedule, lower_bounds=tuple(bounds.values()))

    def _run(self, member: str, problem: Problem, plain: Found, seed: int, limit: Limit) -> Found:
        """One searching member, started from the best plan without copies where it can be."""
        is_learned = plain.member in [planner.name for planner in self.learned]
        if member == "tabu" and is_learned:
            return Found(member, improve(problem, plain.schedule, seed=seed, limit=limit))
        if member == "tabu":
            return Found(member, Tabu().plan(problem, seed=seed, limit=limit))
        if member == "exact":
            return self._proven(problem, plain, seed, limit)
        if member == PLAIN:
            return Found(member, without_copies(problem, Search(plain.schedule), seed, limit))
        if member == POLISH:
            search = Search(plain.schedule, is_alone=True)
        else:
            search = Search(plain.schedule if is_learned else None)
        return Found(member, search.plan(problem, seed=seed, limit=limit))

    def _proven(self, problem: Problem, plain: Found, seed: int, limit: Limit) -> Found:
        exact = Exact(start=plain.schedule, deadlines=False)
        plan = exact.plan(problem, seed=seed, limit=limit)
        self.is_cut, self.is_proven = exact.is_cut, exact.is_proven
        return Found("exact", plan)

    def _drawn(self, problem: Problem, seed: int, limit: Limit, best: Found) -> Iterator[Found]:
        """What the learned planners make of a small part of the limit."""
        if _is_met(best.schedule) or not problem.num_tasks:
            return
        for planner in self.learned:
            if limit.is_repeatable and _num_drawn(limit):
                part = Limit(effort=_num_drawn(limit))
            elif LEARNED_SECONDS * problem.num_tasks < DRAWN_TIME * limit.left() < math.inf:
                part = Limit(budget=DRAWN_TIME * limit.left())
            else:
                continue
            yield Found(planner.name, planner.plan(problem, seed=seed, limit=part))

    def _cheap(self, problem: Problem, seed: int, limit: Limit) -> tuple[Found, Found]:
        """The best of the list planners and rules, and the best without copies.

        HEFT always runs; the others while there is as much time left as the slowest so far took.
        """
        decoder = Decoder(problem)
        best = plain = Found("heft", Heft().plan(problem))
        if _is_met(best.schedule):
            return best, plain
        slowest = _since(limit)
        for planner in self._candidates(problem, decoder, seed, limit):
            started = time.perf_counter()
            best, plain = _better(best, plain, planner())
            slowest = max(slowest, time.perf_counter() - started)
            self.pace = 2.0 * slowest
            if problem.num_tasks > QUICK and limit.left() < slowest:
                break
        return best, plain

    def _candidates(
        self, problem: Problem, decoder: Decoder, seed: int, limit: Limit
    ) -> Iterator[Callable[[], Found]]:
        if not problem.num_tasks:
            return
        features = Features(problem, decoder.a)
        for mix in RULES.values():
            yield partial(_by_rule, mix, features, decoder)
        if decoder.by_finish:
            few = Limit(effort=min(Perturbed.effort, limit.effort or Perturbed.effort))
            for planner in self._list_planners(problem):
                if limit.left() > 0:
                    yield partial(_by_planner, planner, problem, seed, few)

    def _list_planners(self, problem: Problem) -> list[Planner]:
        size = problem.num_tasks * problem.cluster.num_devices
        planners: list[Planner] = [Peft(), Deft(), Cpop()]
        if size <= LOOKAHEAD_LIMIT:
            planners += [Lookahead(), MinMin(), Tdca(), Perturbed()]
        return [p for p in planners if p.supports(problem) is None]

    def _improvers(self, problem: Problem, limit: Limit) -> list[tuple[str, float]]:
        """Members that search, with the share of what is left that each may use."""
        can_prove = Exact().supports(problem) is None
        if Tabu().supports(problem) is None:
            if not can_prove or problem.num_tasks > EXACT_OPERATIONS:
                return [("tabu", 1.0)]
            return [("tabu", 0.4 if problem.num_tasks <= SMALL_SHOP else 0.85), ("exact", 1.0)]
        share = self._search_share(problem, limit) if can_prove else 1.0
        if share == 1.0:
            return [("search", 1.0)]
        if limit.is_repeatable:
            return [("search", share), ("exact", 1.0)]
        searches = [("search", share)]
        if problem.objective.copies and has_transfers(compile_problem(problem)):
            searches.append((PLAIN, SEARCH_SHARE))
        return [*searches, ("exact", EXACT_SHARE), (POLISH, 1.0)]

    def _search_share(self, problem: Problem, limit: Limit) -> float:
        """What local search gets where CP-SAT gets the rest; 1: CP-SAT gets nothing."""
        size = problem.num_tasks
        if not has_transfers(compile_problem(problem)):
            return 0.4 if size <= EXACT_OPERATIONS else 1.0
        if limit.is_repeatable:
            return 0.4 if size <= SMALL else 1.0 - SHORT_EFFORT
        share = 1.0 - (1.0 - SEARCH_SHARE) * min(1.0, SEARCH_TASKS / size)
        setup = PAIR_SECONDS * size * problem.cluster.num_devices
        return share if 4.0 * setup < (1.0 - share) * limit.left() else 1.0


def _by_rule(mix: Mix, features: Features, decoder: Decoder) -> Found:
    return Found(mix.name, decoder.schedule(mix.priority(features), mix.decoder))


def _by_planner(planner: Planner, problem: Problem, seed: int, limit: Limit) -> Found:
    return Found(planner.name, planner.plan(problem, seed=seed, limit=limit))


def _better(best: Found, plain: Found, found: Found) -> tuple[Found, Found]:
    """The best plan and the best without copies, this one looked at too."""
    if not found.schedule.num_copies and found.schedule.makespan < plain.schedule.makespan:
        plain = found
    return (found if found.schedule.makespan < best.schedule.makespan else best), plain


def _num_drawn(limit: Limit) -> int:
    return min(MOST_DRAWN, (limit.effort or 0) // DRAWN_SHARE)


def _is_met(schedule: Schedule) -> bool:
    """Whether no schedule of its kind is shorter."""
    return schedule.makespan <= schedule.bound.value * (1 + 1e-11)


def _since(limit: Limit) -> float:
    """Seconds since the limit began."""
    return time.perf_counter() - limit.started


def _part(limit: Limit, effort: int, share: float, pace: float) -> Limit:
    """A share of what is left: of the effort where that is the limit, else of the time less what stops late."""
    if limit.is_repeatable:
        return Limit(effort=max(1, int(effort * share)))
    return Limit(budget=max(1e-3, (limit.left() - pace) * share))
