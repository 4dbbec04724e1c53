"""Runs dispatchers and learned policies over streams of jobs: all seeds of a cell in one batch.

What happens (arrivals, branches) is a function of problem and seed alone, so rows are paired
whatever dispatches.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from weft import catalog
from weft.catalog import chooser
from weft.errors import InputError, UnsupportedError
from weft.evaluation.sweep.checking import SMALL
from weft.evaluation.sweep.store import Measured, Row
from weft.evaluation.sweep.stream_bounds import least_job_times
from weft.evaluation.sweep.unit import Unit
from weft.kinds import QUEUES
from weft.model.cluster import Cluster
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem
from weft.model.stream import StreamProblem
from weft.model.stream_oracle import validate_stream
from weft.model.stream_record import StreamRecord
from weft.model.validate import validate
from weft.policies.guard import Guard, safe_dispatcher
from weft.policies.learned import Floats32, Learned, Policy
from weft.scenarios import Scenario, scenario
from weft.schedulers.dispatchers.queues import Dispatcher, act_all, begin_all, observe_all, refuse_stream
from weft.sim.queues.drift import write_all_drifts
from weft.sim.queues.environment import START, Narrowing, Setup, setup_of
from weft.sim.queues.kernel import DECISIONS, EXPIRED, IDLES, NEXT_JOB, State, Stream
from weft.sim.queues.layout import compile_stream, edge_probabilities, new_state, num_branches
from weft.sim.queues.observation import num_features
from weft.sim.queues.outcomes import taken_edges
from weft.sim.queues.rules import choose_all, run_episodes

FIRST_ROOM = 1024
"""Room for this many jobs at once; four times as much whenever that is too little."""
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of one stream per seed."""

    setup: Setup
    seeds: Ints  # (num_seeds,)
    job_times: Floats  # (num_seeds, num_jobs) expired jobs count with the limit
    makespan: Floats  # (num_seeds,) time of the last end
    device_utilisation: Floats  # (num_seeds, num_devices) from the first arrival to the last end
    device_fill: Floats  # (num_seeds, num_devices) mean batch over the largest; 0 without batches
    batch_fill: Floats  # (num_seeds,) the same over all devices
    expired: Ints  # (num_seeds,)
    decisions: Ints  # (num_seeds,)
    idles: Ints  # (num_seeds,)
    fallbacks: Ints  # (num_seeds,) decisions beyond a policy's training, which a rule made
    estimates: Floats  # (num_seeds, num_jobs) of the first branch when the job came; no jobs unless recorded
    task_device: Ints  # (num_seeds, num_jobs, num_tasks) where each task ran, -1: nowhere
    task_batch: Ints  # (num_seeds, num_jobs, num_tasks) another number for every batch of a device
    task_start: Floats  # (num_seeds, num_jobs, num_tasks)
    task_finish: Floats  # (num_seeds, num_jobs, num_tasks) of its end, or of when it was dropped

    @property
    def mean_jct(self) -> Floats:
        """Mean time of a job from arrival to end."""
        return np.asarray(self.job_times.mean(axis=1), dtype=np.float64)

    @property
    def p99_jct(self) -> Floats:
        """Time within which 99 % of the jobs end."""
        return np.asarray(np.quantile(self.job_times, 0.99, axis=1), dtype=np.float64)

    @property
    def utilisation(self) -> Floats:
        """Mean share of its time a device is busy."""
        return np.asarray(self.device_utilisation.mean(axis=1), dtype=np.float64)

    def record(self, row: int) -> StreamRecord:
        """Who ran where and when with one seed; what happens is drawn here again, not taken from the kernel."""
        setup, seed = self.setup, int(self.seeds[row])
        return StreamRecord(
            setup.problem,
            setup.arrivals.draw(seed),
            taken_edges(setup, seed),
            setup.rules.expiry,
            self.task_device[row],
            self.task_batch[row],
            self.task_start[row],
            self.task_finish[row],
        )

    def trace(self, row: int) -> str:
        """SHA-256 over when every job of one seed ended."""
        return hashlib.sha256(self.job_times[row].astype("<f8").tobytes()).hexdigest()


