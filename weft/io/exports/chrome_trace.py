"""Chrome's trace format, which Perfetto and chrome://tracing draw: plan and actual, a lane per slot, arrows for edges.

Times are microseconds since the start of the plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from weft import __version__
from weft.io.exports.options import Options
from weft.io.exports.placed import DONE, Placed, Span

LIMITS: tuple[str, ...] = ()
PLAN, ACTUAL = 1, 2
"""Numbers of the two groups of lanes."""
_COLOURS = {"failed": "terrible", "lost": "bad", "open": "grey"}
Event = dict[str, Any]


def dump(placed: Placed, options: Options) -> str:
    """One event a line."""
    events: list[Event] = []
    if placed.plan or not placed.is_run:
        events += _group(placed, placed.plan, PLAN, "plan")
    if placed.is_run:
        events += _group(placed, placed.actual, ACTUAL, "actual")
    about = {"weft": __version__, "workflow": placed.name, "scheduler": placed.scheduler}
    rows = ",\n".join(json.dumps(event, allow_nan=False) for event in events)
    other = json.dumps(about)
    return f'{{"displayTimeUnit": "ms", "otherData": {other}, "traceEvents": [\n{rows}\n]}}\n'


def _group(placed: Placed, spans: Sequence[Span], pid: int, title: str) -> Iterator[Event]:
    """All events of one group: names, executions, edges."""
    lanes = lanes_of(placed, spans)
    yield _named("process_name", pid, 0, {"name": title})
    yield _named("process_sort_index", pid, 0, {"sort_index": pid})
    numbers = {lane: k + 1 for k, lane in enumerate(_all_lanes(placed, lanes))}
    for (device, slot), tid in numbers.items():
        one = placed.devices[device]
        is_single = one.slots == 1 and (device, 1) not in numbers
        name = one.name if is_single else f"{one.name} / {slot}"
        yield _named("thread_name", pid, tid, {"name": name})
        yield _named("thread_sort_index", pid, tid, {"sort_index": tid})
    tids = [numbers[lane] for lane in lanes]
    for span, tid in zip(spans, tids, strict=True):
        yield _slice(placed, span, pid, tid)
    yield from _edges(placed, spans, tids, pid)


def _all_lanes(placed: Placed, lanes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Every slot of every device, and what is needed beyond: batches run several at once in a slot."""
    slots = {(d, k) for d, device in enumerate(placed.devices) for k in range(min(device.slots, 64))}
    return sorted(slots | set(lanes))


def lanes_of(placed: Placed, spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Device and lane of every execution: the first lane that is free when it starts, so that none overlap.

    A task that holds several slots is drawn in one lane.
    """
    found: dict[int, tuple[int, int]] = {}
    free: list[list[float]] = [[] for _ in placed.devices]
    for i in sorted(range(len(spans)), key=lambda k: spans[k].order):
        start, length = _times(placed, spans[i])
        ends = free[spans[i].device]
        at = next((k for k, end in enumerate(ends) if end <= start), len(ends))
        ends[at:] = [round(start + length, 3), *ends[at + 1 :]]
        found[i] = (spans[i].device, at)
    return [found[i] for i in range(len(spans))]


def _slice(placed: Placed, span: Span, pid: int, tid: int) -> Event:
    task = placed.tasks[span.task]
    start, length = _times(placed, span)
    about: Event = {"job": task.job, "task": task.name, "kind": task.kind}
    about |= {"device": placed.devices[span.device].name, "start": span.start, "finish": span.finish}
    if pid == ACTUAL:
        about |= {"attempt": span.attempt, "outcome": span.outcome}
    elif span.copy:
        about["copy"] = span.copy
    event: Event = {"ph": "X", "pid": pid, "tid": tid, "ts": start, "dur": length}
    event |= {"name": placed.labels[span.task], "cat": task.kind, "args": about}
    return event | ({"cname": _COLOURS[span.outcome]} if span.outcome in _COLOURS else {})


def _times(placed: Placed, span: Span) -> tuple[float, float]:
    """Start and length in microseconds, to the nanosecond; both ends are rounded so that neighbours still touch."""
    scale = placed.microseconds
    start, finish = round(span.start * scale, 3), round(span.finish * scale, 3)
    return start, round(finish - start, 3)


def _edges(placed: Placed, spans: Sequence[Span], tids: Sequence[int], pid: int) -> Iterator[Event]:
    """An arrow from the execution of a parent that ends first to every execution of the child."""
    by_task: dict[int, list[int]] = {}
    for i, span in enumerate(spans):
        by_task.setdefault(span.task, []).append(i)
    number = 0
    for source, target in placed.edges:
        done = [i for i in by_task.get(source, ()) if spans[i].outcome == DONE]
        if not done:
            continue
        first = min(done, key=lambda i: spans[i].finish)
        start, length = _times(placed, spans[first])
        for i in by_task.get(target, ()):
            number += 1
            common: Event = {"name": "edge", "cat": "edge", "id": pid * 10**9 + number, "pid": pid}
            yield {"ph": "s", **common, "tid": tids[first], "ts": round(start + length, 3)}
            yield {"ph": "f", "bp": "e", **common, "tid": tids[i], "ts": _times(placed, spans[i])[0]}


def _named(what: str, pid: int, tid: int, about: Event) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": about}
