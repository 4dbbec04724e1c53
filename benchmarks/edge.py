"""Edge clusters: training runs that differ in their seed, as one allocator against every other one, from folders of ``weft evaluate --out``.

Prints Markdown: per cell the bound without contention, all figures, comparisons, and how many tasks of each type every cluster took. Means of
runs ``FOLDER/seed-N`` have 95 % intervals over training seeds and episodes, both of them random; those of rules over episodes; ± is half the
width of the same. ``--kept BASE`` prints how much of a group's advantage over ``--against`` in the folder BASE is left in the others, with a
bootstrap interval over training seeds (the same in both) and episodes. ``--reference`` needs no folders: it prints means of rules beside
those of an independent implementation, and how far apart they are in standard errors of both.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import numpy as np

from benchmarks import _edge_reference
from weft.errors import InputError
from weft.evaluation.statistics import compare_crossed
from weft.evaluation.sweep.answers import read_evaluation
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.summary import Summary, summary_of
from weft.model.graph import Floats

COLUMNS = {
    "median_completion": "median",
    "p95_completion": "95th percentile",
    "variance": "variance",
    "longest_wait": "longest wait",
    "peak_alive": "most alive",
    "cpu_use": "CPUs in use",
    "gpu_use": "GPUs in use",
}
_RUN = re.compile(r"(?:.*/)?(?P<group>[^/]+)/seed-[^/]+")
_DRAWS = 10_000


def main(arguments: list[str]) -> int:
    """Print tables of every folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks edge", description=__doc__)
    parser.add_argument("folders", nargs="*", metavar="SWEEP", help="folders of weft evaluate --out")
    parser.add_argument("--kept", metavar="BASE", help="the folder that runs were trained for")
    parser.add_argument("--against", default="optimus", help="whom the advantage is over, default optimus")
    parser.add_argument("--reference", action="store_true", help="rules beside an independent implementation")
    parser.add_argument("--seeds", type=int, default=100, help="episodes for --reference, default 100")
    options = parser.parse_args(arguments)
    if options.reference == bool(options.folders):
        parser.error("expected folders, or --reference")
    if options.seeds < 2:
        parser.error(f"--seeds: expected at least 2, got {options.seeds}")
    if options.reference:
        _edge_reference.show(options.seeds)
    for folder in options.folders:
        found = _read(folder)
        for cell in found.cells:
            print(f"\n### {found.title}{' ' if cell.label else ''}{cell.label}\n")
            if options.kept is None:
                _show(found, cell.label)
            else:
                _kept(_read(options.kept), found, cell.label, options.against)
    return 0


def _read(folder: str) -> Evaluation:
    """A folder with the runs of a group as one scheduler."""
    found = read_evaluation(folder)
    if found.breaches:
        raise InputError(f"expected rows that keep the rules, got {', '.join(found.breaches)}", file=folder)
    groups: dict[str, tuple[str, ...]] = {}
    for name in found.schedulers:
        if (match := _RUN.fullmatch(name)) is not None:
            groups[match["group"]] = (*groups.get(match["group"], ()), name)
    return found.grouped({name: runs for name, runs in groups.items() if len(runs) > 1})


def _show(found: Evaluation, cell: str) -> None:
    """All tables of one cell."""
    bounds = np.array([row["lower_bound"] for row in found.rows_of(cell, found.schedulers[0])])
    print(f"Without contention: {_spread(summary_of(cell, '', found.metric, bounds))}\n")
    _table(found, cell)
    _comparisons(found, cell)
    _types(found, cell)


def _spread(own: Summary) -> str:
    """A mean and half the width of its interval."""
    if own.low is None or own.high is None:
        return f"{own.mean:.2f}"
    return f"{own.mean:.2f} ± {(own.high - own.low) / 2:.2f}"


