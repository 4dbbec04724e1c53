"""How each generator makes one problem of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.model.generate import generate, jobshop, jobshop_cluster, opgraph_cluster, tpch_cluster, tpch_like
from weft.model.problem import Objective, Problem
from weft.scenarios.streams import drawn_stream, read_template, with_probability
from weft.scenarios.tpch import tpch_makers, tpch_names
from weft.scenarios.workflows import arriving, posed, read_file, read_machines

if TYPE_CHECKING:
    from weft.scenarios.scenario import Scenario


def jobshop_problem(chosen: Scenario, split: str, index: int) -> Problem:
    """A random job shop."""
    machines = chosen.whole("machines")
    graph = jobshop(chosen.whole("jobs"), machines, seed=chosen.generator_seed(split, index))
    return posed(chosen, graph, jobshop_cluster(machines))


def opgraph_problem(chosen: Scenario, split: str, index: int) -> Problem:
    """A random graph of operators."""
    family = f"opgraph-{chosen.settings['kind']}"
    graph = generate(family, chosen.whole("tasks"), seed=chosen.generator_seed(split, index))
    return posed(chosen, graph, opgraph_cluster())


def tpch_problem(chosen: Scenario, split: str, index: int) -> Problem:
    """Queries like those of TPC-H, or real ones from a folder."""
    queries = chosen.whole("queries")
    data = str(chosen.settings["data"])
    if not data:
        graph = tpch_like(queries, seed=chosen.generator_seed(split, index))
        return posed(chosen, graph, tpch_cluster())
    found = tpch_makers(data)[tpch_names(data, queries)[split][index]]()
    return posed(chosen, found.graph, found.cluster)


def stream_problem(chosen: Scenario, split: str, index: int) -> Problem:
    """The graph that every job of a stream has, on its cluster."""
    graph, branch = read_template(chosen.recipe.graph), str(chosen.settings["branch"])
    if branch:
        graph = with_probability(graph, branch, chosen.number("p_c"))
    objective = Objective(chosen.recipe.metric, chosen.recipe.copies)
    return Problem(graph, read_machines(chosen.recipe.cluster), objective)


def random_stream_problem(chosen: Scenario, split: str, index: int) -> Problem:
    """A random graph and cluster of a stream."""
    return drawn_stream(chosen, split, index).problem


def file_problem(chosen: Scenario, split: str, index: int) -> Problem:
    """A workflow or problem file; with a load: the stream of seed 0."""
    return (
        arriving(chosen, split, index, 0)
        if chosen.is_arriving
        else read_file(chosen, chosen.recipe.files[index])
    )
