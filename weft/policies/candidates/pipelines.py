"""A trained policy of pipelines as a dispatcher: many problems side by side, one forward pass for all that are to decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from weft.errors import InputError, UnsupportedError
from weft.model.graph import Floats
from weft.model.problem import Job, Problem, Realisation
from weft.model.schedule import Schedule
from weft.model.series import series_of
from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.forward import CandidatePolicy
from weft.policies.candidates.pipeline_decider import PipelineDecider
from weft.policies.checkpoint import Card, load_policy
from weft.schedulers.dispatchers.deciding import DecidingDispatcher
from weft.schedulers.dispatchers.outages import Outage, extra_rows, moves_of
from weft.schedulers.own import Run
from weft.sim.tasks.layout import num_pools, refuse_tasks, schedule_of
from weft.sim.tasks.pipeline_environment import (
    Payment,
    PipelineBatch,
    refuse_launches,
    start_all,
    step_all,
)
from weft.sim.tasks.pipeline_features import PIPELINE_VERSION, PipelineSight, check_pipeline_sight
from weft.sim.tasks.rules import TaskRule

NOTHING = Payment(1.0, False, False)
"""Nobody learns from these steps."""
AT_ONCE = 512
"""Problems that are played side by side at most."""


def refuse_unseen(problem: Problem, sight: PipelineSight) -> str | None:
    """The reason why a policy cannot tell the pipelines or the devices of this problem apart, or None."""
    count = len(series_of(problem))
    if count > sight.series:
        return _too_many(count, sight)
    count = num_pools(problem)
    if count > sight.pools:
        return (
            f"it was made for at most {sight.pools} kinds of devices (candidates.pools), and here are {count}"
        )
    return None


def _too_many(count: int, sight: PipelineSight) -> str:
    return f"it was made for at most {sight.series} pipelines (candidates.series), and here are {count}"


def played(
    policy: CandidatePolicy,
    sight: PipelineSight,
    problems: Sequence[Problem],
    worlds: Sequence[Realisation],
    *,
    stops: bool,
) -> PipelineBatch:
    """Problems after a policy has played each to its end, or to its horizon."""
    batch = PipelineBatch(problems, worlds, sight, len(problems))
    plays, out = np.arange(len(problems)), batch.buffers
    start_all(batch.seen, batch.world, plays, plays, stops, out)
    actions = np.zeros((len(problems), 1), np.int64)
    while not out.done.all():
        left = np.flatnonzero(~out.done)
        actions[left] = policy.decide_batch(out.observation[left], out.mask[left])
        step_all(batch.seen, batch.world, plays, actions, NOTHING, stops, out)
    if batch.world.s.overflow.any():
        raise InputError("the event kernel ran out of room for rows or events")
    return batch


def miss_shares(
    policy: CandidatePolicy, sight: PipelineSight, problems: Sequence[Problem], worlds: Sequence[Realisation]
) -> Floats:
    """Share of deadlines missed (num_problems, num_lines)."""
    batch = played(policy, sight, problems, worlds, stops=True)
    return np.array([batch.shares(b) for b in range(len(problems))])


@dataclass(frozen=True)
class PipelineDispatcher(DecidingDispatcher):
    """A policy that starts stages one by one, or launches of several, until it waits."""

    policy: CandidatePolicy = field(kw_only=True)
    sight: PipelineSight = field(kw_only=True)
    names: tuple[str, ...] = field(default=(), kw_only=True)
    """Pipelines in the order by which they are told apart, where jobs are told of one by one."""

    def made_for(self, problem: Problem) -> PipelineDispatcher:
        """The same for a session that will be told of the jobs of this problem."""
        return replace(self, names=tuple(series_of(problem)))

    def supports(self, problem: Problem) -> str | None:
        reason, jobs = refuse_tasks(problem), [job for job in problem.jobs if job.graph.num_tasks]
        if reason is None and any(not job.series or job.deadline is None for job in jobs):
            reason = (
                "it acts on periodic pipelines with deadlines, such as those of adas-tx2; "
                "weft train workflows-dqn or tasks-quick makes a policy for other streams"
            )
        return reason or refuse_unseen(problem, self.sight) or refuse_launches(problem, self.sight)

    def run_all(
        self,
        problems: Sequence[Problem],
        realisations: Sequence[Realisation],
        seeds: Sequence[int],
        outages: Sequence[Outage] = (),
    ) -> list[Schedule]:
        """Many problems side by side; with outages one after the other."""
        found: list[Schedule] = []
        if outages:
            for problem, world in zip(problems, realisations, strict=True):
                more = extra_rows(moves_of(outages, problem), problem)
                found.append(Run(problem, world, outages, more).play(self._decider(problem)))
            return found
        for first in range(0, len(problems), AT_ONCE):
            some, worlds = problems[first : first + AT_ONCE], realisations[first : first + AT_ONCE]
            batch = played(self.policy, self.sight, some, worlds, stops=False)
            pairs = enumerate(zip(some, worlds, strict=True))
            found += [schedule_of(one, world, batch.world.w, batch.world.s, b) for b, (one, world) in pairs]
        return found

    @property
    def looks_back(self) -> bool:
        """The first instances tell pipelines apart, the last ones when the next will come."""
        return True

    def refuse_beside(self, problem: Problem, jobs: Sequence[Job]) -> str | None:
        """It knows a fixed number of pipelines."""
        count = len({*self.names, *(job.series for job in (*jobs, *problem.jobs) if job.series)})
        return None if count <= self.sight.series else _too_many(count, self.sight)

    def decider(self, problem: Problem, rule: TaskRule) -> PipelineDecider:
        """Who decides in a session."""
        return self._decider(problem)

    def _decider(self, problem: Problem) -> PipelineDecider:
        """Who decides one by one."""
        if self.sight.is_faithful or self.sight.has_launches:
            what = "launches of several stages" if self.sight.has_launches else "queues of its own"
            raise UnsupportedError(
                f"{self.name}: in sessions and where devices go away tasks start one by one, and it was trained with {what}",
                field="scheduler",
            )
        return PipelineDecider(self.name, self.policy, self.sight, problem, self.names)


@cache
def load_pipeline_policy(name: str) -> PipelineDispatcher:
    """The policy of a weights file, of its card or of a run folder."""
    weights, card = load_policy(name)
    try:
        sight = _sight(card)
        policy = CandidatePolicy(weights, _checked(card, sight), card)
        return PipelineDispatcher(name, policy=policy, sight=sight)
    except InputError as error:
        raise error.at(file=name) from None


def _checked(card: Card, sight: PipelineSight) -> CandidateArchitecture:
    shape = card.architecture
    if not isinstance(shape, CandidateArchitecture) or card.feature_version != PIPELINE_VERSION:
        raise InputError(
            f"trained on another feature version: expected {PIPELINE_VERSION!r}, got {card.feature_version!r}",
            field="feature_version",
        )
    sizes, here = (shape.world, shape.column), (len(sight.world), len(sight.columns))
    if sizes != here:
        raise InputError(f"expected {here[0]} and {here[1]} features, got {sizes}", field="architecture")
    return shape


def _sight(card: Card) -> PipelineSight:
    stored = card.training.get("sight")
    known = PipelineSight._fields
    if not isinstance(stored, dict) or not set(stored) <= set(known):
        raise InputError(f"expected {', '.join(known)}, got {stored!r:.60}", field="training.sight")
    return check_pipeline_sight(PipelineSight(**stored), "training.sight")
