"""Streams: jobs of one graph that keep arriving, and the rules under which they are dispatched."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InputError
from weft.io.files import read_graph
from weft.io.native import graph_from_document
from weft.io.sources import inside
from weft.io.times import read_times
from weft.kinds import QUEUES
from weft.model.arrivals import Arrivals
from weft.model.conditional import SIZES, RandomStream, random_stream
from weft.model.graph import TaskGraph
from weft.model.stream import Drift, StreamProblem

if TYPE_CHECKING:
    from weft.scenarios.scenario import Scenario

BRANCH = 0
"""The branch group that a setting varies, of a task that may have several."""


def described_stream(chosen: Scenario, split: str, index: int) -> StreamProblem:
    """The stream at an index of a split; indices differ in what happens, not in the problem."""
    if chosen.kind is not QUEUES:
        raise InputError(f"scenario {chosen.name} is no stream of jobs", field="generator")
    if chosen.recipe.generator == "random-stream":
        return _random_stream(chosen, split, index, str(chosen.settings["arrivals"]))
    branch = str(chosen.settings["branch"])
    return StreamProblem(
        chosen.problem(split, index),
        _arrivals(chosen),
        chosen.number("expiry") or float("inf"),
        chosen.number("idle_block") if chosen.settings["idle"] == "block" else 0.0,
        chosen.number("forget"),
        chosen.settings["estimate"] == "start",
        (branch,) if branch else None,
        _drift(chosen),
    )


def _arrivals(chosen: Scenario) -> Arrivals:
    """The law of the settings; a trace has as many jobs as its file, or the first ``jobs`` of them."""
    law, file, jobs = str(chosen.settings["arrivals"]), str(chosen.settings["trace"]), chosen.whole("jobs")
    if (law == "trace") != bool(file):
        expected = "a file of arrival times" if law == "trace" else f"no file with arrivals={law}"
        raise InputError(f"expected {expected}, got {file!r}", field="settings.trace")
    try:
        times = read_times(file)[:jobs] if file else ()
    except InputError as error:
        raise error.at(field="settings.trace") from None
    return Arrivals(law, len(times) or jobs, chosen.number("gap"), chosen.number("spread"), times)


def _drift(chosen: Scenario) -> Drift:
    return Drift(
        str(chosen.settings["drift"]),
        chosen.number("drift_to"),
        chosen.number("drift_at"),
        chosen.whole("drift_steps"),
        chosen.number("drift_size"),
    )


def _random_stream(chosen: Scenario, split: str, index: int, law: str) -> StreamProblem:
    """A stream whose problem and gaps both are drawn; waiting is free, and no job expires."""
    gap = drawn_stream(chosen, split, index).gap
    arrivals = Arrivals(law, chosen.whole("jobs"), gap, gap / 2 if law == "normal" else 0.0)
    forget = chosen.number("forget")
    return StreamProblem(chosen.problem(split, index), arrivals, float("inf"), 0.0, forget, False, None)


def drawn_stream(chosen: Scenario, split: str, index: int) -> RandomStream:
    """The random graph, cluster and load at an index of a split."""
    loads = chosen.number("load_low"), chosen.number("load_high")
    if loads[0] > loads[1]:
        raise InputError(f"expected at most load_high={loads[1]}, got {loads[0]}", field="settings.load_low")
    ranges = replace(SIZES[str(chosen.settings["size"])], load=loads)
    return random_stream(chosen.generator_seed(split, index), ranges, load=chosen.number("load"))


@functools.lru_cache(maxsize=16)
def read_template(graph: str) -> TaskGraph:
    """The graph of every job, by path or from its document as JSON."""
    if not graph:
        raise InputError("expected a graph: a file or a table", field="graph")
    if not graph.startswith("{"):
        return read_graph(graph)
    with inside("graph"):
        return graph_from_document(json.loads(graph))


def with_probability(graph: TaskGraph, task: str, probability: float) -> TaskGraph:
    """The graph with this probability for the first edge of a task's branch; the others share the rest."""
    edges = _branch_edges(graph, task)
    column = graph.probability.copy()
    rest = column[edges[1:]]
    share = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1.0 / len(rest))
    column[edges[0]] = probability
    column[edges[1:]] = (1.0 - probability) * share
    return graph.replaced(probability=column)


def _branch_edges(graph: TaskGraph, task: str) -> list[int]:
    if task not in graph.index:
        raise InputError(
            f"no task {task!r} in graph {graph.name!r}{_choices(graph)}", field="settings.branch"
        )
    is_own = (graph.sources == graph.index[task]) & (graph.branch == BRANCH)
    edges = np.flatnonzero(is_own).tolist()
    if len(edges) < 2:
        raise InputError(
            f"expected a task with at least two edges of branch {BRANCH}, got {task!r}{_choices(graph)}",
            field="settings.branch",
        )
    return edges


def _choices(graph: TaskGraph) -> str:
    sources = np.unique(graph.sources[graph.branch == BRANCH]).tolist()
    if not sources:
        return "; it has no branches: set branch to an empty text"
    return f"; {', '.join(graph.names[i] for i in sources)} branch"
