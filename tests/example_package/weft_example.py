"""What a package offers to weft: entry points name these classes."""

import numpy as np

from weft.schedulers.rules import Decoder


class ByNumber:
    """Tasks in the order of their numbers, each where it finishes first."""

    name = "by-number"

    def plan(self, problem, *, seed=0, limit=None):
        return Decoder(problem).schedule(-np.arange(problem.num_tasks, dtype=float))


class FirstFinish:
    """The ready task that can finish first, where it does."""

    name = "first-finish"

    def decide(self, view):
        pairs = [(task, device) for task in view.ready for device in view.options(task)]
        return [min(pairs, key=lambda pair: view.finish(*pair))] if pairs else []
