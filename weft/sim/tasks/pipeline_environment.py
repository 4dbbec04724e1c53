"""Many copies of periodic pipelines in one call: the environment in which policies learn to keep deadlines.

A decision starts one candidate, of one stage or a launch of several, or waits (``pipeline_features.py``). A missed instance costs its interval / 100 at its deadline. What
instances under way are expected to cost is a potential whose discounted differences are added (Ng et al., 1999): that changes no
best policy, but tells at once what a start has done. An episode ends at the horizon of its problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import InputError, UnsupportedError
from weft.model.draws import EPISODE, keyed_uniform
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem, Realisation, realise
from weft.sim.jit import lean_kernel
from weft.sim.tasks.clock import begin, is_due, next_time, pass_events
from weft.sim.tasks.environment import Deal
from weft.sim.tasks.launches import launch
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state
from weft.sim.tasks.moves import commit
from weft.sim.tasks.pipeline_features import (
    PIPELINE_VERSION,
    PipelineListed,
    PipelineSight,
    Seen,
    check_pipeline_sight,
    list_stages,
)
from weft.sim.tasks.pipeline_queues import list_queues, queue_up
from weft.sim.tasks.pipelines import (
    Lines,
    LineState,
    Sweep,
    begin_lines,
    lines_of,
    new_line_state,
    new_sweep,
    potential,
    settle_lines,
)
from weft.sim.tasks.slots import kept, line_pointers, put_back, state_pointers
from weft.sim.tasks.state import Facts, Tasks, TaskState

Floats32 = npt.NDArray[np.float32]


class PipelineBuffers(NamedTuple):
    """What a step writes, in place; B environments, K choices."""

    observation: Floats32  # (B, F)
    mask: Bools  # (B, 1, K)
    reward: Floats32  # (B,)
    done: Bools  # (B,)
    elapsed: Floats32  # (B,)
    task: Ints  # (B, K) of every candidate
    device: Ints  # (B, K)
    count: Ints  # (B, 1) candidates
    later: Floats  # (B, 1) when a wait ends at the latest
    level: Floats  # (B,) potential
    depth: Ints  # (B, K) tasks that a candidate starts as one


class Payment(NamedTuple):
    """What a step is worth."""

    tau: float  # discount by elapsed time: exp(- elapsed / tau); infinite: none
    is_shaped: bool  # whether the potential counts
    is_faithful: bool  # +1 or -1 for every task of an instance that ends in time or not


@dataclass(frozen=True)
class PipelineReward:
    """What a step is worth; the defaults are those that learn best."""

    tau: float = 300.0
    """Time over which a cost counts 1 / e of what it does now: that of the learner's discount."""
    is_shaped: bool = True
    """Whether the expected cost of what is under way is a potential."""
    is_faithful: bool = False
    """Pay +1 or -1 for every stage of an instance that ends in time or too late, instead of its interval."""

    def __post_init__(self) -> None:
        if isinstance(self.tau, bool) or not isinstance(self.tau, int | float) or not self.tau > 0:
            raise InputError(f"expected a number > 0, got {self.tau!r}", field="reward.tau")
        for name in ("is_shaped", "is_faithful"):
            if type(getattr(self, name)) is not bool:
                raise InputError(
                    f"expected true or false, got {getattr(self, name)!r}", field=f"reward.{name}"
                )

    def payment(self) -> Payment:
        """As the kernel takes it."""
        return Payment(float(self.tau), self.is_shaped, self.is_faithful)


@dataclass(frozen=True)
class PipelineSetup:
    """Problems to learn on, each with all its pipelines."""

    problems: tuple[Problem, ...]
    sight: PipelineSight = field(default_factory=PipelineSight)
    reward: PipelineReward = field(default_factory=PipelineReward)
    time_unit: float = 1.0
    """What ``elapsed`` counts in."""
    spread: int = 1
    """In how many environments every problem stands, so that none is tied to one way to explore."""

    def __post_init__(self) -> None:
        check_pipeline_sight(self.sight)
        if self.spread < 1:
            raise InputError(f"expected a whole number >= 1, got {self.spread}", field="spread")
        if not self.problems:
            raise InputError("expected at least one problem", field="problems")


