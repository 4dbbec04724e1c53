"""The parameters of PPO. Loads no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.policies.checkpoint import Architecture
from weft.tables import (
    FLAG,
    MOST_AT_ONCE,
    MOST_SAMPLES,
    MOST_UPDATES,
    POSITIVE,
    Rule,
    check,
    checked,
    number,
    one_of,
    whole,
)
from weft.training.environment import BatchEnv


@dataclass(frozen=True)
class PPOConfig:
    """Parameters of PPO; the defaults are the tuned ones."""

    samples: int = checked(3_000_000, whole(1, MOST_SAMPLES))
    """Decisions to learn from, rounded up to whole batches; imitation comes on top."""
    num_envs: int = checked(100, whole(1, MOST_AT_ONCE))
    """Environments that are stepped together."""
    num_steps: int = checked(200, whole(1, MOST_AT_ONCE))
    """Steps of every environment per update: the batch has num_envs x num_steps decisions."""
    minibatch: int = checked(1000, whole(1, MOST_UPDATES))
    """Decisions per gradient step."""
    passes: int = checked(4, whole(1, 1000))
    """How often an update goes through its batch."""
    learning_rate: float = checked(2.5e-3, POSITIVE)
    """Step size of Adam at the start."""
    decay: str = checked("linear", one_of("linear", "constant"))
    """``linear`` over the updates, or ``constant``."""
    decay_end: float = checked(0.0, number(0, 1))
    """Share of the learning rate that is left at the end if ``linear``."""
    kl_limit: float | None = checked(None, POSITIVE.or_none())
    """An update ends after the pass in which the KL divergence exceeds this; None: never early."""
    gamma: float = checked(0.995, number(0, 1))
    """Discount per decision, or per ``time_unit``."""
    time_unit: float | None = checked(None, POSITIVE.or_none())
    """Discount by elapsed time: gamma ** (elapsed / time_unit); None discounts by decisions."""
    gae_lambda: float = checked(0.97, number(0, 1))
    """Weight of longer returns in the advantage; 1 takes whole returns."""
    clip: float = checked(0.2, POSITIVE)
    """How far the ratio of new to old probability may leave 1 before it stops paying."""
    kl_coefficient: float = checked(0.0, number(0))
    """Weight of the KL penalty at the start, adapted after every update; 0 is no penalty."""
    kl_target: float = checked(0.01, POSITIVE)
    """KL divergence per update that the penalty aims at."""
    entropy_coefficient: float = checked(0.0, number(0))
    """Bonus on the entropy of the choices."""
    value_coefficient: float = checked(1.0, number(0))
    """Weight of the value loss."""
    value_limit: float | None = checked(None, POSITIVE.or_none())
    """Squared errors of the value beyond this have no gradient; None for no limit."""
    gradient_clip: float | None = checked(0.5, POSITIVE.or_none())
    """Greatest length of the gradient; None for no limit."""
    is_standardised: bool = checked(True, FLAG)
    """Whether advantages are standardised over the batch."""
    hidden: tuple[int, ...] = checked(
        (64, 64), Rule("a list of widths", lambda x: isinstance(x, tuple | list))
    )
    """Widths of the hidden layers."""
    activation: str = "tanh"
    """``tanh`` or ``relu``."""
    critic: str = checked("separate", one_of("separate", "shared"))
    """``separate`` net for the value, or ``shared`` layers."""
    is_autoregressive: bool = checked(False, FLAG)
    """Whether a head knows the choices of the heads before it."""
    imitation_updates: int = checked(0, whole(0, MOST_UPDATES))
    """Updates that clone a rule before PPO begins."""
    imitation_rate: float = checked(1e-3, POSITIVE)
    """Step size of Adam while cloning."""

    def __post_init__(self) -> None:
        check(self)
        Architecture(1, 1, 1, self.hidden, self.activation)

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


TUNED = PPOConfig()
