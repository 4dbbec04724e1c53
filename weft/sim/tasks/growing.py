"""One environment of the task view whose jobs are added as they come, and dropped once they are over.

Columns have room for more than is there: ``Tasks.task_ptr``, ``Tasks.job_ptr`` and ``TaskState.num_rows``
say how much is. Numbers of jobs, tasks and rows close up when jobs are dropped; their order stays, and
with it every tie, so that nothing is decided otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.model.graph import ALWAYS, Bools, Ints
from weft.model.problem import Problem
from weft.sim.tasks.instances import first_of_series, join_series, last_of_series, without
from weft.sim.tasks.layout import compile_tasks, new_task_state
from weft.sim.tasks.state import PLANNED, RUNNING, Facts, Tasks, TaskState

ENV = 0

# columns of Tasks and TaskState by what they have an entry for; all others never grow
TASK_COLUMNS = ("run", "job", "kind", "demand", "num_in", "waits_for", "lets_in")
EDGE_COLUMNS = ("succ", "succ_data", "pred", "pred_data", "pred_edge")
JOB_COLUMNS = (
    "job_release", "job_due", "job_order", "allowed", "book_count", "book_need", "may_book", "overrun", "former",
)  # fmt: skip
TASK_POINTERS, JOB_POINTERS = ("succ_ptr", "pred_ptr"), ("job_task_ptr",)
TASK_STATE = ("status", "open_edges", "key", "work", "ready", "place", "stack", "first_row", "is_its_turn")
JOB_STATE = ("job_open", "job_left", "job_finish", "is_expired", "is_waiting", "granted")
ROW_STATE = (
    "row_task", "row_device", "row_start", "row_finish", "row_expected", "row_status", "next_row", "before",
    "after",
)  # fmt: skip


class Kept(NamedTuple):
    """What is left after jobs were dropped: old numbers in the order of the new ones."""

    jobs: Ints
    tasks: Ints
    rows: Ints


class LiveTasks:
    """What is known, what has happened and all that changes, for one cluster."""

    def __init__(self, problem: Problem, *, has_jobs: bool, keeps_ends: bool = False) -> None:
        """``keeps_ends``: of every pipeline the first instance and the last that is over are kept."""
        self.w: Tasks = compile_tasks([problem], is_open=True)
        taken = np.concatenate([job.graph.branch == ALWAYS for job in problem.jobs])
        self.f = Facts(run=self.w.run, taken=taken, is_live=True)
        self.s: TaskState = new_task_state(self.w)
        self.kinds = list(problem.kinds)
        self.series = [job.series for job in problem.jobs] if has_jobs else []
        """The pipeline of every job that is there; empty: none."""
        self._keeps_ends = keeps_ends
        if not has_jobs:  # the problem stands for its cluster alone
            self.w.job_ptr[1] = self.w.task_ptr[1] = 0

    @property
    def num_tasks(self) -> int:
        """Tasks that are there, whatever has become of them."""
        return int(self.w.task_ptr[1])

    @property
    def num_jobs(self) -> int:
        """Jobs that are there."""
        return int(self.w.job_ptr[1])

    @property
    def num_edges(self) -> int:
        """Edges that are there."""
        return int(self.w.succ_ptr[self.num_tasks])

    # -- adding ------------------------------------------------------------------------------------

    def has_room(self, problem: Problem) -> bool:
        """Whether these jobs fit without longer columns."""
        has_tasks = self.num_tasks + problem.num_tasks <= len(self.w.job)
        return has_tasks and self.num_jobs + len(problem.jobs) <= len(self.w.job_release)

    def add(self, problem: Problem) -> None:
        """Put the jobs of a problem on the same cluster behind those that are there."""
        self.know_kinds(problem.kinds)
        place = np.array([self.kinds.index(name) for name in problem.kinds], np.int64)
        part = compile_tasks([problem], is_open=True)
        part = part._replace(kind=place[part.kind])
        n, e, j = self.num_tasks, self.num_edges, self.num_jobs
        self._make_room(n + problem.num_tasks, e + len(part.succ), j + len(problem.jobs))
        shift = {"job": j, "succ": n, "pred": n, "pred_edge": e, "job_order": j}
        shift |= {"waits_for": n, "lets_in": n, "former": j}
        for names, at in ((TASK_COLUMNS, n), (EDGE_COLUMNS, e), (JOB_COLUMNS, j)):
            for name in names:
                added = getattr(part, name)
                if name in shift:
                    added = np.where(added < 0, added, added + shift[name])
                getattr(self.w, name)[at : at + len(added)] = added
        for name, at, first in (("succ_ptr", n, e), ("pred_ptr", n, e), ("job_task_ptr", j, n)):
            pointer = getattr(part, name)
            getattr(self.w, name)[at : at + len(pointer)] = pointer + first
        self.f.taken[e : e + len(part.succ)] = np.concatenate(
            [job.graph.branch == ALWAYS for job in problem.jobs]
        )
        self.w.task_ptr[1], self.w.job_ptr[1] = n + problem.num_tasks, j + len(problem.jobs)
        self._join_series(problem)
        self._begin(slice(n, self.num_tasks), slice(j, self.num_jobs))
        self._split_pools(part.allowed)

    def _join_series(self, problem: Problem) -> None:
        """First instances of new jobs follow the last of their series that are there."""
        last, first = last_of_series(self.series), len(self.series)
        for k, job in enumerate(problem.jobs, first):
            if job.series in last and self.w.former[k] < 0:
                join_series(self.w, self.s, k, last[job.series], in_order=job.in_order)
        self.series += [job.series for job in problem.jobs]

    def know_kinds(self, names: Sequence[str]) -> None:
        """Rows for the run times of these kinds of tasks, behind those that are there."""
        new = [name for name in names if name not in self.kinds]
        if not new:
            return
        self.kinds += new
        more = (len(new), self.w.run.shape[1])
        rows = {"seen": np.zeros(more), "ratio": np.zeros(more), "factor": np.ones(more)}
        self.s = self.s._replace(
            **{name: np.concatenate([getattr(self.s, name), row]) for name, row in rows.items()}
        )
        self.w.kind_ptr[1] = len(self.kinds)

    def _begin(self, tasks: slice, jobs: slice) -> None:
        """New tasks and jobs as ``clock.begin`` leaves them."""
        w, s = self.w, self.s
        for name in ("status", "key", "work"):
            getattr(s, name)[tasks] = 0
        s.is_its_turn[tasks] = w.waits_for[tasks] < 0
        s.open_edges[tasks] = w.num_in[tasks] + (w.waits_for[tasks] >= 0)
        s.place[tasks] = s.first_row[tasks] = -1
        s.job_open[jobs] = np.diff(w.job_task_ptr[jobs.start : jobs.stop + 1])
        s.job_left[jobs], s.job_finish[jobs], s.is_expired[jobs] = 0.0, np.nan, False
        s.is_waiting[jobs], s.granted[jobs] = False, False

    def _make_room(self, num_tasks: int, num_edges: int, num_jobs: int) -> None:
        """Columns at least so long, and twice as long as before where that is too little."""
        w, s = self.w, self.s
        grown = {
            **_longer(w, TASK_COLUMNS, len(w.job), num_tasks),
            **_longer(w, TASK_POINTERS, len(w.job), num_tasks, extra=1),
            **_longer(w, EDGE_COLUMNS, len(w.succ), num_edges),
            **_longer(w, JOB_COLUMNS, len(w.job_release), num_jobs),
            **_longer(w, JOB_POINTERS, len(w.job_release), num_jobs, extra=1),
        }
        taken = _longer(self.f, ("taken",), len(w.succ), num_edges)
        state = {
            **_longer(s, TASK_STATE, len(w.job), num_tasks),
            **_longer(s, JOB_STATE, len(w.job_release), num_jobs),
        }
        self.w, self.s = w._replace(**grown), s._replace(**state)
        self.f = self.f._replace(run=self.w.run, **taken)

    def make_row_room(self, num_rows: int) -> None:
        """Room for so many executions."""
        room = len(self.s.row_task)
        if num_rows > room:
            grown = _longer(self.s, ROW_STATE, room, num_rows)
            self.s = self.s._replace(row_ptr=np.array([0, len(grown["row_task"])], np.int64), **grown)

    def _split_pools(self, allowed: Bools) -> None:
        """Devices that some job tells apart are of one pool no longer."""
        w, s = self.w, self.s
        found: dict[tuple[int, bytes], int] = {}
        keys = zip(w.pool.tolist(), allowed.T, strict=True)
        pool = np.array([found.setdefault((p, row.tobytes()), len(found)) for p, row in keys], np.int64)
        if len(found) == w.pool_ptr[1]:
            return
        members = np.argsort(pool, kind="stable").astype(np.int64)
        first = np.searchsorted(pool[members], np.arange(len(found) + 1)).astype(np.int64)
        self.w = w._replace(
            pool=pool,
            pool_devices=members,
            pool_device_ptr=first,
            pool_ptr=np.array([0, len(found)], np.int64),
        )
        self.s = s._replace(pool_size=np.zeros(len(found), np.int64))
        self.refill_pools()

    def refill_pools(self) -> None:
        """Put all devices that have room into the heaps of their pools; in order, each list is a heap."""
        w, s = self.w, self.s
        s.pool_size[:], s.pool_place[:] = 0, -1
        for p in np.flatnonzero(s.has_room & w.is_unary & (s.booked[:, 0] == 0.0)).tolist():
            pool = w.pool[p]
            s.pool_heap[w.pool_device_ptr[pool] + s.pool_size[pool]] = p
            s.pool_place[p] = s.pool_size[pool]
            s.pool_size[pool] += 1

    # -- dropping ----------------------------------------------------------------------------------

    def is_over(self) -> Bools:
        """(num_jobs,) whether nothing of a job will be looked at again."""
        w, s, jobs = self.w, self.s, slice(0, self.num_jobs)
        is_over = ~np.isnan(s.job_finish[jobs]) | s.is_expired[jobs]
        is_over[w.job[: self.num_tasks][~s.is_its_turn[: self.num_tasks]]] = False  # it passes a turn on
        if self._keeps_ends:
            ended = [name if over else "" for name, over in zip(self.series, is_over.tolist(), strict=True)]
            is_over[[*last_of_series(ended).values(), *first_of_series(self.series).values()]] = False
        rows = np.flatnonzero(np.isin(s.row_status[: s.num_rows[ENV]], (PLANNED, RUNNING)))
        is_over[w.job[s.row_task[rows]]] = False
        return np.asarray(is_over, dtype=np.bool_)

    def drop(self, is_over: Bools) -> Kept:
        """Take these jobs out, which must be over, and close up."""
        w, s = self.w, self.s
        n, j = self.num_tasks, self.num_jobs
        jobs = np.flatnonzero(~is_over)
        keeps_task = ~is_over[w.job[:n]]
        tasks = np.flatnonzero(keeps_task)
        rows = self._kept_rows(keeps_task)
        task_at, row_at = _places(tasks, n), _places(rows, int(s.num_rows[ENV]))
        self._close_up_edges(keeps_task, task_at)
        for name in TASK_COLUMNS:
            _keep(getattr(w, name), tasks)
        for column in (w.waits_for, w.lets_in):
            column[: len(tasks)] = task_at[column[: len(tasks)]]
        w.job[: len(tasks)] = _places(jobs, j)[w.job[: len(tasks)]]
        sizes = np.diff(w.job_task_ptr[: j + 1])[jobs]
        w.job_task_ptr[: len(jobs) + 1] = np.concatenate([[0], np.cumsum(sizes)])
        former = without(w.former[:j], is_over, s.is_expired[:j])
        w.former[:j] = _places(jobs, j)[former]
        for name in JOB_COLUMNS:
            if name != "job_order":  # jobs come one by one, in any order
                _keep(getattr(w, name), jobs)
        self.series = [self.series[k] for k in jobs.tolist()]
        w.task_ptr[1], w.job_ptr[1] = len(tasks), len(jobs)
        self._close_up_state(Kept(jobs, tasks, rows), task_at, row_at)
        s.next_job[ENV] -= j - len(jobs)
        return Kept(jobs, tasks, rows)

    def _kept_rows(self, keeps_task: Bools) -> Ints:
        """Rows of tasks that stay, and those to be used again: new rows come in the order they would have."""
        s = self.s
        is_kept = keeps_task[s.row_task[: s.num_rows[ENV]]]
        row = int(s.spare[ENV])
        while row >= 0:
            is_kept[row] = True
            row = int(s.next_row[row])
        return np.flatnonzero(is_kept)

    def _close_up_edges(self, keeps_task: Bools, task_at: Ints) -> None:
        w, n = self.w, len(keeps_task)
        out, into = (np.diff(pointer[: n + 1]) for pointer in (w.succ_ptr, w.pred_ptr))
        leaving, coming = (np.flatnonzero(np.repeat(keeps_task, size)) for size in (out, into))
        edge_at = _places(leaving, int(out.sum()))
        for name, edges in (
            ("succ", leaving),
            ("succ_data", leaving),
            ("pred", coming),
            ("pred_data", coming),
        ):
            _keep(getattr(w, name), edges)
        _keep(self.f.taken, leaving)
        _keep(w.pred_edge, coming)
        for column, place in ((w.succ, task_at), (w.pred, task_at), (w.pred_edge, edge_at)):
            column[: len(leaving)] = place[column[: len(leaving)]]
        for pointer, size in ((w.succ_ptr, out[keeps_task]), (w.pred_ptr, into[keeps_task])):
            pointer[: len(size) + 1] = np.concatenate([[0], np.cumsum(size)])

    def _close_up_state(self, kept: Kept, task_at: Ints, row_at: Ints) -> None:
        s, num_ready, num_rows = self.s, int(self.s.num_ready[ENV]), len(kept.rows)
        s.ready[:num_ready] = task_at[s.ready[:num_ready]]
        for name in ("status", "open_edges", "key", "work", "place", "first_row", "is_its_turn"):
            _keep(getattr(s, name), kept.tasks)
        for name in JOB_STATE:
            _keep(getattr(s, name), kept.jobs)
        for name in ROW_STATE:
            _keep(getattr(s, name), kept.rows)
        s.row_task[:num_rows] = np.maximum(task_at[s.row_task[:num_rows]], 0)  # spare rows have none
        for column in (s.first_row[: len(kept.tasks)], s.running, s.queue, s.queue_end, s.spare):
            column[:] = row_at[column]
        for column in (s.next_row, s.before, s.after):
            column[:num_rows] = row_at[column[:num_rows]]
        s.num_rows[ENV] = num_rows


def _longer(
    columns: NamedTuple, names: tuple[str, ...], room: int, needed: int, extra: int = 0
) -> dict[str, Any]:
    """These columns with more room, or none if there is enough; ``extra``: pointers have one entry more."""
    if needed <= room:
        return {}
    more = max(needed, 2 * room) + extra
    grown = {}
    for name in names:
        column = getattr(columns, name)
        grown[name] = np.zeros((more, *column.shape[1:]), column.dtype)
        grown[name][: len(column)] = column
    return grown


def _keep(column: np.ndarray, kept: Ints) -> None:
    """Move these entries to the front."""
    column[: len(kept)] = column[kept]


def _places(kept: Ints, size: int) -> Ints:
    """New place of every old number, -1 where it is gone; the last entry is for -1."""
    places = np.full(size + 1, -1, np.int64)
    places[kept] = np.arange(len(kept))
    return places
