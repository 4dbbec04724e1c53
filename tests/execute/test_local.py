"""Worker processes on this machine: order, results, faults, and that nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import local_tasks
import pytest
from processes import gone

from weft.errors import InputError
from weft.execute.engine import Event, Order
from weft.execute.lanes import Device
from weft.execute.local import LocalEngine, LocalSettings, devices_of
from weft.execute.sending import check_sendable, has_cloudpickle
from weft.execute.work import Call, Command, Rehearsal, Result, Work
from weft.model.cluster import Cluster, DeviceClass


class Works(dict[str, Work]):
    def work(self, job: str | int, task: str) -> Work:
        return self[task]


Make = Callable[..., LocalEngine]


@pytest.fixture
def make() -> Iterator[Make]:
    """Starts engines and closes them; no process of theirs is left."""
    engines: list[LocalEngine] = []
    pids: set[int] = set()

    def start(works: dict[str, Work], shape: tuple[int, ...] = (1, 1), **settings: Any) -> LocalEngine:
        devices = [Device(f"cpu-{k}", "cpu", count) for k, count in enumerate(shape)]
        results = settings.pop("results", None)
        engine = LocalEngine(devices, Works(works), LocalSettings(**settings))
        engines.append(engine)
        engine.start(results)
        pids.update(engine.pids.values())
        return engine

    yield start
    for engine in engines:
        pids.update(engine.pids.values())
        engine.close()
    assert [pid for pid in pids if not gone(pid)] == []


def order(task: str, device: int = 0, *, attempt: int = 1, inputs: tuple[str, ...] = ()) -> Order:
    return Order("job", task, f"cpu-{device}", attempt, 0, inputs)


def until(engine: LocalEngine, done: Callable[[list[Event]], bool], seconds: float = 20.0) -> list[Event]:
    """Events up to the first after which ``done`` holds."""
    events: list[Event] = []
    limit = time.time() + seconds
    while not done(events):
        assert time.time() < limit, events
        events += engine.events(None)
    return events


def ends(events: list[Event]) -> dict[str, str]:
    """How every task ended: an empty text, or the note."""
    return {e.task: e.note for e in events if e.kind in ("finished", "failed")}


def all_end(count: int) -> Callable[[list[Event]], bool]:
    return lambda events: len(ends(events)) == count


def test_results_travel_between_devices_and_stay_on_one(make: Make):
    engine = make(
        {
            "a": Call(local_tasks.one),
            "b": Call(local_tasks.add, (Result("a"), 10)),
            "c": Call(local_tasks.add, (Result("a"), Result("b"))),
        }
    )
    engine.submit(order("a"))
    events = until(engine, all_end(1))
    engine.submit(order("b", 1, inputs=("a",)))
    events += until(engine, all_end(1))
    engine.submit(order("c", inputs=("a", "b")))
    events += until(engine, all_end(1))
    assert engine.result("job", "c") == 12
    kinds = [(e.kind, e.task, e.device) for e in events]
    assert kinds == [
        (kind, task, device)
        for task, device in (("a", "cpu-0"), ("b", "cpu-1"), ("c", "cpu-0"))
        for kind in ("started", "finished")
    ]
    assert [e.time for e in events] == sorted(e.time for e in events) and events[-1].size
    assert events[0].time >= 0 and events[-1].time <= engine.now


def test_orders_of_a_device_run_in_order_and_wait_for_results_made_there(make: Make):
    engine = make(
        {
            "a": Call(local_tasks.nap, (0.2, 4)),
            "b": Call(local_tasks.add, (Result("a"),)),
            "c": Call(local_tasks.one),
        }
    )
    for task, inputs in (("a", ()), ("b", ("a",)), ("c", ())):
        engine.submit(order(task, inputs=inputs))
    events = until(engine, all_end(3))
    assert [e.task for e in events if e.kind == "started"] == ["a", "b", "c"]
    assert engine.result("job", "b") == 4
    times = {(e.kind, e.task): e.time for e in events}
    assert times["finished", "a"] <= times["started", "b"] <= times["finished", "b"] <= times["started", "c"]


def test_slots_run_together_and_an_order_takes_as_many_as_it_needs(make: Make, tmp_path: Path):
    meeting = {str(k): Call(local_tasks.meet, (str(tmp_path), k, 2)) for k in range(2)}
    works = {**meeting, "wide": Call(local_tasks.nap, (0.2,)), "next": Call(local_tasks.nap, (0.1,))}
    engine = make(works, (2,), slots=lambda job, task: 2 if task == "wide" else 1)
    for task in works:
        engine.submit(order(task))
    events = until(engine, all_end(4))
    assert [engine.result("job", str(k)) for k in range(2)] == [True, True]
    times = {(e.kind, e.task): e.time for e in events}
    assert times["started", "wide"] >= max(times["finished", "0"], times["finished", "1"])
    assert times["started", "next"] >= times["finished", "wide"]


def test_single_slots_run_tasks_in_the_main_thread(make: Make):
    engine = make({"a": Call(local_tasks.thread_name)})
    engine.submit(order("a"))
    until(engine, all_end(1))
    assert engine.result("job", "a") == "MainThread"


def test_results_given_at_the_start_are_inputs(make: Make):
    engine = make({"b": Call(local_tasks.add, (Result("a"), 1))}, results={("job", "a"): 41})
    engine.submit(order("b", inputs=("a",)))
    until(engine, all_end(1))
    assert engine.result("job", "b") == 42


def test_results_that_nobody_has_fail_the_order(make: Make):
    engine = make({"b": Call(local_tasks.add, (Result("a"), 1))})
    engine.submit(order("b", inputs=("a",)))
    assert ends(until(engine, all_end(1))) == {"b": "lost result of a"}


def test_results_are_sent_again_when_the_worker_does_not_hold_them(make: Make):
    works = {str(k): Call(local_tasks.block, (1000,)) for k in range(10)}
    engine = make({**works, "sum": Call(local_tasks.add, tuple())}, held_bytes=0)
    for task in works:
        engine.submit(order(task))
    until(engine, all_end(10))
    engine.submit(order("sum", inputs=("0", "9")))
    assert ends(until(engine, all_end(1))) == {"sum": ""}


def test_a_failed_task_leaves_its_note_and_stops_what_waits_for_it_there(make: Make):
    engine = make(
        {
            "a": Call(local_tasks.break_down),
            "b": Call(local_tasks.add, (Result("a"),)),
            "c": Call(local_tasks.one),
        }
    )
    for task, inputs in (("a", ()), ("b", ("a",)), ("c", ())):
        engine.submit(order(task, inputs=inputs))
    assert ends(until(engine, all_end(3))) == {
        "a": "RuntimeError: no luck",
        "b": "its input 'a' has failed",
        "c": "",
    }


@pytest.mark.parametrize(
    ("work", "note"),
    [
        (Call(local_tasks.lock), "its result cannot be sent: "),
        (Call(local_tasks.block, (20_000,)), "its result of 20"),
        (Command("exit 3"), "exit code 3"),
    ],
)
def test_what_cannot_end_well_fails_in_one_line(make: Make, work: Work, note: str):
    engine = make({"a": work}, most_bytes=10_000)
    engine.submit(order("a"))
    (found,) = ends(until(engine, all_end(1))).values()
    assert found.startswith(note) and "\n" not in found


def test_a_killed_worker_is_lost_and_joins_again(make: Make):
    engine = make(
        {
            "a": Call(local_tasks.nap, (0.0, 5)),
            "b": Call(local_tasks.hang),
            "c": Call(local_tasks.add, (Result("a"),)),
        }
    )
    engine.submit(order("a"))
    until(engine, all_end(1))
    engine.submit(order("b"))
    engine.submit(order("c", inputs=("a",)))
    until(engine, lambda events: any(e.kind == "started" and e.task == "b" for e in events))
    os.kill(engine.pids["cpu-0"], signal.SIGKILL)
    events = until(engine, lambda events: any(e.kind == "joined" for e in events))
    assert [(e.kind, e.device, e.note) for e in events] == [
        ("lost", "cpu-0", "killed by signal 9"),
        ("joined", "cpu-0", ""),
    ]
    engine.submit(order("c", attempt=2, inputs=("a",)))  # its input outlives the worker that made it
    until(engine, all_end(1))
    assert engine.result("job", "c") == 5


def test_a_task_that_ends_its_process_takes_the_worker_with_it(make: Make):
    engine = make({"a": Call(local_tasks.die)}, restart=False)
    engine.submit(order("a"))
    events = until(engine, lambda events: any(e.kind == "lost" for e in events))
    assert events[-1].note == "exit code 7"
    engine.submit(order("a", attempt=2))
    assert ends(until(engine, all_end(1))) == {"a": "its device is not there"}


def test_a_hanging_task_is_stopped_and_the_others_go_on(make: Make):
    engine = make({"a": Call(local_tasks.hang), "b": Call(local_tasks.one)}, timeout=0.5)
    before = engine.pids["cpu-0"]
    engine.submit(order("a"))
    engine.submit(order("b"))
    events = until(engine, all_end(2))
    assert ends(events) == {"a": "timed out after 0.5 s", "b": ""}
    assert not any(e.kind in ("lost", "joined") for e in events) and engine.pids["cpu-0"] != before


def test_a_hanging_task_among_others_takes_the_worker_with_it(make: Make):
    engine = make(
        {"a": Call(local_tasks.hang), "b": Call(local_tasks.hang)},
        (2,),
        timeout=lambda job, task: 0.3 if task == "a" else None,
    )
    engine.submit(order("a"))
    engine.submit(order("b"))
    events = until(engine, lambda events: any(e.kind == "joined" for e in events))
    assert [(e.kind, e.task, e.note) for e in events if e.kind in ("failed", "lost")] == [
        ("failed", "a", "timed out after 0.3 s"),
        ("lost", "", "killed by signal 9"),
    ]


@pytest.mark.parametrize(
    "work", [Call(local_tasks.hang), Command("sleep 60"), Rehearsal({"cpu": 60.0}, share=0.1)]
)
def test_orders_can_be_cancelled_while_they_run_and_while_they_wait(make: Make, work: Work):
    engine = make({"a": work, "b": work, "c": Call(local_tasks.one)})
    orders = [order("a"), order("b"), order("c")]
    for one in orders:
        engine.submit(one)
    until(engine, lambda events: any(e.kind == "started" for e in events))
    engine.cancel(orders[1])
    engine.cancel(orders[0])
    engine.cancel(orders[0])
    events = until(engine, all_end(3))
    assert ends(events) == {"a": "cancelled", "b": "cancelled", "c": ""}
    assert [e.task for e in events if e.kind == "started"] == ["c"]
    assert not any(e.kind == "lost" for e in events)


def test_rehearsals_slow_down_from_a_moment_on(make: Make):
    engine = make(
        {"a": Rehearsal({"cpu": 0.1}, size=5), "b": Rehearsal({"cpu": 0.1})},
        slowdown={"cpu-0": [(0.05, 5.0)]},
    )
    engine.submit(order("a"))
    engine.submit(order("b"))
    times = {(e.kind, e.task): e.time for e in until(engine, all_end(2))}
    assert times["finished", "a"] - times["started", "a"] < 0.45
    assert times["finished", "b"] - times["started", "b"] >= 0.5
    assert len(engine.result("job", "a")) == 5


def test_logs_and_results_are_kept_in_the_folder_of_the_task(make: Make, tmp_path: Path):
    from weft.execute.keeping import kept

    engine = make(
        {"a": Command("echo hi"), "b": Call(local_tasks.add, (1, 2))},
        folder=lambda job, task: str(tmp_path / task),
    )
    for task in ("a", "b"):
        (tmp_path / task).mkdir()
        engine.submit(order(task))
    until(engine, all_end(2))
    assert (tmp_path / "a" / "stdout.txt").read_text() == "hi\n"
    assert kept(tmp_path / "a") == 0 and kept(tmp_path / "b") == 3


def text_of(engine: LocalEngine, file: Path) -> str:
    """What a task writes to a file, once it has."""
    while not file.exists() or not file.read_text().strip():
        engine.events(engine.now + 0.05)
    return file.read_text()


def test_programs_that_functions_started_end_with_the_worker(make: Make, tmp_path: Path):
    engine = make({"a": Call(local_tasks.spawn, (str(tmp_path / "pid"),))})
    engine.submit(order("a"))
    pid = int(text_of(engine, tmp_path / "pid"))
    engine.close()
    assert gone(pid)


def test_closing_ends_commands_and_may_be_done_again(make: Make, tmp_path: Path):
    engine = make({"a": Command("echo $$; sleep 600")}, folder=lambda job, task: str(tmp_path))
    engine.submit(order("a"))
    pid = int(text_of(engine, tmp_path / "stdout.txt"))
    engine.close()
    engine.close()
    assert gone(pid)


def test_events_come_back_in_time(make: Make):
    engine = make({})
    began = time.monotonic()
    assert engine.events(engine.now + 0.1) == [] and engine.events(engine.now - 1) == []
    assert time.monotonic() - began < 0.9
    assert engine.events(None) == [] and time.monotonic() - began < 5.0


def test_unknown_devices_are_refused(make: Make):
    engine = make({})
    with pytest.raises(InputError, match="expected one of cpu-0, cpu-1, got 'tpu-0'"):
        engine.submit(Order("job", "a", "tpu-0", 1, 0))


def test_devices_come_from_a_cluster():
    cluster = Cluster.uniform((DeviceClass("cpu", slots=2), DeviceClass("gpu")), (1, 2))
    assert devices_of(cluster) == [
        Device("cpu-0", "cpu", 2),
        Device("gpu-0", "gpu", 1),
        Device("gpu-1", "gpu", 1),
    ]


def test_two_hundred_tasks_take_little_time(make: Make):
    works: dict[str, Work] = {str(k): Call(local_tasks.one) for k in range(200)}
    engine = make(works)
    began, before = time.perf_counter(), time.process_time()
    for k in range(200):
        engine.submit(order(str(k), k % 2))
    until(engine, all_end(200))
    took, cpu = time.perf_counter() - began, time.process_time() - before
    print(f"200 tasks in {took:.3f} s: {5 * took:.2f} ms each, {5 * cpu:.2f} ms of the driver's CPU")


# -- what cannot be sent ---------------------------------------------------------------------------


def test_tasks_that_cannot_be_sent_are_named_before_anything_starts():
    import threading

    works = Works({"fine": Call(local_tasks.one), "bad": Call(local_tasks.add, (threading.Lock(),))})
    assert check_sendable(works, [("job", "fine")]) == ()
    with pytest.raises(
        InputError, match=r"task bad: add or its arguments cannot be sent to a worker \(TypeError"
    ):
        check_sendable(works, [("job", "fine"), ("job", "bad")])


@pytest.mark.skipif(not has_cloudpickle(), reason="needs cloudpickle")
def test_closures_run_where_cloudpickle_is_installed(make: Make):
    shift = 5
    engine = make({"a": Call(lambda x: x + shift, (1,))})
    engine.submit(order("a"))
    until(engine, all_end(1))
    assert engine.result("job", "a") == 6


# -- whole drivers ---------------------------------------------------------------------------------

SCRIPT = """
import sys, time
from weft.execute.engine import Order
from weft.execute.lanes import Device
from weft.execute.local import LocalEngine, LocalSettings
from weft.execute.work import Call, Command

