"""Aggregates over training runs with stratified bootstrap intervals (Agarwal et al. 2021, "rliable").

Scores come as (runs, tasks), higher is better; runs are resampled within each task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.evaluation.statistics.bootstrap import Interval, batches
from weft.evaluation.statistics.samples import check_confidence, check_resamples, column, run_matrix
from weft.model.graph import Floats


@dataclass(frozen=True)
class Aggregates:
    """Four summaries of a (runs, tasks) matrix of scores."""

    mean: Interval
    median: Interval
    """Median over tasks of the mean over runs."""
    iqm: Interval
    """Mean of the middle half of all scores."""
    optimality_gap: Interval
    """By how much scores fall short of the target on average; lower is better."""

    def __str__(self) -> str:
        return (
            f"interquartile mean {self.iqm}, mean {self.mean.value:.4g}, median {self.median.value:.4g}, "
            f"optimality gap {self.optimality_gap.value:.4g}"
        )


def interquartile_mean(values: npt.ArrayLike) -> float:
    """Mean of what is left without the lowest and the highest quarter (counts rounded down)."""
    return float(_middle_mean(column(values, "values", at_least=1)))


def aggregate(
    scores: npt.ArrayLike,
    *,
    target: float = 1.0,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = 9999,
) -> Aggregates:
    """Mean, median, interquartile mean and optimality gap of scores, with percentile intervals.

    Parameters
    ----------
    target
        The score that counts as solved; what lies above it does not lower the optimality gap.
    """
    matrix = run_matrix(scores, "scores")
    level = check_confidence(confidence)
    if not np.isfinite(target):
        raise InputError(f"expected a finite number, got {target}", field="target")
    rng = np.random.default_rng(seed)
    found = [_summaries(drawn, target) for drawn in stratified(matrix, resamples, rng)]
    intervals = _percentiles(_summaries(matrix[None], target)[0], np.concatenate(found), level)
    return Aggregates(*intervals)


def probability_of_improvement(
    scores_a: npt.ArrayLike,
    scores_b: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = 9999,
) -> Interval:
    """Chance that a run of a scores higher than one of b on a random task; a tie counts half."""
    first, second = run_matrix(scores_a, "scores_a"), run_matrix(scores_b, "scores_b")
    level = check_confidence(confidence)
    if first.shape[1] != second.shape[1]:
        message = f"expected as many tasks as in scores_a ({first.shape[1]}), got {second.shape[1]}"
        raise InputError(message, field="scores_b")
    by_task = first.T[:, :, None], second.T[:, None, :]
    better = (by_task[0] > by_task[1]) + 0.5 * (by_task[0] == by_task[1])  # (tasks, runs_a, runs_b)
    found = _resampled_improvement(better, resamples, np.random.default_rng(seed))
    return _percentiles(np.array([better.mean()]), found[:, None], level)[0]


def stratified(matrix: Floats, resamples: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Batches of resampled matrices, (count, runs, tasks): runs drawn anew within every task."""
    tasks = np.arange(matrix.shape[1])
    for count in batches(check_resamples(resamples), matrix.size):
        yield matrix[rng.integers(0, len(matrix), (count, *matrix.shape)), tasks]


def _resampled_improvement(better: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Share of better pairs per resample, from how often each run was drawn."""
    tasks, runs_a, runs_b = better.shape
    found = []
    for count in batches(check_resamples(resamples), tasks * (runs_a + runs_b)):
        drawn_a = rng.multinomial(runs_a, np.full(runs_a, 1 / runs_a), (count, tasks))
        drawn_b = rng.multinomial(runs_b, np.full(runs_b, 1 / runs_b), (count, tasks))
        expected = np.einsum("bti,tij->btj", drawn_a, better)
        found.append((expected * drawn_b).sum(axis=(1, 2)) / better.size)
    return np.concatenate(found)


def _summaries(drawn: Floats, target: float) -> Floats:
    """Mean, median, interquartile mean and optimality gap of every matrix: (count, 4)."""
    flat = drawn.reshape(len(drawn), -1)
    return np.stack(
        [
            flat.mean(axis=1),
            np.median(drawn.mean(axis=1), axis=1),
            _middle_mean(flat),
            target - np.minimum(flat, target).mean(axis=1),
        ],
        axis=1,
    )


def _middle_mean(values: Floats) -> Floats:
    """Interquartile mean over the last axis."""
    n = values.shape[-1]
    return np.asarray(np.sort(values, axis=-1)[..., n // 4 : n - n // 4].mean(axis=-1))


def _percentiles(values: Floats, replicates: Floats, level: float) -> list[Interval]:
    """One interval per column of the replicates."""
    low, high = np.quantile(replicates, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    rows = zip(values.tolist(), low.tolist(), high.tolist(), strict=True)
    return [Interval(*row, level) for row in rows]
