"""Many copies of the queue view in one call: the environment learners train on.

Same-step autoreset: where an episode ends, the observation is already that of the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.arrivals import Arrivals
from weft.model.draws import ARRIVAL, EPISODE, PROBABILITY
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem
from weft.model.stream import Drift, StreamProblem
from weft.sim.jit import kernel, lean_kernel
from weft.sim.queues.drift import write_drift
from weft.sim.queues.kernel import (
    COMPLETED,
    EXPIRED,
    JOB_TIME,
    LAST_DONE,
    NOW,
    QUEUE_TIME,
    SUM_JCT,
    WAIT,
    State,
    Stream,
    advance,
    apply_action,
    begin,
    mean_age,
    num_waiting,
)
from weft.sim.queues.layout import (
    Rules,
    compile_stream,
    edge_probabilities,
    kind_names,
    new_state,
    num_branches,
)
from weft.sim.queues.observation import (
    FEATURE_VERSION,
    GRAPH_FEATURES,
    Sight,
    feature_names,
    observe,
    write_mask,
)
from weft.sim.random import keyed_uniform

REWARDS = ("queued", "in-system", "last-jct", "waiting", "mean-wait")
"""Queued tasks at the end of the interval; jobs in system; time of the last job done; queue time;
mean age of what is queued."""
LAWS = ("normal", "poisson", "periodic", "given")
"""How gaps are drawn; given: the arrivals are the same in every episode."""
START = -1.0
"""Where the clock of an episode starts."""
BUFFERS = ("observation", "mask", "reward", "done", "elapsed", "ended", "final_observation")
"""Arrays of a :class:`QueueEnv` that a step writes."""


@dataclass(frozen=True)
class Setup:
    """A stream of jobs to learn on."""

    problem: Problem
    arrivals: Arrivals
    rules: Rules = field(default_factory=Rules)
    sight: Sight = field(default_factory=Sight)
    waits: bool = False
    """Whether the last choice waits for the next event instead of idling."""
    reward: str = "queued"
    reward_scale: float = 1e-3
    low: float = 0.0
    """The tracked branch's first probability is drawn from [low, high] for every episode;"""
    high: float = 0.0
    """low = high keeps it fixed."""
    varies: bool = False
    """Whether that probability is drawn at all, or the graph's own holds."""
    drift: Drift = field(default_factory=Drift)
    """How that probability changes while jobs arrive."""
    narrows: bool = False
    """Whether devices choose one after another, each from what those before it have left."""

    def __post_init__(self) -> None:
        if self.reward not in REWARDS:
            raise InputError(f"expected one of {', '.join(REWARDS)}, got {self.reward!r}", field="reward")
        if not 0 <= self.low <= self.high <= 1:
            raise InputError(f"expected 0 <= low <= high <= 1, got {self.low} and {self.high}", field="low")
        if self.sight.forget and not self.rules.forget:
            object.__setattr__(self, "rules", replace(self.rules, forget=self.sight.forget))
        if self.drift.num_knots and not any(job.graph.is_conditional for job in self.problem.jobs):
            raise InputError(
                f"expected none for a graph without branches, got {self.drift.kind}", field="drift"
            )


def setup_of(
    case: StreamProblem, sight: Sight | None = None, *, waits: bool = False, narrows: bool = False
) -> Setup:
    """A described stream as the simulator takes it, for a policy that sees this much."""
    rules = rules_of(case)
    return Setup(
        case.problem, case.arrivals, rules, sight or Sight(), waits, drift=case.drift, narrows=narrows
    )


def rules_of(case: StreamProblem, sight: Sight | None = None) -> Rules:
    """The rules of a described stream; where it leaves estimates to the policy, as this one sees it."""
    forget = case.forget or (sight.forget if sight else 0.0)
    return Rules(case.expiry, case.idle_block, forget, case.peeks, case.tracked)


Floats32 = npt.NDArray[np.float32]


