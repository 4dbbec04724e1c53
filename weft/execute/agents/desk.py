"""Where parties that run elsewhere join: it hands out the problem, says where others listen, and takes copies of journals.

A process of the machine that started the run. What it knows stands in the run's folder, so one that was killed goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from weft.errors import InputError
from weft.execute.agents.link import Connection
from weft.execute.agents.places import Address, greet, place_file, read_place, write_place
from weft.execute.agents.setup import PROBLEM, RUN, read_setup
from weft.execute.agents.tasks import Message

DESK = "desk"
ROLES = ("cluster", "coordinator")
"""Parties that may run elsewhere."""


def party_of(name: str, num_clusters: int, num_replicas: int, field: str) -> tuple[str, int]:
    """Role and number of ``cluster-1`` or ``coordinator-0``."""
    role, _, number = name.partition("-")
    most = {"cluster": num_clusters, "coordinator": num_replicas}
    if role not in most or not (number.isascii() and number.isdigit() and int(number) < most[role]):
        raise InputError(
            f"expected cluster-0 to cluster-{num_clusters - 1} or coordinator-0 to coordinator-{num_replicas - 1}, "
            f"got {name!r}",
            field=field,
        )
    return role, int(number)


def kept_file(folder: Path, name: str) -> Path:
    """What a party writes: a cluster its journal, a coordinator its decisions."""
    role, _, number = name.partition("-")
    return folder / (f"{name}.jsonl" if role == "cluster" else f"decisions-{number}.jsonl")


def done_file(folder: Path, name: str) -> Path:
    """Says that a party elsewhere has ended well, and that all it wrote is here."""
    return folder / f"{name}.done"


def missing(folder: Path, names: tuple[str, ...]) -> list[str]:
    """Clusters elsewhere that have not joined yet."""
    return [name for name in names if name.startswith("cluster") and not place_file(folder, name).exists()]


class Desk:
    """Serves one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.setup, _ = read_setup(folder)
        self._here: dict[str, Connection] = {}

    async def listen(self) -> None:
        """Take connections until this process ends; at the same port where it was killed."""
        port = self.setup.port
        with contextlib.suppress(OSError):
            port = read_place(self.folder, DESK).port
        server = await asyncio.start_server(self._serve, self.setup.host, port)
        write_place(self.folder, DESK, Address(self.setup.host, server.sockets[0].getsockname()[1]))
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, name = Connection(reader, writer), ""
        with contextlib.suppress(OSError):
            is_known = await greet(connection)
            while is_known:
                message, _ = await connection.receive()
                if message.get("kind") == "join":
                    reply = self.join(message, connection)
                    name = str(message["name"]) if reply["kind"] == "joined" else name
                else:
                    reply = self.answer(name, message)
                await connection.send(reply)
        self.leave(name, connection)
        await connection.close()

    def join(self, message: Message, connection: Connection) -> Message:
        """Take in a party, unless it runs here or has joined already."""
        name = str(message.get("name"))
        if name not in self.setup.elsewhere:
            known = ", ".join(self.setup.elsewhere)
            return {"kind": "refused", "why": f"expected one of {known}, got {name!r}"}
        kept, is_new = kept_file(self.folder, name), "mark" not in message
        if is_new and name in self._here:
            return {"kind": "refused", "why": f"{name} has joined already"}
        if is_new and kept.exists() and kept.stat().st_size:
            return {"kind": "refused", "why": f"{name} has its journal in another folder (--out)"}
        if not is_new and message["mark"] != self.setup.mark:
            return {"kind": "refused", "why": "there is another run in this folder (--out)"}
        self._here[name] = connection
        kept.touch()
        texts = {key: (self.folder / key).read_text(encoding="utf-8") for key in (RUN, PROBLEM)}
        return {"kind": "joined", "files": texts, "size": kept.stat().st_size}

    def leave(self, name: str, connection: Connection) -> None:
        """A party has hung up; it may join again."""
        if self._here.get(name) is connection:
            del self._here[name]

    def answer(self, name: str, message: Message) -> Message:
        """Answer a party that has joined; without a name, nobody has."""
        kind = message.get("kind")
        if not name:
            return {"kind": "refused", "why": "expected to be joined first"}
        if kind == "here":
            write_place(self.folder, name, Address(str(message["host"]), int(message["port"])))
            return {"kind": "noted"}
        if kind == "ready":
            return {"kind": "ready", "missing": missing(self.folder, self.setup.elsewhere)}
        if kind == "where":
            return self._where(str(message["name"]))
        if kind == "copy":
            return self._copy(kept_file(self.folder, name), int(message["at"]), str(message["text"]))
        if kind == "bye":
            done_file(self.folder, name).touch()
            return {"kind": "noted"}
        return {"kind": "refused", "why": f"expected a known kind of message, got {kind!r}"}

    def _where(self, name: str) -> Message:
        is_party = name == "source" or name.partition("-")[0] in ROLES
        try:
            if not is_party or not name.replace("-", "").isalnum():
                raise ConnectionError
            return {"kind": "there", "address": list(read_place(self.folder, name))}
        except OSError:
            return {"kind": "nowhere"}

    @staticmethod
    def _copy(kept: Path, at: int, text: str) -> Message:
        """Add what a party has written, if it follows what is here; how much is here now."""
        if at == kept.stat().st_size:
            with open(kept, "ab") as file:
                file.write(text.encode())
        return {"kind": "copied", "size": kept.stat().st_size}