def workload_seed(recipe_seed: int, problem: str, seed: int) -> int:
    """Seed of what happens: another one for every problem, the same one for every scheduler."""
    text = f"workload\x1f{recipe_seed}\x1f{problem}\x1f{seed}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def run_rule(dispatcher: Dispatcher, setup: Setup, seeds: Sequence[int]) -> Outcome:
    """One episode per seed under a rule, all inside the kernel."""
    reason = dispatcher.supports(setup.problem)
    if reason is not None:
        raise UnsupportedError(f"{dispatcher.name}: {reason}", field="scheduler")
    stream = compile_stream(setup.problem, setup.rules)
    keys = np.array(seeds, np.int64)

    def play(state: State) -> None:
        run_episodes(dispatcher.rule(setup.problem, stream, keys), stream, state, START)

    return played(setup, stream, keys, play)


def run_policy(
    policy: Policy,
    setup: Setup,
    seeds: Sequence[int],
    *,
    sample_seed: int | None = None,
    records: bool = False,
    guard: Guard | None = None,
) -> Outcome:
    """One episode per seed, the policy asked at every decision; those that are over stand still.

    Parameters
    ----------
    sample_seed
        Decisions are drawn with this seed; None: always the best one.
    records
        Whether the running estimate of the first branch is kept for every job.
    guard
        Tells which observations lie beyond the policy's training; a rule decides there.
    """
    reason = refuse_stream(setup.problem)
    if reason is not None:
        raise UnsupportedError(reason, field="scheduler")
    stream = compile_stream(setup.problem, setup.rules)
    num_devices, num_kinds = stream.can_run.shape
    width = num_features(setup.sight, num_kinds, num_devices, num_branches(stream))
    estimates = np.zeros((len(seeds), setup.arrivals.count if records else 0))
    fallbacks = np.zeros(len(seeds), np.int64)

    def play(state: State) -> None:
        rng = None if sample_seed is None else np.random.default_rng(sample_seed)
        observation = np.zeros((len(seeds), width), np.float32)
        mask = np.ones((len(seeds), num_devices, num_kinds + 1), np.bool_)
        done = np.zeros(len(seeds), np.bool_)
        narrow = (Narrowing(stream, state),) if setup.narrows else ()
        estimates[:] = np.nan
        fallbacks[:] = 0
        safe = None if guard is None else _Safe(guard, setup.problem, stream, state)
        begin_all(stream, state, START, done)
        while not done.all():
            observe_all(stream, setup.sight, state, done, observation, mask)
            actions = policy.decide_batch(observation, mask, rng, *narrow)
            if records:
                _record(state, estimates)
            actions = np.ascontiguousarray(actions, np.int64)
            if safe is None or not safe.act(observation, actions, setup.waits, done, fallbacks):
                act_all(stream, state, actions, setup.waits, done)

    found = played(setup, stream, np.array(seeds, np.int64), play, estimates)
    return replace(found, fallbacks=fallbacks)


class _Safe:
    """A rule that decides in the environments where a policy should not."""

    def __init__(self, guard: Guard, problem: Problem, stream: Stream, state: State) -> None:
        self._guard, self._stream, self._state = guard, stream, state
        self._rule = safe_dispatcher(problem, guard).rule(problem, stream, state.seed)

    def act(self, observation: Floats32, actions: Ints, waits: bool, done: Bools, count: Ints) -> bool:
        """Decide in all environments, some by the rule; False, and nothing is done, where none needs it."""
        if not self._guard.is_needed(observation):
            return False
        is_ruled = self._guard.outside(observation) & ~done
        if not is_ruled.any():
            return False
        chosen = np.zeros_like(actions)
        choose_all(self._rule, self._stream, self._state, chosen)
        others, ruled = done | is_ruled, ~is_ruled
        act_all(self._stream, self._state, actions, waits, others)
        act_all(self._stream, self._state, chosen, True, ruled)
        done[:] = np.where(is_ruled, ruled, others)
        count += is_ruled
        return True


