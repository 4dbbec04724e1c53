"""Every verb: what it prints for a person and for a program, and its exit code."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command_line import Weft

from weft import doctor
from weft.catalog import PLANNERS
from weft.cli import output
from weft.cli.options import parse_duration, split_names

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = str(ROOT / "examples" / "pipeline.json")
CLUSTER = str(ROOT / "examples" / "cluster.toml")
ON_CLUSTER = (PIPELINE, "--cluster", CLUSTER)


@pytest.fixture
def saved(weft: Weft, tmp_path: Path) -> Path:
    """A schedule file of the example."""
    weft("schedule", *ON_CLUSTER, "--out", "saved.json")
    return tmp_path / "saved.json"


HEAD = {"schema", "weft", "seed"}
JSON_KEYS = [
    (
        ("schedule", *ON_CLUSTER),
        "scheduler makespan lower_bound bound_by gap_percent seconds valid time_unit placements",
    ),
    (("compare", *ON_CLUSTER, "-s", "heft,cpop"), "rows skipped standings command"),
    (("explain", *ON_CLUSTER[:1], "mosaic", *ON_CLUSTER[1:]), "scheduler task explanation text"),
    (("gantt", *ON_CLUSTER), "out charts text"),
    (("generate", "layered", "-n", "20", "-o", "g.json"), "family out name tasks edges lost"),
    (("convert", PIPELINE, "p.dot"), "source out name tasks edges lost"),
    (("init",), "out machine"),
    (("calibrate", "--workers", "1", "--budget", "1s"), "on out cluster workers calibration"),
    (("schedulers",), "schedulers"),
    (("doctor",), "versions extras cache cpus threads warmed"),
]


@pytest.mark.parametrize(("words", "keys"), JSON_KEYS, ids=[words[0] for words, _ in JSON_KEYS])
def test_json_has_the_documented_keys(weft: Weft, words: tuple[str, ...], keys: str) -> None:
    ran = weft(*words, "--json")
    assert ran.code == 0
    assert set(ran.json) >= HEAD | set(keys.split())


def test_schedule_json_places_every_task_on_a_named_device(weft: Weft) -> None:
    found = weft("schedule", *ON_CLUSTER, "--seed", "3", "--json").json
    assert found["schema"] == "weft/schedule/1"
    assert found["seed"] == 3
    assert found["valid"] is True
    assert found["makespan"] >= found["lower_bound"] > 0
    first = found["placements"][0]
    assert set(first) >= {"job", "task", "copy", "device", "start", "finish"}
    assert re.fullmatch(r"(gpu|cpu)-\d", first["device"])
    assert len({row["task"] for row in found["placements"]}) == 37


def test_schedule_summary_says_the_gap_in_words(weft: Weft) -> None:
    ran = weft("schedule", *ON_CLUSTER)
    assert ran.code == 0
    assert "above the optimum (bound" in ran.out
    assert "gpu" in ran.out
    assert "next: weft compare" in ran.err


def test_schedule_uses_the_machines_of_the_file_without_a_cluster(weft: Weft) -> None:
    found = weft("schedule", PIPELINE, "--json").json
    assert found["valid"] is True
    assert len({row["device"] for row in found["placements"]}) == 3


def test_schedule_no_copies_runs_every_task_once(weft: Weft) -> None:
    found = weft("schedule", *ON_CLUSTER, "--ccr", "5", "--no-copies", "--json").json
    assert len(found["placements"]) == 37


def test_schedule_ccr_lengthens_the_makespan(weft: Weft) -> None:
    low = weft("schedule", *ON_CLUSTER, "--ccr", "0.01", "--json").json["makespan"]
    assert weft("schedule", *ON_CLUSTER, "--ccr", "10", "--json").json["makespan"] > low


def test_schedule_effort_repeats_exactly(weft: Weft) -> None:
    words = ("schedule", *ON_CLUSTER, "--scheduler", "perturbed", "--effort", "20", "--json")
    assert weft(*words).json["placements"] == weft(*words).json["placements"]


def test_schedule_budget_says_it_is_not_repeatable(weft: Weft) -> None:
    ran = weft("schedule", *ON_CLUSTER, "--scheduler", "perturbed", "--budget", "20ms")
    assert "not repeatable" in ran.out


def test_schedule_writes_a_schedule_that_validate_accepts(weft: Weft, saved: Path) -> None:
    ran = weft("validate", *ON_CLUSTER[:1], str(saved), *ON_CLUSTER[1:])
    assert ran.code == 0
    assert ran.out.startswith("valid: 37 placements")


def test_schedule_draws_the_gantt_chart(weft: Weft, tmp_path: Path) -> None:
    weft("schedule", *ON_CLUSTER, "--gantt", "chart.svg")
    assert "<svg" in (tmp_path / "chart.svg").read_text()


def test_compare_marks_the_shortest_and_measures_against_heft(weft: Weft) -> None:
    rows = weft("compare", *ON_CLUSTER, "--schedulers", "heft,random", "--json").json["rows"]
    assert [row["scheduler"] for row in rows] == ["heft", "random"]
    assert rows[0]["vs_heft_percent"] == 0.0
    assert rows[1]["vs_heft_percent"] > 0.0
    assert [row["best"] for row in rows] == [True, False]
    assert {"file", "scheduler", "makespan", "lower_bound", "gap_percent", "seconds", "valid"} <= set(rows[0])


def test_compare_measures_against_heft_also_when_it_is_not_listed(weft: Weft) -> None:
    (row,) = weft("compare", *ON_CLUSTER, "--schedulers", "random", "--json").json["rows"]
    assert row["vs_heft_percent"] > 0.0


def test_compare_lists_unsupported_schedulers_with_the_reason(weft: Weft) -> None:
    words = ("compare", *ON_CLUSTER, "--no-copies", "-s", "heft", "-s", "deft")
    found = weft(*words, "--json").json
    assert [row["scheduler"] for row in found["rows"]] == ["heft"]
    assert found["skipped"][0]["scheduler"] == "deft"
    assert "copies" in found["skipped"][0]["reason"]
    assert "deft left out: " in weft(*words).out


def test_compare_table_marks_the_winner(weft: Weft) -> None:
    out = weft("compare", *ON_CLUSTER, "--schedulers", "heft,random").out
    assert re.search(r"^\s*\*\s+heft\s", out, re.MULTILINE)
    assert "37 tasks on 6 devices" in out


def test_compare_marks_makespans_that_differ_by_rounding_only() -> None:
    from weft.evaluation.comparing import Row, _judged

    rows = [Row("f", "a", m, 1.0, "area", 0.0, None, 0, 0.0, True, "s") for m in (0.3, 0.1 + 0.2, 0.31)]
    assert [row.best for row in _judged(rows, None)] == [True, True, False]


def test_next_command_asks_about_the_same_problem(beside_examples: Weft, tmp_path: Path) -> None:
    shutil.copy(PIPELINE, tmp_path / "my flow.json")
    words = ("my flow.json", "--cluster", "gpu-mix-8", "--ccr", "2", "--no-copies", "--seed", "3")
    for verb in ("schedule", "compare"):
        ran = beside_examples(verb, *words, *(("-s", "heft") if verb == "compare" else ()))
        _, _, command = ran.err.partition("next: ")
        assert shlex.split(command)[2 : 2 + len(words)] == list(words)


def test_next_command_quotes_a_file_that_was_made(weft: Weft) -> None:
    ran = weft("generate", "chain", "--size", "3", "--out", "my chain.json")
    assert ran.err == "next: weft schedule 'my chain.json' --cluster gpu-mix-8\n"


def test_chart_that_cannot_be_drawn_is_refused_before_planning(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.cli.plan.load", pytest.fail)
    for words, option in ((("schedule", "--gantt"), "--gantt"), (("gantt", "--out"), "--out")):
        ran = weft(words[0], *ON_CLUSTER, words[1], "plan.gif")
        assert (ran.code, ran.err) == (
            2,
            f"weft: {option}: expected a path that ends in .png, .svg or .html, got 'plan.gif'\n",
        )


def test_help_names_every_verb_in_whole_sentences(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "..." not in weft("--help").out.partition("Commands:")[2]


def test_table_keeps_words_whole_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    monkeypatch.setattr(output, "console", lambda: Console(width=30, markup=False))
    numeric = ("makespan [s]", "above bound", "busy")
    table = output.table(["scheduler", *numeric], numeric, "a title that is longer than the table")
    table.add_row("lookahead", "197.362", "25.4 %", "45.1 %")
    output.show(table, spare=("busy",))
    assert capsys.readouterr().out.splitlines() == [
        "a title that is longer than the table",
        "",
        "            makespan   above",
        " scheduler       [s]   bound",
        " ────────────────────────────",
        " lookahead   197.362  25.4 %",
        "  left out in 30 columns: busy (--json has them)",
    ]


def test_compare_takes_several_files(weft: Weft) -> None:
    weft("generate", "chain", "--size", "5", "--out", "chain.json")
    rows = weft("compare", PIPELINE, "chain.json", "-c", CLUSTER, "-s", "heft", "--json").json["rows"]
    assert [row["file"] for row in rows] == [PIPELINE, "chain.json"]


def test_validate_exits_1_and_names_the_broken_rule(weft: Weft, saved: Path) -> None:
    content = json.loads(saved.read_text())
    content["placements"][-1]["start"] = 0.0
    saved.write_text(json.dumps(content))
    ran = weft("validate", PIPELINE, str(saved), "--cluster", CLUSTER, "--json")
    assert ran.code == 1
    assert ran.json["valid"] is False
    assert {"rule", "task", "device", "detail"} == set(ran.json["violations"][0])
    assert "not valid" in weft("validate", PIPELINE, str(saved), "--cluster", CLUSTER).out


def test_explain_names_the_task(weft: Weft) -> None:
    assert "mosaic" in weft("explain", PIPELINE, "mosaic", "--cluster", CLUSTER).out


def test_explain_reads_a_schedule_file(weft: Weft, saved: Path) -> None:
    ran = weft("explain", PIPELINE, "mosaic", "--cluster", CLUSTER, "--schedule", str(saved))
    assert ran.out == weft("explain", PIPELINE, "mosaic", "--cluster", CLUSTER).out


def test_gantt_shows_devices_in_the_terminal(weft: Weft) -> None:
    out = weft("gantt", *ON_CLUSTER, "--width", "100").out
    assert "gpu-0" in out
    assert "cpu-3" in out


def test_gantt_draws_a_given_schedule(weft: Weft, saved: Path, tmp_path: Path) -> None:
    ran = weft("gantt", PIPELINE, str(saved), "--cluster", CLUSTER, "--out", "chart.png")
    assert ran.out == "wrote chart.png\n"
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_gantt_draws_several_schedulers_together(weft: Weft, tmp_path: Path) -> None:
    found = weft("gantt", *ON_CLUSTER, "-s", "heft,cpop", "--out", "both.svg", "--json").json
    assert [chart["title"] for chart in found["charts"]] == ["heft", "cpop"]
    assert (tmp_path / "both.svg").exists()


def test_generate_repeats_for_the_same_seed(weft: Weft, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        weft("generate", "fork-join", "--size", "30", "--seed", "5", "--parallelism", "2", "--out", name)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_generate_reaches_the_ccr_on_a_cluster(weft: Weft, tmp_path: Path) -> None:
    from weft.io.files import load_problem

    weft("generate", "layered", "-n", "40", "--ccr", "2.5", "--cluster", CLUSTER, "-o", "g.json")
    assert load_problem(tmp_path / "g.json", CLUSTER).ccr == pytest.approx(2.5)


@pytest.mark.parametrize("name", ["p.dot", "p.toml", "p.stg", "p.json"])
def test_convert_keeps_the_tasks(weft: Weft, name: str) -> None:
    found = weft("convert", PIPELINE, name, "--json").json
    again = weft("convert", name, "again.json", "--to", "json", "--json").json
    assert again["tasks"] == found["tasks"] == 37
    assert again["edges"] == found["edges"]


def test_init_writes_a_cluster_that_schedules(weft: Weft, tmp_path: Path) -> None:
    assert weft("init").code == 0
    assert (tmp_path / "cluster.toml").exists()
    assert weft("schedule", PIPELINE, "--cluster", "cluster.toml", "--json").json["valid"] is True


def test_init_replaces_a_file_only_when_forced(weft: Weft, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("mine")
    assert weft("init", "--out", "mine.toml").code == 2
    assert mine.read_text() == "mine"
    assert weft("init", "--out", "mine.toml", "--force").code == 0
    assert mine.read_text() != "mine"


def test_schedulers_lists_every_planner(weft: Weft) -> None:
    out = weft("schedulers").out
    assert all(name in out for name in PLANNERS)
    assert "plan:NAME" in out and "NAME+wait" in out


def test_schedulers_lists_a_dispatcher_once_with_its_views(weft: Weft) -> None:
    rows = weft("schedulers", "--json").json["schedulers"]
    views = [(row["name"], row["acts_on"]) for row in rows if row["role"] == "dispatcher"]
    assert len(dict(views)) == len(views)
    assert {"fifo": ["queues", "tasks"], "mru": ["queues"], "priced": ["tasks"]}.items() <= dict(
        views
    ).items()


def test_doctor_names_the_pip_line_of_a_missing_extra(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.doctor.version_of", lambda package: None)
    said = weft("doctor").out
    assert "pip install 'weft[plot]'" in said
    assert "pip install 'weft[rl]'" in said and "pip install 'weft[tensorboard]'" in said
    assert "in a checkout: '.[plot]' in place of 'weft[plot]'" in said


def test_doctor_compile_warms_every_planner_without_extras(weft: Weft) -> None:
    found = weft("doctor", "--compile", "--json").json
    assert {"heft", "cpop", "peft", "oneshot", "fifo", "priced", "plan:heft", "ppo"} <= set(found["warmed"])
    assert found["cache"]["compiled"] is True


def test_doctor_compile_reaches_the_kernels_of_every_search() -> None:
    from weft.sim.timeline import local_search as search
    from weft.sim.timeline import tabu

    doctor.warm()
    for kernel in (search.search_devices, search.search_lists, tabu.search):
        assert kernel.signatures, kernel.__name__


def test_init_counts_equal_gpus_and_names_their_class() -> None:
    answer = "NVIDIA A100-SXM4-40GB, 40960\nNVIDIA A100-SXM4-40GB, 40960\nTesla T4, 15360\n[N/A], [N/A]\n"
    gpus = doctor.parse_gpus(answer)
    assert [(gpu.model, gpu.count) for gpu in gpus] == [("NVIDIA A100-SXM4-40GB", 2), ("Tesla T4", 1)]
    text = doctor.cluster_text(doctor.Machine("host", 8, 16e9, gpus))
    read = tomllib.loads(text)["node"][0]["device"]
    assert [device["class"] for device in read] == ["cpu", "a100-sxm4-40gb", "t4"]


def test_example_graph_schedules(weft: Weft) -> None:
    graph = str(ROOT / "examples" / "graph.toml")
    assert weft("schedule", graph, "--cluster", CLUSTER, "--json").json["valid"] is True


def _blocks(language: str, page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def _without_timings(text: str) -> str:
    """The text with planning times, and the blanks that align columns, evened out."""
    unit = r"[\d.e-]+ (us|ms|s|min)"
    text = re.sub(rf"(?<= in ){unit}$|{unit}(?= +valid)", "TIME", text.strip(), flags=re.MULTILINE)
    return re.sub(r"[ ─]+", " ", text)


@pytest.fixture
def beside_examples(weft: Weft, tmp_path: Path) -> Weft:
    """The command line in a folder with a copy of the examples."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return weft


