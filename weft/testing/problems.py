"""Problems of many shapes from a seed and a few sizes, for checks.

Every problem is feasible: device 0 is of a class that can run all tasks, and every job may use it.
"""

from __future__ import annotations

import numpy as np

from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Floats, TaskGraph
from weft.model.problem import Job, Objective, Problem

SHAPES = ("independent", "chain", "fork", "diamond", "disconnected", "random")
COSTS = ("zero", "equal", "some zero", "uniform", "wide")
DATA = ("none", "uniform", "huge", "some zero")
LINKS = ("free", "uniform", "nodes", "matrix")
KINDS = ("cnn", "bert")


def make_edges(rng: np.random.Generator, n: int, shape: str) -> list[tuple[int, int]]:
    """Edges of one shape between n tasks; every edge goes from a lower to a higher index."""
    if shape == "chain":
        return [(i, i + 1) for i in range(n - 1)]
    if shape == "fork":
        return [(0, i) for i in range(1, n)]
    if shape == "diamond" and n > 2:
        return [edge for i in range(1, n - 1) for edge in ((0, i), (i, n - 1))]
    if shape == "disconnected":
        return [(i, i + 1) for i in range(n - 1) if rng.random() < 0.6]
    if shape == "random":
        return [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 3.0 / n]
    return []


def make_costs(rng: np.random.Generator, n: int, costs: str) -> Floats:
    """Run times: zeros, equal ones, uniform in [1, 10), or spread over eighteen decades."""
    if costs == "zero":
        return np.zeros(n)
    if costs == "equal":
        return np.full(n, 3.0)
    values = rng.uniform(1.0, 10.0, n)
    if costs == "some zero":
        return values * (rng.random(n) < 0.6)
    return 10.0 ** rng.uniform(-9.0, 9.0, n) if costs == "wide" else values


def make_data(rng: np.random.Generator, m: int, data: str) -> Floats:
    """Bytes on edges."""
    values = rng.uniform(1.0, 20.0, m)
    if data == "none":
        return np.zeros(m)
    if data == "huge":
        return values * 1e9
    return values * (rng.random(m) < 0.5) if data == "some zero" else values


def make_graph(seed: int, n: int, shape: str, costs: str, data: str) -> TaskGraph:
    """A graph of n tasks of two kinds."""
    rng = np.random.default_rng(seed)
    edges = make_edges(rng, n, shape)
    return TaskGraph(
        make_costs(rng, n, costs),
        [source for source, _ in edges],
        [target for _, target in edges],
        make_data(rng, len(edges), data),
        kinds=KINDS,
        kind=rng.integers(0, len(KINDS), n),
    )


def with_needs(graph: TaskGraph, seed: int, cluster: Cluster) -> TaskGraph:
    """The graph with times per class, slots, memory and a resource that the first class can serve."""
    rng = np.random.default_rng(seed)
    n, num_classes = graph.num_tasks, cluster.num_classes
    times = np.where(rng.random((n, num_classes)) < 0.3, rng.uniform(1.0, 10.0, (n, num_classes)), np.nan)
    times[:, 1:][rng.random((n, num_classes - 1)) < 0.1] = np.inf
    first = cluster.classes[0]
    return graph.replaced(
        classes=tuple(c.name for c in cluster.classes),
        times=times,
        slots=rng.integers(1, first.slots + 1, n),
        memory=np.floor(rng.uniform(0.0, first.memory, n)),
        resources=("licence",),
        demands=rng.integers(0, 2, (n, 1)),
    )


