"""The parameters of the evolution strategy. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import InputError
from weft.sim.tasks.weights import FORECAST
from weft.sim.tasks.weights import NAMES as WEIGHTS
from weft.tables import (
    MOST_AT_ONCE,
    MOST_UPDATES,
    NAMES,
    Rule,
    check,
    checked,
    did_you_mean,
    number,
    one_of,
    whole,
)

STARTS = ("priced", "srw")
FIGURES = ("mean job time", "energy", "unfairness")
"""What a vector of weights may be judged by; ``Schedule`` says what they are."""
TIME, ENERGY, UNFAIRNESS = range(3)
_PARTS = number(0.0).several("numbers")
_OBJECTIVE = Rule(
    f"three numbers >= 0, not all 0, for {', '.join(FIGURES)}",
    lambda x: _PARTS.fits(x) and len(x) == len(FIGURES) and any(x),
)


@dataclass(frozen=True)
class ESConfig:
    """Parameters of CMA-ES over the weights of a rule."""

    generations: int = checked(60, whole(1, MOST_UPDATES))
    """Updates."""
    population: int = checked(16, whole(4, 10_000))
    """Vectors of weights judged in each."""
    episodes: int = checked(16, whole(1, MOST_AT_ONCE))
    """Problems on which all vectors of a generation are judged, with the same draws."""
    sigma: float = checked(0.2, number(1e-12, 100.0))
    """Standard deviation of the weights at the start."""
    begin: str = checked("priced", one_of(*STARTS))
    """The rule whose weights the search starts from."""

    free: tuple[str, ...] = checked((), NAMES)
    """Names of the weights that are tuned, the others stay as they begin; none: all that are not frozen."""
    frozen: tuple[str, ...] = checked((*FORECAST, "energy", "overrun"), NAMES)
    """Names of the weights that stay as they begin, where ``free`` names none."""
    objective: tuple[float, float, float] = checked((1.0, 0.0, 0.0), _OBJECTIVE)
    """How much the logarithms of mean job time, energy and unfairness count in the cost of a vector."""

    def __post_init__(self) -> None:
        check(self)
        for field in ("free", "frozen"):
            for name in getattr(self, field):
                if name not in WEIGHTS:
                    hint = did_you_mean(name, WEIGHTS) or f"; expected some of {', '.join(WEIGHTS)}"
                    raise InputError(f"no weight {name!r}{hint}", field=field)
        if not any(self.tuned):
            raise InputError("expected a weight that is not frozen", field="frozen")

    @property
    def tuned(self) -> tuple[bool, ...]:
        """Of every weight, whether it is tuned."""
        return tuple(name in self.free if self.free else name not in self.frozen for name in WEIGHTS)
