"""Results that are gone are made again before a task that needs them; what the session decided waits meanwhile.

Where all devices that can make a result are away, it is put off: its order goes to none, and is placed anew when one
is back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.execute.engine import FAILED, FINISHED, LOST_RESULT, Event, Order
from weft.session.messages import Name

if TYPE_CHECKING:
    from weft.execute.drive import Drive


class Again:
    """Has a drive order results anew."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive

    def make(self, order: Order, task: str) -> None:
        """A decided order waits for a result to be made again on its device, or wherever it is; then it goes on."""
        self._drive.ledger.missing.add((order.job, task))
        maker = self._drive.ledger.again.maker(order.job, task)
        if maker is not None:
            self._drive.ledger.again.join(maker, order)
            return
        inputs, device = self._drive.inputs(order.job, task), self._place_for(order.job, task, order.device)
        first = self._drive.new_order(order.job, task, device, inputs, (self._drive.now, self._drive.now))
        self._drive.ledger.again.add(first, order)
        if device not in self._drive.told.away:
            self._drive.submit_decided(first)

    @property
    def put_off(self) -> list[Order]:
        """Orders of results that no device can make before another is back."""
        return self._drive.ledger.again.on(self._drive.told.away)

    @property
    def reason(self) -> str:
        """Why what was decided is not ordered, where it waits for results; else empty."""
        if put_off := self.put_off:
            return f"no device is there that can make the result of {put_off[0].task} again"
        if waiting := self._drive.ledger.again.waiting:
            return f"{waiting[0].task} waits for a result that is made again"
        return ""

    def take_up(self, put_off: list[Order]) -> None:
        """A device is back: order what was put off, where there is one for it now."""
        for order in put_off:
            device = self._place_for(order.job, order.task, order.device)
            if device not in self._drive.told.away:
                self._go_on(order._replace(device=device))

    def _place_for(self, job: Name, task: str, wanted: str) -> str:
        """Where a result is made again: where it is wanted, unless only others can; one that is away if all are."""
        able = self._drive.told.places(job, task)
        there = [one for one in able if one not in self._drive.told.away]
        if wanted in there or not able:
            return wanted
        return min(there, key=self._drive.ledger.load) if there else able[0]

    def end(self, event: Event, order: Order) -> str:
        """An order that makes a result has ended; returns why plans may have changed, if they may."""
        waiting = self._drive.ledger.again.pop(order.key)
        if event.kind == FINISHED:
            self._drive.scribe.about(event, FINISHED, size=event.size)
            self._drive.ledger.missing.discard(order.task_key)
            for one in waiting:
                self._go_on(one)
            return ""
        self._drive.scribe.about(event, FAILED, note=event.note)
        if event.note.startswith(LOST_RESULT):
            self._drive.ledger.again.put_back(order, waiting)
            self.make(order, event.note.removeprefix(LOST_RESULT))
            return ""
        for one in waiting:
            self._fail_waiting(one, event.time)
        return FAILED

    def _go_on(self, waiting: Order) -> None:
        """What an order waited for is there again."""
        if waiting.job not in self._drive.told.open_jobs:
            self._fail_waiting(waiting, self._drive.now)
            return
        times = (waiting.start, waiting.end)
        again = self._drive.new_order(waiting.job, waiting.task, waiting.device, waiting.inputs, times)
        self._drive.ledger.again.replace(waiting, again)
        self._drive.submit_decided(again)

    def _fail_waiting(self, waiting: Order, time: float) -> None:
        """What an order waited for could not be made again: the task it was decided for fails."""
        if waiting.key in self._drive.ledger.again:
            for one in self._drive.ledger.again.pop(waiting.key):
                self._fail_waiting(one, time)
        elif waiting.job in self._drive.told.open_jobs:
            self._drive.told.failed(waiting, time)
