"""``weft run``: what is wrong is said in one line before anything starts, and what is right is carried out."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import Weft

from weft.io.histories import read_history
from weft.model.history_oracle import check_history

Files = Mapping[str, str]
GRAPH = '{"tasks": [{"name": "a", "work": 0.1}, {"name": "b", "work": 0.1}], "edges": [{"source": "a", "target": "b"}]}'
CYCLE = GRAPH.replace("]}", ', {"source": "b", "target": "a"}]}')
CLUSTER = '[[device]]\nclass = "cpu"\ncount = 2\n'
FUNCTIONS = "def a():\n    return 20\n\ndef b(x):\n    return x + 1\n"
LOCKED = """
import threading
import weft

LOCK = threading.Lock()

@weft.task
def hold(lock):
    return 1

def main():
    return hold(LOCK)
"""
ARRIVALS = 'files = ["g.json"]\njobs = 3\nevery = "0.1 s"\n'
COMMANDS = """
schema = "weft/graph/1"
[[tasks]]
name = "a"
work = 0.1
command = "echo hello"
"""
BASE: Files = {"g.json": GRAPH, "c.toml": CLUSTER, "f.py": FUNCTIONS}
STREAM: Files = {**BASE, "arrivals.toml": ARRIVALS}
RUN = "run g.json -c c.toml"
JOBS = "run --jobs arrivals.toml -c c.toml"
FOLDER: Files = {**BASE, "old/history.jsonl": "", "old/run.json": "{}"}

BAD: dict[str, tuple[Files, str, str]] = {
    # what is to run
    "nothing": (BASE, "run", "GRAPH: expected a workflow, a file of functions, a scenario, or --jobs"),
    "missing": (BASE, "run x.json", "x.json: no such file"),
    "a cycle": ({**BASE, "x.json": CYCLE}, "run x.json -c c.toml", "x.json: edges: the graph has a cycle: a -> b -> a"),
    "a cluster": (BASE, "run c.toml", "c.toml: expected a workflow, got a cluster"),
    "two things": (STREAM, f"{RUN} --jobs arrivals.toml", "--jobs: give a graph or a file of arrivals, not both"),
    "missing arrivals": (BASE, "run --jobs x.toml", "x.toml: no such file"),
    "missing cluster": (BASE, "run g.json -c x.toml", "x.toml: no such file"),
    # where
    "unknown engine": (BASE, f"{RUN} --on spark", "--on: expected local, dask, dask://HOST:PORT, ray or ray://HOST:PORT, got 'spark'"),
    # what tasks do
    "missing functions": (BASE, f"{RUN} --functions x.py", "x.py: --functions: expected a Python file, found none"),
    "no function": ({**BASE, "x.py": "def z():\n    return 1\n"}, f"{RUN} --functions x.py", "x.py: task a: expected a function a or task for it, found z"),
    "too few arguments": (
        {**BASE, "x.py": FUNCTIONS.replace("b(x)", "b()")},
        f"{RUN} --functions x.py",
        "x.py: task b: expected b to take the results of its parents (a): too many positional arguments",
    ),
    "cannot be sent": (
        {**BASE, "x.py": LOCKED},
        "run x.py",
        "task hold: hold or its arguments cannot be sent to a worker (TypeError: cannot pickle '_thread.lock' object): "
        "expected plain values and a function at the top level of a file",
    ),
    "nothing recorded": ({"x.py": "def main():\n    return 1\n"}, "run x.py", "x.py: main called no task: mark functions with @weft.task"),
    # who decides
    "unknown scheduler": (BASE, f"{RUN} -s nope", "--scheduler: no planner 'nope' (weft schedulers lists them)"),
    "unknown shadow": (BASE, f"{RUN} --shadow nope", "--shadow: no planner 'nope' (weft schedulers lists them)"),
    "planner alone": (
        STREAM,
        f"{JOBS} -s search",
        "--scheduler: search cannot plan a job around others: heft, peft, cpop and lookahead can, or name a dispatcher",
    ),
    "split without shares": (STREAM, f"{JOBS} --split priced", "--split: expected NAME:SHARE,NAME:SHARE such as heft:0.9,priced:0.1, got 'priced'"),
    "split of one": (STREAM, f"{JOBS} --split priced:0.9", "--split: expected at least two shares that add up to 1, got 'priced:0.9'"),
    "split of too much": (STREAM, f"{JOBS} --split priced:0.9,fifo:0.3", "--split: expected at least two shares that add up to 1, got 'priced:0.9,fifo:0.3'"),
    "split with nobody": (STREAM, f"{JOBS} --split priced:0.9,nope:0.1", "--split: no dispatcher 'nope' (weft schedulers lists them)"),
    # numbers
    "timeout": (BASE, f"{RUN} --timeout soon", "--timeout: expected a time such as '5 min' or '300 ms', or a number of seconds, got 'soon'"),
    "no time": (BASE, f"{RUN} --timeout 0s", "--timeout: expected a time > 0, got 0.0"),
    "no length": (BASE, f"{RUN} --length 0", "--length: expected a time > 0, got 0.0"),
    # going on
    "resume what": (BASE, f"{RUN} --resume", "--out: expected the folder of the run to go on with"),
    "resume nothing": (BASE, f"{RUN} --out x --resume", "x: expected the folder of a run (run.json, history.jsonl)"),
    "resume no run": (FOLDER, f"{RUN} --out old --resume", "old/run.json: schema: expected 'weft/execution/1'"),
    "used folder": (FOLDER, f"{RUN} --out old", "old: there is a run in this folder: --resume goes on with it"),
}  # fmt: skip


def write(folder: Path, files: Files) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_before_anything_starts(case: str, weft: Weft, tmp_path: Path):
    files, line, message = BAD[case]
    write(tmp_path, files)
    before = sorted(tmp_path.rglob("*"))
    ran = weft(*line.split())
    assert (ran.code, ran.out, ran.err) == (2, "", f"weft: {message}\n")
    assert [file for file in sorted(tmp_path.rglob("*")) if "__pycache__" not in str(file)] == before


@pytest.mark.parametrize(
    ("module", "address", "message"),
    [
        ("distributed", "dask://127.0.0.1:9", "no Dask scheduler answers at dask://127.0.0.1:9 within 5 s"),
        ("ray", "ray://127.0.0.1:9", "no Ray answers at ray://127.0.0.1:9 within 5 s"),
    ],
)
def test_address_nobody_answers_is_given_up(
    module: str, address: str, message: str, weft: Weft, tmp_path: Path
):
    pytest.importorskip(module)
    write(tmp_path, BASE)
    began = time.monotonic()
    ran = weft(*RUN.split(), "--functions", "f.py", "--on", address)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert ran.err.startswith(f"weft: --on: {message}")
    assert time.monotonic() - began < 60
    assert not (tmp_path / "runs").exists()


def test_unknown_device_among_workers_is_refused(weft: Weft, tmp_path: Path):
    write(tmp_path, {**BASE, "w.toml": CLUSTER + '[workers]\n"cpu-9" = "x"\n'})
    ran = weft("run", "g.json", "-c", "w.toml", "--functions", "f.py")
    assert (ran.code, ran.err) == (2, "weft: w.toml: workers: no device 'cpu-9' in the cluster\n")


# -- what is carried out -----------------------------------------------------------------------------


def test_run_calls_functions_and_says_what_happened(weft: Weft, tmp_path: Path):
    write(tmp_path, BASE)
    ran = weft(*RUN.split(), "--functions", "f.py", "--out", "one", "--json")
    assert ran.code == 0, ran.err
    wanted = {"run", "planned", "actual", "error_percent", "attempts", "inversions", "ok"}
    assert wanted <= ran.json.keys() and ran.json["schema"] == "weft/run/1"
    assert (ran.json["run"], ran.json["ok"], ran.json["attempts"], ran.json["tasks"]) == ("one", True, 2, 2)
    assert ran.json["error_percent"] == pytest.approx(
        100 * (ran.json["actual"] / ran.json["planned"] - 1), abs=1e-6
    )
    rows = read_history(tmp_path / "one")
    assert check_history(rows) == ()
    index = [json.loads(line) for line in (tmp_path / "one" / "tasks.jsonl").read_text().splitlines()]
    numbers = {row["task"]: row["number"] for row in index}
    assert json.loads((tmp_path / "one" / "tasks" / str(numbers["b"]) / "result.json").read_text())
    assert weft("validate", "one").code == 0


def test_run_that_is_over_is_not_resumed_and_one_of_another_graph_is_refused(weft: Weft, tmp_path: Path):
    write(tmp_path, {**BASE, "h.json": GRAPH})
    words = ("--functions", "f.py", "--out", "one")
    assert weft(*RUN.split(), *words).code == 0
    ran = weft(*RUN.split(), *words, "--resume")
    assert (ran.code, ran.err) == (2, "weft: one: this run is over: nothing is left to do\n")
    ran = weft("run", "h.json", *words, "--resume")
    assert (ran.code, ran.err) == (2, "weft: GRAPH: the run in one is of 'g.json', not of 'h.json'\n")
    ran = weft("run", "--out", "one", "--resume")
    expected = "weft: --functions: the run calls functions of f.py: name the file again to go on with it\n"
    assert (ran.code, ran.err) == (2, expected)


def test_failed_run_names_its_reason_and_exits_with_1(weft: Weft, tmp_path: Path):
    write(tmp_path, {**BASE, "f.py": FUNCTIONS.replace("return 20", "raise ValueError('no luck')")})
    ran = weft(*RUN.split(), "--functions", "f.py", "--attempts", "2", "--out", "one", "--json")
    assert (ran.code, ran.json["ok"], ran.json["attempts"]) == (1, False, 2)
    assert "'a'" in ran.json["reason"]
    rows = read_history(tmp_path / "one")
    assert check_history(rows) == ()
    assert [row["task"] for row in rows if row["event"] == "dropped"] == ["b"]
    assert {row["note"] for row in rows if row["event"] == "failed" and row["task"] == "a"} == {
        "ValueError: no luck"
    }


def test_commands_are_rehearsed_unless_they_are_allowed(weft: Weft, tmp_path: Path):
    write(tmp_path, {**BASE, "cmd.toml": COMMANDS})
    ran = weft("run", "cmd.toml", "-c", "c.toml", "--length", "0.2s", "--out", "dry")
    assert ran.code == 0, ran.err
    note = "cmd: tasks are rehearsed: they take their time and hand on data, and do nothing else"
    assert ran.err.splitlines()[0] == note
    assert not (tmp_path / "dry" / "tasks" / "1" / "stdout.txt").exists() or (
        (tmp_path / "dry" / "tasks" / "1" / "stdout.txt").read_text() == ""
    )
    ran = weft("run", "cmd.toml", "-c", "c.toml", "--allow-commands", "--out", "wet")
    assert ran.code == 0, ran.err
    assert "rehearsed" not in ran.err
    assert (tmp_path / "wet" / "tasks" / "1" / "stdout.txt").read_text() == "hello\n"


def test_stream_is_divided_between_schedulers(weft: Weft, tmp_path: Path):
    write(tmp_path, STREAM)
    ran = weft(
        *JOBS.split(), "--functions", "f.py", "--split", "priced:0.5,fifo:0.5", "--out", "one", "--json"
    )
    assert (ran.code, ran.json["ok"]) == (0, True), ran.err
    rows = read_history(tmp_path / "one")
    assert check_history(rows) == ()
    arrived = [row["scheduler"] for row in rows if row["event"] == "arrived"]
    assert sorted(arrived) == ["fifo", "priced", "priced"]


def test_scenario_is_rehearsed_with_its_order_and_deadlines(weft: Weft):
    settings = [word for text in ("configuration=40", "horizon=60") for word in ("--set", text)]
    ran = weft("run", "adas-tx2", *settings, "-s", "rm-pinned", "--length", "1s", "--out", "car", "--json")
    assert (ran.code, ran.json["ok"]) == (0, True)
    assert weft("validate", "car").code == 0
