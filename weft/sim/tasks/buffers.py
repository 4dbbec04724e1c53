"""What a step of the environment of single tasks writes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.model.graph import Bools, Floats, Ints
from weft.sim.tasks.candidates import CandidateSight
from weft.sim.tasks.reward import TERMS

Floats32 = npt.NDArray[np.float32]


class Buffers(NamedTuple):
    """What a step writes, in place; B environments, K choices."""

    observation: Floats32  # (B, F)
    mask: Bools  # (B, 1, K)
    reward: Floats32  # (B,)
    done: Bools  # (B,)
    elapsed: Floats32  # (B,)
    ended: Floats32  # (B,) mean job time where an episode ended, else NaN
    final_observation: Floats32  # (B, F)
    terms: Floats  # (B, len(TERMS)) of the reward
    task: Ints  # (B, K) of every candidate
    device: Ints  # (B, K)
    copies: Bools  # (B, K) whether a parent is copied there first
    count: Ints  # (B, 1) candidates
    picked: Ints  # (B, 1) the task whose devices are listed, -1: tasks are
    later: Floats  # (B, 1) when a wait ends at the latest


def new_buffers(num_envs: int, sight: CandidateSight) -> Buffers:
    """Empty buffers of so many environments."""
    choices, features = (num_envs, sight.num_choices), (num_envs, sight.num_features)
    return Buffers(
        np.zeros(features, np.float32),
        np.zeros((num_envs, 1, sight.num_choices), np.bool_),
        np.zeros(num_envs, np.float32),
        np.zeros(num_envs, np.bool_),
        np.zeros(num_envs, np.float32),
        np.zeros(num_envs, np.float32),
        np.zeros(features, np.float32),
        np.zeros((num_envs, len(TERMS))),
        np.zeros(choices, np.int64),
        np.zeros(choices, np.int64),
        np.zeros(choices, np.bool_),
        np.zeros((num_envs, 1), np.int64),
        np.full((num_envs, 1), -1),
        np.zeros((num_envs, 1)),
    )
