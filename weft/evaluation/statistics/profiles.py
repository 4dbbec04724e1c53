"""Profiles: how often a scheduler is within a factor of the best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.evaluation.statistics.samples import numbers, refuse_not_positive
from weft.model.graph import Floats


@dataclass(frozen=True, eq=False)
class PerformanceProfile:
    """Share of problems on which each scheduler is within a factor tau of the best (Dolan and Moré 2002)."""

    taus: Floats  # (num_taus,) ascending, >= 1
    shares: Floats  # (num_schedulers, num_taus)
    ratios: Floats  # (num_problems, num_schedulers) cost over the best cost; infinite: failed

    def share_within(self, tau: float) -> Floats:
        """Share of problems per scheduler with a cost of at most tau times the best."""
        return np.asarray((self.ratios <= tau).mean(axis=0))

    def __str__(self) -> str:
        best = ", ".join(f"{100 * share:.3g} %" for share in self.share_within(1.0))
        return f"best on {best} of {len(self.ratios)} problems"


def performance_profile(costs: npt.ArrayLike, taus: npt.ArrayLike | None = None) -> PerformanceProfile:
    """Compare each scheduler's cost with the best one of every problem.

    Parameters
    ----------
    costs
        (num_problems, num_schedulers), > 0, lower is better; infinite where a scheduler failed.
    taus
        Factors at which to evaluate; by default every one at which a share changes.
    """
    matrix = numbers(costs, "costs", ndim=2, is_infinity_allowed=True)
    if not matrix.size:
        raise InputError("expected at least one problem and one scheduler", field="costs")
    refuse_not_positive(matrix, "costs")
    best = matrix.min(axis=1, keepdims=True)
    ratios = np.divide(matrix, best, out=np.full_like(matrix, np.inf), where=np.isfinite(matrix))
    grid = _steps(ratios) if taus is None else _ascending(taus)
    counts = [np.searchsorted(row, grid, side="right") for row in np.sort(ratios.T, axis=1)]
    shares = np.stack(counts) / len(ratios)
    return PerformanceProfile(grid, shares, ratios)


def _steps(ratios: Floats) -> Floats:
    """The finite ratios, each once, ascending, beginning with 1."""
    return np.unique(np.append(ratios[np.isfinite(ratios)], 1.0))


def _ascending(taus: npt.ArrayLike) -> Floats:
    grid = numbers(taus, "taus")
    if not len(grid):
        raise InputError("expected at least one value", field="taus")
    if (np.diff(grid) < 0.0).any():
        raise InputError("expected ascending values", field="taus")
    return grid
