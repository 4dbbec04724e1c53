"""Hypothesis strategies for graphs, clusters and problems.

Hypothesis draws a seed and a few sizes; the arrays come from a NumPy generator of that seed, so an
example costs little and shrinks to small sizes. What they are made by is in ``weft.testing.problems``.
"""

from __future__ import annotations

from hypothesis import strategies as st

from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.testing.problems import (
    COSTS,
    DATA,
    LINKS,
    SHAPES,
    make_cluster,
    make_graph,
    make_problem,
    make_tie_free,
)
from weft.testing.problems import make_data as make_data
from weft.testing.problems import make_edges as make_edges
from weft.testing.problems import with_needs as with_needs

SEEDS = st.integers(0, 2**32 - 1)


def graphs(max_tasks: int = 20) -> st.SearchStrategy[TaskGraph]:
    """Graphs of 0 to ``max_tasks`` tasks."""
    styles = (st.sampled_from(SHAPES), st.sampled_from(COSTS), st.sampled_from(DATA))
    return st.builds(make_graph, SEEDS, st.integers(0, max_tasks), *styles)


def clusters(max_devices: int = 16) -> st.SearchStrategy[Cluster]:
    """Clusters of 1 to ``max_devices`` devices, with and without slots, memory and capacities."""
    return st.builds(
        make_cluster,
        SEEDS,
        st.integers(1, max_devices),
        st.integers(1, 4),
        st.sampled_from(LINKS),
        is_plain=st.booleans(),
    )


def problems(max_tasks: int = 14, max_devices: int = 6) -> st.SearchStrategy[Problem]:
    """Problems with one job, or several with releases, owners and eligible devices."""
    return st.builds(
        make_problem,
        SEEDS,
        sizes=st.tuples(
            st.sampled_from((1, 1, 2, 3)),
            st.integers(0, max_tasks),
            st.integers(1, max_devices),
            st.integers(1, 4),
        ),
        graph_style=st.tuples(st.sampled_from(SHAPES), st.sampled_from(COSTS), st.sampled_from(DATA)),
        links=st.sampled_from(LINKS),
        is_plain=st.booleans(),
        has_copies=st.booleans(),
    )


def tie_free_problems(max_tasks: int = 14, max_devices: int = 5) -> st.SearchStrategy[Problem]:
    """Problems in which no two times are equal."""
    sizes = (st.integers(1, max_tasks), st.integers(1, max_devices))
    return st.builds(make_tie_free, SEEDS, SEEDS, *sizes, st.sampled_from(SHAPES))