@pytest.mark.parametrize(
    ("page", "start"), [("README.md", "heft: makespan "), ("docs/start.md", "heft 197.7")]
)
@pytest.mark.usefixtures("beside_examples")
def test_python_block_of_the_docs_prints_a_result(
    page: str, start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(_blocks("python", page)[0], page, "exec"), {"__name__": "docs"})
    assert capsys.readouterr().out.startswith(start)


@pytest.mark.parametrize("number", range(4))
def test_start_page_shows_what_its_commands_print(beside_examples: Weft, number: int) -> None:
    command = _blocks("sh", "docs/start.md")[1:][number]
    shown = _blocks("text", "docs/start.md")[number]
    ran = beside_examples(*shlex.split(command)[1:])
    assert ran.code == 0
    assert _without_timings(ran.out) == _without_timings(shown)


def test_readme_lists_every_verb(weft: Weft) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    verbs = re.findall(r"^  ([a-z]+) {2,}", weft("--help").out.partition("Commands:")[2], re.MULTILINE)
    assert verbs
    assert [verb for verb in verbs if f"`weft {verb}" not in readme] == []


def test_version_is_printed(weft: Weft) -> None:
    assert re.fullmatch(r"weft \d+\.\d+\.\d+\n", weft("--version").out)


def test_no_arguments_print_the_help(weft: Weft) -> None:
    ran = weft()
    assert ran.code == 0
    assert ran.out.startswith("Usage: weft")


