"""``weft run`` that is stopped: by Ctrl-C it ends cleanly, after ``kill -9`` it goes on; no process is left, ever."""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from processes import all_gone

from benchmarks._faulty import Flow, judged, results
from weft.io.histories import read_history
from weft.model.history_oracle import check_history

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are found in /proc"
)


class Driver:
    """A ``weft run`` in a process of its own; whatever it starts can be found."""

    def __init__(self, folder: Path, on: str, flow: Flow) -> None:
        self.folder, self.flow = folder, flow
        self.mark = f"WEFT_MARK={uuid.uuid4().hex}"
        self.words = [
            *("run", str(folder / "graph.json"), "--functions", str(folder / "functions.py")),
            *("--cluster", str(folder / "cluster.toml"), "--on", on, "--out", str(folder / "run")),
        ]

    @property
    def history(self) -> Path:
        return self.folder / "run" / "history.jsonl"

    def start(self, *more: str) -> subprocess.Popen[str]:
        name, _, value = self.mark.partition("=")
        return subprocess.Popen(
            [sys.executable, "-m", "weft.cli", *self.words, *more],
            env={**os.environ, name: value, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
        )

    def run_until(self, rows: int, *more: str) -> subprocess.Popen[str]:
        """Start, and return when the history has so many rows, or the process has ended."""
        process = self.start(*more)
        while process.poll() is None and self.num_rows < rows:
            time.sleep(0.005)
        return process

    @property
    def num_rows(self) -> int:
        return self.history.read_bytes().count(b"\n") if self.history.exists() else 0


def driver(tmp_path: Path, on: str = "local", seed: int = 3) -> Driver:
    flow = Flow.drawn(seed, 0.05, 0.15)
    flow.write(tmp_path)
    return Driver(tmp_path, on, flow)


@pytest.mark.parametrize("on", ["local", "dask"])
def test_ctrl_c_ends_cleanly_and_says_how_to_go_on(on: str, tmp_path: Path):
    if on == "dask":
        pytest.importorskip("distributed")
    ran = driver(tmp_path, on)
    process = ran.run_until(12)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == (
        f"weft: interrupted; to go on: {shlex.join(['weft', *ran.words, '--resume'])}"
    )
    assert "Traceback" not in err
    assert all_gone(ran.mark)
    rows = read_history(ran.history)
    assert (rows[-1]["event"], rows[-1]["ok"], rows[-1]["reason"]) == ("closed", False, "interrupted")
    process = ran.start("--resume")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert judged(ran.flow, tmp_path / "run") == []
    assert all_gone(ran.mark)


def test_second_ctrl_c_leaves_no_process_either(tmp_path: Path):
    ran = driver(tmp_path)
    process = ran.run_until(12)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    assert all_gone(ran.mark)


def test_ctrl_c_before_anything_runs_leaves_nothing(tmp_path: Path):
    ran = driver(tmp_path)
    process = ran.run_until(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert all_gone(ran.mark)


@pytest.mark.parametrize(
    "seed", [11, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 20))]
)
def test_driver_that_is_killed_again_and_again_comes_to_the_end(seed: int, tmp_path: Path):
    ran, rng = driver(tmp_path, seed=seed), random.Random(seed)
    more: tuple[str, ...] = ()
    for place in sorted(rng.sample(range(3, 4 * len(ran.flow.tasks)), 2)):
        process = ran.run_until(place, *more)
        process.kill()
        process.communicate()
        assert all_gone(ran.mark), "workers end by themselves when their driver is gone"
        more = ("--resume",) if ran.history.exists() else ()
    if b'"closed"' not in ran.history.read_bytes():
        process = ran.start(*more, "--json")
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert judged(ran.flow, tmp_path / "run") == []
    assert all_gone(ran.mark)


def test_results_that_were_kept_are_read_and_those_that_cannot_be_are_made_again(tmp_path: Path):
    """A task that hands on a lock-like object cannot be kept; its child needs it after the driver died."""
    (tmp_path / "functions.py").write_text(
        "import time\n"
        "class Thing:\n    value = 7\n"
        f"LOG = {str(tmp_path / 'log')!r}\n"
        "def note(name):\n    open(LOG, 'a').write(name + '\\n')\n"
        "def plain():\n    note('plain')\n    return 5\n"
        "def thing():\n    note('thing')\n    return Thing()\n"
        "def last(a, b):\n    note('last')\n    time.sleep(1.0)\n    return a + b.value\n"
    )
    (tmp_path / "graph.json").write_text(
        '{"tasks": [{"name": "plain", "work": 0.1}, {"name": "thing", "work": 0.1}, {"name": "last", "work": 1}],'
        ' "edges": [{"source": "plain", "target": "last"}, {"source": "thing", "target": "last"}]}'
    )
    (tmp_path / "cluster.toml").write_text('[[device]]\nclass = "cpu"\ncount = 2\n')
    ran = Driver(tmp_path, "local", Flow({}, 0))
    process = ran.start()
    while "last" not in ((tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""):
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    process = ran.start("--resume")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    done = (tmp_path / "log").read_text().split()
    assert sorted(done) == ["last", "last", "plain", "thing", "thing"]  # plain was kept
    rows = read_history(tmp_path / "run")
    assert check_history(rows) == ()
    assert sorted(row["task"] for row in rows if row["event"] == "reported") == ["last", "plain", "thing"]
    assert results(tmp_path / "run")["last"] == 12
