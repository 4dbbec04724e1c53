"""How each generator makes one problem of a scenario."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.generate import generate, jobshop, jobshop_cluster, opgraph_cluster, tpch_cluster, tpch_like
from weft.model.graph import TaskGraph
from weft.model.problem import Objective, Problem
from weft.scenarios.recipes import late
from weft.scenarios.streams import drawn_stream, read_template, with_probability
from weft.scenarios.tpch import tpch_names, tpch_suite

if TYPE_CHECKING:
    from weft.scenarios.scenario import Scenario


def _posed(chosen: Scenario, graph: TaskGraph, cluster: Cluster) -> Problem:
    objective = Objective(chosen.recipe.metric, chosen.recipe.copies)
    return Problem(graph, cluster, objective, chosen.number("noise"))


def _workflow(chosen: Scenario, split: str, index: int) -> Problem:
    families = chosen.settings["family"]
    family = families[index % len(families)] if isinstance(families, tuple) else str(families)
    graph = generate(family, chosen.whole("tasks"), seed=chosen.generator_seed(split, index))
    cluster = resized(read_machines(chosen.recipe.cluster), chosen.whole("devices"))
    problem = _posed(chosen, graph, cluster)
    ccr = chosen.number("ccr")
    return problem.with_ccr(ccr) if ccr and problem.ccr else problem


def _jobshop(chosen: Scenario, split: str, index: int) -> Problem:
    machines = chosen.whole("machines")
    graph = jobshop(chosen.whole("jobs"), machines, seed=chosen.generator_seed(split, index))
    return _posed(chosen, graph, jobshop_cluster(machines))


def _opgraph(chosen: Scenario, split: str, index: int) -> Problem:
    family = f"opgraph-{chosen.settings['kind']}"
    graph = generate(family, chosen.whole("tasks"), seed=chosen.generator_seed(split, index))
    return _posed(chosen, graph, opgraph_cluster())


def _tpch(chosen: Scenario, split: str, index: int) -> Problem:
    queries = chosen.whole("queries")
    data = str(chosen.settings["data"])
    if not data:
        graph = tpch_like(queries, seed=chosen.generator_seed(split, index))
        return _posed(chosen, graph, tpch_cluster())
    found = tpch_suite(data).instance(tpch_names(data, queries)[split][index]).problem
    return _posed(chosen, found.graph, found.cluster)


def _stream(chosen: Scenario, split: str, index: int) -> Problem:
    graph, branch = read_template(chosen.recipe.graph), str(chosen.settings["branch"])
    if branch:
        graph = with_probability(graph, branch, chosen.number("p_c"))
    objective = Objective(chosen.recipe.metric, chosen.recipe.copies)
    return Problem(graph, read_machines(chosen.recipe.cluster), objective)


def _random_stream(chosen: Scenario, split: str, index: int) -> Problem:
    return drawn_stream(chosen, split, index).problem


def _file(chosen: Scenario, split: str, index: int) -> Problem:
    recipe = chosen.recipe
    found: Problem = late("weft.io.files:read_problem")(
        recipe.files[index],
        read_machines(recipe.cluster) if recipe.cluster else None,
        ccr=chosen.number("ccr") or None,
        noise=chosen.number("noise"),
        copies=recipe.copies,
    )
    return found


MAKERS: dict[str, Callable[[Scenario, str, int], Problem]] = {
    "workflow": _workflow,
    "jobshop": _jobshop,
    "opgraph": _opgraph,
    "tpch": _tpch,
    "stream": _stream,
    "random-stream": _random_stream,
    "files": _file,
}
"""Generator -> the problem at an index of a split."""


@functools.lru_cache(maxsize=16)
def read_machines(cluster: str) -> Cluster:
    """A cluster by name, by path, or from its document as JSON."""
    if not cluster:
        raise InputError("expected a cluster: a name, a file or a table", field="cluster")
    found: Cluster
    if cluster.startswith("{"):
        found = late("weft.io.plain_clusters:cluster_of")(json.loads(cluster), where="cluster")
    else:
        found = late("weft.io.files:read_cluster")(cluster)
    return found


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
