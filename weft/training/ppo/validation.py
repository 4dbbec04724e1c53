"""Judges a policy while it is trained: greedy on streams of the validation split, against the rules.

The streams are few and fixed; all of them, at every value of what varies, are played in one batch. Nothing here draws from the learner's random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from weft import catalog
from weft.errors import InputError
from weft.model.graph import Floats, Ints
from weft.policies.checkpoint import Card, Weights
from weft.policies.graph.forward import policy_of
from weft.policies.learned import Policy
from weft.policies.tensors import Array
from weft.scenarios import StreamProblem
from weft.scenarios.splits import seed_of
from weft.schedulers.dispatchers.queues import Dispatcher
from weft.sim.queues.environment import START, QueueEnv, Setup
from weft.sim.queues.kernel import COMPLETED, EXPIRED, SUM_JCT
from weft.sim.queues.layout import edge_probabilities
from weft.sim.queues.rules import choose_all, run_episodes
from weft.tables import NAMES, Rule, check, checked, number, one_of, whole
from weft.training.run.folder import Learner
from weft.training.run.metrics import Metric

EASE = 2.0
"""A point where the policy does better by this many percent is drawn e times less often."""
LEVELS = 32
"""Steps of the law from which a trailing policy's probabilities are drawn."""


UNIFORM, TRAILING = LAWS = ("uniform", "trailing")
"""How a setting is drawn for every episode; trailing: more often where the policy trails the rules."""
_NUMBERS = number().several("numbers")
_ENDS = Rule(
    "two rising numbers from 0 to 1",
    lambda x: _NUMBERS.fits(x) and len(x) == 2 and 0 <= x[0] < x[1] <= 1,
)
_POINTS = (0.0, 0.2, 0.5, 0.8, 1.0)
"""Where a policy is judged unless the recipe says so, from the lower to the upper end of the range."""


@dataclass(frozen=True)
class Vary:
    """A setting of the scenario, the probability of a branch, that is drawn anew for every episode."""

    setting: str
    law: str = checked(UNIFORM, one_of(*LAWS))
    range: tuple[float, float] = checked((0.0, 1.0), _ENDS)

    def __post_init__(self) -> None:
        check(self, "vary.")

    @property
    def middle(self) -> float:
        """What stands for the setting where one value is needed."""
        return (self.range[0] + self.range[1]) / 2

    @property
    def usual_points(self) -> tuple[float, ...]:
        """Values over the whole range."""
        low, high = self.range
        return tuple(low + share * (high - low) for share in _POINTS)


@dataclass(frozen=True)
class Validation:
    """How often a policy is judged, on what, and against whom."""

    every: int = checked(5, whole(1))
    """Updates from one time to the next; only a policy judged can become the best one."""
    seeds: int = checked(8, whole(1))
    """Streams at every point."""
    jobs: int = checked(1000, whole(1))
    """Jobs of a stream."""
    values: tuple[float, ...] = ()
    """Of what varies; none: over its whole range."""
    baselines: tuple[str, ...] = checked((), NAMES)
    """Rules the policy is compared with; none, and no envelope either: the scenario's reference schedulers."""
    envelope: tuple[str, ...] = checked((), NAMES)
    """Rules whose best at each point scores the policy; none: the baselines do."""

    def __post_init__(self) -> None:
        check(self, "validation.")

    def check_values(self, vary: Vary | None) -> None:
        """Refuse values that are not in the range of what varies, from low to high."""
        low, high = vary.range if vary else (0.0, 1.0)
        wanted = Rule(
            f"rising numbers from {low:g} to {high:g}",
            lambda x: _NUMBERS.fits(x) and sorted(x) == list(x) and low <= x[0] and x[-1] <= high,
        )
        if self.values != ():
            wanted.refuse(self.values, "validation.values")


def play(policy: Policy, env: QueueEnv) -> Floats:
    """Mean job time (num_envs,) of a policy that always takes its best choice, from here to the end."""
    ended = np.full(env.num_envs, np.nan)
    while np.isnan(ended).any():
        env.step(policy.decide_batch(env.observation, env.mask, None, env.narrow))
        ended = np.where(np.isnan(ended), env.ended, ended)
    return ended


