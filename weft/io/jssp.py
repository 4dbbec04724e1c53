"""Job-shop text: standard, Taillard's two matrices, and flexible job shops, read and written.

A shop becomes a problem with machines of its own: one device class and one device per machine,
and every job a chain of operations. Imports only the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.io.formats import Loaded
from weft.io.sources import decode, located, shown
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Floats, Ints, TaskGraph
from weft.model.problem import Objective, Problem

MOST_MACHINES = 5_000
MOST_CELLS = 200_000_000
"""Most machines, and largest operations x machines table, that are built; larger input is refused."""

Option = tuple[int, int]
"""Machine (from 0) and run time."""


@dataclass(frozen=True)
class Shop:
    """Jobs as chains of operations, each with the machines it may use."""

    num_machines: int
    jobs: tuple[tuple[tuple[Option, ...], ...], ...]


class _Line(NamedTuple):
    number: int
    tokens: list[str]


def detect(head: bytes, path: Path) -> bool:
    """Whether the first bytes look like a job shop: words at most, then two numbers or more."""
    if head.lstrip()[:1] in (b"{", b"[", b"<"):
        return False
    text = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace")
    return _header_index(_lines(text)) is not None


def read(data: bytes, path: Path) -> Loaded:
    """The job shop of a file, as a problem with its own machines."""
    return Loaded(problem=read_text(decode(data, path), path))


def read_text(text: str, path: Path | None = None) -> Problem:
    """The job shop in this text, whichever of the three formats it has; ``path`` names it."""
    with located(path):
        lines = _lines(text)
        at = _header_index(lines)
        if at is None:
            raise InputError(
                "expected job-shop text: a line with the numbers of jobs and machines, then the jobs", line=1
            )
        shop = _PARSERS[_style(lines[at], lines[at + 1 :])](lines[at], lines[at + 1 :])
        return shop_problem(shop, path.stem if path else "job-shop")


def job_shop_problem(machines: npt.ArrayLike, durations: npt.ArrayLike, name: str = "job-shop") -> Problem:
    """A job shop from two matrices (jobs x operations): machine from 0, and run time."""
    machine_table = np.array(machines, dtype=np.int64)
    duration_table = np.array(durations, dtype=np.float64)
    if machine_table.ndim != 2 or machine_table.shape != duration_table.shape or not machine_table.size:
        raise InputError(
            f"expected two jobs x operations matrices, got {machine_table.shape} and {duration_table.shape}"
        )
    if machine_table.min() < 0:
        raise InputError(f"expected machines >= 0, got {machine_table.min()}", field="machines")
    num_jobs, num_ops = machine_table.shape
    num_machines = int(machine_table.max()) + 1
    times = _empty_times(num_jobs * num_ops, num_machines)
    times[np.arange(len(times)), machine_table.ravel()] = duration_table.ravel()
    return _problem(times, np.full(num_jobs, num_ops), name)


def flexible_problem(
    jobs: Sequence[Sequence[Sequence[Option]]], num_machines: int, name: str = "flexible-job-shop"
) -> Problem:
    """A flexible job shop: per job, per operation, the (machine from 0, run time) options."""
    frozen = tuple(tuple(tuple((m, t) for m, t in options) for options in job) for job in jobs)
    return shop_problem(Shop(num_machines, frozen), name)


def shop_problem(shop: Shop, name: str) -> Problem:
    """The problem of a shop: classes ``m0``, ``m1``, ... with one device each."""
    operations = [options for job in shop.jobs for options in job]
    if not operations:
        raise InputError("expected at least one operation, got none")
    times = _empty_times(len(operations), shop.num_machines)
    for row, options in enumerate(operations):
        if not options:
            raise InputError("expected at least one machine per operation, got none")
        for machine, time in options:
            if not 0 <= machine < shop.num_machines:
                raise InputError(f"expected a machine in 0..{shop.num_machines - 1}, got {machine}")
            times[row, machine] = time
    return _problem(times, np.array([len(job) for job in shop.jobs]), name)


def write(problem: Problem, style: str = "standard") -> str:
    """Text of a problem whose jobs are chains on single machines; the inverse of :func:`read_text`."""
    if style not in _WRITERS:
        raise InputError(f"expected one of {', '.join(_WRITERS)}, got {style!r}", field="style")
    return _WRITERS[style](problem_shop(problem))


def problem_shop(problem: Problem) -> Shop:
    """The shop behind a problem: chains of operations with whole run times."""
    graph = problem.graph
    if problem.device_counts.max() > 1:
        raise InputError("expected one device per class: this problem is no job shop", field="cluster")
    if max(np.bincount(graph.sources, minlength=1).max(), np.bincount(graph.targets, minlength=1).max()) > 1:
        raise InputError("expected chains of operations: some task has two neighbours", field="edges")
    following = np.full(graph.num_tasks, -1, dtype=np.int64)
    following[graph.sources] = graph.targets
    jobs = []
    for first in np.flatnonzero(np.diff(graph.predecessor_pointer) == 0).tolist():
        chain = []
        at = first
        while at >= 0:
            chain.append(_options(problem, at))
            at = int(following[at])
        jobs.append(tuple(chain))
    return Shop(problem.cluster.num_classes, tuple(jobs))


def _options(problem: Problem, task: int) -> tuple[Option, ...]:
    times = problem.run_times[task]
    machines = np.flatnonzero(np.isfinite(times))
    if (times[machines] != np.floor(times[machines])).any():
        raise InputError(
            f"expected whole run times, got {times[machines].tolist()}",
            field=f"tasks.{problem.task_name(task)}",
        )
    return tuple((m, int(times[m])) for m in machines.tolist())


def _empty_times(num_ops: int, num_machines: int) -> Floats:
    if num_machines > MOST_MACHINES:
        raise InputError(f"expected at most {MOST_MACHINES} machines, got {num_machines}")
    if num_ops * num_machines > MOST_CELLS:
        raise InputError(f"expected operations x machines <= {MOST_CELLS}, got {num_ops} x {num_machines}")
    return np.full((num_ops, num_machines), np.inf)


def _problem(times: Floats, num_ops: Ints, name: str) -> Problem:
    """The problem of (operations, machines) run times, given the number of operations per job."""
    ends = np.cumsum(num_ops)
    inside = np.ones(len(times), dtype=np.bool_)
    inside[ends - 1] = False
    sources = np.flatnonzero(inside)
    classes = tuple(f"m{m}" for m in range(times.shape[1]))
    graph = TaskGraph(
        np.full(len(times), np.nan),
        sources,
        sources + 1,
        names=tuple(f"J{j}-O{o}" for j, count in enumerate(num_ops.tolist()) for o in range(count)),
        kinds=("operation",),
        classes=classes,
        times=times,
        name=name,
        time_unit="unit",
    )
    cluster = Cluster.uniform([DeviceClass(c) for c in classes], [1] * len(classes), name=f"{name}-machines")
    return Problem(graph, cluster, Objective(copies=False), name=name)


# -- reading ------------------------------------------------------------------------------------------


def _lines(text: str) -> list[_Line]:
    """Lines with content, numbered from 1; ``#`` starts a comment."""
    split = ((i, line.partition("#")[0].split()) for i, line in enumerate(text.splitlines(), start=1))
    return [_Line(i, tokens) for i, tokens in split if tokens]


