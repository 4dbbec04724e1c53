"""What goes wrong in a run, written down beforehand: the same for engines of virtual time and real ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weft.errors import InputError
from weft.session.messages import Name

NEVER = float("inf")


class Loss(NamedTuple):
    """A device is lost at a time and joins again at ``until``; infinite: never. Lost at 0: it joins late."""

    device: str
    time: float
    until: float = NEVER


class Slowdown(NamedTuple):
    """From a time on a device takes ``factor`` times as long, also for what is left of what it runs."""

    device: str
    time: float
    factor: float


class Failure(NamedTuple):
    """This attempt at a task fails when it would have ended; or hangs: it never ends."""

    job: Name
    task: str
    attempt: int = 1
    hangs: bool = False


class Move(NamedTuple):
    """A device goes or comes."""

    time: float
    goes: bool
    device: str


@dataclass(frozen=True)
class Faults:
    """All that goes wrong in one run; times are in the problem's unit, since the start of the engine."""

    losses: tuple[Loss, ...] = ()
    slowdowns: tuple[Slowdown, ...] = ()
    """The last one that has begun on a device counts."""
    failures: tuple[Failure, ...] = ()

    def __post_init__(self) -> None:
        for k, one in enumerate(self.losses):
            if not 0 <= one.time < one.until:
                raise InputError(
                    f"expected 0 <= time < until, got {one.time} and {one.until}", field=f"losses[{k}]"
                )
            if any(other.device == one.device and _overlap(one, other) for other in self.losses[:k]):
                raise InputError(f"expected one loss of {one.device!r} at a time", field=f"losses[{k}]")
        for k, slow in enumerate(self.slowdowns):
            if not (slow.time >= 0 and 0 < slow.factor < math.inf):
                raise InputError(
                    f"expected a time >= 0 and a factor > 0, got {slow.time} and {slow.factor}",
                    field=f"slowdowns[{k}]",
                )

    def refuse_strangers(self, devices: Sequence[str]) -> None:
        """Raise where a device is named that is not there."""
        for name in ("losses", "slowdowns"):
            for k, one in enumerate(getattr(self, name)):
                if one.device not in devices:
                    raise InputError(f"no device {one.device!r} in the cluster", field=f"{name}[{k}]")

    def moves(self) -> list[Move]:
        """All that goes and comes, by time; who comes at one time comes before others go."""
        found = [Move(one.time, True, one.device) for one in self.losses]
        found += [Move(one.until, False, one.device) for one in self.losses if one.until < NEVER]
        return sorted(found)

    def failure(self, job: Name, task: str, attempt: int) -> Failure | None:
        """How this attempt goes wrong, if it does."""
        for one in self.failures:
            if (one.job, one.task, one.attempt) == (job, task, attempt):
                return one
        return None

    def end(self, device: str, start: float, run: float) -> float:
        """When a device is done that begins at ``start`` what takes ``run`` on a device without faults."""
        time, left, factor = start, run, 1.0
        for slow in sorted(one for one in self.slowdowns if one.device == device):
            if slow.time > time:
                if time + left * factor <= slow.time:
                    break
                left -= (slow.time - time) / factor
                time = slow.time
            factor = slow.factor
        return time + left * factor


def _overlap(one: Loss, other: Loss) -> bool:
    """Devices must be there for a while between two losses, or nobody could tell them apart."""
    return one.time <= other.until and other.time <= one.until
