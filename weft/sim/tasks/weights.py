"""Rules as numbers: what a ready task and a device for it are judged by, and by how much each counts.

A rule of the task view orders ready tasks by a weighted sum of features, smallest first, and sends each to the
device with the least finish plus a weighted sum of costs. ``srw`` and ``priced`` are two vectors of these weights,
``es`` is a third that was tuned. Weights "x backlog" count as often as ready tasks crowd the slots: by the logarithm
of ready tasks over slots. Weights "x spread" count as often as the jobs that wait differ in length: by the standard
deviation of the logarithms of their work left. Weights "x forecast" count by the logarithm of the load that arrivals
let expect (``forecast.py``). These, and those of energy and overruns, are 0 in all three.

Everything is expected and known: logarithms of times differ by a constant under another unit, which moves no order.
Times next to nothing beside the longest path of their job count as a share of it, so that no logarithm outweighs all else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.errors import InputError
from weft.model.graph import Floats
from weft.model.problem import Problem
from weft.sim.arrays import Arrays, compile_problem
from weft.sim.timeline.list_planning import optimistic_cost, upward_rank

NAMES = (
    "work left",
    "work left x backlog",
    "rank ratio",
    "rank ratio x backlog",
    "rank",
    "rank x backlog",
    "path left",
    "path left x backlog",
    "ready tasks",
    "unlocked",
    "data out",
    "run time",
    "run time x backlog",
    "share left",
    "age",
    "choosy",
    "price",
    "price x backlog",
    "idle gap",
    "idle gap x backlog",
    "time there",
    "data wait",
    "later",
    "later x backlog",
    "work left x forecast",
    "rank ratio x forecast",
    "price x forecast",
    "idle gap x forecast",
    "later x forecast",
    "energy",
    "overrun",
    "work left x spread",
    "rank x spread",
    "path left x spread",
    "ready tasks x spread",
    "later x spread",
)
"""Sixteen order tasks, eight are added to the finish on a device, then five of either kind, two of devices, and five of either kind.

