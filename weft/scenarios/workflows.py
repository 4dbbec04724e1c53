"""Workflows on a cluster: one at a time, or a stream of different ones."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InputError
from weft.io.files import load_problem, read_cluster
from weft.io.simple_clusters import cluster_of
from weft.model.arrivals import Arrivals
from weft.model.bookings import Booking
from weft.model.bounds import longest_path
from weft.model.cluster import Cluster
from weft.model.draws import BOOKING, MEMORY, keyed_uniform
from weft.model.generate import FAMILIES, GPU_KINDS, Knobs, generate
from weft.model.graph import Floats, TaskGraph
from weft.model.prices import class_prices, priced_work
from weft.model.problem import Job, Objective, Problem

if TYPE_CHECKING:
    from weft.scenarios.scenario import Scenario

SMALLEST, LARGEST = 1.0 / 3.0, 2.5
"""Sizes of the workflows of a stream, as multiples of ``tasks``: log-uniform in between."""
SCALE = 0.5
"""Standard deviation of the logarithm of what the run times of one workflow are multiplied by."""
FEWEST = 8
"""Workflows of a stream have at least this many tasks."""
SPREADS = (0.1, 1.5)
"""Where depths are unlike, so are tasks of one depth: coefficients of variation of a workflow, log-uniform in between."""
PLAIN = ("program",)
"""A kind that no class of devices knows, so that its plain speed counts."""
SPREAD_OF_MEMORY = 0.75
"""Standard deviation of the logarithm of the memory that tasks need."""
STREAM_OF_JOBS = 11
"""Keeps the draws of a stream apart from those of single workflows."""


def posed(chosen: Scenario, graph: TaskGraph, cluster: Cluster) -> Problem:
    """The problem of one graph under the objective and noise of a scenario."""
    objective = Objective(chosen.recipe.metric, chosen.recipe.copies)
    return _wrong(chosen, Problem(graph, cluster, objective, chosen.number("noise")))


def _wrong(chosen: Scenario, problem: Problem) -> Problem:
    """The problem with run times that are wrong by the bias and drift of a scenario, if it has any."""
    spreads = {name: chosen.number(name) for name in ("bias", "drift") if chosen.settings.get(name)}
    return problem.replaced(**spreads) if spreads else problem


def workflow(chosen: Scenario, split: str, index: int) -> Problem:
    """One workflow; its shape goes by the index. With a load: the stream of seed 0."""
    if chosen.is_arriving:
        return arriving(chosen, split, index, 0)
    family = _families(chosen)[index % len(_families(chosen))]
    seed, machines = chosen.generator_seed(split, index), _machines(chosen)
    made = generate(family, chosen.whole("tasks"), seed=seed, knobs=_knobs(chosen))
    graph = with_memory(made, machines, chosen, seed, 0)
    return with_deadlines(_with_ccr(chosen, posed(chosen, graph, machines)), chosen.number("deadline"))


def arriving(chosen: Scenario, split: str, index: int, seed: int) -> Problem:
    """Different jobs that keep arriving, at a rate that gives the load: drawn workflows, or those of files.

    Load is arrival rate x priced work / slots: at 1 the cluster is just able to follow. The work
    is that of the very jobs that arrive.
    """
    rng = np.random.default_rng([STREAM_OF_JOBS, chosen.generator_seed(split, index), seed])
    objective = Objective(chosen.metric, chosen.recipe.copies)
    if chosen.recipe.generator == "files":
        together = _of_files(chosen, rng).replaced(objective=objective)
    else:
        cluster, key = _machines(chosen), chosen.generator_seed(split, index) * 2**20 + seed
        graphs = _several(chosen, rng)
        jobs = [Job(with_memory(graph, cluster, chosen, key, j), f"job{j}") for j, graph in enumerate(graphs)]
        together = _wrong(chosen, Problem(jobs, cluster, objective, chosen.number("noise")))
        together = with_deadlines(together, chosen.number("deadline"))
        share = chosen.number("bookings") if chosen.settings.get("bookings") else 0.0
        together = with_bookings(together, share, key)
    times = _arrivals(chosen, together, int(rng.integers(1 << 31)))
    released = [replace(job, release=float(time)) for job, time in zip(together.jobs, times, strict=True)]
    return _with_ccr(chosen, together.replaced(jobs=tuple(released)))


def with_deadlines(problem: Problem, slack: float) -> Problem:
    """Every job due this many times its critical path, at the shortest run times, after its release; 0: never."""
    if not slack:
        return problem
    due, best = [], problem.best_run_times
    for j, job in enumerate(problem.jobs):
        own = best[problem.offsets[j] : problem.offsets[j + 1]]
        due.append(replace(job, deadline=slack * longest_path(job.graph, own)))
    return problem.replaced(jobs=tuple(due))


def with_bookings(problem: Problem, share: float, seed: int) -> Problem:
    """This share of the jobs, by chance, books a whole device of a class that can run all its tasks."""
    if not share:
        return problem
    jobs, able = list(problem.jobs), np.isfinite(problem.run_times) & (problem.device_counts > 0)
    drawn = [keyed_uniform(seed, BOOKING, np.arange(len(jobs)), k).tolist() for k in (0, 1)]
    for j, (chance, which) in enumerate(zip(*drawn, strict=True)):
        classes = np.flatnonzero(able[problem.offsets[j] : problem.offsets[j + 1]].all(axis=0))
        if chance < share and len(classes):
            name = problem.cluster.classes[int(classes[int(which * len(classes))])].name
            jobs[j] = replace(jobs[j], booking=Booking((name,)))
    return problem.replaced(jobs=tuple(jobs))


def with_memory(graph: TaskGraph, cluster: Cluster, chosen: Scenario, seed: int, job: int) -> TaskGraph:
    """Tasks that need memory: log-normal around a share of the smallest device's, at most the largest device's."""
    share = chosen.number("memory")
    if not share:
        return graph
    present = cluster.class_column("memory")[cluster.device_class]
    if not np.isfinite(present).all():
        raise InputError("expected a cluster whose classes all state their memory", field="settings.memory")
    first, second = (keyed_uniform(seed, MEMORY, job, np.arange(graph.num_tasks), k) for k in (0, 1))
    normal = np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second)
    need = share * float(present.min()) * np.exp(SPREAD_OF_MEMORY * normal)
    return graph.replaced(memory=np.minimum(need, float(present.max())))


def _of_files(chosen: Scenario, rng: np.random.Generator) -> Problem:
    """As many jobs as are asked for, each drawn from those of the files, on the cluster and under the noise that all share."""
    files = chosen.recipe.files
    found = [read_file(chosen, file) for file in files]
    for file, problem in zip(files, found, strict=True):
        if not problem.cluster.equals(found[0].cluster):
            raise InputError(f"expected the cluster of {files[0]}, or one for all by --cluster", file=file)
        if problem.noise != found[0].noise:
            raise InputError(f"expected the noise of {files[0]}, or one for all by --set noise=X", file=file)
        for name in ("bias", "drift"):
            if getattr(problem, name) != getattr(found[0], name):
                raise InputError(f"expected the {name} of {files[0]}", file=file)
    pool = [job for problem in found for job in problem.jobs]
    drawn = rng.integers(len(pool), size=chosen.whole("jobs")).tolist()
    jobs = [replace(pool[k], name=f"{pool[k].name}-{j}", release=0.0) for j, k in enumerate(drawn)]
    return found[0].replaced(jobs=tuple(jobs), name=jobs[0].graph.name)


def read_file(chosen: Scenario, file: str) -> Problem:
    """The problem of a workflow or problem file, under the settings of a scenario."""
    state = Path(file).stat() if Path(file).is_file() else None
    return _read_file(chosen, file, (state.st_mtime_ns, state.st_size) if state else ())


@functools.lru_cache(maxsize=64)
def _read_file(chosen: Scenario, file: str, state: tuple[int, ...]) -> Problem:
    """Read once while the file's time and size stay the same: every seed of a stream asks for it."""
    recipe = chosen.recipe
    return load_problem(
        file,
        read_machines(recipe.cluster) if recipe.cluster else None,
        ccr=None if chosen.is_arriving else chosen.number("ccr") or None,  # of all jobs together
        noise=chosen.number("noise"),
        copies=recipe.copies,
    )


