"""Streams of different problems in one batch, for policies that act on any graph and cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.graph import Floats, Ints
from weft.sim.queues.environment import BUFFERS, QueueEnv, Setup
from weft.sim.queues.kernel import NEXT_JOB


class ManyEnv:
    """A few environments of each of many problems, with rows of one length.

    Every row has room for the largest problem; the last choice of every head is to idle, and heads
    beyond the devices of a problem can choose nothing else. ``elapsed`` is in mean run times of the
    problem. Draws differ between all environments and depend on neither batch nor threads.

    Parameters
    ----------
    setups
        With a graph sight; its room is set here.
    copies
        Environments per problem.
    reference
        Mean job time per problem that ``report`` divides by.
    credit
        Reward per job that arrives, per problem: with what a job costs under some rule, rewards are
        about 0 under it, and the chance in arrivals mostly cancels. Decisions change no arrival.
    threads
        Threads that step slices of the problems.
    """

    num_agents = 1
    narrow = None

    def __init__(
        self,
        setups: Sequence[Setup],
        copies: int,
        seed: int = 0,
        *,
        reference: Floats,
        credit: Floats | None = None,
        threads: int = 1,
    ) -> None:
        if not setups or not all(setup.sight.graph for setup in setups):
            raise InputError("expected problems observed by a graph sight", field="setups")
        self.copies, self.num_envs = copies, copies * len(setups)
        self.envs = [QueueEnv(setup, copies, seed) for setup in _with_room(setups)]
        first = self.envs[0]
        self.num_heads, self.num_choices = first.num_heads, first.num_choices
        self.num_features = first.num_features
        self.feature_version = first.feature_version
        self._share_buffers()
        times = [1.0 / setup.problem.mean_run_times.mean() for setup in setups]
        self._per_time = np.repeat(times, copies).astype(np.float32)  # (B,)
        self.elapsed = np.zeros(self.num_envs, np.float32)  # (B,)
        self._reference = np.repeat(reference, copies)  # (B,)
        self._credit = np.repeat(np.zeros(len(setups)) if credit is None else credit, copies)  # (B,)
        self._relative: list[float] = []
        bounds = np.linspace(0, len(setups), min(threads, len(setups)) + 1).astype(int)
        self._slices = [range(low, high) for low, high in pairwise(bounds)]
        self._pool = ThreadPoolExecutor(len(self._slices)) if len(self._slices) > 1 else None
        self.reset(seed)

    def _share_buffers(self) -> None:
        """Let every environment write into its rows of one array per buffer."""
        first = self.envs[0]
        shared = {name: getattr(first, name) for name in BUFFERS}
        shared |= {"state.count": first.state.count, "state.jobs": first.state.jobs}
        whole = {name: np.zeros((self.num_envs, *one.shape[1:]), one.dtype) for name, one in shared.items()}
        for rows, env in self.parts():
            env.adopt({name: array[rows] for name, array in whole.items()})
        self._count, self._jobs = whole.pop("state.count"), whole.pop("state.jobs")
        self.passed = whole.pop("elapsed")
        for name, array in whole.items():
            setattr(self, name, array)

    observation: npt.NDArray[np.float32]  # (B, F)
    mask: npt.NDArray[np.bool_]  # (B, H, K)
    reward: npt.NDArray[np.float32]  # (B,)
    done: npt.NDArray[np.bool_]  # (B,)
    passed: npt.NDArray[np.float32]  # (B,) time of the problem since the last decision
    ended: npt.NDArray[np.float32]  # (B,) mean job time where an episode ended, else NaN
    final_observation: npt.NDArray[np.float32]  # (B, F)

    def parts(self) -> Iterator[tuple[slice, QueueEnv]]:
        """Rows and environment of every problem."""
        return ((slice(i * self.copies, (i + 1) * self.copies), env) for i, env in enumerate(self.envs))

    def reset(self, seed: int) -> None:
        """Start all over."""
        numbers = seed * self.num_envs + np.arange(self.num_envs)
        for rows, env in self.parts():
            env.reset(numbers[rows])

    def step(self, actions: Ints) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """One decision everywhere; returns reward and done."""
        arrived, jobs = self._count[:, NEXT_JOB].copy(), self._jobs.copy()
        if self._pool is None:
            self._step(actions, self._slices[0])
        else:
            list(self._pool.map(lambda part: self._step(actions, part), self._slices))
        np.multiply(self.passed, self._per_time, out=self.elapsed)
        self.reward += self._credit * (np.where(self.done, jobs, self._count[:, NEXT_JOB]) - arrived)
        ended = np.flatnonzero(self.done)
        self._relative += (self.ended[ended] / self._reference[ended]).tolist()
        return self.reward, self.done

    def _step(self, actions: Ints, problems: range) -> None:
        for i in problems:
            self.envs[i].step(actions[i * self.copies : (i + 1) * self.copies])

    def report(self) -> dict[str, float | None]:
        """Mean job time over the reference's in the episodes that ended since the last call."""
        found, self._relative = self._relative, []
        return {"relative_jct": float(np.mean(found)) if found else None}

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """A copy of everything that changes."""
        parts = {f"{i}.{name}": a for i, env in enumerate(self.envs) for name, a in env.snapshot().items()}
        return parts | {"elapsed": self.elapsed.copy()}

    def restore(self, snapshot: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go back to a snapshot."""
        for i, env in enumerate(self.envs):
            mark = f"{i}."
            env.restore({n.removeprefix(mark): a for n, a in snapshot.items() if n.startswith(mark)})
        self.elapsed[...] = snapshot["elapsed"]
        self._relative = []


def _with_room(setups: Sequence[Setup]) -> list[Setup]:
    """The setups with room for the most kinds and devices of any of them."""
    kinds = max(len(setup.problem.graph.kinds) for setup in setups)
    devices = max(int(setup.problem.cluster.slots.sum()) for setup in setups)
    return [
        replace(setup, sight=setup.sight._replace(room_kinds=kinds, room_devices=devices)) for setup in setups
    ]