def hang():
    time.sleep(600)

class Works:
    def work(self, job, task):
        return Call(hang) if task == "a" else Command("sleep 600")

def main():
    engine = LocalEngine([Device("x", "c"), Device("y", "c")], Works())
    try:
        engine.start()
        for task, device in (("a", "x"), ("b", "y")):
            engine.submit(Order("job", task, device, 1, 0))
        while not (groups := list(engine._lanes["y"].process.groups.values())):
            for event in engine.events(engine.now + 0.1):
                assert event.kind == "started", event
        print(*engine.pids.values(), *groups, flush=True)
        while True:
            assert not engine.events(None)
    except KeyboardInterrupt:
        engine.close()
        print("interrupted", flush=True)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("without_cloudpickle", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_driver_that_ends_leaves_no_process(tmp_path: Path, number: int, without_cloudpickle: bool):
    file = tmp_path / "script.py"
    blind = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'cloudpickle' else f(n, *a)"
    file.write_text(blind + SCRIPT if without_cloudpickle else SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(file)], stdout=subprocess.PIPE, text=True, env=environment()
    ) as driver:
        assert driver.stdout is not None
        pids = [int(word) for word in driver.stdout.readline().split()]
        assert len(pids) == 3
        driver.send_signal(number)
        rest = driver.stdout.read()
    assert (driver.returncode, rest) == ((0, "interrupted\n") if number == signal.SIGINT else (-9, ""))
    assert [pid for pid in pids if not gone(pid)] == []


def test_a_script_without_a_guard_is_told_so(tmp_path: Path):
    blind = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'cloudpickle' else f(n, *a)"
    text = (blind + SCRIPT).replace('if __name__ == "__main__":\n    main()', "main()")
    text = text.replace("Works())", "Works(), LocalSettings(files=(('__main__', __file__),)))")
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert done.returncode == 1
    assert "put what starts it below if __name__ == '__main__'" in done.stderr.splitlines()[-1]


def environment() -> dict[str, str]:
    import weft

    return {**os.environ, "PYTHONPATH": str(Path(weft.__file__).parents[1])}
