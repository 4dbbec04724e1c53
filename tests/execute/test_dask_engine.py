"""The engine on Dask: where orders run, in which order, and how they end whatever happens to workers."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

from weft.errors import InputError
from weft.execute.dask_engine import Connection, DaskEngine, LocalWorker, connect, workers_of
from weft.execute.engine import CANCELLED, FAILED, FINISHED, JOINED, LOST, STARTED, Event, Order
from weft.execute.work import Call, Command, Rehearsal, Result, Work

DEVICES = [("fast-0", "fast", 1, "fast"), ("slow-0", "slow", 1, "slow"), ("wide-0", "wide", 2, "wide")]

PATIENCE = 60.0
"""Seconds: a worker that was killed takes long to come back on a busy machine."""


class Works(dict[str, Work]):
    """What tasks do, by name."""

    def work(self, job: str | int, task: str) -> Work:
        return self[task]


class Bench:
    """An engine with a log of what it said."""

    def __init__(self, engine: DaskEngine) -> None:
        self.engine, self.said, self._sequence = engine, [], 0

    def give(self, task: str, device: str, *inputs: str, attempt: int = 1) -> Order:
        self._sequence += 1
        order = Order("job", task, device, attempt, self._sequence, inputs)
        self.engine.submit(order)
        return order

    def until(self, is_over: Callable[[list[Event]], Any], seconds: float = PATIENCE) -> list[Event]:
        end = time.monotonic() + seconds
        while not is_over(self.said):
            assert time.monotonic() < end, self.said
            self.said += self.engine.events(self.engine.now + 0.5)
        return self.said

    def until_ended(self, *tasks: str) -> dict[str, Event]:
        def ends(said: list[Event]) -> dict[str, Event]:
            return {event.task: event for event in said if event.kind in (FINISHED, FAILED)}

        self.until(lambda said: ends(said).keys() >= set(tasks))
        return ends(self.said)

    def kinds(self, task: str) -> list[str]:
        return [event.kind for event in self.said if event.task == task]


@pytest.fixture(scope="module")
def started() -> Iterator[Connection]:
    workers = [LocalWorker("fast"), LocalWorker("slow"), LocalWorker("wide", 2)]
    with connect("dask", workers) as connection:
        yield connection


@pytest.fixture
def dask(started: Connection) -> Connection:
    """With all workers, also those that the last test has killed."""
    started.client.wait_for_workers(3, timeout=PATIENCE)
    return started


@pytest.fixture
def works() -> Works:
    return Works()


@pytest.fixture
def bench(dask: Connection, works: Works) -> Iterator[Bench]:
    engine = DaskEngine(dask.client, DEVICES, works)
    engine.start()
    yield Bench(engine)
    engine.close()


def whereabouts() -> str:
    from distributed import get_worker

    return str(get_worker().name)


def pid_of(dask: Connection, name: str) -> int:
    address = next(worker.address for worker in workers_of(dask.client) if worker.name == name)
    return int(dask.client.run(os.getpid, workers=[address])[address])


# -- where and in which order ----------------------------------------------------------------------


def test_orders_run_on_the_worker_of_their_device(bench: Bench, works: Works):
    tasks = [f"t{i}" for i in range(9)]
    for i, task in enumerate(tasks):
        works[task] = Call(whereabouts)
        bench.give(task, DEVICES[i % 3][0])
    ends = bench.until_ended(*tasks)
    assert {ends[task].kind for task in tasks} == {FINISHED}
    assert [bench.engine.result("job", task) for task in tasks] == ["fast", "slow", "wide"] * 3
    assert all(bench.kinds(task) == [STARTED, FINISHED] for task in tasks)
    assert bench.engine.is_stealing_off


def test_orders_of_a_device_start_in_the_order_they_were_given(bench: Bench, works: Works):
    tasks = [f"t{i}" for i in range(12)]
    for task in tasks:
        works[task] = Call(time.sleep, (0.01,))
        bench.give(task, "fast-0")
    bench.until_ended(*tasks)
    started = [event for event in bench.said if event.kind == STARTED]
    assert [event.task for event in started] == tasks
    finished = [event for event in bench.said if event.kind == FINISHED]
    assert all(a.time <= b.time for a, b in zip(finished, started[1:], strict=False))


def test_a_device_runs_as_many_orders_at_once_as_it_has_slots(bench: Bench, works: Works):
    for task in ("a", "b", "c"):
        works[task] = Rehearsal({"wide": 0.3}, share=0.0)
        bench.give(task, "wide-0")
    bench.until_ended("a", "b", "c")
    a, b, c = (next(event for event in bench.said if event.task == task) for task in "abc")
    assert b.time - a.time < 0.25
    assert c.time - a.time >= 0.3


def test_results_are_handed_on_between_workers(bench: Bench, works: Works):
    works["a"], works["b"] = Call(bytes, (1000,)), Call(len, (Result("a"),))
    bench.give("a", "fast-0")
    assert bench.until_ended("a")["a"].size == pytest.approx(1000, rel=0.1)
    bench.give("b", "slow-0", "a")
    bench.until_ended("b")
    assert bench.engine.result("job", "b") == 1000


def test_a_child_waits_behind_its_parent_on_one_device(bench: Bench, works: Works):
    works["a"], works["b"] = Call(lambda: time.sleep(0.1) or 7), Call(str, (Result("a"),))
    bench.give("a", "fast-0")
    bench.give("b", "fast-0", "a")
    bench.until_ended("a", "b")
    assert bench.engine.result("job", "b") == "7"


# -- failures --------------------------------------------------------------------------------------


def test_a_task_that_raises_fails_in_one_line_and_the_next_one_runs(bench: Bench, works: Works):
    works["a"], works["b"] = Call(int, ("seven",)), Call(whereabouts)
    bench.give("a", "fast-0")
    bench.give("b", "fast-0")
    ends = bench.until_ended("a", "b")
    assert ends["a"].kind == FAILED
    assert ends["a"].note == "ValueError: invalid literal for int() with base 10: 'seven'"
    assert ends["b"].kind == FINISHED


def test_a_child_behind_a_parent_that_fails_fails_without_being_started(bench: Bench, works: Works):
    works["a"], works["b"] = Call(int, ("seven",)), Call(str, (Result("a"),))
    bench.give("a", "fast-0")
    bench.give("b", "fast-0", "a")
    assert bench.until_ended("a", "b")["b"].note == "no result of a"
    assert bench.kinds("b") == [FAILED]
    works["a"] = Call(int, ("7",))
    bench.give("a", "fast-0", attempt=2)
    bench.give("b", "fast-0", "a", attempt=2)
    bench.until(lambda said: bench.kinds("b") == [FAILED, STARTED, FINISHED])
    assert bench.engine.result("job", "b") == "7"


def test_a_function_that_cannot_be_sent_fails_in_one_line(bench: Bench, works: Works):
    works["a"], works["b"] = Call(len, (threading.Lock(),)), Call(whereabouts)
    bench.give("a", "slow-0")
    bench.give("b", "slow-0")
    ends = bench.until_ended("a", "b")
    assert ends["a"].note.startswith("it cannot be sent: ")
    assert "\n" not in ends["a"].note
    assert (bench.kinds("a"), ends["b"].kind) == ([FAILED], FINISHED)


class Unreadable:
    """Cannot be made from what it was sent as."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return int, ("seven",)


