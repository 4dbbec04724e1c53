"""Why a task runs here and then: what held its start, where else it could have run, its slack.

Plain Python on a finished :class:`~weft.model.schedule.Schedule`; imports the model only.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.errors import InputError
from weft.model.graph import Floats, Ints
from weft.model.problem import Problem
from weft.model.schedule import DONE, Placement, Schedule
from weft.tables import did_you_mean


@dataclass(frozen=True)
class Cause:
    """What held the start of an execution."""

    reason: str
    """release, data, busy, or choice (nothing held it: the scheduler put it there)."""
    time: float
    """When that came to an end; for a choice, when it could have started."""
    text: str
    """The same for a person."""
    row: int | None = None
    """Row of the schedule that was waited for, or that came right before on the device."""


@dataclass(frozen=True)
class Alternative:
    """What another device would have offered, everything else fixed."""

    device: str
    ready: float
    """When all input data would be there; infinity if the task cannot run there."""
    start: float
    finish: float


@dataclass(frozen=True)
class Link:
    """One execution of the chain and what held its start."""

    task: str
    placement: Placement
    reason: str


@dataclass(frozen=True)
class Explanation:
    """Why a task runs where and when it does; ``str()`` is the summary."""

    task: str
    kind: str
    placement: Placement
    """The copy that finished first."""
    copies: tuple[Placement, ...]
    """Its other executions."""
    cause: Cause
    alternatives: tuple[Alternative, ...]
    """Every other device, soonest finish first."""
    slack: float
    """How much later it could finish without moving the makespan, orders and the rest kept."""
    is_critical: bool
    """Whether any delay moves the makespan."""
    chain: tuple[Link, ...]
    """What it waited for, what that waited for, and so on; from the start to this task."""
    time_unit: str

    def __str__(self) -> str:
        unit, at = self.time_unit, self.placement
        lines = [f"{self.task} ({self.kind}) runs on {at.device} from {at.start:g} to {at.finish:g} {unit}"]
        lines += [f"  also on {c.device} from {c.start:g} to {c.finish:g} {unit}" for c in self.copies]
        lines += [f"why then: {self.cause.text}", f"why here: {self._why_here()}", *self._table()]
        if self.is_critical:
            lines.append("slack: none, it is on the critical chain: any delay moves the makespan")
        else:
            lines.append(f"slack: {self.slack:g} {unit} before the makespan moves, if the order is kept")
        return "\n".join([*lines, "chain back to the start:", *self._chain_lines()])

    def _why_here(self) -> str:
        possible = [a for a in self.alternatives if np.isfinite(a.finish)]
        if not possible:
            return "no other device can run it"
        best, ours = possible[0], self.placement.finish
        if best.finish < ours * (1 - 1e-9):
            return f"{best.device} would have finished it {ours - best.finish:g} sooner; the rest decided"
        return f"no other device would have finished it sooner (next: {best.device} at {best.finish:g})"

    def _table(self, most: int = 12) -> list[str]:
        shown = self.alternatives[:most]
        if not shown:
            return []
        width = max(len("elsewhere"), *(len(a.device) for a in shown))
        lines = [f"  {'elsewhere':<{width}}  {'data there':>11}  {'start':>11}  {'finish':>11}"]
        for a in shown:
            cells = f"{a.ready:>11g}  {a.start:>11g}  {a.finish:>11g}"
            lines.append(f"  {a.device:<{width}}  {cells if np.isfinite(a.finish) else 'cannot run there'}")
        return [*lines, f"  and {len(self.alternatives) - most} more"] if self.alternatives[most:] else lines

    def _chain_lines(self, most: int = 12) -> list[str]:
        words = {"data": "data from above", "busy": "device busy with the above", "release": "its release"}
        lines = []
        for link in self.chain:
            at, why = link.placement, words.get(link.reason, "nothing held it")
            lines.append(f"  {link.task} on {at.device}, {at.start:g} to {at.finish:g}: {why}")
        if len(lines) > most:
            lines[2 : len(lines) - most + 3] = [f"  ... {len(lines) - most + 1} more ..."]
        return lines


def explain(schedule: Schedule, task: str | int) -> Explanation:
    """Explain the copy of this task that finished first.

    Parameters
    ----------
    task
        The name as the schedule shows it (``job/task`` if there are several jobs), or its number.
    """
    number = _number(schedule.problem, task)
    view = _View(schedule)
    rows = view.rows.get(number, [])
    if not rows:
        raise InputError(f"task {schedule.problem.task_name(number)!r} never ran", field="task")
    main = min(rows, key=lambda row: (schedule.finish[row], row))
    slack = max(0.0, float(_latest_finish(view)[main] - schedule.finish[main]))
    cause = _cause(view, main)
    problem = schedule.problem
    graph = problem.jobs[int(problem.job_of[number])].graph
    return Explanation(
        problem.task_name(number),
        graph.kinds[graph.kind[number - int(problem.offsets[problem.job_of[number]])]],
        schedule.placement(main),
        tuple(schedule.placement(row) for row in rows if row != main),
        cause,
        _alternatives(view, main),
        0.0 if slack <= view.tolerance else slack,
        slack <= view.tolerance,
        _chain(view, main, cause),
        schedule.time_unit,
    )


def critical_chain(schedule: Schedule) -> tuple[Link, ...]:
    """What the end of the schedule waited for, from the start to the execution that is done last."""
    rows = np.flatnonzero((schedule.device >= 0) & (schedule.outcome == DONE))
    if not len(rows):
        return ()
    view, last = _View(schedule), int(rows[np.argmax(schedule.finish[rows])])
    return _chain(view, last, _cause(view, last))


def _number(problem: Problem, task: str | int) -> int:
    if isinstance(task, int):
        if not 0 <= task < problem.num_tasks:
            raise InputError(f"expected a task number below {problem.num_tasks}, got {task}", field="task")
        return task
    names = [problem.task_name(i) for i in range(problem.num_tasks)]
    if task in names:
        return names.index(task)
    hint = did_you_mean(task, names[:10_000])
    raise InputError(f"no task {task!r} in problem {problem.name!r}{hint}", field="task")


class _View:
    """Lookups into a schedule, made once per explanation."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.problem = schedule.problem
        self.tolerance = 1e-9 * max(1.0, float(schedule.finish.max(initial=0.0)))
        ran = schedule.realisation
        self.run_times = self.problem.run_times if ran is None else ran.run_times
        self.rows: dict[int, list[int]] = {}
        for row in np.flatnonzero(schedule.device >= 0).tolist():
            self.rows.setdefault(int(schedule.task[row]), []).append(row)

    @cached_property
    def needs(self) -> dict[str, Floats]:
        """Per resource, what each task holds; slots and memory are resources here."""
        jobs = self.problem.jobs
        needs = {
            "slots": np.concatenate([job.graph.slots.astype(np.float64) for job in jobs]),
            "memory": np.concatenate([job.graph.memory for job in jobs]),
        }
        for name in dict.fromkeys(r for job in jobs for r in job.graph.resources):
            columns = [job.graph.demands[:, [r == name for r in job.graph.resources]] for job in jobs]
            needs[f"demand {name}"] = np.concatenate([column.sum(axis=1) for column in columns])
        return needs

    def capacity(self, device: int) -> dict[str, float]:
        """What limits this device, per resource that some task needs."""
        group = self.problem.cluster.classes[int(self.problem.cluster.device_class[device])]
        limits = {"slots": float(group.slots), "memory": group.memory}
        limits |= {f"demand {name}": value for name, value in group.capacity.items()}
        return {k: v for k, v in limits.items() if v < np.inf and k in self.needs and self.needs[k].any()}

    @cached_property
    def on(self) -> list[Ints]:
        """Per device, its rows by start, one per batch."""
        batch = self.schedule.batch
        own = np.where(batch >= 0, batch, -1 - np.arange(len(batch)))
        rows = [np.flatnonzero(self.schedule.device == d) for d in range(self.problem.cluster.num_devices)]
        return [at[np.sort(np.unique(own[at], return_index=True)[1])] for at in rows]

    @cached_property
    def position(self) -> Ints:
        """Place of every row in an order that respects times and edges."""
        problem, schedule = self.problem, self.schedule
        depth = np.empty(problem.num_tasks, dtype=np.int64)
        for job, base in zip(problem.jobs, problem.offsets.tolist(), strict=False):
            depth[base + job.graph.order] = np.arange(job.graph.num_tasks)
        place = np.empty(len(schedule), dtype=np.int64)
        order = np.lexsort((depth[schedule.task], schedule.finish, schedule.start))
        place[order] = np.arange(len(schedule))
        return place

    def inputs(self, number: int, device: int) -> list[tuple[float, int, float]]:
        """Per parent of a task: arrival on the device, the row that sends, the transfer time."""
        schedule, problem = self.schedule, self.problem
        j = int(problem.job_of[number])
        graph, base = problem.jobs[j].graph, int(problem.offsets[j])
        taken = None if schedule.realisation is None else schedule.realisation.taken[j]
        pointer, own, found = graph.predecessor_pointer, number - base, []
        for e in graph.predecessor_edges[pointer[own] : pointer[own + 1]].tolist():
            senders = self.rows.get(base + int(graph.sources[e]), [])
            if not senders or (taken is not None and not taken[e]):
                continue
            offers = []
            for row in senders:
                travel = problem.transfer_time(int(schedule.device[row]), device, float(graph.data[e]))
                offers.append((float(schedule.finish[row]) + travel, row, travel))
            found.append(min(offers))
        return found

    def name(self, row: int) -> str:
        """Display name of the task of a row."""
        return self.problem.task_name(int(self.schedule.task[row]))

    def release(self, number: int) -> float:
        """Release of the task's job."""
        return self.problem.jobs[int(self.problem.job_of[number])].release


