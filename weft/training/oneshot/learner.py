"""One-shot planners learn from schedules they draw (Jeon et al., 2023: REINFORCE on priorities).

Reads from top to bottom: draw schedules of every problem, weigh them by their cost, follow the
gradient, report. The kernels give the gradient of every draw by the scores, so torch only carries
it through the net.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.errors import WeftError
from weft.model.graph import Floats
from weft.policies.checkpoint import Card, Weights
from weft.policies.oneshot.encoder_shape import LEAST_ODDS, PER_LIST
from weft.policies.oneshot.features import FEATURES, VERSION
from weft.policies.oneshot.net import Graphs, LargeGraphs, Topoformer, batch_of
from weft.policies.tensors import Array
from weft.scenarios.splits import check_training_seed
from weft.sim.random import new_state
from weft.sim.timeline.decoding import decode_list, new_scratch, pools_of
from weft.sim.timeline.list_planning import list_order, place_all
from weft.sim.timeline.sampling import Drawn, Scores, can_hold, draw_schedules, new_drawn
from weft.sim.timeline.sampling_devices import draw_placements
from weft.sim.timeline.timelines import clear, new_timeline
from weft.training.oneshot.config import SampleConfig
from weft.training.oneshot.problems import Feed, Group, Instance, Source, draw_group
from weft.training.optimiser import FlatAdam, device_named, one_thread
from weft.training.run.counts import EvenUpdates
from weft.training.run.metrics import Metric

FEW = 16
"""Draws of the validation."""


class Pull(NamedTuple):
    """Where the cost of one problem's schedules pulls its scores, and what they cost."""

    by_score: Floats  # (num_tasks, 2 * num_lists)
    by_bias: Floats  # (num_tasks, num_classes), or (num_tasks, 0) where only the order is open
    mean: float
    """Mean makespan over the bound."""
    best: float
    """Least makespan over the bound."""


class Scored(NamedTuple):
    """What the net makes of one problem."""

    group: int
    place: int
    """In its group."""
    score: Floats  # (most_tasks, 2 * num_lists)
    bias: Floats  # (most_tasks, most_classes)


# Draw


def scores_of(instance: Instance, score: Floats, bias: Floats, spread: float) -> list[Scores]:
    """The net's output as the kernels take it, one for each list."""
    n, num_classes = instance.a.run.shape
    scale = instance.view.scale
    moves = instance.has_transfers
    holds = n if can_hold(instance.a) and not moves else 0
    return [
        Scores(
            logit=np.ascontiguousarray(score[:n, k], np.float64),
            hold=np.ascontiguousarray(score[:holds, k + 1], np.float64),
            bias=np.ascontiguousarray(bias[:n, :num_classes] * scale, np.float64)
            if moves
            else np.zeros((0, 0)),
            spread=float(spread * scale),
            group=instance.view.group,
        )
        for k in range(0, score.shape[1], PER_LIST)
    ]


def draw(instance: Instance, scores: Scores, samples: int, by_list: bool, key: tuple[int, ...]) -> Drawn:
    """Schedules of one problem with the gradients of their log-probabilities."""
    a = instance.a
    num_classes = a.run.shape[1] if instance.has_transfers else 0
    drawn = new_drawn(samples, len(a.run), num_classes, has_gradients=True)
    if instance.has_transfers:
        extra = len(a.release) if instance.has_copies else 0
        t, kept = new_timeline(a, extra), new_timeline(a, extra)
        draw_placements(a, t, kept, scores, by_list, instance.has_copies, new_state(*key), drawn)
    else:
        pools = pools_of(a)
        draw_schedules(pools, new_scratch(pools), scores, by_list, new_state(*key), drawn)
    return drawn


def greedy(instance: Instance, scores: Scores) -> float:
    """Makespan of the schedule the scores ask for, nothing drawn."""
    a = instance.a
    if instance.has_transfers:
        t = new_timeline(a, len(a.release) if instance.has_copies else 0)
        clear(a.is_unary, t)
        order = list_order(a, scores.logit)
        nobody = np.zeros(0, np.int64)
        return float(place_all(a, t, order, nobody, scores.bias, True, instance.has_copies))
    pools = pools_of(a)
    return float(decode_list(pools, new_scratch(pools), scores.logit, scores.hold > LEAST_ODDS))


