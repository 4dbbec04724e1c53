"""Workflows on a cluster: one at a time, or a stream of different ones."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InputError
from weft.io.files import read_cluster
from weft.io.simple_clusters import cluster_of
from weft.model.arrivals import Arrivals
from weft.model.cluster import Cluster
from weft.model.generate import generate
from weft.model.graph import Floats, TaskGraph
from weft.model.prices import class_prices, priced_work
from weft.model.problem import Job, Objective, Problem

if TYPE_CHECKING:
    from weft.scenarios.scenario import Scenario

SMALLEST, LARGEST = 1.0 / 3.0, 2.5
"""Sizes of the workflows of a stream, as multiples of ``tasks``: log-uniform in between."""
FEWEST = 8
"""Every shape can be made of this many tasks."""
SCALE = 0.5
"""Standard deviation of the logarithm of what the run times of one workflow are multiplied by."""
STREAM_OF_JOBS = 11
"""Keeps the draws of a stream apart from those of single workflows."""


def posed(chosen: Scenario, graph: TaskGraph, cluster: Cluster) -> Problem:
    """The problem of one graph under the objective and noise of a scenario."""
    objective = Objective(chosen.recipe.metric, chosen.recipe.copies)
    return Problem(graph, cluster, objective, chosen.number("noise"))


def workflow(chosen: Scenario, split: str, index: int) -> Problem:
    """One workflow; its shape goes by the index. With a load: the stream of seed 0."""
    if chosen.is_job_stream:
        return workflow_stream(chosen, split, index, 0)
    family = _families(chosen)[index % len(_families(chosen))]
    graph = generate(family, chosen.whole("tasks"), seed=chosen.generator_seed(split, index))
    return _with_ccr(chosen, posed(chosen, graph, _machines(chosen)))


def workflow_stream(chosen: Scenario, split: str, index: int, seed: int) -> Problem:
    """Different workflows that keep arriving, at a rate that gives the load.

    Load is arrival rate x priced work / devices: at 1 the cluster is just able to follow. The work
    is that of the workflows that actually arrive.
    """
    if not chosen.is_job_stream:
        raise InputError("a stream of workflows needs a load above 0", field="settings.load")
    key = [STREAM_OF_JOBS, chosen.generator_seed(split, index), seed]
    rng = np.random.default_rng(key)
    graphs = [_drawn(chosen, rng) for _ in range(chosen.whole("jobs"))]
    cluster = _machines(chosen)
    objective = Objective(chosen.metric, chosen.recipe.copies)
    together = Problem([Job(graph) for graph in graphs], cluster, objective, chosen.number("noise"))
    times = _arrivals(chosen, together, int(rng.integers(1 << 31)))
    jobs = [Job(g, f"job{j}", float(time)) for j, (g, time) in enumerate(zip(graphs, times, strict=True))]
    return _with_ccr(chosen, together.replaced(jobs=tuple(jobs)))


def _drawn(chosen: Scenario, rng: np.random.Generator) -> TaskGraph:
    """One workflow of a stream: its shape, size and scale are drawn."""
    families = _families(chosen)
    family = families[int(rng.integers(len(families)))]
    size = chosen.whole("tasks") * SMALLEST * (LARGEST / SMALLEST) ** float(rng.random())
    graph = generate(family, max(FEWEST, round(size)), seed=int(rng.integers(1 << 31)))
    return graph.replaced(work=graph.work * float(np.exp(SCALE * rng.standard_normal())))


def _arrivals(chosen: Scenario, together: Problem, seed: int) -> Floats:
    """Arrival times for the load, from 0 on."""
    work = float(priced_work(together, class_prices(together)).sum()) / len(together.jobs)
    gap = work / (together.cluster.num_devices * chosen.number("load"))
    law = str(chosen.settings["arrivals"])
    times = Arrivals(law, len(together.jobs), gap).draw(seed)
    return np.asarray(times - times[0], dtype=np.float64)


def _families(chosen: Scenario) -> tuple[str, ...]:
    families = chosen.settings["family"]
    return families if isinstance(families, tuple) else (str(families),)


def _machines(chosen: Scenario) -> Cluster:
    return resized(read_machines(chosen.recipe.cluster), chosen.whole("devices"))


def _with_ccr(chosen: Scenario, problem: Problem) -> Problem:
    ccr = chosen.number("ccr")
    return problem.with_ccr(ccr) if ccr and problem.ccr else problem


@functools.lru_cache(maxsize=16)
def read_machines(cluster: str) -> Cluster:
    """A cluster by name, by path, or from its document as JSON."""
    if not cluster:
        raise InputError("expected a cluster: a name, a file or a table", field="cluster")
    if not cluster.startswith("{"):
        return read_cluster(cluster)
    return cluster_of(json.loads(cluster), where="cluster")


def resized(cluster: Cluster, num_devices: int) -> Cluster:
    """The cluster with this many devices, spread evenly over its own; 0 keeps it as it is.

    Whole copies of the cluster come first; copies of a device sit on the same links.
    """
    have = cluster.num_devices
    if num_devices in (0, have):
        return cluster
    whole, rest = divmod(num_devices, have)
    picked = np.concatenate([np.tile(np.arange(have), whole), np.arange(rest) * have // max(rest, 1)]).astype(
        np.int64
    )
    picked.sort()
    return cluster.replaced(
        device_class=cluster.device_class[picked],
        node=cluster.node[picked],
        link_group=cluster.link_group[picked],
        name=f"{cluster.name}-as-{num_devices}",
    )
