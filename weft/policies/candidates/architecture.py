"""The shape of a net that points at a candidate, and how a flat observation falls apart. Loads neither torch nor numba."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.errors import InputError

MAX_WIDTH = 1024
POLICY, Q = HEADS = ("policy", "q")
"""What scores are: logits of probabilities, or by how much choices are worth more than one another."""


@dataclass(frozen=True)
class CandidateArchitecture:
    """One scorer for all candidates, which also sees their mean, and a value of that mean."""

    world: int
    """Features of the world as a whole."""
    column: int
    """Features of every candidate; one of the first two is 1 where there is one."""
    hidden: int = 48
    """Width of every embedding."""
    net: str = "candidates"
    head: str = POLICY
    """``policy`` or ``q``; of the latter, a choice is worth the value plus its score less the mean of all allowed."""

    def __post_init__(self) -> None:
        for name, size in (("world", self.world), ("column", self.column), ("hidden", self.hidden)):
            if type(size) is not int or not 1 <= size <= MAX_WIDTH:
                raise InputError(f"expected a whole number from 1 to {MAX_WIDTH}, got {size!r}", field=name)
        if self.net != "candidates":
            raise InputError(f"expected 'candidates', got {self.net!r}", field="net")
        if self.head not in HEADS:
            raise InputError(f"expected {' or '.join(HEADS)}, got {self.head!r:.60}", field="head")

    @property
    def num_features(self) -> int:
        """Distinct features; how many numbers they make depends on the number of candidates."""
        return self.world + self.column

    @property
    def labels(self) -> dict[str, int]:
        """Fields of a card that name parts of this, with their sizes."""
        sizes = dict.fromkeys(("features", "scales", "ranges"), self.num_features)
        return sizes | {"heads": 0, "choices": 0}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor, in order."""
        h = self.hidden
        return {
            "encode_weight": (h, self.column),
            "encode_world_weight": (h, self.world),
            "encode_bias": (h,),
            "mix_weight": (h, h),
            "mix_mean_weight": (h, h),
            "mix_bias": (h,),
            "score_out": (1, h),
            "score_direct": (1, self.column),
            "value_world_weight": (h, self.world),
            "value_mean_weight": (h, h),
            "value_bias": (h,),
            "value_out": (1, h),
            "value_out_bias": (1,),
        }

    def parts(self, observation: Any) -> tuple[Any, Any]:
        """World (N, W) and candidates (N, K, C) of flat observations (N, F), arrays or tensors alike."""
        rest = observation.shape[1] - self.world
        if rest < self.column or rest % self.column:
            raise InputError(
                f"expected {self.world} numbers and {self.column} for each candidate, got {observation.shape[1]}",
                field="observation",
            )
        rows = observation[:, self.world :].reshape(-1, rest // self.column, self.column)
        return observation[:, : self.world], rows
