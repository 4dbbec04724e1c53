"""Shapes like those of scientific applications: programs that run once per sample, chunk or both, one after another.

A program is written as the letters that it runs for and the programs that feed it: "sc" runs for every chunk of every
sample. Tasks of two programs are joined where the letters that both have agree, so chunks fan out of a sample and
merge again. How many samples and chunks there are is drawn for the size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weft.model.columns import Ints
from weft.model.shapes import Edges, Rng, distinct

if TYPE_CHECKING:
    from weft.model.generate import Knobs

Many = dict[str, int]
"""How many there are of every letter."""


@dataclass(frozen=True)
class Application:
    """The programs of one application."""

    summary: str
    programs: tuple[tuple[str, tuple[int, ...]], ...]
    """Of every program: what it runs for, and the numbers of the programs that feed it, all lower."""

    @property
    def least(self) -> int:
        """Tasks where there is one of everything."""
        return len(self.programs)

    def edges(self, size: int, knobs: Knobs, rng: Rng) -> Edges:
        """The edges of so many tasks: what does not fill another sample or chunk repeats tasks of the widest program."""
        many = self._how_many(size, rng)
        count = [_count(per, many) for per, _ in self.programs]
        count[int(np.argmax(count))] += size - sum(count)
        first = np.cumsum(count) - count
        found = [np.zeros((2, 0), np.int64)]
        for k, (per, feeders) in enumerate(self.programs):
            for feeder in feeders:
                before = self.programs[feeder][0]
                shared = sorted(set(per) & set(before))
                source = _places(before, shared, many, count[feeder])
                target = _places(per, shared, many, count[k])
                found.append(np.stack(_joined(source, target)) + np.array([[first[feeder]], [first[k]]]))
        sources, targets = np.concatenate(found, axis=1)
        return distinct(size, sources, targets)

    def _how_many(self, size: int, rng: Rng) -> Many:
        """One letter grows after another, by chances that are drawn, while all fits the size."""
        letters = sorted({letter for per, _ in self.programs for letter in per})
        chance = rng.dirichlet(np.ones(len(letters)))
        many, grows = dict.fromkeys(letters, 1), np.ones(len(letters), bool)
        while (chance * grows).sum() > 0:
            k = int(rng.choice(len(letters), p=chance * grows / (chance * grows).sum()))
            more = {**many, letters[k]: many[letters[k]] + 1}
            grows[k] = sum(_count(per, more) for per, _ in self.programs) <= size
            many = more if grows[k] else many
        return many


def _count(per: str, many: Many) -> int:
    """Tasks of a program."""
    return int(np.prod([many[letter] for letter in per], dtype=np.int64))


def _places(per: str, shared: list[str], many: Many, count: int) -> Ints:
    """One number (count,) for the shared letters of every task of a program; tasks too many repeat the first ones."""
    at, places = np.arange(count) % _count(per, many), {}
    for letter in per:
        at, places[letter] = np.divmod(at, many[letter])
    key = np.zeros(count, np.int64)
    for letter in shared:
        key = key * many[letter] + places[letter]
    return key


def _joined(sources: Ints, targets: Ints) -> Edges:
    """All pairs of a source and a target with equal places."""
    order = np.argsort(targets, kind="stable")
    low, high = (np.searchsorted(targets[order], sources, side) for side in ("left", "right"))
    count = high - low
    source = np.repeat(np.arange(len(sources)), count)
    within = np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count)
    return source, order[low[source] + within]


def _steps(per: str, count: int, first: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Programs one after another, the first of them fed by program ``first`` - 1."""
    return tuple((per, (k - 1,) if k else ()) for k in range(first, first + count))


APPLICATIONS = {
    "genome": Application(
        "like 1000Genome: individuals of a chromosome merge and, with a sifting, feed two analyses per population",
        (("ci", ()), ("c", (0,)), ("c", ()), ("cp", (1, 2)), ("cp", (1, 2))),
    ),
    "epigenomics": Application(
        "like Epigenomics: lanes split, four steps per chunk, merged per lane, then of all",
        (*_steps("l", 1, 0), *_steps("lc", 4, 1), *_steps("l", 1, 5), *_steps("", 3, 6)),
    ),
    "blast": Application(
        "like BLAST: a query splits, chunks are searched, results and errors collected",
        (("", ()), ("c", (0,)), ("", (1,)), ("", (1,))),
    ),
    "samples": Application(
        "like nf-core pipelines: samples are checked, trimmed, aligned, sorted and counted; reports of all",
        (
            *(("", ()), ("s", ()), ("s", ()), ("s", (0, 2)), *_steps("s", 2, 4), ("s", (4,)), ("s", (5,))),
            *(("s", (5, 6)), ("", (7, 8)), ("", (1, 2, 8, 9))),
        ),
    ),
    "soykb": Application(
        "like SoyKB: six steps per sample, one per sample and chromosome, genotypes combined, selected, filtered",
        (
            *_steps("s", 6, 0),
            ("sc", (5,)),
            ("c", (6,)),
            *_steps("", 2, 8),
            ("", (8,)),
            ("", (9,)),
            ("", (10,)),
        ),
    ),
    "sra-search": Application(
        "like SRA search: downloads and an index feed alignments, which are merged",
        (("s", ()), ("", ()), ("s", (0, 1)), ("", (2,))),
    ),
    "cycles": Application(
        "like Cycles: a baseline per place, two runs per crop, outputs per place, one summary",
        (("s", ()), ("sc", (0,)), ("sc", (1,)), ("s", (2,)), ("", (3,))),
    ),
    "seismology": Application(
        "like Seismology: deconvolutions, collected by one task", (("s", ()), ("", (0,)))
    ),
}
"""By the names of their families."""
