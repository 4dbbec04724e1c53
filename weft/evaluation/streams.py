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
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from weft import catalog
from weft.errors import InputError, UnsupportedError
from weft.evaluation.store import Measured, Row
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import BRANCH, Problem, keyed_uniform
from weft.scenarios import StreamCase, scenario
from weft.schedulers.dispatch import Dispatcher, act_all, begin_all, observe_all, refuse_stream
from weft.sim.env import START, Setup
from weft.sim.events import DECISIONS, EXPIRED, IDLES, State, Stream
from weft.sim.jit import announce
from weft.sim.observe import Sight, feature_names, num_features
from weft.sim.queue_rules import run_episodes
from weft.sim.streams import Rules, compile_stream, edge_probabilities, kind_names, new_state, num_branches

if TYPE_CHECKING:
    from weft.evaluation.benchmark import Unit

FIRST_ROOM = 1024
"""Room for so many jobs at once; four times as much whenever that is too little."""
_WEIGHTS = (".safetensors", ".json")

Floats32 = npt.NDArray[np.float32]


class Policy(Protocol):
    """Whatever decides for all environments at once, e.g. ``policies.forward.MlpPolicy``."""

    def decide_batch(
        self,
        observation: Floats32,  # (num_envs, num_features)
        mask: Bools,  # (num_envs, num_devices, num_kinds + 1)
        rng: np.random.Generator | None = None,
    ) -> Ints:  # (num_envs, num_devices)
        """A kind per device, num_kinds to idle; drawn if ``rng`` is given, else the best."""


@dataclass(frozen=True)
class Learned:
    """A policy from a file, with how it sees a stream."""

    policy: Policy
    name: str
    sight: Sight
    waits: bool
    features: tuple[str, ...]
    """Names of what it observes; empty where the card does not say."""
    shape: tuple[int, int, int]
    """Number of features, devices and choices."""


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


def setup_of(case: StreamCase, sight: Sight | None = None, *, waits: bool = False) -> Setup:
    """A scenario's stream as the simulator takes it."""
    rules = Rules(case.expiry, case.idle_block, case.forget, case.peeks, case.tracked)
    return Setup(case.problem, case.arrivals, rules, sight or Sight(), waits)


def workload_seed(recipe_seed: int, problem: str, seed: int) -> int:
    """Seed of what happens: another one for every problem, the same one for every scheduler."""
    text = f"workload\x1f{recipe_seed}\x1f{problem}\x1f{seed}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def chooser(name: str) -> Dispatcher | Learned:
    """The dispatcher of this name, or the policy that ships, of a weights file or of a run folder."""
    name = catalog.policy_file(name) or name
    is_file = Path(name).suffix in _WEIGHTS or name.endswith(("@best", "@last")) or Path(name).is_dir()
    return _learned(name) if is_file else catalog.dispatcher(name)


@cache
def _learned(name: str) -> Learned:
    from weft.policies.checkpoint import load_policy
    from weft.policies.forward import MlpPolicy

    weights, card = load_policy(name)
    shape = card.perceptron
    return Learned(
        MlpPolicy(weights, shape, card),
        name,
        _sight(card.training.get("sight", {}), name),
        bool(card.training.get("waits", False)),
        card.features,
        (shape.num_features, shape.num_heads, shape.num_choices),
    )


def _sight(stored: object, name: str) -> Sight:
    if not isinstance(stored, Mapping) or any(key not in Sight._fields for key in stored):
        raise InputError(f"expected the blocks of an observation, got {stored!r}", file=name, field="sight")
    return Sight(**stored)


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
    policy: Policy, setup: Setup, seeds: Sequence[int], *, sample_seed: int | None = None
) -> Outcome:
    """One episode per seed, the policy asked at every decision; those that are over stand still.

    Parameters
    ----------
    sample_seed
        Decisions are drawn with this seed; None: always the best one.
    """
    reason = refuse_stream(setup.problem)
    if reason is not None:
        raise UnsupportedError(reason, field="scheduler")
    stream = compile_stream(setup.problem, setup.rules)
    num_devices, num_kinds = stream.can_run.shape
    width = num_features(setup.sight, num_kinds, num_devices, num_branches(stream))

    def play(state: State) -> None:
        rng = None if sample_seed is None else np.random.default_rng(sample_seed)
        observation = np.zeros((len(seeds), width), np.float32)
        mask = np.ones((len(seeds), num_devices, num_kinds + 1), np.bool_)
        done = np.zeros(len(seeds), np.bool_)
        begin_all(stream, state, START, done)
        while not done.all():
            observe_all(stream, setup.sight, state, done, observation, mask)
            actions = policy.decide_batch(observation, mask, rng)
            act_all(stream, state, np.ascontiguousarray(actions, np.int64), setup.waits, done)

    return _played(setup, stream, np.array(seeds, np.int64), play)


