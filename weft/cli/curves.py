"""The verb that looks at training runs: how they learned."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options as opt
from weft.cli import output


def curves(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", show_default=False, help="Runs, or folders of runs by seed."),
    ],
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the curves, .png or .svg.")
    ] = None,
    specialist: Annotated[
        str | None,
        typer.Option("--specialist", metavar="RUN", help="A specialist's run: when are the others as good?"),
    ] = None,
    within: Annotated[
        float, typer.Option("--within", metavar="PERCENT", min=0, help="What counts as equal.")
    ] = 1.0,
    as_json: opt.Json = False,
) -> None:
    """Show when training overtook the rules, and where it ended."""
    from weft.evaluation.curves import catching, findings, read_curve

    opt.check_chart(plot, "--plot", "learning curves")
    found = [read_curve(run) for run in runs]
    said = [findings(curve) for curve in found]
    caught = []
    if specialist is not None:
        other = read_curve(specialist)
        caught = [catching(curve, other, within) for curve in found]
    if plot is not None:
        from weft.evaluation.figures.curves import draw_curves

        draw_curves(found, plot)
        output.note(f"the figure is in {plot}")
    if as_json:
        fields = {"curves": [asdict(one) for one in said], "caught": [asdict(one) for one in caught]}
        output.emit(output.document("curves", None, fields))
        return
    for line in (*said, *caught):
        output.say(str(line))
