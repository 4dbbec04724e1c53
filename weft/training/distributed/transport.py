"""How roles are reached: a role is an object somewhere, its methods are called, and answers come when they come.

Three implementations: ``local.py``, ``processes.py`` and ``ray_transport.py``. What a method returns may stay where it is
and be handed on to another role without passing through whoever asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from weft.errors import WeftError

Make = Callable[..., object]
"""What makes a role; must be importable, for it may be called in another process."""


class Call(NamedTuple):
    """A call that was made."""

    number: int
    role: str
    method: str


class Part(NamedTuple):
    """One of the parts that a call returns, to be handed to another call as an argument of its own."""

    call: Call
    which: int


@dataclass(frozen=True)
class Answer:
    """How a call ended."""

    call: Call
    error: Exception | None = None
    """None: it returned; :class:`Lost`: the role is gone, and with it what was asked of it; :class:`Failed`: it raised."""

    @property
    def is_lost(self) -> bool:
        """Whether the role itself must be started again."""
        return isinstance(self.error, Lost)


class Lost(WeftError):
    """A role is gone."""

    def __init__(self, role: str, why: str = "") -> None:
        super().__init__(f"{role} is gone{why and f': {why}'}")


class Failed(WeftError):
    """A call raised an error, or what it was given could not be had; the role itself is still there."""

    def __init__(self, role: str, why: str) -> None:
        super().__init__(f"{role} failed: {why}")


class Transport(Protocol):
    """Carries calls to roles."""

    def start(self, role: str, make: Make, *given: object) -> None:
        """Make a role of this name, in place of one that was lost."""

    def put(self, value: object) -> Part:
        """Keep a value that several calls will be given."""

    def call(self, role: str, method: str, *given: object, parts: int = 1) -> Call:
        """Have a method called; a :class:`Part` among the arguments stands for what another call returned.

        With several ``parts`` the method returns a tuple of so many. A role carries out its calls in order.
        """

    def answers(self, timeout: float | None) -> list[Answer]:
        """Calls that ended since the last time; waits for one, but not longer than ``timeout`` seconds (None: for ever)."""

    def value(self, call: Call, which: int = 0) -> Any:
        """What a call returned that ended well."""

    def drop(self, call: Call) -> None:
        """What a call returned is not wanted any more."""

    def stop(self, role: str) -> None:
        """End a role; calls of it that have not ended are forgotten."""

    def close(self) -> None:
        """End all roles."""
