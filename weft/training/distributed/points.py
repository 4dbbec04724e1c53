"""Configurations as points of a grid, and which of them are played. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.errors import InputError
from weft.model.problem import Problem
from weft.model.series import series_of
from weft.training.distributed.curriculum import Curriculum
from weft.training.environment import Bools, Ints

_SALT = 5


def setting_points(cells: Sequence[Mapping[str, object]]) -> Ints:
    """The settings of cells as points (num_cells, N): of every setting that varies, which of its values."""
    texts = [{key: str(value) for key, value in cell.items()} for cell in cells]
    values = {key: list(dict.fromkeys(text[key] for text in texts)) for key in texts[0]}
    varied = [key for key, known in values.items() if len(known) > 1]
    points = [[values[key].index(text[key]) for key in varied] for text in texts]
    return np.array(points, np.int64).reshape(len(cells), -1)


def period_points(problems: Sequence[Problem]) -> Ints:
    """Periodic work as points (num_problems, N): of every series whose period varies, which of its periods."""
    periods = [
        [float(problem.jobs[int(jobs[0])].interval or 0.0) for jobs in series_of(problem).values()]
        for problem in problems
    ]
    levels = [sorted(set(column)) for column in zip(*periods, strict=True)]
    varied = [k for k, column in enumerate(levels) if len(column) > 1]
    points = [[levels[k].index(row[k]) for k in varied] for row in periods]
    return np.array(points, np.int64).reshape(len(problems), -1)


def used(points: Ints, curriculum: Curriculum) -> Bools:
    """Which configurations (num,) are played in training: within k values and N settings, and not held out.

    Which are held out does not depend on the training seed: policies of all seeds are judged on the same.
    Limits beyond what there is are refused, and those that leave nothing.
    """
    _refuse_beyond(points, curriculum)
    is_within = np.ones(len(points), np.bool_)
    if curriculum.values:
        is_within &= (points < curriculum.values).all(axis=1)
    if curriculum.dimensions:
        is_within &= (points[:, curriculum.dimensions :] == 0).all(axis=1)
    found = np.asarray(is_within & ~held_out(len(points), curriculum.held_out))
    if not found.any():
        raise InputError(
            f"expected a share that leaves at least one of {is_within.sum()} configurations, got {curriculum.held_out:g}",
            field="curriculum.held_out",
        )
    return found


def _refuse_beyond(points: Ints, curriculum: Curriculum) -> None:
    """Refuse more values or settings than there are."""
    most = int(points.max(initial=0)) + 1
    if curriculum.values > most:
        raise InputError(
            f"expected at most {most}, the values of a setting, got {curriculum.values}",
            field="curriculum.values",
        )
    if curriculum.dimensions > points.shape[1]:
        raise InputError(
            f"expected at most {points.shape[1]}, the settings that vary, got {curriculum.dimensions}",
            field="curriculum.dimensions",
        )


def held_out(num: int, share: float) -> Bools:
    """Which of so many configurations (num,) are kept back."""
    order = np.random.default_rng([num, _SALT]).permutation(num)
    found = np.zeros(num, np.bool_)
    found[order[: round(share * num)]] = True
    return found
