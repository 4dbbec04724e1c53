"""Small one-shot planners and problems for the tests."""

from __future__ import annotations

from pathlib import Path

import torch

from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate, jobshop, jobshop_cluster, opgraph_cluster, tpch_cluster, tpch_like
from weft.model.problem import Objective, Problem
from weft.policies.checkpoint import Card, save_policy
from weft.policies.oneshot.encoder_shape import DEFAULT_HEADS, EncoderShape
from weft.policies.oneshot.features import FEATURES, PAIR_FEATURES, VERSION, TaskView, view_of
from weft.policies.oneshot.net import Topoformer
from weft.sim.arrays import compile_problem

ALONE = Objective(copies=False)
PROBLEMS = {
    "shop": Problem(jobshop(5, 4, seed=1), jobshop_cluster(4), ALONE),
    "queries": Problem(tpch_like(4, seed=2), tpch_cluster(), ALONE),
    "operators": Problem(generate("opgraph-er", 30, seed=3), opgraph_cluster(), ALONE),
    "workflow": Problem(
        generate("layered", 14, seed=4),
        Cluster.uniform([DeviceClass("slow"), DeviceClass("fast", 3.0)], [2, 2], bandwidth=1e7),
    ),
}
"""One of each kind that a planner meets."""


def view(problem: Problem) -> TaskView:
    """What an encoder sees of a problem."""
    return view_of(compile_problem(problem))


def small_shape(
    heads: tuple[str, ...] = DEFAULT_HEADS, *, num_types: int = 0, num_lists: int = 1
) -> EncoderShape:
    """A net of a few thousand weights."""
    width, sizes = 2 * len(heads), {"num_lists": num_lists, "num_types": num_types}
    return EncoderShape(len(FEATURES), len(PAIR_FEATURES), width, 2, 24, heads, pair_width=4, **sizes)


def random_net(shape: EncoderShape, seed: int = 0) -> Topoformer:
    """A net all of whose tensors matter."""
    net = Topoformer(shape)
    generator = torch.Generator().manual_seed(seed)
    net.initialise(generator)
    with torch.no_grad():
        for tensor in net.parameters():
            tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
    return net


def saved_policy(folder: Path, *, version: str = VERSION, seed: int = 0, num_lists: int = 1) -> Path:
    """A card and weights of a random net; the path of the card."""
    shape = small_shape(num_lists=num_lists)
    card = Card("small", "oneshot", shape, feature_version=version, features=FEATURES)
    save_policy(folder / "small.json", random_net(shape, seed).weights(), card)
    return folder / "small.json"
