"""Reports on what compare, bench and benchmarks printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.evaluation.report.build import gather


def write(path: Path, **fields: object) -> Path:
    path.write_text(json.dumps(fields))
    return path


def compared(**values: float) -> list[dict[str, object]]:
    return [{"file": f, "scheduler": name, "makespan": v} for f in ("a", "b") for name, v in values.items()]


def test_compare_is_a_frame_over_files(tmp_path: Path):
    path = write(tmp_path / "c.json", schema="weft/compare/1", rows=compared(heft=2.0, peft=1.0))
    frame = gather([path]).sweeps[0]
    assert (frame.schedulers, frame.num_samples, frame.baseline) == (("heft", "peft"), 2, "heft")


@pytest.mark.parametrize(("units", "unit"), [(("ms", "ms"), "ms"), (("ms", "s"), "")])
def test_compare_has_the_time_unit_of_its_rows(tmp_path: Path, units: tuple[str, str], unit: str):
    rows = [{**row, "time_unit": one} for row, one in zip(compared(heft=2.0), units, strict=True)]
    assert gather([write(tmp_path / "c.json", schema="weft/compare/1", rows=rows)]).sweeps[0].unit == unit


def test_compare_remembers_who_broke_a_rule(tmp_path: Path):
    rows = [{**row, "valid": row["scheduler"] == "heft"} for row in compared(heft=2.0, peft=1.0)]
    frame = gather([write(tmp_path / "c.json", schema="weft/compare/1", rows=rows)]).sweeps[0]
    assert {name: str(breach) for name, breach in frame.breaches.items()} == {
        "peft": "broke a rule on 2 of 2"
    }


def test_documents_say_which_command_printed_them(tmp_path: Path):
    own = write(
        tmp_path / "own.json", schema="weft/compare/1", rows=compared(heft=2.0), command="weft compare x"
    )
    old = write(tmp_path / "old.json", schema="weft/compare/1", rows=compared(heft=2.0, peft=1.0), seed=3)
    assert gather([own, old]).commands == (
        f"weft compare x > {own}",
        f"weft compare a b --schedulers heft,peft --seed 3 --json > {old}",
    )


def test_bench_documents_over_the_same_instances_are_one_frame(tmp_path: Path):
    rows = [{"instance": "ta01", "makespan": 10}, {"instance": "ta02", "makespan": 12}]
    paths = [
        write(tmp_path / f"{name}.json", schema="weft/bench/1", bench="taillard", scheduler=name, rows=rows)
        for name in ("mwkr", "ratio")
    ]
    (frame,) = gather(paths).sweeps
    assert (frame.title, frame.schedulers) == ("taillard", ("mwkr", "ratio"))


def test_benchmark_figures_are_kept_for_claims(tmp_path: Path):
    path = write(tmp_path / "d.json", schema="weft/benchmark/1", name="decision", figures={"best choice": 5})
    assert gather([path]).figures == {"decision": {"best choice": 5.0}}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"schema": "other"}, "expected the JSON of weft compare, weft bench or a benchmark"),
        ({"schema": "weft/compare/1", "rows": []}, "rows: expected rows"),
        ({"schema": "weft/compare/1", "rows": [{"file": "a", "scheduler": "x"}]}, "expected a makespan"),
        (
            {"schema": "weft/compare/1", "rows": [{"file": "a", "scheduler": "x", "makespan": 0}]},
            r"x\.json: makespan: expected a number > 0, got 0 \(x on a",
        ),
        ({"schema": "weft/benchmark/1", "figures": {"a": "b"}}, "expected a table of numbers"),
    ],
)
def test_other_documents_are_refused(tmp_path: Path, fields: dict[str, object], reason: str):
    with pytest.raises(InputError, match=reason):
        gather([write(tmp_path / "x.json", **fields)])


def test_folder_of_something_else_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="expected a sweep"):
        gather([tmp_path])
