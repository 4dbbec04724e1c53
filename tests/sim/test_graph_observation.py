"""Rows for graph nets: estimates, relabelling, room for more."""

from __future__ import annotations

import numpy as np
import peer

from weft.model.arrivals import Arrivals
from weft.model.conditional import SIZES, random_stream
from weft.sim.queues.environment import QueueEnv, Setup
from weft.sim.queues.graph_observation import DEVICE, KIND, PAIR, WORLD, graph_size
from weft.sim.queues.observation import Sight

SIGHT = Sight(graph=True)


def played(setup: Setup, steps: int = 60) -> QueueEnv:
    """An environment after some decisions: every device takes the first kind it may."""
    env = QueueEnv(setup, 3, seed=4)
    for _ in range(steps):
        env.step(env.mask.argmax(axis=2))
    return env


def conditional(sight: Sight = SIGHT) -> Setup:
    arrivals = Arrivals("normal", 80, peer.GAP, peer.SPREAD)
    return Setup(peer.problem(), arrivals, peer.RULES, sight, waits=True)


def blocks(env: QueueEnv, num_kinds: int, num_devices: int) -> list[np.ndarray]:
    """World, kinds, devices, pairs and edges of all rows."""
    sizes = [
        len(WORLD),
        num_kinds * len(KIND),
        num_devices * len(DEVICE),
        num_devices * num_kinds * len(PAIR),
    ]
    return np.split(env.observation, np.cumsum(sizes), axis=1)


def test_row_has_a_name_for_every_number():
    env = played(conditional())
    assert env.observation.shape == (3, graph_size(6, 4)) == (3, len(env.feature_names))
    assert np.isfinite(env.observation).all()


def test_row_tells_lengths_of_queues_and_batches():
    env = played(conditional())
    _, kinds, devices, _, _ = blocks(env, 6, 4)
    assert (kinds[:, :: len(KIND)] == env.state.queued).all()
    assert (devices[0, :: len(DEVICE)] == [1, 1, 5, 10]).all()


def test_row_estimates_edges_from_outcomes():
    env = played(conditional())
    edges = blocks(env, 6, 4)[-1].reshape(3, 6, 6)
    seen = env.state.seen
    assert edges[:, 3, 4].tolist() == ((seen[:, 0, 1] + 1) / (seen[:, 0, 0] + 2)).astype(np.float32).tolist()
    assert np.allclose(edges.sum(axis=2), [1, 1, 0, 1, 0, 0])


def test_room_for_more_changes_nothing_that_is_there():
    tight, wide = played(conditional()), played(conditional(Sight(graph=True, room_kinds=8, room_devices=5)))
    narrow, roomy = blocks(tight, 6, 4), blocks(wide, 8, 5)
    assert (narrow[0] == roomy[0]).all()
    assert (narrow[1] == roomy[1][:, : 6 * len(KIND)]).all()
    pairs = roomy[3].reshape(3, 5, 8, len(PAIR))
    assert (narrow[3].reshape(3, 4, 6, len(PAIR)) == pairs[:, :4, :6]).all()
    assert not pairs[:, 4:].any() and not pairs[:, :, 6:].any()
    assert (tight.mask[:, :, :6] == wide.mask[:, :4, :6]).all() and not wide.mask[:, :, 6:8].any()
    assert wide.mask[:, :, 8].all()


def test_row_of_work_ahead_falls_along_a_chain():
    found = random_stream(1, SIZES["usual"])
    env = played(Setup(found.problem, Arrivals("poisson", 50, found.gap), sight=SIGHT, waits=True))
    num_devices, num_kinds = env.stream.can_run.shape
    ahead = blocks(env, num_kinds, num_devices)[1].reshape(3, num_kinds, -1)[:, :, KIND.index("work ahead")]
    graph = found.problem.graph
    for e in np.flatnonzero(graph.branch < 0):
        assert (ahead[:, graph.sources[e]] >= ahead[:, graph.targets[e]]).all()
