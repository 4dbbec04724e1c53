"""An adversary between two planners: problems on which the one thought worse beats the other.

Rounds are independent and keyed by their number. A round anneals over parameters of graph and cluster, then
over the instance itself, and then squeezes what it found: the fewest tasks that keep the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from weft import catalog
from weft.errors import InputError, UnsupportedError
from weft.evaluation.questions.adversary import (
    LEAST,
    REMOVALS,
    Instance,
    Rng,
    Space,
    changed_parameters,
    draw_instance,
    draw_parameters,
    neighbour,
    shrink,
)
from weft.evaluation.sweep.changed import differences
from weft.io.files import load_problem, write_problem
from weft.io.folders import claim, locked
from weft.io.json_files import dump_json, parse_json
from weft.io.sources import read_bytes, write_bytes
from weft.model.problem import Problem
from weft.schedulers.base import Limit

PLANNER_SEED = 0
"""Seed of the planners, the default of ``weft compare``; the seed of a question is the adversary's."""
EFFORT = 20_000
"""Problems to try where neither budget nor effort is given."""
DRAWS, STEPS, REPAIRS = 400, 1600, 400
"""Evaluations of a round: over parameters, over the instance, after each task squeezed out."""
SCHEMA = "weft/stress-record/1"
RECORD, WORST, SMALLEST = "stress.json", "worst.json", "smallest.json"
"""Files of a folder: how far the search is, and what it found, as problems."""
HOT, COLD = 0.05, 0.002
"""First and last temperature, in logarithms of the ratio."""


@dataclass(frozen=True)
class Question:
    """What is searched for: problems on which ``better`` takes ``ratio`` times as long as ``worse``."""

    better: str
    worse: str
    ratio: float = 1.3
    space: Space = field(default_factory=Space)
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 < self.ratio < math.inf:
            raise InputError(f"expected a ratio > 1, got {self.ratio}", field="ratio")
        if self.better == self.worse:
            raise InputError(f"expected two planners, got {self.better!r} twice", field="worse")
        _check_planner(self.better, "better")
        _check_planner(self.worse, "worse")


def _check_planner(name: str, field: str) -> None:
    if name in catalog.DISPATCHERS and name not in catalog.PLANNERS:
        raise UnsupportedError(
            f"{name} is a dispatcher: it decides while jobs arrive, and this searches problems "
            f"that are planned as a whole (weft schedulers lists the planners)",
            field=field,
        )
    space, rng = Space(3, 2), np.random.default_rng(0)
    example = draw_instance(draw_parameters(space, rng), space, rng)
    reason = catalog.planner(name).supports(example.problem())
    if reason is not None:
        raise UnsupportedError(f"{name}: {reason}", field=field)


@dataclass(frozen=True, eq=False)
class Find:
    """A problem and what both planners make of it."""

    problem: Problem
    better: float
    """Makespan of the planner thought better."""
    worse: float

    @property
    def ratio(self) -> float:
        """How many times as long the planner thought better takes."""
        if self.worse == 0:
            return math.inf if self.better > 0 else 1.0
        return self.better / self.worse

    @property
    def above_percent(self) -> float:
        """By how much the planner thought better lies above the other."""
        return 100.0 * (self.ratio - 1.0)

    @property
    def size(self) -> tuple[int, int, int, int]:
        """Tasks, devices, edges, run times of their own, as of an instance."""
        graph = self.problem.graph
        own = int((~np.isnan(graph.times)).sum())
        return graph.num_tasks, self.problem.cluster.num_devices, graph.num_edges, own


