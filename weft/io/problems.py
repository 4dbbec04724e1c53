"""Problem documents, ``weft/problem/1``: jobs, cluster, objective, noise.

A graph or cluster is written inline or named: a path relative to the problem file, or a built-in cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.errors import InputError
from weft.io.clusters import cluster_document, cluster_from_document
from weft.io.columns import Row, object_of, rows_of
from weft.io.native import graph_document, graph_from_document
from weft.io.sources import inside, shown
from weft.io.units import parse_time
from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.noise import LOGNORMAL
from weft.model.problem import Job, Objective, Problem

SCHEMA = "weft/problem/1"
_JOB_KEYS = (
    *("release", "period", "deadline", "weight", "owner"),
    *("series", "interval", "overrun", "in_order"),
)
"""Fields of a job that are written where they are not neutral."""


@dataclass(frozen=True)
class References:
    """How names of files inside a document are followed, each given with the field that holds it."""

    graph: Callable[[str, str], TaskGraph]
    cluster: Callable[[str, str], Cluster]


@dataclass(frozen=True)
class Posed:
    """A problem without its machines."""

    jobs: tuple[Job, ...]
    objective: Objective
    noise: float
    name: str
    bias: float = 0.0
    drift: float = 0.0
    noise_law: str = LOGNORMAL
    horizon: float | None = None

    def on(self, cluster: Cluster) -> Problem:
        """The problem on these machines."""
        return Problem(
            self.jobs, cluster, self.objective, self.noise, self.name, self.bias, self.drift, self.noise_law,
            self.horizon,
        )  # fmt: skip


def problem_from_document(
    document: Row, references: References | None = None, name: str = "problem"
) -> Problem:
    """A problem from its document; without ``references`` everything must be inline."""
    return posed_from_document(document, references, name).on(cluster_of(document, references))


def posed_from_document(document: Row, references: References | None = None, name: str = "problem") -> Posed:
    """The same, its cluster left aside."""
    from weft.io.headers import ProblemPart, checked

    header = {key: value for key, value in document.items() if key not in ("jobs", "cluster")}
    part = checked(ProblemPart, header)
    if part.schema_name != SCHEMA:
        raise InputError(f"expected {SCHEMA!r}, got {shown(part.schema_name)}", field="schema")
    jobs = tuple(_job(row, references, i) for i, row in enumerate(rows_of(document, "jobs")))
    if not jobs:
        raise InputError("expected at least one job, got none", field="jobs")
    objective = Objective(part.objective.metric, part.objective.copies)
    return Posed(
        jobs, objective, part.noise, part.name or name, part.bias, part.drift, part.noise_law, part.horizon
    )


def _job(row: Row, references: References | None, i: int) -> Job:
    from weft.io.headers import JobPart, checked

    where = f"jobs[{i}]"
    part = checked(JobPart, {key: value for key, value in row.items() if key != "graph"}, where)
    named = row.get("graph")
    if isinstance(named, str):
        if references is None:
            raise InputError("expected the graph inline, got a file name", field=f"{where}.graph")
        graph = references.graph(named, f"{where}.graph")
    else:
        document = object_of(row, "graph", where)
        with inside(f"{where}.graph"):
            graph = graph_from_document(document, part.name)
    fields = part.model_dump()
    for key in ("release", "period", "deadline", "interval"):
        if type(row.get(key)) is str:
            fields[key] = parse_time(row[key], graph.time_unit)
    eligible = fields.pop("eligible")
    return Job(graph, **fields, eligible=None if eligible is None else tuple(eligible))


def cluster_of(document: Row, references: References | None = None) -> Cluster:
    """The cluster of a problem document, inline or by name."""
    named = document.get("cluster")
    if not isinstance(named, str):
        return cluster_from_document(object_of(document, "cluster"), where="cluster")
    if references is None:
        raise InputError("expected the cluster inline, got a name", field="cluster")
    return references.cluster(named, "cluster")


def problem_document(problem: Problem) -> dict[str, Any]:
    """The document of a problem, everything inline."""
    return {
        "schema": SCHEMA,
        "name": problem.name,
        "noise": problem.noise,
        **{key: getattr(problem, key) for key in ("bias", "drift") if getattr(problem, key)},
        **({"noise_law": problem.noise_law} if problem.noise_law != LOGNORMAL else {}),
        **({"horizon": problem.horizon} if problem.horizon is not None else {}),
        "objective": {"metric": problem.objective.metric, "copies": problem.objective.copies},
        "cluster": cluster_document(problem.cluster),
        "jobs": [_job_row(job) for job in problem.jobs],
    }


def _job_row(job: Job) -> dict[str, Any]:
    row: dict[str, Any] = {"name": job.name}
    neutral = Job(job.graph)
    for key in _JOB_KEYS:
        if getattr(job, key) != getattr(neutral, key):
            row[key] = getattr(job, key)
    if job.eligible is not None:
        row["eligible"] = list(job.eligible)
    return row | {"graph": graph_document(job.graph)}
