"""The shape of a policy that is a vector of weights for a rule. Loads neither torch nor numba."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import InputError

NET = "weights"
TENSOR = "weights"
MOST = 1024


@dataclass(frozen=True)
class WeightsArchitecture:
    """One weight per feature of a rule."""

    count: int
    """Weights; their names are the features of the card."""
    net: str = NET

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 1 <= self.count <= MOST:
            raise InputError(f"expected a whole number from 1 to {MOST}, got {self.count!r}", field="count")
        if self.net != NET:
            raise InputError(f"expected {NET!r}, got {self.net!r}", field="net")

    @property
    def labels(self) -> dict[str, int]:
        """Fields of a card that name parts of this, with their sizes."""
        return {"features": self.count, "scales": 0, "ranges": 0, "heads": 0, "choices": 0}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The one tensor."""
        return {TENSOR: (self.count,)}
