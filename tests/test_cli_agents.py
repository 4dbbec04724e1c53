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


def test_a_scenario_of_edge_clusters_runs_live_with_a_page_and_a_check(weft: Weft, tmp_path: Path):
    ran = weft("run", "edge-single-3", "-s", "static-10", "--out", "run", "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    assert (found["schema"], found["ok"], found["error_percent"]) == ("weft/run/1", True, 0.0)
    assert (found["planned"], found["attempts"], found["inversions"]) == (found["actual"], 192, 0)
    assert weft("validate", "run").out.startswith("valid: 192 tasks completed, each once")
    page = weft("report", "run", "--out", "page.html", "--json").json
    assert page["valid"] is True and "+0.0 %" in page["headline"][0]
    text = (tmp_path / "page.md").read_text()
    for title in ("## Figures", "## Clusters", "## Decisions and messages"):
        assert title in text
    journal = tmp_path / "run" / "cluster-0.jsonl"
    lines = journal.read_text().splitlines()
    first = next(k for k, line in enumerate(lines) if '"place"' in line)
    journal.write_text("\n".join([*lines[: first + 1], lines[first], *lines[first + 1 :]]) + "\n")
    broken = weft("validate", "run", "--json")
    assert (broken.code, broken.json["valid"]) == (1, False)
    assert broken.json["violations"][0]["rule"] == "promise"


def test_run_takes_settings_of_edge_scenarios_alone(weft: Weft, tmp_path: Path):
    ran = weft("run", "edge-single-3", "-s", "min", "--set", "tasks=8", "--set", "clusters=2", "--json")
    assert (ran.code, ran.json["tasks"], ran.json["ok"]) == (0, 8, True), ran.err
    row = weft(
        "evaluate",
        "edge-single-3",
        "-s",
        "min",
        "--set",
        "tasks=8",
        "--set",
        "clusters=2",
        "--seeds",
        "1",
        "--json",
    )
    assert row.json["rows"][0]["mean_completion"] == ran.json["metrics"]["mean_completion"]
    wrong = weft("run", "edge-single-3", "--set", "foo=1")
    assert (wrong.code, "settings.foo: no setting 'foo'" in wrong.err) == (2, True)
    refused = weft("run", "flow.json", "--set", "tasks=8")
    assert refused.code == 2
    assert "--set: is about scenarios: files and jobs have no settings" in refused.err


def test_run_says_what_it_cannot_do_with_a_scenario(weft: Weft):
    for words, said in (
        (
            ("conditional",),
            "GRAPH: tasks of conditional wait in queues by kind: weft evaluate conditional compares",
        ),
        (("edge-single-3", "--on", "dask"), "--on: edge clusters run on this machine: expected local"),
        (("edge-single-3", "--resume"), "--resume: is not about edge clusters: see weft agents"),
        (("edge-single-3", "-s", "heft"), "--scheduler: heft acts on whole problems"),
    ):
        ran = weft("run", *words)
        assert (ran.code, said in ran.err) == (2, True), ran.err


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
        (("edge-multi-3", "--bandwidth", "1e-9"), "--bandwidth: expected 0 (no limit) or at least 0.01 Mbps"),
        (("edge-multi-3", "--step", "1e99s"), "--step: expected a number >= 0, at most 86400 seconds"),
        (("edge-multi-3", "--patience", "1e99s"), "--patience: expected a number >= 0.1, at most 86400"),
        (("edge-multi-3", "--latency", "1e99s"), "--latency: expected at most 3600 seconds"),
        (("edge-multi-3", "--latency", "20s"), "--latency: expected less than the patience of 10 s"),
        (("edge-multi-3", "--replicas", "0"), "--replicas"),
        (
            ("edge-multi-3", "--listen", "127.0.0.1:0"),
            "--listen: expected --elsewhere too: all parties run here",
        ),
        (("edge-multi-3", "--elsewhere", ","), "--elsewhere: expected names such as cluster-1, got ','"),
        (
            ("edge-multi-3", "--elsewhere", "source"),
            "--elsewhere: expected cluster-0 to cluster-2 or coordinator-0",
        ),
        (
            ("edge-multi-3", "--elsewhere", "cluster-0", "--listen", "0.0.0.0:1"),
            "--listen: expected an address at which other machines reach this one, got 0.0.0.0",
        ),
        (
            ("edge-multi-3", "--elsewhere", "cluster-0", "--listen", "10.0.0.1:1"),
            "--listen: expected a token of at least 16 characters in the environment as WEFT_TOKEN",
        ),
        (
            ("edge-multi-3", "--elsewhere", "coordinator-0", "--kill-coordinator-at", "3"),
            "--kill-coordinator-at: expected no steps, for coordinators elsewhere cannot be killed from here",
        ),
        (
            ("cluster-1", "--join", "there"),
            "--join: expected HOST:PORT, such as 192.168.1.5:7000, got 'there'",
        ),
        (("cluster-1", "--join", "here:1", "--step", "1s"), "--step: expected no such option with --join"),
    ):
        ran = weft("agents", *words)
        assert (ran.code, said in ran.err) == (2, True), ran.err
