"""Prioritised replay of a million decisions against cpprb, side by side: draw a batch, then set its priorities.

Both hold the same number of decisions of the same size (a state of 32 numbers, the state after it, action, reward, discount),
fill their buffers first, and are called in turn; each row is the median of its rounds. Seconds are CPU time of one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.policies.candidates.packed import Packed
from weft.training.replay import Replay, ReplayShape

WIDTH = 32
"""Numbers of a state."""


def main(arguments: list[str]) -> int:
    """Measure and print a table with ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks replay", description=__doc__)
    parser.add_argument("--capacity", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--envs", type=int, default=64, help="decisions that are added at once")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--half", action="store_true", help="keep features in 16 bits")
    options = parser.parse_args(arguments)
    ours = _Ours(options.capacity, options.envs, options.half)
    theirs = _Theirs(options.capacity, options.envs)
    rng = np.random.default_rng(0)
    names = ("draw", "set priorities", "both", "add")
    times: dict[str, list[list[float]]] = {name: [[], []] for name in names}
    for _ in range(options.rounds):
        level = rng.random(options.batch)
        error = rng.random(options.batch).astype(np.float32)
        for who, one in enumerate((ours, theirs)):
            added, _ = _timed(one.add)
            drew, slot = _timed(one.draw, level)
            updated, _ = _timed(one.update, slot, error)
            for name, seconds in zip(names, (drew, updated, drew + updated, added), strict=True):
                times[name][who].append(seconds)
    print(
        f"capacity {options.capacity:,}, batch {options.batch}; median CPU microseconds of {options.rounds} rounds"
    )
    print(f"{'':<16}{'weft':>10}{'cpprb':>10}{'cpprb / weft':>14}")
    for name, (mine, other) in times.items():
        a, b = 1e6 * float(np.median(mine)), 1e6 * float(np.median(other))
        print(f"{name:<16}{a:>10.0f}{b:>10.0f}{b / a:>14.2f}")
    return 0


def _timed(call: Callable[..., Any], *given: object) -> tuple[float, Any]:
    started = time.process_time()
    found = call(*given)
    return time.process_time() - started, found


class _Ours:
    """Weft's replay, a state being one candidate with few columns and a wide world."""

    def __init__(self, capacity: int, num_envs: int, is_half: bool) -> None:
        shape = ReplayShape(num_envs, WIDTH, 2, 1, capacity, capacity, 1, is_half)
        self._replay = Replay(shape, 0.6, 1e-3)
        rng = np.random.default_rng(1)
        self._given = (
            Packed(
                rng.random((num_envs, WIDTH), np.float32),
                rng.random((num_envs, 2), np.float32),
                np.ones(num_envs, np.int64),
                np.ones(num_envs, np.bool_),
            ),
            np.zeros(num_envs, np.int64),
            rng.random(num_envs, np.float32),
            np.full(num_envs, 0.9, np.float32),
        )
        for _ in range(capacity // num_envs + 1):
            self.add()

    def add(self) -> None:
        self._replay.add(*self._given)

    def draw(self, level: np.ndarray) -> np.ndarray:
        return self._replay.draw(level, 0.0, 0.4).slot

    def update(self, slot: np.ndarray, error: np.ndarray) -> None:
        self._replay.set_errors(slot, error)


class _Theirs:
    """cpprb's, with the same fields."""

    def __init__(self, capacity: int, num_envs: int) -> None:
        import cpprb

        fields = {"obs": {"shape": WIDTH}, "next_obs": {"shape": WIDTH}, "act": {}, "rew": {}, "discount": {}}
        self._buffer = cpprb.PrioritizedReplayBuffer(capacity, fields, alpha=0.6)
        rng = np.random.default_rng(1)
        self._given = {
            "obs": rng.random((num_envs, WIDTH), np.float32),
            "next_obs": rng.random((num_envs, WIDTH), np.float32),
            "act": np.zeros(num_envs),
            "rew": rng.random(num_envs),
            "discount": np.full(num_envs, 0.9),
        }
        for _ in range(capacity // num_envs + 1):
            self.add()

    def add(self) -> None:
        self._buffer.add(**self._given)

    def draw(self, level: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._buffer.sample(len(level), 0.4)["indexes"]
        return found

    def update(self, slot: np.ndarray, error: np.ndarray) -> None:
        self._buffer.update_priorities(slot, error)
