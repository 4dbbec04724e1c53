"""Runs dispatchers and learned policies over streams of jobs: all seeds of a cell in one batch.

What happens (arrivals, branches) is a function of problem and seed alone, so rows are paired
whatever dispatches.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from weft import catalog
from weft.catalog import chooser
from weft.errors import UnsupportedError
from weft.evaluation.store import Measured, Row
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import BRANCH, Problem, keyed_uniform
from weft.model.stream import StreamCase
from weft.policies.learned import Learned, Policy
from weft.scenarios import scenario
from weft.schedulers.dispatch import Dispatcher, act_all, begin_all, observe_all, refuse_stream
from weft.sim.drift import write_all_drifts, write_probabilities
from weft.sim.env import START, Narrowing, Setup, setup_of
from weft.sim.events import DECISIONS, EXPIRED, IDLES, NEXT_JOB, State, Stream
from weft.sim.jit import announce
from weft.sim.observe import num_features
from weft.sim.queue_rules import run_episodes
from weft.sim.streams import compile_stream, edge_probabilities, new_state, num_branches

if TYPE_CHECKING:
    from weft.evaluation.benchmark import Unit

FIRST_ROOM = 1024
"""Room for so many jobs at once; four times as much whenever that is too little."""


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
    estimates: Floats  # (num_seeds, num_jobs) of the first branch when the job came; no jobs unless recorded

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

    return _played(setup, stream, keys, play)


def run_policy(
    policy: Policy,
    setup: Setup,
    seeds: Sequence[int],
    *,
    sample_seed: int | None = None,
    records: bool = False,
) -> Outcome:
    """One episode per seed, the policy asked at every decision; those that are over stand still.

    Parameters
    ----------
    sample_seed
        Decisions are drawn with this seed; None: always the best one.
    records
        Whether the running estimate of the first branch is kept for every job.
    """
    reason = refuse_stream(setup.problem)
    if reason is not None:
        raise UnsupportedError(reason, field="scheduler")
    stream = compile_stream(setup.problem, setup.rules)
    num_devices, num_kinds = stream.can_run.shape
    width = num_features(setup.sight, num_kinds, num_devices, num_branches(stream))
    estimates = np.zeros((len(seeds), setup.arrivals.count if records else 0))

    def play(state: State) -> None:
        rng = None if sample_seed is None else np.random.default_rng(sample_seed)
        observation = np.zeros((len(seeds), width), np.float32)
        mask = np.ones((len(seeds), num_devices, num_kinds + 1), np.bool_)
        done = np.zeros(len(seeds), np.bool_)
        narrow = (Narrowing(stream, state),) if setup.narrows else ()
        estimates[:] = np.nan
        begin_all(stream, state, START, done)
        while not done.all():
            observe_all(stream, setup.sight, state, done, observation, mask)
            actions = policy.decide_batch(observation, mask, rng, *narrow)
            if records:
                _record(state, estimates)
            act_all(stream, state, np.ascontiguousarray(actions, np.int64), setup.waits, done)

    return _played(setup, stream, np.array(seeds, np.int64), play, estimates)


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


def _played(
    setup: Setup, stream: Stream, seeds: Ints, play: Callable[[State], None], estimates: Floats | None = None
) -> Outcome:
    """Play from fresh states with more and more room until no buffer is too small."""
    announce()
    arrivals = np.stack([setup.arrivals.draw(seed) for seed in seeds.tolist()])
    probability, room = edge_probabilities(setup.problem), FIRST_ROOM
    while True:
        state = new_state(
            stream, len(seeds), setup.arrivals.count, probability,
            slots=room, room=room, knots=setup.drift.num_knots,
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
    room = state.device_batches * stream.batch  # (num_seeds, num_devices) tasks that would have fitted
    return Outcome(
        setup,
        state.seed.copy(),
        state.finish - state.arrival,
        end,
        state.device_busy / (end - state.arrival[:, 0])[:, None],
        state.device_tasks / np.maximum(room, 1),
        state.device_tasks.sum(axis=1) / np.maximum(room.sum(axis=1), 1),
        state.count[:, EXPIRED].copy(),
        state.count[:, DECISIONS].copy(),
        state.count[:, IDLES].copy(),
        np.zeros((len(state.seed), 0)) if estimates is None else _filled(estimates),
    )


def branch_probabilities(setup: Setup, seeds: Ints) -> Floats:
    """(num_seeds, num_jobs) probability of the drifting branch's first edge for every job."""
    stream = compile_stream(setup.problem, setup.rules)
    num_jobs, knots = setup.arrivals.count, setup.drift.num_knots
    probability = edge_probabilities(setup.problem)
    found = np.full((len(seeds), num_jobs), probability[np.argmax(stream.choice == 0)])
    if knots:
        state = new_state(stream, len(seeds), num_jobs, probability, slots=1, room=1, knots=knots)
        state.seed[:] = seeds
        write_all_drifts(stream, state, setup.drift.law)
        write_probabilities(state, found)
    return found


