"""Orders that have not ended: which were decided, which are queued ahead, which make a lost result again."""

from __future__ import annotations

from weft.execute.engine import Order
from weft.session.messages import Name

Key = tuple[Name, str, int]


class Ledger:
    """Orders by job, task and attempt."""

    def __init__(self) -> None:
        self.orders: dict[Key, Order] = {}
        self.undecided: set[Key] = set()
        """Those queued ahead that no decision has confirmed."""
        self.again: dict[Key, Order] = {}
        """An order that makes a lost result again -> the order that waits for it."""
        self.started: dict[Key, float] = {}
        self._attempts: dict[tuple[Name, str], int] = {}
        self._num_orders = 0

    def next_numbers(self, job: Name, task: str) -> tuple[int, int]:
        """Attempt and sequence number of a new order."""
        self._num_orders += 1
        return self._attempts.get((job, task), 0) + 1, self._num_orders

    def count_attempts(self, job: Name, task: str, attempts: int) -> None:
        """So often a task was tried before, in a run that goes on."""
        self._attempts[job, task] = max(attempts, self._attempts.get((job, task), 0))

    def count_orders(self, orders: int) -> None:
        """So many orders were given before, in a run that goes on."""
        self._num_orders = max(orders, self._num_orders)

    def open(self, order: Order, *, is_decided: bool) -> None:
        """An order was given to the engine."""
        self.orders[order.key] = order
        self._attempts[order.job, order.task] = order.attempt
        if not is_decided:
            self.undecided.add(order.key)

    def start(self, order: Order, time: float) -> None:
        """An order runs."""
        self.started[order.key] = time

    def close(self, order: Order) -> None:
        """An order has ended."""
        self.orders.pop(order.key, None)
        self.started.pop(order.key, None)

    def disown(self, order: Order) -> None:
        """Nobody waits for this order any more, whatever becomes of it."""
        self.close(order)
        self.undecided.discard(order.key)

    def lose(self, device: str) -> None:
        """A device is gone, and with it all its orders."""
        for order in [order for order in self.orders.values() if order.device == device]:
            self.disown(order)
            self.again.pop(order.key, None)

    def again_after(self, key: Key, waiting: Order) -> None:
        """An order that makes a result again has to wait for another result itself."""
        self.again[key] = waiting

    def pass_on(self, former: Order, order: Order) -> None:
        """An order takes the place of a former one; whoever waited for that waits for this."""
        if former.key in self.again:
            self.again[order.key] = self.again.pop(former.key)

    def of_task(self, job: Name, task: str) -> list[Order]:
        """Orders of one task."""
        attempt = self._attempts.get((job, task), 0)
        found = [self.orders.get((job, task, k)) for k in range(attempt, 0, -1)]
        return [order for order in found if order is not None]

    def load(self, device: str) -> int:
        """How many orders a device holds."""
        return sum(order.device == device for order in self.orders.values())

    def decided_rows(self) -> list[tuple[Name, str, str, float, float]]:
        """What was decided and has not ended, as rows of a plan."""
        return [
            (one.job, one.task, one.device, round(one.start, 6), round(one.end, 6))
            for key, one in self.orders.items()
            if key not in self.undecided and key not in self.again
        ]