# Weigh


def advantages(cost: Floats, config: SampleConfig) -> Floats:
    """How much worse than the mean each schedule is, in deviations where standardised (eq. 13)."""
    centred = cost - cost.mean()
    if not config.is_standardised:
        return centred
    return centred / max(float(cost.std()), config.least_deviation)


def pull_all(instance: Instance, lists: Sequence[Scores], config: SampleConfig, key: tuple[int, ...]) -> Pull:
    """Draw from every list of one problem and weigh, each list compared with itself alone."""
    samples = max(2, config.samples // len(lists))
    by_list = config.mode == "paper"
    pulls = [
        pull(instance, draw(instance, scores, samples, by_list, (*key, k)), config)
        for k, scores in enumerate(lists)
    ]
    best = min(one.best for one in pulls)
    share = [float(one.best <= best) if config.only_winner else 1.0 / len(pulls) for one in pulls]
    return Pull(
        np.concatenate([part * one.by_score for part, one in zip(share, pulls, strict=True)], axis=1),
        np.sum([part * one.by_bias for part, one in zip(share, pulls, strict=True)], axis=0) / sum(share),
        float(np.mean([one.mean for one in pulls])),
        best,
    )


def pull_scored(instance: Instance, scored: Scored, config: SampleConfig, seed: int, update: int) -> Pull:
    """Draw and weigh by what the net makes of a problem of an update."""
    lists = scores_of(instance, scored.score, scored.bias, config.spread)
    return pull_all(instance, lists, config, (seed, update, scored.group, scored.place))


def pull(instance: Instance, drawn: Drawn, config: SampleConfig) -> Pull:
    """The gradient of the loss by the scores of one list of one problem."""
    n = len(instance.a.run)
    weight = np.zeros(len(drawn.makespan))
    if config.mode != "label":
        weight += advantages(drawn.makespan, config) / len(weight)
    label = 1.0 if config.mode == "label" else config.label_weight
    weight[int(drawn.makespan.argmin())] -= label / n
    by_score = np.stack([_total(weight, drawn.by_logit), _total(weight, drawn.by_hold)], axis=1)
    relative = drawn.makespan / instance.bound
    by_bias = _total(weight, drawn.by_bias).reshape(n, -1) * instance.view.scale
    return Pull(by_score, by_bias, float(relative.mean()), float(relative.min()))


def _total(weight: Floats, gradients: Floats) -> Floats:
    """Weighted sum over the draws, without BLAS: its threads and ours would get in each other's way."""
    total: Floats = np.einsum("s,st->t", weight, gradients)
    return total


# Follow


class SampleLearner(EvenUpdates):
    """Trains one encoder; a :class:`weft.training.run.folder.Learner`.

    Parameters
    ----------
    start
        Weights of the same shape to begin with.
    workers
        Processes that prepare problems; 0: this one does.
    threads
        Threads that draw schedules; None: one per processor.
    """

    config: SampleConfig

    def __init__(
        self,
        sources: Sequence[Source],
        config: SampleConfig,
        *,
        seed: int = 0,
        device: str = "cpu",
        start: Mapping[str, Array] | None = None,
        card: Card | None = None,
        workers: int = 0,
        threads: int | None = None,
    ) -> None:
        self.config, self.seed, self.sources = config, check_training_seed(seed), tuple(sources)
        self._device = device_named(device)
        shape = config.shape
        self._card = replace(card or Card("oneshot", "oneshot", shape), architecture=shape)
        net = Topoformer(shape)
        net.initialise(torch.Generator().manual_seed(seed))
        self._set_start(net, start)
        self.net = net.to(self._device)
        self._adam = FlatAdam(self.net)
        self._feed = Feed(sources, seed, config.groups, config.graphs, workers)
        self._threads = ThreadPoolExecutor(threads or os.cpu_count() or 1)
        self._ranges = np.repeat([[np.inf], [-np.inf]], len(FEATURES), 1)  # (2, num_features)
        self._batch: tuple[int, list[Group], list[Graphs | LargeGraphs]] = (-1, [], [])
        self._held_out: list[Group] = []
        self._score = np.full(2, np.nan)  # (2,) percent above the bound: greedy, best of a few
        self.update = 0

    def _set_start(self, net: Topoformer, start: Mapping[str, Array] | None) -> None:
        if start is not None:
            net.load_weights(start)
            return
        with torch.no_grad():
            for k, prior in enumerate(self.config.prior):
                for name, weight in prior.items():
                    net.skip[k * PER_LIST, FEATURES.index(name)] = weight
            net.score.bias[1::PER_LIST] = torch.tensor(self.config.hold_start)

    @property
    def score(self) -> float | None:
        """Minus the percentage above the bound on the validation, greedy and best of a few averaged."""
        return None if np.isnan(self._score).any() else -float(self._score.mean())

    def step(self) -> dict[str, Metric]:
        """One update: draw, weigh, follow the gradient, report."""
        with one_thread():
            groups, batches = self._problems(self.update // self.config.reuse)
            outputs = [self.net(batch) for batch in batches]
            pulls = self.pulls(groups, outputs)
            loss, norm = self.loss(groups, outputs, pulls)
            rate = self._learning_rate()
            self._adam.step(loss, rate, self.config.gradient_clip)
            self.update += 1
            return self._row(pulls, norm, rate)

    def _problems(self, number: int) -> tuple[list[Group], list[Graphs | LargeGraphs]]:
        """The groups of a batch and the same for the net, laid out once for all updates that share them."""
        if self._batch[0] != number:
            groups = self._feed.batch(number)
            for instance in (instance for group in groups for instance in group):
                features = instance.view.features
                self._ranges[0] = np.minimum(self._ranges[0], features.min(axis=0))
                self._ranges[1] = np.maximum(self._ranges[1], features.max(axis=0))
            self._batch = (number, groups, [self.graphs(group) for group in groups])
        return self._batch[1:]

    def graphs(self, group: Group) -> Graphs | LargeGraphs:
        """A group as the net takes it."""
        return batch_of([instance.view for instance in group], self.config.shape, self._device)

    def pulls(self, groups: list[Group], outputs: list[tuple[Tensor, Tensor]]) -> list[list[Pull]]:
        """Draw and weigh; the random numbers depend on update and problem alone."""
        asked = []
        for g, output in enumerate(outputs):
            score, bias = (tensor.detach().cpu().numpy() for tensor in output)
            if not np.isfinite(score).all():
                raise WeftError("the net's scores are no longer finite: lower learning_rate")
            asked += [Scored(g, b, score[b], bias[b]) for b in range(len(groups[g]))]
        done = iter(self._pulls_of([groups[one.group][one.place] for one in asked], asked))
        return [[next(done) for _ in group] for group in groups]

    def _pulls_of(self, instances: list[Instance], asked: list[Scored]) -> list[Pull]:
        """Of every problem of an update, on all threads."""

        def work(instance: Instance, scored: Scored) -> Pull:
            return pull_scored(instance, scored, self.config, self.seed, self.update)

        return list(self._threads.map(work, instances, asked))

    def loss(
        self, groups: list[Group], outputs: list[tuple[Tensor, Tensor]], pulls: list[list[Pull]]
    ) -> tuple[Tensor, Tensor]:
        """A loss with the gradient asked for, plus the norm of the logits (eq. 12)."""
        total = torch.zeros((), device=self._device)
        norm = torch.zeros((), device=self._device)
        num_graphs = sum(len(group) for group in groups)
        for group, (score, bias), found in zip(groups, outputs, pulls, strict=True):
            by_score = np.zeros(score.shape, np.float32)
            by_bias = np.zeros(bias.shape, np.float32)
            size = np.ones((len(group), 1), np.float32)
            for b, one in enumerate(found):
                n, num_classes = one.by_bias.shape
                by_score[b, :n], by_bias[b, :n, :num_classes] = one.by_score, one.by_bias
                size[b] = n
            total = total + (score * self._tensor(by_score)).sum() + (bias * self._tensor(by_bias)).sum()
            is_task = self._tensor((np.arange(score.shape[1]) < size).astype(np.float32))
            square = score[..., ::PER_LIST].square().mean(-1)
            norm = norm + ((square * is_task).sum(1) / self._tensor(size[:, 0])).sum()
        return (total + self.config.logit_norm * norm) / num_graphs, norm.detach() / num_graphs

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)

    def _learning_rate(self) -> float:
        left = 1.0 - self.update / self.num_updates if self.config.decay == "linear" else 1.0
        return self.config.learning_rate * left

    # Report

    def _row(self, pulls: list[list[Pull]], norm: Tensor, rate: float) -> dict[str, Metric]:
        flat = [one for group in pulls for one in group]
        row: dict[str, Metric] = {
            "mean_reward": -100.0 * (float(np.mean([one.mean for one in flat])) - 1.0),
            "drawn_percent": 100.0 * (float(np.mean([one.mean for one in flat])) - 1.0),
            "best_percent": 100.0 * (float(np.mean([one.best for one in flat])) - 1.0),
            "logit_norm": float(norm),
            "learning_rate": rate,
        }
        if self.update % self.config.every == 0 or self.update == self.num_updates:
            self._score[:] = self.validate()
            row |= {"greedy_percent": float(self._score[0]), "best_of_16_percent": float(self._score[1])}
        return row

    @torch.no_grad()
    def validate(self) -> tuple[float, float]:
        """Mean percentage above the bound on problems that no update sees: greedy, and best of 16."""
        if not self._held_out:
            size = min(self.config.validation, 4)
            count = -(-self.config.validation // size)
            self._held_out = [draw_group(self.sources, 0, "validation", k, size) for k in range(count)]
        gaps: list[tuple[float, float]] = []
        for g, group in enumerate(self._held_out):
            score, bias = (tensor.cpu().numpy() for tensor in self.net(self.graphs(group)))
            gaps += [self._gap(instance, score[b], bias[b], (0, g, b)) for b, instance in enumerate(group)]
        mean = np.mean(gaps, axis=0)
        return float(mean[0]), float(mean[1])

    def _gap(
        self, instance: Instance, score: Floats, bias: Floats, key: tuple[int, ...]
    ) -> tuple[float, float]:
        lists = scores_of(instance, score, bias, self.config.spread)
        by_list = self.config.mode == "paper"
        first = greedy(instance, lists[0])
        drawn = [
            draw(instance, scores, max(1, FEW // len(lists)), by_list, (*key, k))
            for k, scores in enumerate(lists)
        ]
        best = min(first, *(float(one.makespan.min()) for one in drawn))
        return 100.0 * (first / instance.bound - 1.0), 100.0 * (best / instance.bound - 1.0)

    def state(self) -> dict[str, Array]:
        tensors: dict[str, Array] = {f"net.{name}": array for name, array in self.net.weights().items()}
        extra = {"ranges": self._ranges.copy(), "score": self._score.copy(), "update": np.array(self.update)}
        return {**tensors, **self._adam.state(), **extra}

    def restore(self, state: Mapping[str, Array]) -> None:
        net = {name.removeprefix("net."): array for name, array in state.items() if name.startswith("net.")}
        self.net.load_weights(net)
        self._adam.restore(state)
        self._ranges[:] = state["ranges"].astype(np.float64)
        self._score[:] = state["score"].astype(np.float64)
        self.update = int(state["update"].astype(np.int64))

    def policy(self) -> tuple[Weights, Card]:
        known = np.isfinite(self._ranges).all()
        ranges = tuple((float(low), float(high)) for low, high in self._ranges.T) if known else ()
        figures = {"update": self.update, "samples": self.samples, "seed": self.seed}
        percents = dict(zip(("greedy_percent", "best_of_16_percent"), self._score.tolist(), strict=True))
        figures |= {name: value for name, value in percents.items() if np.isfinite(value)}
        card = replace(
            self._card,
            feature_version=VERSION,
            features=FEATURES,
            ranges=ranges,
            training={**self._card.training, **figures},
        )
        return self.net.weights(), card

    def close(self) -> None:
        """Let workers and threads go."""
        self._feed.close()
        self._threads.shutdown(wait=False)
