"""Kinds of run: what schedulers act on, and what is compared there unless a scenario says otherwise.

A kind is data, so that scenarios, the catalog and reports can ask it without running anything.
``weft.evaluation.sweep`` has one module per kind that measures it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One way to run schedulers on a problem."""

    name: str
    """What is acted on; schedulers say by this name where they act."""
    words: str
    """The same in a sentence: 'NAME acts on ...'."""
    role: str
    """What a scheduler that acts here is called."""
    schedulers: tuple[str, ...]
    """Compared unless others are named."""
    baseline: str
    """The one the others are compared with."""
    metric: str
    """What is minimised."""
    metrics: tuple[str, ...]
    """What is measured."""
    took: str
    """What the time of a row was spent on."""

    def __str__(self) -> str:
        return self.name


PROBLEMS = Kind(
    "problems",
    "whole problems, before anything runs",
    "planner",
    ("heft", "peft", "deft", "min-min"),
    "heft",
    "makespan",
    ("makespan", "slr", "speedup", "utilisation", "mean_jct", "gap_percent", "copies"),
    "planned in",
)
QUEUES = Kind(
    "queues",
    "queues by kind (one repeated job, no transfers, no noise)",
    "dispatcher",
    ("fifo", "mru", "depth-first", "srw"),
    "fifo",
    "mean_jct",
    ("mean_jct", "p99_jct", "utilisation", "batch_fill", "makespan", "expired"),
    "ran in",
)
TASKS = Kind(
    "tasks",
    "single tasks (several jobs, transfers, capacities, noise)",
    "dispatcher",
    ("fifo", "eft", "srw", "heft-job", "priced"),
    "srw",
    "mean_jct",
    ("mean_jct", "p99_jct", "utilisation", "batch_fill", "makespan", "expired"),
    "ran in",
)
ELASTIC = Kind(
    "elastic",
    "elastic tasks (clusters that give them units of several resources)",
    "allocator",
    ("random", "min", "static-k", "optimus", "tiresias", "shortest-first"),
    "optimus",
    "mean_completion",
    (
        *("mean_completion", "median_completion", "p95_completion", "variance", "longest_wait"),
        *("cpu_use", "gpu_use", "peak_alive"),
    ),
    "ran in",
)
KINDS = {kind.name: kind for kind in (PROBLEMS, QUEUES, TASKS, ELASTIC)}
