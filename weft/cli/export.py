"""The verb that hands plans and runs to other systems: export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options as opt
from weft.cli import output

Source = Annotated[
    Path,
    typer.Argument(
        metavar="PLAN_OR_RUN", show_default=False, help="Schedule file, workflow to plan, or a run's folder."
    ),
]
Workflow = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", show_default=False, help="Workflow of the schedule; may stand first."),
]
To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="FORMAT",
        help="dask, airflow, nextflow, snakemake, kubernetes, chrome-trace or csv.",
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where to write it; default: stdout.")
]
Planner = Annotated[
    str | None, typer.Option("--scheduler", "-s", metavar="NAME", help="Who plans a workflow; default: heft.")
]
Nodes = Annotated[
    Path | None,
    typer.Option("--nodes", metavar="FILE", help="kubernetes: [nodes] or [workers], device = node."),
]
Affinity = Annotated[
    str, typer.Option("--affinity", metavar="A", help="kubernetes: required or preferred affinity.")
]
Image = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="kubernetes: image of the pods.")]
GpuClasses = Annotated[
    list[str] | None,
    typer.Option("--gpu-classes", metavar="A,B", help="kubernetes, nextflow: classes that are GPUs."),
]
By = Annotated[
    str, typer.Option("--by", metavar="BY", help="nextflow: a process per task or per kind; default: kinds.")
]
Executor = Annotated[
    str, typer.Option("--executor", metavar="NAME", help="nextflow: slurm or sge, which know priorities.")
]


def export(
    source: Source,
    file: Workflow = None,
    to: To = ...,  # type: ignore[assignment]
    cluster: opt.Cluster = None,
    scheduler: Planner = None,
    ccr: opt.Ccr = None,
    copies: opt.Copies = True,
    seed: opt.Seed = 0,
    out: Out = None,
    nodes: Nodes = None,
    affinity: Affinity = "required",
    image: Image = None,
    gpu_classes: GpuClasses = None,
    by: By = "",
    executor: Executor = "",
    as_json: opt.Json = False,
) -> None:
    """Write a plan or a run for Dask, Kubernetes and others."""
    from weft.execute.export import export as run
    from weft.io.exports.options import PLACEHOLDER, Options, read_nodes
    from weft.io.exports.table import find_export

    find_export(to)
    output.check_folder(out)
    asked = Options(
        {} if nodes is None else read_nodes(nodes),
        affinity,
        PLACEHOLDER if image is None else image,
        tuple(opt.split_names(gpu_classes)),
        by,
        executor,
    )
    found = run(
        source,
        to,
        out,
        file=file,
        cluster=cluster,
        scheduler=scheduler,
        ccr=ccr,
        copies=copies,
        seed=seed,
        options=asked,
        around=output.progress,
    )
    if as_json:
        output.emit(found.to_dict())
        return
    if out is None:
        print(output.safe_lines(found.text) if sys.stdout.isatty() else found.text, end="")
    else:
        tasks, devices = output.count(found.tasks, "task"), output.count(found.devices, "device")
        output.say(f"{tasks} on {devices} as {to}: wrote {out}")
    for note in found.notes:
        output.note(f"weft: {output.safe(note)}")
