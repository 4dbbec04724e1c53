"""Edge clusters as an environment of other multi-agent learners: PettingZoo, one agent per cluster.

It stands on :class:`weft.sim.elastic.environment.ElasticBatch`; a seed gives the episode it gives there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import InputError, MissingExtra, shown
from weft.model.columns import Ints
from weft.model.elastic import ElasticProblem
from weft.sim.elastic.environment import ElasticBatch

try:
    from gymnasium.spaces import Box, MultiDiscrete
    from pettingzoo import ParallelEnv  # type: ignore[import-untyped]
except ImportError as missing:
    raise MissingExtra(missing.name or "pettingzoo", "rl", "an environment for other learners") from None

Floats32 = npt.NDArray[np.float32]
Info = dict[str, Any]
LAST_SEED = 2**63 - 1


class ClusterAgentsEnv(ParallelEnv[str, Floats32, Ints]):  # type: ignore[misc]
    """Clusters that pick pending tasks and give them units; a step is a logical step.

    An agent sees its cluster, the others in turn, the tasks of its pending set slot by slot, and what it runs, as one
    vector of the features of :class:`weft.sim.elastic.observation.ElasticSight`. Its action names a slot (the last choice:
    none) and the units of each resource; what does not fit takes nothing. ``infos[agent]`` has ``action_mask``
    (for the space to sample with; units are masked to what is free), ``outcome`` and, at the end, ``mean_completion``.
    """

    metadata: Info = {"name": "weft_edge_v1", "render_modes": []}  # noqa: RUF012

    def __init__(self, problem: ElasticProblem) -> None:
        self._batch = ElasticBatch(problem, once=True)
        self.render_mode = None
        self.possible_agents = list(problem.cluster_names)
        self.agents: list[str] = []
        self._is_seeded = False
        sight = self._batch.observe()
        own = sight.running[0, 0].size + problem.num_slots * sight.waiting.shape[2]
        size = sight.cluster[0].size + own
        choices = [problem.num_slots + 1, *(int(most) + 1 for most in problem.grid)]
        self.observation_spaces = {
            agent: Box(0.0, np.inf, (size,), np.float32) for agent in self.possible_agents
        }
        self.action_spaces = {agent: MultiDiscrete(choices) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> Box[np.float32]:
        """The same for all agents."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> MultiDiscrete:
        """A slot or none, then units of each resource."""
        return self.action_spaces[agent]

    def state(self) -> Floats32:
        """What all agents see together."""
        sight = self._batch.observe()
        return np.concatenate([sight.cluster.ravel(), sight.waiting.ravel(), sight.running.ravel()])

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Floats32], dict[str, Info]]:
        """The first episode of a seed, or the next one; without any seed ever, one by chance."""
        if seed is not None and not (type(seed) is int and 0 <= seed <= LAST_SEED):
            raise InputError(f"expected a whole number from 0 to 2^63 - 1, got {shown(seed)}", field="seed")
        if seed is None and not self._is_seeded:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        self._batch.reset(None if seed is None else np.array([seed], np.int64))
        self._is_seeded = True
        self.agents = list(self.possible_agents)
        return self._observations(), self._infos()

    def step(
        self, actions: dict[str, Ints]
    ) -> tuple[dict[str, Floats32], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]]:
        """One logical step; an agent without an action takes nothing."""
        self._check(actions)
        slot = np.full((1, len(self.possible_agents)), -1, np.int64)
        units = np.zeros((*slot.shape, self._batch.num_resources), np.int64)
        for n, agent in enumerate(self.possible_agents):
            if agent in actions:
                chosen = self._checked(agent, actions[agent])
                slot[0, n] = chosen[0] if chosen[0] < self._batch.num_slots else -1
                units[0, n] = chosen[1:]
        found = self._batch.act(slot, units)
        is_over, agents = bool(found.done[0]), self.agents
        shown, infos = self._observations(), self._infos()
        for n, agent in enumerate(agents):
            infos[agent]["outcome"] = int(found.outcome[0, n])
            if is_over:
                infos[agent]["mean_completion"] = float(found.mean_completion[0])
        rewards = {agent: float(found.reward[0, n]) for n, agent in enumerate(agents)}
        self.agents = [] if is_over else agents
        return shown, rewards, dict.fromkeys(agents, is_over), dict.fromkeys(agents, False), infos

    def _check(self, actions: object) -> None:
        """Refuse a step between episodes, and actions of nobody."""
        if not self.agents:
            raise InputError("expected reset first: no episode is under way", field="step")
        if not isinstance(actions, Mapping):
            raise InputError(f"expected actions by agent, got {shown(actions)}", field="actions")
        strange = [agent for agent in actions if agent not in self.possible_agents]
        if strange:
            known = ", ".join(self.possible_agents)
            raise InputError(f"expected agents of {known}, got {shown(strange[0])}", field="actions")

    def _checked(self, agent: str, action: Ints) -> Ints:
        found = np.asarray(action)
        if found.shape != (1 + self._batch.num_resources,) or found.dtype.kind not in "iu":
            wanted = f"{1 + self._batch.num_resources} whole numbers"
            raise InputError(
                f"expected {wanted}, got {found.dtype} of shape {found.shape}", field=f"action of {agent}"
            )
        if found.min() < 0 or found[0] > self._batch.num_slots:
            raise InputError(
                f"expected a slot from 0 to {self._batch.num_slots} and units >= 0, got {found.tolist()}",
                field=f"action of {agent}",
            )
        return found

    def _observations(self) -> dict[str, Floats32]:
        sight = self._batch.observe()
        padded = np.concatenate(
            [sight.waiting[0], np.zeros_like(sight.waiting[0, :1])]
        )  # row -1: an empty slot
        return {
            agent: np.concatenate(
                [
                    np.roll(sight.cluster[0], -n, axis=0).ravel(),
                    padded[sight.slot[0, n]].ravel(),
                    sight.running[0, n].ravel(),
                ]
            )
            for n, agent in enumerate(self.possible_agents)
            if agent in self.agents
        }

    def _infos(self) -> dict[str, Info]:
        sight, infos = self._batch.observe(), {}
        for n, agent in enumerate(self.possible_agents):
            if agent in self.agents:
                slots = np.append(sight.slot[0, n] >= 0, True).astype(np.int8)
                most, grid = sight.most[0, n], self._batch.grid
                units = [
                    (np.arange(top + 1) <= free).astype(np.int8) for top, free in zip(grid, most, strict=True)
                ]
                infos[agent] = {"action_mask": (slots, *units)}
        return infos