def test_an_argument_that_cannot_be_read_on_the_worker_fails_in_one_line(bench: Bench, works: Works):
    works["a"] = Call(len, (Unreadable(),))
    bench.give("a", "slow-0")
    note = bench.until_ended("a")["a"].note
    assert note.startswith("it cannot be read by its worker: ValueError: invalid literal")


def test_commands_run_and_fail_with_their_exit_code(bench: Bench, works: Works):
    works["a"], works["b"] = Command("exit 0"), Command("exit 3")
    bench.give("a", "slow-0")
    bench.give("b", "fast-0")
    ends = bench.until_ended("a", "b")
    assert (ends["a"].kind, ends["b"].note) == (FINISHED, "exit code 3")


# -- cancelling ------------------------------------------------------------------------------------


def test_orders_that_wait_are_cancelled_wherever_they_wait(bench: Bench, works: Works):
    for task in ("runs", "sent", "held"):
        works[task] = Rehearsal({"fast": 0.6}, share=0.0)
    bench.give("runs", "fast-0")
    sent, held = bench.give("sent", "fast-0"), bench.give("held", "fast-0")
    bench.until(lambda said: "started" in bench.kinds("runs"))
    time.sleep(0.1)  # until one waits at the worker
    bench.engine.cancel(sent)
    bench.engine.cancel(held)
    ends = bench.until_ended("runs", "sent", "held")
    assert (ends["sent"].note, ends["held"].note, ends["runs"].kind) == (CANCELLED, CANCELLED, FINISHED)
    assert bench.kinds("sent") == bench.kinds("held") == [FAILED]


