"""Decisions per second of DQN on one thread: of the kernel with its features alone, and of the whole training loop.

The first row steps the environments with choices drawn at random, the time of drawing taken off. The others train a
recipe, warm-up left out, at each replay ratio: decisions that are drawn to learn from per decision that is collected.
Seconds are CPU time unless ``--wall`` is given. Nothing is judged.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from weft.sim.tasks.environment import TaskEnv
from weft.training.candidates.recipe import TaskRecipe
from weft.training.candidates.setup import scaled
from weft.training.dqn.config import DQNConfig
from weft.training.dqn.exploration import drawn_choices
from weft.training.dqn.learner import DQN
from weft.training.recipes import read_recipe


def main(arguments: list[str]) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks dqn", description=__doc__)
    parser.add_argument("--recipe", default="workflows-dqn-quick")
    parser.add_argument("--ratios", type=float, nargs="+", help="replay ratios; default: the recipe's")
    parser.add_argument("--decisions", type=int, default=20_000, help="per row, rounded up to whole updates")
    parser.add_argument("--device", default="cpu", help="of the net: cpu or cuda")
    parser.add_argument("--wall", action="store_true", help="count wall time, as --device cuda needs")
    options = parser.parse_args(arguments)
    clock = time.perf_counter if options.wall else time.process_time
    recipe: TaskRecipe[DQNConfig] = read_recipe(options.recipe)
    env = TaskEnv(scaled(recipe), recipe.config.num_envs, 1)
    seconds = "wall" if options.wall else "CPU"
    print(f"{recipe.name}, {env.num_envs} environments; decisions per {seconds} second")
    print(f"{'kernel and features, choices at random':<40} {_kernel(env, options.decisions, clock):>10,.0f}")
    for ratio in options.ratios or [recipe.config.replay_ratio]:
        changed: TaskRecipe[DQNConfig] = read_recipe(options.recipe, {"replay_ratio": ratio})
        rate, found = _loop(env, changed.config, options.decisions, options.device, clock)
        print(f"{f'training loop at a replay ratio of {found:.2f}':<40} {rate:>10,.0f}", flush=True)
    return 0


def _kernel(env: TaskEnv, decisions: int, clock: Callable[[], float]) -> float:
    """Rate of steps alone; the first ones are not counted."""
    rng, total, num_steps = np.random.default_rng(0), 0.0, -(-decisions // env.num_envs)
    for k in range(num_steps + 50):
        waits, level = rng.random((2, env.num_envs))
        chosen = np.ascontiguousarray(drawn_choices(env.mask[:, 0], waits < 0.1, level)[:, None])
        started = clock()
        env.step(chosen)
        total += clock() - started if k >= 50 else 0.0
    return num_steps * env.num_envs / total


def _loop(
    env: TaskEnv, config: DQNConfig, decisions: int, device: str, clock: Callable[[], float]
) -> tuple[float, float]:
    """Rate of whole updates after warm-up, and the replay ratio that was measured."""
    learner = DQN(env, config, seed=1, device=device)
    while learner.collected <= config.warmup:
        learner.step()
    learner.step()  # not counted: torch starts up
    collected, drawn, started = learner.collected, learner.drawn, clock()
    while learner.collected - collected < decisions:
        learner.step()
    seconds, num = clock() - started, learner.collected - collected
    return num / seconds, (learner.drawn - drawn) / num
