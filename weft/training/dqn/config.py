"""The parameters of DQN. Loads no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.errors import InputError
from weft.tables import (
    FLAG,
    MOST_AT_ONCE,
    MOST_SAMPLES,
    POSITIVE,
    Rule,
    check,
    checked,
    number,
    one_of,
    whole,
)

LINEAR, EXPONENTIAL, LADDER = EXPLORATIONS = ("linear", "exponential", "ladder")
"""How the probability of an explored choice is set: it falls with time, or every environment has its own."""
AUTO, GREATEST, ERROR = FIRST_PRIORITIES = ("auto", "greatest", "error")
"""By what a decision is drawn that was never learned from."""
NET, TARGET = POLICIES = ("net", "target")
"""Whose weights are judged and kept."""
_SHARE = number(0, 1)


@dataclass(frozen=True)
class DQNConfig:
    """Parameters of DQN."""

    samples: int = checked(1_000_000, whole(1, MOST_SAMPLES))
    """Decisions to collect, rounded up to whole updates."""
    num_envs: int = checked(32, whole(1, MOST_AT_ONCE))
    """Environments that are stepped together."""
    num_steps: int = checked(64, whole(1, MOST_AT_ONCE))
    """Steps of every environment per update, which is a row of the metrics."""
    warmup: int = checked(10_000, whole(0, MOST_SAMPLES))
    """Decisions that are collected before learning begins."""
    replay: int = checked(131_072, whole(1, 10**9))
    """Decisions that are kept to learn from."""
    replay_candidates: int = checked(32, whole(1, MOST_AT_ONCE))
    """Candidates per kept decision for which there is room; where states have more, fewer are kept."""
    is_half: bool = checked(True, FLAG)
    """Whether features are kept in 16 bits instead of 32."""
    minibatch: int = checked(256, whole(1, MOST_AT_ONCE))
    """Decisions per gradient step."""
    replay_ratio: float = checked(4.0, number(0))
    """Decisions that are drawn to learn from per decision that is collected."""
    learning_rate: float = checked(5e-4, POSITIVE)
    """Step size of Adam at the start."""
    decay: str = checked("linear", one_of("linear", "constant"))
    """``linear`` to 0 over the updates, or ``constant``."""
    gradient_clip: float | None = checked(10.0, POSITIVE.or_none())
    """Greatest length of the gradient; None for no limit."""
    huber: float = checked(1.0, POSITIVE)
    """Errors count squared up to this size and linearly beyond it."""
    gamma: float = checked(0.98, _SHARE)
    """Discount per decision, or per ``time_unit``."""
    time_unit: float | None = checked(None, POSITIVE.or_none())
    """Discount by elapsed time: gamma ** (elapsed / time_unit); None discounts by decisions."""
    reward_scale: float = checked(1.0, POSITIVE)
    """What rewards are multiplied by before they are learned from: differences between choices must be large against a step of Adam."""
    return_steps: int = checked(3, whole(1, MOST_AT_ONCE))
    """Decisions whose rewards are counted before the rest is estimated."""
    target_every: int = checked(500, whole(1, MOST_SAMPLES))
    """Gradient steps from one update of the target net to the next."""
    target_rate: float = checked(1.0, Rule("a number > 0 and <= 1", lambda x: POSITIVE.fits(x) and x <= 1))
    """How far the target net then moves towards the net; 1 copies it."""
    policy: str = checked(NET, one_of(*POLICIES))
    """Whose weights are judged and kept: those of the ``net``, or of the ``target`` net, which with a small
    ``target_rate`` is a running mean of it and changes less from one judgement to the next."""
    alpha: float = checked(0.6, _SHARE)
    """Decisions are drawn in proportion to their error to this power; 0 draws all equally often."""
    beta: float = checked(0.4, _SHARE)
    """Power of the importance weights at the start; it grows to 1 over the updates."""
    priority_epsilon: float = checked(1e-3, POSITIVE)
    """Is added to every error, so that all decisions are drawn now and then."""
    first_priority: str = checked(AUTO, one_of(*FIRST_PRIORITIES))
    """A new decision is drawn by the ``greatest`` error so far, or by the ``error`` of the net that made it, which several
    actors need, lest all that is new counts the same; ``auto``: by ``error`` where there are several actors."""
    uniform_share: float = checked(0.1, _SHARE)
    """Share of every batch that is drawn uniformly."""
    exploration: str = checked(LADDER, one_of(*EXPLORATIONS))
    """``linear``, ``exponential``: all environments explore less and less; ``ladder``: each explores at a rate of its own."""
    epsilon: float = checked(0.4, _SHARE)
    """Probability of an explored choice: of the first environment of a ladder, or at the start."""
    epsilon_end: float = checked(0.02, _SHARE)
    """What it falls to if ``linear`` or ``exponential``."""
    epsilon_share: float = checked(0.5, Rule("a number > 0 and <= 1", lambda x: POSITIVE.fits(x) and x <= 1))
    """Share of all decisions over which it falls if ``linear``."""
    epsilon_decisions: float = checked(1000.0, POSITIVE)
    """Decisions in which what is above ``epsilon_end`` falls by a factor of e if ``exponential``."""
    ladder: float = checked(7.0, number(0))
    """Environment i of N explores with probability epsilon ** (1 + ladder x i / (N - 1))."""
    wait_share: float = checked(0.1, _SHARE)
    """Share of explored choices that wait, where waiting is one of several choices."""
    base_margin: float = checked(0.1, number(0))
    """By how much the choice of the base rule is valued above all others at the start, where it is marked."""
    base_share: float = checked(0.5, _SHARE)
    """Share of choices during warm-up, explored ones left out, that the base rule makes, where it is marked."""
    rollouts: int = checked(0, whole(0, MOST_SAMPLES))
    """Moments of the base rule, before all else, from which values are learned by playing every choice; 0: none."""
    rollout_every: int = checked(4, whole(1, MOST_AT_ONCE))
    """Decisions of an environment from one such moment to the next."""
    rollout_horizon: float = checked(12.0, POSITIVE)
    """Mean run times for which choices are played; what follows is estimated."""
    rollout_epochs: int = checked(8, whole(1, MOST_AT_ONCE))
    """Passes over these moments."""
    rollout_rate: float = checked(2e-3, POSITIVE)
    """Step size of Adam in the first of them; it falls to 0."""
    hidden: tuple[int, ...] = checked((48,), whole(1).several("a list of widths"))
    """Width of the embeddings: one number."""

    def __post_init__(self) -> None:
        check(self)
        if self.minibatch > self.replay:
            raise InputError(
                f"expected at most replay = {self.replay}, got {self.minibatch}", field="minibatch"
            )

    @property
    def batch(self) -> int:
        """Decisions per update."""
        return self.num_envs * self.num_steps

    @property
    def num_updates(self) -> int:
        """Updates in all."""
        return math.ceil(self.samples / self.batch)

    def knows_errors(self, num_actors: int) -> bool:
        """Whether so many actors tell how large the errors of their decisions are."""
        return self.first_priority == ERROR or (self.first_priority == AUTO and num_actors > 1)

    def refuse_idle(self, num_actors: int = 1) -> None:
        """Refuse a run that would end before it learns anything; each of the actors has ``num_envs`` environments."""
        found = self.num_updates * self.batch
        if found <= self.warmup:
            raise InputError(
                f"expected more than warmup = {self.warmup}, or nothing is learned, got {self.samples}",
                field="samples",
            )
        least = num_actors * self.num_envs * (self.return_steps + 1)
        if found < least:
            raise InputError(
                f"expected at least {least}, for {num_actors} x {self.num_envs} environments return_steps + 1 = "
                f"{self.return_steps + 1} decisions each, or nothing is learned, got {self.samples}",
                field="samples",
            )
        owed = (found - self.warmup) * self.replay_ratio
        if 0.0 < owed < self.minibatch:
            raise InputError(
                f"expected at most {owed:.0f}, what is learned from after warmup, or nothing is, got {self.minibatch}",
                field="minibatch",
            )
