"""Messages over TCP: four bytes of length, then JSON. Nothing that arrives is evaluated.

A link may be slow on purpose: every message then takes a latency and its bits over a bandwidth.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass

from weft.errors import InputError
from weft.execute.agents.tasks import Message

MOST_BYTES = 64 * 2**20
HEAD = 4
LONGEST = 3600.0
"""Seconds of latency at most."""
SLOWEST = 10_000.0
"""Bits per second at least, where a bandwidth is given."""


@dataclass(frozen=True)
class Conditions:
    """What a link is like, one way."""

    latency: float = 0.0
    """Seconds."""
    bandwidth: float = 0.0
    """Bits per second; 0: no limit."""
    state_bytes: int = 0
    """What a cluster shows is filled up to so many bytes;"""
    action_bytes: int = 0
    """and orders to so many."""

    def __post_init__(self) -> None:
        for key in ("latency", "bandwidth", "state_bytes", "action_bytes"):
            if not 0 <= getattr(self, key) < float("inf"):
                raise InputError(f"expected a number >= 0, got {getattr(self, key)}", field=key)
        if self.latency > LONGEST:
            raise InputError(f"expected at most {LONGEST:.0f} seconds, got {self.latency:g}", field="latency")
        if 0 < self.bandwidth < SLOWEST:
            raise InputError(
                f"expected 0 (no limit) or at least {SLOWEST / 1e6:g} Mbps, got {self.bandwidth / 1e6:g}",
                field="bandwidth",
            )

    @property
    def is_free(self) -> bool:
        """Whether messages take no time of their own."""
        return self.latency == 0.0 and self.bandwidth == 0.0

    def delay(self, size: int) -> float:
        """Seconds that a message of so many bytes takes."""
        return self.latency + (8 * size / self.bandwidth if self.bandwidth else 0.0)


FREE = Conditions()


def frame(message: Message, least: int = 0) -> bytes:
    """A message as bytes, filled up with blanks where it is to be longer."""
    text = json.dumps(message, separators=(",", ":"), allow_nan=False).encode().ljust(least)
    return len(text).to_bytes(HEAD, "big") + text


class Connection:
    """One end of a link."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, conditions: Conditions = FREE
    ) -> None:
        self._reader, self._writer = reader, writer
        self.conditions = conditions

    async def send(self, message: Message, least: int = 0) -> int:
        """Send a message; how many bytes it has."""
        data = frame(message, least)
        if not self.conditions.is_free:
            await asyncio.sleep(self.conditions.delay(len(data)))
        self._writer.write(data)
        await self._writer.drain()
        return len(data)

    async def receive(self, most: int = MOST_BYTES) -> tuple[Message, int]:
        """The next message, of so many bytes at most, and its size; raises ``ConnectionError`` where the other end has gone."""
        try:
            size = int.from_bytes(await self._reader.readexactly(HEAD), "big")
            if size > most:
                raise ConnectionError(f"a message of {size} bytes")
            found = json.loads(await self._reader.readexactly(size))
        except asyncio.IncompleteReadError:
            raise ConnectionError("the other end has gone") from None
        except ValueError:
            raise ConnectionError("a message that is not JSON") from None
        if not isinstance(found, dict):
            raise ConnectionError("a message that is not an object")
        return found, HEAD + size

    @property
    def own_host(self) -> str:
        """The address of this end."""
        return str(self._writer.get_extra_info("sockname")[0])

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
