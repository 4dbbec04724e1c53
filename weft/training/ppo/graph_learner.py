"""PPO with a graph net on many problems at once: one policy for any conditional graph and cluster.

Every problem has its own best rule among some. It is imitated first, and its jobs in system (or
tasks in queues) are the unit of the problem's reward, so that no problem outweighs another. Every
arrival is credited with what a job costs under it: the reward is what the policy saves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from weft import catalog
from weft.errors import InputError
from weft.policies.checkpoint import Card
from weft.policies.graph.architecture import GraphArchitecture
from weft.policies.graph.net import GraphNet
from weft.policies.guard import LOADS
from weft.policies.tensors import Array
from weft.schedulers.dispatchers.queues import Dispatcher
from weft.sim.queues.environment import START, QueueEnv, Setup
from weft.sim.queues.graph_observation import DEVICE, KIND, PAIR, WORLD
from weft.sim.queues.kernel import JOB_TIME, NOW, QUEUE_TIME, SUM_JCT
from weft.sim.queues.layout import compile_stream, edge_probabilities, new_state
from weft.sim.queues.mixed_environment import ManyEnv
from weft.sim.queues.observation import GRAPH_FEATURES
from weft.sim.queues.rules import Rule, choose_all, run_episodes
from weft.training.environment import Floats, Ints
from weft.training.ppo.config import PPOConfig
from weft.training.ppo.learner import PPO
from weft.training.recipes import TRIALS, Recipe

HORIZON = 50.0
"""Rewards are divided by this many mean run times, so that discounted sums are about -1."""
FEATURES = (
    *(f"world: {name}" for name in WORLD),
    *(f"kind: {name}" for name in KIND),
    *(f"device: {name}" for name in DEVICE),
    *(f"pair: {name}" for name in PAIR),
)


class Judged(NamedTuple):
    """A problem with the rule that is best on it."""

    setup: Setup
    rule: Dispatcher
    mean_jct: float
    """Mean job time under the rule."""
    credit: float
    """What a job costs under the rule, as the reward counts it."""


def judge(setup: Setup, names: Sequence[str], seed: int) -> Judged:
    """The rule with the least mean job time; the reward is scaled by what it leaves in the system."""
    stream = compile_stream(setup.problem, setup.rules)
    seeds = seed * TRIALS + np.arange(TRIALS)
    best: tuple[float, float, float, Dispatcher] | None = None
    for name in names:
        dispatcher = catalog.dispatcher(name)
        if dispatcher.supports(setup.problem) is not None:
            continue
        state = new_state(stream, TRIALS, setup.arrivals.count, edge_probabilities(setup.problem))
        state.seed[:] = seeds
        state.arrival[:] = np.stack([setup.arrivals.draw(key) for key in seeds.tolist()])
        run_episodes(dispatcher.rule(setup.problem, stream, seeds), stream, state, START)
        mean_jct = float(state.total[:, SUM_JCT].mean()) / setup.arrivals.count
        counted = QUEUE_TIME if setup.reward in ("waiting", "queued") else JOB_TIME
        level = float((state.total[:, counted] / state.total[:, NOW]).mean())
        cost = float(state.total[:, counted].mean()) / setup.arrivals.count
        if best is None or mean_jct < best[0]:
            best = mean_jct, level, cost, dispatcher
    if best is None:
        raise InputError(f"none of these rules can act on {setup.problem.name!r}", field="rules")
    unit = best[1] * float(setup.problem.mean_run_times.mean()) * HORIZON
    is_counted = setup.reward != "last-jct"
    return Judged(
        replace(setup, reward_scale=1.0 / unit), best[3], best[0], best[2] / unit if is_counted else 0.0
    )


class BestRules:
    """What the best rule of every problem does; a :data:`weft.training.environment.Rule`."""

    def __init__(self, judged: Sequence[Judged]) -> None:
        self._judged = judged
        self._rules: list[Rule] = []

    def __call__(self, env: ManyEnv) -> Ints:
        """Choices (B, H) for the environments as they stand."""
        if not self._rules:
            seeds = np.arange(env.copies)
            self._rules = [
                one.rule.rule(one.setup.problem, each.stream, seeds)
                for one, each in zip(self._judged, env.envs, strict=True)
            ]
        actions = np.full((env.num_envs, env.num_heads), env.num_choices - 1, np.int64)
        for rule, (rows, each) in zip(self._rules, env.parts(), strict=True):
            chosen = _chosen(rule, each)
            num_kinds = each.stream.can_run.shape[1]
            chosen[chosen == num_kinds] = env.num_choices - 1
            actions[rows, : chosen.shape[1]] = chosen
        return actions


def _chosen(rule: Rule, env: QueueEnv) -> Ints:
    """The rule's choices (B, D), with a wait where earlier devices take all there is of a kind."""
    num_devices, num_kinds = env.stream.can_run.shape
    actions = np.zeros((env.num_envs, num_devices), np.int64)
    choose_all(rule, env.stream, env.state, actions)
    left = np.column_stack([env.state.queued, np.zeros(env.num_envs, np.int64)])
    rows = np.arange(env.num_envs)
    for p in range(num_devices):
        actions[left[rows, actions[:, p]] <= 0, p] = num_kinds
        left[rows, actions[:, p]] -= env.stream.batch[p]
        left[:, num_kinds] = 0
    return actions