def _held(view: _View, row: int) -> tuple[str, float, int | None]:
    """What held the start of a row, until when, and which row that was: data, release or device."""
    schedule = view.schedule
    number, start = int(schedule.task[row]), float(schedule.start[row])
    arrival, sender, _ = max(view.inputs(number, int(schedule.device[row])), default=(-np.inf, -1, 0.0))
    if arrival >= start - view.tolerance:
        return "data", arrival, sender
    if view.release(number) >= start - view.tolerance:
        return "release", view.release(number), None
    before = _blocker(view, row)
    return ("choice" if before is None else "busy"), max(arrival, view.release(number)), before


def _cause(view: _View, row: int) -> Cause:
    """The same in words; a device counts as busy only if it had no earlier room."""
    schedule = view.schedule
    reason, time, before = _held(view, row)
    if reason == "release":
        return Cause(reason, time, f"it starts as soon as its job is released, at {time:g}")
    if reason == "data" and before is not None:
        return Cause(reason, time, _data_text(view, before, time), before)
    device, start = int(schedule.device[row]), float(schedule.start[row])
    length = float(schedule.finish[row]) - start
    could = _first_fit(_blocked(view, device, row), time, length)
    if before is None or could < start - view.tolerance:
        return Cause("choice", could, f"nothing held it: it could have started there at {could:g}", before)
    text = f"its data was there at {time:g}, {schedule.placement(row).device} was busy with "
    return Cause("busy", start, f"{text}{view.name(before)} until {start:g}", before)


