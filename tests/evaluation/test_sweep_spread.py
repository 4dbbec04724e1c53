"""Rows of a sweep computed on a cluster are those computed here."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.errors import InputError
from weft.evaluation.sweep.runner import Elsewhere, versions
from weft.evaluation.sweep.unit import Unit
from weft.scenarios import scenario


@pytest.mark.parametrize("engine", ["dask", pytest.param("ray", marks=pytest.mark.slow)])
def test_rows_and_hashes_of_a_cluster_are_those_of_this_machine(engine: str, tmp_path: Path):
    pytest.importorskip("distributed" if engine == "dask" else "ray")
    asked = {"settings": {"tasks": [8, 12]}, "problems": 2}
    here = weft.evaluate("workflows", ["heft", "cp"], **asked)
    there = weft.evaluate(
        "workflows", ["heft", "cp"], **asked, engine=engine, workers=2, out=tmp_path / "sweep"
    )
    assert list(here.rows) == list(there.rows)
    assert all(row.trace for row in there.rows)


def test_another_weft_on_the_cluster_is_refused():
    wrong = tuple({**versions(), "kernels": "other"}.items())
    unit = Unit(scenario("workflows", tasks=8), "test", 0, "heft", (0,), None, "none")
    with pytest.raises(InputError, match="expected kernels other on all machines of the cluster"):
        Elsewhere(wrong, (), ())(unit)


def test_unknown_engines_are_refused():
    with pytest.raises(InputError, match="engine: expected one of ray, dask, got 'mpi'"):
        weft.evaluate("workflows", ["heft"], engine="mpi")
