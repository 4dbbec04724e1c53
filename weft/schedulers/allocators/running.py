"""Runs an allocator over one episode per seed and keeps what happened; tunes ``static-k``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.errors import UnsupportedError
from weft.model.columns import Floats, Ints
from weft.model.elastic import ElasticProblem
from weft.model.elastic_run import ElasticRun
from weft.schedulers.allocators.protocol import Allocator
from weft.schedulers.allocators.rules import BAYES, RuleAllocator, SeededRule
from weft.schedulers.allocators.stalls import Stalls
from weft.sim.elastic.environment import ElasticBatch
from weft.sim.elastic.rules import STATIC, AllocatorRule, run_rule

AT_ONCE = 10_000
"""World steps that the kernel goes on before it is looked whether anything happens."""
TUNED_ON = tuple(range(900_000_000, 900_000_024))
"""Seeds of the episodes that ``static-k`` is tuned on; those of no evaluation."""


def settled(problem: ElasticProblem, allocator: Allocator | RuleAllocator) -> ElasticProblem:
    """The problem with conflicts settled as it says; where it leaves that open, as the allocator does."""
    own = getattr(allocator, "conflicts", BAYES)
    return problem.replaced(conflicts=own) if problem.conflicts == "own" else problem


def run_all(
    allocator: Allocator | RuleAllocator, problem: ElasticProblem, seeds: Sequence[int]
) -> list[ElasticRun]:
    """One episode for each seed, with every world step of every task."""
    reason = allocator.supports(problem)
    if reason is not None:
        raise UnsupportedError(f"{allocator.name}: {reason}", field="scheduler")
    problem = settled(problem, allocator)
    batch = ElasticBatch(problem, len(seeds), seed=np.array(seeds, np.int64), once=True, records=True)
    if isinstance(allocator, RuleAllocator):
        _run_rule(allocator, batch, seeds)
    else:
        _run_deciding(allocator, batch, seeds)
    return _runs(batch, problem, seeds)


def mean_completions(rule: AllocatorRule, problem: ElasticProblem, seeds: Sequence[int]) -> Floats:
    """Mean completion time of a rule's episode for each seed; nothing is recorded."""
    batch = ElasticBatch(problem, len(seeds), seed=np.array(seeds, np.int64), once=True)
    return np.array([_whole_episode(SeededRule(rule), batch, b) for b in range(len(seeds))])


def _run_rule(allocator: RuleAllocator, batch: ElasticBatch, seeds: Sequence[int]) -> None:
    rule_of = allocator.prepared(batch.problem)
    for b, seed in enumerate(seeds):
        _whole_episode(rule_of(int(seed)), batch, b)


def _whole_episode(rule: SeededRule, batch: ElasticBatch, b: int) -> float:
    """Run environment b to its end, emptying the log whenever it is full; step by step where the rule changes."""
    move, out, log = batch.buffers
    most = AT_ONCE if rule.is_fixed else 1
    stalls = Stalls(batch.state, [b], batch.problem)
    while True:
        now = rule.at(int(batch.state.now[b]))
        is_over = run_rule(now, batch.world, batch.state, b, move, out, log, most)
        batch.drain()
        if is_over:
            return float(out.mean[b])
        stalls.refuse()


def _run_deciding(allocator: Allocator, batch: ElasticBatch, seeds: Sequence[int]) -> None:
    """Ask for decisions until all episodes are over."""
    deciding = allocator.begin(batch.problem, np.array(seeds, np.int64))
    stalls = Stalls(batch.state, list(range(len(seeds))), batch.problem)
    while True:
        found = deciding.decide(batch.observe())
        batch.act(found.slot, found.units, found.chance, found.again)
        if batch.is_over.all():
            return
        stalls.refuse()


def _runs(batch: ElasticBatch, problem: ElasticProblem, seeds: Sequence[int]) -> list[ElasticRun]:
    rows, progress = batch.recorded()
    state, found = batch.state, []
    for b, seed in enumerate(seeds):
        own = rows[:, 0] == b
        found.append(
            ElasticRun(
                problem, int(seed), state.arrival[b].copy(), state.kind[b].copy(), state.links[b].copy(),
                state.finish[b].copy(), rows[own, 1:], progress[own],
            )
        )  # fmt: skip
    return found


def tuned_units(problem: ElasticProblem) -> Ints:
    """Units per type with the lowest mean completion time over tuning episodes, one type and resource at a time."""
    problem = problem.replaced(
        num_tasks=min(problem.num_tasks, 128 * problem.num_clusters),
        conflicts=BAYES if problem.conflicts == "own" else problem.conflicts,
    )
    units = np.array([kind.least for kind in problem.types], np.int64)
    best = _tried(problem, units)
    for _ in range(3):
        before = units.copy()
        for t, kind in enumerate(problem.types):
            for r in reversed(range(problem.num_resources)):
                for k in range(kind.least[r], kind.most[r] + 1):
                    tried = units.copy()
                    tried[t, r] = k
                    found = _tried(problem, tried) if k != units[t, r] else best
                    if found < best:
                        best, units = found, tried
        if (before == units).all():
            break
    return units


def _tried(problem: ElasticProblem, units: Ints) -> float:
    none = np.zeros((len(problem.types), 0))
    rule = AllocatorRule(
        STATIC, units, np.zeros(len(units)), none, np.zeros(units.shape[1], np.int64), False, False
    )
    return float(mean_completions(rule, problem, TUNED_ON).mean())


static_k = RuleAllocator("static-k", STATIC, BAYES, tuned_units, is_tuned=True)
