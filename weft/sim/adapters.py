"""Streams of jobs as environments of other learners: Gymnasium (one or many) and PettingZoo.

All three stand on :class:`weft.sim.queues.environment.QueueEnv`, the first two also on
:class:`weft.sim.tasks.environment.TaskEnv`. The same seed gives the same episodes in each of them. A choice
that the mask rules out starts nothing: the device stays free until the next event.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from weft.errors import InputError, MissingExtra
from weft.model.graph import Bools, Floats, Ints
from weft.sim.queues.environment import QueueEnv, Setup
from weft.sim.queues.kernel import WAIT
from weft.sim.queues.layout import kind_names
from weft.sim.tasks.candidates import MOST
from weft.sim.tasks.environment import TaskEnv, TaskSetup

try:
    import gymnasium
    from gymnasium.spaces import Box, Discrete, MultiDiscrete
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
    from pettingzoo import ParallelEnv  # type: ignore[import-untyped]
except ImportError as missing:
    raise MissingExtra(missing.name or "gymnasium", "rl", "an environment for other learners") from None

Floats32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.int8]
Info = dict[str, Any]
KINDS = ("single", "vector", "agents")


@overload
def make(setup: Setup | TaskSetup, kind: Literal["single"] = "single") -> StreamEnv: ...
@overload
def make(setup: Setup | TaskSetup, kind: Literal["vector"], num_envs: int = 1) -> StreamVectorEnv: ...
@overload
def make(setup: Setup | TaskSetup, kind: Literal["agents"]) -> DeviceAgentsEnv: ...
def make(
    setup: Setup | TaskSetup, kind: str = "single", num_envs: int = 1
) -> StreamEnv | StreamVectorEnv | DeviceAgentsEnv:
    """The stream as an environment: ``single``, ``vector`` (of ``num_envs``) or ``agents`` (of queues alone)."""
    if kind == "single":
        return StreamEnv(setup)
    if kind == "vector":
        return StreamVectorEnv(setup, num_envs)
    if kind == "agents":
        if isinstance(setup, TaskSetup):
            raise InputError("expected single or vector: no device decides about single tasks", field="kind")
        return DeviceAgentsEnv(setup)
    raise InputError(f"expected one of {', '.join(KINDS)}, got {kind!r}", field="kind")


class StreamEnv(gymnasium.Env[Floats32, Ints]):
    """One stream of jobs. On queues an action names for every device the kind it starts, or idle (last).

    On single tasks an action is one number: the candidate that starts, or wait (last).
    ``action_masks()`` is the flat mask that sb3-contrib asks for. ``info["action_mask"]`` is what
    ``action_space.sample`` takes. The ``info`` of the last step has ``mean_jct``.
    """

    metadata: Info = {"render_modes": []}  # noqa: RUF012  as Gymnasium declares it

    def __init__(self, setup: Setup | TaskSetup) -> None:
        self._streams = _batch(setup, 1)
        self.observation_space = _observation_space(self._streams)
        self.action_space = _action_space(self._streams)
        self.feature_names, self.choice_names = tuple(self._streams.feature_names), _choice_names(setup)
        self._mask = self._streams.mask[0].copy()  # (H, K)
        self._is_seeded = False
        self._has_next = False

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Floats32, Info]:
        """The first episode of a seed, or the next one; without any seed ever, one by chance."""
        super().reset(seed=seed)
        if seed is not None or not self._is_seeded:
            self._streams.reset(_seeds(seed, 1))
        elif not self._has_next:
            self._streams.reset(None)
        self._is_seeded, self._has_next = True, False
        self._mask = self._streams.mask[0].copy()
        return self._streams.observation[0].copy(), {"action_mask": self._shown_mask()}

    def step(self, action: Ints) -> tuple[Floats32, float, bool, bool, Info]:
        """One decision for all free devices; entries of busy ones count for nothing."""
        reward, done = self._streams.step(_allowed(self._streams, np.asarray(action)[None]))
        self._has_next = is_over = bool(done[0])
        self._mask = _idle_only(self._mask) if is_over else self._streams.mask[0].copy()
        info: Info = {"action_mask": self._shown_mask()}
        if is_over:
            info["mean_jct"] = float(self._streams.ended[0])
        shown = self._streams.final_observation if is_over else self._streams.observation
        return shown[0].copy(), float(reward[0]), is_over, False, info

    def action_masks(self) -> Bools:
        """Which choices are allowed now, device after device; (H * K,)."""
        return self._mask.reshape(-1).copy()

    def _shown_mask(self) -> Flags | tuple[Flags, ...]:
        """The mask as the action space samples with it."""
        flags = self._mask.astype(np.int8)
        return flags[0] if isinstance(self._streams, TaskEnv) else tuple(flags)


class StreamVectorEnv(VectorEnv[Floats32, Ints, Any]):
    """Many streams in one call; where an episode ends, the next one is shown in the same step.

    Environment i of seed s has the episodes of a :class:`StreamEnv` of seed s + i.
    ``infos["action_mask"]`` has shape (num_envs, H, K); ``final_obs`` and ``final_info`` hold what
    ended episodes showed last.
    """

    metadata: Info = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, setup: Setup | TaskSetup, num_envs: int) -> None:
        if num_envs < 1:
            raise InputError(f"expected a whole number >= 1, got {num_envs}", field="num_envs")
        self._streams = _batch(setup, num_envs)
        self.num_envs = num_envs
        self.single_observation_space = _observation_space(self._streams)
        self.single_action_space = _action_space(self._streams)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.feature_names, self.choice_names = tuple(self._streams.feature_names), _choice_names(setup)
        self._is_seeded = False

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: Info | None = None
    ) -> tuple[Floats32, Info]:
        """The first episodes of the seeds, or the next ones; without any seed ever, some by chance."""
        super().reset(seed=_first(seed))
        if seed is not None or not self._is_seeded:
            self._streams.reset(_seeds(seed, self.num_envs))
        else:
            self._streams.reset(None)
        self._is_seeded = True
        return self._streams.observation.copy(), self._infos()

    def step(self, actions: Ints) -> tuple[Floats32, Floats, Bools, Bools, Info]:
        """One decision in every stream."""
        reward, done = self._streams.step(_allowed(self._streams, np.asarray(actions)))
        infos = self._infos()
        if done.any():
            infos |= self._final_infos(done)
        truncated = np.zeros(self.num_envs, np.bool_)
        return self._streams.observation.copy(), reward.astype(np.float64), done.copy(), truncated, infos

    def action_masks(self) -> Bools:
        """Which choices are allowed now, device after device; (num_envs, H * K)."""
        return self._streams.mask.reshape(self.num_envs, -1).copy()

    def _infos(self) -> Info:
        has_mask = np.ones(self.num_envs, np.bool_)
        return {"action_mask": self._shaped(self._streams.mask), "_action_mask": has_mask}

    def _shaped(self, mask: Bools) -> Flags:
        """Masks as infos hold them: (num_envs, H, K), of single tasks (num_envs, K)."""
        flags = mask.astype(np.int8)
        return flags[:, 0] if isinstance(self._streams, TaskEnv) else flags

    def _final_infos(self, done: Bools) -> Info:
        """Last observations and figures of the episodes that ended, in Gymnasium's layout."""
        final = np.full(self.num_envs, None, dtype=object)
        for b in np.flatnonzero(done):
            final[b] = self._streams.final_observation[b].copy()
        masks = np.zeros_like(self._streams.mask)
        masks[done, :, -1] = True
        info = {"mean_jct": np.where(done, self._streams.ended, 0.0), "action_mask": self._shaped(masks)}
        info |= {f"_{name}": done.copy() for name in tuple(info)}
        return {"final_obs": final, "_final_obs": done.copy(), "final_info": info, "_final_info": done.copy()}


