"""Many copies of the task view in one call: the environment in which policies learn to point at candidates.

A decision starts one candidate or waits (``candidates.py``), or picks a task that the next one places. The reward is
minus the time that jobs spent in the system since the last decision: over an episode, minus the sum of all job
times; ``reward.py`` knows further terms. Same-step autoreset: where an episode ends, the observation is already that of the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.draws import EPISODE, keyed_uniform
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem, realise
from weft.sim.jit import lean_kernel
from weft.sim.tasks.ahead import Ahead, look_ahead, new_ahead, true_costs
from weft.sim.tasks.buffers import Buffers, new_buffers
from weft.sim.tasks.candidates import (
    FEATURE_VERSION,
    WORLD,
    CandidateSight,
    Listed,
    check_sight,
    feature_names,
    list_candidates,
    prepare,
)
from weft.sim.tasks.clock import begin, is_due, next_time, pass_events
from weft.sim.tasks.deft import start_behind_copy
from weft.sim.tasks.features import BASE, Known
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state
from weft.sim.tasks.moves import commit
from weft.sim.tasks.reward import TERMS, Reward, Weights, look_before, reward_of
from weft.sim.tasks.rules import TaskRule, first_start
from weft.sim.tasks.slots import kept, put_back, state_pointers
from weft.sim.tasks.state import NUM_DONE, NUM_EXPIRED, Facts, Tasks, TaskState
from weft.sim.tasks.weights import PRICED, check_weights

Floats32 = npt.NDArray[np.float32]
Deal = Callable[[int, float], int]
"""Called as (environment, level in [0, 1)) when an episode begins: which of the environment's problems it plays."""


@dataclass(frozen=True)
class TaskSetup:
    """Problems to learn on, each with all its jobs."""

    problems: tuple[Problem, ...]
    sight: CandidateSight = field(default_factory=CandidateSight)
    reward_scale: float = 1.0
    """What a unit of time of a job in the system costs; all terms of the reward are multiplied by it."""
    time_unit: float = 1.0
    """What ``elapsed`` counts in."""
    waits: bool = True
    """Whether waiting is a choice; without it something starts at every decision."""
    reward: Reward = field(default_factory=Reward)
    base: tuple[float, ...] = PRICED
    """Weights of the rule that orders the candidates and whose choice is marked (``weights.py``)."""

    def __post_init__(self) -> None:
        check_sight(self.sight)
        check_weights(self.base, "base")
        for name in ("reward_scale", "time_unit"):
            value = getattr(self, name)
            if isinstance(value, bool) or not 0.0 < value < np.inf:
                raise InputError(f"expected a number > 0, got {value!r:.60}", field=name)
        if not self.problems:
            raise InputError("expected at least one problem", field="problems")


@lean_kernel
def _go_on(
    sight: CandidateSight, known: Known, w: Tasks, f: Facts, s: TaskState, b: int, e: int, waits: bool,
    out: Buffers,
) -> tuple[float, bool]:  # fmt: skip
    """Let time pass until there is a choice; returns how long jobs were in the system and whether all is over."""
    last = out.mask.shape[2] - 1
    found = Listed(out.task[e], out.device[e], out.copies[e], out.count[e], out.picked[e], out.later[e])
    time = 0.0
    while True:
        if not waits and is_due(s, b) and next_time(w, s, b) > s.now[b]:
            can_wait = list_candidates(sight, known, w, f, s, b, found, out.observation[e])
            if found.count[0] > 0:
                for k in range(last):
                    out.mask[e, 0, k] = k < found.count[0]
                out.mask[e, 0, last] = can_wait
                return time, False
        if s.overflow[b] or next_time(w, s, b) == np.inf:
            list_candidates(sight, known, w, f, s, b, found, out.observation[e])
            return time, True
        before = s.now[b]
        jobs = s.next_job[b] - s.count[b, NUM_DONE] - s.count[b, NUM_EXPIRED]
        pass_events(w, f, s, b)
        time += jobs * (s.now[b] - before)
        waits = False


@lean_kernel
def _start_all(
    sight: CandidateSight,
    known: Known,
    w: Tasks,
    f: Facts,
    s: TaskState,
    plays: Ints,
    which: Ints,
    out: Buffers,
) -> None:
    """Begin the problem that each of these environments plays."""
    for k in range(len(which)):
        e = which[k]
        begin(w, s, plays[e])
        out.picked[e, 0] = -1
        _go_on(sight, known, w, f, s, plays[e], e, False, out)


