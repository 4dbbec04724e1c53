"""Results that are gone and made again: which orders do so, and which wait for them.

A task whose result several orders need is made again once. An order that makes a result may itself need one that
is gone, and waits like any other.
"""

from __future__ import annotations

from collections.abc import Container

from weft.execute.engine import Order
from weft.session.messages import Name, Start

Key = tuple[Name, str, int]


class Remakes:
    """Orders that make a lost result again, and for each the orders that wait for it, which are not open."""

    def __init__(self) -> None:
        self._makers: dict[Key, Order] = {}
        self._waiting: dict[Key, list[Order]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._makers

    def __len__(self) -> int:
        return len(self._makers)

    def maker(self, job: Name, task: str) -> Key | None:
        """The order that makes the result of a task, if one does."""
        return next((key for key in self._makers if key[:2] == (job, task)), None)

    def on(self, devices: Container[str]) -> list[Order]:
        """The orders that make a result on any of these devices."""
        return [maker for maker in self._makers.values() if maker.device in devices]

    @property
    def waiting(self) -> list[Order]:
        """The orders that wait for a result."""
        return [one for rows in self._waiting.values() for one in rows]

    def add(self, maker: Order, waiting: Order) -> None:
        """An order makes a result that another waits for."""
        self._makers[maker.key] = maker
        self._waiting[maker.key] = [waiting]

    def join(self, key: Key, waiting: Order) -> None:
        """Another order waits for the same."""
        self._waiting[key].append(waiting)

    def pop(self, key: Key) -> list[Order]:
        """An order is over; returns those that waited for it."""
        del self._makers[key]
        return self._waiting.pop(key)

    def put_back(self, maker: Order, waiting: list[Order]) -> None:
        """An order has to wait itself before it can make its result."""
        self._makers[maker.key], self._waiting[maker.key] = maker, waiting

    def replace(self, former: Order, order: Order) -> None:
        """An order that had to wait is given anew; whoever waited for it waits for this."""
        if former.key in self._makers:
            self.put_back(order, self.pop(former.key))

    def is_waiting(self, job: Name, task: str) -> bool:
        """Whether a task waits for a result to be made again."""
        return any(one.task_key == (job, task) for rows in self._waiting.values() for one in rows)

    def move(self, start: Start) -> bool:
        """A decision about a task that waits for a result only says where it goes then; whether one does."""
        for rows in self._waiting.values():
            for k, one in enumerate(rows):
                if one.task_key == (start.job, start.task) and one.key not in self._makers:
                    rows[k] = one._replace(
                        device=start.device, start=start.expected_start, end=start.expected_end
                    )
                    return True
        return False

    def lose(self, device: str) -> list[tuple[Order, str]]:
        """A device is gone; returns orders elsewhere that waited for a result from there, and the task of it."""
        left: list[tuple[Order, str]] = []
        gone = [key for key, maker in self._makers.items() if maker.device == device]
        for key in gone:
            left += [(one, key[1]) for one in self.pop(key) if one.device != device]
        for rows in self._waiting.values():
            rows[:] = [one for one in rows if one.device != device]
        return left

    def drop(self, job: Name, under_way: Container[Key]) -> None:
        """A job is over: no result is made again for it, but for what is under way."""
        for key in [key for key in self._makers if key[0] == job and key not in under_way]:
            self.pop(key)

    def forget_decisions(self) -> None:
        """Whatever waited was decided by a session that is no more; what makes results goes on."""
        for rows in self._waiting.values():
            rows[:] = [one for one in rows if one.key in self._makers]
