"""Policy gradient of nets that pick tasks (REINFORCE with a baseline over common random numbers, as Decima trains).

Reads from top to bottom: play episodes, weigh decisions, follow the gradient, report, judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from weft import catalog
from weft.errors import WeftError
from weft.model.graph import Floats
from weft.model.problem import Problem, realise
from weft.model.schedule import Schedule
from weft.policies.checkpoint import Card, Weights
from weft.policies.picks.dispatcher import PickDispatcher, checked_shape, pick_architecture
from weft.policies.picks.forward import PickPolicy, levels_of
from weft.policies.picks.net import Moments, PickNet
from weft.policies.tensors import Array
from weft.scenarios.splits import check_training_seed
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.picks import FEATURE_VERSION, JOB, NODE, PICK, STYLES, WORLD, node_features
from weft.training.algorithms import Asked
from weft.training.first_weights import starting_weights
from weft.training.optimiser import FlatAdam, one_thread
from weft.training.ppo.validation import Validated
from weft.training.reinforce.config import PickConfig
from weft.training.reinforce.episodes import Played, advantages, play, returns
from weft.training.reinforce.recipe import PickRecipe
from weft.training.run.counts import EvenUpdates
from weft.training.run.metrics import Metric


class PickLearner(EvenUpdates):
    """Trains one net; a :class:`weft.training.run.folder.Learner`.

    What an update plays and draws depends on the seed and its number alone.
    """

    config: PickConfig

    def __init__(
        self,
        problems: Sequence[Problem],
        config: PickConfig,
        *,
        seed: int = 0,
        start: Mapping[str, Array] | None = None,
        card: Card | None = None,
    ) -> None:
        self.config, self.seed, self.problems = config, check_training_seed(seed), tuple(problems)
        shape = pick_architecture(config.style, config.hidden)
        self._card = replace(card or Card("picks", "pick-reinforce", shape), architecture=shape)
        self.net = PickNet(shape)
        self.net.initialise(torch.Generator().manual_seed(seed))
        if start is not None:
            self.net.load_weights(start)
        self._adam = FlatAdam(self.net)
        self._style = STYLES[config.style]
        self.update = 0

    @property
    def score(self) -> float | None:
        """None: a policy is judged in validation."""
        return None

    def step(self) -> dict[str, Metric]:
        """One update: play, weigh, follow the gradient, report."""
        with one_thread():
            rng = np.random.default_rng([self.seed, self.update])
            chosen = [self.problems[k] for k in rng.integers(len(self.problems), size=self.config.problems)]
            keys = rng.integers(2**52, size=len(chosen)).tolist()
            policy = PickPolicy(self.net.weights(), self.net.architecture)
            played = play(policy, chosen, self.config.rollouts, keys, rng)
            row = self._improve(chosen, played)
            self.update += 1
            return {"samples": self.samples, **row}

    # Weigh

    def _weights(self, problems: Sequence[Problem], played: Played) -> Floats:
        """What every decision is worth, in the order in which they were made."""
        config = self.config
        unit = np.repeat([float(np.mean(problem.mean_run_times)) for problem in problems], config.rollouts)
        paid = returns(played, 0 if config.reward == "jct" else 1, config.gamma, unit)
        gains = advantages(paid, config.rollouts)
        at = np.zeros(len(gains), np.int64)
        found = []
        for step in played.steps:
            found.append(np.array([gains[e][at[e]] for e in step.envs.tolist()]))
            at[step.envs] += 1
        return np.concatenate(found)

    # Follow

    def _improve(self, problems: Sequence[Problem], played: Played) -> dict[str, Metric]:
        config = self.config
        at, chosen = self.moments(played)
        gain = torch.from_numpy(self._weights(problems, played)).float()
        before = torch.from_numpy(np.concatenate([step.log_prob for step in played.steps])).float()
        features = np.concatenate([node_features(problem) for problem in problems])
        rows = torch.from_numpy(np.ascontiguousarray(features[:, self._style.node]))
        levels, place = levels_of(problems), torch.from_numpy(repeated_places(problems, config.rollouts))
        left = 1.0 - self.update / self.num_updates
        rate = config.learning_rate * (left if config.decay == "linear" else 1.0)
        for _ in range(config.passes):
            nodes, pooled = (part[place] for part in self.net.embed(rows, levels))
            log_probs = log_softmax(self.net(nodes, pooled, at), at.task_at, len(at.world))
            ratio = (log_probs[chosen] - before).exp()
            clipped = ratio.clamp(1.0 - config.clip, 1.0 + config.clip)
            entropy = -(log_probs.exp() * log_probs).sum() / len(gain)
            loss = -torch.minimum(ratio * gain, clipped * gain).mean()
            self._adam.step(loss - config.entropy_coefficient * left * entropy, rate, config.gradient_clip)
        reached, uncertain = float(loss.detach()), float(entropy.detach())
        if not np.isfinite(reached):
            raise WeftError(f"training diverged in update {self.update + 1}: lower learning_rate")
        cost = played.mean_jct if config.reward == "jct" else played.end
        return {
            "mean_cost": float(cost.mean()),
            "mean_reward": -float(cost.mean()),
            "entropy": uncertain,
            "policy_loss": reached,
            "decisions": len(gain),
            "learning_rate": rate,
        }

    def moments(self, played: Played) -> tuple[Moments, Tensor]:
        """All decisions as the net takes them, and the row of what was picked in each."""
        steps, style = played.steps, self._style
        tasks = np.cumsum([0, *(len(step.task) for step in steps)])
        jobs = np.cumsum([0, *(len(step.job) for step in steps)])
        decisions = np.cumsum([0, *(len(step.envs) for step in steps)])
        picked = np.concatenate([step.task[step.chosen] for step in steps])
        job = np.concatenate([step.job for step in steps])
        end = played.job_task_ptr[job + 1]
        table = [
            _order(picked, played.job_task_ptr),
            end - np.concatenate([step.left for step in steps]),
            end,
            np.concatenate([step.jobs[:, style.job] for step in steps]),
            np.concatenate([_rows(step.job_ptr) + d for step, d in zip(steps, decisions, strict=False)]),
            np.concatenate([step.task for step in steps]),
            np.concatenate([step.task_job + first for step, first in zip(steps, jobs, strict=False)]),
            np.concatenate([step.picks[:, style.pick] for step in steps]),
            np.concatenate([_rows(step.task_ptr) + d for step, d in zip(steps, decisions, strict=False)]),
            np.concatenate([step.world for step in steps]),
        ]
        chosen = np.concatenate([step.chosen + first for step, first in zip(steps, tasks, strict=False)])
        return Moments(*map(torch.from_numpy, table)), torch.from_numpy(chosen)

    # Report

    def policy(self) -> tuple[Weights, Card]:
        """The weights as they are now, and what they are."""
        about = {"seed": self.seed, "samples": self.samples, "config": asdict(self.config)}
        return self.net.weights(), replace(self._card, training={**self._card.training, **about})

    def state(self) -> dict[str, Array]:
        """Everything that the next update depends on."""
        net = {f"net.{name}": tensor for name, tensor in self.net.weights().items()}
        return {**net, **self._adam.state(), "update": np.array(self.update)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        own = {name.removeprefix("net."): array for name, array in state.items() if name.startswith("net.")}
        self.net.load_weights(own)
        self._adam.restore(state)
        self.update = int(state["update"])


def _rows(pointer: np.ndarray) -> np.ndarray:
    """Which segment every entry belongs to."""
    return np.repeat(np.arange(len(pointer) - 1), np.diff(pointer))


def _order(picked: np.ndarray, job_task_ptr: np.ndarray) -> np.ndarray:
    """Tasks of every job one job after the other, each job's as they were picked."""
    turn = np.zeros(len(picked), np.int64)
    turn[picked] = np.arange(len(picked))
    job = np.repeat(np.arange(len(job_task_ptr) - 1), np.diff(job_task_ptr))
    return np.lexsort((turn, job))


