"""``weft report RUN`` and ``weft gantt RUN``: a run that was carried out, as a page, as text and as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Weft
from history_examples import EXAMPLES, World, history

from weft import Cluster, DeviceClass, GraphBuilder, Problem
from weft import schedule as plan_with
from weft.io.json_files import dump_json
from weft.io.problems import problem_document
from weft.io.schedules import write_schedule

HOSTILE = "<script>alert(1)</script>"


def write(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_report_writes_a_page_of_a_run(weft: Weft, tmp_path: Path, name: str):
    write(tmp_path / "run", history(name))
    ran = weft("report", "run", "--out", "page.html")
    assert ran.code == 0 and ran.out.endswith("wrote page.html, page.md\n")
    assert ran.out.startswith("list on test: planned ")
    page, text = ((tmp_path / file).read_text("utf-8") for file in ("page.html", "page.md"))
    for title in ("The critical chain", "Workers", "Idle time by cause", "Tasks", "Commands and versions"):
        assert f"<h2>{title}</h2>" in page and f"## {title}" in text
    assert "<h2>Planned and actual</h2>" in page
    assert ("Failures and attempts" in text) == (
        name in ("deaths", "failures", "broken", "resumed", "everything")
    )


def test_report_of_a_run_as_data(weft: Weft, tmp_path: Path):
    write(tmp_path / "run", history("jobs"))
    found = weft("report", "run", "--out", "page.md", "--json").json
    assert found["valid"] is True and found["out"] == ["page.md"]
    run = found["run"]
    assert run["tasks"] == run["done"] == 32 and run["jobs"] == 4
    assert sum(run["why"].values()) == pytest.approx(run["makespan"] - run["planned_makespan"])
    assert {"name", "busy", "idle", "ratio", "inversions"} <= set(run["workers"][0])


def test_report_of_a_run_that_broke_a_promise_says_so_and_exits_with_1(weft: Weft, tmp_path: Path):
    rows = history("plain")
    write(tmp_path / "run", [row for row in rows if row != next(r for r in rows if r["event"] == "reported")])
    ran = weft("report", "run", "--out", "page.html")
    assert ran.code == 1 and "broken promise" in ran.out
    assert "Broken promises" in (tmp_path / "page.md").read_text("utf-8")


def test_report_of_a_run_escapes_names(weft: Weft, tmp_path: Path):
    text = (
        json.dumps(history("failures"))
        .replace('"t3"', json.dumps(HOSTILE))
        .replace('"d1"', json.dumps(HOSTILE))
    )
    write(tmp_path / "run", json.loads(text.replace("no luck", HOSTILE)))
    assert weft("report", "run", "--out", "page.html").code == 0
    assert HOSTILE not in (tmp_path / "page.html").read_text("utf-8")


def test_report_of_a_killed_run_is_written(weft: Weft, tmp_path: Path):
    write(tmp_path / "run", history("deaths")[:50])
    ran = weft("report", "run", "--out", "page.html")
    assert ran.code == 0 and "Its history has no end." in ran.out


@pytest.mark.parametrize("length", [2, 3, 4, 5, 7])
def test_report_of_a_run_that_hardly_began_is_written(weft: Weft, tmp_path: Path, length: int):
    write(tmp_path / "run", history("plain")[:length])
    assert weft("report", "run", "--out", "page.html").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "other"), "expected one run and nothing beside it, got other too"),
        (("run", "--baseline", "heft"), "is not about a run: leave it out"),
        (("run", "--pareto"), "is not about a run: leave it out"),
        (("run", "--cluster", "cpu-4"), "--cluster cpu-4 is about the workflow of a schedule"),
    ],
    ids=["two", "baseline", "pareto", "cluster"],
)
def test_report_of_a_run_refuses_what_is_about_others(
    weft: Weft, tmp_path: Path, words: tuple[str, ...], said: str
):
    write(tmp_path / "run", history("small"))
    ran = weft("report", *words)
    assert ran.code == 2 and said in ran.err


def test_report_of_many_tasks_is_written_whole(weft: Weft, tmp_path: Path):
    write(tmp_path / "run", World(1, num_tasks=1500, slots=(1,) * 10).run())
    assert weft("report", "run", "--out", "page.html").code == 0
    assert len((tmp_path / "page.html").read_bytes()) < 2_000_000


def test_gantt_draws_plan_and_actual(weft: Weft, tmp_path: Path):
    builder = GraphBuilder("job0")
    for k in range(6):
        builder.task(f"t{k}", 1.0)
    problem = Problem(builder.build(), Cluster.uniform((DeviceClass("d"),), (1,)))
    rows = json.loads(json.dumps(history("small")).replace('"d0"', f'"{problem.cluster.device_names[0]}"'))
    run = write(tmp_path / "run", rows)
    ran = weft("gantt", "run")
    assert ran.code == 2 and "the problem of the run is not there" in ran.err
    (run / "problem.json").write_bytes(dump_json(problem_document(problem)))
    assert "makespan 8.7958 s" in weft("gantt", "run").out
    write_schedule(plan_with(problem), run / "plan.json")
    assert weft("gantt", "run/history.jsonl").out.startswith("planned\n")