class DeviceAgentsEnv(ParallelEnv[str, Floats32, int]):  # type: ignore[misc]
    """One stream in which every device is an agent; all see the same and share the reward.

    Free devices decide at once; a busy one can only idle. ``infos[agent]["action_mask"]`` is what
    ``action_space(agent).sample`` takes.
    """

    metadata: Info = {"name": "weft_stream_v1", "render_modes": []}  # noqa: RUF012

    def __init__(self, setup: Setup) -> None:
        self._single = StreamEnv(setup)
        self.render_mode = None
        self.possible_agents = _device_names(setup)
        self.agents: list[str] = []
        num_features, self._num_choices = len(self._single.feature_names), len(self._single.choice_names)
        self.observation_spaces = dict.fromkeys(self.possible_agents, self._single.observation_space)
        self.action_spaces = {name: Discrete(self._num_choices) for name in self.possible_agents}
        self._shown: Floats32 = np.zeros(num_features, np.float32)

    def observation_space(self, agent: str) -> Box[np.float32]:
        """The same for all agents."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete[np.int64]:
        """Kinds in the order of the queues, then idle."""
        return self.action_spaces[agent]

    def state(self) -> Floats32:
        """What all agents see."""
        return self._shown.copy()

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Floats32], dict[str, Info]]:
        """The first episode of a seed, or the next one."""
        self._shown, info = self._single.reset(seed=seed)
        self.agents = list(self.possible_agents)
        return self._observations(), self._agent_infos(info)

    def step(
        self, actions: dict[str, int]
    ) -> tuple[dict[str, Floats32], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]]:
        """One decision for all free devices; an agent without an action idles."""
        idle = self._num_choices - 1
        action = np.array([actions.get(agent, idle) for agent in self.possible_agents])
        self._shown, reward, is_over, _, info = self._single.step(action)
        shown, infos = self._observations(), self._agent_infos(info)
        agents = self.agents
        self.agents = [] if is_over else agents
        return (
            shown, dict.fromkeys(agents, reward), dict.fromkeys(agents, is_over), dict.fromkeys(agents, False), infos,
        )  # fmt: skip

    def _observations(self) -> dict[str, Floats32]:
        return {agent: self._shown.copy() for agent in self.agents}

    def _agent_infos(self, info: Info) -> dict[str, Info]:
        masks = zip(self.possible_agents, info["action_mask"], strict=True)
        return {agent: {**info, "action_mask": mask} for agent, mask in masks}


def _batch(setup: Setup | TaskSetup, num_envs: int) -> QueueEnv | TaskEnv:
    if isinstance(setup, TaskSetup):
        return TaskEnv(setup, num_envs, shared=True)
    return QueueEnv(setup, num_envs, staggered=False)


def _observation_space(streams: QueueEnv | TaskEnv) -> Box[np.float32]:
    """On queues no feature is negative, and ages have no upper limit; candidates have bounded ones."""
    low, high = (-MOST, MOST) if isinstance(streams, TaskEnv) else (0.0, np.inf)
    return Box(low, high, (streams.num_features,), np.float32)


def _action_space(streams: QueueEnv | TaskEnv) -> Any:
    if isinstance(streams, TaskEnv):
        return Discrete(streams.num_choices)
    return MultiDiscrete([streams.num_choices] * streams.num_heads)


def _choice_names(setup: Setup | TaskSetup) -> tuple[str, ...]:
    if isinstance(setup, Setup):
        return (*kind_names(setup.problem), "idle")
    return (*(f"candidate {k}" for k in range(setup.sight.num_choices - 1)), "wait")


def _device_names(setup: Setup) -> list[str]:
    """One name per device of the stream: a device with several slots stands there several times."""
    cluster = setup.problem.cluster
    names: list[str] = []
    for name, slots in zip(cluster.device_names, cluster.slots.tolist(), strict=True):
        names += [name] if slots == 1 else [f"{name}/{slot}" for slot in range(slots)]
    return names


def _first(seed: int | list[int | None] | None) -> int | None:
    return seed[0] if isinstance(seed, list) else seed


def _seeds(seed: int | list[int | None] | None, count: int) -> Ints:
    """One seed per environment; what is not given is left to chance, as Gymnasium does."""
    if isinstance(seed, int | np.integer):
        return seed + np.arange(count, dtype=np.int64)
    chance = np.random.SeedSequence().generate_state(count).astype(np.int64)
    if seed is None:
        return chance
    if len(seed) != count:
        raise InputError(f"expected {count} seeds, got {len(seed)}", field="seed")
    return np.array([c if s is None else s for s, c in zip(seed, chance, strict=True)], np.int64)


def _allowed(streams: QueueEnv | TaskEnv, actions: npt.NDArray[Any]) -> Ints:
    """The actions (num_envs, H), with a wait where the mask rules one out; where there is none, the first."""
    is_pointer = isinstance(streams, TaskEnv)
    shape = streams.mask.shape[: 1 if is_pointer else 2]
    if actions.shape != shape or actions.dtype.kind not in "iu":
        raise InputError(
            f"expected whole numbers of shape {shape}, got {actions.dtype} of shape {actions.shape}",
            field="action",
        )
    if actions.min() < 0 or actions.max() >= streams.num_choices:
        raise InputError(
            f"expected choices in 0..{streams.num_choices - 1}, got {actions.tolist()}", field="action"
        )
    actions = actions.astype(np.int64).reshape(streams.mask.shape[:2])
    is_allowed = np.take_along_axis(streams.mask, actions[:, :, None], 2)[:, :, 0]
    last = np.where(streams.mask[:, :, -1], streams.num_choices - 1, 0)
    return np.where(is_allowed, actions, last if is_pointer else WAIT)


def _idle_only(mask: Bools) -> Bools:
    """The mask of an episode that is over."""
    only = np.zeros_like(mask)
    only[:, -1] = True
    return only
