"""Roles that are kept alive: whoever is lost is started again, which is counted, and too many end the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from weft.errors import InputError, WeftError
from weft.training.distributed.transport import Call, Make, Transport


class Heard(NamedTuple):
    """A call that ended."""

    call: Call
    about: Any
    """What was said when it was made."""
    is_lost: bool
    """Whether there is no answer, and will be none."""
    life: int
    """Of the role, when it was asked."""


class TooManyFailures(WeftError):
    """More roles were lost than a run may lose."""


class Crew:
    """Starts roles, passes calls on, and starts again what is lost.

    Parameters
    ----------
    max_failures
        Failures after which the run stops.
    on_lost
        Called with the name of a role after a new life of it was started.
    """

    def __init__(
        self,
        transport: Transport,
        max_failures: int,
        on_lost: Callable[[str], None],
        on_notice: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.transport, self._max_failures = transport, max_failures
        self.on_lost, self._on_notice = on_lost, on_notice
        self._made: dict[str, tuple[Make, tuple[object, ...]]] = {}
        self.lives: dict[str, int] = {}
        """Role -> how often it was started before this life."""
        self._backlog: list[Heard] = []
        self._pending: dict[int, tuple[Call, Any, int]] = {}  # number -> call not ended, about, life
        self.failures = 0
        """Roles lost and calls failed."""
        self.restarts = 0
        self.put = transport.put
        self.drop = transport.drop
        self.value = transport.value

    def add(self, role: str, make: Make, *given: object, life: int = 0) -> None:
        """Start a role; it is made of what is given and of the number of its life."""
        self._made[role] = make, given
        self.lives[role] = life
        self.transport.start(role, make, *given, life)

    def ask(self, role: str, method: str, *given: object, parts: int = 1, about: Any = None) -> Call:
        """Call a method of a role."""
        call = self.transport.call(role, method, *given, parts=parts)
        self._pending[call.number] = call, about, self.lives[role]
        return call

    @property
    def num_pending(self) -> int:
        """Calls whose end was not heard of."""
        return len(self._pending) + len(self._backlog)

    def heard(self, timeout: float | None) -> list[Heard]:
        """Calls that ended since the last time; lost ones too, once their role was started again."""
        found, self._backlog = self._backlog, []
        for answer in self.transport.answers(0.0 if found else timeout):
            if isinstance(answer.error, InputError):
                raise answer.error
            if answer.call.number not in self._pending:  # of a life that is over
                self.transport.drop(answer.call)
                continue
            call, about, life = self._pending.pop(answer.call.number)
            found.append(Heard(call, about, answer.error is not None, life))
            if answer.error is not None:
                found += self._lose(call.role)
                self._fail(call.role, str(answer.error))
        return found

    def _lose(self, role: str) -> list[Heard]:
        """What else was asked of a role that is gone."""
        lost = [number for number, (call, _, _) in self._pending.items() if call.role == role]
        gone = [self._pending.pop(number) for number in lost]
        return [Heard(call, about, True, life) for call, about, life in gone]

    def is_of_now(self, heard: Heard) -> bool:
        """Whether the role that was asked is still the one that lives."""
        return heard.life == self.lives[heard.call.role]

    def _fail(self, role: str, why: str) -> None:
        """Start a role again."""
        self.failures += 1
        if self.failures > self._max_failures:
            raise TooManyFailures(
                f"{self.failures} failures, more than distributed.max_failures = {self._max_failures}; the last: {why}"
            )
        self._on_notice(
            f"{why}; starting it again ({self.failures} of at most {self._max_failures} failures)"
        )
        make, given = self._made[role]
        self.lives[role] += 1
        self.restarts += 1
        self.transport.stop(role)
        self.transport.start(role, make, *given, self.lives[role])
        self.on_lost(role)

    def answer(self, role: str, method: str, *given: object, patience: float | None = None) -> Any:
        """Call a method and wait for what it returns; None: its role was lost. Other answers are kept for later."""
        call = self.ask(role, method, *given)
        others: list[Heard] = []
        while True:
            heard = self.heard(patience)
            if not heard:
                raise WeftError(f"{role} does not answer")
            own = [one for one in heard if one.call == call]
            others += [one for one in heard if one.call != call]
            if own:
                break
        self._backlog = others
        if own[0].is_lost:
            return None
        value = self.value(call)
        self.drop(call)
        return value

    def close(self) -> None:
        """End all roles."""
        self.transport.close()
