"""Randomness inside kernels: splitmix64 on an explicit state of one word."""

from __future__ import annotations

import numpy as np

from weft.sim.jit import lean_inlined as inlined

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)


def new_state(*key: int) -> np.ndarray:
    """A generator state that is a function of the key alone."""
    words = np.random.SeedSequence([int(k) & 0xFFFFFFFF for k in key]).generate_state(1, np.uint64)
    return np.array(words)


@inlined
def uniform(state: np.ndarray) -> float:
    """Next number in [0, 1)."""
    state[0] += GOLDEN
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inlined
def below(state: np.ndarray, n: int) -> int:
    """Next whole number in [0, n)."""
    return min(np.int64(uniform(state) * n), n - 1)


@inlined
def normal(state: np.ndarray) -> float:
    """Next standard normal number (Box-Muller, one of the pair)."""
    radius = np.sqrt(-2.0 * np.log(1.0 - uniform(state)))
    return radius * np.cos(2.0 * np.pi * uniform(state))


@inlined
def _mix(x: np.uint64) -> np.uint64:
    x = x + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return x ^ (x >> np.uint64(31))


@inlined
def keyed_uniform(seed: int, stream: int, job: int, task: int, part: int, attempt: int) -> float:
    """The same draw as the model's ``keyed_uniform`` of these six numbers."""
    state = GOLDEN
    state = _mix(state ^ _mix(np.uint64(seed)))
    state = _mix(state ^ _mix(np.uint64(stream)))
    state = _mix(state ^ _mix(np.uint64(job)))
    state = _mix(state ^ _mix(np.uint64(task)))
    state = _mix(state ^ _mix(np.uint64(part)))
    state = _mix(state ^ _mix(np.uint64(attempt)))
    return np.float64(state >> np.uint64(11)) * (1.0 / 9007199254740992.0)