def repeated_places(problems: Sequence[Problem], rollouts: int) -> np.ndarray:
    """For every task of the repeated problems, the same task of the problems."""
    first = np.cumsum([0, *(problem.num_tasks for problem in problems)])
    parts = [np.arange(a, b) for a, b in pairwise(first) for _ in range(rollouts)]
    return np.concatenate(parts)


def log_softmax(scores: Tensor, segment: Tensor, count: int) -> Tensor:
    """Logarithms of the probabilities within each segment."""
    most = scores.detach().new_full((count,), -torch.inf).scatter_reduce(0, segment, scores.detach(), "amax")
    shifted = scores - most[segment]
    total = scores.new_zeros(count).index_add(0, segment, shifted.exp())
    return shifted - total.log()[segment]


# Judge


class PickJudge:
    """Problems of the validation split, and what the rules make of them."""

    def __init__(self, recipe: PickRecipe) -> None:
        self._is_jct = recipe.config.reward == "jct"
        self._problems = recipe.problems("validation", recipe.validation.seeds)
        self.points = tuple(float(k) for k in range(len(self._problems)))
        self.rules = {name: self._costs(catalog.task_dispatcher(name)) for name in recipe.validation.rules}
        """Rule -> mean job times, or makespans (num_points,)."""

    def job_times(self, weights: Weights, card: Card) -> Floats:
        policy = PickPolicy(weights, checked_shape(card))
        return self._costs(PickDispatcher(card.name, policy=policy))

    def _costs(self, dispatcher: object) -> Floats:
        found = [
            run_one(dispatcher, problem, realise(problem, k)) for k, problem in enumerate(self._problems)
        ]
        return np.array([self._cost(one) for one in found])

    def _cost(self, found: Schedule) -> float:
        return found.mean_jct if self._is_jct else found.makespan

    @property
    def reference(self) -> Floats:
        """Costs (num_points,) of the rule that is best on average."""
        return min(self.rules.values(), key=lambda costs: float(costs.mean()))

    def score(self, times: Floats) -> float:
        return -_percent(times, self.reference)

    def figures(self, times: Floats) -> dict[str, Metric]:
        above = {f"{name}_percent": _percent(times, rule) for name, rule in self.rules.items()}
        own = {"cost": float(times.mean()), "envelope_percent": _percent(times, self.reference)}
        return {**own, **above}


