"""The scheduler plug-in for Snakemake: choosing jobs, and a real run where Snakemake is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
from command_line import Weft

PLUGIN = Path(__file__).resolve().parent.parent / "examples" / "snakemake-scheduler-plugin-weft"


@dataclass
class FakeJob:
    name: str
    output: list[str] = field(default_factory=list)
    scheduler_resources: dict[str, int] = field(default_factory=lambda: {"_cores": 1})
    priority: int = 0


@dataclass
class FakeGroup(FakeJob):
    jobs: list[FakeJob] = field(default_factory=list)


@pytest.fixture(scope="module")
def ranks() -> ModuleType:
    """The part of the plug-in that needs no Snakemake."""
    file = PLUGIN / "snakemake_scheduler_plugin_weft" / "ranks.py"
    spec = importlib.util.spec_from_file_location("weft_plugin_ranks", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROWS = [
    {"rank": 0, "task": "load", "kind": "io", "outputs": ["data.txt"]},
    {"rank": 1, "task": "out/long.txt", "kind": "work"},
    {"rank": 2, "task": "short", "kind": "work"},
]


@pytest.mark.parametrize(
    ("job", "rank"),
    [
        (FakeJob("any", ["./data.txt"]), 0),
        (FakeJob("any", ["out/../out/long.txt"]), 1),
        (FakeJob("short"), 2),
        (FakeJob("work"), 1),
        (FakeJob("unknown", ["x"]), None),
        (FakeGroup("g", jobs=[FakeJob("short"), FakeJob("any", ["data.txt"])]), 0),
    ],
)
def test_jobs_are_found_by_output_then_name_then_rule(ranks: ModuleType, job: FakeJob, rank: int | None):
    assert ranks.Ranks(ROWS).of(job) == rank


def names(jobs: list[FakeJob]) -> list[str]:
    return [job.name for job in jobs]


def test_earliest_planned_that_fit_are_chosen(ranks: ModuleType):
    table = ranks.Ranks([{"rank": k, "task": name} for k, name in enumerate("abc")])
    jobs = [FakeJob("x"), FakeJob("c"), FakeJob("b", scheduler_resources={"_cores": 2}), FakeJob("a")]
    assert names(ranks.chosen(jobs, {"_cores": 9}, table)) == ["a", "b", "c", "x"]
    assert names(ranks.chosen(jobs, {"_cores": 2, "name": "text"}, table)) == ["a", "c"]
    assert names(ranks.chosen(jobs, {"_cores": 2}, table, is_strict=True)) == ["a"]
    urgent = FakeJob("c", priority=5)
    assert names(ranks.chosen({id(j): j for j in (jobs[3], urgent)}.values(), {"_cores": 1}, table)) == ["c"]


@pytest.mark.parametrize("text", ["{}", "[]", '{"schema": "weft/export-snakemake/1"}', "no json"])
def test_other_files_are_refused(ranks: ModuleType, text: str, tmp_path: Path):
    (tmp_path / "ranks.json").write_text(text)
    with pytest.raises(ValueError):
        ranks.Ranks.read(tmp_path / "ranks.json")


def test_ranks_are_read_as_weft_writes_them(ranks: ModuleType, weft: Weft, tmp_path: Path):
    example = PLUGIN / "example"
    words = ("export", str(example / "graph.toml"), "-c", str(example / "cluster.toml"), "--to", "snakemake")
    assert weft(*words, "--out", "ranks.json").code == 0
    table = ranks.Ranks.read("ranks.json")
    order = sorted(
        ("load", "short", "middle", "long", "refine", "report"), key=lambda n: table.of(FakeJob(n))
    )
    assert order == ["load", "long", "refine", "middle", "short", "report"]


OTHER = ["load", "short", "middle", "long", "refine", "report"]
"""An order that the plan does not have."""


@pytest.mark.parametrize("is_planned", [True, False])
def test_snakemake_follows_the_plan(weft: Weft, is_planned: bool, tmp_path: Path):
    pytest.importorskip("snakemake")
    folder = tmp_path / "run"
    shutil.copytree(PLUGIN / "example", folder)
    shutil.copytree(PLUGIN / "snakemake_scheduler_plugin_weft", tmp_path / "snakemake_scheduler_plugin_weft")
    words = ("export", str(folder / "graph.toml"), "-c", str(folder / "cluster.toml"), "--to", "snakemake")
    planned = weft(*words, "--out", str(folder / "ranks.json"))
    assert planned.code == 0
    found = json.loads((folder / "ranks.json").read_text())
    expected = [row["task"] for row in found["jobs"]] if is_planned else OTHER
    rows = [{**row, "rank": expected.index(row["task"])} for row in found["jobs"]]
    (folder / "ranks.json").write_text(json.dumps({**found, "jobs": rows}))
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--scheduler", "weft"]
    command += ["--scheduler-weft-ranks", "ranks.json", "--scheduler-weft-record", "graph.json"]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert (folder / "order.txt").read_text().split() == expected
    recorded = weft("show", str(folder / "graph.json"), "--json").json
    assert (recorded["tasks"], recorded["edges"]) == (7, 8)
