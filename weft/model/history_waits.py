"""What the oracle of histories knows of waiting: since when something could run and did not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.model.history_state import Device, Order, Task, is_waiting_to_run

Group = tuple[int, frozenset[str] | None]
"""Slots that a task needs, and where it may run."""
_ANSWERS = ("started", "submitted", "waited", "resumed", "closed")
"""Events that answer the question what to start."""
_SILENT = ("planned", "shadow", "speed", "stray")
"""Events that change nothing a scheduler would have to answer."""


class Waits:
    """Tasks that could be given to a device, and orders that could start.

    After every event that leaves a device free and a task ready, a start, an order or a decision to wait is due
    within the deadline; it holds until something happens again. An order whose parents are reported is to start
    within the deadline once its device has room for it.
    """

    def __init__(self, devices: Mapping[str, Device], deadline: float) -> None:
        self._devices = devices
        self._deadline = deadline * (1.0 + 1e-9)
        self._ready: dict[Group, dict[Task, None]] = {}
        self._due: tuple[Task, Device] | None = None
        self._since = 0.0

    def settle(self, task: Task, place: int) -> None:
        """Note whether a task could be given to a device."""
        group = self._ready.setdefault((task.slots, task.allowed), {})
        if is_waiting_to_run(task, place):
            group[task] = None
        else:
            group.pop(task, None)

    def restart(self, time: float) -> None:
        """A new driver has taken over: nobody waited for what happened before."""
        self._due, self._since = None, time

    def note(self, event: str, time: float) -> None:
        """A row was read."""
        if event in _ANSWERS:
            self._due = None
        elif event not in _SILENT:
            was_due, self._due = self._due, self._free_pair()
            self._since = time if was_due is None else self._since

    def _free_pair(self) -> tuple[Task, Device] | None:
        """A task that could be given to a device, and that device."""
        for (slots, allowed), tasks in self._ready.items():
            for device in self._devices.values() if tasks else ():
                is_there = allowed is None or device.name in allowed or device.device_class in allowed
                if is_there and device.is_up and _room(device) >= slots:
                    return next(iter(tasks)), device
        return None

    def overdue(self, time: float) -> Iterator[tuple[Task, Device, str]]:
        """What was not answered in time."""
        if self._due is not None and time - self._since > self._deadline:
            task, device = self._due
            yield task, device, f"ready, and the device free, for {time - self._since:g} without a decision"
            self._since = time
        for device in self._devices.values():
            if device.waiting and device.used < device.slots and device.is_up is not False:
                yield from self._kept_waiting(device, time)

    def _kept_waiting(self, device: Device, time: float) -> Iterator[tuple[Task, Device, str]]:
        """Orders that could have started on a device long before."""
        for order in device.waiting:
            task = order.task
            begun = max(order.since, task.ready_since, device.free_since)
            is_late = time - begun > self._deadline
            if is_late and device.used + task.slots <= device.slots and task.has_all:
                yield task, device, f"waited {time - begun:g} on a free device, all its parents reported"
                order.since = time


def _room(device: Device) -> int:
    """Slots that nothing uses or is about to use."""
    return device.slots - device.used - sum(map(_slots_of, device.waiting))


def _slots_of(order: Order) -> int:
    return order.task.slots