def _data_text(view: _View, sender: int, arrival: float) -> str:
    parent = view.schedule.placement(sender)
    text = f"it waited for {view.name(sender)} on {parent.device}, which finished at {parent.finish:g}"
    if arrival > parent.finish:
        text += f"; the data took {arrival - parent.finish:g} and arrived at {arrival:g}"
    return text


def _blocker(view: _View, row: int) -> int | None:
    """The row whose end on the same device coincides with the start of this one, the largest."""
    schedule = view.schedule
    rows = view.on[int(schedule.device[row])]
    touching = rows[np.abs(schedule.finish[rows] - schedule.start[row]) <= view.tolerance]
    touching = touching[view.position[touching] < view.position[row]]
    largest = view.needs["slots"][schedule.task[touching]]
    return int(touching[np.argmax(largest)]) if len(touching) else None


def _blocked(view: _View, device: int, row: int) -> list[tuple[float, float]]:
    """Times in which the device has no room for the task of a row, that row itself left out."""
    schedule, number = view.schedule, int(view.schedule.task[row])
    rows = view.on[device][view.on[device] != row]
    time = np.concatenate([schedule.start[rows], schedule.finish[rows]])
    full = np.zeros(len(time), dtype=np.bool_)
    order = np.lexsort((np.repeat([1, 0], len(rows)), time))  # what ends makes room first
    for name, limit in view.capacity(device).items():
        need = view.needs[name]
        held = need[schedule.task[rows]]
        used = np.cumsum(np.concatenate([held, -held])[order])
        full |= used + need[number] > limit * (1 + 1e-9)
    times = time[order].tolist()
    spans = [(times[i], times[i + 1]) for i in np.flatnonzero(full[:-1]).tolist()]
    return [span for span in spans if span[1] - span[0] > view.tolerance]


