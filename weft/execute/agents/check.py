"""Says whether a run of agents kept its promises, from journals alone.

It shares no code with the agents, and reads their lines one by one in plain Python.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Line = dict[str, Any]


@dataclass(frozen=True)
class Rules:
    """What the checker knows of a problem."""

    capacity: list[list[int]]
    most: list[list[int]]
    """Most units of a task, per type."""
    num_tasks: int


@dataclass
class Told:
    """What one cluster's journal says."""

    index: int
    submitted: dict[int, list[int]] = field(default_factory=dict)
    running: dict[int, list[int]] = field(default_factory=dict)
    finished: dict[int, int] = field(default_factory=dict)
    placed: list[int] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)
    given_up: set[int] = field(default_factory=set)
    """Clusters that coordinators have given up."""
    terms: set[int] = field(default_factory=set)
    promised: tuple[int, int] = (-1, -1)
    step: int = 0
    seq: int = 0
    is_stopped: bool = False


@dataclass(frozen=True)
class Checked:
    """What became of the tasks, and every promise that was broken."""

    faults: tuple[str, ...]
    num_arrived: int
    num_completed: int
    mean_completion: float
    """World steps from arrival to end, both counted; nan where nothing ended."""
    num_terms: int
    """Coordinators that led."""
    num_again: int
    """Placements that were withdrawn after a cluster was given up."""
    last_step: int

    @property
    def ok(self) -> bool:
        """Whether all promises were kept."""
        return not self.faults


class Checker:
    """Reads the journals of all clusters and of the source."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.faults: list[str] = []
        self.where = ""
        """The journal and line that is being read."""

    def check(self, clusters: list[list[Line]], source: list[Line]) -> Checked:
        """All faults, and what became of the tasks."""
        told = []
        for n, lines in enumerate(clusters):
            told.append(Told(n))
            for number, line in enumerate(lines, 1):
                self.where = f"cluster {n}, line {number}"
                self._line(told[-1], line)
        self.where = "source"
        arrived = {row[0]: row for row in (line["task"] for line in source if line["kind"] == "task")}
        ended = [task for line in source if line["kind"] == "due" for task in line.get("ended", [])]
        self._expect(len(ended) == len(set(ended)), "a task was said to end twice")
        self.where = "all journals"
        self._between(told, arrived, set(ended))
        finished = {task: step for one in told for task, step in one.finished.items() if task in arrived}
        times = [step - arrived[task][2] for task, step in finished.items()]
        return Checked(
            tuple(self.faults),
            len(arrived),
            len(finished),
            sum(times) / len(times) if times else float("nan"),
            len({term for one in told for term in one.terms}),
            sum(len(one.withdrawn) for one in told),
            max(one.step for one in told),
        )

    def _expect(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            self.faults.append(f"{self.where}: {otherwise}")

    # one journal

    def _line(self, told: Told, line: Line) -> None:
        kind = line["kind"]
        if kind == "submit":
            for row in line["tasks"]:
                self._expect(row[0] not in told.submitted, f"task {row[0]} was accepted twice")
                self._expect(
                    bool(row[3] >> told.index & 1), f"task {row[0]} is not connected to this cluster"
                )
                told.submitted[row[0]] = row
            return
        pair = (line["term"], line["session"])
        if kind == "promise":
            self._expect(pair > told.promised, f"promised {pair} after {told.promised}")
            told.promised = pair
            return
        self._expect(pair == told.promised, f"obeyed {pair} after a promise to {told.promised}")
        if kind == "stop":
            told.is_stopped = True
            return
        self._expect(line["seq"] == told.seq, f"orders {line['seq']} in place of {told.seq}")
        told.seq = line["seq"] + 1
        told.terms.add(line["term"])
        told.given_up.update(line.get("lost", []))
        self._act(told, line)
        self._world(told, line)

    def _act(self, told: Told, line: Line) -> None:
        for task in line.get("withdraw", []):
            self._expect(
                task in told.running or task in told.finished, f"task {task} withdrawn, but not held"
            )
            told.running.pop(task, None)
            told.finished.pop(task, None)
            told.withdrawn.append(task)
        for task, _, units in line.get("place", []):
            self._expect(task in told.submitted, f"task {task} placed, but never submitted here")
            self._expect(task not in told.running, f"task {task} placed while it runs here")
            self._expect(task not in told.finished, f"task {task} placed after it ended here")
            told.running[task] = units
            told.placed.append(task)
        for task, units in line.get("units", []):
            self._expect(task in told.running, f"new units for task {task}, which does not run here")
            told.running[task] = units
        used = [0] * len(self.rules.capacity[told.index])
        for task, units in told.running.items():
            kind = told.submitted[task][1] if task in told.submitted else 0
            for r, given in enumerate(units):
                self._expect(0 <= given <= self.rules.most[kind][r], f"task {task} has {units} units")
                used[r] += given
        for u, have in zip(used, self.rules.capacity[told.index], strict=True):
            self._expect(u <= have, f"{u} units in use of {have}")

    def _world(self, told: Told, line: Line) -> None:
        did, moved = line["did"], bool(line.get("advance"))
        before = max(told.step, line.get("skip", 0))
        self._expect(did["step"] == before + moved, f"step {did['step']} after {before}")
        told.step = did["step"]
        progress = {task: value for task, value in did["progress"]}
        self._expect(
            set(progress) == (set(told.running) if moved else set()), "other tasks ran than were held"
        )
        done = sorted(task for task, value in progress.items() if value >= 1.0)
        self._expect(done == sorted(did["finished"]), f"tasks {did['finished']} ended, {done} were complete")
        for task in did["finished"]:
            told.running.pop(task, None)
            told.finished[task] = told.step

    # all journals

    def _between(self, told: list[Told], arrived: dict[int, list[int]], ended: set[int]) -> None:
        given_up = {n for one in told for n in one.given_up}
        self._expect(
            len(arrived) == self.rules.num_tasks, f"{len(arrived)} tasks of {self.rules.num_tasks} arrived"
        )
        for task in sorted(arrived):
            where = [one.index for one in told if task in one.finished]
            self._expect(len(where) == 1, f"task {task} was completed on clusters {where}")
            self._expect(task in ended, f"the source was not told of the end of task {task}")
            left = [
                n for one in told for n in [one.index] * (one.placed.count(task) - one.withdrawn.count(task))
            ]
            self._expect(len(left) == 1, f"task {task} was placed on clusters {left}, and not withdrawn")
        for one in told:
            is_away = one.index in given_up and not one.is_stopped
            self._expect(
                is_away or not one.running, f"tasks {sorted(one.running)} still run on cluster {one.index}"
            )
            if one.withdrawn:
                self._expect(
                    one.index in given_up, f"cluster {one.index} withdrew tasks, and was never given up"
                )
        strangers = sorted({task for one in told for task in one.submitted} - set(arrived))
        self._expect(not strangers, f"tasks {strangers} came from nowhere")
