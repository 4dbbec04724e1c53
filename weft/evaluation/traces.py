"""Which batch ran where and when in a stream: one workload again, watched from decision to decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weft.catalog import chooser
from weft.evaluation.streams import Outcome, played
from weft.model.graph import Floats, Ints
from weft.policies.learned import Learned
from weft.scenarios import StreamCase
from weft.schedulers.dispatch import Dispatcher, observe_all
from weft.sim.env import START, Narrowing, Setup, setup_of
from weft.sim.events import NOW, WAIT, State, Stream, advance, apply_action, begin
from weft.sim.observe import num_features
from weft.sim.queue_rules import choose
from weft.sim.streams import compile_stream, num_branches

Decide = Callable[[State, Ints], None]
"""Writes one kind per device (or WAIT) into the action."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One row per batch, by start."""

    device: Ints  # (num_batches,)
    kind: Ints  # (num_batches,)
    size: Ints  # (num_batches,) tasks
    start: Floats  # (num_batches,)
    finish: Floats  # (num_batches,)


def record(scheduler: str, case: StreamCase, seed: int) -> tuple[Outcome, Trace]:
    """The workload of one seed under a dispatcher or a policy, with every batch."""
    chosen = chooser(scheduler)
    setup = setup_of(case)
    if isinstance(chosen, Learned):
        setup = setup_of(case, chosen.sight, waits=chosen.waits, narrows=chosen.narrows)
    stream = compile_stream(setup.problem, setup.rules)
    keys = np.array([seed], np.int64)
    batches: list[tuple[int, int, int, float, float]] = []

    def play(state: State) -> None:
        batches.clear()
        _watch(stream, state, _decider(chosen, setup, stream, keys), batches)

    outcome = played(setup, stream, keys, play)
    columns = np.array(batches, dtype=np.float64).reshape(-1, 5).T
    whole = columns[:3].astype(np.int64)
    return outcome, Trace(whole[0], whole[1], whole[2], columns[3], columns[4])


def _decider(chosen: Dispatcher | Learned, setup: Setup, stream: Stream, keys: Ints) -> Decide:
    """What writes the decisions, with fresh state of its own."""
    if isinstance(chosen, Dispatcher):
        return _rule(chosen, setup, stream, keys)
    return _policy(chosen, setup, stream)


def _watch(
    stream: Stream, state: State, decide: Decide, batches: list[tuple[int, int, int, float, float]]
) -> None:
    """Play one episode, and note each batch that a decision starts."""
    action = np.empty(len(stream.device_class), np.int64)
    is_over = begin(stream, state, 0, START)
    while not is_over:
        decide(state, action)
        before, now = state.device_batches[0].copy(), float(state.total[0, NOW])
        apply_action(stream, state, 0, action)
        for device in np.flatnonzero(state.device_batches[0] > before).tolist():
            finish = float(state.free_at[0, device])
            kind, size = state.running_kind[0, device], state.running_size[0, device]
            batches.append((device, int(kind), int(size), now, finish))
        is_over = advance(stream, state, 0)


def _rule(chosen: Dispatcher, setup: Setup, stream: Stream, keys: Ints) -> Decide:
    rule = chosen.rule(setup.problem, stream, keys)
    claimed = np.empty(stream.can_run.shape[1], np.int64)

    def decide(state: State, action: Ints) -> None:
        choose(rule, stream, state, 0, action, claimed)

    return decide


def _policy(chosen: Learned, setup: Setup, stream: Stream) -> Decide:
    num_devices, num_kinds = stream.can_run.shape
    width = num_features(setup.sight, num_kinds, num_devices, num_branches(stream))
    observation = np.zeros((1, width), np.float32)
    mask = np.ones((1, num_devices, num_kinds + 1), np.bool_)
    done = np.zeros(1, np.bool_)

    def decide(state: State, action: Ints) -> None:
        observe_all(stream, setup.sight, state, done, observation, mask)
        narrow = Narrowing(stream, state) if setup.narrows else None
        action[:] = chosen.decide(observation[0], mask[0], narrow)
        if setup.waits:
            action[action == num_kinds] = WAIT

    return decide
