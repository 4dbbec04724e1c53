"""A report of 10,000 rows with a 10,000-bar Gantt in headless Chromium: first paint, outside requests.

Target: the chart is painted at most 200 ms after the page is opened, and the page asks nobody for
anything. Needs playwright (extra ``browser``) and Debian's chromium. The browser is warm: a page of
10 bars is opened first, and measured as well, for what the browser itself takes. Times are wall time
but where they say processor time, so other work on the machine shows.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.evaluation.report.blocks import BigTable, Gantt, Panel, Report, Section
from weft.evaluation.report.page import render

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TARGET_MS = 200.0
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
LINES = {
    "chart drawn": "weft-gantt-drawn",
    "chart painted": "weft-gantt-painted",
    "processor time of the whole page": "cpu",
    "zoom or move, two frames": "zoom",
}
"""What is printed -> what was measured."""
PAINTED = "performance.getEntriesByName('weft-gantt-painted').length > 0"
TIMES = """() => Object.fromEntries(["weft-gantt-drawn", "weft-gantt-painted"].map(
    (name) => [name, performance.getEntriesByName(name)[0].startTime]))"""
ZOOM = """async () => {
  const canvas = document.querySelector("canvas.gantt"), times = [];
  canvas.focus();
  for (let k = 0; k < 20; k++) {
    const started = performance.now();
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: k < 10 ? "+" : "ArrowRight" }));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    times.push(performance.now() - started);
  }
  return times;
}"""


def main(arguments: list[str]) -> int:
    """Measure and print; 1 if a target was missed, 2 if there is no browser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks report", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--bars", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args(arguments)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("needs playwright (pip install '.[browser]') and chromium (apt-get install)", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        page, small = Path(folder) / "report.html", Path(folder) / "small.html"
        started = time.process_time()
        text = render(_report(options.rows, options.bars))
        print(f"rendered in {time.process_time() - started:.2f} CPU s, {len(text) / 1e6:.2f} MB")
        page.write_text(text, encoding="utf-8")
        small.write_text(render(_report(10, 10)), encoding="utf-8")
        browser = play.chromium.launch(executable_path=chromium, args=list(FLAGS))
        least = [_open(browser, small) for _ in range(options.repeats)]
        return _summary(least, [_open(browser, page) for _ in range(options.repeats)])


def _report(num_rows: int, num_bars: int) -> Report:
    """Two panels with half of the bars each, and the table."""
    rng = np.random.default_rng(1)
    kinds = ("cnn", "transformer", "lm", "gan", "rl", "recsys")
    panels = tuple(_panel(num_bars // 2, rng, len(kinds), name) for name in ("heft", "search"))
    texts = [f"p_c={k % 11 / 10:g}" for k in range(num_rows)], [f"test/{k // 8}" for k in range(num_rows)]
    numbers = rng.random((6, num_rows)) * 100.0
    headers = ("point", "problem", "mean_jct", "p99_jct", "utilisation", "batch_fill", "makespan", "expired")
    table = BigTable(headers, (*texts, *numbers), "every row")
    chart = Gantt(panels, kinds, "s", "two plans on one axis")
    return Report("benchmark", ("a headline",), (Section("plans", (chart,)), Section("rows", (table,))))


def _panel(num_bars: int, rng: np.random.Generator, num_kinds: int, name: str) -> Panel:
    num_lanes = 16
    lane = rng.integers(num_lanes, size=num_bars)
    long = rng.random(num_bars) + 0.1
    start = np.zeros(num_bars)
    for k in range(num_lanes):
        own = lane == k
        start[own] = np.cumsum(1.1 * long[own]) - 1.1 * long[own]
    return Panel(
        title=name,
        lanes=tuple(f"gpu-{k}" for k in range(num_lanes)),
        lane=lane,
        low=np.zeros(num_bars),
        high=np.ones(num_bars),
        start=start,
        finish=start + long,
        kind=rng.integers(num_kinds, size=num_bars),
        is_copy=(rng.random(num_bars) < 0.05).astype(np.int64),
        names=tuple(f"{name}-task-{k}" for k in range(num_bars)),
        size=np.ones(num_bars, np.int64),
        busy=(0.9,) * num_lanes,
    )


def _open(browser: Browser, path: Path) -> dict[str, float]:
    """Open the page in a fresh context: when it was drawn and painted, and whom it asked."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(path.as_uri(), wait_until="load")
    page.wait_for_function(PAINTED)
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    found = dict(page.evaluate(TIMES)) | {"cpu": 1000.0 * metrics["TaskDuration"]}
    found["zoom"] = statistics.median(page.evaluate(ZOOM))
    found["outside"] = sum(url != path.as_uri() for url in asked)
    context.close()
    return found


def _summary(least: list[dict[str, float]], runs: list[dict[str, float]]) -> int:
    painted = [run["weft-gantt-painted"] for run in runs]
    outside = int(sum(run["outside"] for run in runs))
    print(f"{'':<34} {'this page':>10} {'10 bars':>9}   median of {len(runs)}")
    for name, key in LINES.items():
        both = [statistics.median(run[key] for run in found) for found in (runs, least)]
        print(f"{name:<34} {both[0]:>7.0f} ms {both[1]:>6.0f} ms")
    print(
        f"chart painted: best {min(painted):.0f} ms, worst {max(painted):.0f} ms; outside requests: {outside}"
    )
    is_reached = statistics.median(painted) <= TARGET_MS and outside == 0
    print(f"target (painted <= {TARGET_MS:.0f} ms, 0 requests): {'reached' if is_reached else 'missed'}")
    return 0 if is_reached else 1
