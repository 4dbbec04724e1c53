"""The one-shot planner: an encoder scores all tasks in one pass, schedules are drawn from the scores.

After Jeon et al. (2023). The first schedule follows the scores as they are, the others are drawn;
the best is kept. Where transfers take time, scores of (task, class) pairs bend the earliest finish.
Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from weft.errors import InputError
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.policies.checkpoint import Card, card_file, load_policy
from weft.policies.oneshot.encoder import Encoder, TaskScores
from weft.policies.oneshot.encoder_shape import LEAST_ODDS, EncoderShape
from weft.policies.oneshot.features import FEATURES, PAIR_FEATURES, VERSION, TaskView, view_of
from weft.schedulers.base import Limit, refuse_unplannable
from weft.schedulers.planners.lists import Heft
from weft.schedulers.planners.rules import RULES, Decoder, Features
from weft.schedulers.planners.search import Search
from weft.schedulers.planners.tabu import Tabu, improve
from weft.sim.random import new_state
from weft.sim.timeline.list_planning import list_order, place_all
from weft.sim.timeline.sampling import Scores, can_hold, draw_schedules, new_drawn
from weft.sim.timeline.sampling_devices import draw_placements
from weft.sim.timeline.timelines import clear, new_timeline, rows_of

ZOO = Path(__file__).parent.parent / "zoo"
KINDS = {"jobshop": "jobshop", "opgraph": "graphs", "tpch": "pools", "workflow": "workflows"}
"""Generator of training problems -> the kind of problem it makes."""
SAMPLES = 64
"""Schedules without a limit, the first one included."""
EFFORT = 4000
"""Schedules and moves of ``oneshot+search`` without a limit."""
CHUNK = 16
"""Schedules between two looks at the clock."""
TOLERANCE = 0.35
"""How far the mean of a feature may lie beyond its range in training; features are ratios, most within 0..1."""
FRESH_LIMIT = 2000
"""Above this many tasks, noise is drawn once per task."""


@dataclass
class Policy:
    """Weights that plan, and how they are used."""

    encoder: Encoder
    card: Card
    by_list: bool
    """Whether noise is drawn once per task, as in training."""
    spread: float
    """Noise on the bias of a class, in mean run times."""
    sharpness: tuple[float, ...]
    """Factors on the logits of the drawn schedules, in turn."""
    kinds: tuple[str, ...]
    """Kinds of problem it was trained on; empty where the card does not say."""
    fallbacks: int = field(default=0)
    """Problems on which rules planned too, unlike those of the training, or alone, where scores are not finite."""

    def strangeness(self, decoder: Decoder, view: TaskView) -> tuple[str, ...]:
        """In what a problem is unlike those of the training: its kind, and features."""
        kind = kind_of(decoder)
        is_other = bool(self.kinds) and kind not in self.kinds
        other = (f"{kind}, not {' or '.join(self.kinds)}",) if is_other else ()
        return other + self.outside(view)

    def outside(self, view: TaskView) -> tuple[str, ...]:
        """Features whose mean over the tasks is far from all that the training saw."""
        if not self.card.ranges:
            return ()
        low, high = np.array(self.card.ranges).T
        mean = view.features.mean(axis=0)
        is_outside = (mean < low - TOLERANCE) | (mean > high + TOLERANCE)
        return tuple(FEATURES[k] for k in np.flatnonzero(is_outside))


_loaded: dict[str, tuple[int, Policy]] = {}


def load(name: str) -> Policy:
    """The policy of a weights file, its card or a run, read again when its card was written again."""
    file = card_file(name)
    written = file.stat().st_mtime_ns if file.is_file() else 0
    if name not in _loaded or _loaded[name][0] != written:
        _loaded[name] = (written, _read(name))
    return _loaded[name][1]


def forget_fallbacks() -> None:
    """Count problems unlike the training from one again."""
    for _, policy in _loaded.values():
        policy.fallbacks = 0


def _read(name: str) -> Policy:
    """Refused where the policy is not of this version."""
    weights, card = load_policy(name)
    if not isinstance(card.architecture, EncoderShape):
        raise InputError(
            f"{card.name} decides while jobs run: it plans no graphs", file=name, field="architecture"
        )
    if card.feature_version != VERSION:
        raise InputError(
            f"trained on features {card.feature_version!r:.60}, this weft has {VERSION!r}: train again",
            file=name,
            field="feature_version",
        )
    _refuse_columns(card.architecture, card.features, name)
    return Policy(Encoder(weights, card.architecture), card, *_usage(card, name), _kinds(card))


def _refuse_columns(shape: EncoderShape, features: tuple[str, ...], file: str) -> None:
    """A net takes exactly the columns that this version makes, whatever else its card says."""
    for name, wanted in (("num_features", len(FEATURES)), ("num_pair_features", len(PAIR_FEATURES))):
        if getattr(shape, name) != wanted:
            raise InputError(
                f"expected {wanted}, got {getattr(shape, name)}", file=file, field=f"architecture.{name}"
            )
    if features not in ((), FEATURES):
        raise InputError(f"expected those of {VERSION!r}, got others", file=file, field="features")


def _usage(card: Card, file: str) -> tuple[bool, float, tuple[float, ...]]:
    """How the card's recipe wants its scores used: by list, noise on biases, factors on logits."""
    recipe = card.training.get("recipe")
    config = recipe.get("config") if isinstance(recipe, dict) else None
    known = config if isinstance(config, dict) else {}
    sharpness = known.get("sharpness", [1.0])
    numbers = [known.get("spread", 0.0), *(sharpness if isinstance(sharpness, list) else [])]
    found = [float(x) for x in numbers if type(x) in (int, float) and 0 <= x < 1e6]
    if len(found) < max(len(numbers), 2):
        raise InputError("expected numbers >= 0 as spread and sharpness", file=file, field="training.recipe")
    return known.get("mode") == "paper", found[0], tuple(found[1:])


