"""The net that is trained to pick a ready task, in torch.

Tasks, jobs and environments stand in long lists with pointers between them; nothing is padded.
:class:`weft.policies.picks.forward.PickPolicy` decides the same in NumPy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from weft.policies.net_tensors import Net
from weft.policies.picks.architecture import PickArchitecture
from weft.policies.picks.forward import SUM_SCALE, Level
from weft.sim.tasks.picks import STYLES


class Moments(NamedTuple):
    """D decisions with J jobs in the system and M ready tasks in all."""

    order: Tensor  # (P,) tasks, each job of each episode after the other, as they were picked
    left_from: Tensor  # (J,) place in ``order`` of the first task of a job that was left
    left_to: Tensor  # (J,) place behind its last task
    jobs: Tensor  # (J, features)
    job_at: Tensor  # (J,) decision
    task: Tensor  # (M,)
    task_job: Tensor  # (M,) row of its job
    picks: Tensor  # (M, features)
    task_at: Tensor  # (M,) decision
    world: Tensor  # (D, features)


class PickNet(Net):
    """Scores of any number of ready tasks."""

    architecture: PickArchitecture

    def __init__(self, architecture: PickArchitecture) -> None:
        super().__init__()
        self.architecture = architecture
        self._is_mean = STYLES[architecture.style].is_mean
        for name, shape in architecture.shapes().items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Gaussian weights, every row scaled to length 1 (of the score: 0.01, and 0 where it is direct); the rest 0."""
        for name, tensor in self.named_parameters():
            if tensor.dim() == 2 and "direct" not in name:
                drawn = torch.randn(tensor.shape, generator=generator)
                length = 0.01 if name == "score_out" else 1.0
                tensor.copy_(drawn * length / drawn.square().sum(1, keepdim=True).sqrt())
            else:
                tensor.zero_()

    def embed(self, features: Tensor, levels: list[Level]) -> tuple[Tensor, Tensor]:
        """Embeddings (num_tasks, h) of tasks, and what is pooled of them, from fixed features."""
        w = self.get_parameter
        start = linear(features, w("node_weight"), w("node_bias")).relu()
        nodes = start
        for level in levels:
            children = torch.from_numpy(level.children)
            sizes = np.diff(np.append(level.first, len(level.children)))
            parent = torch.from_numpy(np.repeat(np.arange(len(level.tasks)), sizes))
            sent = linear(nodes[children], w("send_weight"), w("send_bias")).relu()
            taken = torch.zeros((len(level.tasks), sent.shape[1])).index_add(0, parent, sent)
            more = linear(taken, w("take_weight"), w("take_bias")).relu()
            nodes = nodes.index_add(0, torch.from_numpy(level.tasks), more)
        pooled = linear(nodes, w("pool_weight")) + linear(features, w("pool_node_weight"), w("pool_bias"))
        return nodes, pooled.relu()

    def forward(self, nodes: Tensor, pooled: Tensor, at: Moments) -> Tensor:
        """A score (M,) for every ready task of every decision."""
        w = self.get_parameter
        jobs = self._jobs(pooled, at)
        world = self._world(jobs, at)
        hidden = linear(nodes, w("score_node_weight"), w("score_bias"))[at.task]
        hidden = hidden + linear(jobs, w("score_job_weight"))[at.task_job]
        hidden = hidden + linear(world, w("score_world_weight"))[at.task_at]
        hidden = hidden + linear(at.picks, w("score_pick_weight"))
        scores = linear(hidden.relu(), w("score_out")) + linear(at.picks, w("score_direct"))
        return (scores + linear(at.jobs, w("score_job_direct"))[at.task_job]).squeeze(-1)

    def _jobs(self, pooled: Tensor, at: Moments) -> Tensor:
        """Summaries (J, h): what is left of a job is the end of its picks, so that a running sum gives all of them."""
        w = self.get_parameter
        total = torch.cat([pooled.new_zeros((1, pooled.shape[1])), pooled[at.order]]).double().cumsum(0)
        left = (total[at.left_to] - total[at.left_from]).float()
        count = (at.left_to - at.left_from).clamp_min(1).unsqueeze(1)
        left = left / count if self._is_mean else left * float(SUM_SCALE)
        return (linear(left, w("job_weight")) + linear(at.jobs, w("job_own_weight"), w("job_bias"))).relu()

    def _world(self, jobs: Tensor, at: Moments) -> Tensor:
        w = self.get_parameter
        total = jobs.new_zeros((len(at.world), jobs.shape[1])).index_add(0, at.job_at, jobs)
        count = jobs.new_zeros(len(at.world)).index_add(0, at.job_at, jobs.new_ones(len(jobs)))
        total = total / count.clamp_min(1.0).unsqueeze(1) if self._is_mean else total * float(SUM_SCALE)
        world = linear(total, w("world_weight")) + linear(at.world, w("world_own_weight"), w("world_bias"))
        return world.relu()