class World(NamedTuple):
    """Everything of a batch of problems that kernels need."""

    lines: Lines
    w: Tasks
    f: Facts
    s: TaskState
    v: LineState
    look: Sweep


@lean_kernel
def _faithful_pay(world: World, b: int, before: float) -> float:
    """+1 or -1 for every task of the instances that ended since a time."""
    w, s, lines, total = world.w, world.s, world.lines, 0.0
    for line in range(lines.line_ptr[b], lines.line_ptr[b + 1]):
        for place in range(lines.job_ptr[line], lines.job_ptr[line] + world.v.upto[line]):
            j = lines.jobs[place]
            if s.job_finish[j] > before and s.job_finish[j] <= s.now[b]:
                size = w.job_task_ptr[j + 1] - w.job_task_ptr[j]
                total += size if s.job_finish[j] <= w.job_due[j] else -size
    return total / 10.0


@lean_kernel
def go_on(sight: Seen, world: World, b: int, e: int, waits: bool, stops: bool, out: PipelineBuffers) -> bool:
    """Let time pass until there is a choice; returns whether all is over."""
    lines, w, f, s, v, look = world
    last = out.mask.shape[2] - 1
    found = PipelineListed(out.task[e], out.device[e], out.count[e], out.later[e], out.depth[e])
    while True:
        is_next = s.num_ready[b] > 0 if sight.is_faithful else is_due(s, b)
        if not waits and is_next and next_time(w, s, b) > s.now[b]:
            if sight.is_faithful:
                can_wait = list_queues(sight, lines, w, s, v, b, look, found, out.observation[e])
            else:
                can_wait = list_stages(sight, lines, w, f, s, v, b, look, found, out.observation[e])
            if found.count[0] > 0:
                for k in range(last):
                    out.mask[e, 0, k] = k < found.count[0]
                out.mask[e, 0, last] = can_wait
                return False
        is_late = stops and next_time(w, s, b) > lines.horizon[b]
        if s.overflow[b] or next_time(w, s, b) == np.inf or is_late:
            if is_late:
                s.now[b] = lines.horizon[b]
            return True
        pass_events(w, f, s, b)
        settle_lines(lines, w, s, v, b)
        waits = False


@lean_kernel
def start_all(sight: Seen, world: World, plays: Ints, which: Ints, stops: bool, out: PipelineBuffers) -> None:
    """Begin the problem that each of these environments plays."""
    for k in range(len(which)):
        e = which[k]
        b = plays[e]
        begin(world.w, world.s, b)
        begin_lines(world.lines, world.v, b)
        out.done[e] = go_on(sight, world, b, e, False, stops, out)
        out.level[e] = potential(world.lines, world.w, world.s, world.v, b)


@lean_kernel
def step_all(
    sight: Seen,
    world: World,
    plays: Ints,
    actions: Ints,
    pay: Payment,
    stops: bool,
    out: PipelineBuffers,
) -> None:
    """One decision in every environment that is not over; what is over is left at its end."""
    for e in range(len(plays)):
        if out.done[e]:
            continue
        b, k, s = plays[e], actions[e, 0], world.s
        before, cost, waits = s.now[b], world.v.cost[b], k >= out.count[e, 0]
        if waits:
            s.wake[b] = min(s.wake[b], out.later[e, 0])
        elif sight.is_faithful:
            queue_up(world.w, world.f, s, b, out.task[e, k], out.device[e, k])
        elif out.depth[e, k] > 1:
            launch(world.w, world.f, s, b, out.task[e, k], out.device[e, k], out.depth[e, k])
        else:
            commit(world.w, world.f, s, b, out.task[e, k], out.device[e, k])
        is_over = go_on(sight, world, b, e, waits, stops, out)
        if is_over:
            settle_lines(world.lines, world.w, s, world.v, b)
        elapsed = s.now[b] - before
        reward = cost - world.v.cost[b]
        if pay.is_faithful:
            reward = _faithful_pay(world, b, before) if elapsed > 0.0 else 0.0
        if pay.is_shaped:
            level = potential(world.lines, world.w, s, world.v, b)
            reward += np.exp(-elapsed / pay.tau) * level - out.level[e]
            out.level[e] = level
        out.reward[e], out.elapsed[e], out.done[e] = reward, elapsed, is_over


