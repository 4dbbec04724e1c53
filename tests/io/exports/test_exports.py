"""Exports: golden texts of a small plan, and what holds for every plan and every name."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from history_examples import EXAMPLES, history
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft import Cluster, DeviceClass, GraphBuilder, InputError, Problem, Schedule
from weft.io.exports.chrome_trace import lanes_of
from weft.io.exports.of_run import of_run
from weft.io.exports.of_schedule import of_schedule
from weft.io.exports.options import Options, read_nodes
from weft.io.exports.placed import DONE, Placed, Span, most_at_once
from weft.io.exports.table import EXPORTS, dump
from weft.io.exports.words import dns_label, label_value, unique, word
from weft.io.exports.yaml_text import quoted
from weft.io.files import read_problem

NAMES = [one.name for one in EXPORTS]
HOSTILE = (
    "a", "A", "a\nb: c", "../../etc/passwd", "q\"uo'te", "${x} $(rm -r) `id`", "ü😀\x7f\x85", "*/ // x", "'; drop",
    "a" * 300, "a" * 300 + "b", "-", "\u2028x", "=1+2", "yes", "null", "{}", "# x", "\t", "\x1b[31m",
)  # fmt: skip
GPU = "gp\nu'\""


@pytest.fixture
def small() -> Problem:
    """Two kinds on a GPU and a processor; the plan is known."""
    builder = GraphBuilder("small")
    builder.task("load", 2.0, kind="io", memory=1e9)
    builder.task("train", 8.0, kind="net", after={"load": 0.0})
    builder.task("test", 2.0, kind="net", after={"train": 0.0})
    builder.task("plot", 4.0, kind="io", after={"load": 0.0})
    cluster = Cluster.uniform((DeviceClass("gpu", speed=2.0), DeviceClass("cpu")), (1, 1))
    return Problem(builder.build(), cluster)


def plan_of(problem: Problem) -> Placed:
    copyless = problem.replaced(objective=replace(problem.objective, copies=False))
    return of_schedule(weft.schedule(copyless, "heft").schedule, scheduler="heft")


def text_of(placed: Placed, to: str, **options: object) -> str:
    return dump(placed, to, Options(**options))[0]  # type: ignore[arg-type]


@pytest.fixture
def placed(small: Problem) -> Placed:
    return plan_of(small)


@pytest.fixture
def hostile() -> Placed:
    """A chain of tasks with names no system likes, on devices with such names."""
    builder = GraphBuilder('wf: "x"\n- a')
    for i, name in enumerate(HOSTILE):
        builder.task(name, 1.0, kind=name, after=[HOSTILE[i - 1]] if i else [])
    cluster = Cluster.uniform((DeviceClass(GPU), DeviceClass("cpu", speed=0.5, slots=2)), (2, 1))
    return plan_of(Problem(builder.build(), cluster))


# -- golden texts --------------------------------------------------------------------------------


def test_dask_gives_soft_pins_and_priorities_by_the_order_of_the_plan(placed: Placed):
    found = json.loads(text_of(placed, "dask"))
    assert found["schema"] == "weft/export-dask/1" and found["scheduler"] == "heft"
    assert found["annotations"] == {
        "load": {"workers": ["gpu-0"], "allow_other_workers": True, "priority": 0},
        "train": {"workers": ["gpu-0"], "allow_other_workers": True, "priority": -1},
        "plot": {"workers": ["cpu-0"], "allow_other_workers": True, "priority": -2},
        "test": {"workers": ["gpu-0"], "allow_other_workers": True, "priority": -3},
    }


def test_airflow_gives_weights_that_count_as_they_are(placed: Placed):
    found = json.loads(text_of(placed, "airflow"))
    assert found["pools"] == {"gpu": {"slots": 1, "class": "gpu"}, "cpu": {"slots": 1, "class": "cpu"}}
    assert found["tasks"]["plot"] == {
        "priority_weight": 2,
        "weight_rule": "absolute",
        "pool": "cpu",
        "pool_slots": 1,
        "queue": "cpu",
        "weft": {"job": "small", "task": "plot", "device": "cpu-0"},
    }


def test_nextflow_gives_a_block_per_process(placed: Placed):
    text = text_of(placed, "nextflow", executor="slurm", gpu_classes=("gpu",))
    assert text.startswith("// small: a plan of heft, weft ")
    assert "What it cannot enforce:" in text
    assert text[text.index("process {") :] == (
        "process {\n"
        "    // io: 2 tasks, planned on gpu 1, cpu 1\n"
        "    withName: 'io' {\n"
        "        queue = 'gpu'\n"
        "        cpus = 1\n"
        "        memory = '1000000000 B'\n"
        "        maxForks = 1\n"
        "        accelerator = 1\n"
        "        clusterOptions = '--nice=0'\n"
        "        ext.weft_rank = 0\n"
        "    }\n"
        "    // net: 2 tasks, planned on gpu 2\n"
        "    withName: 'net' {\n"
        "        queue = 'gpu'\n"
        "        cpus = 1\n"
        "        maxForks = 1\n"
        "        accelerator = 1\n"
        "        clusterOptions = '--nice=1'\n"
        "        ext.weft_rank = 1\n"
        "    }\n"
        "}\n"
    )


def test_nextflow_by_task_has_a_process_for_each(placed: Placed):
    text = text_of(placed, "nextflow", by="task", executor="sge")
    assert re.findall(r"withName: '(\w+)'", text) == ["load", "train", "plot", "test"]
    assert re.findall(r"clusterOptions = '(.*)'", text) == ["-p -0", "-p -1", "-p -2", "-p -3"]


def test_snakemake_gives_ranks_with_outputs_of_the_workflow(placed: Placed):
    rows = json.loads(text_of(placed, "snakemake"))["jobs"]
    assert [(row["rank"], row["task"], row["device"]) for row in rows] == [
        (0, "load", "gpu-0"), (1, "train", "gpu-0"), (2, "plot", "cpu-0"), (3, "test", "gpu-0"),
    ]  # fmt: skip
    pipeline = plan_of(read_problem(_examples() / "pipeline.json", _examples() / "cluster.toml"))
    rows = json.loads(text_of(pipeline, "snakemake"))["jobs"]
    assert {row["task"]: row["outputs"] for row in rows}["darks"] == ["dark.fits"]


def _examples() -> Path:
    return Path(__file__).resolve().parents[3] / "examples"


def test_csv_gives_the_rows_of_the_plan(placed: Placed):
    assert text_of(placed, "csv") == (
        "job,task,copy,device,start,finish\n"
        "small,load,0,gpu-0,0.0,1.0\n"
        "small,train,0,gpu-0,1.0,5.0\n"
        "small,plot,0,cpu-0,1.0,5.0\n"
        "small,test,0,gpu-0,5.0,6.0\n"
    )


def test_chrome_trace_has_lanes_slices_and_arrows_in_microseconds(placed: Placed):
    events = json.loads(text_of(placed, "chrome-trace"))["traceEvents"]
    names = {(e["name"], e["tid"]): e["args"] for e in events if e["ph"] == "M" and e["pid"] == 1}
    assert names["process_name", 0] == {"name": "plan"}
    assert names["thread_name", 1] == {"name": "gpu-0"} and names["thread_name", 2] == {"name": "cpu-0"}
    slices = {e["name"]: (e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"}
    assert slices == {
        "load": (1, 0.0, 1e6), "train": (1, 1e6, 4e6), "plot": (2, 1e6, 4e6), "test": (1, 5e6, 1e6),
    }  # fmt: skip
    starts, ends = ({e["id"]: e for e in events if e["ph"] == ph} for ph in "sf")
    assert starts.keys() == ends.keys() and len(starts) == 3
    assert all(starts[k]["ts"] <= ends[k]["ts"] and ends[k]["bp"] == "e" for k in starts)


def test_kubernetes_gives_a_job_per_task(placed: Placed):
    yaml = pytest.importorskip("yaml")
    text = text_of(placed, "kubernetes", gpu_classes=("gpu",), image="registry/image:1")
    docs = list(yaml.safe_load_all(text))
    assert [doc["metadata"]["name"] for doc in docs] == ["load", "train", "plot", "test"]
    assert {doc["kind"] for doc in docs} == {"Job"}
    assert [doc["spec"]["suspend"] for doc in docs] == [False, True, True, True]
    last = docs[-1]["metadata"]["annotations"]
    assert (last["weft.dev/order"], last["weft.dev/after"], last["weft.dev/start"]) == ("3", "train", "5 s")
    container = docs[0]["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry/image:1" and "command" not in container
    assert container["resources"] == {
        "requests": {"cpu": "1", "memory": "1000000000"}, "limits": {"nvidia.com/gpu": "1"}
    }  # fmt: skip
    assert "limits" not in docs[2]["spec"]["template"]["spec"]["containers"][0]["resources"]


@pytest.mark.parametrize("affinity", ["required", "preferred"])
@pytest.mark.parametrize("nodes", [{}, {"gpu-0": "node-a.example", "cpu-0": "node-b"}])
def test_kubernetes_places_by_label_or_by_node(placed: Placed, affinity: str, nodes: dict[str, str]):
    yaml = pytest.importorskip("yaml")
    docs = yaml.safe_load_all(text_of(placed, "kubernetes", affinity=affinity, nodes=nodes))
    for doc in docs:
        device = doc["metadata"]["annotations"]["weft.dev/device"]
        rules = doc["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        found = rules[f"{affinity}DuringSchedulingIgnoredDuringExecution"]
        term = found["nodeSelectorTerms"][0] if affinity == "required" else found[0]["preference"]
        key, value = ("metadata.name", nodes[device]) if nodes else ("weft.dev/device", device)
        (rule,) = term["matchFields" if nodes else "matchExpressions"]
        assert rule == {"key": key, "operator": "In", "values": [value]}


def test_kubernetes_takes_commands_literally():
    yaml = pytest.importorskip("yaml")
    problem = read_problem(_examples() / "pipeline.json", _examples() / "cluster.toml")
    found = plan_of(problem)
    tasks = list(found.tasks)
    tasks[0] = replace(tasks[0], command=("/bin/sh", "-c", 'echo "$(HOME)" $$'))
    docs = list(yaml.safe_load_all(text_of(replace(found, tasks=tuple(tasks)), "kubernetes")))
    commands = {
        doc["metadata"]["annotations"]["weft.dev/task"]: doc["spec"]["template"]["spec"]["containers"][0]["command"]
        for doc in docs
    }  # fmt: skip
    assert commands["darks"] == ["/bin/sh", "-c", "average-darks dark-frames.fits"]
    assert commands[tasks[0].name] == ["/bin/sh", "-c", 'echo "$$(HOME)" $$$$']


@pytest.mark.parametrize(
    ("command", "words"), [("'echo a'", ("/bin/sh", "-c", "echo a")), ('["echo", "a b"]', ("echo", "a b"))]
)
def test_commands_of_own_graphs_are_kept(command: str, words: tuple[str, ...], tmp_path: Path):
    text = f'schema = "weft/graph/1"\ntasks = [{{ name = "x", work = 1, command = {command} }}]\n'
    (tmp_path / "g.toml").write_text(text)
    assert plan_of(read_problem(tmp_path / "g.toml", "gpu-mix-8")).tasks[0].command == words


# -- what holds for every plan -------------------------------------------------------------------


def ranks_of(placed: Placed, to: str) -> dict[str, int]:
    """Task label -> rank, smaller first, as a format writes it."""
    text = text_of(placed, to)
    if to == "dask":
        return {key: -note["priority"] for key, note in json.loads(text)["annotations"].items()}
    if to == "airflow":
        rows = json.loads(text)["tasks"].values()
        return {row["weft"]["task"]: -row["priority_weight"] for row in rows}
    if to == "snakemake":
        return {row["task"]: row["rank"] for row in json.loads(text)["jobs"]}
    yaml = pytest.importorskip("yaml")
    notes = [doc["metadata"]["annotations"] for doc in yaml.safe_load_all(text)]
    return {note["weft.dev/task"]: int(note["weft.dev/order"]) for note in notes}


@pytest.mark.parametrize("to", ["dask", "airflow", "snakemake", "kubernetes"])
@pytest.mark.parametrize("family", ["layered", "fork-join", "in-tree"])
def test_every_task_is_there_once_and_ranks_follow_starts_per_device(to: str, family: str):
    from weft.model.generate import generate

    graph = generate(family, 30, seed=3)
    problem = Problem(
        graph, Cluster.uniform((DeviceClass("a", slots=2), DeviceClass("b", speed=2.0)), (2, 1))
    )
    placed = plan_of(problem)
    ranks = ranks_of(placed, to)
    assert sorted(ranks) == sorted(graph.names) and len(set(ranks.values())) == graph.num_tasks
    for device in range(3):
        spans = sorted(
            (s for s in placed.plan if s.device == device), key=lambda s: ranks[graph.names[s.task]]
        )
        assert [s.start for s in spans] == sorted(s.start for s in spans)


@pytest.mark.parametrize("to", NAMES)
def test_names_may_hold_anything(to: str, hostile: Placed):
    text = text_of(hostile, to)
    assert text.endswith("\n") and not (to != "csv" and not text.isascii() and to != "nextflow")
    if to in ("dask", "airflow", "snakemake", "chrome-trace"):
        json.loads(text, parse_constant=pytest.fail)
    if to in ("dask", "airflow", "snakemake", "kubernetes"):
        assert sorted(ranks_of(hostile, to)) == sorted(HOSTILE)
    if to == "csv":
        assert [row["task"] for row in csv.DictReader(io.StringIO(text, newline=""))] == list(HOSTILE)


def test_nextflow_has_nothing_of_a_name_outside_comments(hostile: Placed):
    lines = [line for line in text_of(hostile, "nextflow").splitlines() if not line.lstrip().startswith("//")]
    allowed = re.compile(r"process \{| *\}| +withName: '[A-Za-z_][\w:]*' \{| +[\w.]+ = ('[\w. -]*'|\d+)")
    assert [line for line in lines if not allowed.fullmatch(line)] == []
    selectors = re.findall(r"withName: '(.*)'", "\n".join(lines))
    assert len(set(selectors)) == len(HOSTILE)


def test_kubernetes_names_are_dns_labels_and_labels_are_allowed(hostile: Placed):
    yaml = pytest.importorskip("yaml")
    docs = list(yaml.safe_load_all(text_of(hostile, "kubernetes")))
    names = [doc["metadata"]["name"] for doc in docs]
    assert len(set(names)) == len(HOSTILE)
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) for name in names)
    for doc in docs:
        for value in doc["metadata"]["labels"].values():
            assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value)


@given(st.lists(st.text(max_size=80), unique=True, max_size=12))
def test_names_are_made_unique(texts: list[str]):
    for make, longest in ((dns_label, 52), (word, 250)):
        names = unique(texts, make, longest)
        assert len(set(names)) == len(texts) and all(0 < len(name) <= longest for name in names)
    assert all(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", label_value(t)) for t in texts)


@given(st.text(max_size=60))
def test_yaml_texts_are_read_as_they_were(text: str):
    yaml = pytest.importorskip("yaml")
    written = quoted(text)
    assert written.isascii() and "\n" not in written
    assert yaml.safe_load(written) == text


def test_jobs_of_equal_task_names_are_told_apart():
    builder = GraphBuilder("g")
    builder.task("x", 1.0)
    graph = builder.build()
    jobs = (weft.Job(graph, "a"), weft.Job(graph, "b"))
    placed = plan_of(Problem(jobs, Cluster.uniform((DeviceClass("c"),), (1,))))
    assert placed.labels == ("a/x", "b/x")
    assert list(json.loads(text_of(placed, "dask"))["annotations"]) == ["a/x", "b/x"]


def test_copies_are_left_out_with_a_word_where_a_format_cannot_hold_them(fork_problem: Problem):
    plan = of_schedule(
        Schedule(fork_problem, [0, 0, 1, 2], [0, 1, 0, 1], [0, 0, 1, 1], [1, 1, 11, 11], [0, 1, 0, 0])
    )
    text, notes = dump(plan, "dask")
    assert len(json.loads(text)["annotations"]) == 3
    assert any("1 tasks are planned to run again" in note for note in notes)
    assert len(dump(plan, "csv")[0].splitlines()) == 1 + 4


def test_most_at_once_does_not_count_neighbours():
    spans = [Span(0, 0, 0.0, 1.0), Span(1, 0, 1.0, 2.0), Span(2, 0, 1.5, 3.0)]
    assert most_at_once(spans) == 2


def test_lanes_never_overlap():
    problem = Problem(
        weft.read_graph(_examples() / "layered.json"),
        Cluster.uniform((DeviceClass("a", slots=3), DeviceClass("b")), (1, 1)),
    )
    placed = plan_of(problem)
    lanes = lanes_of(placed, placed.plan)
    assert {lane for _, lane in lanes} <= {0, 1, 2}
    for lane in set(lanes):
        spans = sorted(
            (s for s, one in zip(placed.plan, lanes, strict=True) if one == lane), key=lambda s: s.start
        )
        assert all(a.finish <= b.start + 1e-9 for a, b in itertools.pairwise(spans))


# -- runs ------------------------------------------------------------------------------------------


def write_run(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_runs_have_plan_and_actual(name: str, tmp_path: Path):
    rows = history(name)
    placed = of_run(write_run(tmp_path / "run", rows))
    starts = [row for row in rows if row["event"] == "started"]
    finished = [row for row in rows if row["event"] == "finished"]
    assert len(placed.actual) == len(starts)
    assert sum(span.outcome == DONE for span in placed.actual) == len(finished)
    assert len({span.task for span in placed.plan}) == len(placed.plan) == len(placed.tasks)
    events = json.loads(text_of(placed, "chrome-trace"))["traceEvents"]
    groups = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert groups == {1: "plan", 2: "actual"}
    assert sum(e["ph"] == "X" and e["pid"] == 2 for e in events) == len(starts)
    table = list(csv.DictReader(io.StringIO(text_of(placed, "csv"))))
    assert sum(int(row["attempts"]) for row in table) == len(starts)
    for to in NAMES:
        assert text_of(placed, to)


def test_run_without_a_plan_is_placed_as_it_ran(tmp_path: Path):
    rows = [row for row in history("plain") if row["event"] != "planned"]
    placed = of_run(write_run(tmp_path / "run", rows))
    assert not placed.plan and len(placed.order) == len(placed.tasks)
    assert placed.notes == ("nobody planned this run: tasks are placed as they ran",)


# -- what is refused -------------------------------------------------------------------------------


def test_plan_that_misses_a_task_is_refused(small: Problem):
    plan = Schedule(small, [0, 1, 2], [0, 0, 0], [0, 1, 5], [1, 5, 6])
    with pytest.raises(InputError, match="1 of 4 tasks are not in it, first 'plot'"):
        of_schedule(plan)


def test_plan_that_breaks_a_rule_is_refused(small: Problem):
    plan = Schedule(small, [0, 1, 2, 3], [0, 0, 0, 1], [0, 1, 5, 0], [1, 5, 6, 4])
    with pytest.raises(InputError, match=r"does not fit the workflow: precedence \(plot, cpu-0\)"):
        of_schedule(plan)


OPTIONS = [
    ("dask", {"image": "x"}, "image: is of kubernetes: dask has no use for it"),
    ("kubernetes", {"executor": "slurm"}, "executor: is of nextflow: kubernetes has no use for it"),
    ("kubernetes", {"gpu_classes": ("tpu",)}, "gpu_classes: no class 'tpu' in the cluster, there are 'gpu', 'cpu'"),
    ("kubernetes", {"nodes": {"gpu-1": "n"}}, "nodes: no device 'gpu-1' in the cluster; did you mean 'gpu-0'?"),
    ("kubernetes", {"nodes": {"gpu-0": "n"}}, "nodes: no node for device 'cpu-0'"),
    ("kubernetes", {"nodes": {"gpu-0": "-", "cpu-0": "b"}}, "nodes.gpu-0: expected the name of a node, got '-'"),
]  # fmt: skip


@pytest.mark.parametrize(("to", "options", "words"), OPTIONS)
def test_options_that_do_not_fit_are_refused(placed: Placed, to: str, options: dict, words: str):
    with pytest.raises(InputError) as error:
        text_of(placed, to, **options)
    assert str(error.value) == words


@pytest.mark.parametrize(
    "options", [{"affinity": "hard"}, {"by": "job"}, {"executor": "lsf"}, {"image": ""}, {"image": "a\nb"}]
)
def test_options_are_checked(options: dict):
    with pytest.raises(InputError, match="expected"):
        Options(**options)


@pytest.mark.parametrize(
    "text", ['[nodes]\na-0 = "n"\n', '[workers]\na-0 = "n"\n', '{"nodes": {"a-0": "n"}}']
)
def test_nodes_are_read_from_a_table(text: str, tmp_path: Path):
    (tmp_path / "nodes").write_text(text)
    assert read_nodes(tmp_path / "nodes") == {"a-0": "n"}


@pytest.mark.parametrize("text", ["x = 1\n", "nodes = 3\n", "[nodes]\na = 3\n", "[nodes\n", ""])
def test_nodes_that_are_none_are_refused(text: str, tmp_path: Path):
    (tmp_path / "nodes.toml").write_text(text)
    with pytest.raises(InputError):
        read_nodes(tmp_path / "nodes.toml")


BROKEN = [
    ({"event": "started", "time": 1.0, "job": "job0", "task": "nope", "attempt": 1, "device": "d0"}, "is not known"),
    ({"event": "lost", "time": 1.0, "device": "nope"}, "lost: 'nope' is not known"),
    ({"event": "started", "time": 1.0}, "started: unexpected job"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "words"), BROKEN)
def test_broken_histories_are_refused(row: dict, words: str, tmp_path: Path):
    folder = write_run(tmp_path / "run", [*history("small")[:3], row])
    with pytest.raises(InputError, match=words) as error:
        of_run(folder)
    assert error.value.line == 4


# -- agreement with the drop-in for Dask -----------------------------------------------------------


def test_dask_agrees_with_the_drop_in(small: Problem):
    pytest.importorskip("dask")
    from weft.execute.dask import annotations_of
    from weft.execute.dask_graph import DaskGraph

    copyless = small.replaced(objective=replace(small.objective, copies=False))
    schedule = weft.schedule(copyless, "heft").schedule
    own = annotations_of(
        DaskGraph(dict.fromkeys(small.graph.names), {}), schedule, list(small.cluster.device_names)
    )
    notes = json.loads(text_of(of_schedule(schedule), "dask"))["annotations"]
    for key, note in notes.items():
        assert note == {name: table(key) for name, table in own.items()}
