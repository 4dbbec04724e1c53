"""What a package offers to weft: entry points name these classes."""

import numpy as np

from weft import Cluster, DeviceClass, GraphBuilder, Job, Problem, TaskGraph
from weft.scenarios import Setting
from weft.schedulers.planners.rules import Decoder


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


class Forks:
    """One task, then many that may run side by side."""

    name = "forks"
    summary = "one task, then many"
    settings = (
        Setting("width", "whole", 6, "tasks after the first", 1, 100),
        Setting("devices", "whole", 3, "devices, all alike", 1, 100),
    )

    def make(self, settings, seed):
        width = settings["width"]
        work = np.random.default_rng(seed).uniform(1.0, 10.0, width + 1)
        graph = TaskGraph(work, [0] * width, list(range(1, width + 1)))
        return Problem(graph, Cluster.uniform([DeviceClass("cpu")], [settings["devices"]]))


class ManyForks(Forks):
    """Forks that keep arriving: dispatchers act on them."""

    name = "many-forks"
    kind = "tasks"

    def make(self, settings, seed):
        release = np.random.default_rng(seed).exponential(10.0, 5).cumsum().tolist()
        graphs = [super(ManyForks, self).make(settings, seed + k).graph for k in range(5)]
        jobs = [Job(graph, f"job{k}", release[k]) for k, graph in enumerate(graphs)]
        return Problem(jobs, Cluster.uniform([DeviceClass("cpu")], [settings["devices"]]))
