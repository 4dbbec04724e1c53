"""Calibration: what is measured becomes a cluster of classes, nodes and links."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.execute import calibrate as module
from weft.execute.calibrate import Calibration, calibrate
from weft.execute.probes import NAP, PROBES, Probe, Span, WorkerInfo, best_of, open_probe
from weft.io.files import read_cluster
from weft.io.workers import read_calibration, read_workers


@dataclass
class Pretended:
    """Workers of given speeds on given hosts; nothing really runs."""

    infos: list[WorkerInfo]
    speeds: dict[str, float]
    gap: float = 0.004
    is_uniform: bool = False
    name: str = "pretended"
    asked: list[str] = field(default_factory=list)
    missing: tuple[str, ...] = ()

    def workers(self) -> list[WorkerInfo]:
        return self.infos

    def run(self, worker: WorkerInfo, function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
        if function is not best_of:
            return None, 0.0
        self.asked.append(worker.name)
        if arguments[0] in self.missing:
            return None, 0.0
        base = 0.002 if isinstance(arguments[0], str) else float(arguments[0]())
        return base / self.speeds[worker.name], 0.0

    def burst(self, worker: WorkerInfo, count: int) -> list[Span]:
        each, spans = NAP + self.gap, []
        for i in range(count):
            begin = (i // worker.slots) * each
            spans.append((begin, begin + NAP))
        return spans

    def send(self, source: WorkerInfo, target: WorkerInfo, num_bytes: int) -> float:
        return 0.001 + num_bytes / 1e9 if source.host == target.host else 0.01 + num_bytes / 1e8

    def close(self) -> None:
        pass


def pretended(speeds: list[float], hosts: int = 1, **more: Any) -> Pretended:
    infos = [WorkerInfo(f"w{i}", f"tcp://h:{i}", host=f"h{i % hosts}", **more) for i in range(len(speeds))]
    return Pretended(infos, {one.name: speed for one, speed in zip(infos, speeds, strict=True)})


def test_workers_of_equal_speed_are_one_class():
    found = calibrate(pretended([1.0, 1.04, 0.98]))
    (only,) = found.cluster.classes
    assert (only.name, only.speed, only.overhead) == ("cpu", 1.0, pytest.approx(0.004))
    assert dict(found.workers) == {"cpu-0": "w0", "cpu-1": "w1", "cpu-2": "w2"}
    assert found.dispatch_gap == pytest.approx(0.004)


def test_faster_workers_are_a_class_of_their_own():
    found = calibrate(pretended([1.0, 3.0, 1.0]))
    assert {one.name: one.speed for one in found.cluster.classes} == {"fast": 3.0, "slow": 1.0}
    assert dict(found.workers) == {"fast-0": "w1", "slow-0": "w0", "slow-1": "w2"}
    assert found.reference in ("w0", "w2")


def test_a_worker_may_be_named_as_the_reference():
    found = calibrate(pretended([1.0, 2.0, 4.0]), reference="w0")
    assert {one.name: one.speed for one in found.cluster.classes} == {"fast": 4.0, "medium": 2.0, "slow": 1.0}
    with pytest.raises(InputError, match="reference: no worker 'x'"):
        calibrate(pretended([1.0]), reference="x")


def test_many_speeds_are_numbered():
    found = calibrate(pretended([1.0, 2.0, 4.0, 8.0]))
    assert [one.name for one in found.cluster.classes] == ["cpu1", "cpu2", "cpu3", "cpu4"]


def test_slots_memory_and_resources_tell_classes_apart():
    infos = [
        WorkerInfo("a", slots=1),
        WorkerInfo("b", slots=2),
        WorkerInfo("c", resources={"GPU": 1.0}),
        WorkerInfo("d", memory=8e9),
        WorkerInfo("e", memory=8.01e9),
    ]
    found = calibrate(Pretended(infos, dict.fromkeys("abcde", 1.0)))
    cluster = found.cluster
    of = {
        worker: cluster.classes[cluster.device_class[cluster.device_index[d]]]
        for d, worker in found.workers.items()
    }
    assert (of["b"].slots, of["c"].capacity, of["d"].memory) == (2, {"GPU": 1.0}, 8e9)
    assert of["d"] is of["e"]
    assert (cluster.num_classes, of["c"].name) == (4, "gpu")
    assert of["b"].overhead == pytest.approx(0.004)


def test_links_within_and_between_hosts_are_told_apart():
    cluster = calibrate(pretended([1.0] * 4, hosts=2)).cluster
    assert cluster.node.tolist() == [0, 0, 1, 1]
    assert cluster.transfer_time(0, 1, 1e9) == pytest.approx(1.001, rel=1e-3)
    assert cluster.transfer_time(0, 2, 1e8) == pytest.approx(1.01, rel=1e-3)


def test_one_worker_has_no_links():
    found = calibrate(pretended([1.0]))
    assert (found.links, found.cluster.num_devices) == ((), 1)
    assert "link" not in found.record()


def test_kinds_of_the_user_have_speeds():
    found = calibrate(pretended([1.0, 2.0]), kinds={"resnet": lambda: 0.5}, reference="w0")
    assert {one.name: dict(one.speeds) for one in found.cluster.classes} == {
        "fast": {"resnet": 2.0},
        "slow": {"resnet": 1.0},
    }


def test_a_probe_that_some_worker_cannot_run_is_left_out():
    probe = pretended([1.0, 1.0])
    probe.missing = ("numpy",)
    assert list(calibrate(probe).figures[0].probes) == ["python", "zlib", "io"]
    probe.missing = tuple(PROBES)
    with pytest.raises(InputError, match="no probe ran on all workers"):
        calibrate(probe)


def test_without_time_the_rest_is_taken_from_what_is_like_it():
    probe = pretended([1.0] * 50)
    found = calibrate(probe, seconds=1e-9)
    assert set(probe.asked) == {"w0"}
    assert [one.is_measured for one in found.figures] == [True] + [False] * 49
    assert found.cluster.num_classes == 1


def test_workers_alike_by_construction_are_measured_twice_at_most():
    probe = pretended([1.0, 2.0, 1.0, 1.0])
    probe.is_uniform = True
    assert calibrate(probe).cluster.num_classes == 1
    assert set(probe.asked) == {"w0", "w1"}


def test_progress_is_told():
    told: list[tuple[int, int, str]] = []
    calibrate(pretended([1.0, 1.0]), progress=lambda *step: told.append(step))
    assert [done for done, _, _ in told] == list(range(told[0][1]))
    assert told[0][2] == "speed of w0"


@pytest.mark.parametrize(
    ("probe", "more", "message"),
    [
        (pretended([]), {}, "on: expected at least one worker, got none"),
        (pretended([1.0]), {"seconds": 0.0}, "seconds: expected a time > 0, got 0.0"),
    ],
)
def test_what_cannot_be_measured_is_refused(probe: Pretended, more: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        calibrate(probe, **more)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.5, 1.0, 2.0, 8.0]), st.integers(0, 3), st.integers(1, 2)),
        min_size=1,
        max_size=9,
    )
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_files_keep_which_device_is_which_worker(rows: list[tuple[float, int, int]]):
    infos = [WorkerInfo(f"w{i}", slots=slots, host=f"h{host}") for i, (_, host, slots) in enumerate(rows)]
    found = calibrate(Pretended(infos, {f"w{i}": speed for i, (speed, _, _) in enumerate(rows)}))
    path = Path("calibrated.toml")
    again = written(found, path)
    assert again.device_names == found.cluster.device_names
    assert (again.classes, again.node.tolist()) == (found.cluster.classes, found.cluster.node.tolist())
    every = range(len(rows))
    assert [[again.transfer_time(a, b, 1e6) for b in every] for a in every] == [
        [found.cluster.transfer_time(a, b, 1e6) for b in every] for a in every
    ]
    basis = next(speed for (speed, _, _), one in zip(rows, infos, strict=True) if one.name == found.reference)
    for device, worker in read_workers(path).items():
        speed, _, slots = rows[int(worker[1:])]
        one = again.classes[again.device_class[again.device_index[device]]]
        assert (one.speed, one.slots) == (pytest.approx(speed / basis, rel=1e-3), slots)
    assert sorted(read_workers(path).values()) == sorted(one.name for one in infos)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(found: Calibration, path: Path) -> Any:
    found.write(path)
    return read_cluster(path)


def test_file_says_how_it_was_measured(tmp_path: Path):
    found = calibrate(pretended([1.0, 2.0], hosts=2))
    found.write(tmp_path / "c.toml")
    record = read_calibration(tmp_path / "c.toml")
    assert (record["engine"], record["probes"]) == ("pretended", list(PROBES))
    assert record["worker"][0]["device"] == next(iter(found.workers))
    assert record["link"][0]["one_host"] is False
    assert set(tomllib.loads((tmp_path / "c.toml").read_text())) >= {"workers", "calibration", "device"}


@pytest.mark.parametrize("on", ["spark", "", "loc"])
def test_unknown_engines_are_refused(on: str):
    with pytest.raises(InputError, match="on: expected local, dask"):
        open_probe(on)


def test_workers_are_not_started_where_they_are_already():
    with pytest.raises(InputError, match="they are there already"):
        open_probe("dask://host:1", 3)


# -- engines that are really there --------------------------------------------------------------------


def measured(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> Calibration:
    """A short calibration of a real engine; it is closed."""
    monkeypatch.setattr(module, "LARGER", 1_000_000)
    try:
        return calibrate(probe, seconds=3.0)
    finally:
        probe.close()


def check(found: Calibration, num_workers: int) -> None:
    assert len(found.workers) == num_workers
    assert all(value > 0 for one in found.figures for value in one.probes.values())
    assert 0 <= found.dispatch_gap < 1.0
    assert 0 <= found.first_task < 5.0
    assert set(found.figures[0].probes) >= {"python", "zlib", "io"}


def failing() -> None:
    raise ValueError("no such model")


def test_local_processes_are_measured(monkeypatch: pytest.MonkeyPatch):
    found = measured(open_probe("local", 2), monkeypatch)
    check(found, 2)
    assert found.cluster.num_classes == 1
    assert len(found.links) > 0


def test_local_processes_say_what_failed():
    probe = open_probe("local", 1)
    try:
        with pytest.raises(InputError, match="a probe failed on local-0: ValueError: no such model"):
            probe.run(probe.workers()[0], failing)
        with pytest.raises(InputError, match="kinds: expected a function at the top of a module"):
            probe.run(probe.workers()[0], lambda: None)
        assert probe.run(probe.workers()[0], len, "abc")[0] == 3
    finally:
        probe.close()


def test_dask_workers_are_measured(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("distributed")
    found = measured(open_probe("dask", 2), monkeypatch)
    check(found, 2)
    assert (found.engine, sorted(found.workers.values())) == ("dask", ["0", "1"])


@pytest.mark.parametrize("on", ["dask://", "dask://host"])
def test_an_address_of_dask_without_a_port_is_one_line(on: str):
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="on: expected dask, dask://HOST:PORT"):
        open_probe(on)


def test_a_dask_scheduler_that_is_not_there_is_one_line():
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match=r"on: no Dask scheduler answers at dask://127.0.0.1:9"):
        open_probe("dask://127.0.0.1:9")


def test_ray_nodes_are_measured(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("ray")
    found = measured(open_probe("ray", 2), monkeypatch)
    check(found, 1)
    assert found.cluster.classes[0].slots == 2
