"""The verb that measures workers: calibrate."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as opt
from weft.cli import output
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.execute.calibrate import Calibration


def calibrate(
    on: Annotated[
        str,
        typer.Option("--on", metavar="ENGINE", help="local, dask, dask://HOST:PORT, ray or ray://HOST:PORT."),
    ] = "local",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write a cluster file here (TOML).")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, help="Workers to start where none are there."),
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="When to stop measuring: 10s, 1m.")
    ] = "10s",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Measure the workers of an engine, and write them as a cluster."""
    from weft.execute.calibrate import calibrate as measure
    from weft.execute.probes import open_probe

    seconds = opt.parse_duration(budget) or 0.0
    output.check_folder(out)
    if out is not None and out.exists() and not force:
        raise InputError("the file is there already: --force replaces it", file=str(out))
    if not seconds > 0:
        raise InputError(f"expected a time > 0, got {budget!r}", field="--budget")
    with output.progress(f"measuring {on}"):
        probe = open_probe(on, workers)
        try:
            found = measure(probe, seconds=seconds)
        finally:
            probe.close()
    if out is not None:
        found.write(out)
    if as_json:
        fields = {"on": on, "out": None if out is None else str(out), **found.to_dict()}
        output.emit(output.document("calibrate", None, fields))
        return
    _show(found, on)
    if out is not None:
        output.say(f"wrote {out}")
    file = shlex.quote(str(out)) if out is not None else "FILE"
    if out is None:
        output.next_command(f"weft calibrate --on {shlex.quote(on)} --out cluster.toml")
    else:
        output.next_command(f"weft run FILE --on {shlex.quote(on)} --cluster {file}")


def _show(found: Calibration, on: str) -> None:
    cluster = found.cluster
    output.say(
        f"{output.safe(on)}: {output.count(cluster.num_devices, 'worker')}, measured in {output.duration(found.took)}"
    )
    table = output.table(
        ["device", "worker", "host", "slots", "speed", "gap", "first task"],
        ["slots", "speed", "gap", "first task"],
    )
    for (device, worker), one in zip(found.workers.items(), found.figures, strict=True):
        is_own = "" if one.is_measured else " *"
        table.add_row(
            output.safe(device),
            output.safe(worker),
            output.safe(one.worker.host),
            str(one.worker.slots),
            f"{output.number(one.speed, 3)}{is_own}",
            output.duration(one.gap),
            output.duration(one.first_task),
        )
    output.say("")
    output.show(table, spare=["first task", "host"])
    if not all(one.is_measured for one in found.figures):
        output.say("  * not measured itself: taken from a worker like it")
    _show_links(found)


def _show_links(found: Calibration) -> None:
    for is_within, words in ((True, "within a host"), (False, "between hosts")):
        pairs = [one for one in found.links if one.is_within == is_within]
        if pairs:
            latency = sorted(one.latency for one in pairs)[len(pairs) // 2]
            bandwidth = sorted(one.bandwidth for one in pairs)[len(pairs) // 2]
            rate = "infinite" if bandwidth == float("inf") else f"{output.size(bandwidth)}/s"
            output.say(
                f"links {words}: {rate}, latency {output.duration(latency)} ({output.count(len(pairs), 'pair')})"
            )
