"""Where parties listen, and who may talk to them: addresses in the run's folder, and a token where others could connect.

Whoever listens asks for a proof that the other end knows the token; the token itself is never sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import socket
from pathlib import Path
from typing import NamedTuple, Protocol

from weft.errors import InputError
from weft.execute.agents.link import FREE, Conditions, Connection

HOST = "127.0.0.1"
TOKEN = "WEFT_TOKEN"
"""The variable of the environment that holds the token."""
SHORTEST_TOKEN = 16
GREETING = 5.0
"""Seconds in which a greeting is to be answered."""
_SMALL = 1024
"""Bytes of a greeting at most: nobody who has not greeted is listened to for long."""


class StrangerError(ConnectionError):
    """The other end does not know the token, or has one and we do not."""


class Address(NamedTuple):
    """Where somebody listens."""

    host: str
    port: int

    @staticmethod
    def of(text: str, field: str) -> Address:
        """Read ``HOST:PORT``, or ``[HOST]:PORT`` for addresses with colons; port 0: any that is free."""
        match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})", text.strip())
        if match is None or int(match[3]) > 65_535:
            raise InputError(f"expected HOST:PORT, such as 192.168.1.5:7000, got {text!r}", field=field)
        return Address(match[1] or match[2], int(match[3]))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def check_listening(address: Address, field: str) -> None:
    """Refuse an address that others cannot be told, that is open to them without a token, or that cannot be had here."""
    if address.host in ("0.0.0.0", "::"):
        raise InputError(
            f"expected an address at which other machines reach this one, got {address.host}", field=field
        )
    if not address.is_loopback and len(_token()) < SHORTEST_TOKEN:
        raise InputError(
            f"expected a token of at least {SHORTEST_TOKEN} characters in the environment as {TOKEN}, "
            f"for {address.host} can be reached from other machines",
            field=field,
        )
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        socket.create_server(address, family=family).close()
    except OSError as error:
        raise InputError(f"cannot listen at {address}: {error.strerror}", field=field) from None


def _token() -> bytes:
    return os.environ.get(TOKEN, "").encode()


def _proof(nonce: object) -> str:
    return hmac.new(_token(), str(nonce).encode(), hashlib.sha256).hexdigest()


async def greet(connection: Connection) -> bool:
    """Whether the other end of a connection that was taken knows the token; without a token, everybody does."""
    nonce = secrets.token_hex(16) if _token() else ""
    await connection.send({"kind": "hello", "nonce": nonce})
    if not nonce:
        return True
    with contextlib.suppress(TimeoutError):
        reply, _ = await asyncio.wait_for(connection.receive(_SMALL), GREETING)
        is_known = hmac.compare_digest(str(reply.get("proof")).encode(), _proof(nonce).encode())
        await connection.send({"kind": "welcome" if is_known else "stranger"})
        return is_known
    return False


async def reach(address: Address, conditions: Conditions = FREE) -> Connection:
    """A connection to whoever listens there; raises ``OSError`` where nobody does."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    connection = Connection(reader, writer)
    try:
        hello, _ = await asyncio.wait_for(connection.receive(_SMALL), GREETING)
        if hello.get("nonce"):
            await connection.send({"kind": "hello", "proof": _proof(hello["nonce"])})
            answer, _ = await asyncio.wait_for(connection.receive(_SMALL), GREETING)
            if answer.get("kind") != "welcome":
                raise StrangerError(f"{address} has another token in {TOKEN}")
    except TimeoutError:
        await connection.close()
        raise ConnectionError(f"{address} does not greet") from None
    except BaseException:
        await connection.close()
        raise
    connection.conditions = conditions
    return connection


class Places(Protocol):
    """Knows where parties listen."""

    async def find(self, name: str) -> Address:
        """The address of a party; raises ``OSError`` where it is not known."""


class FolderPlaces:
    """Addresses as the parties of this machine write them into the run's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def find(self, name: str) -> Address:
        """The address of a party; raises ``OSError`` where it is not known."""
        return read_place(self._folder, name)


def place_file(folder: Path, name: str) -> Path:
    """Where it is written at which address a party listens."""
    return folder / f"{name}.port"


def read_place(folder: Path, name: str) -> Address:
    """The address of a party; raises ``OSError`` where it has not said one."""
    host, _, port = place_file(folder, name).read_text(encoding="ascii").strip().rpartition(" ")
    if not host or not port.isdigit():
        raise ConnectionError(f"{name} has not said where it listens")
    return Address(host, int(port))


def write_place(folder: Path, name: str, address: Address) -> None:
    """Say where a party listens; whoever reads at the same time sees all of it or nothing."""
    path = place_file(folder, name)
    part = path.with_suffix(".part")
    part.write_text(f"{address.host} {address.port}\n", encoding="ascii")
    os.replace(part, path)


async def connect(places: Places, name: str, conditions: Conditions = FREE) -> Connection:
    """Reach a party of a run; raises ``OSError`` where nobody listens."""
    return await reach(await places.find(name), conditions)