def _header_index(lines: list[_Line]) -> int | None:
    """The first line that holds numbers only, at least two of them."""
    for i, line in enumerate(lines):
        if all(_is_number(token) for token in line.tokens):
            return i if len(line.tokens) >= 2 else None
    return None


def _is_whole(token: str) -> bool:
    return token.isascii() and token.isdigit() and len(token) <= 15


def _is_number(token: str) -> bool:
    whole, _, fraction = token.removeprefix("-").partition(".")
    return _is_whole(whole) and (not fraction or _is_whole(fraction))


def _style(header: _Line, rows: list[_Line]) -> str:
    """Tell the formats apart by the header and the shape of the first row."""
    if any(row.tokens[0].lower().startswith("times") for row in rows):
        return "taillard"
    if len(header.tokens) == 3:
        return "flexible"
    if not rows or not all(_is_whole(token) for token in [*header.tokens[:2], *rows[0].tokens]):
        return "standard"
    num_jobs, num_machines = int(header.tokens[0]), int(header.tokens[1])
    first = [int(token) for token in rows[0].tokens]
    if len(first) == 2 * num_machines and sorted(first[::2]) == list(range(num_machines)):
        return "standard"
    if len(rows) == 2 * num_jobs and len(first) == num_machines:
        return "taillard"
    return "flexible" if _is_flexible_row(first) else "standard"