class Search:
    """The adversary at work: what it has tried and found so far, also after an interruption.

    ``tell`` is called after every problem tried.
    """

    def __init__(self, question: Question, tell: Callable[[Search], None] = lambda search: None) -> None:
        self.question = question
        self.tell = tell
        self.evaluations = 0
        self.rounds = 0
        self.worst: Find | None = None
        self.smallest: Find | None = None
        """The find of fewest tasks that reaches the ratio."""
        self._limit = Limit(effort=EFFORT)

    def run(self, limit: Limit, after_round: Callable[[Search], None] = lambda search: None) -> None:
        """Play rounds until the limit: an effort counts all problems ever tried, a budget from now on."""
        self._limit = limit if limit.budget or limit.effort else Limit(effort=EFFORT)
        while not self.is_spent:
            self._play(np.random.default_rng([self.question.seed, self.rounds]))
            self.rounds += 1
            after_round(self)

    @property
    def is_spent(self) -> bool:
        """Whether the limit is reached."""
        effort = self._limit.effort
        return self._limit.left() <= 0 or (effort is not None and self.evaluations >= effort)

    def measure(self, problem: Problem) -> Find:
        """Plan one problem with both and keep it if it is the worst or the smallest."""
        better, worse = (
            catalog.schedule(problem, name, seed=PLANNER_SEED).schedule.makespan
            for name in (self.question.better, self.question.worse)
        )
        find = Find(problem, better, worse)
        self.keep(find)
        return find

    def keep(self, find: Find) -> None:
        """Remember a find that is better than what is known."""
        if self.worst is None or _is_worse(find, self.worst):
            self.worst = find
        if find.ratio >= self.question.ratio and (self.smallest is None or _is_smaller(find, self.smallest)):
            self.smallest = find

    def _ratio(self, instance: Instance) -> float:
        self.evaluations += 1
        ratio = self.measure(instance.problem(f"{self.question.better}-{self.question.worse}")).ratio
        self.tell(self)
        return ratio

    def _holds(self, instance: Instance, ratio: float) -> bool:
        return not self.is_spent and self._ratio(instance) >= ratio

    def _play(self, rng: Rng) -> None:
        instance, ratio = self._explore(rng)
        instance, ratio = self._anneal(instance, ratio, self.question.space, STEPS, math.inf, rng)
        instance = shrink(instance, lambda smaller: self._holds(smaller, ratio))
        if ratio >= self.question.ratio:
            self._squeeze(instance, rng)

    def _explore(self, rng: Rng) -> tuple[Instance, float]:
        """The best instance met while annealing over parameters, a new one each time."""
        space = self.question.space
        at = draw_parameters(space, rng)
        best = draw_instance(at, space, rng)
        best_ratio = ratio = self._ratio(best)
        for k in range(DRAWS - 1):
            if self.is_spent:
                break
            beside = changed_parameters(at, space, rng)
            instance = draw_instance(beside, space, rng)
            found = self._ratio(instance)
            if found > best_ratio:
                best, best_ratio = instance, found
            if _accepts(ratio, found, _temperature(k / DRAWS), rng):
                at, ratio = beside, found
        return best, best_ratio

    def _anneal(
        self, instance: Instance, ratio: float, space: Space, steps: int, enough: float, rng: Rng
    ) -> tuple[Instance, float]:
        """The best instance met within this many steps; stops at a ratio that is ``enough``."""
        best, best_ratio = instance, ratio
        for k in range(steps):
            if self.is_spent or best_ratio >= enough:
                break
            beside = neighbour(instance, space, rng)
            found = self._ratio(beside)
            if _accepts(ratio, found, _temperature(k / steps), rng):
                instance, ratio = beside, found
            if found > best_ratio:
                best, best_ratio = beside, found
        return best, best_ratio

    def _squeeze(self, instance: Instance, rng: Rng) -> None:
        """Take tasks away, restore the ratio by annealing, and repeat until it cannot be restored."""
        asked = self.question.ratio
        while not self.is_spent:
            instance = shrink(instance, lambda smaller: self._holds(smaller, asked))
            if instance.num_tasks <= LEAST[0] + 1:
                return
            candidates = [REMOVALS[0](instance, i) for i in range(instance.num_tasks)]
            ratios = [0.0 if self.is_spent else self._ratio(candidate) for candidate in candidates]
            k = int(np.argmax(ratios))
            space = replace(self.question.space, tasks=max(3, instance.num_tasks - 1))
            instance, ratio = self._anneal(candidates[k], ratios[k], space, REPAIRS, asked, rng)
            if ratio < asked:
                return


def _temperature(share: float) -> float:
    return float(HOT * (COLD / HOT) ** share)


def _accepts(present: float, found: float, temperature: float, rng: Rng) -> bool:
    gain = math.log(found) - math.log(present)
    return bool(gain >= 0 or rng.random() < math.exp(gain / temperature))


def _is_worse(find: Find, known: Find) -> bool:
    return find.ratio > known.ratio or (find.ratio == known.ratio and find.size < known.size)


def _is_smaller(find: Find, known: Find) -> bool:
    return find.size < known.size or (find.size == known.size and find.ratio > known.ratio)


# -- folders --------------------------------------------------------------------------------------


@contextmanager
def open_search(
    folder: Path, question: Question, tell: Callable[[Search], None] = lambda search: None
) -> Iterator[Search]:
    """A search that continues what the folder holds, and leaves there what it found, however it ends."""
    claim(folder, "search", RECORD)
    with locked(folder, "searching in this folder"):
        search = Search(question, tell)
        _resume(search, folder)
        try:
            yield search
        finally:
            save_finds(search, folder)


def save_finds(search: Search, folder: Path) -> None:
    """Write the finds as problem files; ``weft compare`` plans them as the search did."""
    for name, find in ((WORST, search.worst), (SMALLEST, search.smallest)):
        if find is not None:
            write_problem(find.problem, folder / name)


def save_record(search: Search, folder: Path) -> None:
    """Write the finds and how far the search is; called between rounds, where it can be resumed."""
    save_finds(search, folder)
    record = {
        "schema": SCHEMA,
        "question": asdict(search.question),
        "rounds": search.rounds,
        "evaluations": search.evaluations,
    }
    write_bytes(dump_json(record), folder / RECORD)


def _resume(search: Search, folder: Path) -> None:
    path = folder / RECORD
    if not path.exists():
        save_record(search, folder)
        return
    record = parse_json(read_bytes(path), path)
    if record.get("schema") != SCHEMA:
        raise InputError(f"expected {SCHEMA!r}", file=str(path), field="schema")
    other = differences(record.get("question"), asdict(search.question))
    if other:
        option, _, sides = other[0].partition(": ")
        changed = f"--{option.rpartition('.')[2].removeprefix('is_')}: {sides}"
        raise InputError(
            f"holds another search ({changed}): ask for the same, or choose another folder", file=str(folder)
        )
    search.rounds, search.evaluations = (_count(record, key, path) for key in ("rounds", "evaluations"))
    for name in (WORST, SMALLEST):
        if (folder / name).exists():
            search.measure(load_problem(folder / name))


def _count(record: dict[str, object], key: str, path: Path) -> int:
    value = record.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError("expected a whole number >= 0", file=str(path), field=key)
    return value
