"""Verbs that make files: generate, convert, init."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import options as opt
from weft.cli import output
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.model.graph import TaskGraph

To = Annotated[
    str | None,
    typer.Option("--to", metavar="FORMAT", help="wfformat, json, toml, dot or stg; default: by the suffix."),
]

MeanWork = Annotated[str | None, typer.Option(metavar="TIME", help="Mean run time at speed 1: 5s, 20ms.")]
MeanData = Annotated[str | None, typer.Option(metavar="SIZE", help="Mean data per edge, no --ccr: 10MB.")]
Bandwidth = Annotated[
    str | None, typer.Option(metavar="RATE", help="At which --ccr holds, without --cluster: 1GB/s.")
]


def generate(
    family: Annotated[
        str, typer.Argument(metavar="FAMILY", show_default=False, help="Such as layered, fork-join, in-tree.")
    ],
    size: Annotated[int, typer.Option("--size", "-n", metavar="N", min=1, help="Number of tasks.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write the graph.")],
    to: To = None,
    seed: opt.Seed = 0,
    cluster: Annotated[
        str | None, typer.Option("--cluster", "-c", help="Cluster on which --ccr is to hold.")
    ] = None,
    ccr: Annotated[
        float | None, typer.Option("--ccr", min=0, help="Communication over computation; scales the data.")
    ] = None,
    parallelism: Annotated[float | None, typer.Option(help="Layer width over the root of the size.")] = None,
    density: Annotated[float | None, typer.Option(help="Mean number of edges per task.")] = None,
    jump: Annotated[int | None, typer.Option(help="Layers an edge may span.")] = None,
    communities: Annotated[int | None, typer.Option(help="Communities of a block model.")] = None,
    p_in: Annotated[float | None, typer.Option(help="Edge probability inside a community.")] = None,
    p_out: Annotated[float | None, typer.Option(help="Edge probability between communities.")] = None,
    cost: Annotated[str | None, typer.Option(help="Work: log-normal or uniform.")] = None,
    mean_work: MeanWork = None,
    work_cv: Annotated[float | None, typer.Option(help="Coefficient of variation of the work.")] = None,
    mean_data: MeanData = None,
    data_cv: Annotated[float | None, typer.Option(help="Coefficient of variation of the data.")] = None,
    bandwidth: Bandwidth = None,
    kinds: Annotated[str | None, typer.Option(help="Names of the task kinds, as in a,b,c.")] = None,
    kind_by: Annotated[str | None, typer.Option(help="Kinds drawn per task (random) or by level.")] = None,
    classes: Annotated[str | None, typer.Option(help="Device classes to give run times for.")] = None,
    heterogeneity: Annotated[float | None, typer.Option(help="Spread of run times between classes.")] = None,
    as_json: opt.Json = False,
) -> None:
    """Make a random task graph of a named family."""
    from weft.io import units

    knobs: dict[str, Any] = {
        "parallelism": parallelism,
        "density": density,
        "jump": jump,
        "communities": communities,
        "p_in": p_in,
        "p_out": p_out,
        "cost": cost,
        "mean_work": opt.parse_duration(mean_work, "--mean-work"),
        "work_cv": work_cv,
        "mean_data": opt.parse_quantity(mean_data, units.parse_size, "--mean-data"),
        "data_cv": data_cv,
        "bandwidth": opt.parse_quantity(bandwidth, units.parse_bandwidth, "--bandwidth"),
        "kinds": tuple(opt.split_names([kinds])) if kinds is not None else None,
        "kind_by": kind_by,
        "classes": tuple(opt.split_names([classes])) if classes is not None else None,
        "heterogeneity": heterogeneity,
        "ccr": ccr if cluster is None else None,
    }
    graph = _generated(family, size, seed, knobs)
    if cluster is not None and ccr is not None:
        graph = _scaled(graph, cluster, ccr)
    _write(graph, out, to, as_json, ("generate", seed, {"family": family}))


def _generated(family: str, size: int, seed: int, given: dict[str, Any]) -> TaskGraph:
    """The graph under the knobs that were given on the line."""
    from weft.model import generate as making

    set_knobs = {name: value for name, value in given.items() if value is not None}
    knobs = making.Knobs(**set_knobs) if set_knobs else None
    with output.progress(f"generating {size} tasks"):
        return making.generate(family, size, seed=seed, knobs=knobs)


def _scaled(graph: TaskGraph, cluster: str, ccr: float) -> TaskGraph:
    """The graph with its data scaled so that it has this CCR on this cluster."""
    from weft.io.files import read_cluster
    from weft.model.problem import Problem

    present = Problem(graph, read_cluster(cluster)).ccr
    if not present > 0:
        raise InputError(
            "expected a graph and a cluster between whose devices data takes time", field="--ccr"
        )
    return graph.replaced(data=graph.data * (ccr / present))


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", show_default=False, help="Graph to read.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", show_default=False, help="File to write.")],
    to: To = None,
    as_json: opt.Json = False,
) -> None:
    """Read a graph in any known format and write it in another."""
    from weft.io.files import read_graph

    with output.progress(f"reading {source}"):
        graph = read_graph(source)
    _write(graph, out, to, as_json, ("convert", None, {"source": str(source)}))


def _write(
    graph: TaskGraph,
    out: Path,
    to: str | None,
    as_json: bool,
    head: tuple[str, int | None, dict[str, object]],
) -> None:
    """Write a graph and say what it is; ``head`` is the verb, the seed and the verb's own fields."""
    from weft.io.files import write_graph

    with output.progress(f"writing {out}"):
        lost = write_graph(graph, out, to)
    if lost:
        output.warn(f"weft: the format cannot hold {', '.join(lost)}: left out")
    if as_json:
        verb, seed, own = head
        found = {
            "out": str(out),
            "name": graph.name,
            "tasks": graph.num_tasks,
            "edges": graph.num_edges,
            "lost": lost,
        }
        output.emit(output.document(verb, seed, {**own, **found}))
        return
    size = f"{output.count(graph.num_tasks, 'task')}, {output.count(graph.num_edges, 'edge')}"
    output.say(f"{output.safe(graph.name)}: {size}: wrote {out}")
    output.next_command(f"weft schedule {shlex.quote(str(out))} --cluster gpu-mix-8")


def init(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write it.")] = Path(
        "cluster.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Write a cluster file for this machine."""
    from dataclasses import asdict

    from weft import doctor
    from weft.io.sources import write_bytes

    found = doctor.machine()
    if out.exists() and not force:
        raise InputError("the file is there already: --force replaces it", file=str(out))
    write_bytes(doctor.cluster_text(found).encode(), out)
    if as_json:
        output.emit(output.document("init", None, {"out": str(out), "machine": asdict(found)}))
        return
    gpus = ", ".join(f"{gpu.count} x {gpu.model}" for gpu in found.gpus) or "no NVIDIA GPU"
    memory = output.size(found.memory)
    output.say(f"{found.num_cpus} processors, {memory} of memory, {gpus}: wrote {out}")
    output.next_command(f"weft schedule FILE --cluster {shlex.quote(str(out))}")
