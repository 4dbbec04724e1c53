"""The page about one plan: what it says first, what stands in its tables, and what it leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_examples import HOSTILE
from strategies import problems

import weft
from weft.errors import InputError, WeftError
from weft.evaluation.report.plan_chart import MOST_BARS, MOST_LANES, chart
from weft.evaluation.report.plan_facts import chain_of, device_facts
from weft.evaluation.report.plan_source import read_plan
from weft.io.files import is_schedule, write_schedule
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import Knobs, generate
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Job, Problem
from weft.model.schedule import Schedule


@pytest.fixture
def queued() -> Schedule:
    """a then c on cpu-0, with b (nobody needs it) between; d on cpu-1 after data of c that takes 2."""
    builder = GraphBuilder("queued")
    builder.task("a", 4.0)
    builder.task("b", 3.0)
    builder.task("c", 5.0, after={"a": 1.0})
    builder.task("d", 1.0, after={"c": 2.0})
    problem = Problem(builder.build(), Cluster.uniform([DeviceClass("cpu")], [2], bandwidth=1.0))
    return Schedule(problem, [0, 1, 2, 3], [0, 0, 0, 1], [0, 4, 7, 14], [4, 7, 12, 15])


def page(planned: Schedule | weft.Result, folder: Path, **asked) -> tuple[str, str]:
    """The page and its Markdown twin."""
    weft.report(planned, folder / "plan.html", **asked)
    return (folder / "plan.html").read_text("utf-8"), (folder / "plan.md").read_text("utf-8")


def many_tasks(num: int, devices: int = 8) -> Schedule:
    """Tasks without edges, in turn on every device."""
    lane, place = np.arange(num) % devices, np.arange(num) // devices
    length = 1.0 + np.arange(num) / num
    problem = Problem(
        TaskGraph(length, names=[f"t{k}" for k in range(num)]), Cluster.uniform([DeviceClass("d")], [devices])
    )
    return Schedule(problem, np.arange(num), lane, 2.0 * place, 2.0 * place + length)


# -- facts ----------------------------------------------------------------------------------------


def test_chain_says_where_the_makespan_goes(queued: Schedule):
    chain = chain_of(queued)
    assert [link.task for link in chain.links] == ["a", "b", "c", "d"]
    assert (chain.needed, chain.queued, chain.transfers) == (6.0, 7.0, 2.0)
    assert sum(chain.parts.values()) == queued.makespan


def test_chain_counts_time_before_a_release_and_time_that_nothing_held():
    job = Job(TaskGraph([2.0]), release=5.0)
    problem = Problem((Job(TaskGraph([1.0])), job), Cluster.uniform([DeviceClass("cpu")], [1]))
    on_time = chain_of(Schedule(problem, [0, 1], [0, 0], [0.0, 5.0], [1.0, 7.0]))
    late = chain_of(Schedule(problem, [0, 1], [0, 0], [0.0, 6.0], [1.0, 8.0]))
    assert (on_time.released, on_time.free, on_time.needed) == (5.0, 0.0, 2.0)
    assert (late.released, late.free, late.needed) == (0.0, 6.0, 2.0)


@given(problems(max_tasks=12), st.sampled_from(("heft", "deft")))
@settings(max_examples=25, deadline=None)
def test_chain_of_any_plan_is_as_long_as_the_plan(problem: Problem, scheduler: str):
    try:
        plan = weft.schedule(problem, scheduler).schedule
    except WeftError:
        return
    chain = chain_of(plan)
    assert sum(chain.parts.values()) == pytest.approx(plan.makespan)
    memory = problem.cluster.class_column("memory")[problem.cluster.device_class]
    assert (device_facts(plan).peak_memory <= memory * (1 + 1e-9)).all()


def test_peak_memory_is_of_tasks_at_one_time_and_of_the_largest_in_a_batch():
    graph = TaskGraph([2.0, 2.0, 2.0], memory=[10.0, 20.0, 30.0])
    cluster = Cluster.uniform([DeviceClass("node", slots=2, memory=100.0, batch=2)], [1])
    apart = Schedule(Problem(graph, cluster), [0, 1, 2], [0, 0, 0], [0.0, 1.0, 2.0], [2.0, 3.0, 4.0])
    batched = Schedule(Problem(graph, cluster), [0, 1, 2], [0, 0, 0], [0.0] * 3, [2.0] * 3, batch=[7, 7, -1])
    assert device_facts(apart).peak_memory.tolist() == [50.0]
    assert device_facts(batched).peak_memory.tolist() == [50.0]


# -- the page -------------------------------------------------------------------------------------


def test_page_says_the_conclusion_first_and_all_its_parts(tmp_path: Path):
    problem = weft.read_problem(
        Path(__file__).resolve().parents[3] / "examples" / "pipeline.json", cluster="gpu-mix-8"
    )
    found = weft.report(weft.schedule(problem, "cpop"), tmp_path / "plan.html")
    first = "\n".join(found.headline)
    assert found.valid is True
    for words in (
        "planned by cpop",
        "above the optimum (bound",
        "no broken rule",
        "What holds it back, along",
    ):
        assert words in first
    assert "The busiest device is" in first and "than the plan of heft" in first
    text = (tmp_path / "plan.md").read_text("utf-8")
    parts = ("Devices", "What holds it back", "Against heft", "The workflow", "Commands and versions")
    places = [text.index(f"## {part}") for part in parts]
    assert places == sorted(places)
    assert "| energy \\[J\\] |" in text
    assert "37 tasks, 71 edges, 9 levels" in text


def test_page_repeats_byte_for_byte(queued: Schedule, tmp_path: Path):
    asked = {"noise": 0.3, "whatif": ["add:cpu=1", "bandwidth:x2"]}
    assert page(queued, tmp_path, **asked) == page(queued, tmp_path, **asked)


def test_page_of_hefts_own_plan_says_so(fork_problem: Problem, tmp_path: Path):
    _, text = page(weft.schedule(fork_problem, "heft"), tmp_path)
    assert "It is the plan that heft makes of this problem." in text
    assert "heft makes exactly this plan." in text


def test_page_says_how_jobs_fare(tmp_path: Path):
    jobs = (Job(TaskGraph([2.0]), name="a", deadline=3.0), Job(TaskGraph([2.0]), name="b", deadline=3.0))
    problem = Problem(jobs, Cluster.uniform([DeviceClass("cpu")], [1]))
    _, text = page(weft.schedule(problem), tmp_path)
    assert "- 2 jobs: mean job time 3 s; 1 of 2 deadlines missed." in text


def test_page_shows_copies_and_beside_them_a_plan_without(fork_problem: Problem, tmp_path: Path):
    html, text = page(weft.schedule(fork_problem, "deft"), tmp_path)
    assert "47.6 % shorter than the plan of heft (21 s)" in text
    assert "| executions beyond the first | 1 | 0 |" in text
    assert '"copy 1"' in html


def test_page_of_a_plan_that_takes_no_time(tmp_path: Path):
    problem = Problem(TaskGraph([0.0]), Cluster.uniform([DeviceClass("cpu")], [1]))
    _, text = page(weft.schedule(problem), tmp_path, noise=0.3, whatif=["each"])
    assert "The makespan is 0 s." in text
    assert "Nothing: the plan takes no time." in text


def test_page_names_slots_memory_and_cost_where_they_are_stated(tmp_path: Path):
    graph = TaskGraph([2.0, 2.0], memory=[1e9, 2e9])
    node = DeviceClass("node", slots=2, memory=4e9, price=3600.0)
    _, text = page(weft.schedule(Problem(graph, Cluster.uniform([node], [1]))), tmp_path)
    assert "| device | slots | tasks | busy \\[%\\] | idle \\[s\\] | peak memory | cost |" in text
    assert "| node-0 | 2 | 2 | 100.0 | 0 | 3 GB | 2 |" in text


def test_page_of_many_devices_has_a_row_per_class(tmp_path: Path):
    _, text = page(many_tasks(90, devices=45), tmp_path)
    devices = text.split("## ")[1]
    assert "| d | 45 | 90 |" in devices and "d-44" not in devices


def test_page_of_an_invalid_plan_says_so_first_and_judges_nothing(fork_problem: Problem, tmp_path: Path):
    late = Schedule(fork_problem, [0, 1, 2], [0, 0, 1], [0.0, 1.0, 50.0], [1.0, 11.0, 60.0])
    found = weft.report(late, tmp_path / "plan.html", noise=0.3)
    assert found.valid is False and found.to_dict()["valid"] is False
    assert found.headline[0].startswith(
        "NOT VALID: the validator found 1 violation. The first: precedence (right"
    )
    text = (tmp_path / "plan.md").read_text("utf-8")
    assert "above the optimum" not in text and "## Against" not in text and "## Violations" in text


def test_page_of_times_that_are_no_numbers_is_written_without_a_chart(fork_problem: Problem, tmp_path: Path):
    broken = Schedule(fork_problem, [0, 1, 2], [0, 0, 1], [0.0, 1.0, np.nan], [1.0, 11.0, 60.0])
    html, _ = page(broken, tmp_path)
    assert "NOT VALID" in html and 'class="gantt-host"' not in html


def test_names_from_files_are_escaped_everywhere(tmp_path: Path):
    builder = GraphBuilder(HOSTILE)
    builder.task(HOSTILE, 1.0, kind=HOSTILE)
    builder.task("b", 2.0, after={HOSTILE: 3.0})
    problem = Problem(builder.build(), Cluster.uniform([DeviceClass("<script>")], [2], bandwidth=1.0))
    html, text = page(weft.schedule(problem, "deft"), tmp_path, noise=0.3, whatif=["each"])
    assert "<img" not in html and "<script>window" not in html
    assert not any("<img" in part or "<script>" in part for part in text.split("```")[::2])


# -- questions ------------------------------------------------------------------------------------


def test_page_answers_what_was_asked(queued: Schedule, tmp_path: Path):
    asked = {"whatif": ["add:cpu=1", "speed:cpu=x2", "each"], "noise": 0.3, "pareto": True}
    _, text = page(queued, tmp_path, **asked)
    assert "| +1 cpu, cpu x2 | 3 |" in text
    assert "50 replays with log-normal run times" in text
    assert "The cluster states no prices, so there is nothing to trade." in text
    assert "If run times vary by 30.0 %, half of the runs take more than" in text


def test_page_compares_cost_where_prices_are_stated(tmp_path: Path):
    classes = [DeviceClass("slow", price=1.0), DeviceClass("fast", speed=4.0, price=100.0)]
    problem = Problem(generate("layered", 20, knobs=Knobs(ccr=0.1)), Cluster.uniform(classes, [2, 1]))
    _, text = page(weft.schedule(problem), tmp_path, pareto=True)
    assert "plans by heft, peft, cpop, deft on all parts of the cluster" in text
    assert "| **this plan** | **all** |" in text


def test_planner_of_whatif_is_never_loaded_from_the_name_in_a_file(queued: Schedule, tmp_path: Path):
    path = tmp_path / "plan.json"
    write_schedule(queued, path, scheduler="evil.py:Evil", seed=0, seconds=0.0)
    weft.report(path, tmp_path / "r.md", problem=queued.problem, whatif=["add:cpu=1"])
    assert "Every row is planned anew by heft" in (tmp_path / "r.md").read_text("utf-8")


@pytest.mark.parametrize(
    "text", ["add=1", "add:cpu", "bandwidth:wide", "speed:cpu=2", "more", "each:cpu", ""]
)
def test_change_that_means_nothing_is_refused(queued: Schedule, text: str):
    with pytest.raises(InputError, match=r"^whatif: expected "):
        weft.report(queued, whatif=text)


# -- sources --------------------------------------------------------------------------------------


def test_plan_file_brings_the_bound_that_a_solver_proved(fork_problem: Problem, tmp_path: Path):
    path = tmp_path / "plan.json"
    plan = weft.schedule(fork_problem, "heft").schedule
    write_schedule(plan, path, scheduler="exact", seed=3, seconds=0.5)
    document = json.loads(path.read_text())
    document |= {"lower_bound": 20.0, "bound_by": "cp-sat", "bound_copies": False}
    path.write_text(json.dumps(document))
    found = read_plan(path, fork_problem)
    assert (found.scheduler, found.seed, found.seconds) == ("exact", 3, 0.5)
    assert found.schedule.bound == weft.Bound(20.0, "cp-sat, as plan.json states", copies=False)


@pytest.mark.parametrize("wrong", [{"lower_bound": 30.0}, {"makespan": 20.5}, {"lower_bound": "20"}])
def test_bound_that_cannot_be_of_this_plan_is_left_aside(
    fork_problem: Problem, tmp_path: Path, wrong: dict[str, object]
):
    path = tmp_path / "plan.json"
    write_schedule(weft.schedule(fork_problem, "heft"), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"lower_bound": 20.0} | wrong))
    assert read_plan(path, fork_problem).schedule.bound.value == 11.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"placements": []}', True),
        ('{"schema": "weft/schedule/1", "placements": []}', True),
        ('{"schema": "weft/compare/1", "placements": []}', False),
        ('{"tasks": [{"id": "placements"}]}', False),
        ('{"placements": [', False),
        ("", False),
    ],
)
def test_schedule_files_are_known_by_their_content(tmp_path: Path, text: str, expected: bool):
    (tmp_path / "file.json").write_text(text)
    assert is_schedule(tmp_path / "file.json") is expected


@pytest.mark.parametrize(
    ("sources", "asked", "message"),
    [
        (["plan.json"], {}, "plan.json: problem: a schedule file does not hold its problem"),
        (["plan.json", "sweep"], {}, "plan.json: expected one schedule and nothing beside it, got sweep too"),
        (["nowhere"], {"noise": 0.3}, "noise: is about one plan: give a schedule"),
        (["nowhere"], {"whatif": ["each"]}, "whatif: is about one plan: give a schedule"),
    ],
)
def test_report_refuses_what_does_not_go_together(
    queued: Schedule,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sources: list[str],
    asked: dict[str, object],
    message: str,
):
    monkeypatch.chdir(tmp_path)
    write_schedule(queued, "plan.json")
    with pytest.raises(InputError, match=message):
        weft.report(sources, **asked)


@pytest.mark.parametrize("field", ["subject", "instance", "claims"])
def test_plan_takes_no_options_of_sweeps(queued: Schedule, field: str):
    with pytest.raises(InputError, match=f"^{field}: is about sweeps and runs"):
        weft.report(queued, **{field: "x"})


def test_unknown_baseline_is_refused(queued: Schedule, tmp_path: Path):
    with pytest.raises(InputError, match="no planner 'hefd'; did you mean 'heft'"):
        weft.report(queued, tmp_path / "plan.html", baseline="hefd")


# -- sizes ----------------------------------------------------------------------------------------


def test_chart_keeps_the_longest_bars_and_the_busiest_devices_and_says_so():
    plan = many_tasks(MOST_BARS + 10)
    drawn = chart({"a": plan})
    assert drawn.caption == "The 30,000 longest of 30,010 bars are drawn."
    assert len(drawn.panels[0].start) == len(drawn.panels[0].names) == MOST_BARS
    wide = chart({"a": many_tasks(MOST_LANES + 5, devices=MOST_LANES + 5), "b": many_tasks(3)})
    assert wide.caption == "Of a, the 300 busiest of 305 devices are drawn."
    assert len(wide.panels[0].lanes) == MOST_LANES and wide.panels[0].lane.max() == MOST_LANES - 1


def test_long_names_are_cut_in_charts():
    problem = Problem(TaskGraph([1.0], names=["x" * 500]), Cluster.uniform([DeviceClass("cpu")], [1]))
    assert chart({"a": weft.schedule(problem).schedule}).panels[0].names == ("x" * 59 + "…",)


@pytest.mark.slow
def test_page_of_thirty_thousand_tasks_stays_small_and_says_what_it_leaves_out(tmp_path: Path):
    problem = Problem(generate("layered", 30_000, seed=1), weft.read_cluster("gpu-mix-8"))
    html, text = page(weft.schedule(problem, "cpop"), tmp_path)
    assert len(html) < 5e6
    assert "The plan of heft is left out: there are more than 30,000 bars." in html
    assert "Left out: there are 30,000, more than 10,000." in text
