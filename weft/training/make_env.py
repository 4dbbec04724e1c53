"""Scenarios as environments of other learners: ``weft.make_env`` (extra ``rl``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from weft.errors import InputError
from weft.kinds import QUEUES
from weft.scenarios import Scenario
from weft.scenarios import scenario as read_scenario
from weft.sim.queues.environment import setup_of

if TYPE_CHECKING:
    from weft.sim.adapters import DeviceAgentsEnv, StreamEnv, StreamVectorEnv

Named = str | Path | Scenario


@overload
def make_env(
    scenario: Named, kind: Literal["single"] = "single", num_envs: int = 1, **settings: object
) -> StreamEnv: ...
@overload
def make_env(
    scenario: Named, kind: Literal["vector"], num_envs: int = 1, **settings: object
) -> StreamVectorEnv: ...
@overload
def make_env(
    scenario: Named, kind: Literal["agents"], num_envs: int = 1, **settings: object
) -> DeviceAgentsEnv: ...
def make_env(
    scenario: Named,
    kind: Literal["single", "vector", "agents"] = "single",
    num_envs: int = 1,
    **settings: object,
) -> StreamEnv | StreamVectorEnv | DeviceAgentsEnv:
    """The training stream of a scenario as an environment.

    Parameters
    ----------
    scenario
        By its name, recipe file or itself; ``settings`` change what is read.
    kind
        A Gymnasium environment, a vector of ``num_envs`` of them, or PettingZoo agents, one per device.
    """
    from weft.sim.adapters import make

    chosen = scenario if isinstance(scenario, Scenario) else read_scenario(scenario, **settings)
    if chosen.kind is not QUEUES:
        raise InputError(
            f"expected a scenario of one repeated job, as conditional is, got {chosen.name}", field="scenario"
        )
    setup = setup_of(chosen.stream("train", 0))
    return make(setup, kind, num_envs) if kind == "vector" else make(setup, kind)
