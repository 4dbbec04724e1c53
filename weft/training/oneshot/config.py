"""The parameters of the one-shot learner. Loads no torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.errors import InputError
from weft.policies.oneshot.encoder_shape import DEFAULT_HEADS, EncoderShape
from weft.policies.oneshot.features import FEATURES, PAIR_FEATURES

MODES = ("paper", "conflict", "label")


@dataclass(frozen=True)
class SampleConfig:
    """Parameters of the one-shot learner; the defaults are the tuned ones."""

    updates: int = 4000
    """Gradient steps."""
    groups: int = 4
    """Groups per update; the problems of a group have one size."""
    graphs: int = 8
    """Problems per group."""
    samples: int = 64
    """Schedules drawn per problem, shared by the lists; at least two for each."""
    reuse: int = 1
    """Updates that share their problems, each with draws of its own."""
    mode: str = "conflict"
    """``paper``: Plackett-Luce over all tasks; ``conflict``: softmax over those that compete at each
    start; ``label``: as conflict, but only the best schedule counts, as if it were the truth."""
    is_standardised: bool = True
    """Whether costs are divided by their deviation, per problem."""
    least_deviation: float = 0.1
    """Costs that vary less than this are divided by this."""
    logit_norm: float = 0.001
    """Weight of the mean squared logit."""
    label_weight: float = 0.0
    """Weight of the best schedule's likelihood beside the gradient of the mode."""
    learning_rate: float = 5e-4
    """Step size of Adam at the start."""
    decay: str = "linear"
    """``linear`` to 0 over the updates, or ``constant``."""
    gradient_clip: float = 1.0
    """Greatest length of the gradient."""
    spread: float = 0.1
    """Noise on the bias of a device class, in mean run times."""
    sharpness: tuple[float, ...] = (1.0,)
    """Factors on the logits when the trained net plans, in turn: draws closer to the scores, or wider."""
    width: int = 80
    """Width of the encoder."""
    layers: int = 3
    """Layers of the encoder."""
    hidden: int = 160
    """Width between attentions."""
    heads: tuple[str, ...] = DEFAULT_HEADS
    """The relation of every attention head."""
    types: int = 0
    """Resources distinguished by a one-hot column; 0: by the relation alone."""
    prior: tuple[Mapping[str, float], ...] = ()
    """Per list, weights of features in the logit at the start, 0 where none is given; of no use with other
    weights to begin with, and so is ``hold_start``."""
    hold_start: tuple[float, ...] = (-3.0,)
    """Per list, the log-odds of holding at the start; as many lists as numbers."""
    only_winner: bool = False
    """Whether of several lists only those with the best draw of a problem learn from it."""
    every: int = 100
    """Updates between checkpoints, each with a validation."""
    validation: int = 32
    """Problems of the validation."""

    def __post_init__(self) -> None:
        for name in ("updates", "groups", "graphs", "reuse", "every", "validation"):
            self._expect(name, "a whole number >= 1", lambda x: type(x) is int and x >= 1)
        self._expect("samples", "a whole number >= 2", lambda x: type(x) is int and x >= 2)
        self._expect("mode", f"one of {', '.join(MODES)}", lambda x: x in MODES)
        self._expect("decay", "linear or constant", lambda x: x in ("linear", "constant"))
        for name in ("is_standardised", "only_winner"):
            self._expect(name, "true or false", lambda x: type(x) is bool)
        for name in ("least_deviation", "learning_rate", "gradient_clip"):
            self._expect(name, "a number > 0", lambda x: _is_number(x) and x > 0)
        for name in ("logit_norm", "label_weight", "spread"):
            self._expect(name, "a number >= 0", lambda x: _is_number(x) and x >= 0)
        self._expect("heads", "a list of relations", lambda x: isinstance(x, list | tuple))
        self._expect(
            "sharpness",
            "a list of numbers > 0",
            lambda x: isinstance(x, list | tuple) and bool(x) and all(_is_number(f) and f > 0 for f in x),
        )
        object.__setattr__(self, "heads", tuple(self.heads))
        object.__setattr__(self, "sharpness", tuple(self.sharpness))
        self._read_lists()
        _ = self.shape

    def _read_lists(self) -> None:
        """Take one number and one table for lists of one."""
        start = self.hold_start if isinstance(self.hold_start, list | tuple) else (self.hold_start,)
        prior = (self.prior,) if isinstance(self.prior, Mapping) else self.prior
        object.__setattr__(self, "hold_start", tuple(start))
        self._expect("hold_start", "a number per list", lambda x: x and all(_is_number(odds) for odds in x))
        is_fine = isinstance(prior, list | tuple) and len(prior) in (0, len(start))
        if not is_fine or any(not isinstance(table, Mapping) for table in prior):
            raise InputError(f"expected a table of features for each of {len(start)} lists", field="prior")
        for table in prior:
            for name, value in table.items():
                if name not in FEATURES or not _is_number(value):
                    raise InputError(f"expected a feature and a number, got {value!r}", field=f"prior.{name}")
        object.__setattr__(self, "prior", tuple(dict(table) for table in prior))

    def _expect(self, name: str, expected: str, is_right: Callable[[Any], bool]) -> None:
        value = getattr(self, name)
        if not is_right(value):
            raise InputError(f"expected {expected}, got {value!r}", field=name)

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
    def batch(self) -> int:
        """Schedules per update."""
        return self.groups * self.graphs * self.samples


def _is_number(value: object) -> bool:
    """Whether this is a number that a float can hold."""
    return isinstance(value, int | float) and type(value) is not bool and abs(value) <= sys.float_info.max
