"""The parameters of the one-shot learner. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.errors import InputError
from weft.policies.oneshot.encoder_shape import DEFAULT_HEADS, EncoderShape
from weft.policies.oneshot.features import FEATURES, PAIR_FEATURES
from weft.tables import (
    FLAG,
    MOST_AT_ONCE,
    MOST_UPDATES,
    POSITIVE,
    Rule,
    check,
    checked,
    is_number,
    number,
    one_of,
    whole,
)

MODES = ("paper", "conflict", "label")


@dataclass(frozen=True)
class SampleConfig:
    """Parameters of the one-shot learner; the defaults are the tuned ones."""

    updates: int = checked(4000, whole(1, MOST_UPDATES))
    """Gradient steps."""
    groups: int = checked(4, whole(1, MOST_AT_ONCE))
    """Groups per update; the problems of a group have one size."""
    graphs: int = checked(8, whole(1, MOST_AT_ONCE))
    """Problems per group."""
    samples: int = checked(64, whole(2, MOST_AT_ONCE))
    """Schedules drawn per problem, shared by the lists; at least two for each."""
    reuse: int = checked(1, whole(1, MOST_UPDATES))
    """Updates that share their problems, each with draws of its own."""
    mode: str = checked("conflict", one_of(*MODES))
    """``paper``: Plackett-Luce over all tasks; ``conflict``: softmax over those that compete at each
    start; ``label``: as conflict, but only the best schedule counts, as if it were the truth."""
    is_standardised: bool = checked(True, FLAG)
    """Whether costs are divided by their deviation, per problem."""
    least_deviation: float = checked(0.1, POSITIVE)
    """Costs that vary less than this are divided by this."""
    logit_norm: float = checked(0.001, number(0))
    """Weight of the mean squared logit."""
    label_weight: float = checked(0.0, number(0))
    """Weight of the best schedule's likelihood beside the gradient of the mode."""
    learning_rate: float = checked(5e-4, POSITIVE)
    """Step size of Adam at the start."""
    decay: str = checked("linear", one_of("linear", "constant"))
    """``linear`` to 0 over the updates, or ``constant``."""
    gradient_clip: float = checked(1.0, POSITIVE)
    """Greatest length of the gradient."""
    spread: float = checked(0.1, number(0))
    """Noise on the bias of a device class, in mean run times."""
    sharpness: tuple[float, ...] = checked((1.0,), POSITIVE.several("a list of numbers > 0"))
    """Factors on the logits when the trained net plans, in turn: draws closer to the scores, or wider."""
    width: int = 80
    """Width of the encoder."""
    layers: int = 3
    """Layers of the encoder."""
    hidden: int = 160
    """Width between attentions."""
    heads: tuple[str, ...] = checked(
        DEFAULT_HEADS, Rule("a list of relations", lambda x: isinstance(x, tuple | list))
    )
    """The relation of every attention head."""
    types: int = 0
    """Resources distinguished by a one-hot column; 0: by the relation alone."""
    prior: tuple[Mapping[str, float], ...] = ()
    """Per list, weights of features in the logit at the start, 0 where none is given; of no use with other
    weights to begin with, and so is ``hold_start``."""
    hold_start: tuple[float, ...] = (-3.0,)
    """Per list, the log-odds of holding at the start; as many lists as numbers."""
    only_winner: bool = checked(False, FLAG)
    """Whether of several lists only those with the best draw of a problem learn from it."""
    every: int = checked(100, whole(1))
    """Updates between checkpoints, each with a validation."""
    validation: int = checked(32, whole(1, MOST_AT_ONCE))
    """Problems of the validation."""

    def __post_init__(self) -> None:
        self._read_lists()
        check(self)
        _ = self.shape

    def _read_lists(self) -> None:
        """Take one number and one table for lists of one."""
        start = self.hold_start if isinstance(self.hold_start, list | tuple) else (self.hold_start,)
        prior = (self.prior,) if isinstance(self.prior, Mapping) else self.prior
        number().several("a number per list").refuse(start, "hold_start")
        object.__setattr__(self, "hold_start", tuple(start))
        is_fine = isinstance(prior, list | tuple) and len(prior) in (0, len(start))
        if not is_fine or any(not isinstance(table, Mapping) for table in prior):
            raise InputError(f"expected a table of features for each of {len(start)} lists", field="prior")
        for table in prior:
            for name, value in table.items():
                if name not in FEATURES or not is_number(value):
                    raise InputError(f"expected a feature and a number, got {value!r}", field=f"prior.{name}")
        object.__setattr__(self, "prior", tuple(dict(table) for table in prior))

    @property
    def shape(self) -> EncoderShape:
        """The net."""
        return EncoderShape(
            len(FEATURES),
            len(PAIR_FEATURES),
            width=self.width,
            layers=self.layers,
            hidden=self.hidden,
            heads=self.heads,
            num_lists=len(self.hold_start),
            num_types=self.types,
        )

    @property
    def num_updates(self) -> int:
        """Updates in all."""
        return self.updates

    @property
    def batch(self) -> int:
        """Schedules per update."""
        return self.groups * self.graphs * self.samples