class Episodes(NamedTuple):
    """What episodes are drawn from; ``number`` counts on in place."""

    number: Ints  # (num_envs,) of the episode
    origin: Ints  # (num_envs, 2) seed, number of the environment among those of this seed
    gaps: Floats  # (3,) between arrivals: mean, spread, place in ``LAWS``
    law: Floats  # quantiles at equal steps of the first probability of ``edges``
    edges: Ints  # first and second of a branch, or none
    drift: Floats
    jobs: int  # in a whole episode


class Terms(NamedTuple):
    """What a decision means and is worth."""

    waits: bool
    reward: int  # place in ``REWARDS``
    scale: float


class Buffers(NamedTuple):
    """What a step writes; ``ended`` and ``final`` are the mean job time and last observation of ended episodes."""

    observation: Floats32  # (num_envs, num_features)
    mask: Bools  # (num_envs, num_heads, num_choices)
    reward: Floats32  # (num_envs,)
    done: Bools  # (num_envs,)
    elapsed: Floats32  # (num_envs,)
    ended: Floats32  # (num_envs,)
    final: Floats32  # (num_envs, num_features)


@lean_kernel
def _draw_episode(s: State, b: int, drawn: Episodes) -> None:
    """Key, probability and arrivals of one episode; a draw depends on nothing else."""
    origin, gaps, law, edges = drawn.origin[b], drawn.gaps, drawn.law, drawn.edges
    key = np.int64(keyed_uniform(origin[0], EPISODE, origin[1], drawn.number[b], 0, 0) * 2.0**52)
    s.seed[b] = key
    if len(edges) > 0:
        level = keyed_uniform(key, PROBABILITY, 0, 0, 0, 0) * (len(law) - 1)
        k = np.int64(min(level, len(law) - 2.0))
        p = law[k] + (law[k + 1] - law[k]) * (level - k)
        s.probability[b, edges[0]] = p
        s.probability[b, edges[1]] = 1.0 - p
    if gaps[2] == 3.0:
        return
    time = 0.0
    for job in range(s.jobs[b]):
        if gaps[2] == 2.0:
            time += gaps[0]
        else:
            first = keyed_uniform(key, ARRIVAL, job, 0, 0, 0)
            if gaps[2] == 1.0:
                time -= gaps[0] * np.log1p(-first)
            else:
                second = keyed_uniform(key, ARRIVAL, job, 0, 0, 1)
                time += gaps[0] + gaps[1] * np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second)
        at = job
        while at > 0 and s.arrival[b, at - 1] > time:
            s.arrival[b, at] = s.arrival[b, at - 1]
            at -= 1
        s.arrival[b, at] = time


@lean_kernel
def _start_all(stream: Stream, sight: Sight, s: State, drawn: Episodes, out: Buffers) -> None:
    for b in range(len(drawn.number)):
        _draw_episode(s, b, drawn)
        write_drift(stream, s, b, drawn.drift)
        begin(stream, s, b, START)
        observe(stream, sight, s, b, out.observation[b])
        write_mask(stream, s, b, out.mask[b])


@lean_kernel
def _reward(
    s: State, b: int, kind: int, passed: float, job_time: float, queue_time: float, completed: int
) -> float:
    """What a step was worth: the times are the totals, and the number that of the jobs, before it."""
    if kind == 0:
        return -passed * num_waiting(s, b)
    if kind == 1:
        return job_time - s.total[b, JOB_TIME]
    if kind == 3:
        return queue_time - s.total[b, QUEUE_TIME]
    if kind == 4:
        return -mean_age(s, b)
    if s.count[b, COMPLETED] > completed:
        job = s.count[b, LAST_DONE]
        return s.arrival[b, job] - s.finish[b, job]
    return 0.0