class GraphPPO(PPO[ManyEnv]):
    """PPO whose net has a head per device and a choice per kind of any problem."""

    def _make_net(self) -> GraphNet:
        return GraphNet(graph_architecture(self.config), self.env.num_choices - 1, self.env.num_heads)

    def _feature_ranges(self, ranges: Floats) -> tuple[tuple[float, float], ...]:
        shape = graph_architecture(self.config)
        found: list[tuple[float, float]] = []
        for block in shape.blocks(ranges, self.env.num_choices - 1, self.env.num_heads)[:-1]:
            flat = block.reshape(2, -1, block.shape[-1])
            found += zip(flat[0].min(axis=0).tolist(), flat[1].max(axis=0).tolist(), strict=True)
        return tuple(found)


def graph_architecture(config: PPOConfig) -> GraphArchitecture:
    """The net a configuration asks for: one round of messages per hidden layer, all of one width."""
    if min(config.hidden) != max(config.hidden):
        raise InputError(f"expected equal widths for a graph net, got {list(config.hidden)}", field="hidden")
    sizes = (len(WORLD), len(KIND), len(DEVICE), len(PAIR))
    return GraphArchitecture(*sizes, hidden=config.hidden[0], rounds=len(config.hidden))


def graph_card(recipe: Recipe) -> Card:
    """What the trained policy sees and acts on: any number of kinds and devices."""
    return Card(
        recipe.name,
        "ppo",
        graph_architecture(recipe.config),
        feature_version=GRAPH_FEATURES,
        features=FEATURES,
        training={
            "sight": recipe.sight._asdict(),
            "waits": recipe.waits,
            LOADS: list(recipe.loads),
            "recipe": recipe.to_dict(),
        },
    )


def graph_learner(
    recipe: Recipe,
    seed: int,
    device: str,
    weights: Mapping[str, Array] | None,
    threads: int,
    on_notice: Callable[[str], None],
) -> GraphPPO:
    """The learner of a recipe with many problems."""
    copies, rest = divmod(recipe.config.num_envs, recipe.problems)
    if rest or not copies:
        raise InputError(
            f"expected a multiple of {recipe.problems} problems, got {recipe.config.num_envs}",
            field="num_envs",
        )
    on_notice(f"running {len(recipe.rules)} rules on {recipe.problems} problems")
    judged = [judge(recipe.problem_setup(i), recipe.rules, seed) for i in range(recipe.problems)]
    env = ManyEnv(
        [one.setup for one in judged],
        copies,
        seed,
        reference=np.array([one.mean_jct for one in judged]),
        credit=np.array([one.credit for one in judged]),
        threads=threads,
    )
    return GraphPPO(
        env,
        recipe.config,
        seed=seed,
        device=device,
        rule=BestRules(judged),
        start=weights,
        card=graph_card(recipe),
    )
