"""The verbs evaluate, scenarios and recipes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from weft.cli import evaluate as evidence
from weft.errors import InputError
from weft.io.files import write_problem
from weft.model.problem import Problem
from weft.scenarios import recipe_names, recipe_text

SMALL = ["--set", "tasks=8", "--problems", "3", "-s", "heft,random"]


def weft(*words: str) -> Result:
    app = typer.Typer()
    for verb in (evidence.evaluate, evidence.scenarios, evidence.recipes):
        app.command()(verb)
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def test_evaluate_prints_a_table_with_the_best_marked_and_a_verdict():
    done = weft("evaluate", "workflows", *SMALL)
    lines = done.stdout.splitlines()
    assert done.exit_code == 0
    assert lines[0] == "workflows, tasks=8: 3 test problems, times in s"
    assert any(line.split()[:2] == ["*", "heft"] and line.endswith("baseline") for line in lines)
    assert "no verdict (" in done.stdout
    assert "3 problems are too few for a verdict; at least 6 are needed (--problems 6)" in done.stdout
    assert "heft has the lowest makespan by ratios to random, the next best" in done.stdout


def test_evaluate_of_edge_clusters_prints_the_no_contention_bound():
    done = weft(
        "evaluate", "edge-multi-3", "-s", "static-10,min", "--set", "tasks=20", "--seeds", "2", "--json"
    )
    rows = json.loads(done.stdout)["rows"]
    bound = sum(row["lower_bound"] for row in rows) / len(rows)
    shown = weft(
        "evaluate", "edge-multi-3", "-s", "static-10,min", "--set", "tasks=20", "--seeds", "2"
    ).stdout
    assert f"no-contention bound: {bound:g} steps, the mean if every task had a cluster of its own" in shown


def test_evaluate_of_one_problem_says_problem():
    done = weft("evaluate", "workflows", *SMALL, "--problems", "1")
    assert done.stdout.splitlines()[0] == "workflows, tasks=8: 1 test problem, times in s"


def test_evaluate_of_a_stream_of_workflows_takes_one_problem_and_many_seeds():
    words = ["--set", "load=0.8", "--set", "jobs=3", "--set", "tasks=8", "-s", "fifo,srw", "--seeds", "3"]
    done = weft("evaluate", "workflows", *words)
    assert done.exit_code == 0
    title, header = done.stdout.splitlines()[:3:2]
    assert title == "workflows, tasks=8, load=0.8, jobs=3: 3 test seeds, times in s"
    assert "batch fill" not in header
    assert all(word in header for word in ("mean job time", "99th percentile", "against srw"))
    assert "What it costs: " in done.stdout or "nobody is ahead" in done.stdout


def test_evaluate_sweeps_with_one_table_per_cell():
    done = weft("evaluate", "workflows", *SMALL, "--set", "ccr=[0.5, 2]")
    assert "workflows, ccr=0.5, tasks=8: 3 test problems" in done.stdout
    assert "workflows, ccr=2, tasks=8: 3 test problems" in done.stdout


def test_evaluate_json_has_rows_summary_and_comparisons():
    found = json.loads(weft("evaluate", "workflows", *SMALL, "--seeds", "2", "--json").stdout)
    assert (found["schema"], found["seed"]) == ("weft/evaluate/1", 0)
    assert len(found["rows"]) == 3 * 2 * 2
    assert found["rows"][0].keys() >= {"scheduler", "problem", "seed", "makespan", "slr", "seconds", "valid"}
    assert found["summary"][0].keys() >= {"scheduler", "metric", "mean", "se", "low", "high"}
    (one,) = found["comparisons"]
    assert (one["scheduler"], one["verdict"], one["least_n"]) == ("random", "too few samples", 6)
    assert found["winner"]["scheduler"] == "heft"


def test_evaluate_prints_aggregates_where_asked_and_always_in_json():
    asked = ("evaluate", "workflows", "-s", "heft,deft", "--problems", "4", "--set", "tasks=8")
    printed = weft(*asked, "--aggregates").stdout
    assert "over all points, against heft" in printed and "interquartile mean" in printed
    assert "interquartile mean" not in weft(*asked).stdout
    (base, other) = json.loads(weft(*asked, "--json").stdout)["aggregates"]
    assert (base["scheduler"], base["against"], base["num_samples"]) == ("heft", None, 4)
    found = other["against"]["iqm_percent"]
    assert found["low"] <= found["value"] <= found["high"]
    assert list(other["within"]) == ["0", "1", "5", "10", "25"]


def test_evaluate_takes_the_schedulers_of_the_scenario():
    words = ["--set", "jobs=2", "--set", "machines=2", "--problems", "1", "--effort", "2", "--json"]
    found = json.loads(weft("evaluate", "jobshop", *words).stdout)
    assert [row["scheduler"] for row in found["rows"]] == ["heft", "cpop", "min-min", "perturbed", "random"]


def test_evaluate_takes_files(tmp_path: Path, fork_problem: Problem):
    names = [str(tmp_path / name) for name in ("a.json", "b.json")]
    for name in names:
        write_problem(fork_problem, name)
    found = json.loads(weft("evaluate", *names, "-s", "heft,deft", "--json").stdout)
    assert [row["problem"] for row in found["rows"]] == [names[0], names[0], names[1], names[1]]
    assert [row["makespan"] for row in found["rows"]] == [21.0, 11.0, 21.0, 11.0]


def test_evaluate_takes_a_recipe_that_was_shown(tmp_path: Path):
    (tmp_path / "mine.toml").write_text(weft("recipes", "--show", "workflows").stdout, "utf-8")
    assert weft("evaluate", str(tmp_path / "mine.toml"), *SMALL).exit_code == 0


def test_evaluate_resumes_what_is_in_the_folder(tmp_path: Path):
    words = ["evaluate", "workflows", *SMALL, "--out", str(tmp_path / "sweep"), "--json"]
    assert weft(*words).stdout == weft(*words).stdout


def test_evaluate_ends_with_1_where_a_schedule_breaks_a_rule(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "weft.evaluation.sweep.plan_runs.fault_of", lambda schedule: "slots (t0, cpu-0): too many"
    )
    done = weft("evaluate", "workflows", *SMALL)
    assert done.exit_code == 1
    assert "NOT VALID: heft on test/0, seed 0: slots (t0, cpu-0): too many" in done.stderr
    assert "6 of 6 schedules break a rule" in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["workflow"], "no scenario 'workflow'; did you mean 'workflows'"),
        (["workflows", "--set", "crr=1"], "no setting 'crr'; did you mean 'ccr'"),
        (["workflows", "-s", "hef"], "no planner 'hef'; did you mean 'heft'"),
        (["workflows", "a.json"], "expected one scenario or several files"),
        (["nothing.json"], "nothing.json"),
        (["jobshop", "--cluster", "laptop"], "scenario jobshop brings its own machines"),
        (["workflows", "--baseline", "tabu"], "baseline: expected one of heft"),
    ],
)
def test_evaluate_with_a_mistake_says_what_is_wrong(words: list[str], text: str):
    with pytest.raises(InputError) as caught:
        weft("evaluate", *words)
    assert text in str(caught.value)


def test_evaluate_of_files_has_no_training_split(tmp_path: Path, fork_problem: Problem):
    write_problem(fork_problem, tmp_path / "a.json")
    with pytest.raises(InputError, match="split: scenario files has no train problems"):
        weft("evaluate", str(tmp_path / "a.json"), "--split", "train")


def test_scenarios_lists_all_with_their_settings():
    found = json.loads(weft("scenarios", "--json").stdout)
    assert [one["name"] for one in found["scenarios"]] == list(recipe_names())
    assert all(setting["doc"] for one in found["scenarios"] for setting in one["settings"])
    assert all(name in weft("scenarios").stdout for name in recipe_names())


def test_every_scenario_is_in_the_docs():
    text = (Path(__file__).parents[1] / "docs" / "evaluate.md").read_text("utf-8")
    table = text.partition("## Scenarios")[2].partition("\n\nWorkflow and problem files")[0]
    assert [name for name in recipe_names() if f"`{name}`" not in table] == []


def test_recipes_lists_and_shows():
    assert all(name in weft("recipes").stdout for name in recipe_names())
    assert weft("recipes", "--show", "jobshop").stdout == recipe_text("jobshop")
    assert json.loads(weft("recipes", "--show", "tpch", "--json").stdout)["text"] == recipe_text("tpch")


def test_evaluate_prints_no_interval_below_zero():
    words = ["--set", "tasks=[4, 40]", "--problems", "2", "-s", "heft,random"]
    found = json.loads(weft("evaluate", "workflows", *words, "--json").stdout)
    lows = [one["low"] for one in found["summary"] if one["metric"] in ("makespan", "slr")]
    assert min(lows) == 0.0
    assert min(one["low"] for one in found["summary"] if one["metric"] == "slr") >= 1.0


def test_files_that_keep_arriving_have_enough_seeds_for_a_verdict():
    """One seed would give no verdict."""
    words = ["-c", "examples/cluster.toml", "--set", "load=0.5", "--set", "jobs=3", "-s", "fifo,srw"]
    shown = weft("evaluate", "examples/pipeline.json", *words)
    assert shown.exit_code == 0
    assert ": 10 test seeds, times in s" in shown.stdout
    assert "no verdict" not in shown.stdout


def test_metric_that_is_not_used_is_named(tmp_path: Path):
    """A metric of plans does not judge a stream."""
    recipe = tmp_path / "mine.toml"
    recipe.write_text('extends = "workflows"\nmetric = "energy"\n', "utf-8")
    words = ["--set", "load=0.5", "--set", "jobs=3", "--set", "tasks=8", "-s", "fifo,srw"]
    shown = weft("evaluate", str(recipe), *words)
    assert "metric 'energy' of the recipe is not used" in shown.stderr
    assert (
        "is not used"
        not in weft("evaluate", "examples/stream.toml", "--set", "jobs=2", "--seeds", "1").stderr
    )
