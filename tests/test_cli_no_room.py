"""A full disk, and a stdout that is full or closed: one line, the right exit code, nothing lost."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from weft.errors import InputError
from weft.evaluation.sets.bench import append
from weft.training.run.metrics import Metrics

ROOT = Path(__file__).resolve().parent.parent
FULL = Path("/dev/full")
PROBLEM = (str(ROOT / "examples" / "pipeline.json"), "-c", str(ROOT / "examples" / "cluster.toml"))
SCHEDULE = ("schedule", *PROBLEM)
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


Stream = IO[str] | int | None


def weft(
    *words: str,
    first: Callable[[], None] | None = None,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """Run a command line in a process that calls ``first``."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "weft", *words]
    return subprocess.run(
        command, env=env, text=True, check=False, preexec_fn=first, stdout=stdout, stderr=stderr
    )


def limited(room: int) -> Callable[[], None]:
    """No file may grow beyond ``room`` bytes."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    return limit


def is_one_line(text: str) -> bool:
    lines = [line for line in text.splitlines() if not line.endswith(" ...")]
    return len([line for line in lines if line.startswith("weft: ")]) == 1 and "Traceback" not in text


TO_STDOUT = [
    SCHEDULE,
    (*SCHEDULE, "--json"),
    ("compare", *PROBLEM, "-s", "heft,cpop"),
    ("gantt", *PROBLEM),
    ("schedulers",),
    ("recipes", "--show", "conditional"),
    ("schedule", "missing.json", "--json"),
    ("--help",),
    ("--version",),
]


@pytest.mark.parametrize("words", TO_STDOUT, ids=lambda words: " ".join(map(os.path.basename, words)))
def test_full_stdout_is_one_line(words: tuple[str, ...]):
    with FULL.open("w") as full:
        found = weft(*words, stdout=full)
    assert found.returncode == 2
    assert is_one_line(found.stderr)
    assert "weft: stdout: No space left on device\n" in found.stderr


def test_full_stdout_without_buffer_is_one_line():
    command = [sys.executable, "-u", "-m", "weft", "schedulers"]
    with FULL.open("w") as full:
        found = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (found.returncode, found.stderr) == (2, "weft: stdout: No space left on device\n")


def test_full_stdout_keeps_what_was_written(tmp_path: Path):
    with FULL.open("w") as full:
        assert weft(*SCHEDULE, "--out", str(tmp_path / "plan.json"), stdout=full).returncode == 2
    assert json.loads((tmp_path / "plan.json").read_text())["valid"]


@pytest.mark.parametrize("words", [("schedulers",), ("schedulers", "--json")])
def test_closed_stdout_is_one_line(words: tuple[str, ...]):
    found = weft(*words, stdout=None, first=lambda: os.close(1))
    assert found.returncode == 2
    assert found.stderr == "weft: stdout: expected an open file, it is closed\n"


def test_reader_that_goes_away_ends_it_quietly():
    read, write = os.pipe()
    os.close(read)
    found = weft("schedulers", stdout=write)
    os.close(write)
    assert (found.returncode, found.stderr) == (1, "")


def test_full_or_closed_stderr_stops_nothing():
    with FULL.open("w") as full:
        found = weft(*SCHEDULE, "--json", stderr=full)
    assert found.returncode == 0
    assert json.loads(found.stdout)["valid"]
    found = weft(*SCHEDULE, "--json", stderr=None, first=lambda: os.close(2))
    assert found.returncode == 0
    assert json.loads(found.stdout)["valid"]


GENERATE = ("generate", "layered", "-n", "300")
NO_ROOM = [
    (*SCHEDULE, "--out", "out.json"),
    (*SCHEDULE, "--gantt", "out.svg"),
    (*SCHEDULE, "--gantt", "out.html"),
    (*GENERATE, "--out", "out.json"),
    ("convert", PROBLEM[0], "out.toml"),
    ("init", "--out", "out.toml"),
]


@pytest.mark.parametrize("words", NO_ROOM, ids=lambda words: f"{words[0]} {words[-1]}")
def test_full_disk_is_one_line_that_names_the_file(words: tuple[str, ...], tmp_path: Path):
    *rest, name = words
    found = weft(*rest, str(tmp_path / name), first=limited(100))
    assert found.returncode == 2
    assert is_one_line(found.stderr)
    assert f"weft: {tmp_path / name}: cannot be written: File too large" in found.stderr
    assert list(tmp_path.iterdir()) == []


def sweep(folder: Path, seeds: int) -> tuple[str, ...]:
    few = ("--problems", "1", "--seeds", str(seeds), "--check", "none")
    return ("evaluate", PROBLEM[0], *PROBLEM[1:], "-s", "heft,cpop", *few, "--out", str(folder))


def test_full_disk_keeps_the_rows_of_a_sweep(tmp_path: Path):
    assert weft(*sweep(tmp_path / "sweep", 1)).returncode == 0
    with sqlite3.connect(tmp_path / "sweep" / "sweep.sqlite") as kept:
        before = kept.execute("SELECT * FROM rows").fetchall()
    found = weft(*sweep(tmp_path / "sweep", 1), first=limited(100))
    assert found.returncode in (0, 2)
    assert "Traceback" not in found.stderr
    with sqlite3.connect(tmp_path / "sweep" / "sweep.sqlite") as kept:
        assert kept.execute("SELECT * FROM rows").fetchall() == before


def test_full_disk_ends_a_new_sweep_with_one_line(tmp_path: Path):
    found = weft(*sweep(tmp_path / "sweep", 1), first=limited(5000))
    assert found.returncode == 2
    assert is_one_line(found.stderr)
    assert "sweep.sqlite: cannot be read or written: " in found.stderr


def test_full_disk_names_the_record_of_a_benchmark():
    with pytest.raises(InputError, match=r"^/dev/full: cannot be written: No space left"):
        append(FULL, {"instance": "a"})


def test_full_disk_names_the_metrics_of_a_run():
    metrics = Metrics(FULL)
    metrics.append(1, {"loss": 1.0})
    for write in (metrics.sync, metrics.close):
        with pytest.raises(InputError, match=r"^/dev/full: cannot be written: No space left"):
            write()
