"""Lanes on Ray: order, results, and what happens when something dies."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from weft.errors import InputError, WeftError  # noqa: E402
from weft.execute.engine import Event, Order  # noqa: E402
from weft.execute.keeping import keep  # noqa: E402
from weft.execute.ray_engine import Connection, RayEngine, connect, workers_of  # noqa: E402
from weft.execute.work import Call, Command, Result, Work  # noqa: E402

# Workers cannot import this file.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module", autouse=True)
def connection() -> Iterator[Connection]:
    with connect("ray", [("a", 1), ("b", 1)], object_store=100_000_000) as connection:
        yield connection
    assert not connection.folder or not connection.folder.exists()
    assert not ray.is_initialized()


class Works(dict[str, Work]):
    """What tasks do, by name."""

    def work(self, job: str | int, task: str) -> Work:
        return self[task]


class Runner:
    """An engine, and the orders given to it."""

    def __init__(self, engine: RayEngine) -> None:
        self.engine = engine
        self.count = 0
        self.seen: list[Event] = []

    def give(self, task: str, device: str = "a", inputs: tuple[str, ...] = (), attempt: int = 1) -> Order:
        self.count += 1
        order = Order("job", task, device, attempt, self.count, inputs)
        self.engine.submit(order)
        return order

    def until(self, *wanted: str, seconds: float = 30.0) -> list[str]:
        """Wait for events, each as ``kind task`` or ``kind device``; all that were seen until then."""
        end = time.monotonic() + seconds
        while not set(wanted) <= set(self.told):
            assert time.monotonic() < end, f"waited for {wanted}, saw {self.told}"
            self.seen += self.engine.events(None)
        return self.told

    @property
    def told(self) -> list[str]:
        return [f"{one.kind} {one.task or one.device}" for one in self.seen]

    def of(self, kind: str, task: str) -> Event:
        return next(one for one in self.seen if one.kind == kind and one.task == task)


Start = Callable[..., Runner]


@pytest.fixture
def start(connection: Connection) -> Iterator[Start]:
    open_engines: list[RayEngine] = []

    def begin(works: dict[str, Work], *devices: tuple[Any, ...], **options: Any) -> Runner:
        engine = RayEngine(connection, devices or (("a", "cpu"),), Works(works), **options)
        open_engines.append(engine)
        engine.start()
        return Runner(engine)

    yield begin
    for engine in open_engines:
        engine.close()
        engine.close()
    assert wait_for(lambda: not lanes()), f"lanes are left: {lanes()}"


def lanes() -> list[int]:
    """Processes that are lanes, on this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if line.startswith(b"ray::Lane"):
            found.append(int(path.parent.name))
    return found