@kernel
def _step_all(
    stream: Stream, sight: Sight, s: State, drawn: Episodes, terms: Terms, actions: Ints, out: Buffers
) -> None:
    """One decision in every environment; an episode that ends is followed by the next in the same step."""
    num_devices, num_kinds = stream.can_run.shape
    action = np.empty(num_devices, np.int64)
    for b in range(len(drawn.number)):
        before, job_time, queue_time = s.total[b, NOW], s.total[b, JOB_TIME], s.total[b, QUEUE_TIME]
        expired, completed = s.count[b, EXPIRED], s.count[b, COMPLETED]
        for p in range(num_devices):
            idles = actions[b, p] >= num_kinds
            action[p] = WAIT if idles and terms.waits else actions[b, p]
        apply_action(stream, s, b, action)
        is_over = advance(stream, s, b)
        passed = s.total[b, NOW] - before
        value = _reward(s, b, terms.reward, passed, job_time, queue_time, completed)
        out.reward[b] = value * terms.scale - (1.0 if s.count[b, EXPIRED] > expired else 0.0)
        out.done[b] = is_over
        out.elapsed[b] = passed
        out.ended[b] = np.nan
        if is_over and not s.overflow[b]:
            out.ended[b] = s.total[b, SUM_JCT] / max(1, s.count[b, COMPLETED] + s.count[b, EXPIRED])
            observe(stream, sight, s, b, out.final[b])
            drawn.number[b] += 1
            s.jobs[b] = drawn.jobs
            _draw_episode(s, b, drawn)
            write_drift(stream, s, b, drawn.drift)
            begin(stream, s, b, START)
        observe(stream, sight, s, b, out.observation[b])
        write_mask(stream, s, b, out.mask[b])


class Narrowing:
    """Rules out, for the devices that choose next, kinds whose queues those before them have emptied."""

    def __init__(self, stream: Stream, state: State) -> None:
        self._stream, self._state = stream, state
        self._left = state.queued.copy()  # (num_envs, num_kinds)

    def __call__(self, mask: Bools, head: int, choices: Ints) -> None:
        """Narrow ``mask`` (num_envs, H, K) after device ``head`` made its ``choices`` (num_envs,)."""
        num_kinds = self._left.shape[1]
        if head == 0:
            self._left[:] = self._state.queued
        starts = np.flatnonzero((choices >= 0) & (choices < num_kinds))
        self._left[starts, choices[starts]] -= self._stream.batch[head]
        mask[:, head + 1 :, :num_kinds] &= (self._left > 0)[:, None]