def _first_fit(blocked: list[tuple[float, float]], ready: float, length: float) -> float:
    """Earliest start at or after ``ready`` with this much unblocked time, and some of it."""
    start = ready
    for low, high in blocked:
        if low > start and low - start >= length - 1e-12 * low:
            break
        start = max(start, high)
    return start


def _alternatives(view: _View, row: int) -> tuple[Alternative, ...]:
    schedule, problem = view.schedule, view.problem
    number, cluster = int(schedule.task[row]), problem.cluster
    found = []
    for device, name in enumerate(cluster.device_names):
        if device == int(schedule.device[row]):
            continue
        length = float(view.run_times[number, cluster.device_class[device]])
        if problem.eligible.size and not problem.eligible[problem.job_of[number], device]:
            length = np.inf
        if not np.isfinite(length):
            found.append(Alternative(name, np.inf, np.inf, np.inf))
            continue
        ready = max([view.release(number), *(arrival for arrival, _, _ in view.inputs(number, device))])
        start = _first_fit(_blocked(view, device, row), ready, length)
        found.append(Alternative(name, ready, start, start + length))
    return tuple(sorted(found, key=lambda a: a.finish))


def _chain(view: _View, row: int, cause: Cause) -> tuple[Link, ...]:
    """Back from a row through what held each start, oldest first."""
    links = []
    reason, at, before = cause.reason, row, cause.row
    while True:
        links.append(Link(view.name(at), view.schedule.placement(at), reason))
        if before is None or view.position[before] >= view.position[at]:
            return tuple(reversed(links))
        at = before
        reason, _, before = _held(view, at)


def _latest_finish(view: _View) -> Floats:
    """Per row, the latest finish that keeps the makespan, the device orders and all other choices."""
    schedule = view.schedule
    latest = np.full(len(schedule), schedule.finish[schedule.device >= 0].max(initial=0.0))
    devices = range(view.problem.cluster.num_devices)
    before = {device: _slot_order(view, device) for device in devices}
    # with memory or demands, stay clear of all that starts later: (-start, least start so far)
    crowded: dict[int, tuple[list[float], list[float]]] = {
        d: ([], [np.inf]) for d in devices if len(view.capacity(d)) > 1
    }
    for row in np.argsort(view.position)[::-1].tolist():
        device = int(schedule.device[row])
        if device < 0:
            continue
        later, least = crowded.get(device, ([], [np.inf]))
        reach = bisect_right(later, view.tolerance - float(schedule.finish[row]))
        latest[row] = min(latest[row], least[reach])
        start = float(latest[row] - (schedule.finish[row] - schedule.start[row]))
        later.append(-float(schedule.start[row]))
        least.append(min(least[-1], start))
        for _, sender, travel in view.inputs(int(schedule.task[row]), device):
            latest[sender] = min(latest[sender], start - travel)
        for earlier in before[device].get(row, []):
            latest[earlier] = min(latest[earlier], start)
    return latest


def _slot_order(view: _View, device: int) -> dict[int, list[int]]:
    """Per row of a device, the rows whose slots it takes over."""
    schedule = view.schedule
    free: deque[tuple[int, float]] = deque([(-1, float(view.problem.cluster.slots[device]))])
    running: list[tuple[float, int, float]] = []
    before: dict[int, list[int]] = {}
    rows = view.on[device]
    for row in rows[np.argsort(view.position[rows])].tolist():
        while running and running[0][0] <= schedule.start[row] + view.tolerance:
            _, done, held = heapq.heappop(running)
            free.append((done, held))
        need = float(view.needs["slots"][schedule.task[row]])
        heapq.heappush(running, (float(schedule.finish[row]), row, need))
        while need > 0 and free:
            earlier, held = free.popleft()
            if earlier >= 0:
                before.setdefault(row, []).append(earlier)
            if held > need:
                free.appendleft((earlier, held - need))
            need -= held
    return before