def _kinds(card: Card) -> tuple[str, ...]:
    """What the generators of the card's recipe make, each kind once."""
    recipe = card.training.get("recipe")
    sources = recipe.get("source") if isinstance(recipe, dict) else None
    tables = [one for one in sources if isinstance(one, dict)] if isinstance(sources, list) else []
    return tuple(dict.fromkeys(KINDS[g] for one in tables if (g := str(one.get("generator"))) in KINDS))


def kind_of(decoder: Decoder) -> str:
    """What kind of problem this is, by which weights are distinguished."""
    if decoder.by_finish:
        return "workflows"
    if can_hold(decoder.a):
        return "pools"
    return "jobshop" if _is_shop(decoder) else "graphs"


def shipped(decoder: Decoder) -> str:
    """The weights that ship for a problem of this kind."""
    kind = kind_of(decoder)
    path = ZOO / f"{kind}-oneshot.json"
    if not path.exists():
        raise InputError(
            f"no weights ship for such problems: weft train oneshot-{kind}, then name the run",
            field="scheduler",
        )
    return str(path)


def _is_shop(decoder: Decoder) -> bool:
    """Whether every task has one device of its own kind, where all devices run one task at a time."""
    only = decoder.pools.choices[:, 0]
    return bool((decoder.pools.num_choices == 1).all() and (decoder.a.class_count[only] == 1).all())


class OneShot:
    """Scores in one pass, the best of a few schedules drawn from them.

    Parameters
    ----------
    weights
        A weights file, its card or a run; None takes what ships for the problem.
    """

    name = "oneshot"

    def __init__(self, weights: str | None = None) -> None:
        self.weights = weights
        self.note = ""
        """Which weights planned, or who stood in."""

    def supports(self, problem: Problem) -> str | None:
        return refuse_unplannable(problem)

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """The best of as many schedules as the effort says, or as fit into the budget."""
        decoder = Decoder(problem)
        if not problem.num_tasks:
            return decoder.schedule(np.zeros(0))
        policy = load(self.weights or shipped(decoder))
        view = view_of(decoder.a, has_pairs=decoder.by_finish)
        with np.errstate(all="ignore"):
            found = policy.encoder.scores(view)
        strange = policy.strangeness(decoder, view)
        is_finite = all(np.isfinite(column).all() for column in found)
        ruled = best_rule(decoder) if strange or not is_finite else None
        if ruled is not None and not is_finite:
            self.note = (
                f"the scores of {policy.card.name} are not finite: {ruled[0]} stood in ({_count(policy)})"
            )
            return ruled[1]
        best, count = draw_best(decoder, policy, view, found, seed=seed, limit=limit)
        self.note = f"{policy.card.name}, best of {count}"
        return best if ruled is None else self._better(best, *ruled, f"({', '.join(strange)})", policy)

    def _better(self, drawn: Schedule, rule: str, ruled: Schedule, strange: str, policy: Policy) -> Schedule:
        """The better of the net's and the rules' schedule, where nobody knows which to trust."""
        is_better = drawn.makespan < ruled.makespan
        winner = f"{'net' if is_better else rule} won"
        if drawn.makespan == ruled.makespan:
            winner = f"net and {rule} are equal"
        self.note += f"; unlike the training {strange}: best of net and rules, {winner} ({_count(policy)})"
        return drawn if is_better else ruled


def _count(policy: Policy) -> str:
    """Count a problem that a policy does not know, in words."""
    policy.fallbacks += 1
    return f"problem {policy.fallbacks} of this process"


def draw_best(
    decoder: Decoder,
    policy: Policy,
    view: TaskView,
    found: TaskScores,
    *,
    seed: int = 0,
    limit: Limit | None = None,
) -> tuple[Schedule, int]:
    """The best schedule drawn from finite scores, and of how many."""
    draw = _Placing if decoder.by_finish else _Ordering
    return draw(decoder, policy, view, found).best(seed, limit or Limit())


def best_rule(decoder: Decoder) -> tuple[str, Schedule]:
    """Name and schedule of the rule that does best: one of priority alone, or HEFT."""
    features = Features(decoder.problem, decoder.a)
    plans = {mix.name: decoder.schedule(mix.priority(features), mix.decoder) for mix in RULES.values()}
    plans["heft"] = Heft().plan(decoder.problem)
    winner = min(plans, key=lambda name: plans[name].makespan)
    return winner, plans[winner]


