"""The process of a coordinator: it watches who leads, takes over when nobody does, and leads until it is over or fenced."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.execute.agents.leader import SOURCE, Leader, ProtocolError, Sends
from weft.execute.agents.link import FREE, Connection
from weft.execute.agents.mirror import Mirror
from weft.execute.agents.places import Places, connect
from weft.execute.agents.serving import RETRY, cluster_name
from weft.execute.agents.setup import Setup
from weft.execute.agents.tasks import Message
from weft.model.elastic import ElasticProblem

WATCH = 0.05
"""Seconds between two looks at who leads."""
FIRST_TURN = 5.0
"""At the start, later replicas wait this much longer each, so that the first one leads."""


def decisions_file(folder: Path, rank: int) -> Path:
    """What a coordinator measures."""
    return folder / f"decisions-{rank}.jsonl"


class Coordinator:
    """One replica."""

    def __init__(
        self, folder: Path, places: Places, rank: int, setup: Setup, problem: ElasticProblem, mirror: Mirror
    ) -> None:
        self.folder, self.places, self.rank = folder, places, rank
        self.setup, self.problem, self.mirror = setup, problem, mirror
        self._watched: dict[int, Connection] = {}

    async def run(self) -> None:
        """Stand by and lead by turns until all tasks have ended."""
        while True:
            highest = await self._stand_by()
            if highest is None:
                return
            replicas = self.setup.replicas
            term = (highest // replicas + 1) * replicas + self.rank
            if await Leading(self, term).run():
                return

    async def _stand_by(self) -> int | None:
        """The highest term, when nobody has led for long enough; None: all is over."""
        since: float | None = None
        while True:
            replies = await asyncio.gather(*(self._who(n) for n in range(self.problem.num_clusters)))
            heard = [one for one in replies if one is not None]
            if any(one["over"] for one in heard):
                return None
            is_led = any(one["led"] and one["age"] < self.setup.silence for one in heard)
            if is_led or not heard:
                since = None
            else:
                since = since or time.monotonic()
                highest = max(int(one["term"]) for one in heard)
                if time.monotonic() - since >= self._turn(highest):
                    return highest
            await asyncio.sleep(WATCH)

    def _turn(self, highest: int) -> float:
        """Seconds to leave to replicas that come before this one after the last leader."""
        if highest < 0:
            return self.rank * (FIRST_TURN + self.setup.silence)
        return (self.rank - highest % self.setup.replicas - 1) % self.setup.replicas * 2 * WATCH

    async def _who(self, cluster: int) -> Message | None:
        try:
            if cluster not in self._watched:
                self._watched[cluster] = await connect(self.places, cluster_name(cluster))
            connection = self._watched[cluster]
            await connection.send({"kind": "who"})
            reply, _ = await asyncio.wait_for(connection.receive(), self.setup.lease)
            return reply
        except (OSError, TimeoutError):
            gone = self._watched.pop(cluster, None)
            if gone is not None:
                await gone.close()
            return None


class Leading:
    """One term of one coordinator, and what it measures: a line per decision."""

    def __init__(self, replica: Coordinator, term: int) -> None:
        self.log, self.places, self.setup = (
            decisions_file(replica.folder, replica.rank),
            replica.places,
            replica.setup,
        )
        problem = replica.problem
        self.leader = Leader(problem.num_clusters, problem.num_slots, term, replica.mirror.decide)
        self._parties = [SOURCE, *range(problem.num_clusters)]
        self._outboxes: dict[int, asyncio.Queue[Message]] = {
            party: asyncio.Queue() for party in self._parties
        }
        self._changed = asyncio.Event()
        self._error: ProtocolError | None = None
        self._bytes = {"down": 0, "up": 0}

    async def run(self) -> bool:
        """Lead; whether all is over (else another coordinator leads)."""
        tasks = [asyncio.create_task(self._talk(party)) for party in self._parties]
        try:
            self._post(self.leader.begin())
            with open(self.log, "a", encoding="utf-8") as log:
                await self._lead(lambda row: print(json.dumps(row), file=log, flush=True))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._error is not None:
            raise self._error
        return self.leader.phase == "over"

    async def _lead(self, write: Callable[[dict[str, Any]], None]) -> None:
        next_step, row = time.monotonic(), None
        while self._error is None and self.leader.phase != "fenced":
            if row is not None and self.leader.phase in ("ready", "over", "tell", "promise"):
                row["trip"] = time.perf_counter() - row.pop("from")
                write({**row, **self._bytes, "left": self.leader.left, "ok": self.leader.phase != "promise"})
                row = None
            if self.leader.phase == "over" and not self.leader.waiting_for:
                return
            if self.leader.phase == "ready":
                if self.leader.round == 0:
                    await asyncio.sleep(max(0.0, next_step - time.monotonic()))
                    next_step = max(time.monotonic(), next_step) + self.setup.step_seconds
                if self.leader.phase == "ready":
                    row = self._decide()
            self._changed.clear()
            if self.leader.phase != "ready":
                await self._changed.wait()

    def _decide(self) -> dict[str, Any]:
        started = time.perf_counter()
        step = self.leader.step
        self._bytes = {"down": 0, "up": 0}
        sends = self.leader.next()
        inference = time.perf_counter() - started
        self._post(sends)
        assert self.leader.last is not None
        rounds, advances = self.leader.last.num_rounds, self.leader.last.advances
        return {
            "at": time.time(), "term": self.leader.term, "step": step, "rounds": rounds, "advances": advances,
            "inference": inference, "from": started,
        }  # fmt: skip

    def _post(self, sends: Sends) -> None:
        for party, message in sends:
            self._outboxes[party].put_nowait(message)
        self._changed.set()

    async def _talk(self, party: int) -> None:
        """Keep talking to one party, through its deaths and returns."""
        name = "source" if party == SOURCE else cluster_name(party)
        conditions = FREE if party == SOURCE else self.setup.conditions
        since = time.monotonic()
        while True:
            try:
                connection = await connect(self.places, name, conditions)
            except OSError:
                if time.monotonic() - since > self.setup.patience:
                    self._give_up(party)
                await asyncio.sleep(RETRY)
                continue
            try:
                self._outboxes[party] = asyncio.Queue()
                if party in self.leader.waiting_for:
                    self._outboxes[party].put_nowait(self.leader.waiting_for[party])
                elif party in self.leader.lost:
                    self._post(self.leader.hear(party))
                if party == SOURCE:
                    await self._listen_while_speaking(connection)
                while True:
                    await self._exchange(party, connection)
                    since = time.monotonic()
            except (OSError, TimeoutError) as error:
                if isinstance(error, TimeoutError):
                    self._give_up(party)
            except ProtocolError as error:
                self._error = error
                self._changed.set()
                return
            finally:
                await connection.close()

    async def _exchange(self, party: int, connection: Connection) -> None:
        """One message and its answer; a greeting where there was nothing to say for a while."""
        try:
            message = await asyncio.wait_for(self._outboxes[party].get(), self.setup.lease / 3)
        except TimeoutError:
            message = {"kind": "who", "term": self.leader.term}
        is_action = message["kind"] == "act"
        sent = await connection.send(message, self.setup.conditions.action_bytes if is_action else 0)
        reply, size = await asyncio.wait_for(connection.receive(), self.setup.patience)
        if is_action:
            self._bytes["down"] += sent
            self._bytes["up"] += size
        if reply["kind"] != "who":
            self._post(self.leader.receive(party, reply))

    async def _listen_while_speaking(self, connection: Connection) -> None:
        """The source answers when clusters have accepted what is due; until then it can be told other things."""

        async def speak() -> None:
            while True:
                await connection.send(await self._outboxes[SOURCE].get())

        speaking = asyncio.create_task(speak())
        try:
            while True:
                reply, _ = await connection.receive()
                self._post(self.leader.receive(SOURCE, reply))
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)

    def _give_up(self, party: int) -> None:
        if party != SOURCE and party not in self.leader.lost and self.leader.phase not in ("over", "fenced"):
            self._post(self.leader.give_up(party))