def _played(setup: Setup, stream: Stream, seeds: Ints, play: Callable[[State], None]) -> Outcome:
    """Play from fresh states with more and more room until no buffer is too small."""
    announce()
    arrivals = np.stack([setup.arrivals.draw(seed) for seed in seeds.tolist()])
    room = FIRST_ROOM
    while True:
        state = new_state(
            stream, len(seeds), setup.arrivals.count, edge_probabilities(setup.problem), slots=room, room=room
        )
        state.seed[:] = seeds
        state.arrival[:] = arrivals
        play(state)
        if not state.overflow.any():
            return _outcome(setup, stream, state)
        room *= 4


def _outcome(setup: Setup, stream: Stream, state: State) -> Outcome:
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
    )


def least_job_times(setup: Setup, seed: int) -> Floats:
    """For every job the longest path of what it turns out to be, each task at its fastest: a bound."""
    graph, best = setup.problem.graph, setup.problem.best_run_times
    num_jobs = setup.arrivals.count
    begins = np.where(np.diff(graph.predecessor_pointer) == 0, 0.0, -np.inf)[:, None] + np.zeros(num_jobs)
    taken = _taken(setup.problem, seed, num_jobs)
    for i in graph.order.tolist():
        for e in range(int(graph.successor_pointer[i]), int(graph.successor_pointer[i + 1])):
            after = np.where(taken[e], begins[i] + best[i], -np.inf)
            np.maximum(begins[graph.targets[e]], after, out=begins[graph.targets[e]])
    return np.minimum((begins + best[:, None]).max(axis=0), setup.rules.expiry)


def _taken(problem: Problem, seed: int, num_jobs: int) -> Bools:
    """(num_edges, num_jobs) whether each edge is taken if its task runs; the same draws as the kernel's."""
    graph = problem.graph
    taken = np.ones((graph.num_edges, num_jobs), np.bool_)
    is_branch = graph.branch >= 0
    for source, group in dict.fromkeys(
        zip(graph.sources[is_branch].tolist(), graph.branch[is_branch].tolist(), strict=True)
    ):
        edges = np.flatnonzero((graph.sources == source) & (graph.branch == group))
        draw = keyed_uniform(seed, BRANCH, np.arange(num_jobs), source, group, 0)
        upto = np.cumsum(graph.probability[edges])
        place = np.minimum(np.searchsorted(upto, draw, side="right"), len(edges) - 1)
        taken[edges] = place == np.arange(len(edges))[:, None]
    return taken


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


def play(scheduler: str, case: StreamCase, seeds: Sequence[int]) -> Outcome:
    """The streams of these workload seeds under a dispatcher or a policy."""
    chosen = chooser(scheduler)
    if isinstance(chosen, Dispatcher):
        return run_rule(chosen, setup_of(case), seeds)
    setup = setup_of(case, chosen.sight, waits=chosen.waits)
    _refuse_misfit(chosen, setup)
    return run_policy(chosen.policy, setup, seeds)


def _refuse_misfit(chosen: Learned, setup: Setup) -> None:
    """A policy acts only on what it was trained for: the same observation and the same choices."""
    stream = compile_stream(setup.problem, setup.rules)
    num_devices, num_kinds = stream.can_run.shape
    names = feature_names(setup.sight, list(kind_names(setup.problem)), num_devices, num_branches(stream))
    here = (len(names), num_devices, num_kinds + 1)
    if chosen.shape != here:
        raise InputError(
            f"trained for another graph or cluster: expected {here[0]} features, {here[1]} devices and "
            f"{here[2]} choices, got {', '.join(str(n) for n in chosen.shape)}",
            file=chosen.name,
            field="architecture",
        )
    for mine, theirs in zip(names, chosen.features, strict=False):
        if mine != theirs:
            raise InputError(
                f"trained on another observation: expected {mine!r}, got {theirs!r}",
                file=chosen.name,
                field="features",
            )


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
