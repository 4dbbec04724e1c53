"""``weft report`` and ``weft gantt`` given a schedule file: in any order, with its workflow, or refused in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Weft

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = str(ROOT / "examples" / "pipeline.json")
ON = ("--cluster", str(ROOT / "examples" / "cluster.toml"))


@pytest.fixture
def saved(weft: Weft, tmp_path: Path) -> Path:
    """A schedule file of the example."""
    weft("schedule", PIPELINE, *ON, "--scheduler", "cpop", "--out", "plan.json")
    return tmp_path / "plan.json"


@pytest.mark.parametrize("sources", [("plan.json", PIPELINE), (PIPELINE, "plan.json")], ids=["first", "last"])
def test_report_takes_a_schedule_and_its_workflow(
    weft: Weft, saved: Path, tmp_path: Path, sources: tuple[str, ...]
):
    ran = weft("report", *sources, *ON, "--out", "page.html")
    assert ran.code == 0
    assert "37 tasks on 6 devices, planned by cpop" in ran.out
    assert ran.out.endswith("wrote page.html, page.md\n")
    assert f"weft report {' '.join(sources)} {' '.join(ON)} --out page.html" in (
        tmp_path / "page.md"
    ).read_text("utf-8")


def test_report_of_a_plan_answers_questions_and_repeats_them_in_its_command(
    weft: Weft, saved: Path, tmp_path: Path
):
    asked = ("--whatif", "add:gpu=1,bandwidth:x2", "--noise", "30%", "--pareto", "--no-charts")
    ran = weft("report", "plan.json", PIPELINE, *ON, *asked, "--out", "page.md", "--json")
    assert ran.code == 0 and ran.json["valid"] is True and ran.json["out"] == ["page.md"]
    text = (tmp_path / "page.md").read_text("utf-8")
    assert "--whatif add:gpu=1 --whatif bandwidth:x2 --noise 30% --pareto --no-charts --out page.md" in text
    assert "+1 gpu, bandwidth x2" in text and "What if run times vary?" in text


def test_report_of_an_invalid_plan_is_written_and_exits_with_1(weft: Weft, saved: Path, tmp_path: Path):
    document = json.loads(saved.read_text())
    document["placements"][-1]["start"] -= 1.0
    saved.write_text(json.dumps(document))
    ran = weft("report", "plan.json", PIPELINE, *ON, "--out", "page.html")
    assert ran.code == 1
    assert ran.out.startswith("NOT VALID: the validator found ")
    assert "NOT VALID" in (tmp_path / "page.html").read_text("utf-8")


ALONE = "a schedule does not hold its problem: give the workflow, and the cluster unless the workflow names its machines"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("report", "plan.json"), f"plan.json: {ALONE}, as in weft report plan.json FILE --cluster C"),
        (("gantt", "plan.json"), f"plan.json: {ALONE}, as in weft gantt plan.json FILE --cluster C"),
        (("report", "plan.json", "plan.json"), "expected one schedule and its workflow file"),
        (("report", "plan.json", "."), "sweeps, runs and each plan have pages of their own"),
        (("report", "plan.json", PIPELINE, PIPELINE), "expected one schedule and its workflow file"),
        (("report", PIPELINE, *ON), "is about the workflow of a schedule: give a schedule file"),
        (("report", "plan.json", PIPELINE), "expected a device of the cluster"),
        (("report", "plan.json", PIPELINE, *ON, "--subject", "heft"), "--subject: is about sweeps and runs"),
        (("report", "plan.json", PIPELINE, *ON, "--whatif", "more"), "--whatif: expected a change such as"),
        (("report", "plan.json", PIPELINE, *ON, "--whatif", "add:x=1"), "no class 'x'"),
        (("report", "plan.json", PIPELINE, *ON, "--noise", "3000%"), "--noise: expected how far"),
        (("report", "plan.json", PIPELINE, *ON, "--baseline", "hefd"), "no planner 'hefd'"),
        (("report", PIPELINE, "--pareto"), "--pareto: is about one plan: give a schedule"),
        (("report", "plan.json", "junk.json"), "junk.json"),
        (
            ("gantt", "plan.json", PIPELINE, *ON, "--out", "x.pdf"),
            "expected a path that ends in .png, .svg or",
        ),
    ],
)
def test_what_does_not_go_together_is_one_line(
    weft: Weft, saved: Path, tmp_path: Path, words: tuple[str, ...], reason: str
):
    (tmp_path / "junk.json").write_text('{"placements": [')
    ran = weft(*words)
    assert (ran.code, ran.out) == (2, "")
    assert reason in ran.err and ran.err.splitlines()[-1].startswith("weft: ")
    assert not list(tmp_path.glob("report.*"))


@pytest.mark.parametrize("sources", [("plan.json", PIPELINE), (PIPELINE, "plan.json")], ids=["first", "last"])
@pytest.mark.parametrize("out", ["chart.svg", "chart.html", None])
def test_gantt_takes_schedule_and_workflow_in_any_order(
    weft: Weft, saved: Path, tmp_path: Path, sources: tuple[str, ...], out: str | None
):
    ran = weft("gantt", *sources, *ON, *(("--out", out) if out else ("--width", "90")))
    assert ran.code == 0
    if out is None:
        assert ran.out.startswith("makespan ") and "^ lower bound" in ran.out
    else:
        assert ran.out == f"wrote {out}\n"
        assert "image-pipeline, plan.json" in (tmp_path / out).read_text("utf-8")


def test_schedule_draws_a_page(weft: Weft, tmp_path: Path):
    assert weft("schedule", PIPELINE, *ON, "--gantt", "plan.html").code == 0
    assert 'class="gantt-host"' in (tmp_path / "plan.html").read_text("utf-8")
