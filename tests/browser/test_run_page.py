"""The page about a run in a real browser: both charts on one axis, and names that stay names."""

from __future__ import annotations

import json
from pathlib import Path

from history_examples import history
from report_examples import HOSTILE

import weft


def test_run_page_draws_plan_and_actual_and_runs_no_names(opened, tmp_path: Path):
    text = json.dumps(history("everything")).replace('"t5"', json.dumps(HOSTILE))
    text = text.replace("ValueError: no luck", json.dumps(HOSTILE)[1:-1])
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in json.loads(text)))
    path = tmp_path / "run.html"
    weft.report(tmp_path, path)
    page = opened.open(path)
    page.wait_for_function("performance.getEntriesByName('weft-gantt-painted').length > 0")
    titles = page.locator(".gantt-title").all_inner_texts()
    assert titles[0].startswith("planned: makespan") and titles[1].startswith("actual: makespan")
    page.locator(".table-host input").first.fill("window.hacked")
    assert page.evaluate("window.hacked") is None and page.locator("img").count() == 0
    assert opened.requests == [path.as_uri()] and opened.errors == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200