def refuse_launches(problem: Problem, sight: PipelineSight) -> str | None:
    """The reason why a policy with depths cannot act on this problem, or None."""
    if sight.has_launches and any(job.overrun == "abort" for job in problem.jobs):
        return "a launch cannot be cut short: with depths, overrun is queue or skip, not abort"
    return None


class PipelineBatch:
    """Problems side by side, with what happens in each; decisions come from outside."""

    def __init__(
        self,
        problems: Sequence[Problem],
        realisations: Sequence[Realisation],
        sight: PipelineSight,
        num_envs: int,
    ) -> None:
        for problem in problems:
            reason = refuse_launches(problem, sight)
            if reason is not None:
                raise UnsupportedError(f"problem {problem.name!r}: {reason}", field="depths")
        self.problems, self.sight, self.num_envs = list(problems), sight, num_envs
        self.seen = sight.seen()
        w = compile_tasks(self.problems)
        lines = lines_of(self.problems)
        most = int(np.diff(lines.line_ptr).max())
        f, s = facts_of(realisations, w), new_task_state(w)
        self.world = World(lines, w, f, s, new_line_state(lines), new_sweep(w.run.shape[1], most))
        self.buffers = _new_buffers(num_envs, sight)

    def shares(self, b: int) -> Floats:
        """Share of deadlines that every pipeline of environment b has missed so far."""
        v, (first, last) = self.world.v, self.world.lines.line_ptr[b : b + 2].tolist()
        return np.asarray(v.missed[first:last] / np.maximum(v.counted[first:last], 1), np.float64)


