"""``weft.gantt`` and ``weft.report``: what the verbs draw and write."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.errors import InputError

PIPELINE = Path(__file__).resolve().parent.parent.parent / "examples" / "pipeline.json"


def test_gantt_draws_text_and_pictures(tmp_path: Path):
    problem = weft.read_problem(PIPELINE, cluster="gpu-mix-8")
    results = [weft.schedule(problem, name) for name in ("heft", "cpop")]
    alone = weft.gantt(results[0], width=80)
    both = weft.gantt({one.scheduler: one.schedule for one in results}, width=80)
    assert str(both).startswith(f"heft\n{alone}\n\ncpop\n")
    assert [chart.title for chart in both.charts] == ["heft", "cpop"]
    drawn = weft.gantt(results[0].schedule, tmp_path / "plan.svg")
    assert (drawn.text, str(drawn)) == (None, f"wrote {tmp_path / 'plan.svg'}")
    assert (tmp_path / "plan.svg").read_text().count(problem.name)


def test_report_writes_a_sweep_as_a_page(tmp_path: Path):
    sweep, out = tmp_path / "sweep", tmp_path / "page.html"
    weft.evaluate("workflows", ["heft", "random"], settings={"tasks": 12}, problems=2, out=sweep)
    found = weft.report(sweep, out, title="Two planners", charts=False)
    assert found.out == (out, out.with_suffix(".md"))
    assert "Two planners" in out.read_text("utf-8")
    assert str(found).endswith(f"wrote {out}, {out.with_suffix('.md')}")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"out": "page.txt"}, "out: expected a path that ends in .html or .md, got 'page.txt'"),
        ({"sources": "nowhere"}, "nowhere: no such folder or file"),
    ],
)
def test_report_refuses_what_it_cannot_read_or_write(asked: dict, message: str):
    with pytest.raises(InputError, match=message):
        weft.report(**{"sources": "nowhere", **asked})
