"""Queueing ahead: what a plan has bound to a device is ordered before its turn, so that no device waits for a message.

Only what is reserved is queued: a dispatcher that decides at events has bound nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.execute.engine import Order
from weft.session.messages import Name

if TYPE_CHECKING:
    from weft.execute.drive import Drive


def queue_ahead(drive: Drive) -> None:
    """Give devices the next tasks that are reserved for them, and take back what no longer is."""
    session = drive.told.session
    if not session.num_plans and not drive.ledger.undecided:
        return
    reserved: dict[str, list[tuple[Name, str, float, float]]] = defaultdict(list)
    for one in session.reservations(most=_most_reserved(drive)):
        reserved[drive.told.name(one.device)].append(
            (one.job, one.task, one.expected_start, one.expected_end)
        )
    for order in [drive.ledger.orders[key] for key in drive.ledger.undecided]:
        first = [row[:2] for row in reserved[order.device][: _room(drive, order.device)]]
        if (order.job, order.task) not in first:
            drive.withdraw(order)
    if drive.ahead > 0:
        for device, rows in reserved.items():
            _fill(drive, device, rows)


def _most_reserved(drive: Drive) -> int:
    """Of what is reserved for a device, so much can be of interest now: as much as it can hold, twice."""
    return 2 * (int(drive.told.cluster.slots.max()) + drive.ahead)


def _room(drive: Drive, device: str) -> int:
    """How many orders a device may hold."""
    return drive.told.slots(device) + drive.ahead


def _fill(drive: Drive, device: str, rows: Sequence[tuple[Name, str, float, float]]) -> None:
    if device in drive.told.away or not drive.told.can_queue(device):
        return
    if any(start.device == device for start in drive.ledger.elsewhere.values()):
        return  # what is decided comes here as soon as it is given back elsewhere, before all others
    for job, task, start, end in rows:
        if drive.ledger.load(device) >= _room(drive, device):
            return
        order = drive.ledger.of_task(job, task)
        if order is not None and order.device != device and order.key in drive.ledger.withdrawn:
            return
        if (job, task) in drive.ledger.decided_only:
            return
        if drive.ledger.is_taken(job, task):
            continue
        if not _may_follow(drive, job, task, device):
            return
        inputs = drive.inputs(job, task)
        if any((job, parent) in drive.ledger.missing for parent in inputs):
            return
        order = drive.new_order(job, task, device, inputs, (start, end))
        drive.submit(order._replace(is_ahead=True))


def _may_follow(drive: Drive, job: Name, task: str, device: str) -> bool:
    """Whether what a task needs is done, or will be: before it on the same device, or where it runs now; and it is its turn."""
    if not drive.told.has_turn(job, task):
        return False
    for parent in drive.told.parents(job, task):
        if drive.told.is_done(job, parent):
            continue
        before = drive.ledger.of_task(job, parent)
        if before is None or drive.told.slots(device) > 1:
            return False
        if before.device != device and not _may_wait_for(drive, before):
            return False
    return True


def _may_wait_for(drive: Drive, order: Order) -> bool:
    """Whether an order of another device can be waited for at the device: it runs, and nobody wants it back."""
    is_running = order.key in drive.ledger.started and drive.ledger.is_sure(order)
    return drive.engine.waits_for_inputs and is_running
