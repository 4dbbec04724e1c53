"""All roles in this process, one after another, in an order that is always the same.

Time is counted and does not pass: a call takes as long as its role is said to take, roles work side by side, and whatever
ends first is carried out first. So faults and slow roles can be tried out, step by step and again.
"""

from __future__ import annotations

import gc
import heapq
from collections.abc import Mapping, Sequence
from typing import Any

from weft.training.distributed.transport import Answer, Call, Lost, Make, Part


class LocalTransport:
    """A :class:`weft.training.distributed.transport.Transport` without processes.

    Parameters
    ----------
    costs
        Role -> units of time that each of its calls takes; of others, 0.
    dies
        Role -> numbers of its calls, counted from 0 over all its lives, in which it is lost.
    """

    def __init__(
        self, costs: Mapping[str, float] | None = None, dies: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        self.now = 0.0
        self._costs, self._dies = costs or {}, dies or {}
        self._roles: dict[str, object] = {}
        self._free: dict[str, float] = {}
        self._made: dict[str, int] = {}
        self._queue: list[tuple[float, int, Call, tuple[object, ...]]] = []
        self._values: dict[int, Any] = {}
        self._parts: dict[int, int] = {}
        self._number = 0

    def start(self, role: str, make: Make, *given: object) -> None:
        self._roles[role] = make(*given)
        self._free[role] = self.now

    def put(self, value: object) -> Part:
        call = Call(self._number, "", "put")
        self._number += 1
        self._values[call.number] = (value,)
        return Part(call, 0)

    def call(self, role: str, method: str, *given: object, parts: int = 1) -> Call:
        call = Call(self._number, role, method)
        self._number += 1
        end = max(self.now, self._free.get(role, self.now)) + self._costs.get(role, 0.0)
        self._free[role] = end
        self._parts[call.number] = parts
        heapq.heappush(self._queue, (end, call.number, call, tuple(map(self._resolved, given))))
        return call

    def _resolved(self, given: object) -> object:
        return self.value(given.call, given.which) if isinstance(given, Part) else given

    def answers(self, timeout: float | None) -> list[Answer]:
        if not self._queue:
            return []
        end, _, call, given = heapq.heappop(self._queue)
        self.now = max(self.now, end)
        if call.role not in self._roles:
            return [Answer(call, Lost(call.role))]
        count = self._made[call.role] = self._made.get(call.role, 0) + 1
        if count - 1 in self._dies.get(call.role, ()):
            del self._roles[call.role]
            return [Answer(call, Lost(call.role, "as asked"))]
        found = getattr(self._roles[call.role], call.method)(*given)
        self._values[call.number] = (found,) if self._parts.pop(call.number) == 1 else found
        return [Answer(call)]

    def value(self, call: Call, which: int = 0) -> Any:
        return self._values[call.number][which]

    def drop(self, call: Call) -> None:
        self._values.pop(call.number, None)

    def stop(self, role: str) -> None:
        self._roles.pop(role, None)
        self._queue = [one for one in self._queue if one[2].role != role]
        heapq.heapify(self._queue)

    def close(self) -> None:
        self._roles.clear()
        self._queue.clear()
        self._values.clear()
        gc.collect()  # environments and the seats that deal to them know each other, and are large
