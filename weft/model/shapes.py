"""Shapes of generated graphs: which tasks feed which, always from a lower to a higher index.

A shape takes the size, the knobs of :mod:`weft.model.generate` and a generator of random numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InputError
from weft.model.columns import Ints

if TYPE_CHECKING:
    from weft.model.generate import Knobs

MOST_EDGES = 50_000_000
"""A shape that would have more edges than this is refused before it is drawn."""

WIDE = (0.5, 1.0)
"""How wide phases are: the size to a power drawn between these."""
ALONE = 0.3
"""Share of the phases that are a single task."""

Edges = tuple[Ints, Ints]
"""Sources and targets of the edges, distinct, each source below its target."""
Rng = np.random.Generator


def layered(size: int, knobs: Knobs, rng: Rng) -> Edges:
    """Layers of random width; every task beyond the first layer has a parent in the layer before.

    The knobs follow Topcuoglu, Hariri and Wu (2002): about sqrt(size) / parallelism layers.
    """
    num_layers = int(np.clip(round(size**0.5 / knobs.parallelism), 1, size))
    shares = np.cumsum(rng.uniform(0.5, 1.5, num_layers))
    filled = np.rint(shares / shares[-1] * (size - num_layers)).astype(np.int64)
    widths = 1 + np.diff(filled, prepend=0)
    start = np.cumsum(widths) - widths
    child = np.arange(widths[0], size)
    above = np.repeat(np.arange(num_layers), widths)[child] - 1
    parent = start[above] + (rng.random(len(child)) * widths[above]).astype(np.int64)
    possible = _between_layers(widths, knobs.jump)[-1]
    spare = int(possible.sum()) - len(child)
    share = (knobs.density * size - len(child)) / spare if spare else 0.0
    sources, targets = _layer_edges(widths, knobs.jump, _coin_flips(rng, int(possible.sum()), share))
    return distinct(size, np.concatenate([parent, sources]), np.concatenate([child, targets]))


def fork_join(size: int, knobs: Knobs, rng: Rng) -> Edges:
    """One task forks into about parallelism * sqrt(size), all join in the next fork, and so on."""
    width = max(1, round(knobs.parallelism * size**0.5))
    stages = int(np.clip(round((size - 1) / (width + 1)), 1, (size - 1) // 2))
    inner = np.diff(np.arange(stages + 1) * (size - stages - 1) // stages)
    widths = np.ones(2 * stages + 1, dtype=np.int64)
    widths[1::2] = inner
    num_edges = int(_between_layers(widths, 1)[-1].sum())
    return _layer_edges(widths, 1, np.arange(num_edges))


def erdos_renyi(size: int, knobs: Knobs, rng: Rng) -> Edges:
    """Every pair is an edge with the probability that gives the density on average."""
    return pairs(size, 2.0 * knobs.density / max(size - 1, 1), rng)


def block_model(size: int, knobs: Knobs, rng: Rng) -> Edges:
    """Stochastic block model on a random permutation of the tasks, edges directed by index."""
    blocks = np.array_split(rng.permutation(size), knobs.communities)
    ends: list[Edges] = []
    for b, block in enumerate(blocks):
        sources, targets = pairs(len(block), knobs.p_in, rng)
        ends.append((block[sources], block[targets]))
        for other in blocks[b + 1 :]:
            cell = _coin_flips(rng, len(block) * len(other), knobs.p_out)
            ends.append((block[cell // max(len(other), 1)], other[cell % max(len(other), 1)]))
    one, two = (np.concatenate(side) for side in zip(*ends, strict=True))
    return distinct(size, np.minimum(one, two), np.maximum(one, two))


def out_tree(size: int, knobs: Knobs, rng: Rng) -> Edges:
    """Every task but the root hangs below a random earlier one."""
    child = np.arange(1, size)
    return (rng.random(len(child)) * child).astype(np.int64), child


def in_tree(size: int, knobs: Knobs, rng: Rng) -> Edges:
    """An out-tree turned round: everything flows together in the last task."""
    sources, targets = out_tree(size, knobs, rng)
    return size - 1 - targets, size - 1 - sources


def chain(size: int, knobs: Knobs, rng: Rng) -> Edges:
    """One task after another."""
    return np.arange(size - 1), np.arange(1, size)


def mosaic(size: int, knobs: Knobs, rng: Rng) -> Edges:
    """Like the Montage workflow: project images, compare neighbours, fit, correct each, add up."""
    images = (size - 4) // 4
    fit = size - images - 3
    concat, table, add = fit - 1, size - 2, size - 1
    project, compare, correct = np.arange(images), np.arange(images, concat), np.arange(fit + 1, table)
    number = np.arange(len(compare))
    edges = [(number % images, compare), ((number + 1 + number // images) % images, compare)]
    edges += [(compare, compare * 0 + concat), (project, correct), (correct * 0 + fit, correct)]
    edges += [(correct, correct * 0 + table), (np.array([concat, table]), np.array([fit, add]))]
    sources, targets = (np.concatenate(side) for side in zip(*edges, strict=True))
    return distinct(size, sources, targets)


def phases(size: int, knobs: Knobs, rng: Rng) -> Edges:
    """Like recorded workflows: phases of one task or of one common width, joined by splits, merges and parallel pipelines."""
    wide = max(2, round(size ** rng.uniform(*WIDE)))
    widths = [1 if rng.random() < ALONE else wide for _ in range(size)]
    widths = widths[: 1 + int(np.searchsorted(np.cumsum(widths), size))]
    widths[-1] -= sum(widths) - size
    start = np.cumsum(widths) - widths
    edges = []
    for first, here, then, there in zip(start, widths, start[1:], widths[1:], strict=False):
        number = np.arange(max(here, there))  # as many edges as the wider of the two has tasks
        edges.append((first + number * here // len(number), then + number * there // len(number)))
    sources, targets = (
        np.concatenate([*side, np.zeros(0, np.int64)]) for side in zip(*edges, ([], []), strict=True)
    )
    return sources.astype(np.int64), targets.astype(np.int64)


def _between_layers(widths: Ints, jump: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Per layer: its first task, the first task that may feed it, how many may, possible edges."""
    start = np.cumsum(widths) - widths
    low = start[np.maximum(np.arange(len(widths)) - jump, 0)]
    return start, low, start - low, widths * (start - low)


