"""The page about one plan in a real browser: drawn, safe, and asking nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_examples import HOSTILE

import weft
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Problem


@pytest.fixture
def hostile_plan() -> weft.Result:
    """Copies, several slots, and names that would run if they could."""
    builder = GraphBuilder(HOSTILE)
    builder.task(HOSTILE, 1.0, kind=HOSTILE)
    builder.task("left", 10.0, after={HOSTILE: 100.0})
    builder.task("right", 10.0, after={HOSTILE: 100.0})
    classes = [DeviceClass("<script>", price=1.0), DeviceClass("node", slots=4)]
    return weft.schedule(Problem(builder.build(), Cluster.uniform(classes, [2, 1], bandwidth=1.0)), "deft")


def test_plan_page_is_drawn_and_its_names_never_become_script(
    opened, tmp_path: Path, hostile_plan: weft.Result
):
    path = tmp_path / "plan.html"
    weft.report(hostile_plan, path, whatif=["each"], noise=0.3, pareto=True)
    page = opened.open(path)
    page.wait_for_function("performance.getEntriesByName('weft-gantt-painted').length > 0")
    assert page.locator("canvas.gantt").count() == 2
    assert page.locator(".gantt-title").first.inner_text().startswith("deft: makespan 11 s")
    assert page.get_by_role("heading", name="What does it cost?").count() == 1
    page.locator(".table-host input").fill("window.hacked")
    assert page.locator(".table-host tbody tr").count() >= 2
    assert page.evaluate("window.hacked") is None and page.locator("img").count() == 0
    assert opened.requests == [path.as_uri()] and opened.errors == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200


def test_plan_of_no_length_is_drawn(opened, tmp_path: Path):
    problem = Problem(TaskGraph([0.0]), Cluster.uniform([DeviceClass("cpu")], [1]))
    weft.gantt(weft.schedule(problem), tmp_path / "plan.html")
    page = opened.open(tmp_path / "plan.html")
    assert page.locator("canvas.gantt").count() == 1
    assert opened.errors == []
