"""Episodes of edge clusters as parts of a page: tasks on their clusters, and tasks alive over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.evaluation.report.blocks import Panel
from weft.evaluation.report.svg import HEIGHT, WIDTH, Axes, Series, line_chart
from weft.model.columns import Ints
from weft.model.elastic_run import CLUSTER, TASK, UNITS, ElasticRun

UNIT = "world steps"


def cluster_panel(title: str, run: ElasticRun) -> Panel:
    """Every task from its placement to its end, in a row of its cluster that is free."""
    order = np.lexsort((np.arange(len(run.start)), run.start))
    cluster, start, finish = clusters_of(run)[order], run.start[order], run.finish[order]
    place, depth = _places(cluster, start, finish, run.problem.num_clusters)
    return Panel(
        title=title,
        lanes=run.problem.cluster_names,
        lane=cluster,
        low=place / depth[cluster],
        high=(place + 1) / depth[cluster],
        start=start.astype(np.float64),
        finish=finish.astype(np.float64),
        kind=run.kind[order],
        is_copy=np.zeros(len(order), np.int64),
        names=tuple(f"task {j}" for j in order.tolist()),
        size=np.ones(len(order), np.int64),
        busy=tuple(shares_of(run).max(axis=1).tolist()),
    )


def clusters_of(run: ElasticRun) -> Ints:
    """Where each task ran; (J,)."""
    found = np.zeros(len(run.finish), np.int64)
    found[run.rows[:, TASK]] = run.rows[:, CLUSTER]
    return found


def _places(cluster: Ints, start: Ints, finish: Ints, num_clusters: int) -> tuple[Ints, Ints]:
    """The row of its cluster that each task is drawn in, (J,), and how many rows there are, (num_clusters,)."""
    free: list[list[int]] = [[] for _ in range(num_clusters)]
    place = np.zeros(len(cluster), np.int64)
    for k, (n, begin, end) in enumerate(zip(cluster.tolist(), start.tolist(), finish.tolist(), strict=True)):
        at = next((row for row, until in enumerate(free[n]) if until <= begin), len(free[n]))
        free[n][at : at + 1] = [end]
        place[k] = at
    return place, np.array([max(1, len(rows)) for rows in free], np.int64)


def shares_of(run: ElasticRun) -> np.ndarray:
    """Share of its units of each resource that each cluster gave, over the whole run; (N, R)."""
    given = np.zeros(run.problem.capacity.shape)
    np.add.at(given, run.rows[:, CLUSTER], run.rows[:, UNITS:])
    return np.asarray(given / (run.problem.capacity * int(run.finish.max())))


def alive_chart(
    runs: Sequence[tuple[str, ElasticRun, int]],
    *,
    has_legend: bool,
    size: tuple[float, float] = (WIDTH, HEIGHT),
) -> str:
    """Tasks that have arrived and not ended, a line for each name, run and look."""
    series = [
        Series(name, np.arange(len(one.alive), dtype=np.float64), one.alive.astype(np.float64), look=look)
        for name, one, look in runs
    ]
    axes = Axes(UNIT, "tasks alive", *size, y_from_zero=True, has_legend=has_legend)
    return line_chart(series, axes, is_step=True, has_marks=False)
