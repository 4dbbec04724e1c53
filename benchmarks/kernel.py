"""Decisions per second of the queue kernel on one core, in CPU time.

A step is a decision with the events that follow, the observation and the mask, in every environment
of a batch. The reference is the public simulator of Debner, Krahn and Hirvisalo: 5,500 decisions a
second with observations and masks. Exits with 1 if the kernel is not 25 times as fast.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from weft import catalog
from weft.sim.queues.environment import START, QueueEnv
from weft.sim.queues.kernel import DECISIONS
from weft.sim.queues.rules import choose_all, run_episodes
from weft.training.recipes import read_recipe

REFERENCE = 5_500.0
WANTED = 25.0


def main(arguments: list[str]) -> int:
    """Measure and print a table; 1 if the target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks kernel", description=__doc__)
    parser.add_argument("--recipe", default="conditional-paper", help="whose stream and observation")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64, 1024], help="environments")
    parser.add_argument("--decisions", type=int, default=300_000, help="decisions per repetition")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args(arguments)
    print(f"{'environments':>12} {'decisions/s':>12} {'times reference':>16}")
    rates = []
    for batch in options.batch:
        rates.append(_rate(options.recipe, batch, options.decisions, options.repetitions))
        print(f"{batch:>12} {rates[-1]:>12,.0f} {rates[-1] / REFERENCE:>16.1f}")
    print(f"whole episodes under fifo, no observation: {_episode_rate(options.recipe):,.0f} decisions/s")
    is_reached = max(rates) >= WANTED * REFERENCE
    print(f"target (>= {WANTED:.0f} x {REFERENCE:,.0f}): {'reached' if is_reached else 'missed'}")
    return 0 if is_reached else 1


def _rate(recipe: str, batch: int, decisions: int, repetitions: int) -> float:
    """Median rate of steps, the time of the rule that chooses taken off."""
    env = QueueEnv(read_recipe(recipe).setup(), batch, 1)
    rule = catalog.dispatcher("fifo").rule(env.setup.problem, env.stream, np.arange(batch))
    actions = np.zeros((batch, env.num_heads), np.int64)
    num_steps = max(1, decisions // batch)
    _loop(env, rule, actions, num_steps // 10 + 1)
    return statistics.median(
        batch * num_steps / _loop(env, rule, actions, num_steps) for _ in range(repetitions)
    )


def _loop(env: QueueEnv, rule: object, actions: np.ndarray, num_steps: int) -> float:
    """CPU seconds of so many steps of all environments, the rule's choices not counted."""
    total = 0
    for _ in range(num_steps):
        choose_all(rule, env.stream, env.state, actions)
        started = time.process_time_ns()
        env.step(actions)
        total += time.process_time_ns() - started
    return total / 1e9


def _episode_rate(recipe: str) -> float:
    """Decisions per second of 16 episodes that run inside the kernel."""
    env = QueueEnv(read_recipe(recipe).setup(), 16, 1, staggered=False)
    rule = catalog.dispatcher("fifo").rule(env.setup.problem, env.stream, np.arange(16))
    run_episodes(rule, env.stream, env.state, START)
    started = time.process_time()
    run_episodes(rule, env.stream, env.state, START)
    return float(env.state.count[:, DECISIONS].sum() / (time.process_time() - started))
