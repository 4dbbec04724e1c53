"""Weights of a rule of the task view tuned by CMA-ES: whole episodes in the kernel, on common draws.

A vector costs the mean logarithm of its mean job time over that of the rule the search began with, problem by
problem, so that no load or cluster outweighs another. An objective may add the logarithms of energy and unfairness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from weft import catalog
from weft.model.bounds import shortest_job_times, slowdowns_of, unfairness_of
from weft.model.graph import Floats
from weft.model.problem import Problem, Realisation, realise
from weft.policies.checkpoint import Card, Weights
from weft.policies.tensors import Array
from weft.policies.weights.architecture import TENSOR, WeightsArchitecture
from weft.policies.weights.dispatcher import dispatcher_of, read_weights
from weft.schedulers.dispatchers.tasks import RuleDispatcher, TaskDispatcher, run_one
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state, schedule_of
from weft.sim.tasks.rules import LATE, TaskRule, run_tasks
from weft.sim.tasks.state import Facts, Tasks, TaskState
from weft.sim.tasks.weights import NAMES, NUM_WEIGHTS, PRICED, SRW, VERSION
from weft.training.algorithms import Asked
from weft.training.es.cma import CMAES
from weft.training.es.config import ENERGY, FIGURES, TIME, UNFAIRNESS, ESConfig
from weft.training.es.recipe import WeightsRecipe
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
    problem: Problem
    happens: Realisation
    shortest: Floats
    """Shortest time of each job (num_jobs,)."""
    reference: Floats
    """Figures (3,) of the rule that the search began with."""


def made_ready(problem: Problem, key: int, begin: Floats, objective: Sequence[float]) -> Episode:
    """A problem with what happens in it, for rules by weights."""
    w, happens = compile_tasks([problem]), realise(problem, key)
    f, s = facts_of([happens], w), new_task_state(w)
    rule = RuleDispatcher("es", LATE, weights=tuple(begin.tolist())).prepare([problem], s, [0])
    shortest = shortest_job_times(problem) if objective[UNFAIRNESS] else np.zeros(0)
    episode = Episode(w, f, s, rule, problem, happens, shortest, np.ones(len(FIGURES)))
    return episode._replace(reference=measured(episode, begin, objective))


def measured(episode: Episode, weights: Floats, objective: Sequence[float]) -> Floats:
    """Figures (3,) under weights, those that do not count 1; not a number where jobs do not end."""
    run_tasks(episode.rule._replace(weights=weights), episode.w, episode.f, episode.s)
    times, found = episode.s.job_finish - episode.w.job_release, np.ones(len(FIGURES))
    found[TIME] = times.mean()
    if not np.isfinite(found[TIME]):
        return np.full(len(FIGURES), np.nan)
    if objective[ENERGY]:
        found[ENERGY] = schedule_of(episode.problem, episode.happens, episode.w, episode.s).energy
    if objective[UNFAIRNESS]:
        found[UNFAIRNESS] = unfairness_of(slowdowns_of(times, episode.shortest))
    return found


def cost_of(figures: Floats, reference: Floats, objective: Sequence[float]) -> Floats:
    """Weighted logarithms of figures (..., 3) over those of a reference (..., 3)."""
    counted = [k for k, weight in enumerate(objective) if weight]
    return np.asarray(
        sum(objective[k] * np.log(figures[..., k] / reference[..., k]) for k in counted), np.float64
    )


class RuleES:
    """A :class:`weft.training.run.folder.Learner` whose updates are generations.

    Parameters
    ----------
    problem
        Problem of a number.
    start
        Weights to begin with, in place of those of a rule.
    against
        What these weights are called; empty: the rule that the search begins with.
    threads
        Problems that are played at a time; changes nothing but the time it takes.
    """

    def __init__(
        self, problem: Callable[[int], Problem], config: ESConfig, card: Card, *, streams: int = 512,
        seed: int = 0, start: tuple[float, ...] | None = None, against: str = "", threads: int = 1,
    ) -> None:  # fmt: skip
        self._against = against or config.begin
        self._problem, self._config, self._card, self._streams = problem, config, card, streams
        self._begin = np.array(BEGIN[config.begin] if start is None else start)
        self._free = np.array(config.tuned)
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
            "against": self._against,
            "sigma": self._search.sigma,
        }

    def _play(self, number: int, vectors: Floats) -> Floats:
        """Costs (population,) of vectors on one problem: logarithms of figures over the reference."""
        key, objective = self._seed * 1_000_003 + number, self._config.objective
        problem = self._problem((self._seed * 7919 + number) % self._streams)
        episode = made_ready(problem, key, self._begin, objective)
        figures = np.array([measured(episode, vector, objective) for vector in vectors])
        costs = cost_of(figures, episode.reference, objective)
        return np.where(np.isfinite(costs), costs, FAILED)

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
        self._objective, names = recipe.config.objective, recipe.validation.rules
        self.rules = {name: figures_of(catalog.task_dispatcher(name), self._problems) for name in names}
        """Rule -> figures (num_points, 3)."""

    def job_times(self, weights: Weights, card: Card) -> Floats:
        """Figures (num_points, 3); mean job times are the first of them."""
        return figures_of(dispatcher_of(card.name, weights, card), self._problems)

    @property
    def reference(self) -> Floats:
        """Figures (num_points, 3) of the rule that is best by the objective."""
        ones = np.ones(len(FIGURES))
        return min(self.rules.values(), key=lambda rule: float(cost_of(rule, ones, self._objective).mean()))

    def score(self, times: Floats) -> float:
        return -percent_above(times, self.reference, self._objective)

    def figures(self, times: Floats) -> dict[str, Metric]:
        """Percent above the rules by the objective, and above the best of them by every figure alone."""
        best = self.reference
        above = {
            f"{name}_percent": percent_above(times, r, self._objective) for name, r in self.rules.items()
        }
        alone = {
            f"{name.split()[-1]}_percent": percent_above(times, best, np.eye(len(FIGURES))[k].tolist())
            for k, name in enumerate(FIGURES)
            if (best[:, k] > 0).all()  # clusters that state no watts use no energy
        }
        return {"envelope_percent": percent_above(times, best, self._objective), **above, **alone}


def figures_of(dispatcher: TaskDispatcher | RuleDispatcher, problems: Sequence[Problem]) -> Floats:
    """Figures (num_problems, 3) of a dispatcher on each problem."""
    found = [run_one(dispatcher, problem, realise(problem, k)) for k, problem in enumerate(problems)]
    return np.array([(one.mean_jct, one.energy, one.unfairness) for one in found])


def percent_above(figures: Floats, rule: Floats, objective: Sequence[float]) -> float:
    """Percent above a rule (num_points, 3), by the mean of the weighted logarithms of ratios."""
    return float(100.0 * np.expm1(cost_of(figures, rule, objective).mean()))


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


def first_weights(recipe: WeightsRecipe, start: str | None) -> tuple[float, ...] | None:
    """What the search of a recipe begins with; None: the weights of a rule."""
    if start is None or start in BEGIN:
        return None if start is None else BEGIN[start]
    return read_weights(catalog.policy_file(start) or start).weights


@contextmanager
def weights_learner(
    recipe: WeightsRecipe, asked: Asked, on_notice: Callable[[str], None]
) -> Iterator[Validated]:
    """The search of a recipe, judged on the validation split."""
    card = weights_card(recipe)
    start = first_weights(recipe, asked.start)
    on_notice(f"playing {len(recipe.validation.rules)} rules on the validation split")
    learner = RuleES(
        lambda number: recipe.problem(recipe.split, number), recipe.config, card,
        streams=recipe.streams, seed=asked.seed, start=start, against=asked.start or "", threads=asked.threads or 1,
    )  # fmt: skip
    try:
        yield Validated(learner, WeightsJudge(recipe), recipe.every)
    finally:
        learner.close()