def wait_for(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


def add(*numbers: int) -> int:
    return sum(numbers)


def nap(seconds: float, file: str = "") -> int:
    if file:
        Path(file).touch()
    time.sleep(seconds)
    return os.getpid()


def fall(note: str) -> None:
    raise ValueError(note)


def test_lanes_keep_order_and_hand_results_on(start: Start):
    works: dict[str, Work] = {
        "load": Call(add, (1, 2)),
        "left": Call(nap, (0.2,)),
        "right": Call(add, (Result("load"), 10)),
        "sum": Call(add, (Result("right"), Result("load"))),
    }
    run = start(works, ("a", "cpu"), ("b", "cpu"))
    run.give("load")
    run.give("left")
    run.until("finished load")
    run.give("right", "b", ("load",))
    run.until("finished right", "finished left")
    run.give("sum", inputs=("right", "load"))
    told = run.until("finished sum")
    on_a = [f"{one.kind} {one.task}" for one in run.seen if one.device == "a"]
    assert on_a == [f"{kind} {task}" for task in ("load", "left", "sum") for kind in ("started", "finished")]
    assert told.count("started right") == 1
    assert run.engine.result("job", "sum") == 16
    times = [one.time for one in run.seen if one.device == "a"]
    assert times == sorted(times)
    assert run.of("finished", "left").time - run.of("started", "left").time == pytest.approx(0.2, abs=0.15)
    run.engine.release("job")
    with pytest.raises(WeftError, match="task 'sum' of job 'job' has no result"):
        run.engine.result("job", "sum")


def test_a_task_queued_behind_its_parent_gets_its_result(start: Start):
    run = start({"p": Call(nap, (0.3,)), "c": Call(add, (Result("p"),))})
    run.give("p")
    run.give("c", inputs=("p",))
    run.until("finished c")
    assert len(lanes()) == 1
    assert run.told == ["started p", "finished p", "started c", "finished c"]
    assert run.of("started", "c").time - run.of("finished", "p").time < 0.25
    assert run.engine.result("job", "c") == run.engine.result("job", "p")


def test_a_task_that_raises_fails_alone(start: Start):
    run = start({"bad": Call(fall, ("no luck",)), "child": Call(add, (Result("bad"),)), "other": Call(add)})
    run.give("bad")
    run.give("child", inputs=("bad",))
    run.give("other")
    run.until("finished other")
    assert run.told == ["started bad", "failed bad", "failed child", "started other", "finished other"]
    assert run.of("failed", "bad").note == "ValueError: no luck"
    assert run.of("failed", "child").note == "lost result of bad"


def test_what_cannot_be_sent_fails_with_a_word(start: Start):
    works: dict[str, Work] = {
        "there": Call(add, (threading.Lock(),)),
        "back": Call(threading.Lock),
        "lone": Call(add, (Result("gone"),)),
        "fine": Call(add),
    }
    run = start(works)
    run.give("there")
    run.give("back")
    run.give("lone", inputs=("gone",))
    run.give("fine")
    run.until("finished fine")
    assert run.of("failed", "there").note.startswith("it cannot be sent: TypeError")
    assert run.of("failed", "back").note.startswith("its result cannot be sent: ")
    assert run.of("failed", "lone").note == "lost result of gone"


def test_results_of_an_earlier_run_are_handed_on(start: Start, tmp_path: Path):
    keep(41, tmp_path)
    run = start({"c": Call(add, (Result("p"), 1))}, folder=lambda job, task: str(tmp_path / task.strip("p")))
    run.give("c", inputs=("p",))
    run.until("finished c")
    assert (run.engine.result("job", "p"), run.engine.result("job", "c")) == (41, 42)


def test_a_killed_lane_is_lost_and_comes_back(start: Start, tmp_path: Path):
    flag = tmp_path / "runs"
    works: dict[str, Work] = {
        "before": Call(add, (7,)),
        "who": Call(nap, (0.0,)),
        "long": Call(nap, (60.0, str(flag))),
        "waits": Call(add),
        "after": Call(add, (Result("before"),)),
    }
    run = start(works)
    run.give("before")
    run.give("who")
    run.until("finished who")
    run.give("long")
    run.give("waits")
    run.until("started long")
    assert wait_for(flag.exists)
    os.kill(run.engine.result("job", "who"), signal.SIGKILL)
    run.until("joined a")
    assert run.told[-2:] == ["lost a", "joined a"]
    assert next(one.note for one in run.seen if one.kind == "lost") == "its worker process has died"
    run.give("after", inputs=("before",))
    run.until("finished after")
    assert run.engine.result("job", "after") == 7
    assert not {"finished waits", "failed waits", "failed long"} & set(run.told)


def test_cancel_ends_what_waits_and_what_runs(start: Start):
    run = start({"long": Call(nap, (60.0,)), "waits": Call(add), "next": Call(add, (5,))})
    long, waits = run.give("long"), run.give("waits")
    run.give("next")
    run.until("started long")
    run.engine.cancel(waits)
    run.until("failed waits", seconds=1.0)
    run.engine.cancel(long)
    run.until("finished next")
    assert run.told == ["started long", "failed waits", "failed long", "started next", "finished next"]
    assert run.of("failed", "waits").note == run.of("failed", "long").note == "cancelled"
    run.engine.cancel(long)
    assert run.engine.events(run.engine.now + 0.2) == []


def test_a_task_that_hangs_is_stopped(start: Start, tmp_path: Path):
    file = tmp_path / "pid"
    line = f"sh -c 'echo $$ > {file}; sleep 97 & sleep 97'"
    run = start({"hang": Call(nap, (60.0,)), "shell": Command(line), "next": Call(add)}, timeout=0.5)
    run.give("hang")
    run.give("shell")
    run.give("next")
    run.until("finished next")
    assert run.of("failed", "hang").note == run.of("failed", "shell").note == "timed out after 0.5 s"
    assert wait_for(lambda: not Path(f"/proc/{file.read_text().strip()}").exists())


def test_programs_end_with_their_lane(start: Start, tmp_path: Path):
    file = tmp_path / "pid"
    run = start({"shell": Command(f"echo $$ > {file}; sleep 98")})
    order = run.give("shell")
    run.until("started shell")
    assert wait_for(lambda: file.exists() and bool(file.read_text().strip()))
    run.engine.cancel(order)
    assert wait_for(lambda: not Path(f"/proc/{file.read_text().strip()}").exists())


def test_two_slots_run_two_at_once_in_order(start: Start):
    tasks = [f"t{i}" for i in range(5)]
    run = start({task: Call(nap, (0.3,)) for task in tasks}, ("a", "cpu", 2))
    for task in tasks:
        run.give(task)
    run.until(*(f"finished {task}" for task in tasks))
    assert [one.task for one in run.seen if one.kind == "started"] == tasks
    running = most = 0
    for one in run.seen:
        running += 1 if one.kind == "started" else -1
        most = max(most, running)
    assert most == 2


def test_devices_that_are_not_there_are_lost_at_the_start(connection: Connection):
    node, elsewhere = workers_of()[0], replace(connection, on="ray://here", is_ours=False)
    engine = RayEngine(elsewhere, [("a", "cpu", 1, node.address), ("b", "cpu", 1, "nowhere")], Works())
    engine.start()
    assert [(*one[:3], one.note) for one in engine.events(0.0)] == [
        ("lost", 0.0, "b", "no room for it on nowhere")
    ]
    engine.close()
    with pytest.raises(InputError, match="devices: no device is there: no room for it on nowhere"):
        RayEngine(elsewhere, [("b", "cpu", 1, "nowhere")], Works()).start()
    with pytest.raises(InputError, match="devices: two devices have one name"):
        RayEngine(elsewhere, [("b", "cpu"), ("b", "cpu")], Works())


def test_logs_and_results_are_kept(start: Start, tmp_path: Path):
    run = start(
        {"x": Command("echo hello"), "y": Call(add, (3,))}, folder=lambda job, task: str(tmp_path / task)
    )
    for task in "xy":
        (tmp_path / task).mkdir()
        run.give(task)
    run.until("finished y")
    assert (tmp_path / "x" / "stdout.txt").read_text().endswith("hello\n")
    assert (tmp_path / "y" / "result.json").exists()


def test_workers_say_what_nodes_have():
    (node,) = workers_of()
    assert (node.cpus, node.gpus, dict(node.resources)) == (2.0, 0.0, {})
    assert node.memory > 0
    assert connect("ray").is_ours is False


@pytest.mark.parametrize("on", ["ray:x", "ray://", "ray://host", "ray://host:0", "dask"])
def test_wrong_addresses_are_refused(on: str):
    with pytest.raises(InputError, match="on: expected ray or ray://HOST:PORT, got "):
        connect(on)


def test_an_address_that_nobody_answers_is_refused_soon(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("weft.execute.ray_connect.PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(InputError, match=f"on: no Ray answers at ray://127.0.0.1:{port} within 0.2 s"):
            connect(f"ray://127.0.0.1:{port}")
    with pytest.raises(InputError, match="on: no Ray answers at"):
        connect(f"ray://127.0.0.1:{port}")


def test_the_address_of_this_ray_is_taken():
    address = ray.get_runtime_context().gcs_address
    assert connect(f"ray://{address}").is_ours is False
