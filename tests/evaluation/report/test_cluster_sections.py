"""What a report on a sweep of allocators shows beside what all reports do."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.evaluation.report.blocks import Figure, Figures, Gantt, Table, Text
from weft.evaluation.report.cluster_sections import alive, bound, clusters
from weft.evaluation.report.plans import side_by_side
from weft.evaluation.report.replay_clusters import episode
from weft.evaluation.sweep.elastic_runs import mean_bound
from weft.evaluation.sweep.evaluation import Evaluation
from weft.model.elastic_run import ElasticRun

NAMES = ("static-10", "min")


@pytest.fixture(scope="module")
def swept() -> Evaluation:
    """Two allocators on three samples."""
    return weft.evaluate("edge-multi-3", NAMES, settings={"tasks": 30}, seeds=3)


@pytest.fixture(scope="module")
def over_rates() -> Evaluation:
    """The same over a setting."""
    return weft.evaluate("edge-multi-3", NAMES, settings={"tasks": 20, "arrival_rate": [2.0, 3.0]}, seeds=2)


def test_bound_is_stated_with_the_distance_of_everybody(swept: Evaluation):
    lead, table = bound(swept).blocks
    assert isinstance(lead, Text) and isinstance(table, Table)
    assert f"Here it is {mean_bound(swept, ''):.4g} steps." in lead.lines[0]
    assert table.headers[1:] == NAMES
    assert 0 < float(table.rows[0][1]) < float(table.rows[0][2])


def test_bound_of_a_swept_setting_stands_behind_every_point(over_rates: Evaluation):
    table = bound(over_rates).blocks[1]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == [
        f"{rate}: {mean_bound(over_rates, f'arrival_rate={rate}'):.4g}" for rate in (2, 3)
    ]


def test_types_per_cluster_add_up_to_all_tasks(swept: Evaluation):
    section = clusters(swept)[1]
    assert section is not None
    table = section.blocks[0]
    assert isinstance(table, Table)
    assert table.headers == ("scheduler", "c0", "c1", "c2")
    assert "img / lm" in table.caption
    for row in table.rows:
        counts = [float(count) for cell in row[1:] for count in cell.split(" / ")]
        assert sum(counts) == pytest.approx(30, rel=0.01)


def test_use_has_bars_per_resource(swept: Evaluation):
    section = clusters(swept)[0]
    assert section is not None and isinstance(section.blocks[0], Figure)
    assert "CPU" in section.blocks[0].svg and "GPU" in section.blocks[0].svg


def test_use_over_a_setting_has_lines(over_rates: Evaluation):
    section = clusters(over_rates)[0]
    assert section is not None and isinstance(section.blocks[0], Figures)
    assert len(section.blocks[0].svgs) == 2


def test_tasks_alive_are_drawn_for_a_quick_a_typical_and_a_slow_sample(swept: Evaluation):
    section = alive(swept, "static-10", None, lambda line: None)
    assert section is not None and isinstance(section.blocks[0], Figures)
    assert len(section.blocks[0].svgs) == 3
    assert "other versions" not in section.blocks[0].caption


def test_tasks_alive_of_the_sample_asked_for(swept: Evaluation):
    section = alive(swept, "static-10", "seed=1", lambda line: None)
    assert section is not None and isinstance(section.blocks[0], Figures)
    assert len(section.blocks[0].svgs) == 1
    assert section.blocks[0].caption.endswith("test/0, seed 1.")


def test_episode_made_again_is_that_of_its_row(swept: Evaluation):
    made = episode(swept, "", swept.samples[""][1], NAMES)
    rows = [swept.rows_of("", name)[1] for name in NAMES]
    assert made.is_same and [run.trace for run in made.runs] == [row.trace for row in rows]
    assert [float(run.alive.max()) for run in made.runs] == [row["peak_alive"] for row in rows]


def test_changed_episode_is_said_to_differ(swept: Evaluation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ElasticRun, "trace", "another")
    section = alive(swept, "static-10", "seed=1", lambda line: None)
    assert section is not None and isinstance(section.blocks[0], Figures)
    assert "it may differ from its row" in section.blocks[0].caption


def test_tasks_on_their_clusters_are_drawn_side_by_side(swept: Evaluation):
    section = side_by_side(swept, "static-10", None, lambda line: None)
    assert section is not None
    chart = section.blocks[1]
    assert isinstance(chart, Gantt)
    assert chart.kinds == ("img", "lm")
    assert [panel.lanes for panel in chart.panels] == [("c0", "c1", "c2")] * 2
    assert all(len(panel.start) == 30 for panel in chart.panels)


def test_page_and_markdown_have_the_tables(tmp_path: Path):
    weft.evaluate("edge-multi-3", NAMES, settings={"tasks": 20}, seeds=2, out=tmp_path / "sweep")
    weft.report([tmp_path / "sweep"], out=tmp_path / "page.html")
    page, twin = ((tmp_path / f"page.{end}").read_text(encoding="utf-8") for end in ("html", "md"))
    for title in ("Task types per cluster", "The no-contention bound"):
        assert title in page and title in twin
    assert "Tasks alive over time" in page and "Use of the clusters" in page


def test_no_charts_makes_no_episode_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    weft.evaluate("edge-multi-3", NAMES, settings={"tasks": 20}, seeds=2, out=tmp_path / "sweep")
    monkeypatch.delattr("weft.evaluation.report.cluster_sections.episode")
    weft.report([tmp_path / "sweep"], out=tmp_path / "page.html", charts=False)
    assert "Tasks alive over time" not in (tmp_path / "page.html").read_text(encoding="utf-8")