def _is_flexible_row(row: list[int]) -> bool:
    at = 1
    for _ in range(min(row[0], len(row))):
        at += 1 + 2 * row[at] if at < len(row) else 1
    return at == len(row)


def _numbers(line: _Line) -> list[int]:
    for token in line.tokens:
        if not _is_whole(token):
            raise InputError(f"expected a whole number >= 0, got {shown(token)}", line=line.number)
    return [int(token) for token in line.tokens]


def _size(header: _Line) -> tuple[int, int]:
    """Numbers of jobs and machines."""
    num_jobs, num_machines = _numbers(_Line(header.number, header.tokens[:2]))
    if not num_jobs or not num_machines:
        raise InputError(
            f"expected jobs and machines >= 1, got {num_jobs} {num_machines}", line=header.number
        )
    return num_jobs, num_machines


def _matrix(rows: list[_Line], num_rows: int, width: int, what: str, end: int) -> list[list[int]]:
    """A number of rows of as many numbers each; ``end`` is the line to name when some are missing."""
    if len(rows) != num_rows:
        line = rows[num_rows].number if len(rows) > num_rows else end
        raise InputError(f"expected {num_rows} rows of {what}, got {len(rows)}", line=line)
    table = []
    for row in rows:
        numbers = _numbers(row)
        if len(numbers) != width:
            raise InputError(f"expected {width} numbers ({what}), got {len(numbers)}", line=row.number)
        table.append(numbers)
    return table


def _machine(number: int, first: int, num_machines: int, line: int) -> int:
    """The machine index from 0 of a number counted from ``first``."""
    if not first <= number < first + num_machines:
        raise InputError(
            f"expected a machine in {first}..{first + num_machines - 1}, got {number}", line=line
        )
    return number - first


def _read_standard(header: _Line, rows: list[_Line]) -> Shop:
    num_jobs, num_machines = _size(header)
    table = _matrix(rows, num_jobs, 2 * num_machines, "machine and time pairs", [header, *rows][-1].number)
    jobs = tuple(
        tuple(
            ((_machine(numbers[k], 0, num_machines, row.number), numbers[k + 1]),)
            for k in range(0, 2 * num_machines, 2)
        )
        for row, numbers in zip(rows, table, strict=True)
    )
    return Shop(num_machines, jobs)


def _read_taillard(header: _Line, rows: list[_Line]) -> Shop:
    num_jobs, num_machines = _size(header)
    end = [header, *rows][-1].number
    rows = [line for line in rows if line.tokens[0].lower() not in ("times", "machines")]
    if len(rows) != 2 * num_jobs:
        raise InputError(
            f"expected {num_jobs} rows of times and {num_jobs} rows of machines, got {len(rows)} rows",
            line=end,
        )
    times = _matrix(rows[:num_jobs], num_jobs, num_machines, "times", end)
    machines = _matrix(rows[num_jobs:], num_jobs, num_machines, "machines", end)
    jobs = tuple(
        tuple(((_machine(m, 1, num_machines, row.number), t),) for m, t in zip(ms, ts, strict=True))
        for row, ms, ts in zip(rows[num_jobs:], machines, times, strict=True)
    )
    return Shop(num_machines, jobs)


