"""Allocators that are rules of the kernel: what each is made of for a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weft.model.columns import Ints
from weft.model.elastic import ElasticProblem
from weft.schedulers.allocators.speeds import Beliefs, best_alone, fitted_axes
from weft.sim.elastic.rules import DRF, OPTIMUS, RANDOM, SHORTEST, STATIC, TIRESIAS, AllocatorRule

LOWEST, BAYES = "lowest", "softmax"


def _needs(problem: ElasticProblem) -> Ints:
    return np.array([kind.least for kind in problem.types], np.int64)


@dataclass(frozen=True)
class SeededRule:
    """A rule in one episode."""

    rule: AllocatorRule
    beliefs: Beliefs | None = None
    """Where it has a speed model."""

    @property
    def is_fixed(self) -> bool:
        """Whether it is the same in every world step."""
        return self.beliefs is None or self.beliefs.are_fixed

    def at(self, step: int) -> AllocatorRule:
        """The rule in a world step."""
        return self.rule if self.beliefs is None else self.rule._replace(speed=self.beliefs.at(step))


@dataclass(frozen=True)
class RuleAllocator:
    """An allocator whose decisions are made in the kernel."""

    name: str
    kind: int
    conflicts: str = LOWEST
    """How it settles conflicts where the problem leaves that to allocators."""
    units: Callable[[ElasticProblem], Ints] = _needs
    """What it gives to tasks of each type; (T, R)."""
    is_swapped: bool = False
    is_elastic: bool = False
    blocks: bool = False
    is_tuned: bool = False
    """Whether its units are tuned on other episodes of the problem."""

    def supports(self, problem: ElasticProblem) -> str | None:
        """Why it cannot act on a problem; None: it can."""
        if self.is_tuned and len(problem.arrivals):
            return "it is tuned on other episodes, and the arrivals of this one are given"
        if self.kind == TIRESIAS:
            return self._refuse_unserved(problem)
        if self.kind == OPTIMUS and len(fitted_axes(problem)) > 2:
            return f"its speed model has two resources, and tasks may have more than they need of {len(fitted_axes(problem))}"
        return None

    def _refuse_unserved(self, problem: ElasticProblem) -> str | None:
        """Tiresias serves by the last resource, and lets tasks that have had more wait for it with nothing."""
        last = problem.resources[-1]
        for kind in problem.types:
            if not (kind.most if self.is_elastic else kind.least)[-1]:
                what = "may have" if self.is_elastic else "needs"
                return f"it serves tasks by their {last}, and {kind.name} {what} none"
            if len(problem.arrivals) and kind.least == kind.most:
                return f"it takes units away from tasks that run, and {kind.name} cannot wait in between"
        return None

    def prepared(self, problem: ElasticProblem) -> Callable[[int], SeededRule]:
        """The rule for each seed; what is tuned or worked out for a problem is, once."""
        units, steps = self.units(problem), np.zeros(len(problem.types))
        if self.kind == SHORTEST:
            units, steps = best_alone(problem)
        axes = fitted_axes(problem)
        shape, stride = problem.grid[list(axes)] + 1, np.zeros(problem.num_resources, np.int64)
        for k, r in enumerate(axes):
            stride[r] = int(np.prod(shape[k + 1 :]))
        empty = np.zeros((len(problem.types), 0))

        rule = AllocatorRule(self.kind, units, steps, empty, stride, self.is_elastic, self.blocks)

        def seeded(seed: int) -> SeededRule:
            is_fitted = self.kind == OPTIMUS
            return SeededRule(rule, Beliefs(problem, seed, is_swapped=self.is_swapped) if is_fitted else None)

        return seeded


def static_units(problem: ElasticProblem, k: int) -> Ints:
    """What each type needs, and k units of the resource that makes it fastest, where any does."""
    found = _needs(problem)
    for t, kind in enumerate(problem.types):
        least = kind.steps(kind.least)
        axes = range(problem.num_resources)
        tops = [tuple(kind.most[r] if r == axis else kind.least[r] for r in axes) for axis in axes]
        steps = [kind.steps(top) for top in tops]
        if min(steps) < least:
            axis = int(np.argmin(steps))
            found[t, axis] = min(max(k, kind.least[axis]), kind.most[axis])
    return found


def static(k: int, conflicts: str = BAYES) -> RuleAllocator:
    """``static-k``: k units of what makes a type faster, the least of everything else."""
    name = f"static-{k}" if conflicts == BAYES else f"static-{k}+{LOWEST}"
    return RuleAllocator(
        name, STATIC, conflicts, lambda problem: static_units(problem, k), blocks=conflicts == LOWEST
    )


random = RuleAllocator("random", RANDOM, blocks=True)
minimum = RuleAllocator("min", STATIC, blocks=True)
shortest_first = RuleAllocator("shortest-first", SHORTEST)
optimus = RuleAllocator("optimus", OPTIMUS)
optimus_swapped = RuleAllocator("optimus-swapped", OPTIMUS, is_swapped=True)
tiresias = RuleAllocator("tiresias", TIRESIAS, is_elastic=True)
tiresias_min = RuleAllocator("tiresias-min", TIRESIAS)
drf = RuleAllocator("drf", DRF)
static_5, static_10 = static(5), static(10)


def static_of(name: str) -> RuleAllocator:
    """The allocator of a name such as ``static-7`` or ``static-7+lowest``."""
    number, _, ending = name.removeprefix("static-").partition("+")
    return static(int(number), ending or BAYES)
