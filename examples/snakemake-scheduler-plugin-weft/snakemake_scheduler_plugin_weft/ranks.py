"""Which jobs come first: ranks of a plan, looked up by what a job writes, what it is called, and its rule.

Imports nothing of Snakemake: a job is anything with ``output``, ``priority`` and ``scheduler_resources``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SCHEMA = "weft/export-snakemake/1"


class Ranks:
    """Ranks of jobs; a smaller one starts first."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._by_output: dict[str, int] = {}
        self._by_name: dict[str, int] = {}
        self._by_kind: dict[str, int] = {}
        for row in sorted(rows, key=lambda row: row["rank"]):
            for output in (*row.get("outputs", ()), row["task"]):
                self._by_output.setdefault(os.path.normpath(output), row["rank"])
            self._by_name.setdefault(row["task"], row["rank"])
            self._by_kind.setdefault(row.get("kind", ""), row["rank"])

    @classmethod
    def read(cls, path: str | Path) -> Ranks:
        """Ranks of a file; ValueError where it is something else."""
        document = json.loads(Path(path).read_text("utf-8"))
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ValueError(f"expected {SCHEMA!r}, as weft export --to snakemake writes it")
        try:
            return cls(document["jobs"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"expected rows with rank and task: {error!r}") from None

    def __len__(self) -> int:
        return len(self._by_name)

    def of(self, job: Any) -> int | None:
        """The rank of a job, of a group the smallest in it; None: the plan does not know it."""
        inner = getattr(job, "jobs", None)
        if inner is not None:
            ranks = [self.of(one) for one in (inner() if callable(inner) else inner)]
            return min((rank for rank in ranks if rank is not None), default=None)
        outputs = [os.path.normpath(str(output)) for output in job.output]
        found = [self._by_output[output] for output in outputs if output in self._by_output]
        if found:
            return min(found)
        rule = rule_of(job)
        return self._by_name.get(rule, self._by_kind.get(rule))


def rule_of(job: Any) -> str:
    """The name of a job's rule."""
    return str(getattr(getattr(job, "rule", None), "name", None) or getattr(job, "name", ""))


def chosen(
    ready: Iterable[Any], available: Mapping[str, int | str], ranks: Ranks, *, is_strict: bool = False
) -> list[Any]:
    """The jobs to start: those of larger priority first, then by rank, as long as they fit.

    What does not fit is passed over, or ends the choice if ``is_strict``. Jobs without a rank come last.
    """
    left = {name: value for name, value in available.items() if isinstance(value, int)}
    jobs, last = list(ready), len(ranks) + 1
    keys = {}
    for i, job in enumerate(jobs):
        rank = ranks.of(job)
        keys[i] = (-job.priority, last if rank is None else rank, sorted(map(str, job.output)))
    taken = []
    for i in sorted(keys, key=keys.__getitem__):
        needs = {name: jobs[i].scheduler_resources.get(name, 0) for name in left}
        if all(value <= left[name] for name, value in needs.items()):
            taken.append(jobs[i])
            left = {name: value - needs[name] for name, value in left.items()}
        elif is_strict:
            break
    return taken


# -- the jobs as a graph to plan -------------------------------------------------------------------


def graph_of(dag: Any) -> dict[str, Any]:
    """All jobs that will run as a graph of weft: named by their first output, kinds are rules.

    Work is the resource ``runtime`` (minutes) where a rule has one, else one second: edit the file, or give the
    cluster file times per kind.
    """
    jobs = list(dag.needrun_jobs())
    name = {job: name_of(job) for job in jobs}
    tasks = []
    for job in jobs:
        needs = job.scheduler_resources
        minutes = needs.get("runtime")
        after = sorted({name[one] for one in dag.job_dependencies(job) if one in name})
        row: dict[str, Any] = {"name": name[job], "kind": rule_of(job) or "task", "after": after}
        row["work"] = 60.0 * minutes if isinstance(minutes, int) else 1.0
        tasks.append({**row, "slots": max(1, int(needs.get("_cores", 1)))})
    return {
        "schema": "weft/graph/1",
        "name": "snakemake",
        "tasks": sorted(tasks, key=lambda row: row["name"]),
    }


def name_of(job: Any) -> str:
    """What a job is called in a graph: its first output, else its rule."""
    return next((os.path.normpath(str(output)) for output in job.output), rule_of(job) or str(job))


def write_json(document: Mapping[str, Any], path: str | Path) -> None:
    """Write a document."""
    Path(path).write_text(json.dumps(document, indent=1) + "\n", "utf-8")
