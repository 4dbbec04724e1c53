"""Rules of the validator for launches. Plain Python, no code of the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from weft.model.oracle_input import OracleInput
from weft.model.schedule import DONE
from weft.model.violation import Violation, broken, later


def check_launches(given: OracleInput) -> Iterator[Violation]:
    """Rows of one launch are done on one device, each follows its only parent without a gap, and saves time there."""
    if not given.launches:
        return
    only = _only_parents(given)
    for rows in given.launches.values():
        if len(rows) == 1:
            yield broken(given, "launch", "is alone in its launch", rows[0])
        for row in rows:
            if given.outcome[row] != DONE:
                yield broken(given, "launch", "is part of a launch and not done", row)
        for before, row in pairwise(rows):
            detail = _fault(given, only, before, row)
            if detail is not None:
                yield broken(given, "launch", detail, row)


def _fault(given: OracleInput, only: dict[int, int], before: int, row: int) -> str | None:
    """Why a row cannot follow the one before it within a launch; None: it can."""
    former = given.task_name(given.task[before])
    if given.device[row] != given.device[before]:
        return f"is on another device than {former} of its launch"
    if only.get(given.task[row]) != given.task[before]:
        return f"does not follow {former}, which is before it in its launch, as its only child"
    if given.share_saved(given.task[row], given.class_of[given.device[row]]) <= 0.0:
        return "cannot follow within a launch on this class"
    end, start = given.finish[before], given.start[row]
    if later(given, end, start) or later(given, start, end):
        return f"starts at {start}, {former} of its launch ends at {end}"
    return None


def _only_parents(given: OracleInput) -> dict[int, int]:
    """The parent of every task that has one alone, whose only child it is, over an edge of no branch."""
    found: dict[int, int] = {}
    for j, graph in enumerate(given.graphs):
        children: dict[int, list[int]] = {}
        parents: dict[int, list[int]] = {}
        for source, target, branch in zip(
            graph.sources.tolist(), graph.targets.tolist(), graph.branch.tolist(), strict=True
        ):
            children.setdefault(source, []).append(target)
            parents.setdefault(target, []).append(source if branch < 0 else -1)
        for target, own in parents.items():
            if len(own) == 1 and own[0] >= 0 and len(children[own[0]]) == 1:
                found[given.first[j] + target] = given.first[j] + own[0]
    return found
