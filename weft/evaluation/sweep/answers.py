"""Evaluations of a sweep that is run now, and of one that a folder holds, finished or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from weft.errors import InputError
from weft.evaluation.sweep.breaches import breaches_of
from weft.evaluation.sweep.config_form import in_order, read_config
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.pairing import pairs_of
from weft.evaluation.sweep.runner import Cluster, Progress, Sweep, run
from weft.evaluation.sweep.store import Config, Row, Store, open_sweep, read_sweep
from weft.scenarios.settings import did_you_mean


def evaluate(
    sweep: Sweep,
    *,
    baseline: str | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    cluster: Cluster | None = None,
    progress: Progress | None = None,
    members: Mapping[str, tuple[str, ...]] | None = None,
) -> Evaluation:
    """Run what is left of a sweep and sum up all of it; parameters are those of ``weft.evaluate``.

    ``members`` are folders of runs that differ in their training seed -> their names among the schedulers.
    """
    chosen = choose_baseline(baseline, sweep.cells[0].baseline, sweep.schedulers)
    with open_sweep(out, sweep.config) as store:
        store.keep_baseline(chosen)
        run(sweep, store, workers=workers, cluster=cluster, progress=progress)
        found = _of_rows(str(out or ""), sweep.config, _in_order(sweep, store.rows()), chosen)
        return replace(_with_notes(found, store), members=members or {}, sweep=sweep)


def read_evaluation(folder: str | Path, baseline: str | None = None) -> Evaluation:
    """What a sweep folder holds; by default with the baseline it was evaluated with."""
    with read_sweep(folder) as store:
        found = evaluation_of(str(folder), store.config, store.rows(), baseline)
        kept = store.baseline
        if baseline is None and kept is not None and kept in found.schedulers:
            found = replace(found, baseline=kept)
        return _with_notes(found, store)


def evaluation_of(
    source: str, config: Config, rows: Sequence[Row], baseline: str | None = None
) -> Evaluation:
    """What rows say of the configuration they answer; costs have to be comparable."""
    found = _of_rows(source, config, rows, baseline, is_sorted=True)
    found.check_costs(found.schedulers)
    return found


def _of_rows(
    source: str, config: Config, rows: Sequence[Row], baseline: str | None, is_sorted: bool = False
) -> Evaluation:
    asked = read_config(config, source)
    cells = in_order(asked.cells) if is_sorted else asked.cells
    pairs = pairs_of(rows, asked.schedulers, [cell.label for cell in cells], asked.has_seed_samples)
    present = tuple(cell for cell in cells if pairs.samples[cell.label])
    if not present:
        raise InputError("no problem has rows of every scheduler yet", file=source)
    metric = asked.metric
    if metric not in pairs.metrics:
        known = ", ".join(pairs.metrics)
        raise InputError(f"expected one of {known} of such rows, got {metric!r}", file=source, field="metric")
    return Evaluation(
        title=asked.name,
        source=source,
        metric=metric,
        baseline=choose_baseline(baseline, asked.baseline, asked.schedulers),
        schedulers=asked.schedulers,
        cells=present,
        rows=tuple(rows),
        pairs=pairs,
        breaches=breaches_of(rows),
        unit=asked.unit,
        kind=asked.kind,
        has_seed_samples=asked.has_seed_samples,
        learned=asked.learned,
        asked=asked,
    )


def choose_baseline(wanted: str | None, usual: str, schedulers: Sequence[str]) -> str:
    """The baseline asked for, else the usual one, else the first scheduler."""
    if wanted is None:
        return usual if usual in schedulers else schedulers[0]
    if wanted not in schedulers:
        hint = did_you_mean(wanted, schedulers)
        raise InputError(f"expected one of {', '.join(schedulers)}, got {wanted!r}{hint}", field="baseline")
    return wanted


def _with_notes(found: Evaluation, store: Store) -> Evaluation:
    """The same with what the store holds beside rows."""
    fallbacks: dict[str, int] = {}
    for (_, _, _, name), number in store.fallbacks().items():
        fallbacks[name] = fallbacks.get(name, 0) + number
    return replace(found, seconds=store.seconds(), rows_hash=store.rows_hash(), fallbacks=fallbacks)


def _in_order(sweep: Sweep, rows: Sequence[Row]) -> list[Row]:
    """By cell, problem, scheduler and seed, in the order asked for."""
    places = {
        (cell.label, cell.problem_name(sweep.split, index)): (i, index)
        for i, cell in enumerate(sweep.cells)
        for index in range(sweep.num_problems)
    }
    turns = {name: i for i, name in enumerate(sweep.schedulers)}
    return sorted(rows, key=lambda r: (places[r.cell, r.problem], turns[r.scheduler], r.seed))