def _record(state: State, estimates: Floats) -> None:
    """Note the estimate of the first branch at the job that came last."""
    rows = np.arange(len(estimates))
    seen = state.seen[:, 0]
    estimates[rows, state.count[:, NEXT_JOB] - 1] = seen[:, 1] / (seen[:, 0] + 1.0)


def _filled(estimates: Floats) -> Floats:
    """Jobs that came without a decision have the estimate of the one before; the first ones 0."""
    known = np.where(np.isnan(estimates), 0, np.arange(estimates.shape[1]))
    last = np.maximum.accumulate(known, axis=1) if estimates.shape[1] else known
    return np.nan_to_num(np.take_along_axis(estimates, last, axis=1))


def played(
    setup: Setup, stream: Stream, seeds: Ints, play: Callable[[State], None], estimates: Floats | None = None
) -> Outcome:
    """Play from fresh states with more and more room until no buffer is too small."""
    arrivals = np.stack([setup.arrivals.draw(seed) for seed in seeds.tolist()])
    probability, room = edge_probabilities(setup.problem), FIRST_ROOM
    while True:
        state = new_state(
            stream, len(seeds), setup.arrivals.count, probability,
            slots=room, room=room, knots=setup.drift.num_knots, recorded=True,
        )  # fmt: skip
        state.seed[:] = seeds
        state.arrival[:] = arrivals
        write_all_drifts(stream, state, setup.drift.law)
        play(state)
        if not state.overflow.any():
            return _outcome(setup, stream, state, estimates)
        room *= 4


def _outcome(setup: Setup, stream: Stream, state: State, estimates: Floats | None) -> Outcome:
    end = state.finish.max(axis=1)
    span = np.maximum(end - state.arrival[:, 0], TINY)  # a stream may take no time
    room = state.device_batches * stream.batch  # (num_seeds, num_devices) tasks that would have fitted
    return Outcome(
        setup,
        state.seed.copy(),
        state.finish - state.arrival,
        end,
        state.device_busy / span[:, None],
        state.device_tasks / np.maximum(room, 1),
        state.device_tasks.sum(axis=1) / np.maximum(room.sum(axis=1), 1),
        state.count[:, EXPIRED].copy(),
        state.count[:, DECISIONS].copy(),
        state.count[:, IDLES].copy(),
        np.zeros(len(state.seed), np.int64),
        np.zeros((len(state.seed), 0)) if estimates is None else _filled(estimates),
        *_placed(setup.problem.cluster, state),
    )


def _placed(cluster: Cluster, state: State) -> tuple[Ints, Ints, Floats, Floats]:
    """Devices, batches, starts and finishes of all tasks; slots, which the kernel takes for devices, put together."""
    owner = np.repeat(np.arange(cluster.num_devices), cluster.slots)
    has_run = state.task_device >= 0
    device = np.where(has_run, owner[state.task_device], -1)
    batch = state.task_batch * len(owner) + state.task_device
    return device, np.where(has_run, batch, -1), state.task_start, state.task_finish


class QueueRuns:
    """Dispatchers and policies on queues by kind: all seeds of a unit at once."""

    def measure(self, unit: Unit) -> list[Measured]:
        chosen = unit.scenario
        case = chosen.stream(unit.split, unit.index)
        seeds = [workload_seed(chosen.recipe.seed, unit.problem_name, seed) for seed in unit.seeds]
        warm(unit.scheduler)
        started = time.perf_counter()
        found = play(unit.scheduler, case, seeds)
        seconds = (time.perf_counter() - started) / len(seeds)
        return [
            Measured(_row(unit, unit.problem_name, found, k), seconds, int(found.fallbacks[k]))
            for k in range(len(seeds))
        ]

    def warm(self, scheduler: str) -> None:
        warm(scheduler)

    def inputs(self, scenario: Scenario, schedulers: Sequence[str]) -> dict[str, object]:
        return {"graph": scenario.recipe.graph, "policies": policy_hashes(schedulers)}


