"""Static maps found by local search: every stage of every pipeline on one class, with the order and late rule that suit it.

``static-map`` searches anew for each configuration of periods, on draws of its own; ``static-map-all`` is one map for all
configurations of ``adas-tx2``, found by ``python -m benchmarks adas --search``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weft.model.draws import SEARCHED
from weft.model.graph import Bools
from weft.model.problem import Problem, Realisation, realise
from weft.model.schedule import Schedule
from weft.model.series import series_of
from weft.schedulers.dispatchers.deadlines import HOPELESS, LATE, NEVER, ORDERS, DeadlineDispatcher
from weft.schedulers.dispatchers.outages import Outage
from weft.schedulers.dispatchers.pins import pinned_classes
from weft.sim.tasks.deadline_rules import IDLE, run_by_deadline
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state

DRAWS = 2
"""Draws of noise on which a map is judged."""
EFFORT = 200
"""Maps that are tried."""
WORSE = 0.01
"""By so much at most a map may be worse than the one before it, at first; less and less later."""
_ORDERS = ("edf", "rm", "llf", "ledf")
_LAST = (NEVER, LATE, HOPELESS)


@dataclass(frozen=True)
class StaticMap:
    """Classes of the stages of every series, an order, and what is put last."""

    classes: Mapping[str, tuple[int, ...]]
    order: str = "edf"
    put_last: str = NEVER

    def table(self, problem: Problem) -> Bools:
        """Where every task of a problem may run."""
        chosen = pinned_classes(problem).argmax(axis=1)
        for name, jobs in series_of(problem).items():
            own = np.array(self.classes.get(name, ()), np.int64)
            for j in jobs.tolist() if len(own) else ():
                chosen[problem.offsets[j] : problem.offsets[j + 1]] = own
        return np.asarray(chosen[:, None] == np.arange(problem.cluster.num_classes))

    def dispatcher(self, name: str) -> DeadlineDispatcher:
        """The map at work."""
        order = ORDERS[self.order][0]
        return DeadlineDispatcher(name, order=order, place=IDLE, classes=self.table, put_last=self.put_last)


class _Trial:
    """Problems with noise of their own, on which maps are judged."""

    def __init__(self, problems: Sequence[Problem], draws: int, seed: int) -> None:
        self.problems = [problem for problem in problems for _ in range(draws)]
        keys = (SEARCHED * 2**40 + seed * 2**20 + k for k in range(len(self.problems)))
        worlds = [realise(problem, key) for problem, key in zip(self.problems, keys, strict=True)]
        self._w = compile_tasks(self.problems)
        self._f, self._s = facts_of(worlds, self._w), new_task_state(self._w)
        counts, line, first, num = [], [], 0, 0
        for problem in self.problems:
            limit = np.inf if problem.horizon is None else problem.horizon
            own = np.full(len(problem.jobs), -1, np.int64)
            for jobs in series_of(problem).values():
                own[jobs], num = num, num + 1
            due = self._w.job_due[first : first + len(own)]
            counts.append(np.isfinite(due) & (due <= limit) & (own >= 0))
            line.append(own)
            first += len(own)
        self._counts, self._line, self._num = np.concatenate(counts), np.concatenate(line), num

    def cost(self, one: StaticMap) -> float:
        """Share of deadlines missed, the mean over pipelines, draws and problems."""
        rule = one.dispatcher("trial")
        keys = np.concatenate([rule.order(problem) for problem in self.problems])
        seeds = [0] * len(self.problems)
        run_by_deadline(rule.kernel_rule(self.problems, seeds), self._w, self._f, self._s, keys)
        missed = ~(self._s.job_finish <= self._w.job_due)
        kept = self._counts
        total = np.bincount(self._line[kept], minlength=self._num)
        lost = np.bincount(self._line[kept], missed[kept], minlength=self._num)
        return float((lost / np.maximum(total, 1)).mean())


def search_map(
    problems: Sequence[Problem], effort: int, draws: int, seed: int = 0
) -> tuple[StaticMap, float]:
    """A map for these problems by local search from the hand-made pins, and what it missed in the search."""
    trial, rng = _Trial(problems, draws, seed), np.random.default_rng([seed, effort])
    first = problems[0]
    pins = pinned_classes(first).argmax(axis=1)
    can = np.isfinite(first.run_times)
    starts = {name: int(first.offsets[jobs[0]]) for name, jobs in series_of(first).items()}
    sizes = {name: first.jobs[jobs[0]].graph.num_tasks for name, jobs in series_of(first).items()}
    classes = {name: tuple(pins[at : at + sizes[name]].tolist()) for name, at in starts.items()}
    options = [StaticMap(classes, order, last) for order in _ORDERS for last in _LAST]
    costs = [trial.cost(one) for one in options]
    best, cost = options[int(np.argmin(costs))], min(costs)
    here, here_cost, left = best, cost, max(0, effort - len(options))
    for k in range(left):
        changed = _neighbour(here, starts, can, rng)
        found = trial.cost(changed)
        if found <= here_cost + WORSE * (1.0 - k / left) * float(rng.random()):
            here, here_cost = changed, found
        if found < cost:
            best, cost = changed, found
        if cost == 0.0:
            break
    return best, cost


def _neighbour(one: StaticMap, starts: Mapping[str, int], can: Bools, rng: np.random.Generator) -> StaticMap:
    """The map with a run of stages on another class, or another order or late rule."""
    level = float(rng.random())
    if level < 0.1:
        return replace(one, order=_ORDERS[int(rng.integers(len(_ORDERS)))])
    if level < 0.15:
        return replace(one, put_last=_LAST[int(rng.integers(len(_LAST)))])
    names = [*one.classes]
    name = names[int(rng.integers(len(names)))]
    own = list(one.classes[name])
    first = int(rng.integers(len(own)))
    last = first + 1 + int(rng.integers(len(own) - first)) if rng.random() < 0.3 else first + 1
    wanted = int(rng.integers(can.shape[1]))
    for k in range(first, last):
        if can[starts[name] + k, wanted]:
            own[k] = wanted
    return replace(one, classes={**one.classes, name: tuple(own)})


@dataclass(frozen=True)
class SearchedMap(DeadlineDispatcher):
    """A map searched for every configuration when it first comes up; jobs that are no instances of pipelines are pinned."""

    effort: int = field(default=EFFORT, kw_only=True)

    def run_all(
        self,
        problems: Sequence[Problem],
        realisations: Sequence[Realisation],
        seeds: Sequence[int],
        outages: Sequence[Outage] = (),
    ) -> list[Schedule]:
        """Search once for equal releases, then carry the problems out."""
        known: dict[tuple[object, ...], DeadlineDispatcher] = {}
        found: list[Schedule] = []
        for problem, world, seed in zip(problems, realisations, seeds, strict=True):
            key = tuple((job.series, job.release, job.deadline) for job in problem.jobs)
            if key not in known:
                chosen = search_map([problem], self.effort, DRAWS)[0] if series_of(problem) else StaticMap({})
                known[key] = chosen.dispatcher(self.name)
            found += known[key].run_all([problem], [world], [seed], outages)
        return found


def _parsed(**rows: str) -> dict[str, tuple[int, ...]]:
    """Classes of the stages of pipelines from their initials on a Jetson TX2."""
    return {name: tuple("adg".index(letter) for letter in row) for name, row in rows.items()}


ALL = StaticMap(
    _parsed(lane="dddda", detect="agggggggga", sfm="agga", loc="dddddddddd", lidar="a"), "edf", LATE
)
"""One map for all configurations of ``adas-tx2``."""
static_map = SearchedMap("static-map", classes=pinned_classes)
static_map_all = ALL.dispatcher("static-map-all")
