"""Orders that have not ended: which were decided, which are queued ahead, which make a lost result again.

A task has one order at a time. One that is wanted elsewhere is withdrawn, and ordered there when the engine has
said that it will not run; if it runs all the same, its result is taken.
"""

from __future__ import annotations

from weft.execute.engine import Event, Order
from weft.execute.remakes import Key, Remakes
from weft.session.messages import Name, Start

TaskKey = tuple[Name, str]


class Ledger:
    """Orders by job, task and attempt."""

    def __init__(self) -> None:
        self.orders: dict[Key, Order] = {}
        self.undecided: set[Key] = set()
        """Those queued ahead that no decision has confirmed."""
        self.withdrawn: set[Key] = set()
        """Those that the engine was asked to give back."""
        self.unasked: set[Key] = set()
        """Those that run though the session expects nothing of them there."""
        self.elsewhere: dict[TaskKey, Start] = {}
        """Decisions that wait for an order of the same task to be given back."""
        self.early: dict[TaskKey, Event] = {}
        """Ends that the session could not be told yet."""
        self.decided_only: set[TaskKey] = set()
        """Tasks that failed when they were queued ahead, and so wait for a decision."""
        self.missing: set[TaskKey] = set()
        """Tasks that were done, whose results nobody holds any more."""
        self.again = Remakes()
        """Orders that make a lost result again."""
        self.started: dict[Key, float] = {}
        self.bases: dict[Key, float] = {}
        """How long orders take by the cluster that the run began with."""
        self._of_task: dict[TaskKey, Order] = {}
        self._attempts: dict[TaskKey, int] = {}
        self._load: dict[str, int] = {}
        self._num_orders = 0

    # -- numbers -----------------------------------------------------------------------------------

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

    # -- what becomes of an order --------------------------------------------------------------------

    def open(self, order: Order, base: float, *, is_decided: bool) -> None:
        """An order was given to the engine; ``base``: its run time by the cluster that the run began with."""
        self.orders[order.key] = order
        self.bases[order.key] = base
        if order.key not in self.again:
            self._of_task[order.task_key] = order
        self._attempts[order.task_key] = order.attempt
        self._load[order.device] = self.load(order.device) + 1
        if not is_decided:
            self.undecided.add(order.key)

    def start(self, order: Order, time: float) -> None:
        """An order runs."""
        self.started[order.key] = time

    def settle(self, order: Order) -> None:
        """What was queued ahead is now decided, or runs with the session's knowledge."""
        self.undecided.discard(order.key)
        self.withdrawn.discard(order.key)

    def withdraw(self, order: Order) -> None:
        """An order is not wanted there any more."""
        self.undecided.discard(order.key)
        self.withdrawn.add(order.key)

    def is_sure(self, order: Order) -> bool:
        """Whether the session has decided an order and counts on it."""
        return not any(order.key in some for some in (self.undecided, self.withdrawn, self.unasked))

    def close(self, order: Order) -> None:
        """An order has ended."""
        if self.orders.pop(order.key, None) is None:
            return
        self.started.pop(order.key, None)
        self.bases.pop(order.key, None)
        for some in (self.undecided, self.withdrawn, self.unasked):
            some.discard(order.key)
        self._load[order.device] -= 1
        if self._of_task.get(order.task_key) == order:
            del self._of_task[order.task_key]

    def lose(self, device: str) -> list[Start]:
        """A device is gone, and with it all its orders; returns decisions that waited for one of them to end."""
        self.elsewhere = {key: one for key, one in self.elsewhere.items() if one.device != device}
        freed = []
        for order in [order for order in self.orders.values() if order.device == device]:
            self.close(order)
            if order.task_key in self.elsewhere:
                freed.append(self.elsewhere.pop(order.task_key))
        return freed

    def end_job(self, job: Name) -> None:
        """A job is over: nothing that has not been ordered is made again for it."""
        self.again.drop(job, self.orders)

    def forget_decisions(self) -> None:
        """The session was made again: it knows what it was told to run, and has decided nothing."""
        waiting = self.orders.keys() - self.started.keys() - self.withdrawn
        self.undecided |= {key for key in waiting if key not in self.again}
        self.elsewhere.clear()
        self.again.forget_decisions()

    # -- what there is -------------------------------------------------------------------------------

    def of_task(self, job: Name, task: str) -> Order | None:
        """The order of a task that has not ended."""
        return self._of_task.get((job, task))

    def is_taken(self, job: Name, task: str) -> bool:
        """Whether a task is not to be queued ahead."""
        is_waiting = self.again.is_waiting(job, task)
        return is_waiting or (job, task) in self._of_task or (job, task) in self.early

    def load(self, device: str) -> int:
        """How many orders a device holds."""
        return self._load.get(device, 0)

    def decided_rows(self) -> list[tuple[Name, str, str, float, float]]:
        """What was decided and has not ended, as rows of a plan."""
        return [
            (one.job, one.task, one.device, round(one.start, 6), round(one.end, 6))
            for key, one in self.orders.items()
            if self.is_sure(one) and key not in self.again
        ]