class QueueEnv:
    """A batch of streams; see :class:`Setup`. Buffers are updated in place by ``reset`` and ``step``."""

    num_agents = 1

    def __init__(self, setup: Setup, num_envs: int, seed: int = 0, *, staggered: bool = True) -> None:
        self.setup = setup
        self.stream = compile_stream(setup.problem, setup.rules)
        self.num_envs = num_envs
        num_devices, num_kinds = self.stream.can_run.shape
        sight = setup.sight
        self.num_heads = max(num_devices, sight.room_devices) if sight.graph else num_devices
        self.num_choices = (max(num_kinds, sight.room_kinds) if sight.graph else num_kinds) + 1
        self.feature_names = feature_names(
            sight, list(kind_names(setup.problem)), num_devices, num_branches(self.stream)
        )
        self.num_features = len(self.feature_names)
        self.feature_version = GRAPH_FEATURES if sight.graph else FEATURE_VERSION
        self.observation = np.zeros((num_envs, self.num_features), np.float32)
        self.mask = np.zeros((num_envs, self.num_heads, self.num_choices), np.bool_)
        self.reward = np.zeros(num_envs, np.float32)
        self.done = np.zeros(num_envs, np.bool_)
        self.elapsed = np.zeros(num_envs, np.float32)
        self.ended = np.zeros(num_envs, np.float32)
        self.final_observation = np.zeros((num_envs, self.num_features), np.float32)
        self._episode = np.zeros(num_envs, np.int64)
        self._origin = np.zeros((num_envs, 2), np.int64)  # seed, number among those of the seed
        self._staggered = staggered
        self._state = new_state(
            self.stream,
            num_envs,
            setup.arrivals.count,
            edge_probabilities(setup.problem),
            knots=setup.drift.num_knots,
        )
        law = setup.arrivals.kind if setup.arrivals.kind in LAWS else "given"
        if law == "given":
            self._state.arrival[:] = setup.arrivals.draw(seed)
        self._gaps = np.array([setup.arrivals.gap, setup.arrivals.spread, float(LAWS.index(law))])
        self._drift = setup.drift.law
        self._law = np.array([setup.low, setup.high])
        self._edges = _varied_edges(self.stream) if setup.varies else np.zeros(0, np.int64)
        self.narrow = Narrowing(self.stream, self._state) if setup.narrows else None
        self.reset(seed)

    def reset(self, seed: int | Ints | None) -> None:
        """Restart every environment; with staggering, first episodes have different lengths.

        A number seeds them all, and each draws its own episodes; an array gives each the seed it
        would have alone; None goes on to the next episode of each.
        """
        if seed is None:
            self._episode += 1
        else:
            self._episode[:] = 0
            self._origin[:, 0] = seed
            self._origin[:, 1] = np.arange(self.num_envs) if np.ndim(seed) == 0 else 0
        jobs = self.setup.arrivals.count
        self._state.jobs[:] = jobs
        if self._staggered:
            self._state.jobs[:] = np.maximum(1, jobs * np.arange(1, self.num_envs + 1) // self.num_envs)
        _start_all(self.stream, self.setup.sight, self._state, self._drawn, self._out)

    @property
    def _drawn(self) -> Episodes:
        count = self.setup.arrivals.count
        return Episodes(
            self._episode, self._origin, self._gaps, self._law, self._edges, self._drift, count
        )  # fmt: skip

    @property
    def _out(self) -> Buffers:
        return Buffers(
            self.observation, self.mask, self.reward, self.done, self.elapsed, self.ended, self.final_observation
        )  # fmt: skip

    def step(self, actions: Ints) -> tuple[np.ndarray, np.ndarray]:
        """One decision everywhere; returns reward and done."""
        setup = self.setup
        terms = Terms(setup.waits, REWARDS.index(setup.reward), setup.reward_scale)
        _step_all(self.stream, setup.sight, self._state, self._drawn, terms, actions, self._out)
        if self._state.overflow.any():
            raise InputError("more jobs at once than the environment has room for", field="arrivals")
        return self.reward, self.done

    def report(self) -> dict[str, float | None]:
        """Nothing: ``ended`` has the job times of single episodes."""
        return {}

    def draw_from(self, quantiles: Floats) -> None:
        """Draw the varied probability of later episodes from the law with these quantiles.

        They lie at equal steps from 0 to 1; in between the quantile function is linear.
        """
        self._law = np.array(quantiles, np.float64)

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """A copy of everything that changes."""
        arrays = {f"state.{name}": value.copy() for name, value in self._state._asdict().items()}
        for name in BUFFERS:
            arrays[name] = getattr(self, name).copy()
        arrays["law"] = self._law.copy()
        arrays["episode"] = self._episode.copy()
        arrays["origin"] = self._origin.copy()
        return arrays

    def restore(self, snapshot: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go back to a snapshot."""
        for name, value in self._state._asdict().items():
            value[...] = snapshot[f"state.{name}"]
        for name in BUFFERS:
            getattr(self, name)[...] = snapshot[name]
        self._law = snapshot["law"].astype(np.float64)
        self._episode[...] = snapshot["episode"]
        self._origin[...] = snapshot["origin"]

    def adopt(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write into these arrays from now on: buffers by name, arrays of the state as ``state.NAME``."""
        for name, array in arrays.items():
            if name.startswith("state."):
                field_name = name.removeprefix("state.")
                array[...] = getattr(self._state, field_name)
                self._state = self._state._replace(**{field_name: array})
            else:
                array[...] = getattr(self, name)
                setattr(self, name, array)

    @property
    def state(self) -> Any:
        """The kernel's state, for rules and statistics."""
        return self._state


def _varied_edges(stream: Stream) -> Ints:
    """The two edges of the first tracked branch."""
    edges = np.flatnonzero(stream.choice == 0)
    if len(edges) != 2:
        raise InputError(f"expected a tracked branch of two edges to vary, got {len(edges)}", field="tracked")
    return edges.astype(np.int64)