@lean_kernel
def _step_all(
    sight: CandidateSight, known: Known, w: Tasks, f: Facts, s: TaskState, plays: Ints, actions: Ints,
    weights: Weights, out: Buffers,
) -> None:  # fmt: skip
    """One decision in every environment; what is over is left at its end."""
    for e in range(len(plays)):
        b, k = plays[e], actions[e, 0]
        before, waits = look_before(w, s, b), k >= out.count[e, 0]
        picks = sight.stages == 2 and out.picked[e, 0] < 0 and not waits
        out.picked[e, 0] = out.task[e, k] if picks else -1
        if waits:
            s.wake[b] = min(s.wake[b], out.later[e, 0])
        elif picks:
            pass  # no time passes: its devices are listed next
        elif out.copies[e, k]:
            start_behind_copy(w, f, s, b, out.task[e, k], out.device[e, k])
        else:
            commit(w, f, s, b, out.task[e, k], out.device[e, k])
        time, is_over = _go_on(sight, known, w, f, s, b, e, waits, out)
        out.reward[e] = reward_of(weights, w, s, b, before, time, out.terms[e])
        out.elapsed[e] = s.now[b] - before.now
        out.done[e] = is_over
        out.ended[e] = np.nan
        if is_over:
            total = 0.0
            for j in range(w.job_ptr[b], w.job_ptr[b + 1]):
                total += s.job_finish[j] - w.job_release[j]
            out.ended[e] = total / (w.job_ptr[b + 1] - w.job_ptr[b])
            for at in range(out.observation.shape[1]):
                out.final_observation[e, at] = out.observation[e, at]


@lean_kernel
def _follow_all(
    sight: CandidateSight,
    rule: TaskRule,
    w: Tasks,
    f: Facts,
    s: TaskState,
    plays: Ints,
    out: Buffers,
    actions: Ints,
) -> None:
    """What a rule with virtual queues does: the candidate of its first start, else the wait, else the first."""
    last = out.mask.shape[2] - 1
    for e in range(len(plays)):
        i, p = first_start(rule, w, f, s, plays[e])
        actions[e, 0] = last if out.mask[e, 0, last] else 0
        for k in range(out.count[e, 0]):
            is_there = w.pool[out.device[e, k]] == w.pool[p] or (sight.stages == 2 and out.picked[e, 0] < 0)
            is_it = out.task[e, k] == i and is_there
            if is_it and not out.copies[e, k]:
                actions[e, 0] = k


@lean_kernel
def _look_all(
    sight: CandidateSight, known: Known, s: TaskState, a: Ahead, plays: Ints, width: int, out: Buffers
) -> None:
    """Look ahead in every environment; candidates have so many features."""
    for e in range(len(plays)):
        found = Listed(out.task[e], out.device[e], out.copies[e], out.count[e], out.picked[e], out.later[e])
        rows = out.observation[e, len(WORLD) :].reshape((-1, width))
        look_ahead(sight, known, s, a, plays[e], found, rows)


@lean_kernel
def _cost_all(
    known: Known, w: Tasks, f: Facts, s: TaskState, a: Ahead, plays: Ints, width: int, horizon: float,
    out: Buffers, costs: Floats,
) -> None:  # fmt: skip
    """What every choice truly costs in every environment."""
    for e in range(len(plays)):
        found = Listed(out.task[e], out.device[e], out.copies[e], out.count[e], out.picked[e], out.later[e])
        rows = out.observation[e, len(WORLD) :].reshape((-1, width))
        true_costs(known, w, f, s, a, plays[e], found, rows, horizon, costs[e])


