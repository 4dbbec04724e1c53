"""Fixtures shared by the suite: a few tiny problems with known answers."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from command_line import Ran, Weft

from weft.cli import main
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Problem


def pytest_configure() -> None:
    """Hear Ctrl-C: a job in the background of a script, or under ``nohup``, ignores it, and so would all it starts."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def weft(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weft:
    """Runs one command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_DEBUG", raising=False)

    def run(*words: str) -> Ran:
        code = main(list(words))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def fork() -> TaskGraph:
    """Root 1, children 10 and 10, 100 bytes to each: 21 without copies, 11 with."""
    builder = GraphBuilder("fork")
    builder.task("root", 1.0)
    builder.task("left", 10.0, after={"root": 100.0})
    builder.task("right", 10.0, after={"root": 100.0})
    return builder.build()


@pytest.fixture
def pair() -> Cluster:
    """Two equal devices, one byte per second between them."""
    return Cluster.uniform((DeviceClass("cpu"),), (2,), bandwidth=1.0)


@pytest.fixture
def fork_problem(fork: TaskGraph, pair: Cluster) -> Problem:
    """The fork on the pair."""
    return Problem(fork, pair)
