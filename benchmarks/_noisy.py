"""Noisy single workflows: dispatchers against HEFT, beside plans made with the run times that will happen.

The clairvoyant rows show what is lost for want of foresight: the same planners, told each task's run time on each class
of device before it runs. No dispatcher can know these.
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
from weft.model.graph import Floats
from weft.model.problem import expected, realise
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import run_one

NOISE = 0.6
OWN = ("es", "plan:deft+again", "plan:deft", "plan:oneshot", "plan:heft")
BASES = {"heft-job": "the kept plan", "heft": "dispatched ranks"}
"""What others are compared with, and what it is called."""
TOLD = ("plan:heft", "plan:oneshot", "plan:search")
"""Plan with the run times that happen."""


def noise(options: argparse.Namespace) -> None:
    """Makespan against HEFT's plan kept and against its ranks dispatched, per CCR."""
    names = [*options.more, *OWN, *BASES]
    rows = tables.Rows(options, "noise", names, **tables.ONE, noise=NOISE, ccr=list(options.ccr))
    told = clairvoyant_rows(options)
    print(f"noise {NOISE:g}, {options.seeds} workflows per CCR: makespan in %")
    found = [
        (
            f"`{name}` against {words}",
            [
                tables.percent(rows.of("makespan", name, ccr=x), rows.of("makespan", base, ccr=x))
                for x in options.ccr
            ],
        )
        for name in names
        for base, words in BASES.items()
        if name not in BASES
    ]
    for name in TOLD:
        for base, words in BASES.items():
            cells = [tables.percent(told[x][name], rows.of("makespan", base, ccr=x)) for x in options.ccr]
            found.append((f"`{name}` that knows the run times, against {words}", cells))
    tables.table("", [f"CCR {x:g}" for x in options.ccr], found)


def clairvoyant_rows(options: argparse.Namespace) -> dict[float, dict[str, Floats]]:
    """CCR -> planner -> makespans (num_seeds,) of plans made with the run times that happen."""
    keys = {ccr: [f"{ccr:g} {seed}" for seed in range(options.seeds)] for ccr in options.ccr}
    path = Path(options.out, "noise-clairvoyant.jsonl") if options.out else None
    rows = tables.kept_rows(
        path, [key for own in keys.values() for key in own], partial(foreseen, names=TOLD), options.workers
    )
    return {
        ccr: {name: np.array([rows[key][name] for key in own]) for name in TOLD} for ccr, own in keys.items()
    }


def foreseen(key: str, names: Sequence[str]) -> dict[str, Any]:
    """Makespans of planners that know the run times of one workflow: those that happen in the sweep."""
    ccr, seed = key.split()
    chosen = scenario("workflows", **tables.ONE, noise=NOISE, ccr=float(ccr))
    problem = chosen.dispatched("test", 0, int(seed))
    number = digest("jobs", chosen.recipe.seed, chosen.problem_name("test", 0), int(seed))
    told, row = realised_problem(problem, realise(problem, number)), {"key": key}
    for name in names:
        found = run_one(catalog.task_dispatcher(name), told, expected(told), int(seed))
        if validate(found):
            raise AssertionError(f"{name} on {key}: {validate(found)[0]}")
        row[name] = found.makespan
    return row
