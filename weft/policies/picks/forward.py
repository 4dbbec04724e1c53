"""Decisions of a net that picks a ready task, in NumPy: the same numbers as ``picks/net.py``.

Tasks below a ready one have not begun, so its embedding, made of theirs, holds from the arrival of its job on. Only the summaries
of jobs change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from weft.model.graph import Ints
from weft.model.problem import Problem
from weft.policies.checkpoint import Card, Floats32, check_weights
from weft.policies.mlp.forward import relu
from weft.policies.picks.architecture import PickArchitecture
from weft.policies.products import product
from weft.policies.tensors import Array
from weft.sim.tasks.picks import STYLES, Seen, node_features

SUM_SCALE = np.float32(0.125)
"""Sums are multiplied by this, so that they are about as large as what they are added to."""


class Level(NamedTuple):
    """Tasks whose longest path to an exit has one length, and their children."""

    tasks: Ints  # (num_tasks,)
    children: Ints  # (num_edges,) those of one task after those of the one before
    first: Ints  # (num_tasks,) where the children of every task begin


def levels_of(problems: Sequence[Problem]) -> list[Level]:
    """All tasks that have children, of problems side by side, from the exits up."""
    height: list[int] = []
    edges: list[Ints] = []
    for problem in problems:
        for job in problem.jobs:
            graph, base = job.graph, len(height)
            own = [0] * graph.num_tasks
            for i in reversed(graph.order.tolist()):
                below = graph.successors(i).tolist()
                own[i] = 1 + max((own[k] for k in below), default=-1)
            height += own
            edges += [graph.successors(i).astype(np.int64) + base for i in range(graph.num_tasks)]
    found, heights = [], np.array(height, np.int64)
    for level in range(1, int(heights.max(initial=0)) + 1):
        tasks = np.flatnonzero(heights == level)
        sizes = np.array([len(edges[i]) for i in tasks.tolist()], np.int64)
        children = np.concatenate([edges[i] for i in tasks.tolist()])
        found.append(Level(tasks, children, np.cumsum(sizes) - sizes))
    return found


class Embedded(NamedTuple):
    """Every task of some problems, as the net sees it."""

    nodes: Floats32  # (num_tasks, h)
    pooled: Floats32  # (num_tasks, h) what is summed up per job


class PickPolicy:
    """A net that picks one of any number of ready tasks."""

    def __init__(
        self, weights: Mapping[str, Array], architecture: PickArchitecture, card: Card | None = None
    ) -> None:
        self.architecture, self.card = architecture, card
        self.style = STYLES[architecture.style]
        self._weights = known = check_weights(weights, architecture)
        self._turned = {name: np.ascontiguousarray(a.T) for name, a in known.items() if a.ndim == 2}

    def embed(self, problems: Sequence[Problem]) -> Embedded:
        """Embeddings of all tasks of problems side by side; each depends on its own job alone."""
        w, t = self._weights, self._turned
        features = np.concatenate([node_features(problem) for problem in problems])
        features = np.ascontiguousarray(features[:, self.style.node])
        nodes = relu(product(features, t["node_weight"]) + w["node_bias"])
        for level in levels_of(problems):
            sent = relu(product(nodes[level.children], t["send_weight"]) + w["send_bias"])
            taken = np.add.reduceat(sent, level.first, axis=0)
            nodes[level.tasks] += relu(product(taken, t["take_weight"]) + w["take_bias"])
        pooled = product(nodes, t["pool_weight"]) + product(features, t["pool_node_weight"]) + w["pool_bias"]
        return Embedded(nodes, relu(pooled))

    def logits(self, nodes: Floats32, seen: Seen, num_envs: int) -> Floats32:
        """A score for every ready task that is seen."""
        w, t = self._weights, self._turned
        num_jobs, num_tasks = int(seen.job_ptr[num_envs]), int(seen.task_ptr[num_envs])
        own = seen.jobs[:num_jobs, self.style.job]
        jobs = self._jobs(seen.pooled[:num_jobs], seen.left[:num_jobs], own)
        world = self._world(jobs, seen.job_ptr[: num_envs + 1], seen.world[:num_envs])
        env_of = np.repeat(np.arange(num_envs), np.diff(seen.task_ptr[: num_envs + 1]))
        of, picks = seen.task_job[:num_tasks], seen.picks[:num_tasks, self.style.pick]
        hidden = product(nodes[seen.task[:num_tasks]], t["score_node_weight"]) + w["score_bias"]
        hidden += product(jobs, t["score_job_weight"])[of]
        hidden += product(world, t["score_world_weight"])[env_of]
        hidden += product(picks, t["score_pick_weight"])
        scores = product(relu(hidden, hidden), t["score_out"]) + product(picks, t["score_direct"])
        scores += product(own, t["score_job_direct"])[of]
        return np.asarray(scores[:, 0], np.float32)

    def _jobs(self, pooled: Floats32, left: Ints, own: Floats32) -> Floats32:
        """Summaries (num_jobs, h) of jobs from their tasks left and their features."""
        w, t = self._weights, self._turned
        count = np.maximum(left, 1).astype(np.float32)[:, None]
        pooled = pooled / count if self.style.is_mean else pooled * SUM_SCALE
        return relu(product(pooled, t["job_weight"]) + product(own, t["job_own_weight"]) + w["job_bias"])

    def _world(self, jobs: Floats32, pointer: Ints, own: Floats32) -> Floats32:
        """Summaries (num_envs, h) of all jobs of every environment."""
        w, t = self._weights, self._turned
        total = np.zeros((len(own), jobs.shape[1]), np.float32)
        np.add.at(total, np.repeat(np.arange(len(own)), np.diff(pointer)), jobs)
        count = np.maximum(np.diff(pointer), 1).astype(np.float32)[:, None]
        total = total / count if self.style.is_mean else total * SUM_SCALE
        return relu(product(total, t["world_weight"]) + product(own, t["world_own_weight"]) + w["world_bias"])
