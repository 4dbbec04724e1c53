"""What Dask's workers load to carry out orders: the standard library, ``weft.execute.work`` and Dask alone."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.execute.keeping import keep, keep_rehearsed
from weft.execute.work import Control, Place, Rehearsal, TaskFailed, Work, carry_out, note_of

STARTED, FINISHED, FAILED, REFUSED = "started", "finished", "failed", "refused"
"""What a worker says about an order."""
ELSEWHERE, WITHDRAWN, NO_INPUT = "elsewhere", "withdrawn", "no input"
"""Why an order is refused: Dask moved it, it was cancelled in time, an input is the rest of a failure."""
CANCELLED = "cancelled"
MOST_ENGINES = 8
"""A worker knows the orders of so many."""
_SENDABLE = (type(None), bool, int, float, complex, str, bytes, bytearray)


@dataclass(frozen=True)
class Ticket:
    """One order, as a worker gets it."""

    number: int
    """Tells the orders of one engine apart."""
    topic: str
    """Under which its worker speaks."""
    worker: str
    """Address of the worker that is meant."""
    work: bytes
    """What is to be done, for the worker to read: the scheduler need not have the code it takes."""
    place: Place
    inputs: tuple[str, ...]
    """Tasks whose results come along, in order."""


@dataclass(frozen=True)
class Unfinished:
    """Stands for the result of an order that has none.

    Dask is told that such a task has ended well: what waits behind it must not fail along with it.
    """

    note: str


class _Orders:
    """Orders of one engine that this worker has seen."""

    def __init__(self) -> None:
        self.withdrawn: set[int] = set()
        self.begun: dict[int, Control | None] = {}
        """None: it has ended."""


_lock = threading.Lock()
_seen: dict[str, _Orders] = {}


def run_order(ticket: Ticket, *values: Any) -> Any:
    """Carry one order out on this worker, and say so."""
    from distributed import get_worker

    worker, control = get_worker(), Control()
    lacking = [
        task for task, value in zip(ticket.inputs, values, strict=True) if isinstance(value, Unfinished)
    ]
    reason, note = _refusal(ticket, worker, lacking, control)
    if reason:
        _say(worker, ticket, REFUSED, reason=reason, note=note, lacking=lacking)
        return Unfinished(note)
    _say(worker, ticket, STARTED)
    try:
        result = _carried_out(ticket, values, control)
    except TaskFailed as failure:
        _say(worker, ticket, FAILED, note=str(failure))
        return Unfinished(str(failure))
    finally:
        with _lock:
            _orders(ticket.topic).begun[ticket.number] = None
    _say(worker, ticket, FINISHED, size=_size(result))
    return result


def clock() -> float:
    """What time it is here; having been asked, a worker has loaded what its first order needs."""
    import cloudpickle  # noqa: F401

    return time.time()


def withdraw(topic: str, number: int) -> bool:
    """Keep an order from being started here: whether that came in time. If not, what can be stopped is."""
    with _lock:
        orders = _orders(topic)
        if number not in orders.begun:
            orders.withdrawn.add(number)
            return True
        control = orders.begun[number]
    if control is not None:
        control.stop(CANCELLED)
    return False


def _orders(topic: str) -> _Orders:
    """Under the lock: those of an engine; engines of long ago are forgotten."""
    if topic not in _seen:
        for old in [*_seen][: 1 - MOST_ENGINES]:
            del _seen[old]
        _seen[topic] = _Orders()
    return _seen[topic]


def _refusal(ticket: Ticket, worker: Any, lacking: list[str], control: Control) -> tuple[str, str]:
    """Why an order must not be carried out here, in a word and in words; nothing: it may."""
    if lacking:
        return NO_INPUT, f"no result of {', '.join(lacking)}"
    if ticket.worker != worker.address:
        return ELSEWHERE, f"moved to {worker.name} by Dask"
    with _lock:
        orders = _orders(ticket.topic)
        if ticket.number in orders.withdrawn:
            return WITHDRAWN, CANCELLED
        orders.begun[ticket.number] = control
    return "", ""


def written(work: Work) -> bytes:
    """What is to be done, as it travels; code of files that only this process has travels along."""
    from weft.execute.sending import pack

    return pack(work, by_value=True).data


def _read(work: bytes) -> Work:
    import cloudpickle

    try:
        found: Work = cloudpickle.loads(work)
    except Exception as error:  # whatever it takes to make the arguments
        raise TaskFailed(f"it cannot be read by its worker: {note_of(error)}") from None
    return found


def _carried_out(ticket: Ticket, values: tuple[Any, ...], control: Control) -> Any:
    work = _read(ticket.work)
    result = carry_out(work, dict(zip(ticket.inputs, values, strict=True)), ticket.place, control)
    if not isinstance(result, _SENDABLE):
        _refuse_unsendable(result)
    folder = ticket.place.folder
    if folder and Path(folder).is_dir():
        with suppress(OSError):  # a result that is not kept is made again when the run is resumed
            keep_rehearsed(work.size, folder) if isinstance(work, Rehearsal) else keep(result, folder)
    return result


def _refuse_unsendable(result: object) -> None:
    """Dask would find out when somebody asks for it, and ask for ever."""
    from distributed.protocol import pickle

    buffers: list[Any] = []  # large parts stay where they are
    try:
        pickle.dumps(result, buffer_callback=buffers.append)
    except Exception as error:
        raise TaskFailed(f"its result cannot be sent: {note_of(error)}") from None


def _say(worker: Any, ticket: Ticket, what: str, **more: object) -> None:
    message = {"number": ticket.number, "what": what, "time": time.time(), "worker": worker.address, **more}
    worker.log_event(ticket.topic, message)


def _size(result: object) -> float | None:
    from dask.sizeof import sizeof

    try:
        return float(sizeof(result))
    except Exception:  # of an object that does not say
        return None