def play(scheduler: str, case: StreamProblem, seeds: Sequence[int], *, records: bool = False) -> Outcome:
    """The streams of these workload seeds under a dispatcher or a policy; see :func:`run_policy`."""
    chosen = chooser(scheduler)
    if isinstance(chosen, Dispatcher):
        return run_rule(chosen, setup_of(case), seeds)
    setup = setup_of(case, chosen.sight, waits=chosen.waits, narrows=chosen.narrows)
    chosen.refuse_misfit(setup.problem, setup.rules)
    guard = None if catalog.is_run(scheduler) else chosen.guard  # a run under study is judged as it is
    return run_policy(chosen.policy, setup, seeds, records=records, guard=guard)


@cache
def warm(scheduler: str) -> None:
    """Dispatch a few jobs, so that loading the kernels is not counted as dispatching."""
    for name in ("conditional", "conditional-join"):
        with suppress(InputError):  # a policy of another graph
            play(scheduler, scenario(name, jobs=5).stream("test", 0), [1])
            return


def policy_hashes(schedulers: Sequence[str]) -> dict[str, str]:
    """SHA-256 of the weights of every policy among these: a name may stand for others tomorrow."""
    from weft.policies.checkpoint import load_policy

    learned = [name for name in schedulers if isinstance(chooser(name), Learned)]
    return {name: load_policy(catalog.policy_file(name, QUEUES) or name)[1].sha256 for name in learned}


def _row(unit: Unit, problem: str, found: Outcome, k: int) -> Row:
    mean = float(found.mean_jct[k])
    bound = float(least_job_times(found.setup, int(found.seeds[k])).mean())
    fault = None if unit.check == "none" else fault_of(found, k, unit.check)
    return Row(
        scenario=unit.scenario.name,
        cell=unit.scenario.label,
        problem=problem,
        seed=unit.seeds[k],
        scheduler=unit.scheduler,
        metrics={
            "mean_jct": mean,
            "p99_jct": float(found.p99_jct[k]),
            "utilisation": float(found.utilisation[k]),
            "batch_fill": float(found.batch_fill[k]),
            "makespan": float(found.makespan[k]),
            "expired": int(found.expired[k]),
        },
        valid=None if unit.check == "none" else fault is None,
        fault=fault,
        trace=found.trace(k),
        more={
            "gap_percent": 100.0 * (mean / bound - 1.0) if bound > 0 else None,
            "lower_bound": bound,
            "copies": 0,
        },
        devices=_devices(found, k),
    )


def fault_of(found: Outcome, k: int, check: str = "sample") -> str | None:
    """The first rule that the stream of one seed breaks; None: it keeps them all.

    Streams have an oracle of their own, which looks at every row; the plain one judges small ones too, and with
    ``all`` every one.
    """
    record = found.record(k)
    for violation in validate_stream(record):
        return str(violation)
    if not np.allclose(record.job_times, found.job_times[k], rtol=1e-9, atol=1e-9):
        return "metric: job times are not those of the record"
    if check == "all" or record.has_run.sum() <= SMALL:
        for violation in validate(record.schedule()):
            return str(violation)
    return None


def _devices(found: Outcome, k: int) -> str:
    """Utilisation and batch fill of every device, as JSON."""
    cluster = found.setup.problem.cluster
    names = [cluster.device_names[d] for d in np.repeat(np.arange(cluster.num_devices), cluster.slots)]
    rows = [
        {"device": name, "utilisation": busy, "batch_fill": fill}
        for name, busy, fill in zip(
            names, found.device_utilisation[k].tolist(), found.device_fill[k].tolist(), strict=True
        )
    ]
    return json.dumps(rows)
