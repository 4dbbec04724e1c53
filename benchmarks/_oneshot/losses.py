"""Runs side by side: losses and ablations on fresh problems, training seeds of a recipe on the test sets.

Runs are named WHAT-SEED (``conflict-1``); those that differ in the seed alone are averaged. What a run
was trained on decides what it is measured on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks._oneshot import graphs, queries, shops, workflows
from benchmarks._oneshot.measure import Found, Wanted, Way
from benchmarks._oneshot.page import (
    Options,
    Part,
    Value,
    command,
    gap,
    known_gap,
    makespan,
    no_targets,
    number,
    speedup,
    table,
)
from benchmarks._oneshot.problems import LOSSES, Case
from weft.errors import InputError
from weft.evaluation.report.blocks import Section, Table, Text
from weft.policies.checkpoint import read_card
from weft.policies.oneshot.encoder_shape import EncoderShape

COUNTS = {"shops": 30, "mixes": 20}
"""Fresh problems of each kind on which losses are compared."""
KINDS = {"jobshop": "shops", "tpch": "mixes"}
"""What runs trained on a generator are compared on."""
LAST = "last"
SAMPLES = (1, 64)
SEED_SAMPLES = (1, 64, 256)


def runs_of(folder: str, which: str) -> list[Path]:
    """Every run below a folder that has such a policy."""
    if not Path(folder).is_dir():
        raise InputError("expected a folder of runs", file=folder)
    found = sorted(path.parent for path in Path(folder).rglob(f"{which}.json"))
    if not found:
        raise InputError(f"expected runs with {which}.json, found none", file=folder)
    return found


def trained_on(run: Path, which: str) -> tuple[str, ...]:
    """The generators a run drew its problems from."""
    recipe = read_card(run / f"{which}.json").training.get("recipe")
    sources = recipe.get("source") if isinstance(recipe, dict) else None
    if not isinstance(sources, list) or not all(isinstance(one, dict) for one in sources):
        raise InputError("expected the card of a one-shot run", file=str(run), field="training.recipe")
    return tuple(dict.fromkeys(str(one.get("generator")) for one in sources))


def num_types(run: Path) -> int:
    """Resources that the net of a run tells apart; 0: any number, by a relation."""
    shape = read_card(run / f"{LAST}.json").architecture
    return shape.num_types if isinstance(shape, EncoderShape) else 0


def _name(run: Path) -> str:
    return run.name.rpartition("-")[0] or run.name


def _label(folder: str, run: Path, samples: int) -> str:
    return f"{run.relative_to(folder)} S({samples})"


def _ways(folder: str, run: Path, which: str, counts: Sequence[int]) -> list[Way]:
    return [Way(_label(folder, run, count), "oneshot", count, f"{run}@{which}") for count in counts]


def summary(groups: dict[str, list[list[float]]], columns: Sequence[str], digits: int) -> Table:
    """Mean and standard error over the seeds; ``groups`` holds a row of means per seed."""
    rows = []
    for name, seeds in groups.items():
        cells = [number(value, digits) for value in np.mean(seeds, axis=0)]
        if len(seeds) > 1:
            errors = np.std(seeds, axis=0, ddof=1) / len(seeds) ** 0.5
            cells = [f"{cell} +- {number(error, digits)}" for cell, error in zip(cells, errors, strict=True)]
        rows.append((name, *cells, str(len(seeds))))
    return table(["run", *columns, "seeds"], rows)


# -- losses ---------------------------------------------------------------------------------------


def _loss_cases(kind: str, options: Options) -> list[Case]:
    return [Case(f"losses-{kind}", kind, str(k)) for k in range(options.few(COUNTS[kind], 2))]


def _loss_runs(options: Options) -> Iterator[tuple[str, Path]]:
    for run in runs_of(options.losses, LAST):
        for generator in trained_on(run, LAST):
            if generator in KINDS:
                yield KINDS[generator], run


def _losses_wanted(options: Options) -> list[Wanted]:
    if not options.losses:
        return []
    found = list(_loss_runs(options))
    return [
        (case, way)
        for kind in LOSSES
        for case in _loss_cases(kind, options)
        for of, run in found
        if of == kind
        for way in _ways(options.losses, run, LAST, SAMPLES)
    ]


def _losses_sections(options: Options, found: Found) -> list[Section]:
    title = "Losses and ablations"
    if not options.losses:
        return [Section(title, (Text(("Not measured: no folder of runs was given (--losses DIR).",)),))]
    blocks: list[Text | Table] = []
    for kind, words in (
        ("shops", "job shops of 15x15 and 20x10"),
        ("mixes", "look-alikes of mixes of 50 queries"),
    ):
        groups: dict[str, list[list[float]]] = {}
        for of, run in _loss_runs(options):
            if of == kind:
                cells = [found.cell(f"losses-{kind}", kind, _label(options.losses, run, n)) for n in SAMPLES]
                means = [float(np.mean([row.gap_percent for _, row in cell])) for cell in cells]
                groups.setdefault(_name(run), []).append(means)
        if groups:
            count = len(_loss_cases(kind, options))
            blocks += [
                Text(
                    (
                        f"Percentage above the lower bound on {count} {words}, mean and standard error over the training seeds:",
                    )
                ),
                summary(groups, ["greedy", "S(64)"], 2),
            ]
    return [Section(title, (command("losses", needs=" --losses DIR"), *blocks))]


# -- training seeds -------------------------------------------------------------------------------


def _seed_suites(run: Path, options: Options) -> list[tuple[str, list[Case], Value, int]]:
    """What the seeds of a recipe are measured on: title, problems, figure, digits."""
    generators = trained_on(run, LAST)
    found: list[tuple[str, list[Case], Value, int]] = []
    if "jobshop" in generators and num_types(run):
        machines = f"x{num_types(run)}"
        same = [case for case in shops.cases(shops.PAPER, options) if case.group.endswith(machines)]
        for group in dict.fromkeys(case.group for case in same):
            members = [case for case in same if case.group == group]
            found.append((f"the study's job shops {group}, mean makespan", members, makespan, 1))
    elif "jobshop" in generators:
        found.append(
            ("Taillard, gap to the best known, %", shops.cases(shops.TAILLARD, options), known_gap, 2)
        )
    if "tpch" in generators and options.data:
        mixes = [case for case in queries.cases(options) if case.group == "50"]
        found.append(("mixes of 50 queries, gap to the bound, %", mixes, gap, 2))
    if "opgraph" in generators:
        large = [case for case in graphs.cases(options) if case.group.endswith("/1000") or options.is_quick]
        found.append(("computation graphs of 1,000 tasks, speed-up", large, speedup, 3))
    if "workflow" in generators:
        cases = dict.fromkeys(case for case, _ in workflows.WORKFLOWS.wanted(options))
        found.append(("workflows, gap to the bound, %", list(cases), gap, 2))
    return found


def _seeds_wanted(options: Options) -> list[Wanted]:
    if not options.seeds:
        return []
    wanted = []
    for run in runs_of(options.seeds, LAST):
        for _, cases, _, _ in _seed_suites(run, options):
            ways = _ways(options.seeds, run, LAST, SEED_SAMPLES)
            wanted += [(case, way) for case in cases for way in ways]
    return wanted


def _seeds_sections(options: Options, found: Found) -> list[Section]:
    title = "Training seeds"
    if not options.seeds:
        return [Section(title, (Text(("Not measured: no folder of runs was given (--seeds DIR).",)),))]
    tables: dict[tuple[str, int], dict[str, list[list[float]]]] = {}
    for run in runs_of(options.seeds, LAST):
        for words, cases, value, digits in _seed_suites(run, options):
            means = [_mean_of(found, cases, _label(options.seeds, run, n), value) for n in SEED_SAMPLES]
            tables.setdefault((words, digits), {}).setdefault(_name(run), []).append(means)
    blocks: list[Text | Table] = []
    for (words, digits), groups in tables.items():
        blocks += [Text((f"{words}, mean and standard error over the training seeds:",))]
        blocks += [summary(groups, ["greedy", "S(64)", "S(256)"], digits)]
    return [Section(title, (command("seeds", needs=" --data DIR --seeds DIR"), *blocks))]


def _mean_of(found: Found, cases: Sequence[Case], label: str, value: Value) -> float:
    places = dict.fromkeys((case.suite, case.group) for case in cases)
    rows = [row for place in places for row in found.cell(*place, label)]
    return float(np.mean([value(*row) for row in rows]))


LOSS = Part(_losses_wanted, _losses_sections, no_targets)
SEEDS = Part(_seeds_wanted, _seeds_sections, no_targets)
