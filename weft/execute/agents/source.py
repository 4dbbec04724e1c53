"""Where tasks come from: it submits them to the clusters they are connected to, and is told when they end.

Messages in, replies and journal lines out; no sockets, no clock.
"""

from __future__ import annotations

import math
from itertools import accumulate

from weft.execute.agents.tasks import Message, Task
from weft.model.draws import ARRIVING, LINK, TASK_TYPE, keyed_uniform
from weft.model.elastic import ElasticProblem


def draw_tasks(problem: ElasticProblem, seed: int) -> list[Task]:
    """The tasks of an episode in order of arrival: those that are given, or that the kernel draws from this seed."""
    tasks = [
        Task(number, kind, step, links)
        for number, (step, kind, links) in enumerate(problem.arrivals.tolist())
    ]
    step = 0
    while len(tasks) < problem.num_tasks:
        count = _poisson(problem.arrival_rate, float(keyed_uniform(seed, ARRIVING, step, 0, 0, 0)))
        for _ in range(min(count, problem.num_tasks - len(tasks))):
            number = len(tasks)
            tasks.append(Task(number, _type(problem, seed, number), step, _links(problem, seed, number)))
        step += 1
    return tasks


def _poisson(mean: float, draw: float) -> int:
    count, term = 0, math.exp(-mean)
    total = term
    while draw > total and term > 0.0:
        count += 1
        term *= mean / count
        total += term
    return count


def _type(problem: ElasticProblem, seed: int, number: int) -> int:
    weights = problem.weights or (1.0,) * len(problem.types)
    draw = float(keyed_uniform(seed, TASK_TYPE, number, 0, 0, 0))
    upto = list(accumulate(one / sum(weights) for one in weights))
    return next((t for t, share in enumerate(upto[:-1]) if draw < share), len(upto) - 1)


def _links(problem: ElasticProblem, seed: int, number: int) -> int:
    clusters = range(problem.num_clusters)
    draws = [float(keyed_uniform(seed, LINK, number, n, 0, 0)) for n in clusters]
    if problem.links == "bandwidth":
        wide = [n for n in clusters if problem.bandwidth * draws[n] >= problem.threshold]
        chosen = wide or [max(clusters, key=lambda n: draws[n])]
    else:
        drawn = int(
            float(keyed_uniform(seed, LINK, number, problem.num_clusters, 0, 0)) * problem.num_clusters
        )
        chosen = sorted(clusters, key=lambda n: draws[n])[: min(drawn, problem.num_clusters - 1) + 1]
    return sum(1 << n for n in chosen)


class Source:
    """Submits the tasks of a list up to the step that the coordinator names, each to all its clusters.

    ``due`` is answered when every cluster that was not given up has accepted them, so nothing arrives late.
    """

    def __init__(self, tasks: list[Task], num_clusters: int) -> None:
        self.tasks, self.num_clusters = tasks, num_clusters
        self.promised = (-1, -1)
        self.step = -1
        self.lost: tuple[int, ...] = ()
        self.ended: dict[int, None] = {}
        self.is_over = False
        self.lines: list[Message] = []
        """What is to be written down before a reply is sent; whoever writes it clears it."""
        self._accepted: list[set[int]] = [set() for _ in range(num_clusters)]
        self._asked: Message | None = None

    def handle(self, message: Message) -> Message | None:
        """Answer one message; None: the answer follows when tasks were accepted."""
        kind = message.get("kind")
        if kind == "who":
            return {"kind": "who", "term": self.promised[0], "over": self.is_over}
        if kind not in ("promise", "due", "stop"):
            return {"kind": "rejected", "why": f"expected a known kind of message, got {kind!r}"}
        pair = (int(message["term"]), int(message["session"]))
        if pair < self.promised or (kind != "promise" and pair != self.promised):
            return {"kind": "refused", **self._echo(message), "by": self.promised[0]}
        if kind == "promise":
            if pair != self.promised:
                self.promised, self._asked = pair, None
                self.lines.append(message)
            return {"kind": "promised", **self._echo(message), "ended": list(self.ended), "due": self.step}
        if kind == "stop":
            self.is_over = True
            self.lines.append(message)
            return {"kind": "stopped", **self._echo(message)}
        self._due(message)
        return self.answer()

    def replay(self, lines: list[Message]) -> None:
        """Become the source that wrote these lines; what was accepted is asked again."""
        for line in lines:
            if line["kind"] == "task":
                continue
            self.handle(line)
        self.lines.clear()
        self._asked = None

    def unsent(self, cluster: int) -> list[Task]:
        """Tasks that are due and that a cluster has not accepted."""
        known = self._accepted[cluster]
        return [
            one
            for one in self.tasks
            if one.arrival <= self.step and one.links >> cluster & 1 and one.number not in known
        ]

    def accepted(self, cluster: int, numbers: list[int]) -> Message | None:
        """A cluster has these tasks; the answer to ``due`` where that was all it waited for."""
        self._accepted[cluster].update(numbers)
        return self.answer()

    def answer(self) -> Message | None:
        """The answer to ``due``, once."""
        if self._asked is None:
            return None
        if any(self.unsent(n) for n in range(self.num_clusters) if n not in self.lost):
            return None
        asked, self._asked = self._asked, None
        left = len(self.tasks) - len(self.ended)
        return {"kind": "submitted", **self._echo(asked), "step": asked["step"], "left": left}

    def _due(self, message: Message) -> None:
        known = self.step
        self.step = max(self.step, int(message["step"]))
        self.lost = tuple(message.get("lost", []))
        new = [number for number in message.get("ended", []) if number not in self.ended]
        self.ended.update(dict.fromkeys(new))
        self._asked = message
        for one in self.tasks:
            if known < one.arrival <= self.step:
                self.lines.append({"kind": "task", "task": one.to_row()})
        if new or self.step > known:
            self.lines.append({**message, "ended": new})

    @staticmethod
    def _echo(message: Message) -> Message:
        return {"term": message["term"], "session": message["session"]}
