"""Logical steps per second of the elastic kernel with observations, on one core, in CPU time.

A step is a decision of every cluster in one environment, with conflicts, progress, arrivals and the observation.
Exits with 1 if 256 environments of three clusters make fewer than 50,000 a second.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from weft.model.elastic import ElasticProblem, insensitive, saturating
from weft.sim.elastic.environment import ElasticBatch

WANTED = 50_000.0


def main(arguments: list[str]) -> int:
    """Measure and print a table; 1 if the target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks elastic", description=__doc__)
    parser.add_argument("--batch", type=int, default=256, help="environments")
    parser.add_argument("--clusters", type=int, nargs="+", default=[3, 6, 12])
    parser.add_argument("--steps", type=int, default=200_000, help="steps per repetition")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args(arguments)
    print(f"{'clusters':>8} {'stepping':>9} {'steps/s':>12}")
    rates = {}
    for count in options.clusters:
        for stepping in ("single", "multi"):
            rates[count, stepping] = _rate(count, stepping, options.batch, options.steps, options.repetitions)
            print(f"{count:>8} {stepping:>9} {rates[count, stepping]:>12,.0f}")
    is_reached = min(rate for (count, _), rate in rates.items() if count <= 3) >= WANTED
    print(f"target (>= {WANTED:,.0f} with 3 clusters): {'reached' if is_reached else 'missed'}")
    return 0 if is_reached else 1


def _problem(num_clusters: int, stepping: str) -> ElasticProblem:
    noise = 0.1 if stepping == "single" else 0.0
    types = (
        insensitive("img", (2, 1), (16, 16), 0.25, noise),
        saturating("lm", (2, 1), (16, 16), 1, 16.0, noise),
    )
    rate = num_clusters * (2 / 3 if stepping == "single" else 1.0)
    capacity = np.full((num_clusters, 2), 16)
    return ElasticProblem(capacity, types, 64 * num_clusters, rate, stepping=stepping, conflicts="softmax")


def _rate(num_clusters: int, stepping: str, batch: int, steps: int, repetitions: int) -> float:
    """Median rate; the time of drawing what agents do is taken off."""
    env, rng = ElasticBatch(_problem(num_clusters, stepping), batch, seed=1), np.random.default_rng(1)
    num_steps = max(1, steps // batch)
    _loop(env, rng, num_steps)
    return statistics.median(batch * num_steps / _loop(env, rng, num_steps) for _ in range(repetitions))


def _loop(env: ElasticBatch, rng: np.random.Generator, num_steps: int) -> float:
    """CPU seconds of so many steps, each with a random slot, the least CPUs and random GPUs."""
    total, (num_envs, num_clusters) = 0, (env.num_envs, env.num_clusters)
    for _ in range(num_steps):
        held = env.observe().slot >= 0
        slot = np.where(held.any(-1), (rng.random(held.shape) * held).argmax(-1), -1)
        units = np.stack([np.full(slot.shape, 2), rng.integers(1, 12, (num_envs, num_clusters))], -1)
        started = time.process_time_ns()
        env.act(slot, units)
        total += time.process_time_ns() - started
    return total / 1e9
