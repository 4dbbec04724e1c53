"""Spread training on processes of this machine, one of which is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from training.toy_roles import SMALL, spread, trained

from weft.errors import InputError
from weft.training.distributed.processes import ProcessTransport
from weft.training.distributed.transport import Answer, Failed, Part


class Counting:
    """A role that counts its calls."""

    def __init__(self, first: int, life: int = 0) -> None:
        self._count = first + 100 * life

    def next(self, by: int = 1) -> int:
        self._count += by
        return self._count

    def two(self) -> tuple[int, list[int]]:
        return self._count, [self._count] * 3

    def total(self, given: list[int]) -> int:
        return sum(given)

    def refuse(self) -> None:
        raise InputError("expected more", field="it")

    def fail(self) -> None:
        raise ZeroDivisionError("by zero")


@pytest.fixture
def transport() -> Iterator[ProcessTransport]:
    made = ProcessTransport()
    yield made
    made.close()


def ended(transport: ProcessTransport, count: int) -> list[Answer]:
    found: list[Answer] = []
    while len(found) < count:
        found += transport.answers(60)
    return found


def test_interruption_while_a_process_starts_is_left_to_whoever_started_it(transport: ProcessTransport):
    for role in ("a", "b", "c"):
        transport.start(role, Counting, 0)
        os.kill(transport.pid(role), signal.SIGINT)
        call = transport.call(role, "next")
        assert [one.error for one in ended(transport, 1)] == [None]
        assert transport.value(call) == 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_processes_answer_in_order_and_hand_on_what_others_made(transport: ProcessTransport):
    transport.start("a", Counting, 0)
    transport.start("b", Counting, 10)
    calls = [transport.call("a", "next"), transport.call("a", "next", 5), transport.call("a", "two", parts=2)]
    assert [one.call for one in ended(transport, 3)] == calls
    assert [transport.value(call) for call in calls] == [1, 6, 6]
    total = transport.call("b", "total", Part(calls[2], 1))
    assert transport.answers(60)[0].error is None
    assert transport.value(total) == 18
    kept = transport.put([1, 2, 3, 4])
    total = transport.call("a", "total", kept)
    transport.answers(60)
    assert transport.value(total) == 10
    for method, kind in (("refuse", InputError), ("fail", Failed)):
        transport.call("b", method)
        (answer,) = transport.answers(60)
        assert isinstance(answer.error, kind)
        assert not answer.is_lost


def test_killed_process_is_lost_with_all_that_was_asked_of_it(transport: ProcessTransport):
    transport.start("a", Counting, 0)
    transport.call("a", "next")
    transport.answers(60)
    os.kill(transport.pid("a"), signal.SIGKILL)
    calls = [transport.call("a", "next") for _ in range(2)]
    found = ended(transport, 2)
    assert [one.call for one in found] == calls
    assert all(one.is_lost for one in found)
    transport.start("a", Counting, 0, 1)
    call = transport.call("a", "next")
    assert transport.answers(60)[0].call == call
    assert transport.value(call) == 101


@pytest.mark.timeout(120)
def test_training_goes_on_when_roles_are_killed(transport: ProcessTransport):
    config = replace(SMALL, samples=3_200)
    learner = spread(transport, config, engine="processes", actors=2, shards=2, block=5)
    learner.step()
    for role in ("actor-1", "shard-0"):
        os.kill(transport.pid(role), signal.SIGKILL)
        while learner.crew.lives[role] == 0:
            learner.step()
    rows = trained(learner)
    assert learner.crew.restarts == learner.crew.failures == 2
    assert rows[-1]["samples"] >= learner.num_samples
    blocks = sum(last + 1 for last in learner.collecting.counted.values())
    assert learner.collected == 5 * config.num_envs * blocks
    assert learner.drawn / learner.collected == pytest.approx(config.replay_ratio, abs=0.8)
    learner.close()
