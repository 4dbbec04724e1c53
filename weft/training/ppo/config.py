"""The parameters of PPO: the tuned ones and those of the paper. Loads no torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.errors import InputError
from weft.policies.checkpoint import Architecture
from weft.training.environment import BatchEnv


@dataclass(frozen=True)
class PPOConfig:
    """Parameters of PPO; the defaults are the tuned ones."""

    samples: int = 3_000_000
    """Decisions to learn from, rounded up to whole batches; imitation comes on top."""
    num_envs: int = 100
    """Environments that are stepped together."""
    num_steps: int = 200
    """Steps of every environment per update: the batch has num_envs x num_steps decisions."""
    minibatch: int = 1000
    """Decisions per gradient step."""
    passes: int = 4
    """How often an update goes through its batch."""
    learning_rate: float = 2.5e-3
    """Step size of Adam at the start."""
    decay: str = "linear"
    """``linear`` to 0 over the updates, or ``constant``."""
    gamma: float = 0.995
    """Discount per decision, or per ``time_unit``."""
    time_unit: float | None = None
    """Discount by elapsed time: gamma ** (elapsed / time_unit); None discounts by decisions."""
    gae_lambda: float = 0.97
    """Weight of longer returns in the advantage; 1 takes whole returns."""
    clip: float = 0.2
    """How far the ratio of new to old probability may leave 1 before it stops paying."""
    kl_coefficient: float = 0.0
    """Weight of the KL penalty at the start, adapted after every update; 0 is no penalty."""
    kl_target: float = 0.01
    """KL divergence per update that the penalty aims at."""
    entropy_coefficient: float = 0.0
    """Bonus on the entropy of the choices."""
    value_coefficient: float = 1.0
    """Weight of the value loss."""
    value_limit: float | None = None
    """Squared errors of the value beyond this have no gradient; None for no limit."""
    gradient_clip: float | None = 0.5
    """Greatest length of the gradient; None for no limit."""
    is_standardised: bool = True
    """Whether advantages are standardised over the batch."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers."""
    activation: str = "tanh"
    """``tanh`` or ``relu``."""
    critic: str = "separate"
    """``separate`` net for the value, or ``shared`` layers."""
    is_autoregressive: bool = False
    """Whether a head knows the choices of the heads before it."""
    imitation_updates: int = 0
    """Updates that clone a rule before PPO begins."""
    imitation_rate: float = 1e-3
    """Step size of Adam while cloning."""

    def __post_init__(self) -> None:
        for name in ("samples", "num_envs", "num_steps", "minibatch", "passes"):
            self._expect(name, "a whole number >= 1", lambda x: type(x) is int and x >= 1)
        self._expect("imitation_updates", "a whole number >= 0", lambda x: type(x) is int and x >= 0)
        for name in ("learning_rate", "kl_target", "imitation_rate", "clip"):
            self._expect(name, "a number > 0", lambda x: _is_number(x) and x > 0)
        for name in ("time_unit", "value_limit", "gradient_clip"):
            self._expect(name, "a number > 0 or none", lambda x: x is None or (_is_number(x) and x > 0))
        for name in ("gamma", "gae_lambda"):
            self._expect(name, "a number from 0 to 1", lambda x: _is_number(x) and 0 <= x <= 1)
        for name in ("kl_coefficient", "entropy_coefficient", "value_coefficient"):
            self._expect(name, "a number >= 0", lambda x: _is_number(x) and x >= 0)
        for name in ("is_standardised", "is_autoregressive"):
            self._expect(name, "true or false", lambda x: type(x) is bool)
        self._expect("decay", "linear or constant", lambda x: x in ("linear", "constant"))
        self._expect("critic", "separate or shared", lambda x: x in ("separate", "shared"))
        self._expect("hidden", "a list of widths", lambda x: isinstance(x, list | tuple))
        object.__setattr__(self, "hidden", tuple(self.hidden))
        Architecture(1, 1, 1, self.hidden, self.activation)

    def _expect(self, name: str, expected: str, is_right: Callable[[Any], bool]) -> None:
        value = getattr(self, name)
        if not is_right(value):
            raise InputError(f"expected {expected}, got {value!r}", field=name)

    @property
    def batch(self) -> int:
        """Decisions per update."""
        return self.num_envs * self.num_steps

    @property
    def num_updates(self) -> int:
        """Updates in all, imitation included."""
        return self.imitation_updates + math.ceil(self.samples / self.batch)

    def architecture(self, env: BatchEnv) -> Architecture:
        """The nets for this environment."""
        return Architecture(
            env.num_features,
            env.num_heads,
            env.num_choices,
            self.hidden,
            self.activation,
            self.is_autoregressive,
            self.critic,
        )


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


TUNED = PPOConfig()

PAPER = PPOConfig(
    samples=5_000_000,
    num_envs=200,
    num_steps=400,
    minibatch=1000,
    passes=5,
    learning_rate=0.005,
    decay="constant",
    gamma=0.99,
    gae_lambda=1.0,
    clip=0.3,
    kl_coefficient=0.2,
    value_limit=10.0,
    gradient_clip=None,
)
"""Debner, Krahn and Hirvisalo's settings, with the defaults of the library they used."""
