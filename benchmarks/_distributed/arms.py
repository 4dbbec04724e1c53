"""Curricula and ways to explore on the cells of a recipe: learning curves, worst decile, forgetting, held-out cells.

A policy is judged on every cell (held-out ones too) every few updates, always greedily, on the validation split: percent above
the rule that is best on average, or whatever the recipe's judge counts as times. Curves are means over seeds, at equal samples and,
by the clock, at equal time. Forgetting is the mean over cells of the last figure less the least there ever was. With a recipe of PPO
there is nothing to explore with: ``--explorations`` is not read.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks._distributed.setups import recipe_of
from weft.model.fluid import fluid_load, fluid_misses
from weft.policies.candidates.architecture import Q
from weft.sim.tasks.pipeline_features import PipelineSight
from weft.training.candidates.judges import TaskJudge, judge_of
from weft.training.candidates.pipeline_judge import PipelineJudge
from weft.training.candidates.recipe import TaskRecipe
from weft.training.candidates.setup import candidate_card, env_from
from weft.training.distributed.apex import Apex
from weft.training.distributed.config import Distributed
from weft.training.distributed.curriculum import EXPLORATIONS, LADDER, Curriculum
from weft.training.distributed.points import held_out
from weft.training.distributed.rollouts import SpreadPPO
from weft.training.distributed.run import TaskEnvMaker, grid_of, maker_of, scheduler_of, transport_of
from weft.training.distributed.scheduler import Grid
from weft.training.dqn.config import DQNConfig
from weft.training.ppo.config import PPOConfig

ORDERS = ["lexicographic", "uniform", "gray", "easy", "regret"]


@dataclass(frozen=True)
class Arm:
    """One line of the table."""

    order: str
    exploration: str
    """Empty: by drawing choices, as PPO does."""
    is_split: bool
    actors: int

    def __str__(self) -> str:
        sharing = "split" if self.is_split else "whole"
        return f"{self.order}/{self.exploration or 'drawn'}/{sharing}/W{self.actors}"


@dataclass(frozen=True)
class Curve:
    """What one run of an arm gave."""

    arm: Arm
    seed: int
    samples: list[int]
    seconds: list[float]
    percent: list[list[float]]  # by judgement, by cell


@dataclass(frozen=True)
class Ground:
    """What all arms are trained and judged on."""

    recipe: TaskRecipe[DQNConfig | PPOConfig]
    maker: TaskEnvMaker
    grid: Grid
    judge: TaskJudge | PipelineJudge


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--recipe", default="workflows-dqn-quick")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--engine", default="local")
    parser.add_argument("--orders", nargs="+", default=ORDERS)
    parser.add_argument("--explorations", nargs="+", default=[LADDER], help=", ".join(EXPLORATIONS))
    parser.add_argument("--split", choices=["whole", "split", "each"], default="whole")
    parser.add_argument("--actors", type=int, nargs="+", default=[1])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--judged", type=int, default=6, help="judgements per run")
    parser.add_argument("--held-out", type=float, default=0.3)
    parser.add_argument("--episodes", type=int, default=8, help="S")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument(
        "--figure", type=Path, help="draw the curves, at equal samples and at equal time, into this file"
    )
    parser.add_argument(
        "--out", type=Path, help="keep the curves as JSON lines; those that are there are not trained again"
    )


def run(options: argparse.Namespace) -> int:
    """Train all arms with all seeds and print a table."""
    splits = {"whole": [False], "split": [True], "each": [False, True]}[options.split]
    ground = _ground(options.recipe, tuple(options.changes))
    recipe = ground.recipe
    explorations = [""] if isinstance(recipe.config, PPOConfig) else options.explorations
    arms = [
        Arm(order, how, is_split, actors)
        for actors in options.actors
        for order in options.orders
        for how in explorations
        for is_split in splits
    ]
    kept = {(str(one.arm), one.seed): one for one in _kept(options.out, arms)}
    todo = [(options, arm, seed) for arm in arms for seed in options.seeds if (str(arm), seed) not in kept]
    for curve in _all_trained(todo, options.jobs):
        kept[str(curve.arm), curve.seed] = curve
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(json.dumps({**vars(curve), "arm": str(curve.arm)}) + "\n")
    curves = [kept[str(arm), seed] for arm in arms for seed in options.seeds]
    _show(arms, curves, options)
    if isinstance(recipe.sight, PipelineSight):
        _show_yardsticks(ground, options.held_out)
    if options.figure is not None:
        draw(arms, curves, options.figure)
    return 0


def _all_trained(todo: list[tuple[argparse.Namespace, Arm, int]], jobs: int) -> Iterator[Curve]:
    """Curves as they end, so that what is kept of a run that was interrupted is not trained again."""
    if jobs == 1:
        yield from (_trained(*one) for one in todo)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from (one.result() for one in as_completed([pool.submit(_trained, *one) for one in todo]))


def _kept(path: Path | None, arms: list[Arm]) -> list[Curve]:
    """Curves of these arms that a file has."""
    if path is None or not path.exists():
        return []
    named = {str(arm): arm for arm in arms}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Curve(**{**row, "arm": named[row["arm"]]}) for row in rows if row["arm"] in named]


def _trained(options: argparse.Namespace, arm: Arm, seed: int) -> Curve:
    how = {"exploration": arm.exploration} if arm.exploration else {}
    curriculum = Curriculum(
        order=arm.order, is_split=arm.is_split, episodes=options.episodes, held_out=options.held_out, **how
    )
    spread = replace(Distributed(), engine=options.engine, actors=arm.actors)
    ground = _ground(options.recipe, tuple(options.changes))
    recipe = replace(ground.recipe, distributed=spread, curriculum=curriculum)
    judge, learner = ground.judge, _learner(recipe, ground, seed)
    every = max(1, learner.num_updates // options.judged)
    samples, seconds, percent, spent, started = [], [], [], 0.0, time.perf_counter()
    try:
        while learner.update < learner.num_updates:
            learner.step()
            if learner.update % every and learner.update != learner.num_updates:
                continue
            before = time.perf_counter()
            samples.append(learner.samples)
            seconds.append(before - started - spent)
            percent.append(judge.percent_by_cell(judge.job_times(*learner.policy())).tolist())
            spent += time.perf_counter() - before
        return Curve(arm, seed, samples, seconds, percent)
    finally:
        learner.close()


@cache
def _ground(name: str, changes: tuple[str, ...]) -> Ground:
    """What the arms of a recipe have in common."""
    recipe = recipe_of(name, list(changes))
    maker = maker_of(recipe, is_leased=True)
    return Ground(recipe, maker, grid_of(recipe, maker), judge_of(recipe))


def _learner(recipe: TaskRecipe[DQNConfig | PPOConfig], ground: Ground, seed: int) -> Apex | SpreadPPO:
    """The learner of a recipe whose configurations are lent."""
    maker, spread, config = ground.maker, recipe.distributed, recipe.config
    given = {"seed": seed, "scheduler": scheduler_of(recipe, ground.grid, seed)}
    if isinstance(config, PPOConfig):
        env = env_from(maker.setup, config.num_envs, seed)
        card = candidate_card(recipe)
        return SpreadPPO(transport_of(spread, None), maker, env, config, spread, card=card, **given)
    card = candidate_card(recipe, Q)
    return Apex(transport_of(spread, None), maker, config, spread, card=card, **given)


def _show_yardsticks(ground: Ground, share: float) -> None:
    """What rules miss in the same validation, and what nobody can help missing."""
    judge, recipe = ground.judge, ground.recipe
    num_cells = len(recipe.cells)
    kept_back = held_out(num_cells, share)
    problems = [cell[0] for cell in recipe.by_cell("validation", [1] * num_cells)]
    rows = {name: judge.percent_by_cell(shares) for name, shares in judge.rules.items()}
    rows["no schedule below"] = np.array([100.0 * fluid_misses(one) for one in problems])
    loads = np.array([fluid_load(one) for one in problems])
    print(
        f"\n{'yardstick':<34}"
        + "".join(f"{name:>16}" for name in ("mean", "trained", "held out", "worst decile"))
    )
    for name, row in rows.items():
        worst = np.sort(row)[-max(1, num_cells // 10) :].mean()
        figures = (
            row.mean(),
            row[~kept_back].mean(),
            row[kept_back].mean() if kept_back.any() else np.nan,
            worst,
        )
        print(f"{name:<34}" + "".join(f"{figure:>16.2f}" for figure in figures))
    beyond = loads > 1.0
    told = f"{int(beyond.sum())} of {num_cells} cells, {int(beyond[kept_back].sum())} of {int(kept_back.sum())} held out"
    print(
        f"fluid load {loads.min():.3f} to {loads.max():.3f}; above 1, where some deadlines cannot be met: {told}"
    )


def _show(arms: list[Arm], curves: list[Curve], options: argparse.Namespace) -> None:
    num_cells = len(curves[0].percent[0])
    kept_back = held_out(num_cells, options.held_out)
    print(
        f"{num_cells} cells, {int(kept_back.sum())} held out; percent above the best rule, or of deadlines missed; seeds {options.seeds}"
    )
    own = {arm: [one for one in curves if one.arm == arm] for arm in arms}
    points = range(min(len(one.samples) for one in curves))
    print("\nmean over cells at equal samples (mean over seeds +- their deviation)")
    heads = "".join(f"{curves[0].samples[k]:>16,}" for k in points)
    print(f"{'arm':<34}{heads}")
    for arm in arms:
        table = np.array([[np.mean(one.percent[k]) for k in points] for one in own[arm]])
        print(f"{arm!s:<34}" + "".join(f"{_with_spread(column):>16}" for column in table.T))
    latest = min(one.seconds[-1] for one in curves)
    print(f"\nat the end (samples), and after {latest:.0f} s of training (time)")
    names = ("mean", "trained", "held out", "worst decile", "forgetting", "at that time", "seconds")
    print(f"{'arm':<34}" + "".join(f"{name:>16}" for name in names))
    for arm in arms:
        rows = np.array([_figures(one, kept_back, latest) for one in own[arm]])
        print(f"{arm!s:<34}" + "".join(f"{_with_spread(column):>16}" for column in rows.T))


def draw(arms: list[Arm], curves: list[Curve], path: Path) -> None:
    """Means over seeds by samples and by seconds of training, with the range between the least and the greatest seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for k, arm in enumerate(arms):
        own = [one for one in curves if one.arm == arm]
        last = min(one.seconds[-1] for one in own)
        seconds = np.linspace(max(one.seconds[0] for one in own), last, 50)
        means = [np.mean(one.percent, axis=1) for one in own]
        by_time = [np.interp(seconds, one.seconds, mean) for one, mean in zip(own, means, strict=True)]
        for axes, x, table in ((left, own[0].samples, means), (right, seconds, by_time)):
            axes.plot(x, np.mean(table, axis=0), f"C{k}", label=str(arm))
            axes.fill_between(
                x, np.min(table, axis=0), np.max(table, axis=0), color=f"C{k}", alpha=0.15, lw=0
            )
    top = 2.5 * max(float(np.mean(one.percent[-1])) for one in curves)
    left.set(xlabel="decisions", ylabel="percent in validation, all cells", ylim=(0, top))
    right.set(xlabel="seconds of training")
    left.legend(frameon=False)
    figure.savefig(path, dpi=110)
    print(f"drawn: {path}")


def _figures(curve: Curve, kept_back: np.ndarray, seconds: float) -> list[float]:
    table = np.array(curve.percent)  # (judgements, cells)
    last = table[-1]
    worst = np.sort(last)[-max(1, len(last) // 10) :]
    then = np.interp(seconds, curve.seconds, table.mean(axis=1))
    back = last[kept_back].mean() if kept_back.any() else np.nan
    forgot = (last - table.min(axis=0)).mean()
    return [last.mean(), last[~kept_back].mean(), back, worst.mean(), forgot, then, curve.seconds[-1]]


def _with_spread(column: np.ndarray) -> str:
    spread = column.std(ddof=1) if len(column) > 1 else 0.0
    return f"{column.mean():.2f}+-{spread:.2f}"
