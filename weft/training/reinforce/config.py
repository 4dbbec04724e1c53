"""The parameters of the policy gradient. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass

from weft.tables import MOST_AT_ONCE, MOST_UPDATES, POSITIVE, check, checked, number, one_of, whole


@dataclass(frozen=True)
class PickConfig:
    """Parameters of a net that picks tasks and of its learner."""

    style: str = checked("decima", one_of("decima", "lachesis"))
    """Which features the net sees and how it sums up tasks and jobs."""
    hidden: int = checked(16, whole(1, 1024))
    """Width of every embedding."""
    updates: int = checked(300, whole(1, MOST_UPDATES))
    """How often episodes are played and learned from."""
    problems: int = checked(2, whole(1, MOST_AT_ONCE))
    """Streams per update, or single problems."""
    rollouts: int = checked(8, whole(2, MOST_AT_ONCE))
    """Episodes of each, alike in all that is not decided; their mean is the baseline."""
    reward: str = checked("jct", one_of("jct", "makespan"))
    """``jct``: minus the time that jobs spend in the system; ``makespan``: minus the time until all is done."""
    gamma: float = checked(0.98, number(0, 1))
    """Discount per mean run time."""
    passes: int = checked(1, whole(1, 1000))
    """Gradient steps per update; with more than one, ratios of probabilities are clipped."""
    clip: float = checked(0.2, POSITIVE)
    """How far the ratio of new to old probability may leave 1 before it stops paying."""
    learning_rate: float = checked(2e-3, POSITIVE)
    """Step size of Adam at the start."""
    decay: str = checked("linear", one_of("linear", "constant"))
    """``linear`` to 0 over the updates, or ``constant``."""
    entropy_coefficient: float = checked(0.01, number(0))
    """Bonus on the entropy of the choices at the start; it falls to 0 linearly."""
    gradient_clip: float | None = checked(1.0, POSITIVE.or_none())
    """Greatest length of the gradient; None for no limit."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def num_updates(self) -> int:
        """Updates in all."""
        return self.updates

    @property
    def batch(self) -> int:
        """Episodes per update."""
        return self.problems * self.rollouts
