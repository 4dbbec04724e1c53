"""Keyed draws: each is a hash of (seed, stream, ...) and depends on nothing else.

One table of all streams. Two streams with one number would be correlated, so no other module
numbers its own; a test reads all files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from weft.model.graph import Floats

# Published rows rest on these numbers: add, never renumber.
NOISE = 1
"""Run times of tasks: (job, task, class, number)."""
BRANCH = 2
"""Edges that are taken: (job, task, group)."""
ARRIVAL = 3
"""Gaps between jobs: (job, number)."""
EPISODE = 4
"""Keys of episodes: (environment, episode)."""
PROBABILITY = 5
"""First probability of the tracked branch in an episode."""
WALK = 6
"""Steps of a probability that walks: (knot)."""
ORDER = 7
"""The random order of ready tasks in the task view: (job, task)."""
CHECK = 8
"""Which large schedules the validator looks at: (row)."""
BIAS = 9
"""How wrong stated run times are: (kind, class, number)."""
WANDER = 10
"""How that changes from job to job: (kind, class, job, number)."""
MEMORY = 11
"""What tasks of drawn workflows need of the memory of a device: (job, task, number)."""
ARRIVING = 12
"""How many elastic tasks arrive at a world step: (step)."""
TASK_TYPE = 13
"""Types of elastic tasks: (task)."""
LINK = 14
"""Clusters an elastic task is connected to: (task, cluster; after the last one, how many)."""
PROGRESS = 15
"""Noise on the progress of an elastic task: (task, number of the step it runs)."""
ALLOCATION = 16
"""Choices of random allocators: (step, round, cluster, what)."""
MODES = 17
"""Configurations of periods that a run switches to: (switch)."""
DEVICES = 18
"""Which of the devices with room a random rule takes: (number of the start)."""
BOOKING = 19
"""Which jobs of a stream book a device, and of which class: (job, number)."""
SEARCHED = 20
"""Noise on which static maps are searched; part of the seed."""
MEASURED = 21
"""Noise on speeds of elastic tasks that an allocator measures: (step, type, point of the grid)."""


def keyed_uniform(*key: npt.ArrayLike) -> Floats:
    """Uniform draws in [0, 1), each a function of its key alone; keys broadcast."""
    state = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        for part in key:
            state = _mix(state ^ _mix(np.asarray(part).astype(np.int64).astype(np.uint64)))
    return np.asarray((state >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _mix(x: Any) -> Any:
    """The output step of splitmix64."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