def _several(chosen: Scenario, rng: np.random.Generator) -> list[TaskGraph]:
    """The workflows of a stream; of a few different ones, each is drawn from these."""
    count, jobs = chosen.whole("distinct") if chosen.settings.get("distinct") else 0, chosen.whole("jobs")
    graphs = [_drawn(chosen, rng) for _ in range(count or jobs)]
    return [graphs[k] for k in rng.integers(count, size=jobs).tolist()] if count else graphs


def _drawn(chosen: Scenario, rng: np.random.Generator) -> TaskGraph:
    """One workflow of a stream: its shape, size and scale are drawn."""
    families = _families(chosen)
    family = families[int(rng.integers(len(families)))]
    factor = SMALLEST * (LARGEST / SMALLEST) ** float(rng.random())
    is_drawn = chosen.settings["sizes"] == "drawn"
    least = max(FEWEST, FAMILIES[family].least)
    size = max(least, round(chosen.whole("tasks") * factor)) if is_drawn else chosen.whole("tasks")
    knobs = _knobs(chosen)
    if chosen.number("uneven"):
        knobs = replace(knobs, work_cv=float(np.exp(rng.uniform(*np.log(SPREADS)))))
    graph = generate(family, size, seed=int(rng.integers(1 << 31)), knobs=knobs)
    work = graph.work * float(np.exp(SCALE * rng.standard_normal()))
    if not chosen.number("scale"):
        return graph.replaced(work=work)
    factor = float(np.exp(chosen.number("scale") * rng.standard_normal()))
    return graph.replaced(work=work * factor, data=graph.data * factor)


def _knobs(chosen: Scenario) -> Knobs:
    kinds = chosen.settings.get("kinds", "drawn")
    return Knobs(
        level_spread=chosen.number("uneven"),
        kind_by="level" if kinds == "depth" else "random",
        kinds=PLAIN if kinds == "none" else GPU_KINDS,
    )


def _arrivals(chosen: Scenario, together: Problem, seed: int) -> Floats:
    """Arrival times for the load, from 0 on."""
    work = float(priced_work(together, class_prices(together)).sum()) / len(together.jobs)
    gap = work / (float(together.slot_counts.sum()) * chosen.number("load"))
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
