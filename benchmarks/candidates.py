"""Decisions of the task view that point at candidates: steps per second, and the time of one decision.

A step is a decision with the events that follow, all features and the mask, in every environment of a batch;
choices are random. One decision is the list of candidates with their features, then the net, in a state
with many ready tasks. CPU time of one core each.

Two processes then step at the same time, each its own batch: what they do together in a second of CPU time each, which
other programs do not slow down, and in a second of the clock. Exits with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from threading import Barrier
from typing import NamedTuple

import numpy as np

from weft.model.generate import generate
from weft.model.problem import Job, Problem
from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.forward import CandidatePolicy
from weft.scenarios import scenario
from weft.scenarios.workflows import read_machines
from weft.sim.tasks.candidates import COLUMNS, WORLD, CandidateSight, list_candidates, new_listed
from weft.sim.tasks.environment import TaskEnv, TaskSetup

STEPS = 50_000.0
"""Decisions a second that two cores are to reach together."""
MOST_MS = 1.0
"""Milliseconds that one decision among many ready tasks may take, net included."""
CORES = 2


class Rate(NamedTuple):
    """Decisions a second."""

    cpu: float
    """Of processor time."""
    clock: float


def main(arguments: list[str]) -> int:
    """Measure and print; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks candidates", description=__doc__)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32, 256], help="environments")
    parser.add_argument("--steps", type=int, default=40_000, help="decisions per repetition")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--ready", type=int, nargs="+", default=[1, 10, 100, 1000], help="ready tasks")
    options = parser.parse_args(arguments)
    rates = [_rate(batch, options.steps, options.repetitions) for batch in options.batch]
    print(f"{'environments':>12} {'decisions/s of a core':>22}")
    for batch, rate in zip(options.batch, rates, strict=True):
        print(f"{batch:>12} {rate.cpu:>22,.0f}")
    fastest = options.batch[int(np.argmax([rate.cpu for rate in rates]))]
    both = _together(fastest, options.steps, options.repetitions)
    print(
        f"{CORES} processes at once, {fastest} environments each: {both.cpu:,.0f} decisions/s of {CORES} cores' CPU time, "
        f"{both.clock:,.0f} by the clock"
    )
    print(f"{'ready tasks':>12} {'listed':>7} {'features':>9} {'net':>9}   ms, 16 devices, 32 tasks listed")
    slowest = 0.0
    for ready in options.ready:
        listed, features, net = _decision(ready, options.repetitions)
        print(f"{ready:>12} {listed:>7} {features:>9.3f} {net:>9.3f}")
        slowest = max(slowest, features + net) if ready <= 100 else slowest
    is_fast = both.cpu >= STEPS and slowest <= MOST_MS
    print(
        f"targets (>= {STEPS:,.0f} decisions/s on {CORES} cores, <= {MOST_MS:g} ms with 100 ready tasks): "
        f"{'reached' if is_fast else 'missed'}"
    )
    return 0 if is_fast else 1


_at_once: Barrier | None = None
"""Where the processes of a measurement wait for one another."""


def _wait_for(barrier: Barrier) -> None:
    global _at_once
    _at_once = barrier


def _together(batch: int, steps: int, repetitions: int) -> Rate:
    """Steps a second of a process on every core at the same time, all together."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(CORES, context, _wait_for, (context.Barrier(CORES),)) as pool:
        own = list(pool.map(_rate, *zip(*[(batch, steps, repetitions)] * CORES, strict=True)))
    return Rate(sum(one.cpu for one in own), sum(one.clock for one in own))


def _rate(batch: int, steps: int, repetitions: int) -> Rate:
    """Median steps a second of one core, the drawing of choices not counted."""
    chosen = scenario("workflows", load=0.8, jobs=20, tasks=20)
    problems = tuple(chosen.dispatched("train", 0, seed) for seed in range(max(batch, 8)))
    env = TaskEnv(TaskSetup(problems, CandidateSight(tasks=16, pools=4)), batch)
    rng = np.random.default_rng(0)
    _steps(env, rng, 50)
    count = max(1, steps // batch)
    if _at_once is not None:
        _at_once.wait()
    seconds = [_steps(env, rng, count) for _ in range(repetitions)]
    return Rate(*(batch * count / statistics.median(own) for own in zip(*seconds, strict=True)))


def _steps(env: TaskEnv, rng: np.random.Generator, count: int) -> tuple[float, float]:
    """Seconds of CPU time and of the clock that so many steps take."""
    cpu = clock = 0
    for _ in range(count):
        actions = np.where(env.mask, rng.random(env.mask.shape), -1.0).argmax(axis=2)
        started, began = time.process_time_ns(), time.perf_counter_ns()
        env.step(actions)
        cpu += time.process_time_ns() - started
        clock += time.perf_counter_ns() - began
    return cpu / 1e9, clock / 1e9


def _decision(ready: int, repetitions: int) -> tuple[int, float, float]:
    """Candidates of a state with so many ready tasks on 16 devices, ms of their features and of the net."""
    graphs = [generate("out-tree", 8, seed=k) for k in range(ready)]  # one task of each is ready at first
    problem = Problem([Job(graph, f"job{k}") for k, graph in enumerate(graphs)], read_machines("gpu-mix-16"))
    sight = CandidateSight()
    env = TaskEnv(TaskSetup((problem,), sight), 1)
    if int(env.state.num_ready[0]) != ready:
        raise AssertionError(f"expected {ready} ready tasks, got {env.state.num_ready[0]}")
    found = new_listed(sight.num_choices)
    out = np.zeros(sight.num_features, np.float32)
    shape = CandidateArchitecture(len(WORLD), len(COLUMNS))
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(size).astype(np.float32) for name, size in shape.shapes().items()}
    policy = CandidatePolicy(weights, shape)

    def list_them() -> None:
        list_candidates(sight, env.known, env.tasks, env.facts, env.state, 0, found, out)

    list_them()
    return (
        int(found.count[0]),
        _ms(list_them, repetitions),
        _ms(lambda: policy.decide(out, env.mask[0, 0]), repetitions),
    )


def _ms(call: Callable[[], object], repetitions: int) -> float:
    """Median milliseconds of CPU time of a call."""
    found = []
    for _ in range(repetitions):
        started = time.process_time_ns()
        for _ in range(100):
            call()
        found.append((time.process_time_ns() - started) / 1e8)
    return statistics.median(found)
