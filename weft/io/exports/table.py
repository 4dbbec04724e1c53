"""The formats that plans are exported to, one row each.

A format is a module with ``dump(placed, options)``, which returns the text of a file, and ``LIMITS``: what the other
system does not enforce, a sentence each.
"""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from typing import Protocol, cast

from weft.errors import InputError
from weft.io.exports.options import Options
from weft.io.exports.placed import Placed
from weft.io.sources import shown


class Writer(Protocol):
    """What the module of a format offers."""

    LIMITS: tuple[str, ...]

    def dump(self, placed: Placed, options: Options) -> str:
        """The text of the file."""


@dataclass(frozen=True)
class ExportFormat:
    """One format: its module, loaded on use, and what it can hold."""

    name: str
    module: str
    words: str
    """What is written."""
    options: tuple[str, ...] = ()
    """Settings of ``Options`` that it heeds."""
    holds_copies: bool = False
    """Whether a task may be there more than once."""

    @property
    def writer(self) -> Writer:
        """The module of the format."""
        return cast("Writer", importlib.import_module(self.module))


_HOME = "weft.io.exports"
EXPORTS = (
    ExportFormat("dask", f"{_HOME}.dask_annotations", "annotations per key, JSON"),
    ExportFormat("airflow", f"{_HOME}.airflow", "priority_weight, pool and queue per task, JSON"),
    ExportFormat(
        "nextflow", f"{_HOME}.nextflow", "a configuration of processes", ("by", "executor", "gpu_classes")
    ),
    ExportFormat("snakemake", f"{_HOME}.snakemake", "ranks for weft's scheduler plug-in, JSON"),
    ExportFormat(
        "kubernetes",
        f"{_HOME}.kubernetes",
        "a Job per task with its node affinity, YAML",
        ("nodes", "affinity", "image", "gpu_classes"),
    ),
    ExportFormat(
        "chrome-trace", f"{_HOME}.chrome_trace", "plan and actual for Perfetto, JSON", holds_copies=True
    ),
    ExportFormat("csv", f"{_HOME}.csv_rows", "a row per execution", holds_copies=True),
)
"""In the order in which they are listed; add a row to add a format."""


def find_export(name: str) -> ExportFormat:
    """The format of this name; the error lists them."""
    known = {one.name: one for one in EXPORTS}
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"expected one of {', '.join(known)}, got {shown(name)}{hint}", field="to")
    return known[name]


def dump(placed: Placed, to: str, options: Options | None = None) -> tuple[str, tuple[str, ...]]:
    """The text of the file, and what its reader should know: what was left out and what is not enforced."""
    form, asked = find_export(to), options or Options()
    for name in asked.given:
        if name not in form.options:
            users = ", ".join(one.name for one in EXPORTS if name in one.options)
            raise InputError(f"is of {users}: {form.name} has no use for it", field=name)
    _check_classes(placed, asked)
    notes = list(placed.notes)
    if placed.num_copies and not form.holds_copies:
        notes.append(
            f"{placed.num_copies} tasks are planned to run again elsewhere, which {form.name} cannot say: "
            "the first start counts (plan without copies)"
        )
    writer = form.writer
    return writer.dump(placed, asked), (*notes, *writer.LIMITS)


def _check_classes(placed: Placed, asked: Options) -> None:
    known = placed.class_slots
    for name in asked.gpu_classes:
        if name not in known:
            raise InputError(
                f"no class {shown(name)} in the cluster, there are {', '.join(map(repr, known))}",
                field="gpu_classes",
            )
