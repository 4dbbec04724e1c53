"""What a drive writes down: rows of the history, and how long tasks really took."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.execute.engine import Event, Order
from weft.execute.feed import Arrival, limits_of
from weft.execute.split import SplitSession
from weft.execute.told import Told
from weft.io.histories import History
from weft.model.graph import TaskGraph
from weft.session.messages import Name

if TYPE_CHECKING:
    from weft.execute.drive import Drive


@dataclass(frozen=True)
class Observed:
    """How long a task really took."""

    device: str
    job: Name
    task: str
    kind: str
    base: float
    """Expected, by the cluster that the run began with."""
    actual: float
    end: float
    """When it ended."""
    work: float | None
    """Of the task in its graph; None: it has none."""
    size: float | None
    """Bytes of its result, where they are known."""
    graph: str = ""
    """Name of the graph it is a task of."""


def observed(event: Event, order: Order, graph: TaskGraph, actual: float, base: float) -> Observed:
    """What a task took, beside what the cluster says."""
    task = graph.task(graph.index[order.task])
    work = task.work if math.isfinite(task.work) else None
    return Observed(
        order.device,
        order.job,
        order.task,
        task.kind,
        base,
        actual,
        event.time,
        work,
        event.size,
        graph.name,
    )


class Scribe:
    """Writes the history of one run."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._plan: list[list[Any]] = []  # what is reserved, as last written down
        self._plans_made = (1, 0)  # sessions and plans until then

    def arrived(self, arrival: Arrival, time: float, told: Told) -> None:
        """A job has come."""
        graph = arrival.graph
        names = graph.names
        edges = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
        more: dict[str, Any] = {} if arrival.what.deadline is None else {"deadline": arrival.what.deadline}
        if arrival.job in told.before:
            more["after"] = told.before[arrival.job]
        more |= limits_of(arrival, told.cluster)
        if isinstance(told.session, SplitSession):
            more["scheduler"] = told.session.part_of(arrival.job)
        self.history.add(
            "arrived",
            time,
            job=arrival.job,
            tasks=list(names),
            kinds=[graph.kinds[k] for k in graph.kind.tolist()],
            edges=[[names[a], names[b]] for a, b in edges],
            **more,
        )

    def submitted(self, order: Order, time: float) -> None:
        """An order was given to the engine; what has to wait for its data says until when."""
        is_later = not order.is_ahead and order.start > time
        more = {"data_at": round(order.start, 6)} if is_later else {}
        self.history.add(
            "submitted",
            time,
            job=order.job,
            task=order.task,
            attempt=order.attempt,
            device=order.device,
            sequence=order.sequence,
            ahead=order.is_ahead,
            **more,
        )

    def about(self, event: Event, name: str, **fields: object) -> None:
        """Something happened to an order; fields that are None are not known."""
        known = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in fields.items()
            if value is not None
        }
        self.history.add(
            name,
            event.time,
            job=event.job,
            task=event.task,
            attempt=event.attempt,
            device=event.device,
            **known,
        )

    def planned(self, reason: str, drive: Drive) -> None:
        """Write down what is reserved wherever devices or orders have changed."""
        told = drive.told
        made = (told.num_sessions, told.session.num_plans)
        if made == self._plans_made:
            return
        self._plans_made = made
        rows = [
            [
                one.job,
                one.task,
                told.name(one.device),
                round(one.expected_start, 6),
                round(one.expected_end, 6),
            ]
            for one in told.session.reservations()
        ]
        plan = [row[:3] for row in rows]
        is_left = plan == [row for row in self._plan if row in plan]  # what has started is gone, no more
        self._plan = plan
        if is_left:
            return
        if drive.planned_end is None:
            drive.planned_end = drive.expected_end()
        started = [list(row) for row in drive.ledger.decided_rows()]
        self.history.add("planned", drive.now, reason=reason, rows=started + rows)
