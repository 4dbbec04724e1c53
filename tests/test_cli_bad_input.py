"""What goes wrong on the command line: one line that says what was expected, what came and where; exit code 2."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from command_line import Weft

import weft as library
from weft.cli import main

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = str(ROOT / "examples" / "pipeline.json")
ZOO = ROOT / "weft" / "policies" / "zoo"
CPU = '[[device]]\nclass = "cpu"\n'
GRAPH: dict[str, object] = {
    "tasks": [{"name": "a", "work": 1}, {"name": "b", "work": 2}],
    "edges": [{"source": "a", "target": "b"}],
}
Files = Mapping[str, object]


def task(**fields: object) -> Files:
    return {"x.json": {"tasks": [{"name": "a", "work": 1, **fields}]}}


def edges(*pairs: tuple[str, str]) -> Files:
    return {"x.json": {**GRAPH, "edges": [{"source": a, "target": b} for a, b in pairs]}}


def problem(**fields: object) -> Files:
    return {"p.json": {"jobs": [{"graph": GRAPH}], "cluster": "cpu-4", **fields}}


def job(**fields: object) -> Files:
    return problem(jobs=[{"graph": GRAPH, **fields}])


def placed(**fields: object) -> Files:
    row = {"task": "a", "device": "cpu-0", "start": 0, "finish": 1, **fields}
    return {"ok.json": GRAPH, "s.json": {"placements": [row]}}


OK: Files = {"ok.json": GRAPH}
X = "schedule x.json -c cpu-4"
ON_C = "schedule ok.json -c c.toml"
P = "schedule p.json"
JUDGE = "validate ok.json s.json -c cpu-4"
PLAN = "schedule ok.json -c cpu-4"
STREAM = "evaluate conditional"
PPO = ZOO.joinpath("conditional-ppo.safetensors").read_bytes()

BAD: dict[str, tuple[Files, str, str]] = {
    # files of graphs
    "prose": ({"x.json": "hello there"}, X, "x.json:1: expected JSON: Expecting value, got 'hello there'"),
    "a list": ({"x.json": "[1, 2]"}, X, "x.json:1: expected a JSON object, got [1, 2]"),
    "cut off": ({"x.json": '{"tasks": [{"name": "a"'}, X, "x.json:1: expected JSON: the file ends too early"),
    "empty": ({"x.json": ""}, X, "x.json: the file is empty"),
    "binary": ({"x.json": b"\x01\x02\x03" * 50}, X, r"x.json:1: expected JSON: Expecting value, got '\x01\x02\x03"),
    "unknown content": ({"x.dat": b"\x01\x02\x03" * 50}, "schedule x.dat -c cpu-4", "x.dat: expected one of the formats JSON (WfFormat or weft), DOT, STG, TOML, job shop, ONNX; the content looks like none"),
    "wide text": ({"x.json": "{}".encode("utf-16")}, X, "x.json: expected UTF-8 text, got UTF-16"),
    "pickle": ({"x.json": b"\x80\x04\x95aaaa"}, X, "x.json: this is a Python pickle; weft never loads one"),
    "archive": ({"x.json": b"PK\x03\x04aaaa"}, X, "x.json: expected a workflow, cluster or schedule, got a zip"),
    "folder": ({"x.json/y": ""}, X, "x.json: expected a file, got a folder"),
    "missing": ({}, X, "x.json: no such file"),
    "not a number": ({"x.json": '{"tasks": [{"name": "a", "work": NaN}]}'}, X, "x.json:1: expected a finite number, got NaN"),
    "negative": (task(work=-1), X, "x.json: tasks[0].work: expected a finite number >= 0, got -1"),
    "endless": ({"x.json": '{"tasks": [{"name": "a", "work": 1e999}]}'}, X, "x.json:1: expected a finite number, got '1e999'"),
    "huge": (task(work=10**400), X, "x.json: tasks[0].work: expected a finite number >= 0, got 1000"),
    "huge in sum": (task(work=1e301), X, "x.json: work: run times and transfers may add up to 4e+301, expected less than 1e+300"),
    "time unit": (task(work="5 parsec"), X, "x.json: tasks[0].work: expected a time such as '5 min' or '300 ms', or a number of seconds, got '5 parsec' with the unknown unit 'parsec'"),
    "time without unit": (task(work="5"), X, "x.json: tasks[0].work: expected a time such as '5 min' or '300 ms', or a number of seconds, got '5' without a unit"),
    "size unit": (task(memory="5 Gb"), X, "x.json: tasks[0].memory: expected a size such as '16 GB' or a number of bytes, got '5 Gb'"),
    "unknown key": (task(wrok=1), X, "x.json: tasks[0]: unknown key 'wrok'; did you mean 'work'?"),
    "key twice": ({"x.json": '{"tasks": [], "tasks": []}'}, X, "x.json:1: the key 'tasks' is given twice"),
    "no tasks": ({"x.json": {"tasks": []}}, X, "x.json: tasks: no tasks"),
    "cycle": (edges(("a", "b"), ("b", "a")), X, "x.json: edges: the graph has a cycle: a -> b -> a"),
    "edge to itself": (edges(("a", "a")), X, "the graph has a cycle: a -> a"),
    "unknown task": (edges(("a", "z")), X, "x.json: edges[0].target: names an unknown task 'z'"),
    "DOT cut off": ({"x.json": "digraph { a -> "}, X, "x.json:1: edges: expected a node, an edge or '}', got the end of the file"),
    "STG rows": ({"x.stg": "3\n0 1 0\n1 x 0\n"}, "schedule x.stg -c cpu-4", "x.stg:3: tasks: expected 5 task rows (3 and two dummies), got 2"),
    "job shop": ({"x.jsp": "2 2\n0 1 1 2\n"}, "schedule x.jsp", "x.jsp:2: expected 2 rows of machine and time pairs, got 1"),
    "WfFormat version": ({"x.json": {"schemaVersion": "9.9", "workflow": {}}}, X, "x.json: schemaVersion: expected WfFormat 1.3 to 1.6, got '9.9'"),
    "WfFormat part": ({"x.json": {"schemaVersion": "1.5", "workflow": {}}}, X, "x.json: workflow.tasks: expected a list, got nothing"),
    # clusters
    "broken TOML": (OK | {"c.toml": "[[device]\nclass = 1"}, ON_C, "c.toml:1: expected TOML: "),
    "no machines": (OK, "schedule ok.json", "ok.json: cluster: the file names no machines: give a cluster file or a built-in cluster"),
    "unknown cluster": (OK, "schedule ok.json -c gpu-mix-9", "no file and no built-in cluster 'gpu-mix-9'; did you mean 'gpu-mix-8'?"),
    "no speed": (OK | {"c.toml": CPU + "speed = 0"}, ON_C, "c.toml: device[0].speed: expected greater than 0, got 0"),
    "speed in words": (OK | {"c.toml": CPU + 'speed = "fast"'}, ON_C, "c.toml: device[0].speed: expected number, got 'fast'"),
    "fewer than none": (OK | {"c.toml": CPU + "count = -1"}, ON_C, "c.toml: device[0].count: expected greater than or equal to 0, got -1"),
    "bits or bytes": (OK | {"c.toml": 'bandwidth = "10 Gb/s"\n' + CPU}, ON_C, "got '10 Gb/s': write GB/s for bytes or Gbit/s for bits"),
    "times mixed": (OK | {"c.toml": CPU + 'times = { x = "5 s", y = 1 }'}, ON_C, "c.toml: device[0]: times.y: expected a time with a unit, as others have, got 1"),
    "unknown kind": (OK | {"c.toml": CPU + "times = { x = 1.0 }"}, ON_C, "ok.json: class cpu: times: no run time for kind 'task' (task 'a')"),
    "cluster as graph": ({"x.json": {"device": [{"class": "cpu"}]}}, X, "x.json: expected a workflow or a problem, got a cluster"),
    "graph as cluster": (OK, "schedule ok.json -c ok.json", "ok.json: device: expected a cluster, got a graph without machines"),
    # problems
    "lost graph": (problem(jobs=[{"graph": "none.json"}]), P, "none.json: no such file (named in p.json: jobs[0].graph)"),
    "metric": (problem(objective={"metric": "speed"}), P, "p.json: metric: expected one of makespan, mean_jct"),
    "release": (job(release="soon"), P, "p.json: jobs[0].release: expected a time such as '5 min' or '300 ms', or a number of seconds, got 'soon'"),
    "deadline": (job(deadline=-1), P, "p.json: jobs[0].deadline: expected greater than or equal to 0, got -1"),
    "eligible": (job(eligible=["gpu"]), P, "p.json: job job: eligible: 'gpu' is neither a device nor a class"),
    "no jobs": (problem(jobs=[]), P, "p.json: jobs: expected at least one job, got none"),
    # schedules
    "schedule of nothing": (OK | {"s.json": {"placements": []}}, JUDGE, "s.json: placements: no placements"),
    "schedule of another task": (placed(task="z"), JUDGE, "s.json: placements[0].task: expected a task of the problem, got unknown task 'z'"),
    "schedule on another device": (placed(device="gpu-0"), JUDGE, "s.json: placements[0].device: expected a device of the cluster (cpu-0, cpu-1, cpu-2, cpu-3), got unknown device 'gpu-0'"),
    "schedule without times": (placed(start="x"), JUDGE, "s.json: placements[0].start: expected a finite number, got 'x'"),
    "graph as schedule": (OK, "gantt ok.json ok.json -c cpu-4", "ok.json: placements: expected a list, got nothing"),
    "task to explain": (OK, "explain ok.json z -c cpu-4", "no task 'z' in problem 'ok'"),
    # schedulers and code
    "unknown scheduler": (OK, f"{PLAN} --scheduler hft", "--scheduler: no planner 'hft'; did you mean 'heft'?"),
    "dispatcher": (OK, f"{PLAN} -s fifo", "scheduler: fifo is a dispatcher: it decides while jobs arrive and run"),
    "no code": (OK, f"{PLAN} -s mine.py:Mine", "mine.py: scheduler: expected a Python file, found none"),
    "broken code": (OK | {"bad.py": "def ("}, f"{PLAN} -s bad.py:Mine", "bad.py:1: scheduler: bad.py cannot be loaded: SyntaxError"),
    "mix": (OK | {"mix.toml": "what = 1"}, f"{PLAN} -s mix.toml", "mix.toml: what: unknown field; expected decoder, name, normalise, weights"),
    "format": (OK, f"{PLAN} --format nope", "--format: expected file.py:Name or package.module:Name, got 'nope'"),
    "format of nothing": (OK, f"{PLAN} --format", "--format: expected FILE.py:NAME, got nothing"),
    # policies
    "policy cut off": ({"w.safetensors": PPO[:-100], "w.json": ZOO.joinpath("conditional-ppo.json").read_bytes()}, f"{STREAM} -s w.safetensors", "w.safetensors: value.out.weight: is cut short: data ends at 212496, not 212596"),
    "policy of noise": ({"w.safetensors": b"\xff" * 100}, f"{STREAM} -s w.safetensors", "w.safetensors: expected a safetensors file, got 100 bytes that begin with"),
    "policy card": ({"w.safetensors": PPO, "w.json": "{}"}, f"{STREAM} -s w.safetensors", "w.json: schema: expected the card of a policy, 'weft.policy/1', got None"),
    "no policy": ({}, f"{STREAM} -s none.safetensors", "none.safetensors: cannot be read: No such file or directory"),
    "no run": ({"run/x": ""}, f"{STREAM} -s run@best", "run/best.json: expected its card best.json beside it"),
    # settings and recipes
    "setting": ({}, f"{STREAM} --set p_d=1", "settings.p_d: no setting 'p_d'; did you mean 'p_c'?"),
    "setting too large": ({}, f"{STREAM} --set p_c=2", "settings.p_c: expected a number >= 0 and <= 1, got 2"),
    "setting without value": ({}, f"{STREAM} --set p_c", "--set: expected key=value, got 'p_c'"),
    "scenario": ({}, "evaluate conditionl", "scenario: no scenario 'conditionl'; did you mean 'conditional'?"),
    "scenario file": ({"r.toml": 'generator = "nothing"'}, "evaluate r.toml", "r.toml: generator: expected one of workflow, jobshop, tpch"),
    "split": ({}, f"{STREAM} --split tset", "--split: expected one of train, validation, test, got 'tset'"),
    "baseline": ({}, f"{STREAM} -s fifo,mru --baseline heft", "--baseline: expected one of fifo, mru, got 'heft'"),
    "times in a trace": ({"t.txt": "1\nsoon\n"}, f"{STREAM} --set arrivals=trace --set trace=t.txt", "t.txt:2: settings.trace: expected a finite time >= 0, got 'soon'"),
    "training recipe": ({}, "train conditionel", "no training recipe 'conditionel'; did you mean 'conditional'?"),
    "algorithm": ({"r.toml": 'algorithm = "ppo2"'}, "train r.toml", "r.toml: algorithm: expected one of ppo, graph-ppo, candidate-ppo, rule-es, pick-reinforce, candidate-dqn, mappo, oneshot, got 'ppo2'"),
    "training seeds": ({}, "train conditional --seeds a,b", "--seeds: expected whole numbers as in 1,2,3 or 1:4"),
    # folders
    "sweep in a file": ({"o": "x"}, f"{STREAM} --out o", "o: expected a folder for the sweep: File exists"),
    "sweep elsewhere": ({"o/x": ""}, f"{STREAM} --out o", "o: expected an empty folder or a sweep, found 'x' and no sweep.sqlite"),
    "sweep damaged": ({"o/sweep.sqlite": "x" * 99}, "report o", "o/sweep.sqlite: cannot be used as a sweep: file is not a database"),
    "run elsewhere": ({"o/x": ""}, "train conditional --out o", "o: expected an empty folder or a training run, found 'x' and no config.json"),
    "curves of nothing": ({"o/x": ""}, "curves o", "o: expected a run"),
    "report of nothing": ({}, "report none", "none: no such folder or file"),
    "report of another folder": ({}, "report .", ".: expected a sweep (sweep.sqlite), a training run (metrics.jsonl), a run of weft run or"),
    "verb by another name": (OK, "plan ok.json", "No such command 'plan'. Did you mean 'schedule'? (see weft --help)"),
    "report of a graph": (OK, "report ok.json", "ok.json: schema: expected the JSON of weft compare, weft bench or a benchmark"),
    # benchmark sets and options
    "set": ({}, "bench tailard", "no benchmark 'tailard': expected one of taillard, demirkol"),
    "set without data": ({}, "bench tpch", "tpch needs a folder with tpch_stages.json"),
    "set of text": ({"d/la01": "x y"}, "bench lawrence --data d -i la01", "d/la01:1: expected job-shop text"),
    "record": ({"rows": "x\n"}, "bench taillard -i ta01 --out rows", "rows:1: expected a JSON object"),
    "noise": (OK, f"{PLAN} --noise 3000%", "--noise: expected how far run times vary, such as 0.3 or 30%, at most 10 (1000%), got '3000%'"),
    "budget": (OK, f"{PLAN} --budget 5GB", "--budget: expected a time such as '5 min' or '300 ms', or a number of seconds, got '5gb'"),
    "budget of nothing": (OK, f"{PLAN} --budget 0s", "--budget: expected a time > 0, got 0.0"),
    "class": (OK, "whatif ok.json -c cpu-4 --speed gpu=x2", "--speed: with gpu x2: no class 'gpu' in the cluster; did you mean 'cpu'?"),
    "network": (OK | {"c.toml": CPU}, "whatif ok.json -c c.toml --bandwidth x2", "--bandwidth: with bandwidth x2: the cluster has one device and no links"),
    "suffix": (OK, "show ok.json --plot x.gif", "--plot: expected a path that ends in .png or .svg, got 'x.gif'"),
    "number": ({}, f"{STREAM} --seeds abc", "--seeds: expected a whole number >= 1, got 'abc' (see weft evaluate --help)"),
    "number too small": (OK, f"{PLAN} --seed -1", "--seed: expected a whole number from 0 to 9223372036854775807, got '-1'"),
    "number with a point": (OK, f"{PLAN} --samples 1.5", "--samples: expected a whole number >= 1, got '1.5'"),
    "number by its letter": ({}, "generate layered -n 0x5 -o x.json", "--size: expected a whole number >= 1, got '0x5'"),
    "number of any size": (OK, f"{PLAN} --ccr much", "--ccr: expected a number, got 'much'"),
    "number among several": ({}, "agents edge-single-3 --kill-coordinator-at 3 --kill-coordinator-at x", "--kill-coordinator-at: expected a whole number >= 0, got 'x'"),
    "bandwidth": ({}, "agents edge-multi-3 --bandwidth -3", "--bandwidth: expected a number >= 0, got '-3'"),
    "branches": ({"x.json": {"tasks": [{"name": n, "work": 1} for n in "abc"], "edges": [{"source": "a", "target": t, "branch": 0, "probability": 0.5} for t in "bc"]}}, "convert x.json x.stg", "x.stg: edges: stg cannot hold conditional branches: write json, toml or dot"),
}  # fmt: skip


def write(files: Files) -> None:
    for name, content in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())


def test_table_is_long_enough() -> None:
    assert len(BAD) >= 40


@pytest.mark.parametrize(("files", "words", "text"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(weft: Weft, files: Files, words: str, text: str) -> None:
    write(files)
    ran = weft("--quiet", *words.split())
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("weft: ")
    assert text in ran.err


CLUSTER = library.read_cluster("cpu-4")
SESSION = library.Session(library.Problem(library.TaskGraph([1.0]), CLUSTER), "fifo").snapshot()
SNAPSHOTS: list[tuple[object, str]] = [
    ({}, "schema: expected a snapshot of a session"),
    ("snapshot.json", "schema: expected a snapshot of a session"),
    (SESSION, "fingerprint: taken with another graph, cluster or rules"),
]


@pytest.mark.parametrize(("snapshot", "text"), SNAPSHOTS)
def test_wrong_snapshot_is_one_line(snapshot: dict[str, object], text: str) -> None:
    other = library.Problem(library.TaskGraph([2.0]), CLUSTER)
    with pytest.raises(library.InputError, match=text):
        library.Session.restore(other, snapshot)


# -- full disks, full and closed stdouts ------------------------------------------------------------

TASK = json.loads(Path(PIPELINE).read_text())["workflow"]["specification"]["tasks"][0]["id"]
ON = f"{PIPELINE} -c gpu-mix-8"
WRITTEN = {
    "plan": (f"schedule {ON} --out o.json", "o.json"),
    "chart": (f"gantt {ON} --out o.svg", "o.svg"),
    "front": (f"pareto {ON} -s heft --most 5 --plot o.svg", "o.svg"),
    "graph": (f"show {PIPELINE} --plot o.svg", "o.svg"),
    "generated": ("generate layered -n 5 -o o.json", "o.json"),
    "converted": (f"convert {PIPELINE} o.dot", "o.dot"),
    "cluster": ("init --out o.toml", "o.toml"),
    "search": ("stress --better heft --worse peft --effort 5 --out o", "o/stress.json"),
    "sweep": (f"evaluate {ON} -s heft,cpop --out o", "o/config.json"),
    "figure": (f"evaluate {ON} -s heft,cpop --plot o.svg", "o.svg"),
    "run": ("train conditional --out o", "o/config.json"),
}


@pytest.mark.parametrize(("words", "file"), WRITTEN.values(), ids=WRITTEN)
def test_full_disk_names_the_file(weft: Weft, monkeypatch: pytest.MonkeyPatch, words: str, file: str) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    ran = weft(*words.split(), "--quiet")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"weft: {file}: cannot be written: No space left on device\n"
    assert not list(Path().rglob("*.tmp"))
    assert not Path(file).exists()


PRINTED = [
    f"schedule {ON} --json",
    f"compare {PIPELINE} {ON} -s heft,cpop",
    f"whatif {ON} --bandwidth x2",
    f"pareto {ON} -s heft --most 5",
    f"explain {PIPELINE} {TASK} -c gpu-mix-8",
    f"gantt {ON}",
    f"show {ON}",
    f"evaluate {ON} -s heft,cpop",
    "bench taillard -i ta01 -s mwkr",
    "stress --better heft --worse peft --effort 5",
    "generate layered -n 5 -o o.json",
    "train conditional --dry-run",
    "scenarios",
    "recipes",
    "doctor",
    "schedule none.json --json",
]
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@pytest.fixture
def stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> pytest.CaptureFixture[str]:
    """An empty folder, and what is said while stdout is something else."""
    monkeypatch.chdir(tmp_path)
    return capsys


@pytest.fixture
def gone() -> Iterator[int]:
    """The end of a pipe whose reader went away."""
    read, write_end = os.pipe()
    os.close(read)
    yield write_end


@needs_full
@pytest.mark.parametrize("words", PRINTED, ids=lambda words: words.split()[0])
def test_full_stdout_is_one_line_in_every_verb(
    words: str, stderr: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main([*words.split(), "--quiet"]) == 2
    assert stderr.readouterr().err == "weft: stdout: No space left on device\n"


@pytest.mark.parametrize("words", PRINTED[:8], ids=lambda words: words.split()[0])
def test_reader_that_goes_away_ends_every_verb(
    words: str, stderr: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    with open(gone, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main([*words.split(), "--quiet"]) == 1
    assert stderr.readouterr().err == ""


@pytest.mark.parametrize("words", PRINTED[:3], ids=lambda words: words.split()[0])
def test_closed_stdout_is_one_line(
    words: str, stderr: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(words.split()) == 2
    assert stderr.readouterr().err == "weft: stdout: expected an open file, it is closed\n"