def _percent(times: Floats, rule: Floats) -> float:
    """Percent above the mean of a rule."""
    return 100.0 * (float(times.mean()) / float(rule.mean()) - 1.0)


def pick_card(recipe: PickRecipe) -> Card:
    """What the trained policy sees and acts on: any tasks and devices."""
    style = STYLES[recipe.config.style]
    parts = {"task": (NODE, style.node), "job": (JOB, style.job), "ready task": (PICK, style.pick)}
    names = [f"{part}: {columns[k]}" for part, (columns, used) in parts.items() for k in used]
    return Card(
        recipe.name,
        recipe.algorithm,
        pick_architecture(recipe.config.style, recipe.config.hidden),
        feature_version=FEATURE_VERSION,
        features=(*names, *(f"world: {name}" for name in WORLD)),
        training={"recipe": recipe.to_dict()},
    )


def pick_weights(recipe: PickRecipe, start: str | None) -> Weights | None:
    """What the net of a recipe begins with."""
    return starting_weights(start, pick_card(recipe))


@contextmanager
def pick_learner(recipe: PickRecipe, asked: Asked, on_notice: Callable[[str], None]) -> Iterator[Validated]:
    """A net that picks tasks, on the streams of a recipe."""
    card, weights = pick_card(recipe), pick_weights(recipe, asked.start)
    on_notice(f"drawing {recipe.streams} streams, playing {len(recipe.validation.rules)} rules")
    problems = recipe.problems("train", recipe.streams)
    learner = PickLearner(problems, recipe.config, seed=asked.seed, start=weights, card=card)
    yield Validated(learner, PickJudge(recipe), recipe.every)
