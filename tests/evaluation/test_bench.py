"""``weft.bench``: the measurement behind the verb."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.errors import InputError


def test_bench_measures_and_continues_its_record(tmp_path: Path):
    looked: list[str] = []
    out = tmp_path / "rows.jsonl"
    first = weft.bench("taillard", "heft", instances=["ta01"], out=out)
    both = weft.bench(
        "taillard", "heft", instances=["ta01", "ta11"], out=out, on_look=lambda one: looked.append(one.now)
    )
    assert both.rows[0] == first.rows[0]
    assert (looked, list(both.groups)) == (["ta01", "ta11"], ["15x15", "20x15"])
    assert both.to_dict()["mean_gap_percent"] == both.mean_gap_percent
    assert str(both).startswith("taillard, heft: 2 instances, ")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"check": "some"}, "check: expected auto or all, got 'some'"),
        ({"instances": ["ta81"]}, "instances: no instance 'ta81' in taillard"),
        ({"instances": ["ta01"], "groups": ["9x9"]}, "groups: no group '9x9' among these instances"),
    ],
)
def test_bench_refuses_what_is_not_there(asked: dict, message: str):
    with pytest.raises(InputError, match=message):
        weft.bench("taillard", "heft", **asked)
