"""Keeping a run going: results that the session would not take when they came, and sessions that wait for nothing.

Orders run in the order in which devices got them, which is not always the one of the latest plan. So a session may hear of an end
that it cannot believe yet, and what it waits for may be over.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from weft.execute.engine import Event, Order
from weft.session.messages import Name

if TYPE_CHECKING:
    from weft.execute.drive import Drive

PATIENCE = 2.0
"""Seconds in which tasks wait, devices are there and nothing is ordered, after which the session is made again."""


class Stalls:
    """Looks at a run of real time before every decision."""

    def __init__(self) -> None:
        self._since: float | None = None

    def look(self, drive: Drive) -> None:
        """Hand in what the session can take now; make it again where it has waited for too long."""
        for key, event in list(drive.ledger.early.items()):
            self._hand_in(drive, key, event)
        if not self._is_idle(drive):
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > PATIENCE:
            self._since = None
            told = drive.told
            if told.slow_down(told.factors) or told.slow_down([1.0] * len(told.factors)):
                drive.forget_decisions()

    def _hand_in(self, drive: Drive, key: tuple[Name, str], event: Event) -> None:
        """Tell of a task that is done as if it had run just now, wherever the session has room."""
        told = drive.told
        for device in (event.device, *(name for name in told.devices if name != event.device)):
            order = Order(*key, device, event.attempt, 0)
            if device not in told.away and told.adopted(order, drive.now):
                del drive.ledger.early[key]
                told.finished(order, event._replace(device=device))
                return

    def _is_idle(self, drive: Drive) -> bool:
        told = drive.told
        is_asked_later = drive.wake_at is not None and drive.wake_at > drive.now
        has_work = bool(told.session.num_waiting) and len(told.away) < len(told.devices)
        return has_work and not is_asked_later and not drive.ledger.orders