def make_cluster(seed: int, num_devices: int, num_classes: int, links: str, *, is_plain: bool) -> Cluster:
    """Devices of several classes; plain ones have one slot and no limits."""
    rng = np.random.default_rng(seed)
    classes = [make_class(rng, c, is_plain=is_plain) for c in range(num_classes)]
    device_class = np.concatenate([[0], rng.integers(0, num_classes, num_devices - 1)])
    node = np.arange(num_devices, dtype=np.int32) // (2 if links == "nodes" else 1)
    group = node if links in ("nodes", "matrix") else np.zeros_like(node)
    size = int(group.max()) + 1
    bandwidth = np.full((size, size), np.inf if links == "free" else 4.0)
    latency = np.full((size, size), 0.0 if links == "free" else 0.25)
    if links == "nodes":
        np.fill_diagonal(bandwidth, 64.0)
        np.fill_diagonal(latency, 0.0)
    if links == "matrix":
        bandwidth, latency = rng.uniform(1.0, 8.0, (size, size)), rng.uniform(0.0, 2.0, (size, size))
    return Cluster(tuple(classes), device_class, node, group, latency, bandwidth)


def make_class(rng: np.random.Generator, index: int, *, is_plain: bool) -> DeviceClass:
    """One class; index 0 has the most of everything."""
    speed = float(rng.uniform(0.5, 4.0))
    if is_plain:
        return DeviceClass(f"c{index}", speed)
    return DeviceClass(
        f"c{index}",
        speed,
        times={"bert": float(rng.uniform(1.0, 9.0))} if rng.random() < 0.2 else {},
        speeds={"cnn": float(rng.uniform(0.5, 4.0))} if rng.random() < 0.3 else {},
        slots=8 if index == 0 else int(rng.integers(1, 9)),
        memory=64.0 if index == 0 else float(rng.integers(1, 65)),
        capacity={"licence": 2.0} if rng.random() < 0.5 else {},
    )


def make_problem(
    seed: int,
    *,
    sizes: tuple[int, int, int, int],
    graph_style: tuple[str, str, str],
    links: str,
    is_plain: bool,
    has_copies: bool,
) -> Problem:
    """A problem of ``sizes`` (jobs, tasks, devices, classes); later jobs draw their own style."""
    num_jobs, num_tasks, num_devices, num_classes = sizes
    rng = np.random.default_rng(seed)
    cluster = make_cluster(seed, num_devices, num_classes, links, is_plain=is_plain)
    jobs = []
    for j in range(num_jobs):
        style = graph_style if j == 0 else tuple(str(rng.choice(kind)) for kind in (SHAPES, COSTS, DATA))
        graph = make_graph(seed + j, num_tasks // num_jobs, *style)
        graph = graph if is_plain else with_needs(graph, seed + j, cluster)
        jobs.append(make_job(rng, graph, j, cluster, is_free=num_jobs == 1))
    return Problem(jobs, cluster, Objective(copies=has_copies))


def make_job(
    rng: np.random.Generator, graph: TaskGraph, index: int, cluster: Cluster, *, is_free: bool
) -> Job:
    """A job; unless free, every other one has a release and may use only some devices."""
    is_free = is_free or bool(rng.random() < 0.5)
    return Job(
        graph,
        name=f"job{index}",
        release=0.0 if is_free else float(rng.uniform(0.0, 20.0)),
        owner=f"owner{index % 2}",
        eligible=None if is_free else (cluster.device_names[0], cluster.classes[-1].name),
    )


def make_tie_free(
    graph_seed: int, cluster_seed: int, num_tasks: int, num_devices: int, shape: str
) -> Problem:
    """One job whose run times, data, speeds and links are all different."""
    graph = make_graph(graph_seed, num_tasks, shape, "uniform", "uniform")
    return Problem(graph, make_cluster(cluster_seed, num_devices, num_devices, "matrix", is_plain=True))


def drawn_problem(number: int) -> Problem:
    """A small problem of a style of its own."""
    rng = np.random.default_rng([3, number])
    shape, costs, data = (str(rng.choice(kinds)) for kinds in (SHAPES, COSTS, DATA))
    sizes = (int(rng.choice((1, 1, 2, 3))), *(int(n) for n in rng.integers((0, 1, 1), (15, 7, 5))))
    return make_problem(
        int(rng.integers(2**32)),
        sizes=(sizes[0], sizes[1], sizes[2], sizes[3]),
        graph_style=(shape, costs, data),
        links=str(rng.choice(LINKS)),
        is_plain=bool(rng.random() < 0.5),
        has_copies=bool(rng.random() < 0.5),
    )
