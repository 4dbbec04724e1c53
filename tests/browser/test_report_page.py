"""A report in a real browser: drawn, usable by mouse and keyboard, safe, and asking nobody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_examples import HOSTILE

from weft.evaluation.report.blocks import BigTable, Gantt, Panel, Report, Section, Table
from weft.evaluation.report.page import render


def panel(num_bars: int, num_lanes: int = 4, name: str = "plan") -> Panel:
    lane = np.arange(num_bars) % num_lanes
    start = (np.arange(num_bars) // num_lanes).astype(np.float64)
    return Panel(
        title=name,
        lanes=tuple(f"gpu-{k}" for k in range(num_lanes)),
        lane=lane,
        low=np.zeros(num_bars),
        high=np.ones(num_bars),
        start=start,
        finish=start + 0.9,
        kind=np.arange(num_bars) % 10,
        is_copy=(np.arange(num_bars) % 7 == 0).astype(np.int64),
        names=tuple(f"t{k}" for k in range(num_bars)),
        size=np.ones(num_bars, np.int64),
        busy=(0.9,) * num_lanes,
        bound=1.0,
    )


def report(num_bars: int = 40, num_rows: int = 200, name: str = "plan") -> Report:
    kinds = tuple(f"kind {k}" for k in range(10))
    gantt = Gantt((panel(num_bars, name=name), panel(num_bars // 2)), kinds, "s", "two plans")
    words = [f"row {k}" if k % 50 else name for k in range(num_rows)]
    table = BigTable(("what", "value"), (words, np.arange(num_rows)[::-1].astype(np.float64)), "rows")
    return Report("browser", ("a headline",), (Section("plans", (gantt,)), Section("rows", (table,))))


@pytest.fixture
def page_file(tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(render(report()), encoding="utf-8")
    return path


def colours(page, index: int = 0) -> int:
    """Different colours on a canvas."""
    script = """index => {
      const c = document.querySelectorAll("canvas.gantt")[index];
      const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
      const found = new Set();
      for (let i = 0; i < d.length; i += 4) found.add(d[i] * 65536 + d[i + 1] * 256 + d[i + 2]);
      return found.size;
    }"""
    return page.evaluate(script, index)


def test_page_asks_nobody_and_reports_no_error(opened, page_file: Path):
    page = opened.open(page_file)
    page.wait_for_function("performance.getEntriesByName('weft-gantt-painted').length > 0")
    assert opened.requests == [page_file.as_uri()]
    assert opened.errors == []


def test_charts_are_drawn_on_aligned_axes(opened, page_file: Path):
    page = opened.open(page_file)
    assert page.locator("canvas.gantt").count() == 2
    assert colours(page, 0) > 8 and colours(page, 1) > 8
    boxes = [page.locator("canvas.gantt").nth(k).bounding_box() for k in range(2)]
    assert (boxes[0]["x"], boxes[0]["width"]) == (boxes[1]["x"], boxes[1]["width"])


def test_hover_says_task_device_and_times(opened, page_file: Path):
    page = opened.open(page_file)
    box = page.locator("canvas.gantt").first.bounding_box()
    page.mouse.move(box["x"] + 0.12 * box["width"], box["y"] + 10)
    tip = page.locator(".gantt-tip")
    tip.wait_for(state="visible")
    assert " on gpu-0: " in tip.inner_text() and " s long" in tip.inner_text()


def test_keyboard_moves_zooms_and_walks_from_bar_to_bar(opened, page_file: Path):
    page = opened.open(page_file)
    canvas = page.locator("canvas.gantt").first
    canvas.focus()
    page.keyboard.press("n")
    page.keyboard.press("n")
    live = page.locator(".gantt-live")
    assert live.inner_text().startswith("t4 (kind 4) on gpu-0: 1 s to 1.9 s")
    page.keyboard.press("ArrowDown")
    assert " on gpu-1: " in live.inner_text()
    before = canvas.screenshot()
    page.keyboard.press("+")
    page.wait_for_timeout(100)
    assert canvas.screenshot() != before
    page.keyboard.press("0")
    page.wait_for_timeout(100)
    assert canvas.screenshot() == before


def test_buttons_and_wheel_zoom_both_panels_together(opened, page_file: Path):
    page = opened.open(page_file)
    before = [page.locator("canvas.gantt").nth(k).screenshot() for k in range(2)]
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_timeout(100)
    after = [page.locator("canvas.gantt").nth(k).screenshot() for k in range(2)]
    assert after[0] != before[0] and after[1] != before[1]


def test_table_shows_one_page_and_sorts_and_filters(opened, page_file: Path):
    page = opened.open(page_file)
    rows = page.locator(".table-host tbody tr")
    rows.first.wait_for()
    assert rows.count() == 50
    page.get_by_role("button", name="value").click()
    assert rows.first.locator("td").nth(1).inner_text() == "0"
    page.get_by_role("button", name="Next page").click()
    assert "page 2 of 4" in page.locator(".table-tools span").inner_text()
    page.locator(".table-host input").fill("row 12 ")
    assert "page 1 of" in page.locator(".table-tools span").inner_text()
    assert rows.first.inner_text().startswith("row 12")


def wide_report() -> Report:
    """Tables of every sort that are wider than any screen."""
    names = tuple(f"a-scheduler-of-a-long-name-{k}" for k in range(33))
    values = tuple("1234.5 (1200.1 to 1300.2)" for _ in names)
    table = Table(("point", *names), (("0.5", *values),), tuple(range(1, 34)), "means")
    words = Table(("claim", "text"), (("1", "word " * 200), ("2", "x" * 400)))
    columns = tuple([f"{name} {'y' * 40}"] * 3 for name in names)
    return Report(
        "wide " * 60, ("headline " * 80,), (Section("all", (table, words, BigTable(names, columns, "rows"))),)
    )


@pytest.mark.parametrize("width", [1440, 800])
def test_no_table_is_cut(browser, tmp_path: Path, width: int):
    path = tmp_path / "wide.html"
    path.write_text(render(wide_report()), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto(path.as_uri())
    page.locator(".table-host tbody tr").first.wait_for()
    sizes = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert sizes[0] <= sizes[1]
    hidden = page.evaluate("""() => Array.from(document.querySelectorAll("table")).filter((table) => {
      const box = table.parentElement;
      return table.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX !== "auto";
    }).length""")
    assert hidden == 0
    context.close()


def test_legend_of_many_kinds_repeats_no_look(opened, tmp_path: Path):
    kinds = tuple(f"kind {k}" for k in range(40))
    many = replace(panel(80), kind=np.arange(80) % 40)
    path = tmp_path / "kinds.html"
    path.write_text(
        render(Report("kinds", (), (Section("p", (Gantt((many,), kinds, "s", ""),)),))), encoding="utf-8"
    )
    page = opened.open(path)
    looks = page.evaluate("""() => Array.from(document.querySelectorAll(".gantt-legend i")).map(
      (box) => box.className + getComputedStyle(box).backgroundColor + getComputedStyle(box).backgroundImage)""")
    assert len(looks) == len(set(looks)) == 32 + 3  # the others, copies and the bound
    assert page.locator(".gantt-legend").inner_text().count("8 more kinds") == 1
    assert opened.errors == []


def test_names_from_files_never_become_script(opened, tmp_path: Path):
    path = tmp_path / "hostile.html"
    path.write_text(render(report(name=HOSTILE)), encoding="utf-8")
    page = opened.open(path)
    page.wait_for_timeout(100)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator(".gantt-title").first.inner_text() == HOSTILE
    assert opened.errors == []


def test_injected_script_is_stopped_by_the_policy(opened, tmp_path: Path):
    path = tmp_path / "injected.html"
    text = render(report()).replace("</body>", "<script>window.hacked = 1</script></body>")
    path.write_text(text, encoding="utf-8")
    page = opened.open(path)
    assert page.evaluate("window.hacked") is None


def test_dark_mode_and_print_change_the_colours(browser, page_file: Path):
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(page_file.as_uri())
    corner = """() => Array.from(document.querySelector("canvas.gantt").getContext("2d")
      .getImageData(1, 1, 1, 1).data.slice(0, 3))"""
    assert max(page.evaluate(corner)) < 60
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_timeout(100)
    assert min(page.evaluate(corner)) > 200
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    context.close()


def test_ten_thousand_bars_are_drawn_and_zoomed(opened, tmp_path: Path):
    path = tmp_path / "large.html"
    path.write_text(render(report(num_bars=10_000, num_rows=10_000)), encoding="utf-8")
    page = opened.open(path)
    assert colours(page) > 4
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_timeout(100)
    assert opened.errors == []