class TaskEnv:
    """A batch of problems carried out task by task; a :class:`weft.training.environment.CandidateEnv`.

    Every environment has problems of its own, from which each episode draws one and, under noise or
    branches, what happens in it.

    Parameters
    ----------
    shared
        Whether every environment has all problems, so that its episodes depend on its seed alone; else
        the problems are dealt out.
    """

    num_heads = num_agents = 1
    narrow = None
    feature_version = FEATURE_VERSION
    num_world = len(WORLD)
    base_column = BASE

    def __init__(self, setup: TaskSetup, num_envs: int, seed: int = 0, *, shared: bool = False) -> None:
        if num_envs < 1:
            raise InputError(f"expected a whole number >= 1, got {num_envs}", field="num_envs")
        self.setup, self.num_envs = setup, num_envs
        self.num_choices, self.num_features = setup.sight.num_choices, setup.sight.num_features
        self.num_columns, self.feature_names = len(setup.sight.columns), feature_names(setup.sight)
        self._own = _dealt(setup.problems, num_envs, shared=shared)
        self.problems = [problem for own in self._own for problem in own]
        self._first = np.cumsum([0, *(len(own) for own in self._own)])  # (B + 1,)
        self.tasks = compile_tasks(self.problems)
        self.facts = facts_of([realise(problem, 0) for problem in self.problems], self.tasks)
        self._edge_ptr = self.tasks.succ_ptr[self.tasks.task_ptr]  # (num_problems + 1,)
        self.state = new_task_state(self.tasks, _room_for_copies(setup))
        self.state.learns[:] = setup.sight.profile
        self.known = prepare(self.problems, self.state, setup.base)
        self._ahead = new_ahead(self.tasks, self.state)
        self.looks = setup.sight.ahead > 0
        """Whether choices are played ahead, where the sight does; who needs no observation for a while may turn it off."""
        self._buffers = new_buffers(num_envs, setup.sight)
        self.observation, self.mask = self._buffers.observation, self._buffers.mask
        self.elapsed, self.reward, self.done = (
            self._buffers.elapsed,
            self._buffers.reward,
            self._buffers.done,
        )
        self.ended, self.final_observation = self._buffers.ended, self._buffers.final_observation
        self.plays = np.zeros(num_envs, np.int64)  # (B,) problem of every environment
        self._episode = np.zeros(num_envs, np.int64)  # (B,)
        self._origin = np.zeros((num_envs, 2), np.int64)  # seed, number among those of the seed
        self._weights = setup.reward.weights(setup.reward_scale, setup.time_unit)
        self.deal: Deal | None = None
        """Who chooses the problem of an episode; None: it is drawn."""
        self._forget()
        self.reset(seed)

    def _forget(self) -> None:
        """Nothing is to be reported."""
        self._job_times: list[float] = []
        self._terms, self._num_steps = np.zeros(len(TERMS)), 0

    def reset(self, seed: int | Ints | None) -> None:
        """Start every environment anew.

        A number seeds them all, and each draws its own episodes; an array gives each the seed it
        would have alone; None goes on to the next episode of each.
        """
        if seed is None:
            self._episode += 1
        else:
            self._episode[:] = 0
            self._origin[:, 0] = seed
            self._origin[:, 1] = np.arange(self.num_envs) if np.ndim(seed) == 0 else 0
        self._begin(np.arange(self.num_envs))
        self._bar_wait()
        self.look()

    def step(self, actions: Ints) -> tuple[Floats32, Bools]:
        """One decision (B, 1) everywhere, allowed by the mask; returns reward and done."""
        if actions.min() < 0 or actions.max() >= self.num_choices:
            wrong = actions[(actions < 0) | (actions >= self.num_choices)][0]
            raise InputError(f"expected 0 to {self.num_choices - 1}, got {wrong}", field="actions")
        _step_all(
            self.setup.sight, self.known, self.tasks, self.facts, self.state, self.plays, actions,
            self._weights, self._buffers,
        )  # fmt: skip
        self._terms += self._buffers.terms.sum(axis=0)
        self._num_steps += self.num_envs
        np.divide(self.elapsed, np.float32(self.setup.time_unit), out=self.elapsed)
        if self.done.any():
            over = np.flatnonzero(self.done)
            self._refuse_unfinished(over)
            self._job_times += self.ended[over].tolist()
            self._episode[over] += 1
            self._begin(over)
        self._bar_wait()
        self.look()
        return self.reward, self.done

    def look(self) -> None:
        """Write what is seen by playing ahead, if anything is."""
        if self.looks:
            _look_all(
                self.setup.sight, self.known, self.state, self._ahead, self.plays, self.num_columns, self._buffers
            )  # fmt: skip

    def true_costs(self, horizon: float) -> Floats:
        """By how much the job times of every choice (B, K) will exceed those of the base rule's, in mean run times.

        Each is played with what really happens, the base rule going on, for so many mean run times. NaN: no choice.
        """
        costs = np.full((self.num_envs, self.num_choices), np.nan)
        _cost_all(
            self.known, self.tasks, self.facts, self.state, self._ahead, self.plays, self.num_columns, horizon,
            self._buffers, costs,
        )  # fmt: skip
        return costs

    def _bar_wait(self) -> None:
        """There is a candidate at every decision, so that something is left to choose."""
        if not self.setup.waits:
            self.mask[:, :, -1] = False
            rows = self.observation[:, self.num_world :].reshape(self.num_envs, self.num_choices, -1)
            rows[:, 0, BASE] += rows[:, -1, BASE]
            rows[:, -1, BASE] = 0.0

    def follow(self, rule: TaskRule) -> Ints:
        """The choices (B, 1) of a rule with virtual queues, such as ``priced``, in the present states."""
        actions = np.zeros((self.num_envs, 1), np.int64)
        _follow_all(
            self.setup.sight, rule, self.tasks, self.facts, self.state, self.plays, self._buffers, actions
        )
        return actions

    def report(self) -> dict[str, float | None]:
        """Since the last call: mean job time of the episodes that ended, and mean of each term of the reward."""
        found, terms, count = self._job_times, self._terms, max(self._num_steps, 1)
        self._forget()
        means = {f"reward_{name}": float(term) / count for name, term in zip(TERMS, terms, strict=True)}
        return {"mean_jct": float(np.mean(found)) if found else None, **means}

    def _begin(self, which: Ints) -> None:
        """Draw the next episode of these environments and go to its first choice."""
        for e in which.tolist():
            origin, episode = self._origin[e], self._episode[e]
            level = float(keyed_uniform(origin[0], EPISODE, origin[1], episode, 0, 0))
            own = len(self._own[e])
            place = min(int(level * own), own - 1) if self.deal is None else self.deal(e, level)
            self.plays[e] = b = int(self._first[e]) + place
            self._draw_facts(b, int(keyed_uniform(origin[0], EPISODE, origin[1], episode, 1, 0) * 2.0**52))
        _start_all(
            self.setup.sight, self.known, self.tasks, self.facts, self.state, self.plays, which, self._buffers
        )

    def _draw_facts(self, b: int, key: int) -> None:
        """What happens in problem b this time, where anything is drawn."""
        problem = self.problems[b]
        if not problem.varies and not any(job.graph.is_conditional for job in problem.jobs):
            return
        drawn = realise(problem, key)
        first, last = self.tasks.task_ptr[b : b + 2].tolist()
        self.facts.run[first:last, : drawn.run_times.shape[1]] = drawn.run_times
        first, last = self._edge_ptr[b : b + 2].tolist()
        self.facts.taken[first:last] = np.concatenate(drawn.taken)

    def _refuse_unfinished(self, over: Ints) -> None:
        for e in over.tolist():
            if not np.isfinite(self.ended[e]):
                name = self.problems[self.plays[e]].name
                raise InputError(f"problem {name!r} does not end: no device can take some task")

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """A copy of everything that changes, of the problems that are played."""
        return kept(self._arrays(), state_pointers(self.tasks, self.state), self.plays)

    def restore(self, snapshot: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go back to a snapshot."""
        put_back(self._arrays(), snapshot, state_pointers(self.tasks, self.state))
        self._forget()

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that changes."""
        own = {"plays": self.plays, "episode": self._episode, "origin": self._origin}
        facts = {"facts.run": self.facts.run, "facts.taken": self.facts.taken}
        state = {f"state.{name}": array for name, array in self.state._asdict().items()}
        return {**state, **self._buffers._asdict(), **facts, **own}


def _dealt(problems: Sequence[Problem], num_envs: int, *, shared: bool) -> list[list[Problem]]:
    """The problems of every environment: all, or one in so many."""
    if shared:
        return [list(problems) for _ in range(num_envs)]
    return [list(problems[e % len(problems) :: num_envs]) for e in range(num_envs)]


def _room_for_copies(setup: TaskSetup) -> int:
    """Rows beyond one per task: no task starts behind more than one copy."""
    return max(problem.num_tasks for problem in setup.problems) if setup.sight.copies else 0