def least_job_times(setup: Setup, seed: int) -> Floats:
    """For every job the longest path of what it turns out to be, each task at its fastest: a bound."""
    graph, best = setup.problem.graph, setup.problem.best_run_times
    num_jobs = setup.arrivals.count
    begins = np.where(np.diff(graph.predecessor_pointer) == 0, 0.0, -np.inf)[:, None] + np.zeros(num_jobs)
    taken = taken_edges(setup.problem, seed, num_jobs, _drifting(setup, seed))
    for i in graph.order.tolist():
        for e in range(int(graph.successor_pointer[i]), int(graph.successor_pointer[i + 1])):
            after = np.where(taken[e], begins[i] + best[i], -np.inf)
            np.maximum(begins[graph.targets[e]], after, out=begins[graph.targets[e]])
    return np.minimum((begins + best[:, None]).max(axis=0), setup.rules.expiry)


def taken_edges(
    problem: Problem, seed: int, num_jobs: int, drifting: Mapping[tuple[int, int], Floats] | None = None
) -> Bools:
    """(num_edges, num_jobs) whether each edge is taken if its task runs; the same draws as the kernel's.

    ``drifting`` = task and group of a branch -> the probabilities (num_edges, num_jobs) that hold instead.
    """
    graph = problem.graph
    taken = np.ones((graph.num_edges, num_jobs), np.bool_)
    is_branch = graph.branch >= 0
    for source, group in dict.fromkeys(
        zip(graph.sources[is_branch].tolist(), graph.branch[is_branch].tolist(), strict=True)
    ):
        edges = np.flatnonzero((graph.sources == source) & (graph.branch == group))
        draw = keyed_uniform(seed, BRANCH, np.arange(num_jobs), source, group, 0)
        share = (drifting or {}).get((source, group), graph.probability[edges][:, None])
        place = np.minimum((draw >= np.cumsum(share, axis=0)).sum(axis=0), len(edges) - 1)
        taken[edges] = place == np.arange(len(edges))[:, None]
    return taken


def _drifting(setup: Setup, seed: int) -> dict[tuple[int, int], Floats]:
    """Task and group of the branch that drifts -> probability of its edges for every job; or nothing."""
    if not setup.drift.num_knots:
        return {}
    graph = setup.problem.graph
    edges = np.flatnonzero(compile_stream(setup.problem, setup.rules).choice == 0)
    first = branch_probabilities(setup, np.array([seed]))[0]  # (num_jobs,)
    rest = graph.probability[edges[1:]]
    share = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1.0 / len(rest))
    key = (int(graph.sources[edges[0]]), int(graph.branch[edges[0]]))
    return {key: np.vstack([first, (1.0 - first) * share[:, None]])}


def measure_stream(unit: Unit) -> list[Measured]:
    """Run one scheduler on all seeds of a unit at once."""
    chosen = unit.scenario
    name = chosen.problem_name(unit.split, unit.index)
    case = chosen.stream(unit.split, unit.index)
    seeds = [workload_seed(chosen.recipe.seed, name, seed) for seed in unit.seeds]
    warm(unit.scheduler)
    started = time.perf_counter()
    found = play(unit.scheduler, case, seeds)
    seconds = (time.perf_counter() - started) / len(seeds)
    return [Measured(_row(unit, name, found, k), seconds) for k in range(len(seeds))]


def play(scheduler: str, case: StreamCase, seeds: Sequence[int], *, records: bool = False) -> Outcome:
    """The streams of these workload seeds under a dispatcher or a policy; see :func:`run_policy`."""
    chosen = chooser(scheduler)
    if isinstance(chosen, Dispatcher):
        return run_rule(chosen, setup_of(case), seeds)
    setup = setup_of(case, chosen.sight, waits=chosen.waits, narrows=chosen.narrows)
    chosen.refuse_misfit(setup.problem, setup.rules)
    return run_policy(chosen.policy, setup, seeds, records=records)


@cache
def warm(scheduler: str) -> None:
    """Dispatch a few jobs, so that loading the kernels is not counted as dispatching."""
    chosen = chooser(scheduler)
    if isinstance(chosen, Dispatcher):
        case = scenario("conditional", jobs=5).stream("test", 0)
        run_rule(chosen, setup_of(case), [1])


def policy_hashes(schedulers: Sequence[str]) -> dict[str, str]:
    """SHA-256 of the weights of every policy among these: a name may stand for others tomorrow."""
    from weft.policies.checkpoint import load_policy

    learned = [name for name in schedulers if isinstance(chooser(name), Learned)]
    return {name: load_policy(catalog.policy_file(name) or name)[1].sha256 for name in learned}


def _row(unit: Unit, problem: str, found: Outcome, k: int) -> Row:
    mean = float(found.mean_jct[k])
    bound = float(least_job_times(found.setup, int(found.seeds[k])).mean())
    return Row(
        scenario=unit.scenario.name,
        cell=unit.scenario.label,
        problem=problem,
        seed=unit.seeds[k],
        scheduler=unit.scheduler,
        makespan=float(found.makespan[k]),
        slr=None,
        speedup=None,
        utilisation=float(found.utilisation[k]),
        mean_jct=mean,
        gap_percent=100.0 * (mean / bound - 1.0) if bound > 0 else None,
        lower_bound=bound,
        copies=0,
        valid=None,
        fault=None,
        trace=found.trace(k),
        p99_jct=float(found.p99_jct[k]),
        batch_fill=float(found.batch_fill[k]),
        expired=int(found.expired[k]),
        devices=_devices(found, k),
    )


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
