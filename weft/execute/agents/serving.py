"""The processes of clusters and of the source: sockets around their state machines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from pathlib import Path

from weft.execute.agents.cluster import ClusterAgent
from weft.execute.agents.journal import Journal
from weft.execute.agents.link import FREE, Conditions, Connection
from weft.execute.agents.places import Address, FolderPlaces, Places, connect, greet, write_place
from weft.execute.agents.setup import Setup, read_setup
from weft.execute.agents.source import Source, draw_tasks
from weft.execute.agents.tasks import Message
from weft.model.elastic_oracle import episode_key

RETRY = 0.05
"""Seconds between attempts to reach somebody."""


def cluster_name(index: int) -> str:
    """How a cluster's files are called."""
    return f"cluster-{index}"


def end_with_starter() -> None:
    """End this process when the one that started it closes its input."""

    def wait() -> None:
        while os.read(0, 4096):  # not through sys.stdin, whose lock would be held when the process ends
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


class Server:
    """Listens, and knows whether the coordinator that was promised obedience is still there."""

    def __init__(self, folder: Path, name: str, setup: Setup, conditions: Conditions) -> None:
        self.folder, self.name, self.setup, self.conditions = folder, name, setup, conditions
        self.places: Places = FolderPlaces(folder)
        self.journal = Journal(folder / f"{name}.jsonl")
        self.over = asyncio.Event()
        """Set when whoever leads has said that all is over, and was answered."""
        self._leader: Connection | None = None
        self._heard = 0.0

    async def listen(self) -> None:
        """Take connections until this process ends."""
        server, address = await self.open(Address(self.setup.host, 0))
        write_place(self.folder, self.name, address)
        async with server:
            await server.serve_forever()

    async def open(self, address: Address) -> tuple[asyncio.Server, Address]:
        """Take connections from now on; where."""
        server = await asyncio.start_server(self._serve, address.host, address.port)
        return server, Address(address.host, server.sockets[0].getsockname()[1])

    async def handle(self, message: Message, connection: Connection) -> Message | None:
        """Answer a message; None: later, or never."""
        raise NotImplementedError

    def note_leader(self, message: Message, reply: Message, connection: Connection) -> Message:
        """Remember who leads; whoever asks is told whether it still does."""
        if message["kind"] == "who":
            if message.get("term") == reply["term"]:
                self._heard = time.monotonic()
            return {**reply, "led": self._leader is not None, "age": time.monotonic() - self._heard}
        if reply["kind"] not in ("refused", "rejected") and "term" in message:
            self._leader, self._heard = connection, time.monotonic()
        return reply

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        with contextlib.suppress(
            OSError, asyncio.CancelledError
        ):  # cancelled at the end: nothing is left to do
            is_known = await greet(connection)
            while is_known:
                message, _ = await connection.receive()
                reply = await self.handle(message, connection)
                if reply is None:
                    continue
                is_state = reply["kind"] in ("promised", "state")
                connection.conditions = self.conditions if is_state else FREE
                await connection.send(reply, self.conditions.state_bytes if is_state else 0)
                if reply["kind"] == "stopped":
                    self.over.set()
        if self._leader is connection:
            self._leader = None
        await connection.close()


class ClusterServer(Server):
    """The process of a cluster's agent."""

    def __init__(self, folder: Path, index: int) -> None:
        setup, problem = read_setup(folder)
        super().__init__(folder, cluster_name(index), setup, setup.conditions)
        self.agent = ClusterAgent(problem, index, episode_key(setup.seed))
        self.agent.replay(self.journal.lines)

    async def handle(self, message: Message, connection: Connection) -> Message:
        """Answer a message, after what it changed has been written down."""
        reply = self.agent.handle(message)
        self.journal.append(self.agent.lines)
        self.agent.lines.clear()
        return self.note_leader(message, reply, connection)


class SourceServer(Server):
    """The process that submits tasks."""

    def __init__(self, folder: Path) -> None:
        setup, problem = read_setup(folder)
        super().__init__(folder, "source", setup, FREE)
        tasks = draw_tasks(problem, episode_key(setup.seed))
        self.source = Source(tasks, problem.num_clusters)
        self.source.replay(self.journal.lines)
        self._asker: Connection | None = None
        self._changed = [asyncio.Event() for _ in range(problem.num_clusters)]

    async def listen(self) -> None:
        """Take connections, and hand tasks to clusters, until this process ends."""
        async with asyncio.TaskGroup() as group:
            for n in range(len(self._changed)):
                group.create_task(self._deliver(n))
            await super().listen()

    async def handle(self, message: Message, connection: Connection) -> Message | None:
        """Answer a message; ``due`` once clusters have what is due."""
        if message.get("kind") == "due":
            self._asker = connection
        reply = self.source.handle(message)
        self._write()
        for event in self._changed:
            event.set()
        return reply if reply is None else self.note_leader(message, reply, connection)

    def _write(self) -> None:
        self.journal.append(self.source.lines)
        self.source.lines.clear()

    async def _deliver(self, cluster: int) -> None:
        """Keep one cluster supplied, through its deaths and returns."""
        while True:
            try:
                connection = await connect(self.places, cluster_name(cluster))
                await self._supply(cluster, connection)
            except OSError:
                await asyncio.sleep(RETRY)

    async def _supply(self, cluster: int, connection: Connection) -> None:
        while True:
            tasks = self.source.unsent(cluster)
            if not tasks:
                self._changed[cluster].clear()
                await self._changed[cluster].wait()
                continue
            await connection.send({"kind": "submit", "tasks": [one.to_row() for one in tasks]})
            reply, _ = await connection.receive()
            answer = self.source.accepted(cluster, reply["tasks"])
            if answer is not None and self._asker is not None:
                with contextlib.suppress(OSError):
                    await self._asker.send(answer)
