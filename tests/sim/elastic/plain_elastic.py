"""The elastic problem in plain Python: slow, and written from the rules alone. The kernel must do the same."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from weft.model.draws import ARRIVING, EPISODE, LINK, PROGRESS, TASK_TYPE, keyed_uniform
from weft.model.elastic import ElasticProblem


@dataclass
class Task:
    number: int
    arrival: int
    type: int
    clusters: list[int]
    cluster: int | None = None
    units: tuple[int, ...] = ()
    before: tuple[int, ...] | None = None
    progress: float = 0.0
    ran: int = 0
    finish: int | None = None


@dataclass
class Plain:
    """One episode; ``act`` takes per cluster (slot or None, units, chance)."""

    problem: ElasticProblem
    seed: int
    env: int = 0
    episode: int = 0
    now: int = 0
    tasks: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.key = int(float(keyed_uniform(self.seed, EPISODE, self.env, self.episode, 0, 0)) * 2.0**52)
        self.slots = [[None] * self.problem.num_slots for _ in range(self.problem.num_clusters)]
        self.queues: list[list[int]] = [[] for _ in range(self.problem.num_clusters)]
        self.running: list[list[int]] = [[] for _ in range(self.problem.num_clusters)]
        self.arrive()

    def draw(self, *key: int) -> float:
        return float(keyed_uniform(self.key, *key, *([0] * (5 - len(key)))))

    def free(self, n: int) -> list[int]:
        used = [self.tasks[j].units for j in self.running[n]]
        return [int(have) - sum(u[r] for u in used) for r, have in enumerate(self.problem.capacity[n])]

    def arrive(self) -> None:
        p, problem = self.draw(ARRIVING, self.now), self.problem
        count, term = 0, math.exp(-problem.arrival_rate)
        total = term
        while p > total:
            count += 1
            term *= problem.arrival_rate / count
            total += term
        for _ in range(min(count, problem.num_tasks - len(self.tasks))):
            j = len(self.tasks)
            weights = problem.weights or [1.0] * len(problem.types)
            at, upto = self.draw(TASK_TYPE, j), 0.0
            chosen = len(weights) - 1
            for t, weight in enumerate(weights):
                upto += weight / sum(weights)
                if at < upto:
                    chosen = t
                    break
            task = Task(j, self.now, chosen, self.links(j))
            self.tasks.append(task)
            for n in task.clusters:
                if None in self.slots[n]:
                    self.slots[n][self.slots[n].index(None)] = j
                else:
                    self.queues[n].append(j)

    def links(self, j: int) -> list[int]:
        clusters = range(self.problem.num_clusters)
        draws = [self.draw(LINK, j, n) for n in clusters]
        if self.problem.links == "bandwidth":
            wide = [n for n in clusters if draws[n] * self.problem.bandwidth >= self.problem.threshold]
            return wide or [draws.index(max(draws))]
        count = int(self.draw(LINK, j, len(clusters)) * len(clusters)) + 1
        return sorted(sorted(clusters, key=lambda n: draws[n])[:count])

    def refill(self, n: int) -> None:
        if self.problem.pending == "earliest":
            held = [j for j in self.slots[n] if j is not None]
            self.slots[n] = held + [None] * (self.problem.num_slots - len(held))
        while self.queues[n] and None in self.slots[n]:
            self.slots[n][self.slots[n].index(None)] = self.queues[n].pop(0)

    def claim(self, n: int, slot: int | None, units: tuple[int, ...]) -> int | None:
        j = None if slot is None else self.slots[n][slot]
        if j is None or not any(units):
            return None
        kind = self.problem.types[self.tasks[j].type]
        bounds = zip(units, kind.least, kind.most, self.free(n), strict=True)
        return j if all(low <= u <= min(high, free) for u, low, high, free in bounds) else None

    def score(self, n: int, j: int, chance: float, rivals: list[int]) -> float:
        kind = self.problem.types[self.tasks[j].type]
        rooms = {m: min(f / q for f, q in zip(self.free(m), kind.least, strict=True) if q) for m in rivals}
        if self.problem.conflicts == "softmax":
            return chance * math.exp(rooms[n] - max(rooms.values()))
        return chance * rooms[n] / sum(rooms.values())

    def act(self, moves: list[tuple[int | None, tuple[int, ...], float]]) -> tuple[bool, list[int]]:
        claims = [self.claim(n, slot, units) for n, (slot, units, _) in enumerate(moves)]
        winners: dict[int, int] = {}
        for j in [j for j in claims if j is not None]:
            rivals = [n for n, other in enumerate(claims) if other == j]
            best = rivals[0]
            if self.problem.conflicts != "lowest":
                scores = {n: self.score(n, j, moves[n][2], rivals) for n in rivals}
                best = max(rivals, key=lambda n, scores=scores: (scores[n], -n))
            winners[j] = best
        for j, n in winners.items():
            self.tasks[j].cluster, self.tasks[j].units = n, moves[n][1]
            self.running[n].append(j)
            for m in self.tasks[j].clusters:
                if j in self.slots[m]:
                    self.slots[m][self.slots[m].index(j)] = None
                if j in self.queues[m]:
                    self.queues[m].remove(j)
                if self.problem.pending == "earliest":
                    self.refill(m)
        advances = self.problem.stepping == "single" or not winners
        loads = zip(self.running, self.slots, self.queues, strict=True)
        rewards = [-(len(run) + sum(j is not None for j in held) + len(queue)) for run, held, queue in loads]
        if advances:
            self.step()
        return advances, rewards if advances else [0] * len(rewards)

    def step(self) -> None:
        for n, ran in enumerate(self.running):
            for j in ran:
                task = self.tasks[j]
                kind = self.problem.types[task.type]
                noise = kind.noise * (2.0 * self.draw(PROGRESS, j, task.ran) - 1.0)
                gain = kind.gain(task.units, task.progress, noise)
                if task.before is not None and task.before != task.units:
                    gain *= self.problem.switching * kind.switching
                task.progress += gain
                task.before = task.units
                task.ran += 1
                if task.progress >= 1.0:
                    task.finish = self.now + 1
            self.running[n] = [j for j in ran if self.tasks[j].finish is None]
        self.now += 1
        if not self.is_over:
            self.arrive()
            for n in range(self.problem.num_clusters):
                self.refill(n)

    @property
    def is_over(self) -> bool:
        done = sum(task.finish is not None for task in self.tasks)
        return done == self.problem.num_tasks