def _read_flexible(header: _Line, rows: list[_Line]) -> Shop:
    num_jobs, num_machines = _size(header)
    if len(rows) != num_jobs:
        line = rows[num_jobs].number if len(rows) > num_jobs else [header, *rows][-1].number
        raise InputError(f"expected {num_jobs} jobs, one per line, got {len(rows)}", line=line)
    return Shop(num_machines, tuple(_flexible_job(row, num_machines) for row in rows))


def _flexible_job(line: _Line, num_machines: int) -> tuple[tuple[Option, ...], ...]:
    numbers = _numbers(line)
    if not numbers[0]:
        raise InputError("expected a job with at least one operation, got 0", line=line.number)
    job: list[tuple[Option, ...]] = []
    at = 1
    while at < len(numbers) and len(job) < numbers[0]:
        pairs = numbers[at + 1 : at + 1 + 2 * numbers[at]]
        if not pairs or len(pairs) != 2 * numbers[at]:
            raise InputError(
                f"operation {len(job) + 1}: expected {numbers[at] or 'at least one'} machine and time pairs, "
                f"got {len(pairs)} numbers",
                line=line.number,
            )
        job.append(
            tuple(
                (_machine(m, 1, num_machines, line.number), t)
                for m, t in zip(pairs[::2], pairs[1::2], strict=True)
            )
        )
        at += 1 + len(pairs)
    if len(job) != numbers[0] or at != len(numbers):
        extra = f" and {len(numbers) - at} numbers more" if at < len(numbers) else ""
        raise InputError(f"expected {numbers[0]} operations, got {len(job)}{extra}", line=line.number)
    return tuple(job)


# -- writing ------------------------------------------------------------------------------------------


def _single(shop: Shop) -> list[list[Option]]:
    """One option per operation and as many operations per job as machines."""
    for j, job in enumerate(shop.jobs):
        if len(job) != shop.num_machines or any(len(options) != 1 for options in job):
            raise InputError(
                f"job {j}: expected {shop.num_machines} operations with one machine each; "
                "write it as 'flexible' instead"
            )
    return [[options[0] for options in job] for job in shop.jobs]


def _rows(table: list[list[int]]) -> list[str]:
    return [" ".join(str(number) for number in row) for row in table]


def _write_standard(shop: Shop) -> str:
    rows = _rows([[number for option in job for number in option] for job in _single(shop)])
    return "\n".join([f"{len(shop.jobs)} {shop.num_machines}", *rows, ""])


def _write_taillard(shop: Shop) -> str:
    jobs = _single(shop)
    times = _rows([[time for _, time in job] for job in jobs])
    machines = _rows([[machine + 1 for machine, _ in job] for job in jobs])
    header = ["Nb of jobs, Nb of Machines", f"{len(jobs)} {shop.num_machines}"]
    return "\n".join([*header, "Times", *times, "Machines", *machines, ""])


def _write_flexible(shop: Shop) -> str:
    rows = []
    for job in shop.jobs:
        row = [len(job)]
        for options in job:
            row += [len(options), *(number for m, t in options for number in (m + 1, t))]
        rows.append(row)
    count = [len(options) for job in shop.jobs for options in job]
    mean = f"{sum(count) / len(count):.2f}"
    return "\n".join([f"{len(shop.jobs)} {shop.num_machines} {mean}", *_rows(rows), ""])


_PARSERS: dict[str, Callable[[_Line, list[_Line]], Shop]] = {
    "standard": _read_standard,
    "taillard": _read_taillard,
    "flexible": _read_flexible,
}
_WRITERS: dict[str, Callable[[Shop], str]] = {
    "standard": _write_standard,
    "taillard": _write_taillard,
    "flexible": _write_flexible,
}
