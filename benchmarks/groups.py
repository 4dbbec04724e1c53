"""What groups of features are worth to a policy that points at candidates: it is trained without each in turn.

Every row is trained with the same seeds, ``--workers`` at a time, into ``--out``; runs that are there go on. The policy that validation found best is judged on further streams of the validation split, those on which it was not
chosen, against the first rule of the recipe's validation. Intervals are over training seeds and streams.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import weft
from benchmarks._workflow_tables import table
from weft import catalog
from weft.errors import InputError
from weft.evaluation.statistics.intervals import crossed_interval
from weft.model.graph import Floats
from weft.model.problem import Problem, realise
from weft.scenarios.settings import parse_assignments
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.candidates import CandidateSight
from weft.training.candidates.recipe import TaskRecipe
from weft.training.recipes import read_recipe

ALL = "all"
"""The row that sees everything."""
GROUPS = tuple(name for name in CandidateSight._fields if name.startswith("sees_"))


def main(arguments: list[str]) -> int:
    """Train, judge and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks groups", description=__doc__)
    parser.add_argument("--recipe", default="workflows-dqn-quick", help="of candidate-dqn or candidate-ppo")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="changes every row")
    parser.add_argument("--group", action="append", choices=GROUPS, help="default: each")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of every row")
    parser.add_argument("--streams", type=int, default=40, help="on which the policies are judged")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("runs/groups"), help="folder of the runs")
    parser.add_argument("--judge", action="store_true", help="play the runs that are there, train none")
    options = parser.parse_args(arguments)
    for name in ("seeds", "streams", "workers"):
        if getattr(options, name) < 1:
            raise InputError(f"expected a whole number >= 1, got {getattr(options, name)}", field=f"--{name}")
    settings, seeds = parse_assignments(options.set), range(1, options.seeds + 1)
    recipe, rows = chosen_recipe(options.recipe, settings), (ALL, *(options.group or GROUPS))
    for row in () if options.judge else rows:
        hidden = {} if row == ALL else {f"candidates.{row}": False}
        weft.train(
            options.recipe,
            options.out / row,
            settings={**settings, **hidden},
            seeds=seeds,
            workers=options.workers,
        )
    names = [[f"{options.out / row}/seed-{seed}@best" for seed in seeds] for row in rows]
    play = partial(played, problems=fresh(recipe, options.streams))
    rule = recipe.validation.rules[0]
    times = {row: np.array([play(name) for name in own]) for row, own in zip(rows, names, strict=True)}
    print(f"{options.recipe}, {options.seeds} seeds each, {options.streams} streams: mean job time in %")
    table("seen", [f"against `{rule}`", "against everything"], in_rows(times, play(rule)))
    return 0


def in_rows(times: Mapping[str, Floats], rule: Floats) -> list[tuple[str, list[str]]]:
    """Cells of every row: mean job times (num_seeds, num_streams) against a rule's (num_streams,), and all that is seen."""
    whole = times[ALL]
    return [
        (words(row), [against(own, rule[None]), "" if row == ALL else against(own, whole)])
        for row, own in times.items()
    ]


def against(own: Floats, other: Floats) -> str:
    """How far mean job times (num_seeds, num_streams) are above others in %, with the interval over both."""
    logs = np.log(own), np.log(other)
    if own.shape[1] < 2:
        return f"{100 * np.expm1(logs[0].mean() - logs[1].mean()):+.1f}"
    found = crossed_interval(*logs)
    mean, low, high = (100 * np.expm1(x) for x in (found.value, found.low, found.high))
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def words(row: str) -> str:
    """What a row sees."""
    return "everything" if row == ALL else f"without {row.removeprefix('sees_')}"


def fresh(recipe: TaskRecipe[Any], count: int) -> tuple[Problem, ...]:
    """Streams of the validation split beyond those on which the best policy was chosen."""
    first = recipe.validation.seeds * len(recipe.cells)
    return recipe.problems("validation", first + count)[first:]


def played(name: str, problems: Sequence[Problem]) -> Floats:
    """Mean job times (num_problems,) of a dispatcher."""
    dispatcher = catalog.task_dispatcher(name)
    return np.array([run_one(dispatcher, one, realise(one, k)).mean_jct for k, one in enumerate(problems)])


def chosen_recipe(name: str, settings: Mapping[str, object]) -> TaskRecipe[Any]:
    """The recipe of this name, if its policies point at candidates."""
    recipe = read_recipe(name, settings)
    if not isinstance(recipe, TaskRecipe) or not isinstance(recipe.sight, CandidateSight):
        raise InputError(f"expected a recipe of policies that point at tasks, got {name!r}", field="--recipe")
    return recipe
