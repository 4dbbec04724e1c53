"""``weft export``: plans, workflows and runs for other systems, from the command line and from Python."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import Weft
from history_examples import history

import weft as library
from weft.io.exports.options import Options
from weft.io.exports.table import EXPORTS

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NAMES = [one.name for one in EXPORTS]
FILE, MACHINES = str(EXAMPLES / "pipeline.json"), str(EXAMPLES / "cluster.toml")


def write_run(folder: Path) -> None:
    folder.mkdir()
    rows = "".join(json.dumps(row) + "\n" for row in history("plain"))
    (folder / "history.jsonl").write_text(rows)


@pytest.mark.parametrize("to", NAMES)
def test_export_plans_a_workflow_and_prints_it(weft: Weft, to: str):
    ran = weft("export", FILE, "-c", MACHINES, "--to", to)
    assert ran.code == 0 and ran.out
    assert weft("export", FILE, "-c", MACHINES, "--to", to, "--out", "x", "--quiet").err == ""
    assert Path("x").read_text("utf-8") == ran.out


def test_export_says_what_is_not_enforced(weft: Weft):
    ran = weft("export", FILE, "-c", MACHINES, "--to", "kubernetes", "--out", "jobs.yaml")
    assert ran.out == "37 tasks on 6 devices as kubernetes: wrote jobs.yaml\n"
    assert "weft: Kubernetes knows neither edges nor order" in ran.err


@pytest.mark.parametrize("is_first", [True, False])
def test_export_takes_a_schedule_and_its_workflow(weft: Weft, is_first: bool):
    weft("schedule", FILE, "-c", MACHINES, "-s", "peft", "--no-copies", "--out", "plan.json")
    words = ("plan.json", FILE) if is_first else (FILE, "plan.json")
    found = weft("export", *words, "-c", MACHINES, "--to", "dask").json
    assert found["scheduler"] == "peft" and len(found["annotations"]) == 37
    assert found == weft("export", FILE, "-c", MACHINES, "-s", "peft", "--to", "dask").json


@pytest.mark.parametrize("to", NAMES)
def test_export_takes_a_run(weft: Weft, to: str, tmp_path: Path):
    write_run(tmp_path / "run")
    ran = weft("export", "run", "--to", to)
    assert ran.code == 0
    assert weft("export", "run/history.jsonl", "--to", to).out == ran.out


def test_export_uses_the_workers_of_a_cluster_file(weft: Weft):
    shutil.copy(MACHINES, "cluster.toml")
    with Path("cluster.toml").open("a") as file:
        file.write('\n[workers]\ngpu-0 = "tcp://10.0.0.1:4000"\n')
    notes = weft("export", FILE, "-c", "cluster.toml", "--to", "dask").json["annotations"]
    assert {note["workers"][0] for note in notes.values()} >= {"tcp://10.0.0.1:4000", "gpu-1"}


def test_export_as_a_document(weft: Weft):
    words = ("export", FILE, "-c", MACHINES, "--to", "csv", "--json")
    found = weft(*words).json
    assert found["schema"] == "weft/export/1" and found["tasks"] == 37 and found["out"] is None
    assert found["content"].startswith("job,task,copy,device,start,finish\n")
    found = weft(*words, "--out", "x.csv").json
    assert found["out"] == "x.csv" and "content" not in found


def test_export_plans_with_copies_only_where_they_can_be_said(weft: Weft):
    words = ("export", str(EXAMPLES / "mosaic.json"), "-c", "gpu-mix-8", "-s", "deft", "--ccr", "5", "--to")
    with_copies = weft(*words, "csv").out.splitlines()
    assert len(with_copies) > len(weft(*words, "csv", "--no-copies").out.splitlines())
    assert "run again" not in weft(*words, "airflow").err


REFUSED = [
    (("x.json", "--to", "dsk"), "--to: expected one of dask, airflow, nextflow, snakemake, kubernetes, chrome-trace, csv, got 'dsk'; did you mean 'dask'?"),
    (("missing.json", "--to", "csv"), "missing.json: no such file"),
    (("folder", "--to", "csv"), "folder: expected the folder of a run, there is no history.jsonl in it"),
    (("plan.json", "--to", "csv"), "plan.json: a schedule does not hold its problem: give the workflow too"),
    (("plan.json", "other.json", "-c", "gpu-mix-8", "--to", "csv"), "plan.json: placements[0].job: expected a job of the problem, got unknown job 'image-pipeline'"),
    (("plan.json", FILE, "-c", "gpu-mix-8", "--to", "csv"), "plan.json: placements[0].device: expected a device of the cluster"),
    (("plan.json", FILE, "-c", MACHINES, "--ccr", "9", "--to", "csv"), "plan.json: placements: the plan does not fit the workflow: precedence"),
    (("part.json", FILE, "-c", MACHINES, "--to", "csv"), "part.json: placements: the plan does not fit the workflow: 36 of 37 tasks are not in it"),
    (("plan.json", FILE, "-c", MACHINES, "--scheduler", "heft", "--to", "csv"), "--scheduler: plans a workflow, and there is a schedule: leave one out"),
    ((FILE, "other.json", "-c", MACHINES, "--to", "csv"), "file: expected a schedule and its workflow, or one workflow to plan"),
    (("other.json", "--to", "csv"), "other.json: cluster: the file names no machines"),
    (("run", "--cluster", MACHINES, "--to", "csv"), "--cluster: a run has its problem with it: leave it out"),
    (("run", FILE, "--to", "csv"), "file: a run has its problem with it: leave it out"),
    ((FILE, "-c", MACHINES, "--to", "dask", "--image", "x"), "--image: is of kubernetes: dask has no use for it"),
    ((FILE, "-c", MACHINES, "--to", "nextflow", "--by", "job"), "--by: expected one of task, kind, got 'job'"),
    ((FILE, "-c", MACHINES, "--to", "kubernetes", "--gpu-classes", "tpu"), "--gpu-classes: no class 'tpu' in the cluster"),
    ((FILE, "-c", MACHINES, "--to", "kubernetes", "--nodes", "missing.toml"), "missing.toml: no such file"),
    ((FILE, "-c", MACHINES, "--to", "csv", "--out", "no/such/x.csv"), "no/such/x.csv: cannot be written: no such folder"),
    ((FILE, "-c", MACHINES), "Missing option '--to'"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "line"), REFUSED)
def test_export_refuses_in_one_line(weft: Weft, words: tuple[str, ...], line: str, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    write_run(tmp_path / "run")
    shutil.copy(EXAMPLES / "layered.json", "other.json")
    weft("schedule", FILE, "-c", MACHINES, "--out", "plan.json")
    plan = json.loads(Path("plan.json").read_text())
    Path("part.json").write_text(json.dumps({**plan, "placements": plan["placements"][:1]}))
    ran = weft("export", *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1].startswith(f"weft: {line}")
    assert "Traceback" not in ran.err


def test_export_in_python(tmp_path: Path):
    problem = library.read_problem(FILE, MACHINES)
    plan = library.schedule(problem, "heft")
    found = library.export(plan, "kubernetes", tmp_path / "k.yaml", options=Options(image="a:1"))
    assert (tmp_path / "k.yaml").read_text("utf-8") == found.text == str(found)
    assert 'image: "a:1"' in found.text and found.tasks == 37
    assert library.export(problem, "csv", scheduler="peft").text.count("\n") > 37
    assert library.export(plan.schedule, "dask").out is None
    with pytest.raises(library.InputError, match="source: expected a plan, a workflow or a run, got int"):
        library.export(3, "csv")  # type: ignore[arg-type]
    with pytest.raises(library.InputError, match="cluster: a plan has its problem with it"):
        library.export(plan, "csv", cluster="gpu-mix-8")


def test_dask_follows_the_annotations(tmp_path: Path):
    """The snippet of docs/export.md, on workers of this process."""
    pytest.importorskip("distributed")
    import re

    import dask
    from distributed import Client, Scheduler, SpecCluster, Worker

    page = (EXAMPLES.parent / "docs" / "export.md").read_text("utf-8")
    snippet = next(
        code for code in re.findall(r"^```py\n(.*?)^```$", page, re.M | re.S) if "dask.annotate" in code
    )
    notes = {
        f"t-{i}": {"workers": [f"w-{i % 2}"], "allow_other_workers": True, "priority": -i} for i in range(6)
    }
    (tmp_path / "annotations.json").write_text(json.dumps({"annotations": notes}))
    parts = {
        f"w-{i}": {
            "cls": Worker,
            "options": {"nthreads": 1, "dashboard": False, "dashboard_address": "127.0.0.1:0"},
        }
        for i in range(2)
    }
    head = {"cls": Scheduler, "options": {"dashboard": False, "dashboard_address": "127.0.0.1:0", "port": 0}}
    work = [dask.delayed(_where)(dask_key_name=key) for key in notes]
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        SpecCluster(parts, head, asynchronous=False, silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        found: dict[str, object] = {"client": client, "results": work}
        source = snippet.replace('"annotations.json"', repr(str(tmp_path / "annotations.json")))
        exec(compile(source, "export.md", "exec"), found)
        assert found["answer"] == [f"w-{i % 2}" for i in range(6)]


def _where() -> str:
    from distributed import get_worker

    return str(get_worker().name)
