"""Many copies of an elastic problem in one call: the environment that learners train on.

Where an episode ends, the next one has begun in the same step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.columns import Bools, Floats, Ints
from weft.model.draws import EPISODE
from weft.model.elastic import TOLD, ElasticProblem
from weft.sim.elastic.conflicts import act
from weft.sim.elastic.moves import begin
from weft.sim.elastic.observation import ElasticSight, new_sight, observe
from weft.sim.elastic.state import (
    SKIPPED,
    Log,
    Move,
    Outcome,
    State,
    World,
    compile_world,
    most_running,
    new_log,
    new_move,
    new_outcome,
    new_state,
)
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel as kernel
from weft.sim.random import keyed_uniform


class ElasticMove(NamedTuple):
    """What came of a logical step; the arrays are overwritten by the next."""

    reward: Floats  # (B, N) minus the tasks running, pending and queued at the cluster; 0 where no world time passed
    reward_alive: Floats  # (B,) minus the tasks alive; 0 where no world time passed
    outcome: Ints  # (B, N) 0 void, 1 placed, 2 lost a conflict, 3 skipped: nothing in the pending set fits
    advanced: Bools  # (B,) whether world time passed
    done: Bools  # (B,) whether the episode ended; the next one has begun
    mean_completion: Floats  # (B,) of the episode that ended; else nan


@kernel
def _begin_episode(w: World, s: State, b: int, origin: Ints, number: Ints) -> None:
    s.seed[b] = np.int64(keyed_uniform(origin[b, 0], EPISODE, origin[b, 1], number[b], 0, 0) * 2.0**52)
    begin(w, s, b)


@kernel
def _begin_all(w: World, s: State, origin: Ints, number: Ints, sight: ElasticSight) -> None:
    for b in range(len(number)):
        _begin_episode(w, s, b, origin, number)
        observe(w, s, b, sight)


@inlined
def _stand_still(out: Outcome, b: int) -> None:
    for n in range(out.reward.shape[1]):
        out.reward[b, n], out.outcome[b, n] = 0.0, SKIPPED
    out.alive[b], out.advanced[b], out.done[b], out.mean[b] = 0.0, False, False, np.nan


@kernel
def _act_all(
    w: World,
    s: State,
    move: Move,
    out: Outcome,
    log: Log,
    origin: Ints,
    number: Ints,
    sight: ElasticSight,
    once: bool,
) -> None:
    for b in range(len(number)):
        if s.done[b] == s.status.shape[1]:  # an episode that has ended, where none follows
            _stand_still(out, b)
            continue
        act(w, s, b, move, out, log)
        if out.done[b] and not once:
            number[b] += 1
            _begin_episode(w, s, b, origin, number)
        observe(w, s, b, sight)


class ElasticBatch:
    """A batch of elastic problems; every cluster has an agent.

    Parameters
    ----------
    problem
        What arrives where, and the rules.
    num_envs
        How many copies; each draws its own episodes.
    stepping, conflicts
        In place of those of the problem.
    seed
        Seeds all copies; an array gives each the seed it would have alone.
    once
        Whether an episode that ends is followed by none.
    records
        Whether every world step of every running task is kept.
    """

    def __init__(
        self, problem: ElasticProblem, num_envs: int = 1, *, stepping: str = "", conflicts: str = "",
        seed: int | Ints = 0, once: bool = False, records: bool = False,
    ) -> None:  # fmt: skip
        if num_envs < 1:
            raise InputError(f"expected a whole number >= 1, got {num_envs}", field="num_envs")
        if problem.links == TOLD and not len(problem.arrivals):
            raise InputError("expected arrivals: tasks say which clusters they may use", field="links")
        given = {"stepping": stepping, "conflicts": conflicts}
        self.problem = problem.replaced(**{key: value for key, value in given.items() if value})
        self.num_envs = num_envs
        self.world = compile_world(self.problem)
        self.state = new_state(self.problem, num_envs)
        self._move = new_move(self.problem, num_envs)
        self._out = new_outcome(self.problem, num_envs)
        self._once = once
        self._step_rows = num_envs * problem.num_clusters * most_running(problem) if records else 0
        self._log = new_log(self.problem, 4 * self._step_rows + 20_000 if records else 0)
        self._kept: list[tuple[Ints, Floats]] = []
        self._sight = new_sight(self.problem, num_envs)
        self._origin = np.zeros((num_envs, 2), np.int64)  # seed, number among those of the seed
        self._number = np.zeros(num_envs, np.int64)
        self.reset(seed)

    @property
    def num_clusters(self) -> int:
        """Clusters, and so agents."""
        return self.problem.num_clusters

    @property
    def num_types(self) -> int:
        """Types of task."""
        return len(self.problem.types)

    @property
    def num_resources(self) -> int:
        """Resources that are given in units."""
        return self.problem.num_resources

    @property
    def num_slots(self) -> int:
        """Tasks of a pending set."""
        return self.problem.num_slots

    @property
    def room_running(self) -> int:
        """Tasks that may run on a cluster at once."""
        return most_running(self.problem)

    @property
    def grid(self) -> Ints:
        """The most units of each resource that a task may be given; (R,)."""
        return self.problem.grid

    @property
    def units_scale(self) -> Floats:
        """What units are divided by in observations; (R,)."""
        return self.problem.grid.astype(np.float64)

    def reset(self, seed: int | Ints | None = None) -> ElasticSight:
        """Begin again, with a seed for all or one for each; None goes on to the next episode of each."""
        if seed is None:
            self._number += 1
        else:
            self._number[:] = 0
            self._origin[:, 0] = seed
            self._origin[:, 1] = np.arange(self.num_envs) if np.ndim(seed) == 0 else 0
        _begin_all(self.world, self.state, self._origin, self._number, self._sight)
        return self._sight

    def observe(self) -> ElasticSight:
        """What agents see now; the arrays are overwritten by the next step."""
        return self._sight

    def act(
        self, slot: Ints, units: Ints, chance: Floats | None = None, again: Ints | None = None
    ) -> ElasticMove:
        """One logical step: every agent asks for the task of a slot (-1: none) with some units (all 0: none).

        What does not fit counts as none. ``chance`` is the probability with which the slot was picked, which
        settles conflicts by Bayes. ``again`` (B, N, K, R) gives running tasks new units first, and a task may
        then be placed without any.
        """
        move = self._move
        move.slot[:] = self._checked(slot, move.slot.shape, "slot")
        move.units[:] = self._checked(units, move.units.shape, "units")
        move.chance[:] = 1.0 if chance is None else self._checked(chance, move.chance.shape, "chance")
        move.changes[:] = again is not None
        if again is not None:
            move.again[:] = self._checked(again, move.again.shape, "again")
        return self.step(move)

    def step(self, move: Move) -> ElasticMove:
        """The same with buffers that are already filled; they may be changed."""
        if self._step_rows and self._log.count[0] + self._step_rows > len(self._log.rows):
            self.drain()
        _act_all(
            self.world, self.state, move, self._out, self._log, self._origin, self._number, self._sight, self._once
        )  # fmt: skip
        out = self._out
        return ElasticMove(out.reward, out.alive, out.outcome, out.advanced, out.done, out.mean)

    @property
    def is_over(self) -> Bools:
        """Where all tasks have ended, and no episode follows; (B,)."""
        return np.asarray(self.state.done == self.problem.num_tasks)

    @property
    def buffers(self) -> tuple[Move, Outcome, Log]:
        """What kernels write that run whole episodes."""
        return self._move, self._out, self._log

    def drain(self) -> None:
        """Move what the log holds to what is kept, so that it has room again."""
        count = int(self._log.count[0])
        if count:
            self._kept.append((self._log.rows[:count].copy(), self._log.progress[:count].copy()))
            self._log.count[0] = 0

    def recorded(self) -> tuple[Ints, Floats]:
        """All rows of the log so far, see ``Log``: (num_rows, 6 + R), and the progress after each."""
        self.drain()
        parts = self._kept or [(self._log.rows[:0], self._log.progress[:0])]
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([values for _, values in parts])

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """A copy of everything that changes."""
        arrays = {f"state.{name}": value.copy() for name, value in self.state._asdict().items()}
        arrays |= {f"sight.{name}": value.copy() for name, value in self._sight._asdict().items()}
        return arrays | {"origin": self._origin.copy(), "number": self._number.copy()}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Go back to a snapshot."""
        for name, value in self.state._asdict().items():
            value[:] = arrays[f"state.{name}"]
        for name, value in self._sight._asdict().items():
            value[:] = arrays[f"sight.{name}"]
        self._origin[:], self._number[:] = arrays["origin"], arrays["number"]

    @staticmethod
    def _checked(values: npt.NDArray[Any], shape: tuple[int, ...], name: str) -> npt.NDArray[Any]:
        found = np.asarray(values)
        if found.shape != shape:
            raise InputError(f"expected shape {shape}, got {found.shape}", field=name)
        if name != "chance" and found.dtype.kind not in "iu":
            raise InputError(f"expected whole numbers, got {found.dtype}", field=name)
        return found
