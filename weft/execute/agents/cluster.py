"""The agent of one cluster: it alone knows what runs there, and obeys one coordinator at a time.

Messages in, replies and journal lines out; no sockets, no clock. What a line of the journal says has happened, and
replaying the lines gives the same agent.
"""

from __future__ import annotations

from typing import Any

from weft.errors import InputError
from weft.execute.agents.tasks import Held, Message, Shown, Task
from weft.model.draws import PROGRESS, keyed_uniform
from weft.model.elastic import ElasticProblem


class ClusterAgent:
    """What a cluster holds, and what may be done with it.

    ``promise`` binds it to a coordinator by (term, session): orders of any lower pair are refused for ever.
    ``act`` carries orders out once, all of them or none: their number must be the next.
    ``submit`` takes a task once, however often it comes.
    """

    def __init__(self, problem: ElasticProblem, index: int, seed: int) -> None:
        self.problem, self.index, self.seed = problem, index, seed
        self.capacity = tuple(int(have) for have in problem.capacity[index])
        self.promised = (-1, -1)
        self.step = 0
        self.seq = 0
        self.is_over = False
        self.slots: list[Task | None] = [None] * problem.num_slots
        self.queue: list[Task] = []
        self.inbox: dict[int, Task] = {}
        self.running: list[Held] = []
        self.finished: dict[int, int] = {}
        self.elsewhere: dict[int, int] = {}
        self.known: dict[int, Task] = {}
        self.lost: tuple[int, ...] = ()
        self.last_finished: tuple[int, ...] = ()
        self.lines: list[Message] = []
        """What is to be written down before the reply is sent; whoever writes it clears it."""

    def handle(self, message: Message) -> Message:
        """Answer one message."""
        kind = message.get("kind")
        if kind == "who":
            return {"kind": "who", "term": self.promised[0], "step": self.step, "over": self.is_over}
        if kind == "submit":
            return self._submit(message)
        if kind not in ("promise", "act", "stop"):
            return {"kind": "rejected", "why": f"expected a known kind of message, got {kind!r}"}
        pair = (int(message["term"]), int(message["session"]))
        if pair < self.promised or (kind != "promise" and pair != self.promised):
            return {"kind": "refused", **self._echo(message), "by": self.promised[0]}
        if kind == "promise":
            return self._promise(message, pair)
        if kind == "stop":
            self.is_over = True
            self.lines.append(message)
            return {"kind": "stopped", **self._echo(message)}
        return self._act(message)

    def replay(self, lines: list[Message]) -> None:
        """Become the agent that wrote these lines."""
        for line in lines:
            reply = self.handle({key: value for key, value in line.items() if key != "did"})
            if reply["kind"] in ("refused", "rejected"):
                raise InputError(f"line {line} is {reply['kind']}", field=f"journal of cluster {self.index}")
        self.lines.clear()

    def show(self, *, is_full: bool) -> Shown:
        """What the cluster holds; all of it, or what a decision needs."""
        is_earliest = self.problem.pending == "earliest"
        more: dict[str, Any] = {}
        if is_full:
            more = {
                "inbox": tuple(self.inbox[number] for number in sorted(self.inbox)),
                "elsewhere": dict(self.elsewhere),
                "lost": self.lost,
            }
        return Shown(
            self.step,
            self.seq,
            tuple(self.slots),
            len(self.queue),
            tuple(self.running),
            tuple(self.finished) if is_full else self.last_finished,
            tuple(self.queue) if is_full or is_earliest else (),
            **more,
        )

    @staticmethod
    def _echo(message: Message) -> Message:
        return {"term": message["term"], "session": message["session"]}

    def _promise(self, message: Message, pair: tuple[int, int]) -> Message:
        if pair != self.promised:
            self.promised = pair
            self.lines.append(message)
        return {"kind": "promised", **self._echo(message), **self.show(is_full=True).to_message()}

    def _submit(self, message: Message) -> Message:
        tasks = [Task.of_row(row) for row in message["tasks"]]
        new = [one for one in tasks if one.number not in self.known]
        if new:
            self.lines.append({"kind": "submit", "tasks": [one.to_row() for one in new]})
        for one in new:
            self.known[one.number] = one
            if one.number in self.elsewhere:
                continue
            if one.arrival > self.step:
                self.inbox[one.number] = one
            else:
                self._enqueue(one)
        return {"kind": "accepted", "tasks": [one.number for one in tasks]}

    # orders

    def _act(self, message: Message) -> Message:
        """Carry orders out: tasks placed here or taken elsewhere, new units, and perhaps a world step."""
        seq = int(message["seq"])
        if seq > self.seq:
            return {
                "kind": "rejected",
                **self._echo(message),
                "why": f"expected orders {self.seq}, got {seq}",
            }
        if seq == self.seq:
            if why := self._why_not(message):
                return {"kind": "rejected", **self._echo(message), "why": why}
            progress = self._carry_out(message)
            did = {"step": self.step, "finished": list(self.last_finished), "progress": progress}
            self.lines.append({**message, "did": did})
        return {"kind": "state", **self._echo(message), **self.show(is_full=False).to_message()}

    def _why_not(self, message: Message) -> str:
        """Why orders cannot be carried out; empty: they can."""
        units = {one.task.number: one.units for one in self.running}
        types = {one.task.number: one.task.type for one in self.running}
        waiting = {
            one.number: one for one in [*self.slots, *self.queue, *self.inbox.values()] if one is not None
        }
        waiting |= {number: self.known[number] for number in message.get("back", []) if number in self.known}
        for number in message.get("withdraw", []):
            units.pop(number, None)
        for number, _, given in message.get("place", []):
            if number not in waiting:
                return f"task {number} does not wait here"
            del waiting[number]
            units[number], types[number] = tuple(given), self.known[number].type
        for number, given in message.get("units", []):
            if number not in units:
                return f"task {number} does not run here"
            units[number] = tuple(given)
        for number, given in units.items():
            most = self.problem.types[types[number]].most
            if len(given) != len(most) or any(not 0 <= u <= m for u, m in zip(given, most, strict=True)):
                return f"task {number} may not have {list(given)} units"
        used = [sum(given[r] for given in units.values()) for r in range(len(self.capacity))]
        if any(u > have for u, have in zip(used, self.capacity, strict=True)):
            return f"{used} units are more than {list(self.capacity)}"
        return ""

    def _carry_out(self, message: Message) -> list[list[Any]]:
        """Do it; the progress of all tasks that ran, where the world moved."""
        if "lost" in message:
            self.lost = tuple(message["lost"])
        for number in message.get("withdraw", []):
            self.running = [one for one in self.running if one.task.number != number]
            self.finished.pop(number, None)
        for number in message.get("back", []):
            self._take_back(number)
        self._move_tasks(message)
        for number, given in message.get("units", []):
            held = next(one for one in self.running if one.task.number == number)
            held.units = tuple(given)
        self.last_finished = ()
        self.seq += 1
        if "skip" in message:
            self.step = max(self.step, int(message["skip"]))
            self._receive()
        return self._advance() if message.get("advance") else []

    def _move_tasks(self, message: Message) -> None:
        """Tasks leave the pending set in the order of the coordinator's decisions."""
        placed = {number: (at, given) for number, at, given in message.get("place", [])}
        holders = {number: holder for number, holder in message.get("taken", [])}
        for number in message.get("order", [*placed, *holders]):
            self._leave(number)
            if number in placed:
                at, given = placed[number]
                served = [0] * len(self.capacity)
                self.elsewhere.pop(number, None)
                self.running.append(Held(self.known[number], self.step, at, tuple(given), served=served))
            else:
                self.elsewhere[number] = holders[number]

    def _take_back(self, number: int) -> None:
        """A task that another cluster had taken waits here again."""
        self.elsewhere.pop(number, None)
        held = [one.number for one in [*self.slots, *self.queue] if one is not None]
        if number in self.known and number not in held and number not in self.inbox:
            self._enqueue(self.known[number])

    # pending set and queue

    def _enqueue(self, task: Task) -> None:
        """Into the lowest free slot, or behind the queue."""
        if None in self.slots:
            self.slots[self.slots.index(None)] = task
        else:
            self.queue.append(task)

    def _refill(self) -> None:
        while self.queue and None in self.slots:
            self.slots[self.slots.index(None)] = self.queue.pop(0)

    def _leave(self, number: int) -> None:
        self.inbox.pop(number, None)
        self.slots = [None if one is not None and one.number == number else one for one in self.slots]
        self.queue = [one for one in self.queue if one.number != number]
        if self.problem.pending == "earliest":
            kept = [one for one in self.slots if one is not None]
            self.slots = [*kept, *[None] * (len(self.slots) - len(kept))]
            self._refill()

    def _receive(self) -> None:
        """Tasks whose step has come are put in the set or the queue; then free slots are filled."""
        for number in sorted(self.inbox):
            if self.inbox[number].arrival <= self.step:
                self._enqueue(self.inbox.pop(number))
        self._refill()

    # a world step

    def _advance(self) -> list[list[Any]]:
        for held in self.running:
            self._run(held)
        progress = [[held.task.number, held.progress] for held in self.running]
        ended = [held.task.number for held in self.running if held.progress >= 1.0]
        self.running = [one for one in self.running if one.progress < 1.0]
        self.step += 1
        self.finished.update(dict.fromkeys(ended, self.step))
        self.last_finished = tuple(ended)
        self._receive()
        return progress

    def _run(self, held: Held) -> None:
        """One world step of a running task, with the draws of the kernel."""
        kind, noise = self.problem.types[held.task.type], 0.0
        if kind.noise > 0.0:
            draw = float(keyed_uniform(self.seed, PROGRESS, held.task.number, held.ran, 0, 0))
            noise = kind.noise * (2.0 * draw - 1.0)
        gain = kind.gain(held.units, held.progress, noise)
        if held.before is not None and held.before != held.units:
            gain *= self.problem.switching * kind.switching
        held.before = held.units
        held.served = [had + u for had, u in zip(held.served, held.units, strict=True)]
        held.progress += gain
        held.ran += 1
