"""Allocators that are rules of the kernel: what each is made of for a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weft.model.columns import Ints
from weft.model.elastic import ElasticProblem
from weft.schedulers.allocators.speeds import Beliefs, best_alone
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

    def supports(self, problem: ElasticProblem) -> str | None:
        """Why it cannot act on a problem; None: it can."""
        if self.kind == OPTIMUS and problem.num_resources != 2:
            return f"its speed model has two resources, and the problem has {problem.num_resources}"
        return None

    def prepared(self, problem: ElasticProblem) -> Callable[[int], SeededRule]:
        """The rule for each seed; what is tuned or worked out for a problem is, once."""
        units, steps = self.units(problem), np.zeros(len(problem.types))
        if self.kind == SHORTEST:
            units, steps = best_alone(problem)
        shape = tuple(int(size) + 1 for size in problem.grid)
        stride = np.array([int(np.prod(shape[r + 1 :])) for r in range(len(shape))], np.int64)
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