def test_json_is_the_same_whatever_the_hash_seed() -> None:
    command = [sys.executable, "-m", "weft.cli", "schedule", *ON_CLUSTER, "-s", "deft", "--json"]
    outs = []
    for hash_seed in ("1", "2"):
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        outs.append(json.loads(ran.stdout) | {"seconds": None})
    assert outs[0] == outs[1]


def test_closed_pipe_ends_quietly() -> None:
    line = f"{shlex.quote(sys.executable)} -m weft.cli schedulers | true"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2s", 2.0), ("500ms", 0.5), ("1m", 60.0), ("1.5", 1.5), ("0.5 h", 1800.0), (None, None)],
)
def test_duration_parses(text: str | None, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


def test_names_split_at_commas_without_doubles() -> None:
    assert split_names(["heft, cpop", "heft", ""]) == ["heft", "cpop"]


def test_json_never_holds_nan() -> None:
    found = output.finite({"a": float("nan"), "b": [float("inf"), (1.0,)], "c": "x"})
    assert found == {"a": None, "b": [None, [1.0]], "c": "x"}


def test_long_work_is_announced_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    told = threading.Event()
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    monkeypatch.setattr(output, "note", lambda text: (print(text, file=sys.stderr), told.set()))
    with output.progress("counting"):
        assert told.wait(30)
    assert capsys.readouterr().err == "weft: counting ...\n"


def test_schedule_json_says_what_the_bound_holds_for_and_whether_it_repeats(weft: Weft):
    shown = weft("schedule", *ON_CLUSTER, "--scheduler", "search", "--effort", "20", "--json").json
    assert (shown["bound_copies"], shown["repeatable"]) == (True, True)
    assert isinstance(shown["note"], str)


@pytest.mark.parametrize(
    "words",
    [
        ("schedule", *ON_CLUSTER, "--out", "none/x.json"),
        ("schedule", *ON_CLUSTER, "--gantt", "none/x.png"),
        ("gantt", *ON_CLUSTER, "--out", "none/x.png"),
        ("pareto", *ON_CLUSTER, "--plot", "none/x.png"),
        ("bench", "taillard", "--out", "none/x.jsonl"),
    ],
)
def test_output_in_a_folder_that_is_not_there_is_refused_before_planning(
    words: tuple[str, ...], weft: Weft, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("weft.catalog.schedule", pytest.fail)
    ran = weft(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"weft: {words[-1]}: cannot be written: no such folder\n"


def test_compare_of_several_files_ends_with_one_table(weft: Weft) -> None:
    out = weft("compare", PIPELINE, PIPELINE, "-c", CLUSTER, "-s", "random,heft").out
    assert "all 2 files" in out
    assert out.splitlines()[-3].split()[:5] == ["*", "heft", "2", "2", "1"]
    assert "all " not in weft("compare", PIPELINE, "-c", CLUSTER, "-s", "random,heft").out


def test_compare_reads_all_files_before_planning(weft: Weft, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("weft.catalog.schedule", pytest.fail)
    ran = weft("compare", PIPELINE, "none.json", "--cluster", CLUSTER)
    assert (ran.code, ran.err) == (2, "weft: none.json: no such file\n")


def test_module_stands_for_the_command():
    ran = subprocess.run([sys.executable, "-m", "weft", "--version"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout[:5]) == (0, "weft ")