def _table(found: Evaluation, cell: str) -> None:
    """Figures of every scheduler, and the means of the runs it stands for."""
    kept = [metric for metric in COLUMNS if metric in found.metrics]
    print(
        "| allocator | mean completion time | " + " | ".join(COLUMNS[metric] for metric in kept) + " | runs |"
    )
    print("| --- " * (len(kept) + 3) + "|")
    for name in found.schedulers:
        own = found.sum_up(found.metric, cell, name)
        cells = [_spread(found.sum_up(metric, cell, name)) for metric in kept]
        runs = found.by_run(found.metric, cell, name).mean(axis=1) if name in found.runs else ()
        print(
            f"| `{name}` | {own.mean:.2f} ({own.low:.2f} to {own.high:.2f}) | "
            + " | ".join(cells)
            + f" | {', '.join(f'{one:.2f}' for one in runs)} |"
        )


def _comparisons(found: Evaluation, cell: str) -> None:
    """Every group against every other scheduler on the same episodes."""
    if not found.runs:
        return
    print("\n| against | " + " | ".join(f"`{name}`" for name in found.runs) + " |")
    print("| --- " * (len(found.runs) + 1) + "|")
    for other in found.schedulers:
        cells = [_percent(found, cell, name, other) if name != other else "" for name in found.runs]
        print(f"| `{other}` | {' | '.join(cells)} |")


def _percent(found: Evaluation, cell: str, name: str, other: str) -> str:
    """How far one scheduler is off another, by ratios on the same episodes."""
    one = compare_crossed(*(found.by_run(found.metric, cell, each) for each in (name, other)))
    return f"{one.percent:+.1f} % ({one.low_percent:+.1f} to {one.high_percent:+.1f})"


def _types(found: Evaluation, cell: str) -> None:
    """How many tasks of each type every cluster took, the mean over episodes."""
    names = [name for name in found.rows_of(cell, found.schedulers[0])[0].more if " on " in name]
    clusters = list(dict.fromkeys(name.split(" on ")[1] for name in names))
    kinds = list(dict.fromkeys(name.split(" on ")[0] for name in names))
    print(f"\n| {' + '.join(kinds)} taken by | {' | '.join(clusters)} |")
    print("| --- " * (len(clusters) + 1) + "|")
    for name in found.schedulers:
        rows = found.rows_of(cell, name)
        cells = [
            " + ".join(f"{np.mean([row[f'{kind} on {cluster}'] for row in rows]):.0f}" for kind in kinds)
            for cluster in clusters
        ]
        print(f"| `{name}` | {' | '.join(cells)} |")


def _kept(base: Evaluation, found: Evaluation, cell: str, against: str) -> None:
    """The share of a group's advantage that is left."""
    print(f"| allocator | below `{against}` | there | share kept |\n| --- | --- | --- | --- |")
    for name in (one for one in found.runs if one in base.runs):
        pairs = [
            tuple(one.by_run(one.metric, label, each) for each in (name, against))
            for one, label in ((base, base.cells[0].label), (found, cell))
        ]
        before, after = (_advantage(own, other) for own, other in pairs)
        low, high = np.percentile([after / before for before, after in _resampled(pairs)], [2.5, 97.5])
        share = f"{100 * after / before:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
        print(f"| `{name}` | {100 * before:.1f} % | {100 * after:.1f} % | {share} |")


def _advantage(own: Floats, other: Floats) -> float:
    """By how much the mean is lower, as a share."""
    return float(1.0 - own.mean() / other.mean())


def _resampled(pairs: list[tuple[Floats, ...]]) -> Iterator[tuple[float, ...]]:
    """Advantages in both places with training seeds and episodes drawn anew."""
    generator = np.random.default_rng(0)
    for _ in range(_DRAWS):
        runs = generator.integers(0, len(pairs[0][0]), len(pairs[0][0]))
        found = []
        for own, other in pairs:
            seeds = generator.integers(0, own.shape[1], own.shape[1])
            found.append(_advantage(own[runs][:, seeds], other[:, seeds]))
        yield tuple(found)
