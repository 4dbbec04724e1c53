"""The parameters of multi-agent PPO and of the net it trains. Loads no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.policies.han.architecture import (
    CRITICS,
    ENCODERS,
    MASKS,
    POINTERS,
    UNITS,
    HanArchitecture,
)
from weft.tables import (
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

_TARGETS = Rule(
    "a list of whole numbers per type of task",
    lambda x: (
        isinstance(x, tuple | list)
        and all(isinstance(row, tuple | list) and all(type(u) is int and u >= 0 for u in row) for row in x)
    ),
)


@dataclass(frozen=True)
class MappoConfig:
    """Parameters of multi-agent PPO; the defaults are the tuned ones."""

    samples: int = checked(1_000_000, whole(1, MOST_SAMPLES))
    """States of whole systems to learn from, rounded up to whole batches; imitation comes on top."""
    num_envs: int = checked(64, whole(1, MOST_AT_ONCE))
    """Environments that are stepped together."""
    num_steps: int = checked(40, whole(1, MOST_AT_ONCE))
    """Steps of every environment per update."""
    minibatch: int = checked(640, whole(1, MOST_UPDATES))
    """States per gradient step."""
    passes: int = checked(3, whole(1, 1000))
    """How often an update goes through its batch."""
    learning_rate: float = checked(1e-3, POSITIVE)
    """Step size of Adam at the start."""
    final_rate: float = checked(1e-4, POSITIVE)
    """Step size at the end; it falls linearly."""
    gamma: float = checked(0.95, number(0, 1))
    """Discount per step of world time; steps in which no time passes are not discounted."""
    gae_lambda: float = checked(0.95, number(0, 1))
    """Weight of longer returns in the advantage, per step of world time too."""
    clip: float = checked(0.2, POSITIVE)
    """How far the ratio of new to old probability may leave 1 before it stops paying."""
    entropy_coefficient: float = checked(0.006, number(0))
    """Bonus on the entropy of picks and units at the start."""
    final_entropy: float = checked(0.0, number(0))
    """The same at the end; it falls linearly."""
    value_coefficient: float = checked(0.5, number(0))
    """Weight of the value loss."""
    gradient_clip: float | None = checked(0.5, POSITIVE.or_none())
    """Greatest length of the gradient; None for no limit."""
    team: float = checked(0.5, number(0, 1))
    """Share of the reward that counts tasks alive in the whole system; the rest counts those at the own cluster."""
    reward_unit: float = checked(60.0, POSITIVE)
    """Rewards are divided by this."""
    penalty: float = checked(1.0, number(0))
    """Taken from an agent's reward for units that do not fit; only where masks are off."""
    hidden: int = checked(32, whole(1))
    """Width of every embedding."""
    heads: int = checked(4, whole(1))
    """Heads of attention."""
    layers: int = checked(2, whole(1))
    """Layers of graph attention."""
    transformer: int = checked(0, whole(0))
    """Transformer layers before the pointer."""
    encoder: str = checked("han", one_of(*ENCODERS))
    """``han``, or ``mlp`` without messages."""
    pointer: str = checked("pointer", one_of(*POINTERS))
    """How a task is picked: ``pointer``, ``uniform`` or ``fifo``."""
    units: str = checked("factorised", one_of(*UNITS))
    """One choice of units per resource, or ``joint`` over all combinations."""
    critic: str = checked("agent", one_of(*CRITICS))
    """A value per ``agent``, or a ``central`` one."""
    masks: str = checked("box", one_of(*MASKS))
    """``box``: only units that fit can be chosen; ``penalty``: others are void, at a cost."""
    imitation_updates: int = checked(0, whole(0, MOST_UPDATES))
    """Updates that learn fixed units per type of task before PPO begins."""
    imitation_units: tuple[tuple[int, ...], ...] = checked((), _TARGETS)
    """Units of every resource per type that are imitated, or as many as are free; none: those of ``static-k``."""
    imitation_rate: float = checked(1e-3, POSITIVE)
    """Step size of Adam while imitating."""

    def __post_init__(self) -> None:
        check(self)
        HanArchitecture(1, 1, 1, "1", self.hidden, self.heads, self.layers, self.transformer)

    @property
    def batch(self) -> int:
        """States per update."""
        return self.num_envs * self.num_steps

    @property
    def num_updates(self) -> int:
        """Updates in all, imitation included."""
        return self.imitation_updates + math.ceil(self.samples / self.batch)

    def architecture(self, widths: tuple[int, int, int], grid: tuple[int, ...]) -> HanArchitecture:
        """The net for features of clusters, waiting and running tasks this wide, and this many units."""
        return HanArchitecture(
            *widths,
            "x".join(str(most) for most in grid),
            self.hidden,
            self.heads,
            self.layers,
            self.transformer,
            self.encoder,
            self.pointer,
            self.units,
            self.critic,
            self.masks,
        )

    def left(self, update: int) -> float:
        """Share of the updates after imitation that are still to do."""
        count = self.num_updates - self.imitation_updates
        return min(1.0, (self.num_updates - update) / count)

    def falling(self, start: float, end: float, update: int) -> float:
        """A value that falls linearly from the first update after imitation to the last."""
        return end + (start - end) * self.left(update)
