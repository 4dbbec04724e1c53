"""Questions to Dask's scheduler and workers: none of them blocks, the answers come to an inbox."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from weft.execute import dask_worker
from weft.execute.dask_scheduler import end_watch, find_stuck, watch
from weft.execute.work import note_of

PATIENCE = 10.0
"""Seconds for an answer."""
NUM_PINGS = 3

Ping = tuple[float, float, float]
"""When a worker was asked, what its clock said, when the answer came."""


class Link:
    """A client of Dask with an inbox: tuples of what kind of message it is, what it is about, and the answer."""

    def __init__(self, client: Any, topic: str) -> None:
        self.client, self.topic = client, topic
        self.inbox: queue.Queue[tuple[str, Any, Any]] = queue.Queue()

    def open(self) -> bool:
        """Listen to workers, turn stealing off; whether that worked."""
        self.client.subscribe_topic(self.topic, lambda event: self.inbox.put(("said", event[1], None)))
        return stop_stealing(self.client, self.topic)

    def close(self) -> None:
        """Stealing is as it was."""
        if self.client.status != "running":
            return
        try:
            self.client.unsubscribe_topic(self.topic)
            self.client.run_on_scheduler(end_watch(), self.topic)
        except Exception as error:  # a cluster that goes away takes all of it along
            _log().info("Dask was not tidied up: %s", note_of(error))

    def ask_workers(self) -> None:
        """Who is there? ``("workers", None, identity of the scheduler)``."""
        self._ask("workers", None, lambda: self.client.scheduler.identity(n_workers=-1))

    def ask_clock(self, about: Any, address: str) -> None:
        """What time is it there? ``("clocks", about, pings)``."""
        self._ask("clocks", about, lambda: self._pings(address))

    def withdraw(self, about: Any, address: str, number: int) -> None:
        """Do not start this order; ``("withdrawn", about, whether that came in time)``."""
        self._ask("withdrawn", about, lambda: self._withdraw(address, number))

    def ask_stuck(self, about: Any, key: Any) -> None:
        """Will this task be started? ``("stuck", about, state of a task that will not)``."""
        self._ask("stuck", about, lambda: self.client.run_on_scheduler(find_stuck(), key, asynchronous=True))

    def restart(self, about: Any, address: str) -> None:
        """End a worker whose task cannot be ended otherwise; its nanny, if it has one, starts another."""
        self._ask("restarted", about, lambda: self._restart(address))

    async def _restart(self, address: str) -> None:
        # Through the nanny, since a call may keep the worker itself from hearing.
        info = (await self.client.scheduler.identity(n_workers=-1))["workers"].get(address, {})
        run = self.client.run
        if info.get("nanny"):
            await run(_kill(), workers=[address], nanny=True, asynchronous=True)
        else:
            await run(os._exit, 1, workers=[address], wait=False, asynchronous=True)

    def pings(self, address: str) -> list[Ping]:
        """Compare clocks, and wait for it."""
        return list(self.client.sync(self._pings, address))

    async def _pings(self, address: str) -> list[Ping]:
        found = []
        for _ in range(NUM_PINGS):
            asked = time.time()
            answers = await self.client.run(dask_worker.clock, workers=[address], asynchronous=True)
            found.append((asked, answers[address], time.time()))
        return found

    async def _withdraw(self, address: str, number: int) -> Any:
        answers = await self.client.run(
            dask_worker.withdraw, self.topic, number, workers=[address], asynchronous=True
        )
        return answers[address]

    def _ask(self, kind: str, about: Any, question: Callable[[], Awaitable[Any]]) -> None:
        async def ask() -> None:
            try:
                answer = await asyncio.wait_for(question(), PATIENCE)
            except Exception as error:
                answer = error
            self.inbox.put((kind, about, answer))

        self.client.loop.add_callback(ask)


def _kill() -> Callable[..., None]:
    """What a nanny does to its worker; it need not have weft."""

    def kill(dask_worker: Any = None) -> None:
        import os
        import signal

        os.kill(dask_worker.pid, signal.SIGKILL)

    return kill


def stop_stealing(client: Any, topic: str, *, records: bool = False) -> bool:
    """Turn stealing off until ``end_watch`` or the end of the client; False: Dask may move tasks."""
    try:
        is_off = bool(client.run_on_scheduler(watch(), client.id, topic, records))
    except Exception as error:
        _log().warning("Dask may move tasks, stealing cannot be turned off: %s", note_of(error))
        return False
    return is_off


def offset_of(pings: Sequence[Ping]) -> float:
    """By how much a clock is ahead, by the quickest ping; 0 where that cannot be told from its delay."""
    asked, said, heard = min(pings, key=lambda ping: ping[2] - ping[0])
    ahead = said - (asked + heard) / 2
    return ahead if abs(ahead) > (heard - asked) / 2 else 0.0


def _log() -> logging.Logger:
    return logging.getLogger(__name__)
