"""weft agents: a run that survives the death of its coordinator, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from command_line import Weft
from processes import all_gone, marked


def test_agents_survive_their_coordinator_and_say_so(weft: Weft, tmp_path: Path):
    words = ("agents", "edge-multi-3", "--set", "tasks=40", "--kill-coordinator-at", "4", "--step", "20ms")
    ran = weft(*words, "--out", "run", "--json")
    assert ran.code == 0
    found = ran.json
    assert found["schema"] == "weft/agents/1"
    assert (found["tasks"], found["completed"], found["ok"]) == (40, 40, True)
    assert found["coordinators"] == 2
    assert found["metrics"]["mean_completion"] > 2
    assert (tmp_path / "run" / "cluster-0.jsonl").exists()
    ran = weft(*words, "--out", "run")
    assert ran.code == 2
    assert "there is a run in this folder" in ran.err


OWN = """
import numpy as np

class First:
    name = "first"

    def begin(self, problem, seeds):
        return self

    def decide(self, sight):
        has_any = (sight.slot >= 0).any(-1)
        slot = np.where(has_any, (sight.slot >= 0).argmax(-1), -1)
        units = np.zeros(sight.most.shape, np.int64)
        units[..., 0], units[..., 1] = 2, np.clip(sight.most[..., 1], 1, 4)
        return slot, units, np.full(slot.shape, 0.5)
"""


def test_agents_run_an_allocator_of_ones_own(weft: Weft, tmp_path: Path):
    (tmp_path / "mine.py").write_text(OWN)
    words = ("agents", "edge-single-3", "-s", "mine.py:First", "--set", "tasks=15", "--replicas", "1")
    ran = weft(*words, "--json")
    assert (ran.code, ran.err) == (0, ran.err)
    assert ran.json["as_simulated"] is True
    assert ran.json["completed"] == 15


def test_agents_end_with_whoever_started_them(tmp_path: Path):
    words = [
        sys.executable,
        "-m",
        "weft",
        "agents",
        "edge-multi-3",
        "-s",
        "min",
        "--step",
        "1s",
        "--out",
        "run",
    ]
    mark = f"WEFT_TEST_MARK_{os.getpid()}"
    started = subprocess.Popen(words, cwd=tmp_path, env={**os.environ, mark: "1"}, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not (tmp_path / "run" / "decisions-0.jsonl").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert len(marked(mark)) == 7
    started.kill()
    started.wait()
    assert all_gone(mark)


def test_agents_refuse_what_they_cannot_run(weft: Weft):
    for words, said in (
        (("jobshop",), "has no elastic tasks"),
        (("edge-multi-3", "-s", "nope"), "--scheduler: no allocator 'nope'"),
        (("edge-multi-3", "--patience", "0s"), "--patience: expected a number >= 0.1"),
        (("edge-multi-3", "--latency", "soon"), "--latency: "),
        (("edge-multi-3", "--bandwidth", "-1"), "--bandwidth: expected a number >= 0"),
        (("edge-multi-3", "--replicas", "0"), "--replicas"),
    ):
        ran = weft("agents", *words)
        assert (ran.code, said in ran.err) == (2, True), ran.err