def _layer_edges(widths: Ints, jump: int, picked: Ints) -> Edges:
    """The edges with these numbers, when all possible ones are counted layer by layer."""
    start, low, feeders, possible = _between_layers(widths, jump)
    upto = np.cumsum(possible)
    layer = np.searchsorted(upto, picked, side="right")
    within, feeder = np.divmod(picked - (upto - possible)[layer], feeders[layer])
    return low[layer] + feeder, start[layer] + within


def pairs(size: int, probability: float, rng: Rng) -> Edges:
    """Each pair of numbers below ``size``, lower first, with this probability."""
    number = _coin_flips(rng, size * (size - 1) // 2, probability)
    upper: Ints = ((1.0 + np.sqrt(1.0 + 8.0 * number)) / 2.0).astype(np.int64)
    upper = upper - (upper * (upper - 1) // 2 > number)  # the root may be rounded either way
    upper = upper + (upper * (upper + 1) // 2 <= number)
    return number - upper * (upper - 1) // 2, upper


def _coin_flips(rng: Rng, total: int, probability: float) -> Ints:
    """The numbers below ``total`` for which a coin shows heads, in order; cost follows the heads."""
    expected = total * min(probability, 1.0)
    if expected > MOST_EDGES:
        raise InputError(
            f"expected at most {MOST_EDGES} edges, got {expected:.3g} or more: lower the size, density or p_in",
            field="size",
        )
    if total == 0 or probability <= 0:
        return np.zeros(0, dtype=np.int64)
    batch = int(expected + 6 * expected**0.5) + 16
    heads = np.zeros(0, dtype=np.int64)
    last = -1
    while last < total:
        steps = np.minimum(rng.geometric(min(probability, 1.0), batch), total + 1)
        heads = np.concatenate([heads, last + np.cumsum(steps)])
        last = int(heads[-1])
    return heads[: np.searchsorted(heads, total)]


def distinct(size: int, sources: Ints, targets: Ints) -> Edges:
    """The edges sorted, each once."""
    key = np.unique(sources * size + targets)
    return key // size, key % size
