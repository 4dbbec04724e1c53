"""When a session is asked for decisions.

On an engine of real time: whenever something has happened, a job has arrived, or a second has passed.

In virtual time, when the kernels of ``weft.sim`` would ask, so that both decide the same, byte for byte:

- Tasks on their own: whatever happens at one moment is told (events of the engine, then jobs that arrive), then
  comes one decision. A moment of starts alone is none: they free nothing and make nothing ready. When the
  session wants to be asked again at a time and nothing happens before, that is a moment too.
- Queues by kind: events and arrivals are told one after another until the session is due and time would
  pass. Where it is due still after its own decision, exactly one is told before the next decision. A time to be asked
  again counts when nothing else will happen.
- A session that wants to be asked again at once is told what its starts have led to, and asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from weft.errors import InputError
from weft.execute.engine import STARTED, VACATED
from weft.execute.stalls import Stalls

if TYPE_CHECKING:
    from weft.execute.drive import Drive

NEVER = float("inf")


class Moments(Protocol):
    """Lets time pass for a drive."""

    def advance(self, drive: Drive) -> bool:
        """Tell what happens until it is time for a decision; returns whether it ever is."""


class LiveMoments:
    """Real time."""

    def __init__(self) -> None:
        self._has_begun = False
        self._stalls = Stalls()

    def advance(self, drive: Drive) -> bool:
        """The first moment is that of the jobs that are there at the start."""
        if self._has_begun and drive.is_over:
            return False
        if self._has_begun:
            until = [time for time in (drive.wake_at, drive.feed.next_time) if time is not None]
            for event in drive.engine.events(min(until, default=None)):
                drive.happen(event)
        self._has_begun = True
        while drive.feed.next_time is not None and drive.feed.next_time <= drive.now:
            drive.arrive(drive.feed.pop(), drive.now)
        drive.look()
        self._stalls.look(drive)
        return True


class VirtualMoments:
    """Virtual time, in the kernels' order."""

    def __init__(self) -> None:
        self._has_news = False  # whether anything but starts was told since the last decision

    def advance(self, drive: Drive) -> bool:
        """Raises where tasks wait and nothing will ever start them."""
        session, wake_at = drive.told.session, drive.wake_at
        if wake_at is not None and wake_at == drive.engine.now:
            self._has_news = False
            self._tell_next(drive, wake_at)
            return True
        has_queues = session.has_queues
        limit = NEVER if wake_at is None or has_queues else wake_at
        self._has_news = False
        while self._tell_next(drive, drive.engine.now if self._is_time(drive, has_queues) else limit):
            pass
        if self._has_news or self._tell_next(drive, limit):
            drive.look()
            return True
        if wake_at is not None:
            drive.engine.events(wake_at)
            return True
        if session.num_waiting or drive.is_held_up:
            raise InputError("tasks wait, and nothing will ever start them", field="scheduler")
        return False

    def _is_time(self, drive: Drive, has_queues: bool) -> bool:
        return drive.told.session.is_due if has_queues else self._has_news

    def _tell_next(self, drive: Drive, until: float) -> bool:
        """Tell of the next events, or the next job, up to a time; returns whether there is anything to tell."""
        arrives = NEVER if drive.feed.next_time is None else drive.feed.next_time
        limit = min(until, arrives)
        events = drive.engine.events(None if limit == NEVER else limit)
        for event in events:
            self._has_news |= event.kind not in (STARTED, VACATED)
            drive.happen(event)
        if not events and arrives <= until and not drive.feed.is_empty:
            self._has_news = True
            drive.arrive(drive.feed.pop(), arrives)
            return True
        return bool(events)
