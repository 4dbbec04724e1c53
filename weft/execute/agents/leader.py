"""The coordinator: it asks all clusters for what they hold, decides, and orders; a replica does the same after it.

Replies in, messages out; no sockets, no clock. Nothing that matters is kept here alone: whoever takes over asks
every cluster for a promise, and rebuilds what is where from what they say.

Any disturbance is treated alike (a coordinator that takes over, a cluster that was away, one that is given up,
one that returns): a new round of promises, after which differences are mended and work goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from weft.errors import WeftError
from weft.execute.agents.tasks import Message, Shown

SOURCE = AWAY = -1
"""The source, where clusters are meant by their index; as a holder of tasks, a cluster that was given up."""
Sends = list[tuple[int, Message]]
Decide = Callable[[list[Shown | None], int], "Decision"]
"""What clusters show (None: given up) and how many rounds have passed in this step -> orders."""


@dataclass(frozen=True)
class Decision:
    """Orders for every cluster, as the fields of ``act``, and whether the world moves on."""

    orders: list[Message]
    advances: bool
    num_rounds: int = 1
    """Logical steps that were decided."""


class ProtocolError(WeftError):
    """A cluster has refused orders that should have been possible."""


@dataclass
class Leader:
    """One coordinator in one term.

    Phases: ``promise`` (asking all for a promise), ``submit`` (tasks that are due reach the clusters), ``mend`` (differences
    are removed), ``ready`` (the next decision can be made), ``act`` (orders are out), ``tell`` (the source hears of the
    last ends), ``over`` (all tasks have ended) and ``fenced`` (another coordinator has a higher term).
    """

    num_clusters: int
    num_slots: int
    term: int
    decide: Decide
    session: int = 0
    phase: str = "idle"
    highest: int = -1
    """The highest term met."""
    step: int = 0
    round: int = 0
    lost: set[int] = field(default_factory=set)
    left: int = -1
    """Tasks that have not ended, as the source knows; -1: not known yet."""
    last: Decision | None = None
    waiting_for: dict[int, Message] = field(default_factory=dict)
    """Party -> the message it has not answered."""
    shown: dict[int, Shown] = field(default_factory=dict)
    _due: int = -1
    _ended: dict[int, bool] = field(default_factory=dict)
    """Task that has ended -> whether the source has been told."""
    _telling: list[int] = field(default_factory=list)
    _holder: dict[int, int] = field(default_factory=dict)
    _returning: set[int] = field(default_factory=set)
    _heard: set[int] = field(default_factory=set)
    """Clusters that were given up and have answered since."""

    # a round of promises

    def begin(self) -> Sends:
        """Ask everybody for a promise; those given up too, since they may be back."""
        self.session += 1
        self.phase = "promise"
        self.shown.clear()
        self.waiting_for.clear()
        self._telling = []
        parties = [SOURCE, *range(self.num_clusters)]
        return [self._send(party, {"kind": "promise"}) for party in parties]

    def give_up(self, cluster: int) -> Sends:
        """Go on without a cluster: what it took and has not ended will be placed again."""
        if len(self.lost | {cluster}) == self.num_clusters:
            return []
        self.lost.add(cluster)
        self._heard.discard(cluster)
        if self.phase != "promise":
            return self.begin()
        return self._after_promises()

    def receive(self, party: int, reply: Message) -> Sends:
        """Take a reply; what is to be sent now."""
        if self.phase in ("fenced", "idle") or (reply.get("term"), reply.get("session")) != (
            self.term,
            self.session,
        ):
            return []
        kind = reply["kind"]
        if kind == "refused":
            return self._refused(int(reply["by"]))
        if self.phase == "over":
            if kind == "stopped":
                self.waiting_for.pop(party, None)
            return []
        if kind == "rejected":
            who = "the source" if party == SOURCE else f"cluster {party}"
            raise ProtocolError(f"{who} refused orders: {reply['why']}")
        if kind == "promised":
            return self._promised(party, reply) if self.phase == "promise" else self.hear(party)
        if kind == "submitted" and party == SOURCE:
            return self._submitted(reply)
        if kind == "state" and party in self.waiting_for:
            return self._told(party, reply)
        return []

    def hear(self, party: int) -> Sends:
        """A cluster that was given up can be reached: all promise again, and this time it is waited for."""
        if party not in self.lost or self.phase in ("over", "fenced"):
            return []
        self._heard.add(party)
        return self.begin()

    def _refused(self, term: int) -> Sends:
        if term <= self.term:  # a party that has forgotten its promise
            return self.begin()
        self.phase, self.highest = "fenced", term
        self.waiting_for.clear()
        return []

    def _promised(self, party: int, reply: Message) -> Sends:
        if party not in self.waiting_for:
            return []
        if party == SOURCE:
            self._ended.update(dict.fromkeys(reply["ended"], True))
            self._due = int(reply["due"])
        else:
            self.shown[party] = Shown.of_message(reply, self.num_slots)
        del self.waiting_for[party]
        return self._after_promises()

    def _after_promises(self) -> Sends:
        """When all that count have promised: rebuild what is where, and have due tasks submitted."""
        if SOURCE in self.waiting_for or not self.shown:
            return []
        recorded = {n for one in self.shown.values() for n in one.lost} | self.lost
        if any(n not in recorded - self._heard for n in self.waiting_for):
            return []
        self._returning = recorded & set(self.shown)
        self.lost = recorded - set(self.shown)
        self.waiting_for.clear()
        self.step = max(one.step for one in self.shown.values())
        self.round = 0
        self._rebuild()
        self.phase = "submit"
        return [self._ask_due(self.step + 1)]

    def _rebuild(self) -> None:
        """Who holds which task: those that were never given up first, ended before running, lower index before higher."""
        claims: dict[int, list[tuple[bool, bool, int]]] = {}
        for n, one in sorted(self.shown.items()):
            is_back = n in self._returning
            for number in one.finished:
                claims.setdefault(number, []).append((is_back, False, n))
            for held in one.running:
                claims.setdefault(held.task.number, []).append((is_back, True, n))
        self._holder = {number: min(found)[2] for number, found in claims.items()}
        for number in self._ended:  # as the source knows; perhaps by a cluster that is away
            ended = [claim for claim in claims.get(number, []) if not claim[1]]
            self._holder[number] = min(ended)[2] if ended else AWAY
        for number, found in claims.items():
            if not min(found)[1]:
                self._ended.setdefault(number, False)

    def _mend(self) -> Sends:
        """Orders that make clusters agree, one set for each."""
        self.phase = "mend"
        return [self._send(n, self._mending(n)) for n in sorted(self.shown)]

    def _mending(self, n: int) -> Message:
        shown = self.shown[n]
        # those that return count as given up until they have agreed too: else a conflict could be settled anew
        orders: Message = {"kind": "act", "seq": shown.seq, "lost": sorted(self.lost | self._returning)}
        mine = [*shown.finished, *(held.task.number for held in shown.running)]
        gone = [number for number in mine if self._holder[number] != n]
        stale = [one.number for one in shown.waiting if one.number in self._holder]
        taken = [[number, self._holder[number]] for number in [*gone, *stale]]
        back = [number for number in sorted(shown.elsewhere) if number not in self._holder]
        lag = self.step - shown.step
        found = {"withdraw": gone, "taken": taken, "back": back}
        orders |= {key: value for key, value in found.items() if value}
        if lag == 1 and n not in self._returning:
            orders["advance"] = True
        elif lag:
            orders["skip"] = self.step
        return orders

    # decisions

    def next(self) -> Sends:
        """Decide from what the clusters show; only when ``ready``."""
        assert self.phase == "ready"
        views = [self._view(n) for n in range(self.num_clusters)]
        self.last = self.decide(views, self.round)
        self.phase = "act"
        sends: Sends = []
        for n in sorted(self.shown):
            orders = {"kind": "act", "seq": self.shown[n].seq, **self.last.orders[n]}
            stale = [one.number for one in self.shown[n].waiting if one.number in self._holder]
            if stale:
                orders["taken"] = orders.get("taken", []) + [[t, self._holder[t]] for t in stale]
                if "order" in orders:
                    orders["order"] = [*orders["order"], *stale]
            if self._returning:
                orders["lost"] = sorted(self.lost)
            if self.last.advances:
                orders["advance"] = True
            sends.append(self._send(n, orders))
        for n, orders in enumerate(self.last.orders):
            self._holder.update({number: n for number, _, _ in orders.get("place", [])})
        if self.last.advances:
            sends.append(self._ask_due(self.step + 2))
        return sends

    def _view(self, n: int) -> Shown | None:
        """What a cluster shows, without tasks that another one holds."""
        if n not in self.shown:
            return None
        one = self.shown[n]
        slots = tuple(None if t is None or t.number in self._holder else t for t in one.slots)
        queue = tuple(t for t in one.queue if t.number not in self._holder)
        queued = len(queue) if one.queue else one.queued
        return Shown(one.step, one.seq, slots, queued, one.running, one.finished, queue)

    def _told(self, n: int, reply: Message) -> Sends:
        shown = Shown.of_message(reply, self.num_slots)
        if shown.seq != int(self.waiting_for[n]["seq"]) + 1:
            return []
        self.shown[n] = shown
        for number in shown.finished:
            self._ended.setdefault(number, False)
            self._holder[number] = n
        del self.waiting_for[n]
        return self._go_on()

    def _submitted(self, reply: Message) -> Sends:
        if SOURCE not in self.waiting_for or reply["step"] != self.waiting_for[SOURCE]["step"]:
            return []
        del self.waiting_for[SOURCE]
        self._due = int(reply["step"])
        self.left = int(reply["left"])
        for number in self._telling:
            self._ended[number] = True
        self._telling = []
        if self.phase == "submit":
            return self._mend()
        return self._go_on()

    def _go_on(self) -> Sends:
        if self.waiting_for or self.phase not in ("mend", "act", "tell"):
            return []
        if self.phase == "act":
            self._returning = set()
            advances = self.last is not None and self.last.advances
            self.step, self.round = (self.step + 1, 0) if advances else (self.step, self.round + 1)
        num_untold = sum(not is_told for is_told in self._ended.values())
        if num_untold and num_untold == self.left:
            self.phase = "tell"  # the last tasks have ended: the source is told before anybody stops
            return [self._ask_due(self.step + 1)]
        if self.left == 0:
            self.phase = "over"
            return [self._send(party, {"kind": "stop"}) for party in [SOURCE, *sorted(self.shown)]]
        self.phase = "ready"
        return []

    # messages

    def _ask_due(self, step: int) -> tuple[int, Message]:
        self._telling = [number for number, is_told in self._ended.items() if not is_told]
        message = {"kind": "due", "step": step, "ended": self._telling, "lost": sorted(self.lost)}
        return self._send(SOURCE, message)

    def _send(self, party: int, message: Message) -> tuple[int, Message]:
        whole = {**message, "term": self.term, "session": self.session}
        self.waiting_for[party] = whole
        return party, whole
