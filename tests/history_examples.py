"""Histories of runs that never were: a tiny world of its own that writes rows as a driver would, faults and all."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Row = dict[str, Any]
GAP, TRANSFER, MOST_ATTEMPTS = 0.01, 0.2, 3


@dataclass(frozen=True)
class Faults:
    """What goes wrong."""

    deaths: tuple[tuple[float, int, float | None], ...] = ()
    """(when, device, when it is back or None)."""
    failing: float = 0.0
    """How often an attempt fails."""
    broken: tuple[str, ...] = ()
    """Tasks that always fail."""
    kills: tuple[float, ...] = ()
    """When the driver dies; another one takes over two seconds later."""


@dataclass
class World:
    """Jobs of random graphs on devices, carried out by plan with one order queued ahead."""

    seed: int
    num_tasks: int = 20
    slots: tuple[int, ...] = (1, 1, 2)
    jobs: int = 1
    noise: float = 0.2
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.rows: list[Row] = []
        self.now, self.count, self.sequence, self.driver = 0.0, 0, 0, 1
        self.devices = [f"d{k}" for k in range(len(self.slots))]
        self.up = [True] * len(self.slots)
        self.heap: list[tuple[float, int, str, Any]] = []
        self.parents: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self.cost: dict[tuple[str, str], float] = {}
        self.attempt: dict[tuple[str, str], int] = {}
        self.failures: dict[tuple[str, str], int] = {}
        self.done: dict[tuple[str, str], int] = {}  # -> the device
        self.over: set[tuple[str, str]] = set()  # dropped, or failed for good
        self.open: dict[tuple[str, str], list[Any]] = {}  # -> [device, is running]
        self.lists: list[list[tuple[str, str]]] = [[] for _ in self.slots]
        self.ended: set[str] = set()

    # -- writing ------------------------------------------------------------------------------

    def add(self, event: str, **fields: Any) -> None:
        self.rows.append({"event": event, "time": round(self.now, 9), **fields})

    def order(self, event: str, key: tuple[str, str], **more: Any) -> None:
        where = {"device": self.devices[self.open[key][0]]} if key in self.open else {}
        self.add(event, job=key[0], task=key[1], attempt=self.attempt[key], **where, **more)

    def at(self, time: float, kind: str, what: Any) -> None:
        self.count += 1
        heapq.heappush(self.heap, (time, self.count, kind, what))

    # -- the run ------------------------------------------------------------------------------

    def run(self) -> list[Row]:
        devices = [
            {"name": name, "class": f"c{k % 2}", "slots": self.slots[k], "memory": None, "worker": name}
            for k, name in enumerate(self.devices)
        ]
        self.add(
            "run", schema="weft/history/1", weft="0", run="r", on="test", scheduler="list", seed=self.seed,
            time_unit="s", policy="plan", devices=devices, started_at=0.0,
        )  # fmt: skip
        for j in range(self.jobs):
            self.at(3.0 * j, "arrive", f"job{j}")
        for when, device, back in self.faults.deaths:
            self.at(when, "die", device)
            if back is not None:
                self.at(back, "join", device)
        for when in self.faults.kills:
            self.at(when, "kill", None)
        while self.heap and len(self.ended) < self.jobs:
            self.now, _, kind, what = heapq.heappop(self.heap)
            getattr(self, kind)(what)
            self.dispatch()
        self.add("closed", ok=True, reason="")
        return self.rows

    def arrive(self, job: str) -> None:
        names = [f"t{i}" for i in range(self.num_tasks)]
        edges = []
        for i, name in enumerate(names):
            self.cost[job, name] = float(self.rng.uniform(0.5, 3.0))
            chosen = self.rng.choice(i, size=min(i, int(self.rng.integers(0, 3))), replace=False) if i else []
            self.parents[job, name] = [(job, names[int(k)]) for k in sorted(chosen)]
            edges += [[names[int(k)], name] for k in sorted(chosen)]
        self.add("arrived", job=job, tasks=names, edges=edges, kinds=["even", "odd"] * (len(names) // 2 + 1))
        self.rows[-1]["kinds"] = self.rows[-1]["kinds"][: len(names)]
        self.plan([(job, name) for name in names], "arrival")

    def plan(self, keys: list[tuple[str, str]], reason: str) -> None:
        """Give tasks, in an order that suits their edges, to the device that is done first."""
        usable = [d for d in range(len(self.slots)) if self.up[d]]
        free = {d: self.now + sum(self.cost[k] for k in self.lists[d]) / self.slots[d] for d in usable}
        end: dict[tuple[str, str], float] = {}
        rows = []
        for key in keys:
            device = min(usable, key=lambda d: (free[d], d))
            start = max(
                [free[device], *(end.get(parent, self.now) + TRANSFER for parent in self.parents[key])]
            )
            end[key] = free[device] = start + self.cost[key]
            self.lists[device].append(key)
            rows.append([*key, self.devices[device], start, end[key]])
        for line in self.lists:
            line.sort(key=lambda key: (key[0], int(key[1][1:])))
        self.add("planned", reason=reason, rows=rows)

    def is_ready(self, key: tuple[str, str]) -> bool:
        return all(parent in self.done for parent in self.parents[key])

    def dispatch(self) -> None:
        is_asked, has_begun = False, False
        for device, line in enumerate(self.lists):
            held = [key for key, (where, _) in self.open.items() if where == device]
            for key in list(line) if self.up[device] else []:
                ahead = all(
                    p in self.done or (p in held and self.slots[device] == 1) for p in self.parents[key]
                )
                if not ahead or len(held) > self.slots[device]:
                    break
                line.remove(key)
                held.append(key)
                self.submit(key, device, len(held) > self.slots[device] or not self.is_ready(key))
                has_begun = True
            free = self.up[device] and len(held) < self.slots[device]
            is_asked |= free and any(self.is_ready(key) for other in self.lists for key in other)
        if is_asked and not has_begun:
            self.add("waited", reason="reserved for another device")

    def submit(self, key: tuple[str, str], device: int, is_ahead: bool) -> None:
        self.sequence += 1
        self.attempt.setdefault(key, 1)
        self.open[key] = [device, False]
        self.order("submitted", key, sequence=self.sequence, ahead=is_ahead)
        self.begin(device)

    def begin(self, device: int) -> None:
        """Start what waits on a device and has what it needs, in order."""
        running = sum(1 for where, runs in self.open.values() if where == device and runs)
        for key in [k for k, (where, runs) in self.open.items() if where == device and not runs]:
            if running >= self.slots[device] or not self.is_ready(key):
                break
            running += 1
            self.open[key][1] = True
            travels = any(self.done[parent] != device for parent in self.parents[key])
            token = (key, self.attempt[key], device)
            self.at(self.now + GAP + (TRANSFER if travels else 0.0), "start", token)

    def is_stale(self, token: tuple[tuple[str, str], int, int]) -> bool:
        key, attempt, device = token
        return self.open.get(key, [None])[0] != device or self.attempt[key] != attempt

    def start(self, token: tuple[tuple[str, str], int, int]) -> None:
        if self.is_stale(token):
            return
        key = token[0]
        self.order("started", key)
        self.at(
            self.now + self.cost[key] * float(self.rng.uniform(1 - self.noise, 1 + self.noise)), "end", token
        )

    def end(self, token: tuple[tuple[str, str], int, int]) -> None:
        if self.is_stale(token):
            return
        key, _, device = token
        if key[1] in self.faults.broken or self.rng.random() < self.faults.failing:
            self.order("failed", key, note="ValueError: no luck")
            del self.open[key]
            self.failures[key] = self.failures.get(key, 0) + 1
            if self.failures[key] >= MOST_ATTEMPTS:
                self.give_up(key)
            else:
                self.attempt[key] += 1
                blocked = [k for k, (_, runs) in self.open.items() if not runs and not self.is_ready(k)]
                for other in blocked:  # what is queued behind it would block its device
                    self.withdraw(other)
                self.plan([key, *blocked], "failed")
        else:
            self.order("finished", key, size=100)
            del self.open[key]
            self.done[key] = device
            self.order("reported", key)
        self.begin(device)
        self.close(key[0])

    def give_up(self, key: tuple[str, str]) -> None:
        self.over.add(key)
        for other in self.parents:
            if other not in self.over and any(parent in self.over for parent in self.parents[other]):
                self.over.add(other)
                self.withdraw(other)
                self.lists = [[one for one in line if one != other] for line in self.lists]
                self.add("dropped", job=other[0], task=other[1], because=key[1])

    def withdraw(self, key: tuple[str, str]) -> None:
        if key in self.open:
            self.order("cancelled", key)
            del self.open[key]

    def close(self, job: str) -> None:
        own = [key for key in self.parents if key[0] == job]
        if all(key in self.done or key in self.over for key in own):
            failed = next((key[1] for key in own if self.failures.get(key, 0) >= MOST_ATTEMPTS), None)
            outcome = "done" if failed is None else "failed"
            self.add("ended", job=job, outcome=outcome, reason="" if failed is None else f"task {failed!r}")
            self.ended.add(job)

    # -- what goes wrong ----------------------------------------------------------------------

    def die(self, device: int) -> None:
        self.up[device] = False
        self.add("lost", device=self.devices[device], note="killed")
        gone = [key for key, (where, _) in self.open.items() if where == device]
        for key in gone:
            del self.open[key]
            self.attempt[key] += 1
        withdrawn = [key for key, (_, runs) in self.open.items() if not runs]
        for key in withdrawn:
            self.withdraw(key)
        again = sorted({*gone, *withdrawn, *self.lists[device]}, key=lambda key: (key[0], int(key[1][1:])))
        self.lists[device] = []
        self.plan(again, "lost")

    def join(self, device: int) -> None:
        self.up[device] = True
        self.add("joined", device=self.devices[device], note="")
        moved = [key for line in self.lists for key in line]
        self.lists = [[] for _ in self.slots]
        self.plan(sorted(moved, key=lambda key: (key[0], int(key[1][1:]))), "joined")

    def kill(self, _: None) -> None:
        self.driver += 1
        self.now += 2.0
        running = [[*key, self.attempt[key]] for key, (_, runs) in self.open.items() if runs]
        self.add("resumed", driver=self.driver, lost=running)
        later = [one for one in self.heap if one[2] not in ("start", "end")]
        self.heap = [(max(time, self.now), *rest) for time, *rest in later]  # type: ignore[misc]
        heapq.heapify(self.heap)
        gone = sorted(self.open, key=lambda key: (key[0], int(key[1][1:])))
        for key in gone:
            self.attempt[key] += 1
        self.open.clear()
        for device, is_up in enumerate(self.up):
            if not is_up:
                self.add("lost", device=self.devices[device], note="not there")
        self.plan(gone, "resumed")


EXAMPLES: dict[str, World] = {
    "plain": World(1),
    "small": World(2, num_tasks=6, slots=(1,)),
    "jobs": World(3, num_tasks=8, jobs=4),
    "deaths": World(4, faults=Faults(deaths=((3.0, 0, 8.0), (5.0, 2, None)))),
    "failures": World(5, faults=Faults(failing=0.15)),
    "broken": World(6, faults=Faults(broken=("t2",))),
    "resumed": World(7, faults=Faults(kills=(4.0, 9.0))),
    "everything": World(
        8, num_tasks=30, jobs=2, faults=Faults(((4.0, 1, 9.0),), failing=0.05, broken=("t3",), kills=(6.0,))
    ),
}


def history(name: str) -> list[Row]:
    """The history of an example, made anew."""
    known = EXAMPLES[name]
    made = World(known.seed, known.num_tasks, known.slots, known.jobs, known.noise, known.faults)
    return made.run()