def play_rule(rule: Dispatcher, env: QueueEnv, seeds: Ints) -> Floats:
    """The same of a rule."""
    run_episodes(rule.rule(env.setup.problem, env.stream, seeds), env.stream, env.state, START)
    ended = env.state.count[:, COMPLETED] + env.state.count[:, EXPIRED]
    return np.asarray(env.state.total[:, SUM_JCT] / ended, np.float64)


class Judge:
    """Streams to play and what the rules make of them.

    Parameters
    ----------
    setup
        The stream that is trained on.
    cases, points
        The streams to judge on, and the value of what varies in each.
    compared
        Groups of rules; the last that can act scores the policy.
    """

    def __init__(
        self,
        setup: Setup,
        cases: Sequence[StreamProblem],
        points: Sequence[float],
        num_seeds: int,
        compared: Mapping[str, Sequence[str]],
    ) -> None:
        self.points = tuple(points)
        self.probability = np.array([edge_probabilities(case.problem) for case in cases])  # (P, num_edges)
        fixed = replace(setup, problem=cases[0].problem, arrivals=cases[0].arrivals, varies=False)
        self._env = QueueEnv(fixed, len(points) * num_seeds, staggered=False)
        seeds = [seed_of("validation", k) for k in range(num_seeds)]
        self._seeds = np.tile(np.array(seeds, np.int64), len(points))  # (num_envs,)
        names = dict.fromkeys(name for group in compared.values() for name in group)
        rules = [catalog.dispatcher(name) for name in names]
        able = [rule for rule in rules if rule.supports(fixed.problem) is None]
        self.rules = {rule.name: self._rule_times(rule) for rule in able}
        """Rule -> mean job times (num_points,)."""
        groups = {key: [name for name in group if name in self.rules] for key, group in compared.items()}
        self._groups = {key: names for key, names in groups.items() if names}

    def job_times(self, weights: Weights, card: Card) -> Floats:
        self._begin()
        return self._means(play(policy_of(weights, card), self._env))

    def _rule_times(self, rule: Dispatcher) -> Floats:
        self._begin()
        return self._means(play_rule(rule, self._env, self._seeds))

    def _begin(self) -> None:
        self._env.reset(self._seeds)
        repeats = len(self._seeds) // len(self.points)
        self._env.state.probability[:] = np.repeat(self.probability, repeats, 0)

    def _means(self, values: Floats) -> Floats:
        return np.asarray(values.reshape(len(self.points), -1).mean(1), np.float64)

    @property
    def reference(self) -> Floats | None:
        """Mean job time (num_points,) of the best rule of the last group at each point; None without any."""
        return self._best(self._last) if self._groups else None

    @property
    def _last(self) -> list[str]:
        return list(self._groups.values())[-1]

    def _best(self, names: Sequence[str]) -> Floats:
        return np.asarray(np.min([self.rules[name] for name in names], axis=0), np.float64)

    def score(self, times: Floats) -> float:
        best = self.reference
        return -float(times.mean()) if best is None else -float((100.0 * (times / best - 1.0)).mean())

    def figures(self, times: Floats) -> dict[str, Metric]:
        row: dict[str, Metric] = {
            f"jct_{p:g}": float(t) for p, t in zip(self.points, times.tolist(), strict=True)
        }
        for group, names in self._groups.items():
            percent = 100.0 * (times / self._best(names) - 1.0)
            row[f"{group}_percent"] = float(percent.mean())
            row |= {f"{group}_percent_{p:g}": x for p, x in zip(self.points, percent.tolist(), strict=True)}
        return row

    def rule_to_imitate(self, num_envs: int) -> Callable[[QueueEnv], Ints]:
        """What the rule that is best at its branch probability does, in every environment."""
        if not self._groups:
            raise InputError("expected a rule that can act here, to imitate", field="validation")
        problem, stream = self._env.setup.problem, self._env.stream
        names = self._last
        made = [catalog.dispatcher(name).rule(problem, stream, np.arange(num_envs)) for name in names]
        times = np.array([self.rules[name] for name in names])  # (num_rules, num_points)
        varied = int(np.ptp(self.probability, 0).argmax())
        order = self.probability[:, varied].argsort(kind="stable")
        at = self.probability[order, varied]  # (num_points,) rising

        def act(env: QueueEnv) -> Ints:
            actions = np.zeros((len(made), num_envs, env.num_heads), np.int64)
            for rule, chosen in zip(made, actions, strict=True):
                choose_all(rule, stream, env.state, chosen)
            drawn = env.state.probability[:, varied]
            expected = np.array([np.interp(drawn, at, row[order]) for row in times])
            return actions[expected.argmin(0), np.arange(num_envs)]

        return act


