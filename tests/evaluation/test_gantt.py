"""Gantt charts: packing into slots, files, terminal text."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError, MissingExtra
from weft.evaluation.figures.gantt import draw, pack, several, terminal
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Job, Problem
from weft.model.schedule import Schedule


def pooled(slots: list[int], work: list[float], capacity: int) -> Schedule:
    """Independent tasks on one device, started in order as soon as their slots are free."""
    problem = Problem(
        TaskGraph(work, slots=slots), Cluster.uniform([DeviceClass("pool", slots=capacity)], [1])
    )
    running: list[tuple[float, int]] = []
    start, now = [], 0.0
    for need, length in zip(slots, work, strict=True):
        while sum(held for _, held in running) + need > capacity:
            now, _ = running.pop(running.index(min(running)))
        start.append(now)
        running.append((now + length, need))
    return Schedule(problem, np.arange(len(work)), np.zeros(len(work)), start, np.add(start, work))


@pytest.fixture
def copied() -> Schedule:
    """Root 1, children 10 and 10 on two devices, the root on both."""
    builder = GraphBuilder("fork")
    builder.task("root", 1.0, kind="load")
    builder.task("left", 10.0, kind="train", after={"root": 100.0})
    builder.task("right", 10.0, kind="train", after={"root": 100.0})
    problem = Problem(builder.build(), Cluster.uniform([DeviceClass("cpu")], [2], bandwidth=1.0))
    return Schedule(
        problem, [0, 0, 1, 2], [0, 1, 0, 1], [0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 11.0, 11.0], [0, 1, 0, 0]
    )


# -- packing --------------------------------------------------------------------------------------


def test_pack_reuses_the_lowest_free_slots() -> None:
    bars = pack(pooled([1, 1, 1], [4.0, 2.0, 1.0], 2))
    assert list(zip(bars.row, bars.low, bars.high, strict=True)) == [(0, 0, 1), (1, 1, 2), (2, 1, 2)]


def test_pack_splits_a_task_over_separate_slots() -> None:
    bars = pack(pooled([1, 1, 1, 2], [1.0, 9.0, 1.0, 5.0], 3))
    pieces = bars.row == 3
    assert list(zip(bars.low[pieces], bars.high[pieces], strict=True)) == [(0, 1), (2, 3)]


def test_pack_draws_a_batch_once() -> None:
    problem = Problem(TaskGraph([2.0, 2.0]), Cluster.uniform([DeviceClass("gpu", batch=4)], [1]))
    plan = Schedule(problem, [0, 1], [0, 0], [0.0, 0.0], [2.0, 2.0], batch=np.array([0, 0]))
    assert pack(plan).row.tolist() == [0]


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), min_size=1, max_size=25))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_pack_never_overlaps_and_keeps_the_slots(capacity: int, tasks: list[tuple[int, int]]) -> None:
    slots = [min(need, capacity) for need, _ in tasks]
    plan = pooled(slots, [float(length) for _, length in tasks], capacity)
    bars = pack(plan)
    held = np.bincount(plan.task[bars.row], bars.high - bars.low)
    assert held.tolist() == slots
    start, finish = plan.start[bars.row], plan.finish[bars.row]
    together = (start[:, None] < finish) & (start < finish[:, None])
    touching = (bars.low[:, None] < bars.high) & (bars.low < bars.high[:, None])
    assert (together & touching).sum() == len(bars.row)


# -- files ----------------------------------------------------------------------------------------


def test_draw_writes_a_png(copied: Schedule, tmp_path: Path) -> None:
    draw(copied, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_draw_svg_says_what_a_reader_needs(copied: Schedule, tmp_path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw(copied, tmp_path / "plan.svg", title="my plan")
    text = (tmp_path / "plan.svg").read_text()
    for part in ("my plan: makespan 11 s", "cpu-0", "time (s)", "copy of a task", "idle", "lower bound"):
        assert part in text
    for part in ("load", "train", "left", "100 %", "busy"):
        assert part in text


def test_draw_same_schedule_gives_equal_files(copied: Schedule, tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg", "one.png", "two.png"):
        draw(copied, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_draw_takes_thousands_of_bars(tmp_path: Path) -> None:
    draw(pooled([1] * 5000, [1.0] * 5000, 8), tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 10_000


def test_draw_takes_an_empty_schedule(copied: Schedule, tmp_path: Path) -> None:
    draw(Schedule(copied.problem, [], [], [], []), tmp_path / "none.png")
    assert (tmp_path / "none.png").exists()


def test_several_shows_every_title(copied: Schedule, tmp_path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        several([("first", copied), ("second", pooled([1, 2], [3.0, 4.0], 2))], tmp_path / "both.svg")
    text = (tmp_path / "both.svg").read_text()
    assert "first: makespan 11 s" in text
    assert "second: makespan 7 s" in text


def test_draw_leaves_pyplot_alone(copied: Schedule, tmp_path: Path) -> None:
    loaded = "matplotlib.pyplot" in sys.modules
    draw(copied, tmp_path / "plan.png")
    assert ("matplotlib.pyplot" in sys.modules) == loaded


def test_draw_refuses_other_suffixes(copied: Schedule) -> None:
    with pytest.raises(InputError, match=r"path: expected a path that ends in .png or .svg, got 'plan.gif'"):
        draw(copied, "plan.gif")


def test_draw_reports_a_folder_that_is_not_there(copied: Schedule, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: no such folder"):
        draw(copied, tmp_path / "missing" / "plan.png")


def test_draw_that_fails_leaves_the_old_chart(
    copied: Schedule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "plan.png").write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(KeyboardInterrupt):
        draw(copied, tmp_path / "plan.png")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("plan.png", b"old")]


def test_several_refuses_no_schedules() -> None:
    with pytest.raises(InputError, match="schedules: expected at least one schedule, got none"):
        several([], "plan.png")


def test_draw_names_the_extra_without_matplotlib(
    copied: Schedule, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"a Gantt chart needs matplotlib.*weft\[plot\]"):
        draw(copied, tmp_path / "plan.png")


# -- terminal -------------------------------------------------------------------------------------


def test_terminal_draws_one_line_per_lane(copied: Schedule) -> None:
    assert terminal(copied, 57).splitlines() == [
        "makespan 11 s, lower bound 11 (critical-path), 0.0 % above it; 100 % busy, 1 copy",
        "cpu-0 [==][#################left#################]  100 %",
        "cpu-1 [~~][################right#################]  100 %",
        "      |0                  |5                  |10 s",
        "                                                  ^ lower bound",
        "= load   # train   ~ copy of a task   . idle",
    ]


def test_terminal_key_fits_the_width_and_tells_kinds_apart() -> None:
    builder = GraphBuilder()
    for k in range(12):
        builder.task(f"t{k}", 1.0, kind=f"kind-{k}")
    problem = Problem(builder.build(), Cluster.uniform([DeviceClass("cpu")], [1]))
    starts = [float(k) for k in range(12)]
    plan = Schedule(problem, list(range(12)), [0] * 12, starts, [start + 1.0 for start in starts])
    lines = terminal(plan, 50).splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("= kind-0"))
    assert max(map(len, lines[first:])) <= 50
    marks = [part.split(" ")[0] for line in lines[first:] for part in line.split("   ")]
    assert len(marks) == len(set(marks)) == 13


def test_terminal_shows_load_of_a_pool() -> None:
    lines = terminal(pooled([50, 100], [1.0, 1.0], 100), 34).splitlines()
    assert lines[1] == "pool-0 ▄▄▄▄▄▄▄▄▄▄██████████   75 %"
    assert lines[-1].endswith("share of the slots in use")


def test_terminal_markup_is_valid_and_says_the_same(copied: Schedule) -> None:
    from rich.text import Text

    assert Text.from_markup(terminal(copied, 57, markup=True)).plain == terminal(copied, 57)


@pytest.mark.parametrize("name", ["a[/b]", "a\\[/b]", "[bold]", "x\\", "[", "]"])
@pytest.mark.parametrize("length", [2.0, 0.05])
def test_terminal_markup_escapes_names(name: str, length: float) -> None:
    builder = GraphBuilder()
    builder.task(name, length, kind=name)
    builder.task("other", 1.0)
    problem = Problem(builder.build(), Cluster.uniform([DeviceClass("cpu")], [1]))
    plan = Schedule(problem, [0, 1], [0, 0], [0.0, length], [length, length + 1.0])
    from rich.text import Text

    assert Text.from_markup(terminal(plan, 60, markup=True)).plain == terminal(plan, 60)


def test_terminal_colours_by_job_when_there_is_one_kind() -> None:
    graph = TaskGraph([1.0])
    problem = Problem(
        [Job(graph, "morning"), Job(graph, "evening")], Cluster.uniform([DeviceClass("cpu")], [1])
    )
    plan = Schedule(problem, [0, 1], [0, 0], [0.0, 1.0], [1.0, 2.0])
    assert terminal(plan).splitlines()[-1] == "= morning   # evening   . idle"


def test_terminal_takes_an_empty_schedule(copied: Schedule) -> None:
    lines = terminal(Schedule(copied.problem, [], [], [], []), 40).splitlines()
    assert lines[1].startswith("cpu-0 ....")
