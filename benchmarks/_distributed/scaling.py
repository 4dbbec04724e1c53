"""Samples per second with more and more actors at a fixed replay ratio, measured, and by a queueing model.

The model is a closed queueing network solved by mean value analysis: an actor takes its seconds per block (as measured with
one actor), then the block waits for the driver, which takes its own busy seconds per block. It knows nothing of how many
cores there are, so that measured rates fall below it once cores are full.
"""

from __future__ import annotations

import argparse
import os
import time

from benchmarks._distributed.setups import learner_of, maker_of, recipe_of


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--recipe", default="workflows-dqn-quick")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--engine", default="processes")
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument(
        "--ratio", type=float, default=0.125, help="replay ratio; low, so that learning keeps up"
    )
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=30.0, help="measured per row, after warm-up")
    parser.add_argument("--model-actors", type=int, nargs="*", default=[8, 16, 32, 64])


def run(options: argparse.Namespace) -> int:
    """Measure and print a table."""
    recipe = recipe_of(
        options.recipe, options.changes, samples=10**9, replay_ratio=options.ratio, decay="constant"
    )
    maker = maker_of(recipe)
    print(
        f"{recipe.name}, engine {options.engine}, {recipe.config.num_envs} environments per actor, blocks of"
    )
    print(
        f"{options.block} moments, replay ratio {options.ratio:g}, {os.cpu_count()} cores, {options.seconds:g} s per row"
    )
    print(f"{'actors':>6}{'samples/s':>12}{'efficiency':>12}{'model':>12}{'versions behind':>17}{'ratio':>8}")
    first, per_block = 0.0, (1.0, 0.0)
    for count in options.actors:
        rate, costs, lag, ratio = _measured(recipe, maker, options, count)
        if not first:
            first, per_block = rate / count, costs
        model = _model(count, *per_block) * options.block * recipe.config.num_envs
        efficiency = rate / count / first
        print(
            f"{count:>6}{rate:>12,.0f}{efficiency:>12.2f}{model:>12,.0f}{lag:>17.1f}{ratio:>8.3f}", flush=True
        )
    for count in options.model_actors:
        model = _model(count, *per_block) * options.block * recipe.config.num_envs
        print(f"{count:>6}{'':>12}{'':>12}{model:>12,.0f}   (model alone)")
    print(f"a block takes an actor {1e3 * per_block[0]:.1f} ms and the driver {1e3 * per_block[1]:.2f} ms")
    return 0


def _measured(recipe, maker, options, count):  # type: ignore[no-untyped-def]
    """Samples per second, seconds of actor and driver per block, versions behind, and the replay ratio."""
    learner = learner_of(recipe, maker, engine=options.engine, actors=count, block=options.block)
    try:
        while learner.collected <= recipe.config.warmup or not learner.learned:
            learner.step()
        seconds_before = learner.collecting.actor_seconds
        blocks, collected, drawn = learner.collecting.num_blocks, learner.collected, learner.drawn
        lags: list[float] = []
        started, busy = time.perf_counter(), time.process_time()
        while time.perf_counter() - started < options.seconds:
            lags.append(float(learner.step()["staleness"] or 0.0))
        wall, busy = time.perf_counter() - started, time.process_time() - busy
        num = learner.collecting.num_blocks - blocks
        actor = (learner.collecting.actor_seconds - seconds_before) / num
        made = learner.collected - collected
        return made / wall, (actor, busy / num), sum(lags) / len(lags), (learner.drawn - drawn) / made
    finally:
        learner.close()


def _model(actors: int, think: float, serve: float) -> float:
    """Blocks per second of so many actors and one driver, by mean value analysis."""
    waiting, rate = 0.0, 0.0
    for count in range(1, actors + 1):
        response = serve * (1.0 + waiting)
        rate = count / (think + response)
        waiting = rate * response
    return rate
