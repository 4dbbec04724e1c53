"""Pipelines as first published: what is seen, where a choice puts a stage, and what the validator says of the schedule."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import InputError
from weft.model.problem import Problem, realise
from weft.model.validate import validate
from weft.policies.candidates.pipelines import NOTHING
from weft.scenarios import scenario
from weft.sim.tasks.layout import schedule_of
from weft.sim.tasks.pipeline_environment import PipelineBatch, start_all, step_all
from weft.sim.tasks.pipeline_features import PipelineSight, check_pipeline_sight

SIGHT = PipelineSight(choices=3, is_faithful=True)
GPU = 6


def board(**settings: object) -> Problem:
    return scenario("adas-tx2", periods="50/150/25/300", horizon=200.0, **settings).problem("test", 0)


class Queues:
    """One problem, decided by choices from outside."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.drawn = problem, realise(problem, 1)
        self.batch = PipelineBatch([problem], [self.drawn], SIGHT, 1)
        self._plays = np.zeros(1, np.int64)
        start_all(self.batch.seen, self.batch.world, self._plays, self._plays, False, self.batch.buffers)

    def choose(self, k: int) -> None:
        actions = np.array([[k]])
        step_all(self.batch.seen, self.batch.world, self._plays, actions, NOTHING, False, self.batch.buffers)

    @property
    def devices(self) -> list[int]:
        out = self.batch.buffers
        return out.device[0, : out.count[0, 0]].tolist()

    @property
    def seen(self) -> np.ndarray:
        return self.batch.buffers.observation[0]


def test_faithful_sight_is_two_numbers_of_every_pipeline_and_one_of_every_class():
    assert SIGHT.world[:2] == ("remaining path of pipeline 0", "time to the deadline of pipeline 0")
    assert len(SIGHT.world) == 2 * 5 + 3 and SIGHT.world[-1] == "queued work of class 2"
    assert SIGHT.columns == ("starts", "waits", "on class 0", "on class 1", "on class 2")
    assert len(Queues(board()).seen) == SIGHT.num_features


def test_candidates_say_no_more_than_their_class():
    made = Queues(board())
    rows = made.seen[len(SIGHT.world) :].reshape(SIGHT.num_choices, -1)
    assert rows[0].tolist() == [1, 0, 1, 0, 0] and rows[1].tolist() == [1, 0, 0, 1, 0]
    assert not rows[-1].any() and not made.batch.buffers.mask[0, 0, -1]  # there is no wait


def test_a_busy_class_is_offered_and_its_queue_grows():
    made = Queues(board())
    while GPU not in made.devices:
        made.choose(0)
    grown = [float(made.seen[len(SIGHT.world) - 1])]
    for _ in range(30):
        has_gpu = GPU in made.devices
        made.choose(len(made.devices) - 1)
        if has_gpu:
            grown.append(float(made.seen[len(SIGHT.world) - 1]))
    state = made.batch.world.s
    assert state.running[GPU] >= 0 and state.queue[GPU] >= 0
    assert grown[0] == 0.0 < grown[1] < max(grown)


@pytest.mark.parametrize("overrun", ["queue", "skip", "abort"])
def test_schedules_of_any_choices_keep_all_rules(overrun: str):
    made, rng = Queues(board(overrun=overrun)), np.random.default_rng(0)
    while not made.batch.buffers.done[0]:
        assert made.devices
        made.choose(int(rng.integers(len(made.devices))))
    world = made.batch.world
    found = schedule_of(made.problem, made.drawn, world.w, world.s, 0)
    assert validate(found) == ()
    assert not world.s.overflow.any()


def test_launches_have_no_place_in_queues():
    with pytest.raises(InputError, match=r"candidates.depths: expected \[1\] with is_faithful, got \[1, 2\]"):
        check_pipeline_sight(SIGHT._replace(depths=(1, 2)))
