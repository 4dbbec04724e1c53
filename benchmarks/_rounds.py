"""A multi-round planner: the encoder sees what is left of the problem again and again, at dispatches.

The counterpart of the one-shot planner with the same weights, for problems without transfers whose
tasks have one device class each and take one device. Tasks that run are part of what is left, with
the time they still need.
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.policies.oneshot.features import view_of
from weft.policies.oneshot.planner import load, shipped
from weft.schedulers.planners.rules import Decoder
from weft.sim.arrays import Arrays


def left_of(a: Arrays, is_left: Bools, time_left: Floats) -> Arrays:
    """The part of a problem whose tasks are not done, with the run times they still need."""
    number = np.cumsum(is_left) - 1
    source = np.repeat(np.arange(len(is_left)), np.diff(a.succ_ptr))
    target = np.repeat(np.arange(len(is_left)), np.diff(a.pred_ptr))
    ahead, behind = is_left[source] & is_left[a.succ], is_left[target] & is_left[a.pred]
    run = np.where(np.isfinite(a.run), time_left[:, None], np.inf)
    return a._replace(
        run=run[is_left],
        release=np.zeros(int(is_left.sum())),
        job=a.job[is_left],
        order=number[a.order[is_left[a.order]]],
        succ_ptr=_pointer(number[source[ahead]], int(is_left.sum())),
        succ=number[a.succ[ahead]],
        succ_data=a.succ_data[ahead],
        pred_ptr=_pointer(number[target[behind]], int(is_left.sum())),
        pred=number[a.pred[behind]],
        pred_data=a.pred_data[behind],
        demand=a.demand[is_left],
    )


def _pointer(owner: Ints, size: int) -> Ints:
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))])


class Rounds:
    """Starts one task after the other; the scores are made anew where tasks compete.

    Parameters
    ----------
    every
        Starts between two passes of the encoder; None: one pass in all.
    weights
        A weights file, its card or a run; None takes what ships for the problem.
    """

    def __init__(self, problem: Problem, every: int | None = 1, weights: str | None = None) -> None:
        self.decoder = Decoder(problem)
        self.encoder = load(weights or shipped(self.decoder)).encoder
        self.every = every
        self.passes = 0
        a = self.a = self.decoder.a
        size = len(a.run)
        self.only: Ints = np.isfinite(a.run).argmax(axis=1)  # (num_tasks,) the class of a task
        self.time: Floats = a.run[np.arange(size), self.only]  # (num_tasks,)
        self.missing = np.diff(a.pred_ptr)  # (num_tasks,) parents that are not done
        self.start = np.full(size, np.inf)  # (num_tasks,)
        self.device = np.zeros(size, np.int64)  # (num_tasks,)
        self.is_done = np.zeros(size, np.bool_)  # (num_tasks,)
        self.is_free = np.ones(len(a.device_class), np.bool_)  # (num_devices,)
        self.score = np.zeros(size)  # (num_tasks,)
        self.clock = 0.0

    def plan(self) -> Schedule:
        """The schedule in which every start follows the latest scores."""
        starts, seen = 0, -1
        while not self.is_done.all():
            waiting = self._waiting()
            if not len(waiting):
                self._advance()
                continue
            is_due = seen < 0 or (self.every is not None and starts - seen >= self.every)
            if is_due and self._compete(waiting):
                self._look()
                seen = starts
            self._begin(int(waiting[self.score[waiting].argmax()]))
            starts += 1
        return self.decoder.placed(self.start, self.device)

    def _waiting(self) -> Ints:
        """Tasks that could start now."""
        room = np.bincount(self.a.device_class[self.is_free], minlength=self.a.run.shape[1])
        return np.flatnonzero((self.missing == 0) & np.isinf(self.start) & (room[self.only] > 0))

    def _compete(self, waiting: Ints) -> bool:
        """Whether more tasks of a class could start than there are devices for."""
        room = np.bincount(self.a.device_class[self.is_free], minlength=self.a.run.shape[1])
        asked = np.bincount(self.only[waiting], minlength=len(room))
        return bool((asked > room).any())

    def _look(self) -> None:
        """One pass over what is left."""
        runs = np.isfinite(self.start) & ~self.is_done
        left = np.where(runs, self.start + self.time - self.clock, self.time)
        view = view_of(left_of(self.a, ~self.is_done, left), has_pairs=False)
        self.score[~self.is_done] = self.encoder.scores(view).logit[0]
        self.passes += 1

    def _begin(self, task: int) -> None:
        fits = self.is_free & (self.a.device_class == self.only[task])
        self.device[task], self.start[task] = int(fits.argmax()), self.clock
        self.is_free[self.device[task]] = False

    def _advance(self) -> None:
        """Go to the next end."""
        runs = np.isfinite(self.start) & ~self.is_done
        end = np.where(runs, self.start + self.time, np.inf)
        self.clock = float(end.min())
        for task in np.flatnonzero(end == self.clock):
            self.is_done[task], self.is_free[self.device[task]] = True, True
            self.missing[self.a.succ[self.a.succ_ptr[task] : self.a.succ_ptr[task + 1]]] -= 1
