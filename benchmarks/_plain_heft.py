"""HEFT in plain Python, as a careful programmer writes it from the paper: lists, bisection, no packages.

What weft's kernels are timed against besides the peer, and what tells a difference in definition from
one in quality: it can weigh transfers in the ranks as the peer does.
"""

from __future__ import annotations

from bisect import bisect_right

Edges = list[tuple[int, int, float]]


def plain_heft(
    work: list[float], edges: Edges, speeds: list[float], bandwidth: float, *, self_links: bool = False
) -> float:
    """The makespan. Topcuoglu, Hariri, Wu (2002): upward rank, earliest finish with insertion.

    Parameters
    ----------
    self_links
        Take the mean transfer time over all links, those from a device to itself included, on which
        data takes no time; else over pairs of different devices, as in the paper.
    """
    parents: list[list[tuple[int, float]]] = [[] for _ in work]
    children: list[list[tuple[int, float]]] = [[] for _ in work]
    for source, target, data in edges:
        parents[target].append((source, data / bandwidth))
        children[source].append((target, data / bandwidth))
    share = (len(speeds) - 1) / (len(speeds) + 1) if self_links else 1.0
    rank, place = _upward_rank(work, parents, children, sum(1.0 / s for s in speeds) / len(speeds), share)
    starts: list[list[float]] = [[] for _ in speeds]
    ends: list[list[float]] = [[] for _ in speeds]
    finish, device = [0.0] * len(work), [0] * len(work)
    for i in sorted(range(len(work)), key=lambda i: (-rank[i], place[i])):
        best, best_start, best_device = float("inf"), 0.0, 0
        remote, remote_from, other, local = _arrivals(parents[i], finish, device)
        for d, speed in enumerate(speeds):
            run = work[i] / speed
            ready = max(other if d == remote_from else remote, local.get(d, 0.0))
            if ready + run < best:
                start = _first_gap(starts[d], ends[d], ready, run)
                if start + run < best:
                    best, best_start, best_device = start + run, start, d
        k = bisect_right(starts[best_device], best_start)
        starts[best_device].insert(k, best_start)
        ends[best_device].insert(k, best)
        finish[i], device[i] = best, best_device
    return max(finish)


def _upward_rank(
    work: list[float],
    parents: list[list[tuple[int, float]]],
    children: list[list[tuple[int, float]]],
    pace: float,
    share: float,
) -> tuple[list[float], list[int]]:
    """Longest mean path to an exit, and the place of every task in a topological order."""
    missing = [len(found) for found in parents]
    order = [i for i, count in enumerate(missing) if not count]
    for i in order:  # grows while it is walked
        for child, _ in children[i]:
            missing[child] -= 1
            if not missing[child]:
                order.append(child)
    rank, place = [0.0] * len(work), [0] * len(work)
    for k in range(len(order) - 1, -1, -1):
        i = order[k]
        place[i] = k
        rank[i] = work[i] * pace + max([share * moved + rank[j] for j, moved in children[i]], default=0.0)
    return rank, place


def _arrivals(
    parents: list[tuple[int, float]], finish: list[float], device: list[int]
) -> tuple[float, int, float, dict[int, float]]:
    """Last data over links and from where, the last from elsewhere, and last finish per device."""
    remote, remote_from, other = 0.0, -1, 0.0
    local: dict[int, float] = {}
    for parent, moved in parents:
        source, end = device[parent], finish[parent]
        local[source] = max(local.get(source, 0.0), end)
        if source == remote_from:
            remote = max(remote, end + moved)
        elif end + moved > remote:
            remote, remote_from, other = end + moved, source, remote
        else:
            other = max(other, end + moved)
    return remote, remote_from, other, local


def _first_gap(starts: list[float], ends: list[float], ready: float, run: float) -> float:
    """The earliest start from ``ready`` on in an idle time that is long enough."""
    for k in range(bisect_right(ends, ready), len(starts)):
        if ready + run <= starts[k]:
            return ready
        ready = max(ready, ends[k])
    return ready
