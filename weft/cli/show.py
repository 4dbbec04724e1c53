"""The verb that describes a workflow before anything is planned: show."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as opt
from weft.cli import output

if TYPE_CHECKING:
    from weft.evaluation.questions.facts import Fact
    from weft.evaluation.questions.show import Shown


USUAL = "gpu-mix-8"
"""Machines to try where none are given."""


def show(
    file: opt.File,
    cluster: opt.Cluster = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the graph here (PNG or SVG).")
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", min=40, max=1000, help="Columns of the terminal view.")
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Describe a workflow, and which devices can run what."""
    from weft.evaluation.questions import facts
    from weft.evaluation.questions.show import show as describe

    output.check_folder(plot)
    opt.check_chart(plot, "--plot", "a picture of the graph")
    with output.progress(f"reading {file}"):
        found = describe(file, cluster, plot=plot)
    if as_json:
        output.emit(found.to_dict())
        return
    _show_facts(f"{found.name}: {facts.scale(found)}", facts.facts(found))
    _show_kinds(found)
    if found.fit is not None:
        devices = output.count(found.fit.devices, "device")
        _show_facts(f"\non {found.fit.cluster}: {devices}", facts.fit_facts(found.fit, found))
    output.say(output.safe_lines(f"\n{found.picture(width or shutil.get_terminal_size((100, 24)).columns)}"))
    if plot is not None:
        output.note(f"wrote {plot}")
    if found.fit is None and describe(file, USUAL).fits:
        output.next_command(f"weft schedule {opt.again(file, USUAL, None, True, 0)}")
    elif found.fits:
        output.next_command(f"weft schedule {opt.again(file, cluster, None, True, 0)}")
    elif found.fit is None:
        output.next_command(
            f"weft init, which writes cluster.toml to correct; then weft schedule {file} -c cluster.toml"
        )


def _show_facts(title: str, found: Iterable[Fact]) -> None:
    lines = [title, *(f"  {name:<14} {text}" for name, text in found)]
    output.say(output.safe_lines("\n".join(lines)))


def _show_kinds(found: Shown) -> None:
    from weft.evaluation.questions.facts import kind_table

    kinds = kind_table(found)
    headers = [output.safe(name) for name in kinds.headers]
    table = output.table(headers, headers[1:])
    for row in kinds.rows:
        table.add_row(*map(output.safe, row))
    output.say("")
    output.show(table, spare=[output.safe(name) for name in kinds.spare])
