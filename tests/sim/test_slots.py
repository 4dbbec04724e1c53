"""Snapshots of environments that may play any of many problems."""

from __future__ import annotations

import numpy as np

from weft.scenarios import scenario
from weft.sim.tasks.layout import compile_tasks, new_task_state
from weft.sim.tasks.pipeline_environment import PipelineEnv, PipelineReward, PipelineSetup
from weft.sim.tasks.pipeline_features import PipelineSight
from weft.sim.tasks.slots import state_pointers

SIGHT = PipelineSight(series=5, pools=3, choices=16)
BOARDS = tuple(
    scenario("adas-tx2", configuration=k, horizon=650.0).problem("train", 0) for k in (0, 27, 54, 80)
)


def env_of(num_envs: int = 2) -> PipelineEnv:
    return PipelineEnv(PipelineSetup(BOARDS, SIGHT, PipelineReward(tau=80.0)), num_envs, 3, shared=True)


def play(env: PipelineEnv, steps: int) -> list[bytes]:
    found = []
    for k in range(steps):
        allowed = env.mask[:, 0]
        choice = np.array([np.flatnonzero(row)[k % row.sum()] for row in allowed])
        reward, done = env.step(choice[:, None])
        found.append(reward.tobytes() + done.tobytes() + env.observation.tobytes())
    return found


def test_every_entry_of_the_state_belongs_to_a_problem():
    tasks = compile_tasks(BOARDS)
    state = new_task_state(tasks)
    pointers = state_pointers(tasks, state)
    whole = {len(BOARDS), len(BOARDS) + 1, 0}  # an entry each, or pointers themselves
    for name, array in state._asdict().items():
        own = pointers.get(f"state.{name}")
        assert len(array) in whole if own is None else len(array) in (own[-1], 0), name


def test_another_environment_goes_on_from_a_snapshot_with_what_is_played_alone():
    one, other = env_of(), env_of()
    play(one, 700)  # some episodes, so that other problems hold what is over
    assert one.snapshot()["episode"].max() > 1
    kept = one.snapshot()
    other.restore(kept)
    assert play(one, 700) == play(other, 700)


def test_snapshot_does_not_grow_with_what_might_be_played():
    sizes = []
    for boards in (BOARDS[:1], BOARDS[:1] * 4):
        setup = PipelineSetup(boards, SIGHT, PipelineReward(tau=80.0))
        env = PipelineEnv(setup, 2, 3, shared=True)
        sizes.append(sum(array.nbytes for array in env.snapshot().values()))
    assert sizes[1] < 1.05 * sizes[0]