def test_a_rehearsal_that_runs_is_cancelled_and_a_call_ends_by_itself(bench: Bench, works: Works):
    works["a"], works["b"] = Rehearsal({"fast": 30.0}, share=0.0), Call(time.sleep, (0.5,))
    orders = [bench.give("a", "fast-0"), bench.give("b", "slow-0")]
    bench.until(lambda said: len(said) == 2)
    for order in orders:
        bench.engine.cancel(order)
    ends = bench.until_ended("a", "b")
    assert (ends["a"].note, ends["b"].kind) == (CANCELLED, FINISHED)


# -- workers that come and go ----------------------------------------------------------------------


def test_a_killed_worker_is_lost_with_all_it_was_given_and_comes_back(
    bench: Bench, works: Works, dask: Connection, tmp_path: Path
):
    log = tmp_path / "ran"
    works["runs"] = Call(time.sleep, (30.0,))
    works["queued"] = works["held"] = Call(_append, (str(log), "x"))
    pid = pid_of(dask, "fast")
    for task in ("runs", "queued", "held"):
        bench.give(task, "fast-0")
    bench.until(lambda said: bench.kinds("runs") == [STARTED])
    time.sleep(0.2)
    os.kill(pid, signal.SIGKILL)
    bench.until(lambda said: any(event.kind == LOST for event in said))
    bench.until(lambda said: any(event.kind == JOINED for event in said))
    assert [event.device for event in bench.said if event.kind in (LOST, JOINED)] == ["fast-0"] * 2
    time.sleep(0.5)
    assert not log.exists()  # Dask was not allowed to run them elsewhere
    bench.give("queued", "fast-0", attempt=2)
    bench.until(lambda said: FINISHED in bench.kinds("queued"))
    assert log.read_text() == "x"
    assert bench.kinds("runs") == [STARTED]


def test_a_result_that_went_down_with_its_worker_is_missed_once_it_is_needed(
    bench: Bench, works: Works, dask: Connection, tmp_path: Path
):
    log = tmp_path / "ran"
    works["a"], works["b"] = Call(_append, (str(log), "x")), Call(str, (Result("a"),))
    bench.give("a", "slow-0")
    bench.until_ended("a")
    os.kill(pid_of(dask, "slow"), signal.SIGKILL)
    bench.until(lambda said: any(event.kind == LOST for event in said))
    bench.give("b", "fast-0", "a")
    assert bench.until_ended("b")["b"].note == "lost result of a"
    bench.until(lambda said: any(event.kind == JOINED for event in said))
    assert log.read_text() == "x"  # Dask did not run it once more behind our back
    bench.give("a", "slow-0", attempt=2)
    bench.until(lambda said: bench.kinds("a") == [STARTED, FINISHED] * 2)
    bench.give("b", "fast-0", "a", attempt=2)
    bench.until(lambda said: FINISHED in bench.kinds("b"))
    assert bench.engine.result("job", "b") == "1"


def test_a_result_is_read_from_the_folder_of_its_task(dask: Connection, works: Works, tmp_path: Path):
    works["a"], works["b"] = Call(int, ("7",)), Call(str, (Result("a"),))
    for task in works:
        (tmp_path / task).mkdir()
    for order in (Order("job", "a", "fast-0", 1, 1), Order("job", "b", "slow-0", 1, 1, ("a",))):
        engine = DaskEngine(dask.client, DEVICES, works, folder=lambda job, task: str(tmp_path / task))
        engine.start()
        bench = Bench(engine)
        engine.submit(order)
        bench.until_ended(order.task)
        result = engine.result("job", order.task)
        engine.close()
    assert result == "7"


def test_a_result_that_cannot_be_sent_fails_its_task(bench: Bench, works: Works):
    works["a"] = Call(threading.Lock)
    bench.give("a", "fast-0")
    assert bench.until_ended("a")["a"].note.startswith("its result cannot be sent: ")


