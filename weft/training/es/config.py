"""The parameters of the evolution strategy. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import InputError
from weft.sim.tasks.weights import NAMES as WEIGHTS
from weft.tables import NAMES, POSITIVE, check, checked, did_you_mean, one_of, whole

STARTS = ("priced", "srw")


@dataclass(frozen=True)
class ESConfig:
    """Parameters of CMA-ES over the weights of a rule."""

    generations: int = checked(60, whole(1))
    """Updates."""
    population: int = checked(16, whole(4))
    """Vectors of weights judged in each."""
    episodes: int = checked(16, whole(1))
    """Problems on which all vectors of a generation are judged, with the same draws."""
    sigma: float = checked(0.2, POSITIVE)
    """Standard deviation of the weights at the start."""
    begin: str = checked("priced", one_of(*STARTS))
    """The rule whose weights the search starts from."""

    free: tuple[str, ...] = checked((), NAMES)
    """Names of the weights that are tuned, the others stay as they begin; none: all."""

    def __post_init__(self) -> None:
        check(self)
        for name in self.free:
            if name not in WEIGHTS:
                raise InputError(f"no weight {name!r}{did_you_mean(name, WEIGHTS)}", field="free")
