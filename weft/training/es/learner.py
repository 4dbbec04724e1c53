"""Weights of a rule of the task view tuned by CMA-ES: whole episodes in the kernel, on common draws.

A vector costs the mean logarithm of its mean job time over that of the rule the search began with, problem by
problem, so that no load or cluster outweighs another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from weft import catalog
from weft.model.graph import Floats
from weft.model.problem import Problem, realise
from weft.policies.checkpoint import Card, Weights
from weft.policies.tensors import Array
from weft.policies.weights.architecture import TENSOR, WeightsArchitecture
from weft.policies.weights.dispatcher import dispatcher_of
from weft.schedulers.dispatchers.tasks import RuleDispatcher, TaskDispatcher, run_one
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state
from weft.sim.tasks.rules import LATE, TaskRule, run_tasks
from weft.sim.tasks.state import Facts, Tasks, TaskState
from weft.sim.tasks.weights import NAMES, NUM_WEIGHTS, PRICED, SRW, VERSION
from weft.training.algorithms import Asked
from weft.training.es.cma import CMAES
from weft.training.es.config import ESConfig
from weft.training.es.recipe import WeightsRecipe
from weft.training.first_weights import starting_weights
from weft.training.ppo.validation import Validated
from weft.training.run.metrics import Metric

BEGIN = {"priced": PRICED, "srw": SRW}
FAILED = 10.0
"""Cost of a vector that does not end its jobs."""


class Episode(NamedTuple):
    """One problem, ready to be played again and again."""

    w: Tasks
    f: Facts
    s: TaskState
    rule: TaskRule
    reference: float
    """Mean job time of the rule that the search began with."""


def made_ready(problem: Problem, key: int, begin: Floats) -> Episode:
    """A problem with what happens in it, for rules by weights."""
    w = compile_tasks([problem])
    f, s = facts_of([realise(problem, key)], w), new_task_state(w)
    rule = RuleDispatcher("es", LATE, weights=tuple(begin.tolist())).prepare([problem], s, [0])
    episode = Episode(w, f, s, rule, 1.0)
    return episode._replace(reference=job_time(episode, begin))


def job_time(episode: Episode, weights: Floats) -> float:
    """Mean job time under weights; not a number where jobs do not end."""
    run_tasks(episode.rule._replace(weights=weights), episode.w, episode.f, episode.s)
    return float((episode.s.job_finish - episode.w.job_release).mean())


class RuleES:
    """A :class:`weft.training.run.folder.Learner` whose updates are generations.

    Parameters
    ----------
    problem
        Problem of a number.
    start
        Weights to begin with, in place of those of a rule.
    threads
        Problems that are played at a time; changes nothing but the time it takes.
    """

    def __init__(
        self, problem: Callable[[int], Problem], config: ESConfig, card: Card, *, streams: int = 512,
        seed: int = 0, start: Weights | None = None, threads: int = 1,
    ) -> None:  # fmt: skip
        self._problem, self._config, self._card, self._streams = problem, config, card, streams
        self._begin = np.array(BEGIN[config.begin]) if start is None else start[TENSOR].astype(np.float64)
        self._free = np.array([not config.free or name in config.free for name in NAMES])
        self._seed = seed
        self._search = CMAES(
            self._begin[self._free], config.sigma, np.ones(int(self._free.sum())), config.population, seed
        )
        self._pool = ThreadPoolExecutor(threads)

    @property
    def update(self) -> int:
        return self._search.generation

    @property
    def num_updates(self) -> int:
        return self._config.generations

    @property
    def samples(self) -> int:
        return self.update * self._config.population * self._config.episodes

    @property
    def num_samples(self) -> int:
        return self.num_updates * self._config.population * self._config.episodes

    @property
    def score(self) -> float | None:
        return None

    def step(self) -> Mapping[str, Metric]:
        """One generation."""
        vectors = self._whole(self._search.ask())
        first = self._search.generation * self._config.episodes
        numbers = range(first, first + self._config.episodes)
        logs = np.array(list(self._pool.map(lambda number: self._play(number, vectors), numbers)))
        costs = logs.mean(axis=0)
        self._search.tell(costs)
        percent = 100.0 * np.expm1(costs)
        return {
            "samples": self.samples,
            "generation": self.update,
            "percent": float(percent.mean()),
            "best_percent": float(percent.min()),
            "sigma": self._search.sigma,
        }

    def _play(self, number: int, vectors: Floats) -> Floats:
        """Logarithms of job times over the reference (population,) on one problem."""
        key = self._seed * 1_000_003 + number
        episode = made_ready(self._problem((self._seed * 7919 + number) % self._streams), key, self._begin)
        times = np.array([job_time(episode, vector) for vector in vectors])
        return np.where(np.isfinite(times), np.log(times / episode.reference), FAILED)

    def _whole(self, vectors: Floats) -> Floats:
        """All weights (..., NUM_WEIGHTS) of those that are tuned."""
        whole = np.broadcast_to(self._begin, (*vectors.shape[:-1], NUM_WEIGHTS)).copy()
        whole[..., self._free] = vectors
        return whole

    def policy(self) -> tuple[Weights, Card]:
        """The mean of the search's law: better than any one vector that was drawn."""
        return {TENSOR: self._whole(self._search.best).astype(np.float32)}, self._card

    def state(self) -> dict[str, Array]:
        return {f"search.{name}": array for name, array in self._search.state().items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        self._search.restore({name.removeprefix("search."): array for name, array in state.items()})

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


class WeightsJudge:
    """Problems of the validation split, and what rules make of them."""

    def __init__(self, recipe: WeightsRecipe) -> None:
        count = recipe.validation.seeds * len(recipe.cells)
        self._problems = [recipe.problem("validation", number) for number in range(count)]
        self.points = tuple(float(k) for k in range(count))
        names = recipe.validation.rules
        self.rules = {name: job_times(catalog.task_dispatcher(name), self._problems) for name in names}
        """Rule -> mean job times (num_points,)."""

    def job_times(self, weights: Weights, card: Card) -> Floats:
        return job_times(dispatcher_of(card.name, weights, card), self._problems)

    @property
    def reference(self) -> Floats:
        """Mean job times (num_points,) of the rule that is best."""
        return min(self.rules.values(), key=lambda times: float(np.log(times).mean()))

    def score(self, times: Floats) -> float:
        return -percent_above(times, self.reference)

    def figures(self, times: Floats) -> dict[str, Metric]:
        above = {f"{name}_percent": percent_above(times, rule) for name, rule in self.rules.items()}
        return {"envelope_percent": percent_above(times, self.reference), **above}


def job_times(dispatcher: TaskDispatcher | RuleDispatcher, problems: Sequence[Problem]) -> Floats:
    """Mean job time on each problem."""
    found = [run_one(dispatcher, problem, realise(problem, k)) for k, problem in enumerate(problems)]
    return np.array([one.mean_jct for one in found])


def percent_above(times: Floats, rule: Floats) -> float:
    """Percent above a rule, by the mean logarithm of ratios."""
    return float(100.0 * np.expm1(np.log(times / rule).mean()))


def weights_card(recipe: WeightsRecipe) -> Card:
    """What the weights are."""
    return Card(
        recipe.name,
        recipe.algorithm,
        WeightsArchitecture(NUM_WEIGHTS),
        feature_version=VERSION,
        features=NAMES,
        training={"recipe": recipe.to_dict()},
    )


@contextmanager
def weights_learner(
    recipe: WeightsRecipe, asked: Asked, on_notice: Callable[[str], None]
) -> Iterator[Validated]:
    """The search of a recipe, judged on the validation split."""
    card = weights_card(recipe)
    start = starting_weights(asked.start, card)
    on_notice(f"playing {len(recipe.validation.rules)} rules on the validation split")
    learner = RuleES(
        lambda number: recipe.problem(recipe.split, number), recipe.config, card,
        streams=recipe.streams, seed=asked.seed, start=start, threads=asked.threads or 1,
    )  # fmt: skip
    try:
        yield Validated(learner, WeightsJudge(recipe), recipe.every)
    finally:
        learner.close()
