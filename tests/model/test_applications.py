"""Shapes like those of scientific applications."""

from __future__ import annotations

import numpy as np
import pytest

from weft.model.applications import APPLICATIONS, Application
from weft.model.generate import Knobs, generate


@pytest.mark.parametrize("name", APPLICATIONS)
@pytest.mark.parametrize("more", [0, 1, 2, 7, 60, 500])
def test_every_size_from_the_least_on_is_met_exactly(name: str, more: int) -> None:
    size = APPLICATIONS[name].least + more
    graph = generate(name, size, seed=more)
    assert graph.num_tasks == size
    assert (graph.sources < graph.targets).all()
    assert generate(name, size, seed=more).targets.tobytes() == graph.targets.tobytes()


@pytest.mark.parametrize(
    ("name", "depth"),
    [
        ("genome", 3),
        ("epigenomics", 9),
        ("blast", 3),
        ("soykb", 11),
        ("sra-search", 3),
        ("cycles", 5),
        ("seismology", 2),
    ],
)
def test_programs_follow_one_another(name: str, depth: int) -> None:
    graph = generate(name, 80, seed=3)
    level = np.zeros(80, int)
    for source, target in sorted(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)):
        level[target] = max(level[target], level[source] + 1)
    assert level.max() + 1 == depth


def test_tasks_are_joined_where_letters_agree() -> None:
    two = Application("", (("s", ()), ("sc", (0,)), ("s", (1,)), ("", (2,))))
    sources, targets = two.edges(11, Knobs(), np.random.default_rng(0))
    many = int((targets == 10).sum())  # samples
    chunks = (11 - 1 - 2 * many) // many
    assert all(int((sources == s).sum()) >= chunks for s in range(many))
    for s in range(many):
        mine = targets[sources == s]
        assert set(targets[np.isin(sources, mine)].tolist()) == {10 - many + s}


def test_samples_and_chunks_vary() -> None:
    merges = {int(np.bincount(generate("genome", 90, seed=seed).targets).max()) for seed in range(12)}
    assert len(merges) > 4
