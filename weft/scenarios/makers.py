"""How each generator makes one problem of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.model.generate import generate, jobshop, jobshop_cluster, opgraph_cluster, tpch_cluster, tpch_like
from weft.model.problem import Objective, Problem
from weft.scenarios.recipes import late
from weft.scenarios.streams import read_template, with_probability
from weft.scenarios.tpch import tpch_names, tpch_suite
from weft.scenarios.workflows import posed, read_machines, workflow

if TYPE_CHECKING:
    from weft.scenarios.scenario import Scenario


def _jobshop(chosen: Scenario, split: str, index: int) -> Problem:
    machines = chosen.whole("machines")
    graph = jobshop(chosen.whole("jobs"), machines, seed=chosen.generator_seed(split, index))
    return posed(chosen, graph, jobshop_cluster(machines))


def _opgraph(chosen: Scenario, split: str, index: int) -> Problem:
    family = f"opgraph-{chosen.settings['kind']}"
    graph = generate(family, chosen.whole("tasks"), seed=chosen.generator_seed(split, index))
    return posed(chosen, graph, opgraph_cluster())


def _tpch(chosen: Scenario, split: str, index: int) -> Problem:
    queries = chosen.whole("queries")
    data = str(chosen.settings["data"])
    if not data:
        graph = tpch_like(queries, seed=chosen.generator_seed(split, index))
        return posed(chosen, graph, tpch_cluster())
    found = tpch_suite(data).instance(tpch_names(data, queries)[split][index]).problem
    return posed(chosen, found.graph, found.cluster)


def _stream(chosen: Scenario, split: str, index: int) -> Problem:
    graph, branch = read_template(chosen.recipe.graph), str(chosen.settings["branch"])
    if branch:
        graph = with_probability(graph, branch, chosen.number("p_c"))
    objective = Objective(chosen.recipe.metric, chosen.recipe.copies)
    return Problem(graph, read_machines(chosen.recipe.cluster), objective)


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
    "workflow": workflow,
    "jobshop": _jobshop,
    "opgraph": _opgraph,
    "tpch": _tpch,
    "stream": _stream,
    "files": _file,
}
"""Generator -> the problem at an index of a split."""