class OneShotSearch:
    """The one-shot planner, then tabu search where every task has its device, else local search."""

    name = "oneshot+search"

    def __init__(self, weights: str | None = None) -> None:
        self.first = OneShot(weights)
        self.note = ""

    def supports(self, problem: Problem) -> str | None:
        return refuse_unplannable(problem)

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """An eighth of the effort, at most 64 schedules, is drawn; the rest improves the best."""
        limit = limit or Limit()
        effort = limit.effort or EFFORT
        samples = max(1, min(SAMPLES, effort // 8))
        start = self.first.plan(problem, seed=seed, limit=Limit(effort=samples))
        self.note = self.first.note
        if limit.left() <= 0 or (limit.is_repeatable and effort <= samples) or not problem.num_tasks:
            return start
        if limit.is_repeatable:
            rest = Limit(effort=effort - samples)
        else:
            rest = Limit(budget=max(1e-3, limit.left()))
        if Tabu().supports(problem) is None:
            return improve(problem, start, seed=seed, limit=rest)
        found = Search(start).plan(problem, seed=seed, limit=rest)
        return found if found.makespan < start.makespan else start


class _Ordering:
    """Draws for problems without transfer times."""

    def __init__(self, decoder: Decoder, policy: Policy, view: TaskView, found: TaskScores) -> None:
        hold = found.hold if can_hold(decoder.a) else np.zeros((len(found.hold), 0))
        self.decoder, self.policy = decoder, policy
        self.lists = [
            Scores(logit, held, np.zeros((0, 0)), 0.0, view.group)
            for logit, held in zip(found.logit, hold, strict=True)
        ]

    def best(self, seed: int, limit: Limit) -> tuple[Schedule, int]:
        """The best schedule, and of how many."""
        decoder = self.decoder
        by_list = self.policy.by_list or len(decoder.a.release) > FRESH_LIMIT
        count = min(len(self.lists), limit.effort or SAMPLES)
        greedy = [decoder.schedule(one.logit, hold=one.hold > LEAST_ODDS) for one in self.lists[:count]]
        best = min(greedy, key=lambda schedule: schedule.makespan)
        state = new_state(seed)
        for k, size in enumerate(_chunks(limit, count)):
            drawn = new_drawn(size, *decoder.a.run.shape, has_gradients=False)
            scores = _turn(self.lists, self.policy, k)
            draw_schedules(decoder.pools, decoder.scratch, scores, by_list, state, drawn)
            count += size
            found = decoder.placed(drawn.start, drawn.device)
            best = found if found.makespan < best.makespan else best
        return best, count


class _Placing:
    """Draws for problems with transfer times; three batches of four with copies, where they are allowed."""

    def __init__(self, decoder: Decoder, policy: Policy, view: TaskView, found: TaskScores) -> None:
        self.problem, self.a, self.policy = decoder.problem, decoder.a, policy
        spread = policy.spread * view.scale
        bias = found.bias * view.scale
        self.lists = [Scores(logit, np.zeros(0), bias, spread, view.group) for logit in found.logit]
        extra = len(self.a.release) if self.problem.objective.copies else 0
        self.t, self.kept = new_timeline(self.a, extra), new_timeline(self.a, extra)

    def best(self, seed: int, limit: Limit) -> tuple[Schedule, int]:
        """The best schedule, and of how many."""
        a, count = self.a, 1
        copies = self.problem.objective.copies
        first = self.lists[0]
        order = list_order(a, first.logit)
        place_all(a, self.t, order, np.zeros(0, np.int64), first.bias, True, copies)
        best = Schedule(self.problem, **rows_of(self.t))
        by_list = self.policy.by_list or len(a.release) > FRESH_LIMIT
        state = new_state(seed)
        for k, size in enumerate(_chunks(limit, count)):
            drawn = new_drawn(size, *a.run.shape, has_gradients=False)
            duplicate = bool(copies and k % 4 != 3)
            clear(a.is_unary, self.t)
            scores = _turn(self.lists, self.policy, k)
            draw_placements(a, self.t, self.kept, scores, by_list, duplicate, state, drawn)
            count += size
            if drawn.makespan.min() < best.makespan:
                best = Schedule(self.problem, **rows_of(self.kept))
        return best, count


def _turn(lists: Sequence[Scores], policy: Policy, k: int) -> Scores:
    """The scores of the k-th batch: the lists in turn, then as sharp as the card says, in turn."""
    scores = lists[k % len(lists)]
    return scores._replace(logit=scores.logit * policy.sharpness[k // len(lists) % len(policy.sharpness)])


def _chunks(limit: Limit, count: int) -> Iterator[int]:
    """Sizes of the batches to draw after this many schedules."""
    if limit.is_repeatable:
        left = (limit.effort or SAMPLES) - count
        while left > 0 and limit.left() > 0:
            yield min(CHUNK, left)
            left -= CHUNK
        return
    while limit.left() > 0:
        yield CHUNK
