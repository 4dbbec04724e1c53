"""Evaluations from what ``weft compare --json`` and ``weft bench --json`` printed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.errors import InputError
from weft.evaluation.sweep.breaches import breaches_of
from weft.evaluation.sweep.config_form import Cell
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.pairing import pairs_of
from weft.evaluation.sweep.store import Row
from weft.io.json_files import parse_json
from weft.io.sources import read_bytes

Rows = dict[tuple[str, str], Mapping[str, object]]
"""Scheduler, instance -> row."""
BENCHMARK = "weft/benchmark/1"
SCHEMAS = ("weft/compare/1", "weft/bench/1", BENCHMARK)
_METRICS = ("makespan", "gap_percent", "lower_bound", "best_known")


def read_document(path: str | Path) -> Mapping[str, object]:
    """One JSON document of weft."""
    document = parse_json(read_bytes(path), path)
    if document.get("schema") not in SCHEMAS:
        raise InputError(
            f"expected the JSON of weft compare, weft bench or a benchmark, got schema {document.get('schema')!r}",
            file=str(path),
            field="schema",
        )
    return document


def benchmark_figures(source: str, document: Mapping[str, object]) -> dict[str, dict[str, float]]:
    """Name of a benchmark -> its figures."""
    figures = document.get("figures")
    if not isinstance(figures, dict) or not all(_is_number(value) for value in figures.values()):
        raise InputError("expected a table of numbers", file=source, field="figures")
    return {str(document.get("name")): {str(key): float(value) for key, value in figures.items()}}


def document_command(source: str, document: Mapping[str, object]) -> str:
    """The command line that prints such a document: its own, else one made from its rows."""
    own = document.get("command")
    if isinstance(own, str) and own.isprintable():
        return f"{own} > {shlex.quote(source)}"
    words = ["weft", "bench", str(document.get("bench")), "--scheduler", str(document.get("scheduler"))]
    if document["schema"] == SCHEMAS[0]:
        rows = _rows(source, document)
        files, names = ([str(row.get(key)) for row in rows] for key in ("file", "scheduler"))
        words = ["weft", "compare", *dict.fromkeys(files), "--schedulers", ",".join(dict.fromkeys(names))]
    words += ["--seed", str(document["seed"])] if document.get("seed") else []
    return f"{shlex.join([*words, '--json'])} > {shlex.quote(source)}"


def evaluations_of(documents: Sequence[tuple[str, Mapping[str, object]]]) -> list[Evaluation]:
    """One per comparison, and one for all bench documents over the same instances."""
    found: dict[str, Rows] = {}
    for source, document in documents:
        is_compare = document["schema"] == SCHEMAS[0]
        key = source if is_compare else str(document.get("bench", "bench"))
        for row in _rows(source, document):
            name = str(row.get("scheduler", document.get("scheduler")))
            instance = str(row.get("file" if is_compare else "instance"))
            found.setdefault(key, {})[name, instance] = row
    return [_evaluation(key, rows) for key, rows in found.items()]


def _rows(source: str, document: Mapping[str, object]) -> list[Mapping[str, object]]:
    rows = document.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or not rows:
        raise InputError("expected rows", file=source, field="rows")
    return rows


def _evaluation(source: str, given: Rows) -> Evaluation:
    metrics = [key for key in _METRICS if all(_is_number(row.get(key)) for row in given.values())]
    if "makespan" not in metrics:
        raise InputError("expected a makespan in every row", file=source, field="rows.makespan")
    schedulers = tuple(dict.fromkeys(name for name, _ in given))
    rows = tuple(_row(*place, row, metrics) for place, row in given.items())
    pairs = pairs_of(rows, schedulers, [""], has_seed_samples=False)
    if not pairs.rows:
        raise InputError("no instance has rows of every scheduler", file=source, field="rows")
    found = Evaluation(
        title=Path(source).stem,
        source=source,
        metric="makespan",
        baseline=schedulers[0],
        schedulers=schedulers,
        cells=(Cell("", {}),),
        rows=rows,
        pairs=pairs,
        breaches=breaches_of(rows),
        unit=_unit(list(given.values())),
    )
    found.check_costs(found.schedulers)
    return found


def _row(scheduler: str, instance: str, row: Mapping[str, object], metrics: Sequence[str]) -> Row:
    valid = row.get("valid")
    return Row(
        scenario="",
        cell="",
        problem=instance,
        seed=0,
        scheduler=scheduler,
        metrics={name: float(str(row[name])) for name in metrics},
        valid=None if valid is None else bool(valid),
        fault=None,
        trace="",
    )


def _unit(rows: Sequence[Mapping[str, object]]) -> str:
    """The time unit that all rows name; empty where they differ or do not say."""
    units = list(dict.fromkeys(row.get("time_unit") for row in rows))
    return units[0] if len(units) == 1 and isinstance(units[0], str) else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
