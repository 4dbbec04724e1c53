"""What every environment of learners owes; see :class:`weft.training.environment.BatchEnv`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple

import numpy as np

from weft.testing.planners import ensure
from weft.training.environment import Bools, E, Floats32, Ints, joint_reward


class _Seen(NamedTuple):
    """What one step showed, as copies."""

    observation: Floats32
    mask: Bools
    reward: Floats32
    done: Bools
    elapsed: Floats32


def check_environment(
    make: Callable[[], E], *, steps: int = 300, job_time: Callable[[E, int], float] | None = None
) -> None:
    """Hold an environment of learners against what each of them owes.

    The same seed gives the same bytes; masks leave every head a choice; time does not run backwards;
    going back to a snapshot repeats what came after it.

    Parameters
    ----------
    make
        Makes the environment, the same every time.
    job_time
        Total time of the jobs of the episode that an environment has just ended, if rewards are to sum to minus it.
    """
    one, other = _Player(make()), _Player(make())
    for k in range(steps):
        _ensure_same(one.step(), other.step(), f"two of one seed differ after {k + 1} steps")
    kept = one.env.snapshot()
    turn = one.turn
    first = [one.step() for _ in range(20)]
    one.env.restore(kept)
    one.turn = turn
    for k, seen in enumerate(first):
        _ensure_same(seen, one.step(), f"a restored one differs after {k + 1} steps")
    if job_time is not None:
        _check_job_time(_Player(make()), job_time, steps)


class _Player(Generic[E]):
    """An environment and drawn choices; the same turn makes the same choice."""

    def __init__(self, env: E) -> None:
        self.env, self.turn = env, 0
        env.reset(0)

    def step(self) -> _Seen:
        """One step of allowed choices, each as likely."""
        env = self.env
        self.turn += 1
        reward, done = env.step(self._choices())
        shape = (env.num_envs,) if env.num_agents == 1 else (env.num_envs, env.num_agents)
        ensure(reward.shape == shape, f"rewards have shape {reward.shape}, expected {shape}")
        ensure(bool((env.elapsed >= 0).all()), "time runs backwards")
        ensure(bool(np.isfinite(env.observation).all()), "an observation is not finite")
        ensure(bool(np.isfinite(reward).all()), "a reward is not finite")
        return _Seen(env.observation.copy(), env.mask.copy(), reward.copy(), done.copy(), env.elapsed.copy())

    def _choices(self) -> Ints:
        env, mask = self.env, self.env.mask.copy()
        ensure(bool(mask.any(axis=2).all()), "a mask leaves some head no choice")
        weight = np.random.default_rng(self.turn).random(mask.shape)
        chosen = np.zeros(mask.shape[:2], np.int64)
        for head in range(env.num_heads):
            chosen[:, head] = np.where(mask[:, head], weight[:, head], -1.0).argmax(axis=1)
            if env.narrow is not None:
                env.narrow(mask, head, chosen[:, head])
        return chosen


def _ensure_same(one: _Seen, other: _Seen, what: str) -> None:
    for name, mine, theirs in zip(one._fields, one, other, strict=True):
        ensure(mine.tobytes() == theirs.tobytes(), f"{what}: {name}")


def _check_job_time(player: _Player[E], job_time: Callable[[E, int], float], steps: int) -> None:
    """Rewards of whole episodes sum to minus the time of their jobs."""
    total = np.zeros(player.env.num_envs)
    num_ended = 0
    for _ in range(100 * steps):
        seen = player.step()
        total += joint_reward(seen.reward)
        for e in np.flatnonzero(seen.done).tolist():
            wanted = -job_time(player.env, e)
            ensure(
                bool(np.isclose(total[e], wanted, rtol=1e-4)), f"rewards sum to {total[e]}, expected {wanted}"
            )
            total[e] = 0.0
            num_ended += 1
        if num_ended >= player.env.num_envs:
            return
    ensure(False, f"no episode ends within {100 * steps} steps")
