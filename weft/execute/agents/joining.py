"""One party of a run that was started elsewhere: a cluster's agent or a coordinator, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from weft.errors import InputError
from weft.execute.agents.coordinating import Coordinator
from weft.execute.agents.deciding import warm_mirror
from weft.execute.agents.desk import kept_file, party_of
from weft.execute.agents.launching import AgentsError
from weft.execute.agents.link import Connection
from weft.execute.agents.places import Address, StrangerError, check_listening, reach, write_place
from weft.execute.agents.serving import RETRY, ClusterServer
from weft.execute.agents.setup import PROBLEM, RUN, read_setup
from weft.execute.agents.tasks import Message
from weft.io.folders import claim

COPY = 0.05
"""Seconds between two looks at what this party has written."""
PIECE = 2**20
"""Bytes that are copied at once."""


class Visitor:
    """This party at the desk of a run; reached again where the desk was away for less than the patience of the run."""

    def __init__(self, name: str, desk: Address, folder: Path) -> None:
        self.name, self.desk, self.folder = name, desk, folder
        self.patience = 10.0
        self.size = 0
        """Bytes that the desk has of what this party has written."""
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()

    @property
    def own_host(self) -> str:
        """The address of this machine as it reaches the desk."""
        assert self._connection is not None
        return self._connection.own_host

    async def ask(self, message: Message) -> Message:
        """An answer of the desk; raises where it is away for too long."""
        until = time.monotonic() + self.patience
        async with self._lock:
            while True:
                try:
                    if self._connection is None:
                        await self._join()
                    assert self._connection is not None
                    await self._connection.send(message)
                    reply, _ = await asyncio.wait_for(self._connection.receive(), self.patience)
                    return reply
                except asyncio.CancelledError:
                    await self.hang_up()  # the answer to this must not be taken for that to another message
                    raise
                except StrangerError as error:
                    raise InputError(str(error), field="--join") from None
                except (OSError, TimeoutError):
                    await self.hang_up()
                    if time.monotonic() > until:
                        raise AgentsError(
                            f"nobody has answered at {self.desk} for {self.patience:g} s"
                        ) from None
                    await asyncio.sleep(RETRY)

    async def find(self, name: str) -> Address:
        """The address of another party; raises ``OSError`` where it is not known."""
        reply = await self.ask({"kind": "where", "name": name})
        if reply["kind"] != "there":
            raise ConnectionError(f"{name} has not said where it listens")
        host, port = reply["address"]
        return Address(str(host), int(port))

    async def hang_up(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _join(self) -> None:
        connection = await reach(self.desk)
        marked = self._mark()
        await connection.send({"kind": "join", "name": self.name} | marked)
        reply, _ = await asyncio.wait_for(connection.receive(), self.patience)
        if reply["kind"] != "joined":
            await connection.close()
            raise InputError(f"{self.desk} refused: {reply.get('why')}", field=self.name)
        if not marked:
            for name in (RUN, PROBLEM):
                (self.folder / name).write_text(str(reply["files"][name]), encoding="utf-8")
        self.size, self._connection = int(reply["size"]), connection

    def _mark(self) -> Message:
        """Which run has left its files in the folder, if one has."""
        return {"mark": read_setup(self.folder)[0].mark} if (self.folder / RUN).exists() else {}

    async def copy(self) -> bool:
        """Send the desk what was written since the last time; whether that was all."""
        kept = kept_file(self.folder, self.name)
        with contextlib.suppress(FileNotFoundError), open(kept, "rb") as file:
            file.seek(self.size)
            text = file.read(PIECE)
            whole = text[: text.rfind(b"\n") + 1]
            if whole:
                message = {"kind": "copy", "at": self.size, "text": whole.decode()}
                self.size = int((await self.ask(message))["size"])
                return False
        return True

    async def keep_copying(self) -> None:
        """Do so until cancelled."""
        while True:
            if await self.copy():
                await self.ask({"kind": "ready"})  # so that a desk that is gone is noticed
                await asyncio.sleep(COPY)


def join_agents(
    name: str,
    desk: Address,
    folder: str | Path,
    *,
    listen: Address | None = None,
    on_joined: Callable[[str], None] | None = None,
) -> Path:
    """Be one party of a run until that is over; its folder.

    Parameters
    ----------
    desk
        Where the run that was started elsewhere takes parties in.
    listen
        Where a cluster's agent listens; default: the address by which this machine reaches the desk, any port.
    """
    path = claim(folder, "run of agents", RUN)
    asyncio.run(_join(Visitor(name, desk, path), listen, on_joined))
    return path


async def _join(visitor: Visitor, listen: Address | None, on_joined: Callable[[str], None] | None) -> None:
    await visitor.ask({"kind": "ready"})
    setup, problem = read_setup(visitor.folder)
    visitor.patience = setup.patience
    role, number = party_of(visitor.name, problem.num_clusters, setup.replicas, "PARTY")
    be = _be_cluster(visitor, number, listen) if role == "cluster" else _be_coordinator(visitor, number)
    if on_joined is not None:
        on_joined(visitor.name)
    working, copying = asyncio.create_task(be), asyncio.create_task(visitor.keep_copying())
    try:
        await asyncio.wait((working, copying), return_when=asyncio.FIRST_COMPLETED)
        if copying.done():
            copying.result()  # it ends with an error only
        await working
    finally:
        for task in (working, copying):
            task.cancel()
        await asyncio.gather(working, copying, return_exceptions=True)
    while not await visitor.copy():
        pass
    await visitor.ask({"kind": "bye"})
    await visitor.hang_up()


async def _be_cluster(visitor: Visitor, index: int, listen: Address | None) -> None:
    """Serve until the run is over."""
    agent = ClusterServer(visitor.folder, index)
    wanted = listen or Address(visitor.own_host, 0)
    check_listening(wanted, "--listen")
    server, address = await agent.open(wanted)
    write_place(visitor.folder, visitor.name, address)
    await visitor.ask({"kind": "here", "host": address.host, "port": address.port})
    await agent.over.wait()
    await asyncio.sleep(agent.setup.lease)  # replicas that stand by ask whether it is over
    server.close()


async def _be_coordinator(visitor: Visitor, rank: int) -> None:
    """Stand by and lead by turns until the run is over."""
    setup, problem = read_setup(visitor.folder)
    mirror = await asyncio.to_thread(warm_mirror, setup, problem)
    while (await visitor.ask({"kind": "ready"}))["missing"]:
        await asyncio.sleep(RETRY)
    await Coordinator(visitor.folder, visitor, rank, setup, problem, mirror).run()
