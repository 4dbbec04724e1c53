"""The role that lends configurations to actors: order, sharing out, what became of them, and how much is explored.

It holds a few numbers per configuration, so that one is enough however many actors there are. What it says depends on
its seed and on what it was asked and told, in that order. Loads no torch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.errors import InputError
from weft.policies.tensors import Array
from weft.training.distributed.curriculum import (
    BOTH,
    DECAY,
    EASY,
    GRAY,
    LADDER,
    LEXICOGRAPHIC,
    REGRET,
    REGRETS,
    VISITS,
    Curriculum,
    arcs,
    gray_path,
    lexicographic_path,
)
from weft.training.distributed.leases import Lease, LeaseReport
from weft.training.distributed.points import used
from weft.training.draws import Draws
from weft.training.environment import Floats, Ints
from weft.training.run.metrics import Metric

_SALT = 5
_KEPT = 0.7
"""Share of the old score that remains when a new one comes."""


@dataclass(frozen=True)
class Grid:
    """Configurations as points of a grid."""

    points: Ints  # (num_configurations, N) which value of each setting
    difficulty: Floats  # (num_configurations,)
    reference: Floats  # (num_configurations,) mean return of the base rule
    unit: Floats  # (num_configurations,) what regrets are shares of

    @property
    def size(self) -> int:
        """Configurations."""
        return len(self.points)


class ConfigScheduler:
    """Lends configurations; an actor that is lost gives back what it had.

    Parameters
    ----------
    workers
        Names of the actors: with ``gray`` each walks an arc of its own.
    """

    def __init__(self, grid: Grid, curriculum: Curriculum, workers: Sequence[str], seed: int = 0) -> None:
        self.grid, self.curriculum, self._workers = grid, curriculum, list(workers)
        self._draws = Draws("curriculum.draws", 1, seed, _SALT)
        self.is_used = used(grid.points, curriculum)
        num = grid.size
        self.decisions = np.zeros(num, np.int64)  # (num,) made in each, by anybody
        self.episodes = np.zeros(num, np.int64)  # (num,)
        self._return = np.full(num, np.nan)  # (num,) averaged
        self._error = np.zeros(num)  # (num,)
        self._lent = np.full(num, -1, np.int64)  # (num,) when it was lent last, in leases
        self._number = 0
        self._active = math.ceil(curriculum.rise * self.is_used.sum())
        self._current: dict[
            str, tuple[int, int]
        ] = {}  # worker, or "" for all -> configuration, episodes left
        self._steps: dict[str, int] = {}  # worker, or "" -> place in its sweep
        self._out: dict[str, dict[int, Lease]] = {name: {} for name in self._workers}
        self._returned: deque[int] = deque()
        self._path = self._sweep()
        self._arcs = arcs(self._path, len(self._workers))

    def _sweep(self) -> list[int]:
        """Used configurations in the order of a sweep."""
        radices = (self.grid.points.max(axis=0) + 1).tolist()
        path = gray_path(radices) if self.curriculum.order == GRAY else lexicographic_path(radices)
        at = {tuple(point): k for k, point in enumerate(self.grid.points.tolist())}
        return [at[point] for point in path if point in at and self.is_used[at[point]]]

    # Lending

    @property
    def usual_length(self) -> float:
        """Mean decisions of the episodes that ended; infinite while none did."""
        num = int(self.episodes.sum())
        return float(self.decisions.sum()) / num if num else math.inf

    def leases_for(self, worker: str, num_envs: int, each: int = 2) -> tuple[Lease, ...]:
        """As many leases as an actor needs not to run out before it asks again: so many for each environment."""
        missing = each * num_envs - len(self._out[worker])
        return tuple(self.next_lease(worker) for _ in range(missing))

    def next_lease(self, worker: str) -> Lease:
        """The next episode for an actor."""
        if self._returned:
            config = self._returned.popleft()
        else:
            whose = "" if self.curriculum.is_split else worker
            config, left = self._current.get(whose, (-1, 0))
            if left <= 0:
                config, left = self._next_config(whose), self.curriculum.episodes
            self._current[whose] = config, left - 1
        self._lent[config] = self._number
        lease = Lease(self._number, config, 1, self._epsilon(config), self.curriculum.exploration == BOTH)
        self._out[worker][lease.number] = lease
        self._number += 1
        return lease

    def report(self, worker: str, found: LeaseReport) -> None:
        """An episode ended."""
        c = found.config
        self._out[worker].pop(found.number, None)
        self.decisions[c] += found.decisions
        self.episodes[c] += 1
        is_first = math.isnan(self._return[c])
        kept = 0.0 if is_first else _KEPT
        self._return[c] = (0.0 if is_first else kept * self._return[c]) + (1.0 - kept) * found.total
        self._error[c] = kept * self._error[c] + (1.0 - kept) * found.error

    def give_back(self, worker: str) -> None:
        """An actor is lost: somebody else plays what it had."""
        for number in sorted(self._out[worker]):
            self._returned.append(self._out[worker][number].config)
        self._out[worker] = {}

    def num_lent(self, worker: str) -> int:
        """Leases that an actor has."""
        return len(self._out[worker])

    # Order

    def _next_config(self, whose: str) -> int:
        order = self.curriculum.order
        if order in (LEXICOGRAPHIC, GRAY) and not self._is_over(whose):
            return self._swept(whose)
        if order == EASY:
            return self._easy()
        if order == REGRET:
            return self._regretted()
        return self._uniform(self._path)

    def _is_over(self, whose: str) -> bool:
        """Whether all sweeps are done."""
        step = self._steps.get(self._sweeper(whose), 0)
        length = len(self._arc(whose, step)) if self.curriculum.order == GRAY else len(self._path)
        return bool(self.curriculum.epochs) and step >= self.curriculum.epochs * max(length, 1)

    def _sweeper(self, whose: str) -> str:
        """Whose place in the sweep counts: with ``gray`` that of each actor, else that of all."""
        return whose if self.curriculum.order == GRAY else ""

    def _swept(self, whose: str) -> int:
        key = self._sweeper(whose)
        step = self._steps.get(key, 0)
        self._steps[key] = step + 1
        if self.curriculum.order == LEXICOGRAPHIC:
            return self._path[step % len(self._path)]
        arc = self._arc(whose, step)
        epoch, place = divmod(step, len(arc))
        return arc[place] if epoch % 2 == 0 else arc[-1 - place]  # there and back

    def _arc(self, whose: str, step: int) -> list[int]:
        """The arc of an actor: in every second epoch it takes that of the next one."""
        if not whose:
            return self._path
        index, num = self._workers.index(whose), len(self._workers)
        epoch = step * num // max(len(self._path), 1)
        return self._arcs[(index + epoch // 2) % num] or self._path

    def _uniform(self, among: Sequence[int]) -> int:
        return among[min(int(self._draws.uniform()[0] * len(among)), len(among) - 1)]

    def _easy(self) -> int:
        """From the easiest ones, which become more once the hardest of them are learned; some from all."""
        by_difficulty = sorted(self._path, key=lambda c: (float(self.grid.difficulty[c]), c))
        if self._draws.uniform()[0] < self.curriculum.uniform_share:
            return self._uniform(by_difficulty)
        active = by_difficulty[: self._active]
        hardest = active[-math.ceil(0.1 * len(active)) :]
        if len(active) < len(by_difficulty) and self._is_learned(hardest):
            self._active += math.ceil(self.curriculum.rise * len(by_difficulty))
        return self._uniform(active)

    def _is_learned(self, configs: Sequence[int]) -> bool:
        """Whether these are about as good as the base rule."""
        return float(self.regrets()[configs].mean()) <= self.curriculum.tolerance

    def _regretted(self) -> int:
        """Prioritised level replay (Jiang et al., 2021): unseen ones first, later by rank of the score and by how long ago."""
        path = np.array(self._path)
        unseen = path[self._lent[path] < 0]
        if len(unseen) and self._draws.uniform()[0] < len(unseen) / len(path):
            return self._uniform(unseen.tolist())
        seen = path[self._lent[path] >= 0]
        score = self.scores()[seen]
        rank = np.empty(len(seen))
        rank[np.argsort(-score, kind="stable")] = np.arange(1, len(seen) + 1)
        by_score = rank ** (-1.0 / self.curriculum.temperature)
        age = (self._number - self._lent[seen]).astype(np.float64)
        share = self.curriculum.stale_share
        chance = (1.0 - share) * by_score / by_score.sum() + share * age / age.sum()
        at = int(np.searchsorted(np.cumsum(chance), self._draws.uniform()[0] * chance.sum(), "right"))
        return int(seen[min(at, len(seen) - 1)])

    def regrets(self) -> Floats:
        """By how much (num,) each is behind the base rule, in units of the grid; infinite where nothing is known yet."""
        behind = (self.grid.reference - self._return) / np.maximum(self.grid.unit, 1e-9)
        return np.where(np.isnan(self._return), np.inf, np.maximum(behind, 0.0))

    def scores(self) -> Floats:
        """What ``regret`` ranks by: (num,)."""
        return self.regrets() if self.curriculum.score == REGRETS else self._error

    # Exploration

    def _epsilon(self, config: int) -> float:
        how = self.curriculum
        if how.exploration == LADDER:
            return math.nan
        if how.exploration == DECAY:
            gone = float(self.decisions.sum()) / how.epsilon_decisions
            return how.epsilon_end + (how.epsilon - how.epsilon_end) * math.exp(-gone)
        if how.exploration in (VISITS, BOTH):
            visits = 1.0 + float(self.decisions[config]) / how.epsilon_decisions
            return max(how.epsilon_end, how.epsilon / math.sqrt(visits))
        raise InputError(f"unknown: {how.exploration!r}", field="curriculum.exploration")

    # Log and state

    def figures(self) -> dict[str, Metric]:
        """For the row of an update."""
        seen = self.episodes[self.is_used]
        return {
            "configurations_seen": int((seen > 0).sum()),
            "configurations": int(self.is_used.sum()),
            "least_decisions": int(self.decisions[self.is_used].min()),
        }

    def state(self) -> dict[str, Array]:
        """What a resumed run needs."""
        names = ["", *self._workers]
        now = [
            (k, *self._current.get(name, (-1, 0)), self._steps.get(name, 0)) for k, name in enumerate(names)
        ]
        out = [(k, *lease) for k, name in enumerate(self._workers) for lease in self._out[name].values()]
        columns = np.stack([self._return, self._error])
        counts = np.stack([self.decisions, self.episodes, self._lent])
        return {
            **self._draws.state(),
            "curriculum.columns": columns,
            "curriculum.counts": counts,
            "curriculum.now": np.array(now, np.int64),
            "curriculum.out": np.array(out, np.float64).reshape(-1, 1 + len(Lease._fields)),
            "curriculum.returned": np.array(self._returned, np.int64),
            "curriculum.numbers": np.array([self._number, self._active]),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._draws.restore(state)
        self._return, self._error = (row.copy() for row in state["curriculum.columns"].astype(np.float64))
        counts = state["curriculum.counts"].astype(np.int64)
        self.decisions, self.episodes, self._lent = (row.copy() for row in counts)
        names = ["", *self._workers]
        for k, config, left, step in state["curriculum.now"].astype(np.int64).tolist():
            self._current[names[k]], self._steps[names[k]] = (config, left), step
        self._out = {name: {} for name in self._workers}
        for k, number, config, episodes, epsilon, is_floor in (
            state["curriculum.out"].astype(np.float64).tolist()
        ):
            lease = Lease(int(number), int(config), int(episodes), epsilon, bool(is_floor))
            self._out[self._workers[int(k)]][lease.number] = lease
        self._returned = deque(state["curriculum.returned"].astype(np.int64).tolist())
        self._number, self._active = state["curriculum.numbers"].astype(np.int64).tolist()
