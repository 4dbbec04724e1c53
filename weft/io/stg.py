"""Standard Task Graph files: ``n``, then ``id cost number-of-predecessors predecessors...`` per task.

The first line does not count the dummy entry 0 and exit n + 1; they are left out of the graph when
they cost nothing. There is no communication; lines that start with # are comments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from weft.errors import InputError
from weft.io.formats import Loaded
from weft.io.sources import decode, located, shown
from weft.model.graph import TaskGraph

Line = tuple[int, list[str]]  # line number, words


def detect(head: bytes, path: Path) -> bool:
    """Whether the content starts with a lone number and then a task row."""
    lines = _lines(head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace"))[:2]
    if not lines or len(lines[0][1]) != 1 or not lines[0][1][0].isdecimal():
        return False
    return len(lines) == 1 or (len(lines[1][1]) > 2 and lines[1][1][0].isdecimal())


def read(data: bytes, path: Path) -> Loaded:
    """The task graph of an STG file."""
    with located(path, "tasks"):
        lines = _lines(decode(data, path))
        if not lines or len(lines[0][1]) != 1:
            raise InputError("expected the number of tasks on the first line", line=1)
        count = _whole(lines[0][1][0], lines[0][0])
        if count == 0:
            raise InputError("no tasks", line=lines[0][0])
        rows = lines[1:]
        if len(rows) != count + 2:
            last = lines[-1][0]
            raise InputError(
                f"expected {count + 2} task rows ({count} and two dummies), got {len(rows)}", line=last
            )
        return Loaded(graph=_without_dummies(_graph(rows, path.stem)))


def _lines(text: str) -> list[Line]:
    found = [(i, line.split("#")[0].split()) for i, line in enumerate(text.splitlines(), 1)]
    return [(i, words) for i, words in found if words]


def _whole(word: str, line: int) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > 18:
        raise InputError(f"expected a whole number >= 0, got {shown(word)}", line=line)
    return int(word)


def _graph(rows: Sequence[Line], name: str) -> TaskGraph:
    index: dict[int, int] = {}
    for line, words in rows:
        number = _whole(words[0], line)
        if number in index:
            raise InputError(f"task {number} is given twice", line=line)
        index[number] = len(index)
    costs = [_cost(words, line) for line, words in rows]
    pairs = [(parent, i) for i, (line, words) in enumerate(rows) for parent in _parents(words, line, index)]
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return TaskGraph(costs, edges[:, 0], edges[:, 1], names=[str(number) for number in index], name=name)


def _cost(words: Sequence[str], line: int) -> float:
    try:
        value = float(words[1]) if len(words) > 1 else float("nan")
    except ValueError:
        value = float("nan")
    if not 0 <= value < float("inf"):
        got = shown(words[1]) if len(words) > 1 else "nothing"
        raise InputError(f"expected a cost >= 0, got {got}", line=line)
    return value


def _parents(words: Sequence[str], line: int, index: dict[int, int]) -> list[int]:
    count = _whole(words[2], line) if len(words) > 2 else -1
    listed = words[3:]
    if count != len(listed):
        expected = "the number of predecessors" if count < 0 else f"{count} predecessors"
        raise InputError(f"expected {expected} of task {words[0]}, got {len(listed)}", line=line)
    numbers = [_whole(word, line) for word in listed]
    for number in numbers:
        if number not in index:
            raise InputError(f"unknown predecessor {number} of task {words[0]}", line=line)
    return [index[number] for number in dict.fromkeys(numbers)]


def _without_dummies(graph: TaskGraph) -> TaskGraph:
    """Leave out the first and last row where they cost nothing and nothing runs before or after."""
    keep = np.ones(graph.num_tasks, dtype=np.bool_)
    keep[0] = graph.work[0] > 0 or len(graph.predecessors(0)) > 0
    keep[-1] = graph.work[-1] > 0 or len(graph.successors(graph.num_tasks - 1)) > 0
    number = np.cumsum(keep) - 1
    inside = keep[graph.sources] & keep[graph.targets]
    return TaskGraph(
        graph.work[keep],
        number[graph.sources[inside]],
        number[graph.targets[inside]],
        names=[name for name, is_kept in zip(graph.names, keep.tolist(), strict=True) if is_kept],
        name=graph.name,
    )


def dump(graph: TaskGraph) -> bytes:
    """The graph as STG: tasks numbered from 1 in topological order, names and data left out."""
    if np.isnan(graph.work).any():
        at = int(np.argmax(np.isnan(graph.work)))
        raise InputError("STG needs one run time per task", field=f"tasks.{graph.names[at]}.work")
    order = graph.order.tolist()
    number = {task: i for i, task in enumerate(order, 1)}
    lines = [str(graph.num_tasks), "0 0 0"]
    for task in order:
        parents = sorted(number[p] for p in graph.predecessors(task).tolist()) or [0]
        lines.append(_row(number[task], float(graph.work[task]), parents))
    exits = [number[task] for task in order if not len(graph.successors(task))]
    lines.append(_row(graph.num_tasks + 1, 0.0, exits))
    return ("\n".join(lines) + "\n").encode("ascii")


def _row(number: int, cost: float, parents: Sequence[int]) -> str:
    shortest = int(cost) if cost == int(cost) else cost
    return " ".join(str(word) for word in (number, shortest, len(parents), *parents))
