"""Synchronous learners, one of which is several times as slow: steps per second with and without a backup.

Both wait for the same number of gradients per step; with a backup there is one learner more. The return is the mean reward
over the last third of the updates, at equal samples.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks._distributed.setups import learner_of, maker_of, recipe_of


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--recipe", default="workflows-dqn-quick")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--engine", default="processes")
    parser.add_argument("--learners", type=int, default=3)
    parser.add_argument("--slowest", type=float, default=5.0)
    parser.add_argument("--samples", type=int, default=30_000)
    parser.add_argument("--ratio", type=float, default=8.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])


def run(options: argparse.Namespace) -> int:
    """Measure and print a table with the ratio."""
    recipe = recipe_of(options.recipe, options.changes, samples=options.samples, replay_ratio=options.ratio)
    maker = maker_of(recipe)
    print(
        f"{recipe.name}, engine {options.engine}: {options.learners} gradients per step, the last learner {options.slowest:g}x as slow"
    )
    print(
        f"{'backups':>8}{'steps':>8}{'steps/s':>10}{'dropped':>9}{'mean reward':>14}   (over seeds {options.seeds})"
    )
    rates = []
    for backups in (0, 1):
        found = np.array([_measured(recipe, maker, options, backups, seed) for seed in options.seeds])
        steps, rate, dropped, reward = found.mean(axis=0)
        spread = found[:, 3].std(ddof=1) if len(found) > 1 else 0.0
        rates.append(rate)
        print(
            f"{backups:>8}{steps:>8.0f}{rate:>10.1f}{dropped:>9.0f}{reward:>14.5f} +- {spread:.5f}",
            flush=True,
        )
    print(f"steps per second with a backup / without: {rates[1] / rates[0]:.2f}")
    return 0


def _measured(recipe, maker, options, backups, seed):  # type: ignore[no-untyped-def]
    """Steps, steps per second while learning, dropped gradients, and the mean reward at the end."""
    named = {"engine": options.engine, "mode": "sync", "learners": options.learners, "backups": backups}
    learner = learner_of(recipe, maker, seed, slowest=options.slowest, shards=2, **named)
    try:
        rewards: list[float] = []
        while not learner.learned:
            rewards.append(float(learner.step()["mean_reward"] or 0.0))
        started, steps = time.perf_counter(), learner.learned
        while learner.update < learner.num_updates:
            rewards.append(float(learner.step()["mean_reward"] or 0.0))
        wall = time.perf_counter() - started
        last = rewards[-max(1, len(rewards) // 3) :]
        return learner.learned, (learner.learned - steps) / wall, learner.dropped, float(np.mean(last))
    finally:
        learner.close()