class PipelineEnv(PipelineBatch):
    """A :class:`weft.training.environment.CandidateEnv` of pipelines.

    Every environment has problems of its own, from which each episode draws one, and what happens in it.

    Parameters
    ----------
    shared
        Whether every environment has all problems; else they are dealt out.
    """

    num_heads = num_agents = 1
    narrow = None
    base_column = None
    feature_version = PIPELINE_VERSION

    def __init__(self, setup: PipelineSetup, num_envs: int, seed: int = 0, *, shared: bool = False) -> None:
        sight = setup.sight
        own = _dealt(setup.problems, num_envs, 1 if shared else setup.spread, shared=shared)
        problems = [problem for one in own for problem in one]
        known = {id(one): realise(one, 0) for one in setup.problems}
        super().__init__(problems, [known[id(one)] for one in problems], sight, num_envs)
        self.setup, self._own = setup, [len(one) for one in own]
        self._first = np.cumsum([0, *self._own])  # (B + 1,)
        self.num_choices, self.num_features = sight.num_choices, sight.num_features
        self.num_columns, self.num_world = len(sight.columns), len(sight.world)
        self.observation, self.mask = self.buffers.observation, self.buffers.mask
        self.elapsed, self.reward, self.done = self.buffers.elapsed, self.buffers.reward, self.buffers.done
        self.plays = np.zeros(num_envs, np.int64)  # (B,) problem of every environment
        self._episode = np.zeros(num_envs, np.int64)  # (B,)
        self._origin = np.zeros((num_envs, 2), np.int64)  # seed, number among those of the seed
        self._pay = setup.reward.payment()
        self._macro: list[float] = []
        self._worst: list[float] = []
        self.deal: Deal | None = None
        """Who chooses the problem of an episode; None: it is drawn."""
        self.reset(seed)

    def reset(self, seed: int | Ints | None) -> None:
        """Start every environment anew; a number seeds them all, None goes on to the next episode of each."""
        if seed is None:
            self._episode += 1
        else:
            self._episode[:] = 0
            self._origin[:, 0] = seed
            self._origin[:, 1] = np.arange(self.num_envs) if np.ndim(seed) == 0 else 0
        self._begin(np.arange(self.num_envs))
        self.done[:] = False

    def step(self, actions: Ints) -> tuple[Floats32, Bools]:
        """One decision (B, 1) everywhere, allowed by the mask; returns reward and done."""
        self.done[:] = False
        step_all(self.seen, self.world, self.plays, actions, self._pay, True, self.buffers)
        np.divide(self.elapsed, np.float32(self.setup.time_unit), out=self.elapsed)
        if self.done.any():
            over = np.flatnonzero(self.done)
            for e in over.tolist():
                shares = self.shares(int(self.plays[e]))
                self._macro.append(float(shares.mean()))
                self._worst.append(float(shares.max()))
            self._episode[over] += 1
            ended = self.done.copy()
            self._begin(over)
            self.done[:] = ended
        return self.reward, self.done

    def report(self) -> dict[str, float | None]:
        """Since the last call: mean and worst share of deadlines missed, over the episodes that ended."""
        macro, worst = self._macro, self._worst
        self._macro, self._worst = [], []
        return {
            "miss_macro": float(np.mean(macro)) if macro else None,
            "miss_worst": float(np.mean(worst)) if worst else None,
        }

    def _begin(self, which: Ints) -> None:
        """Draw the next episode of these environments and go to its first choice."""
        for e in which.tolist():
            origin, episode = self._origin[e], self._episode[e]
            level = float(keyed_uniform(origin[0], EPISODE, origin[1], episode, 0, 0))
            drawn_place = min(int(level * self._own[e]), self._own[e] - 1)
            place = drawn_place if self.deal is None else self.deal(e, level)
            self.plays[e] = b = int(self._first[e]) + place
            key = int(keyed_uniform(origin[0], EPISODE, origin[1], episode, 1, 0) * 2.0**52)
            drawn = realise(self.problems[b], key).run_times
            first, last = self.world.w.task_ptr[b : b + 2].tolist()
            self.world.f.run[first:last, : drawn.shape[1]] = drawn
        start_all(self.seen, self.world, self.plays, which, True, self.buffers)

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """A copy of everything that changes, of the problems that are played."""
        return kept(self._arrays(), self._pointers(), self.plays)

    def restore(self, snapshot: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go back to a snapshot."""
        put_back(self._arrays(), snapshot, self._pointers())
        self._macro, self._worst = [], []

    def _pointers(self) -> dict[str, Ints]:
        """Where the entries of each problem begin in what changes."""
        return {**state_pointers(self.world.w, self.world.s), **line_pointers(self.world.lines)}

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that changes."""
        own = {"plays": self.plays, "episode": self._episode, "origin": self._origin}
        state = {f"state.{name}": array for name, array in self.world.s._asdict().items()}
        lines = {f"lines.{name}": array for name, array in self.world.v._asdict().items()}
        return {**state, **lines, **self.buffers._asdict(), "facts.run": self.world.f.run, **own}


def _dealt(problems: Sequence[Problem], num_envs: int, spread: int, *, shared: bool) -> list[list[Problem]]:
    """The problems of every environment: all, or its share of them, each in as many as they are spread over.

    Rounds are shifted against each other, so that the environments of one problem are far apart.
    """
    if shared:
        return [list(problems) for _ in range(num_envs)]
    num = len(problems)
    rounds = [[problems[(k + turn * num // spread) % num] for k in range(num)] for turn in range(spread)]
    return [[one for deal in rounds for one in deal[e % num :: num_envs]] for e in range(num_envs)]


def _new_buffers(num_envs: int, sight: PipelineSight) -> PipelineBuffers:
    choices = (num_envs, sight.num_choices)
    return PipelineBuffers(
        np.zeros((num_envs, sight.num_features), np.float32),
        np.zeros((num_envs, 1, sight.num_choices), np.bool_),
        np.zeros(num_envs, np.float32),
        np.zeros(num_envs, np.bool_),
        np.zeros(num_envs, np.float32),
        np.zeros(choices, np.int64),
        np.zeros(choices, np.int64),
        np.zeros((num_envs, 1), np.int64),
        np.zeros((num_envs, 1)),
        np.zeros(num_envs),
        np.ones(choices, np.int64),
    )
