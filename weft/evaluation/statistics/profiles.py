"""Profiles: how often a scheduler is within a factor of the best, or above a score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.evaluation.statistics.aggregates import stratified
from weft.evaluation.statistics.samples import check_confidence, numbers, refuse_not_positive, run_matrix
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


@dataclass(frozen=True, eq=False)
class ScoreProfile:
    """Share of (run, task) scores above each tau, with a pointwise bootstrap band."""

    taus: Floats  # (num_taus,)
    shares: Floats  # (num_taus,)
    low: Floats  # (num_taus,)
    high: Floats  # (num_taus,)
    confidence: float

    def __str__(self) -> str:
        first, last = self.taus[0], self.taus[-1]
        return (
            f"{100 * self.shares[0]:.3g} % above {first:.4g}, {100 * self.shares[-1]:.3g} % above {last:.4g}"
        )


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


def score_profile(
    scores: npt.ArrayLike,
    taus: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = 2000,
) -> ScoreProfile:
    """Share of scores, (runs, tasks) and higher is better, above each tau."""
    matrix = run_matrix(scores, "scores")
    grid = _ascending(taus)
    level = check_confidence(confidence)
    drawn = stratified(matrix, resamples, np.random.default_rng(seed))
    found = np.concatenate([_shares_above(batch.reshape(len(batch), -1), grid) for batch in drawn])
    low, high = np.quantile(found, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    return ScoreProfile(grid, _shares_above(matrix.reshape(1, -1), grid)[0], low, high, level)


def _shares_above(rows: Floats, taus: Floats) -> Floats:
    """Share of every row above each tau: (num_rows, num_taus)."""
    return np.stack([(rows > tau).mean(axis=1) for tau in taus.tolist()], axis=1)


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
