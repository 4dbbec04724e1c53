"""Relations between the tasks of a graph, and attention along them: what an encoder of graphs needs.

Dense relations are (num_tasks, num_tasks) tables, so they are for graphs of a few thousand tasks;
above that, attention goes along edges and to pooled tokens, by the same kernel.
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.sim.jit import kernel


@kernel
def descendants(order: Ints, succ_ptr: Ints, succ: Ints) -> Bools:
    """Transitive closure: whether a path leads from the task of the row to that of the column."""
    n = len(order)
    reach = np.zeros((n, n), np.bool_)
    for k in range(n - 1, -1, -1):
        i = order[k]
        mine = reach[i]
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            below = reach[succ[e]]
            for j in range(n):
                mine[j] |= below[j]
            mine[succ[e]] = True
    return reach


@kernel
def reduced(succ_ptr: Ints, succ: Ints, reach: Bools) -> Bools:
    """Whether each edge belongs to the transitive reduction: no other path joins its ends."""
    kept = np.ones(len(succ), np.bool_)
    for i in range(len(succ_ptr) - 1):
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            for other in range(succ_ptr[i], succ_ptr[i + 1]):
                if other != e and reach[succ[other], succ[e]]:
                    kept[e] = False
                    break
    return kept


@kernel
def hops(order: Ints, succ_ptr: Ints, succ: Ints) -> Ints:
    """Edges on the longest path to a task and from it: (2, num_tasks)."""
    n = len(order)
    found = np.zeros((2, n), np.int64)
    for k in range(n):
        i = order[k]
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            found[0, succ[e]] = max(found[0, succ[e]], found[0, i] + 1)
    for k in range(n - 1, -1, -1):
        i = order[k]
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            found[1, i] = max(found[1, i], found[1, succ[e]] + 1)
    return found


@kernel
def components(succ_ptr: Ints, succ: Ints) -> Ints:
    """The number of every task's connected part of the graph, in the order of their first tasks."""
    n = len(succ_ptr) - 1
    root = np.arange(n)
    for i in range(n):
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            one, two = i, succ[e]
            while root[one] != one:
                root[one] = root[root[one]]
                one = root[one]
            while root[two] != two:
                root[two] = root[root[two]]
                two = root[two]
            root[max(one, two)] = min(one, two)
    number = np.empty(n, np.int64)
    found = 0
    for i in range(n):
        if root[i] == i:
            number[i] = found
            found += 1
        else:
            number[i] = number[root[i]]
    return number


@kernel
def attend(q: Floats, k: Floats, v: Floats, size: Floats, pointer: Ints, index: Ints, out: Floats) -> None:
    """Softmax attention of one head along lists, into ``out``.

    Row i of ``q`` (n, w) looks at the rows ``index[pointer[i]:pointer[i + 1]]`` of ``k`` and ``v``
    (m, w), each of which counts ``exp(size)`` times, and at a null key of score 0 and value 0.
    """
    n, width = q.shape
    longest = 0
    for i in range(n):
        longest = max(longest, pointer[i + 1] - pointer[i])
    score = np.empty(longest)
    for i in range(n):
        first, last = pointer[i], pointer[i + 1]
        greatest = 0.0
        for e in range(first, last):
            j = index[e]
            dot = size[j]
            for w in range(width):
                dot += q[i, w] * k[j, w]
            score[e - first] = dot
            greatest = max(greatest, dot)
        total = np.exp(-greatest)
        for w in range(width):
            out[i, w] = 0.0
        for e in range(first, last):
            weight = np.exp(score[e - first] - greatest)
            total += weight
            j = index[e]
            for w in range(width):
                out[i, w] += weight * v[j, w]
        for w in range(width):
            out[i, w] /= total
