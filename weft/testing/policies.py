"""What every policy owes: it takes only what is allowed, and one observation means one choice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.policies.learned import Policy
from weft.testing.planners import ensure
from weft.training.environment import BatchEnv, Bools, Ints


def check_policy(policy: Policy, make: Callable[[], BatchEnv], *, steps: int = 60) -> None:
    """Hold a policy against what every one owes, in environments that it can act in.

    Its choices are allowed, drawn or not; the same observation gives the same choice, alone as among
    others; equal draws give equal choices.
    """
    env = make()
    env.reset(1)
    for k in range(steps):
        observation, mask = env.observation.copy(), env.mask.copy()
        chosen = policy.decide_batch(env.observation, env.mask, None, env.narrow)
        ensure(mask.tobytes() == env.mask.tobytes(), "the policy changes the mask")
        _ensure_allowed(env, chosen)
        again = policy.decide_batch(observation, mask, None, env.narrow)
        ensure(again.tolist() == chosen.tolist(), "the same observations give other choices")
        if env.narrow is None:
            alone = policy.decide_batch(observation[:1], mask[:1])
            ensure(alone.tolist() == chosen[:1].tolist(), "an observation alone gives another choice")
        drawn = [
            policy.decide_batch(observation, mask, np.random.default_rng(k), env.narrow) for _ in range(2)
        ]
        _ensure_allowed(env, drawn[0])
        ensure(drawn[0].tolist() == drawn[1].tolist(), "equal draws give other choices")
        env.step(drawn[0])


def _ensure_allowed(env: BatchEnv, chosen: Ints) -> None:
    shape = (env.num_envs, env.num_heads)
    ensure(chosen.shape == shape, f"choices have shape {chosen.shape}, expected {shape}")
    mask: Bools = env.mask.copy()
    for head in range(env.num_heads):
        allowed = np.take_along_axis(mask[:, head], chosen[:, head, None], 1)
        ensure(bool(allowed.all()), f"the policy chose for head {head} what the mask rules out")
        if env.narrow is not None:
            env.narrow(mask, head, chosen[:, head])
