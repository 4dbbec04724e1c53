"""The verbs whatif, pareto and bench, and ``schedule --noise``: text, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Weft

from weft.evaluation.sets import bench as benching
from weft.evaluation.sets.instances import NAMES

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = str(ROOT / "examples" / "pipeline.json")
ON_GPUS = (PIPELINE, "--cluster", "gpu-mix-8")
TWO = ("bench", "taillard", "--scheduler", "heft", "--instances", "ta01,ta11")


# -- whatif -----------------------------------------------------------------------------------------


def test_whatif_json_has_the_documented_rows(weft: Weft) -> None:
    found = weft("whatif", *ON_GPUS, "--add", "a100=1", "--remove", "t4=2", "--json").json
    assert found["schema"] == "weft/whatif/1"
    assert [row["change"] for row in found["rows"]] == ["as it is", "+1 a100", "-2 t4", "+1 a100, -2 t4"]
    keys = "change makespan makespan_change_percent cost energy utilisation lower_bound"
    assert all(set(row) >= set(keys.split()) for row in found["rows"])


def test_whatif_of_links_and_speeds_is_one_table(weft: Weft) -> None:
    asked = ("--bandwidth", "x2,40Gbit/s", "--speed", "a100=x1.5", "--latency", "0")
    rows = weft("whatif", *ON_GPUS, *asked, "--json").json["rows"]
    alone = ["bandwidth x2", "bandwidth 40Gbit/s", "latency 0", "a100 x1.5"]
    assert [row["change"] for row in rows[:5]] == ["as it is", *alone]
    assert rows[5]["change"] == "bandwidth x2, latency 0, a100 x1.5"
    assert len(rows) == 7
    assert rows[4]["makespan"] < rows[0]["makespan"]


def test_whatif_table_shows_changes_in_percent(weft: Weft) -> None:
    ran = weft("whatif", *ON_GPUS, "--add", "a100=1")
    assert ran.code == 0
    assert "+1 a100" in ran.out
    assert "-6.6 %" in ran.out
    assert "next: weft pareto" in ran.err


def test_whatif_says_that_prices_are_missing(weft: Weft) -> None:
    out = weft("whatif", PIPELINE, "--add", "station-1=1").out
    assert "the cluster gives no price: cost is 0 everywhere" in out
    assert "the cluster gives no watts: energy is 0 everywhere" in out


def test_whatif_each_tries_every_class(weft: Weft) -> None:
    rows = weft("whatif", *ON_GPUS, "--each", "--json").json["rows"]
    assert len(rows) == 9


BAD = [
    (("whatif", *ON_GPUS), 2, "--add: expected a change"),
    (("whatif", *ON_GPUS, "--add", "a100"), 2, "--add: expected CLASS=COUNT such as a100=1"),
    (("whatif", *ON_GPUS, "--bandwidth", "x0"), 2, "--bandwidth: expected a factor > 0 such as x2"),
    (("whatif", *ON_GPUS, "--bandwidth", "40Gb/s"), 2, "write GB/s for bytes or Gbit/s for bits"),
    (("whatif", *ON_GPUS, "--speed", "a100=2"), 2, "--speed: expected CLASS=xFACTOR such as a100=x1.5"),
    (("whatif", *ON_GPUS, "--speed", "a1000=x2"), 2, "--speed: with a1000 x2: no class 'a1000'"),
    (("whatif", *ON_GPUS, "--add", "a1000=1"), 2, "did you mean 'a100'?"),
    (("whatif", *ON_GPUS, "--remove", "t4=3"), 2, "cannot remove 3 of 't4': the cluster has 2"),
    (("whatif", *ON_GPUS, "--remove", "t4=2,p100=2,v100=2,a100=2"), 3, "no device is left"),
    (("whatif", *ON_GPUS, "--each", "--scheduler", "hefty"), 2, "no planner 'hefty'; did you mean 'heft'?"),
    (("pareto", *ON_GPUS, "--scheduler", "hefty"), 2, "no planner 'hefty'"),
    (("pareto", *ON_GPUS, "--most", "4", "--plot", "front.jpg"), 2, "ends in .png or .svg"),
    (("bench", "taylard"), 2, "no benchmark 'taylard'"),
    (("bench", "taillard", "--instances", "ta81"), 2, "no instance 'ta81' in taillard"),
    ((*TWO, "--groups", "9x9"), 2, "no group '9x9' among these instances (groups: 15x15, 20x15)"),
    ((*TWO, "--check", "some"), 2, "--check: expected auto or all, got 'some'"),
    ((*TWO, "--samples", "3", "--effort", "3"), 2, "give --samples or --effort, not both"),
    (("bench", "tpch"), 2, "tpch needs a folder"),
    (("bench", "taillard", "--scheduler", "hefty"), 2, "no planner 'hefty'"),
]


@pytest.mark.parametrize(("words", "code", "text"), BAD)
def test_bad_questions_get_one_line(weft: Weft, words: tuple[str, ...], code: int, text: str) -> None:
    ran = weft(*words)
    assert ran.code == code
    assert text in ran.err.splitlines()[-1]
    assert ran.out == ""


def test_whatif_with_a_bandwidth_beyond_numbers_warns_of_nothing(weft: Weft) -> None:
    ran = weft("whatif", *ON_GPUS, "--bandwidth", "x1e308", "--quiet")
    assert ran.code == 0
    assert ran.err == ""


# -- pareto -----------------------------------------------------------------------------------------


def test_pareto_json_rows_trade(weft: Weft) -> None:
    found = weft("pareto", *ON_GPUS, "--scheduler", "heft", "--most", "20", "--json").json
    assert (found["clusters"], found["possible_clusters"], found["plans"]) == (20, 80, 20)
    rows = found["rows"]
    assert all(set(row) == {"devices", "scheduler", "makespan", "cost", "energy"} for row in rows)
    assert [row["makespan"] for row in rows] == sorted(row["makespan"] for row in rows)
    assert rows[0]["cost"] > rows[-1]["cost"]


def test_pareto_draws_and_says_how_much_it_tried(weft: Weft, tmp_path: Path) -> None:
    ran = weft("pareto", *ON_GPUS, "--scheduler", "heft,cpop", "--most", "20", "--plot", "front.png")
    assert "20 plans on 10 of 80 parts of the cluster" in ran.out
    assert (tmp_path / "front.png").stat().st_size > 10_000


def test_pareto_says_that_prices_are_missing(weft: Weft) -> None:
    cluster = str(ROOT / "examples" / "cluster.toml")
    ran = weft("pareto", PIPELINE, "--cluster", cluster, "--scheduler", "heft", "--most", "8")
    assert "the cluster gives no price" in ran.out


# -- bench ------------------------------------------------------------------------------------------


def test_bench_json_is_the_documented_one(weft: Weft) -> None:
    found = weft(*TWO, "--json").json
    keys = "schema weft seed scheduler instances mean_gap_percent groups seconds rows"
    assert set(found) >= set(keys.split())
    assert (found["scheduler"], found["instances"], found["gap_to"]) == ("heft", 2, "best known")
    first, second = found["rows"]
    assert (first["instance"], first["best_known"], first["valid"]) == ("ta01", 1231.0, True)
    assert first["gap_percent"] == pytest.approx(100 * (first["makespan"] / 1231 - 1))
    assert found["groups"] == {"15x15": first["gap_percent"], "20x15": second["gap_percent"]}
    assert found["mean_gap_percent"] == pytest.approx((first["gap_percent"] + second["gap_percent"]) / 2)


def test_bench_table_says_what_the_gap_is_to(weft: Weft) -> None:
    ran = weft(*TWO)
    assert ran.code == 0
    assert "above best known" in ran.out
    assert "2 instances, on average" in ran.out
    assert "2 schedules checked" in ran.out


def test_bench_of_one_instance_counts_in_the_singular(weft: Weft) -> None:
    assert "; 1 schedule checked" in weft(*TWO, "--groups", "20x15").out


def test_bench_says_that_a_planner_uses_no_limit(weft: Weft) -> None:
    assert "heft makes one plan" in weft(*TWO, "--samples", "4").err


def test_bench_groups_leaves_out_the_others(weft: Weft) -> None:
    rows = weft(*TWO, "--groups", "20x15", "--json").json["rows"]
    assert [row["instance"] for row in rows] == ["ta11"]


def test_bench_without_best_known_compares_with_the_bound(weft: Weft, tmp_path: Path) -> None:
    stages = {"2g/1": {"tasks": [3000, 4000], "duration_ms": [10, 4], "edges": [[0, 1]]}}
    (tmp_path / "tpch_stages.json").write_text(json.dumps(stages))
    (tmp_path / "tpch_train_sets.json").write_text(json.dumps({"2": [["2g/1", "2g/1"]]}))
    ran = weft("bench", "tpch", "--data", str(tmp_path), "--scheduler", "heft", "--json")
    (row,) = ran.json["rows"]
    assert (row["instance"], row["best_known"], row["gap_to"]) == ("2/0", None, "lower bound")
    assert row["gap_percent"] == pytest.approx(100 * (row["makespan"] / row["lower_bound"] - 1))


def test_bench_of_a_wrong_planner_is_not_valid(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benching, "fault_of", lambda plan: "broken")
    ran = weft(*TWO)
    assert ran.code == 1
    assert "NOT VALID: ta01, ta11" in ran.out


def test_bench_record_drops_a_line_cut_off(weft: Weft, tmp_path: Path) -> None:
    weft(*TWO, "--out", "rows.jsonl")
    path = tmp_path / "rows.jsonl"
    whole = path.read_text()
    path.write_text(whole[:-30])
    assert weft(*TWO, "--out", "rows.jsonl").code == 0
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row.get("instance") for row in rows] == [None, "ta01", "ta11"]


RECORDS = [
    ("notes without an end", "rows.jsonl:1: expected a JSON object"),
    (
        '{"schema": "weft/bench-rows/2", "bench": "taillard", "scheduler": "cpop"}\n',
        "holds rows of another run (--scheduler: there cpop, here heft): ask for the same, or choose another file",
    ),
    ("HEAD\n{}\n", "rows.jsonl:2: expected a row of weft bench --out"),
    ("HEAD\nnothing\n", "rows.jsonl:2: expected a JSON object"),
]


@pytest.mark.parametrize(("text", "message"), RECORDS)
def test_bench_leaves_a_foreign_record_alone(weft: Weft, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    weft(*TWO, "--out", "rows.jsonl")
    text = text.replace("HEAD", path.read_text().splitlines()[0])
    path.write_text(text)
    ran = weft(*TWO, "--out", "rows.jsonl")
    assert (ran.code, path.read_text()) == (2, text)
    assert message in ran.err


def test_bench_shows_the_best_planner_beside_the_rule(weft: Weft) -> None:
    two = ("bench", "taillard", "--instances", "ta01,ta11")
    ran = weft(*two)
    assert "taillard, oneshot+search beside mwkr" in ran.out
    assert "the rule mwkr: 2" in ran.out
    found = weft(*two, "--json").json
    assert (found["scheduler"], found["rule"]["scheduler"]) == ("oneshot+search", "mwkr")
    assert found["mean_gap_percent"] < 5 < 15 < found["rule"]["mean_gap_percent"]
    by_rule = weft(*two, "--scheduler", "mwkr", "--json").json
    assert [row["makespan"] for row in by_rule["rows"]] == [row["makespan"] for row in found["rule"]["rows"]]
    assert "rule" not in by_rule


def test_bench_rules_are_ones_there_are() -> None:
    from weft.catalog import PLANNERS

    assert {benching.rule_of(name) for name in NAMES} == {"mwkr", "cp-wait", "cp"} <= set(PLANNERS)


# -- schedule --noise -------------------------------------------------------------------------------


def test_schedule_noise_adds_spread_and_slack(weft: Weft) -> None:
    found = weft("schedule", *ON_GPUS, "--noise", "0.3", "--seeds", "20", "--json").json
    noise = found["noise"]
    assert set(noise) == {"cv", "seeds", "median", "p95", "mean", "worst"}
    assert (noise["cv"], noise["seeds"]) == (0.3, 20)
    assert noise["median"] <= noise["p95"] <= noise["worst"]
    slacks = [row["slack"] for row in found["placements"]]
    assert min(slacks) == 0.0 < max(slacks) <= found["makespan"]


def test_schedule_noise_says_what_must_not_be_late(weft: Weft) -> None:
    ran = weft("schedule", *ON_GPUS, "--noise", "0.3", "--seeds", "20")
    assert "under noise  median" in ran.out
    assert "(20 runs, run times vary by 30.0 %)" in ran.out
    assert "placements have none: " in ran.out


def test_schedule_without_noise_has_neither(weft: Weft) -> None:
    found = weft("schedule", *ON_GPUS, "--json").json
    assert "noise" not in found
    assert "slack" not in found["placements"][0]
