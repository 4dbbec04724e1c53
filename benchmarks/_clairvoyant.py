"""How much room streams leave: what the rule reaches when its weights are tuned on the very stream, with hindsight.

Nothing here is a policy. The search plays a stream again and again with the run times that happen, so what it finds
shows room, not skill; and it is not the optimum, only the best that the weights of the rule were found to reach. The
second row lets the rule see the run times that will happen in place of those expected, the third does both.

Needs NumPy and numba alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _workflow_tables as tables
from weft import catalog
from weft.evaluation.sweep.checking import digest
from weft.evaluation.sweep.plan_runs import realised_problem
from weft.evaluation.sweep.task_runs import least_mean_time
from weft.model.graph import Floats
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.sim.tasks.layout import schedule_of
from weft.sim.tasks.weights import PRICED
from weft.training.es.cma import CMAES
from weft.training.es.config import TIME, ESConfig
from weft.training.es.learner import FAILED, Episode, made_ready, measured

TIMES_ALONE = (1.0, 0.0, 0.0)
"""The objective: mean job time."""
SIGMA = 0.2
"""Standard deviation of the weights at the start, as in the recipe of ``es``."""
FREE = np.array(ESConfig().tuned)
"""The weights that are tuned."""


def clairvoyant(options: argparse.Namespace) -> None:
    """Mean job time of the rule with hindsight, against ``es`` and ``priced``, per load."""
    effort = f"{options.generations} {options.population}"
    keys = [f"{load:g} {seed} {effort}" for load in tables.LOADS for seed in range(options.seeds)]
    of_stream(f"{tables.LOADS[0]:g} 0 0 4", jobs=2)  # compiles once, before there are processes
    rows = tables.kept_rows(rows_file(options.out), keys, of_stream, options.workers)
    print(
        f"streams of 100 workflows, {options.seeds} per load, {options.generations} generations of {options.population} vectors "
        "on each: mean job time in %"
    )
    found: dict[str, list[str]] = {}
    for load in tables.LOADS:
        own = [rows[f"{load:g} {seed} {effort}"] for seed in range(options.seeds)]
        for name, cell in cells_of(own):
            found.setdefault(name, []).append(cell)
    tables.table("", [f"load {load:g}" for load in tables.LOADS], list(found.items()))


def rows_file(out: str | None) -> Path | None:
    """Where rows are kept: the file that was named, or one of the folder."""
    if out is None:
        return None
    return Path(out) if Path(out).suffix else Path(out, "clairvoyant.jsonl")


ROWS = {
    "es": "`es`",
    "tuned": "tuned on the stream, run times unknown while it decides",
    "seen": "`es` that sees the run times",
    "tuned_seen": "tuned on the stream and sees the run times",
}
"""Figures of a row -> what they are."""


def cells_of(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Cells of one load, by their names."""
    times = {name: np.array([row[name] for row in rows]) for name in ("priced", "bound", *ROWS)}
    found = [
        (f"{words}, against `{base}`", tables.percent(times[name], times[base]))
        for base in ("priced", "es")
        for name, words in ROWS.items()
        if name != base
    ]
    over = ((name, (times[name] / times["bound"]).mean()) for name in ("priced", *ROWS))
    return found + [
        (f"{ROWS.get(name, '`priced`')}, over the bound, ratio", f"{ratio:.2f}") for name, ratio in over
    ]


def of_stream(key: str, jobs: int = 100) -> dict[str, Any]:
    """Mean job times on one stream: of the rules, and of weights found for it."""
    load, seed, generations, population = key.split()
    chosen = scenario("workflows", load=float(load), noise=0.2, jobs=jobs)
    problem, es = chosen.dispatched("test", 0, int(seed)), np.array(catalog.task_dispatcher("es").weights)
    number = digest("jobs", chosen.recipe.seed, chosen.problem_name("test", 0), int(seed))
    episode = made_ready(problem, number, es, TIMES_ALONE)
    told = made_ready(realised_problem(problem, episode.happens), 0, es, TIMES_ALONE)
    search = partial(
        best_found, begin=es, generations=int(generations), population=int(population), seed=int(seed)
    )
    return {
        "key": key,
        "bound": least_mean_time(problem, episode.happens),
        "priced": checked(episode, np.array(PRICED)),
        "es": checked(episode, es),
        "seen": checked(told, es),
        "tuned": checked(episode, search(episode)),
        "tuned_seen": checked(told, search(told)),
    }


def checked(episode: Episode, weights: Floats) -> float:
    """Mean job time under weights, whose schedule the validator has checked."""
    found = float(measured(episode, weights, TIMES_ALONE)[TIME])
    broken = validate(schedule_of(episode.problem, episode.happens, episode.w, episode.s))
    if broken:
        raise AssertionError(f"weights {weights.tolist()}: {broken[0]}")
    return found


def best_found(episode: Episode, begin: Floats, generations: int, population: int, seed: int) -> Floats:
    """The weights with the least mean job time of all that a search from ``begin`` tried, its own included."""
    search = CMAES(begin[FREE], SIGMA, np.ones(int(FREE.sum())), population, seed)
    best, least = begin, episode.reference[TIME]
    for _ in range(generations):
        vectors = np.tile(begin, (population, 1))
        vectors[:, FREE] = search.ask()
        times = np.array([measured(episode, vector, TIMES_ALONE)[TIME] for vector in vectors])
        costs = np.log(times / episode.reference[TIME])
        search.tell(np.where(np.isfinite(costs), costs, FAILED))
        if np.nanmin(times) < least:
            best, least = vectors[np.nanargmin(times)], np.nanmin(times)
    return best