class Judging(Protocol):
    """Plays a policy on points, each of which has a best rule."""

    points: tuple[float, ...]

    def job_times(self, weights: Weights, card: Card) -> Floats:
        """Mean job time (num_points,) of a policy that always takes its best choice."""

    @property
    def reference(self) -> Floats | None:
        """Mean job time (num_points,) of the best rule at each point; None without any."""

    def score(self, times: Floats) -> float:
        """How good these job times are; greater is better."""

    def figures(self, times: Floats) -> dict[str, Metric]:
        """The columns of a row."""


class Validated:
    """A learner that is judged every so often; its score is what the judge says.

    Parameters
    ----------
    trails
        The environments whose later episodes draw their probabilities more often where the policy trails
        the rules; None: no such.
    """

    def __init__(
        self, learner: Learner, judge: Judging, every: int, *, trails: QueueEnv | None = None
    ) -> None:
        self._learner, self._judge, self._every = learner, judge, every
        self._trails = trails
        self._score: float | None = None

    @property
    def update(self) -> int:
        return self._learner.update

    @property
    def num_updates(self) -> int:
        return self._learner.num_updates

    @property
    def samples(self) -> int:
        return self._learner.samples

    @property
    def num_samples(self) -> int:
        return self._learner.num_samples

    @property
    def score(self) -> float | None:
        return self._score

    def step(self) -> Mapping[str, Metric]:
        """One update, and the judgement where one is due."""
        row = self._learner.step()
        if self.update % self._every and self.update != self.num_updates:
            return row
        times = self._judge.job_times(*self._learner.policy())
        self._score, best = self._judge.score(times), self._judge.reference
        if self._trails is not None and best is not None:
            ends = self._trails.setup.low, self._trails.setup.high
            self._trails.draw_from(trailing_law(np.array(self._judge.points), times / best, ends))
        return {**row, **self._judge.figures(times)}

    def state(self) -> dict[str, Array]:
        return {**self._learner.state(), "score": np.array(np.nan if self._score is None else self._score)}

    def restore(self, state: Mapping[str, Array]) -> None:
        self._learner.restore({name: array for name, array in state.items() if name != "score"})
        score = float(state["score"])
        self._score = None if np.isnan(score) else score

    def policy(self) -> tuple[Weights, Card]:
        return self._learner.policy()


def trailing_law(points: Floats, ratio: Floats, ends: tuple[float, float] = (0.0, 1.0)) -> Floats:
    """Quantiles (LEVELS + 1,) of a law between two ends that is denser where the ratio to the rules is greater.

    Half of the mass stays uniform; the rest falls by a factor of e for every ``EASE`` percent that the
    policy does better than at its worst point.
    """
    grid = np.linspace(*ends, 201)
    regret = 100.0 * np.interp(grid, points, ratio)
    weight = np.exp((regret - regret.max()) / EASE)
    mass = 0.5 * (weight[1:] + weight[:-1])
    density = 0.5 / len(mass) + 0.5 * mass / mass.sum()
    return np.interp(np.linspace(0.0, 1.0, LEVELS + 1), np.concatenate([[0.0], density.cumsum()]), grid)