def test_a_call_that_hangs_fails_and_its_worker_is_started_anew(dask: Connection, works: Works):
    works["hangs"], works["next"] = Call(time.sleep, (60.0,)), Call(int)
    with closing(DaskEngine(dask.client, DEVICES, works, timeout=0.5)) as engine:
        engine.start()
        bench = Bench(engine)
        bench.give("hangs", "fast-0")
        assert bench.until_ended("hangs")["hangs"].note == "timed out after 0.5 s"
        bench.until(lambda said: [event.kind for event in said if not event.task] == [LOST, JOINED])
        bench.give("next", "fast-0")
        assert bench.until_ended("next")["next"].kind == FINISHED


def test_a_device_without_a_worker_is_lost_from_the_start(dask: Connection, works: Works):
    engine = DaskEngine(dask.client, [*DEVICES, ("gone-0", "gone", 1, "nobody")], works)
    engine.start()
    events = engine.events(1.0)
    engine.close()
    assert [(event.kind, event.device, event.note) for event in events] == [
        (LOST, "gone-0", "there is no worker 'nobody'")
    ]


def test_more_slots_than_threads_are_refused(dask: Connection, works: Works):
    engine = DaskEngine(dask.client, [("fast-0", "fast", 2, "fast")], works)
    with pytest.raises(InputError, match="has 2 slots, but its worker fast has 1 threads"):
        engine.start()
    engine.close()


def test_a_task_that_dask_does_not_start_is_given_back(
    bench: Bench, works: Works, dask: Connection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("weft.execute.dask_engine.STUCK", 0.5)
    submit = dask.client.submit
    nowhere = {"workers": ["tcp://127.0.0.1:1"], "allow_other_workers": False}
    monkeypatch.setattr(dask.client, "submit", lambda *args, **given: submit(*args, **{**given, **nowhere}))
    works["a"] = Call(whereabouts)
    bench.give("a", "fast-0")
    assert bench.until_ended("a")["a"].note == "not started by Dask, which holds it as 'no-worker'"


def _append(file: str, text: str) -> int:
    with open(file, "a", encoding="utf-8") as log:
        return log.write(text)


# -- connecting ------------------------------------------------------------------------------------


def test_connect_says_in_one_line_that_nobody_answers():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(InputError, match=rf"no Dask scheduler answers at dask://127.0.0.1:{port} within 1 s"):
        connect(f"dask://127.0.0.1:{port}", patience=1.0)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("dusk", "expected dask, dask://HOST:PORT"),
        ("nowhere.json", "nowhere.json: no such scheduler file"),
        (7, "expected a text, got int"),
    ],
)
def test_connect_refuses_what_is_no_address(on: Any, words: str):
    with pytest.raises(InputError, match=words):
        connect(on)


def test_connect_to_a_cluster_of_others_turns_stealing_off_and_on_again(dask: Connection, works: Works):
    address = dask.client.scheduler.address
    with connect(address.replace("tcp://", "dask://")) as other:
        assert [worker.threads for worker in workers_of(other.client)] == [1, 1, 2]
        other.client.run_on_scheduler(_start_stealing)
        engine = DaskEngine(other.client, DEVICES, works)
        engine.start()
        assert engine.is_stealing_off
        assert not other.client.run_on_scheduler(_is_stealing)
        engine.close()
        assert other.client.run_on_scheduler(_is_stealing)
        engine.start()
    deadline = time.monotonic() + 5
    while not dask.client.run_on_scheduler(_is_stealing) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert dask.client.run_on_scheduler(_is_stealing)  # though the engine was not closed
    dask.client.run_on_scheduler(_stop_stealing)


async def _start_stealing(dask_scheduler: Any) -> None:
    from distributed.stealing import WorkStealing

    if "stealing" not in dask_scheduler.extensions:
        dask_scheduler.extensions["stealing"] = WorkStealing(dask_scheduler)
    await dask_scheduler.extensions["stealing"].start()


async def _stop_stealing(dask_scheduler: Any) -> None:
    await dask_scheduler.extensions["stealing"].stop()


def _is_stealing(dask_scheduler: Any) -> bool:
    return "stealing" in dask_scheduler.periodic_callbacks
