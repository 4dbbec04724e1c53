"""What a package offers to weft: entry points name these classes."""

import numpy as np

from weft import GraphBuilder
from weft.schedulers.rules import Decoder


class ByNumber:
    """Tasks in the order of their numbers, each where it finishes first."""

    name = "by-number"

    def plan(self, problem, *, seed=0, limit=None):
        return Decoder(problem).schedule(-np.arange(problem.num_tasks, dtype=float))


class FirstFinish:
    """The ready task that can finish first, where it does."""

    name = "first-finish"

    def decide(self, view):
        pairs = [(task, device) for task in view.ready for device in view.options(task)]
        return [min(pairs, key=lambda pair: view.finish(*pair))] if pairs else []


class EdgeList:
    """Lines ``task seconds`` and ``task -> task``, under a first line ``# edges``."""

    suffixes = (".edges",)
    name = "edge-list"

    def detect(self, head, path):
        return head.startswith(b"# edges")

    def read(self, data, path):
        builder = GraphBuilder(path.stem)
        for line in data.decode().splitlines()[1:]:
            first, *rest = line.split()
            if rest[0] == "->":
                builder.edge(first, rest[1])
            else:
                builder.task(first, float(rest[0]))
        return builder.build()

    def dump(self, graph):
        tasks = [f"{name} {work!r}" for name, work in zip(graph.names, graph.work.tolist(), strict=True)]
        pairs = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
        edges = [f"{graph.names[i]} -> {graph.names[j]}" for i, j in pairs]
        return "\n".join(["# edges", *tasks, *edges, ""]).encode()