"Overrun" moves the expected end of what runs on a device of one slot from that expected at its start (0) to that
expected of a task that has run so long and has not ended (1), by the stated noise.
"""
NUM_WEIGHTS = len(NAMES)
FORECAST = NAMES[24:29]
SPREAD = NAMES[31:]
ADDED = NAMES[24:]
"""The weights that came after the first version."""
VERSION = "task-weights/4"
READABLE = {
    "task-weights/1": NAMES[:24],
    "task-weights/2": NAMES[:30],
    "task-weights/3": NAMES[:31],
    VERSION: NAMES,
}
"""Version of what a policy was trained on -> its weights; those that it lacks are 0."""

# Weights at one decision, backlog and forecast counted in: see ``fold``.
LEFT, RATIO, RANK, PATH, READY_TASKS, UNLOCKED, DATA, RUN, OPEN, AGE, CHOOSY = range(11)
PRICE, GAP, THERE, WAIT, LATER, ENERGY, OVERRUN = range(11, 18)
NUM_FOLDED = 18
FOLD = (
    (LEFT, 0, 1, 24, 31), (RATIO, 2, 3, 25, -1), (RANK, 4, 5, -1, 32), (PATH, 6, 7, -1, 33), (READY_TASKS, 8, -1, -1, 34),
    (UNLOCKED, 9, -1, -1, -1), (DATA, 10, -1, -1, -1), (RUN, 11, 12, -1, -1), (OPEN, 13, -1, -1, -1), (AGE, 14, -1, -1, -1),
    (CHOOSY, 15, -1, -1, -1), (PRICE, 16, 17, 26, -1), (GAP, 18, 19, 27, -1), (THERE, 20, -1, -1, -1), (WAIT, 21, -1, -1, -1),
    (LATER, 22, 23, 28, 35), (ENERGY, 29, -1, -1, -1), (OVERRUN, 30, -1, -1, -1),
)  # fmt: skip
"""Of every folded weight: its place, that of the weight, and of those that count with backlog, forecast and spread, -1: none."""
CLIP = 2.0
"""The logarithms of backlog and of the expected load count as at most this, and as at least its opposite."""
MOST_SPREAD = 3.0
"""The spread counts as at most this."""
LEAST = 0.03
"""Ranks and run times count as at least this share of the longest path of their job in logarithms."""

# Columns of what is known of a task beforehand; the rest is PEFT's optimistic cost, one column per class, and as many of power.
AT_RATIO, AT_RANK, AT_DATA, AT_RUN, AT_CHOOSY, AT_JOB_RANK = range(6)
NUM_ABOUT = 6
TINY = 1e-300


def vector(weights: Mapping[str, float]) -> tuple[float, ...]:
    """The weights of these names, the others 0."""
    strange = sorted(set(weights) - set(NAMES))
    if strange:
        raise KeyError(strange[0])
    return tuple(float(weights.get(name, 0.0)) for name in NAMES)


SRW = vector({"work left": 1.0})
PRICED = vector({"work left": 1.0, "rank ratio": -1.0, "price": 1.0})


def check_weights(weights: object, place: str) -> tuple[float, ...]:
    """The weights as numbers, if there is one finite number for every name of a version; names that came later are 0."""
    given = list(weights) if isinstance(weights, list | tuple) else []
    numbers = [float(x) for x in given if isinstance(x, int | float) and not isinstance(x, bool)]
    sizes = [len(names) for names in READABLE.values()]
    if len(numbers) not in sizes or len(numbers) != len(given) or not np.isfinite(numbers).all():
        expected = f"{', '.join(map(str, sizes[:-1]))} or {sizes[-1]}"
        raise InputError(f"expected {expected} finite numbers, got {weights!r:.60}", field=place)
    return (*numbers, *(0.0 for _ in range(NUM_WEIGHTS - len(numbers))))


def about(problem: Problem, width: int | None = None) -> Floats:
    """What rules know of every task of a problem: (num_tasks, NUM_ABOUT + 2 ``width``), width classes at least its own."""
    a = compile_problem(problem)
    rank = upward_rank(a, np.array(problem.mean_run_times))
    width = width or problem.cluster.num_classes
    found = np.zeros((problem.num_tasks, NUM_ABOUT + 2 * width))
    most = np.zeros(len(problem.jobs))
    np.maximum.at(most, problem.job_of, rank)
    best = np.sort(np.where(problem.device_counts > 0, problem.run_times, np.inf), axis=1)
    first, second = best[:, 0], best[:, min(1, best.shape[1] - 1)]
    out = _data_out(a)
    found[:, AT_RATIO] = rank / np.maximum(most, TINY)[problem.job_of]
    least = np.maximum(LEAST * most, TINY)[problem.job_of]
    found[:, AT_RANK] = np.log(np.maximum(rank, least))
    found[:, AT_DATA] = out / np.maximum(out + first, TINY)
    found[:, AT_RUN] = np.log(np.maximum(first, least))
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.log(second / first)
    found[:, AT_CHOOSY] = np.minimum(np.where(np.isnan(spread), 0.0, spread), 3.0)
    found[:, AT_JOB_RANK] = most[problem.job_of]
    later = optimistic_cost(a)
    found[:, NUM_ABOUT : NUM_ABOUT + later.shape[1]] = later
    found[:, NUM_ABOUT + width : NUM_ABOUT + width + later.shape[1]] = _power(problem)
    return found


def _power(problem: Problem) -> Floats:
    """Watts that a busy device of each class draws beyond those of an idle one (num_classes,), 1 on average; or zeros."""
    extra = problem.cluster.class_column("watts") - problem.cluster.class_column("idle_watts")
    mean = float(extra[problem.cluster.device_class].mean())
    return np.asarray(extra / mean if mean > 0 else np.zeros(len(extra)), np.float64)


def _data_out(a: Arrays) -> Floats:
    """Mean time that all data of a task takes to its children; the same bits whatever other jobs there are."""
    edge = a.mean_latency + a.succ_data * a.mean_inverse
    source = np.repeat(np.arange(len(a.succ_ptr) - 1), np.diff(a.succ_ptr))
    return np.bincount(source, weights=edge, minlength=len(a.succ_ptr) - 1)


def about_all(problems: Sequence[Problem]) -> Floats:
    """The same of problems side by side."""
    width = max(problem.cluster.num_classes for problem in problems)
    return np.concatenate([about(problem, width) for problem in problems])
