"""What the oracle of histories keeps while it reads, and how it looks things up there."""

from __future__ import annotations

from collections.abc import Sequence

from weft.model.history_form import SECONDS, Row, fault_of
from weft.model.history_state import LOST, Device, Job, Name, Order, Task
from weft.model.history_waits import Waits
from weft.model.violation import Violation as Violation


class Reading:
    """Devices, jobs, tasks and orders as of the row that is read, and what was found wrong."""

    def __init__(self, rows: Sequence[Row], deadline: float) -> None:
        run = rows[0]
        self.rows = rows
        self.found: list[Violation] = []
        self.devices = {
            one["name"]: Device(one["name"], str(one.get("class", "")), one.get("slots", 1))
            for one in run["devices"]
        }
        self.jobs: dict[Name, Job] = {}
        self.is_all_or_nothing = run.get("on_failure") == "job"
        self.place, self.time = 0, 0.0
        self.clocks = dict.fromkeys((False, True), float(run["time"]))
        """The latest time of the driver's own rows, and of those that workers told."""
        self.is_closed = False
        self.driver, self.losses = 0, 0
        self.seen: dict[str, int] = {}
        self.waits = Waits(self.devices, deadline / SECONDS[run["time_unit"]])
        self._foretell()

    def say(
        self, rule: str, detail: str, task: Task | str | None = None, device: Device | str | None = None
    ) -> None:
        """Note a broken rule."""
        name = task.label if isinstance(task, Task) else task
        where = device.name if isinstance(device, Device) else device
        self.found.append(Violation(rule, name, where, f"row {self.place + 1}: {detail}"))

    def task(self, row: Row) -> Task | None:
        """The task that a row is about."""
        job = self.jobs.get(row["job"])
        task = None if job is None else job.tasks.get(row["task"])
        if task is None:
            self.say("job", f"{row['event']} of a task that has not arrived", f"{row['job']}/{row['task']}")
        return task

    def device(self, row: Row) -> Device | None:
        """The device that a row is about."""
        device = self.devices.get(row["device"])
        if device is None:
            self.say("device", f"{row['event']}: not a device of the run", None, row["device"])
        return device

    def order(self, row: Row, states: tuple[str, ...]) -> Order | None:
        """The order that a row is about, if it is in one of these states, on that device."""
        task, device = self.task(row), self.device(row)
        if task is None or device is None:
            return None
        order = task.order
        if order is None or order.attempt != row["attempt"]:
            last = "none was submitted" if order is None else f"the last one is {order.attempt}"
            self.say("order", f"{row['event']} of attempt {row['attempt']}: {last}", task, device)
        elif order.device is not device:
            self.say("order", f"{row['event']} there, but it was given to {order.device.name}", task, device)
        elif order.state not in states:
            self.say(
                "order",
                f"{row['event']}, but attempt {order.attempt} is {order.state}, not {' or '.join(states)}",
                task,
                device,
            )
        else:
            return order
        return None

    def drop_order(self, order: Order | None, state: str) -> None:
        """Take an order from its device, which may have room then."""
        if order is None or not order.is_open:
            return
        device = order.device
        device.waiting.pop(order, None)
        if order in device.running:
            del device.running[order]
            is_last = not any(o.batch == order.batch for o in device.running) or order.batch is None
            device.used -= order.task.slots if is_last else 0
            device.free_since = self.time
        order.state = state

    def lose(self, device: Device) -> None:
        """Everything that a device held is over."""
        for order in (*device.waiting, *device.running):
            self.drop_order(order, LOST)
            self.settle(order.task)

    def settle(self, *tasks: Task) -> None:
        """Say again whether these could be given to a device."""
        for task in tasks:
            self.waits.settle(task, self.place)

    def _foretell(self) -> None:
        """What is written down later than it is known: how jobs end, what is skipped, which orders are the last."""
        self.finals: dict[Name, str] = {}
        self.last_submissions: dict[tuple[Name, str], int] = {}
        self.left_out: set[tuple[Name, str]] = set()
        for place, row in enumerate(self.rows):
            event = "" if fault_of(row) else row["event"]
            if event == "ended":
                self.finals[row["job"]] = row["outcome"]
            elif event == "submitted":
                self.last_submissions[row["job"], row["task"]] = place
            elif event == "skipped":
                self.left_out.add((row["job"], row["task"]))
