"""Episodes of a policy that picks tasks: whole streams, several of each that differ in what is picked alone. Loads no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem, realise
from weft.policies.picks.forward import PickPolicy
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state
from weft.sim.tasks.picks import Floats32, known_of, new_seen, pick_all, see


class Step(NamedTuple):
    """What was seen and picked at one decision of each of E episodes."""

    envs: Ints  # (E,)
    job_ptr: Ints  # (E + 1,)
    task_ptr: Ints  # (E + 1,)
    job: Ints  # (num_jobs,)
    left: Ints  # (num_jobs,)
    jobs: Floats32  # (num_jobs, features)
    task: Ints  # (num_tasks,)
    task_job: Ints  # (num_tasks,)
    picks: Floats32  # (num_tasks, features)
    world: Floats32  # (E, features)
    chosen: Ints  # (E,) row of ``task``
    log_prob: Floats  # (E,)
    time: Floats  # (E,)
    cost: Floats  # (E, 2) until the next decision: time of jobs in the system, and time


class Played(NamedTuple):
    """All decisions of a batch of episodes; those of one problem follow each other."""

    steps: list[Step]
    job_task_ptr: Ints  # (num_jobs + 1,)
    task_ptr: Ints  # (num_envs + 1,)
    end: Floats  # (num_envs,)
    mean_jct: Floats  # (num_envs,)


def play(
    policy: PickPolicy,
    problems: Sequence[Problem],
    rollouts: int,
    keys: Sequence[int],
    rng: np.random.Generator,
) -> Played:
    """Draw picks to the end of every problem, ``rollouts`` times each; ``keys`` say what happens in each problem."""
    repeated = [problem for problem in problems for _ in range(rollouts)]
    w = compile_tasks(repeated)
    worlds = [realise(problem, key) for problem, key in zip(problems, keys, strict=True)]
    f = facts_of([world for world in worlds for _ in range(rollouts)], w)
    s = new_task_state(w, max(problem.num_tasks for problem in problems))
    embedded = policy.embed(problems)
    nodes, pooled = (_repeated(part, problems, rollouts) for part in embedded)
    known = known_of(repeated, pooled)
    copies = np.array([problem.objective.copies for problem in repeated])
    seen = new_seen(len(repeated), len(w.job_release), len(w.job), nodes.shape[1])
    steps: list[Step] = []
    envs = np.arange(len(repeated))
    chosen = np.full(len(envs), -1, np.int64)
    while True:
        cost, is_over = np.zeros((len(envs), 2)), np.zeros(len(envs), np.bool_)
        pick_all(w, f, s, envs, chosen, copies, cost, is_over)
        if steps:
            steps[-1].cost[:] = cost
        envs = envs[~is_over]
        if not len(envs):
            break
        see(known, w, f, s, envs, seen)
        rows, log_prob = _drawn(policy.logits(nodes, seen, len(envs)), seen.task_ptr[: len(envs) + 1], rng)
        chosen = seen.task[rows]
        num_jobs, num_tasks = int(seen.job_ptr[len(envs)]), int(seen.task_ptr[len(envs)])
        steps.append(
            Step(
                envs,
                seen.job_ptr[: len(envs) + 1].copy(),
                seen.task_ptr[: len(envs) + 1].copy(),
                seen.job[:num_jobs].copy(),
                seen.left[:num_jobs].copy(),
                seen.jobs[:num_jobs].copy(),
                seen.task[:num_tasks].copy(),
                seen.task_job[:num_tasks].copy(),
                seen.picks[:num_tasks].copy(),
                seen.world[: len(envs)].copy(),
                rows,
                log_prob,
                s.now[envs],
                np.zeros((len(envs), 2)),
            )
        )
    _refuse_unfinished(repeated, s.job_finish, s.overflow)
    times = s.job_finish - w.job_release
    mean = [times[a:b].mean() for a, b in zip(w.job_ptr, w.job_ptr[1:], strict=False)]
    return Played(steps, w.job_task_ptr, w.task_ptr, s.now.copy(), np.array(mean))


def _repeated(rows: Floats32, problems: Sequence[Problem], rollouts: int) -> Floats32:
    """Rows of tasks, those of every problem several times."""
    cuts = np.cumsum([problem.num_tasks for problem in problems])[:-1]
    return np.concatenate([part for part in np.split(rows, cuts) for _ in range(rollouts)])


def _drawn(scores: Floats32, pointer: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """One row per environment by softmax, and the logarithms of their probabilities."""
    env = np.repeat(np.arange(len(pointer) - 1), np.diff(pointer))
    noisy = scores + rng.gumbel(size=len(scores))
    most = np.maximum.reduceat(noisy, pointer[:-1])
    rows = np.flatnonzero(noisy == most[env])
    rows = rows[np.unique(env[rows], return_index=True)[1]]
    shifted = scores.astype(np.float64) - np.maximum.reduceat(scores, pointer[:-1])[env]
    total = np.log(np.add.reduceat(np.exp(shifted), pointer[:-1]))
    return rows, shifted[rows] - total


def _refuse_unfinished(problems: Sequence[Problem], job_finish: Floats, overflow: Bools) -> None:
    if overflow.any() or np.isnan(job_finish).any():
        raise InputError(f"problem {problems[0].name!r} does not end: no device can take some task")


def returns(played: Played, column: int, gamma: float, unit: Floats) -> list[tuple[Floats, Floats]]:
    """Times of the decisions of every episode, and what is paid from each on, discounted per ``unit`` of time."""
    times: list[list[float]] = [[] for _ in played.end]
    paid: list[list[float]] = [[] for _ in played.end]
    for step in played.steps:
        for e, time, cost in zip(step.envs.tolist(), step.time, step.cost[:, column], strict=True):
            times[e].append(float(time))
            paid[e].append(-float(cost))
    found = []
    for e in range(len(times)):
        at, total, ahead = np.array(times[e]), np.zeros(len(times[e])), 0.0
        gaps = np.diff(np.append(at, played.end[e])) / unit[e]
        for t in range(len(at) - 1, -1, -1):
            ahead = paid[e][t] + gamma ** gaps[t] * ahead
            total[t] = ahead
        found.append((at, total))
    return found


def advantages(found: list[tuple[Floats, Floats]], rollouts: int) -> list[Floats]:
    """What each decision pays beyond the mean of the other episodes of its problem at the same time.

    Those have the same arrivals and run times (common random numbers), so that the mean takes their luck out
    (Mao et al., 2019). Deviations are in units of their spread, problem by problem.
    """
    gains: list[Floats] = []
    for first in range(0, len(found), rollouts):
        group = found[first : first + rollouts]
        own = []
        for n, (at, total) in enumerate(group):
            others = [np.interp(at, *other, right=0.0) for k, other in enumerate(group) if k != n]
            own.append(total - np.mean(others, axis=0))
        spread = max(float(np.concatenate(own).std()), 1e-9)
        gains += [gain / spread for gain in own]
    return gains
