"""What is done inside Dask's scheduler, which may have no weft: inner functions travel as a whole.

Stealing is off while somebody wants it so, and comes back even if the one who turned it off is killed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WORKERS = "workers"
"""What the scheduler says when a worker comes or goes."""


def watch() -> Callable[..., Any]:
    """``client.run_on_scheduler(watch(), client.id, topic, records)``: stealing off, word of workers that come or go.

    Ends with the client, or with ``end_watch``. The answer: whether nothing is stolen now. With ``records``, what
    tasks took is noted, for ``end_watch``.
    """

    async def start(owner: str, topic: str, records: bool, dask_scheduler: Any = None) -> bool:
        import asyncio

        from distributed.diagnostics.plugin import SchedulerPlugin

        def others() -> list[Any]:
            return [one for name, one in dask_scheduler.plugins.items() if str(name).startswith("weft-")]

        stealing = dask_scheduler.extensions.get("stealing")
        callbacks = dask_scheduler.periodic_callbacks

        class Watch(SchedulerPlugin):  # type: ignore[misc]
            name = topic
            task: Any = None  # that starts stealing again
            seen: list[Any] = []  # noqa: RUF012  the class is made for one object
            found_stealing = "stealing" in callbacks or any(one.found_stealing for one in others())

            def add_worker(self, scheduler: Any, worker: str) -> None:
                scheduler.log_event(topic, {"what": "workers", "gone": ""})

            def remove_worker(self, scheduler: Any, worker: str, **more: Any) -> None:
                scheduler.log_event(topic, {"what": "workers", "gone": worker})

            def remove_client(self, scheduler: Any, client: str) -> None:
                if client == owner:
                    self.end(scheduler)

            def end(self, scheduler: Any) -> None:
                scheduler.plugins.pop(topic, None)
                if self.found_stealing and not others():
                    self.task = asyncio.ensure_future(stealing.start())

        class Recording(Watch):
            def transition(self, key: Any, start: str, finish: str, *_: Any, **more: Any) -> None:
                if finish == "memory" and more.get("startstops"):
                    steps = [one for one in more["startstops"] if one["action"] == "compute"]
                    seconds = sum(one["stop"] - one["start"] for one in steps)
                    self.seen.append((key, more.get("worker"), seconds, more.get("nbytes")))

        dask_scheduler.add_plugin(Recording() if records else Watch(), name=topic)
        if stealing is not None:
            await stealing.stop()
        return "stealing" not in callbacks

    return start


def end_watch() -> Callable[..., Any]:
    """``client.run_on_scheduler(end_watch(), topic)``: as it was before ``watch``, unless others watch too.

    The answer: (key, address of the worker, seconds, bytes of the result) of every run that was noted.
    """

    async def end(topic: str, dask_scheduler: Any = None) -> list[Any]:
        plugin = dask_scheduler.plugins.get(topic)
        if plugin is None:
            return []
        plugin.end(dask_scheduler)
        if plugin.task is not None:
            await plugin.task
        return list(plugin.seen)

    return end


def find_stuck() -> Callable[..., Any]:
    """``client.run_on_scheduler(find_stuck(), key)``: in which state Dask holds a task that nothing will start.

    Empty: a worker has it, or has what it waits for.
    """

    def find(key: Any, dask_scheduler: Any = None) -> str:
        seen, ahead = set(), [key]
        while ahead:
            one = ahead.pop()
            task = dask_scheduler.tasks.get(one)
            if task is not None and task.state == "processing":
                return ""
            seen.add(one)
            if task is not None:
                ahead += [other.key for other in task.waiting_on or () if other.key not in seen]
        first = dask_scheduler.tasks.get(key)
        return "unknown" if first is None else str(first.state)

    return find
