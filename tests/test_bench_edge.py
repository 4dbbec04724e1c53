"""Tables of training seeds on edge clusters, from a folder of rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import weft
from benchmarks._edge_reference import REFERENCES
from benchmarks.edge import main
from weft.training.ship import ship


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("edge")
    runs = [root / "own" / f"seed-{k}" for k in (1, 2)]
    for run in runs:
        run.mkdir(parents=True)
        ship(f"{Path(weft.__file__).parent}/policies/zoo/edge-single.json", "best", folder=run)
    names = (*(f"{run}@best" for run in runs), "static-10", "optimus")
    weft.evaluate("edge-single-3", names, settings={"tasks": 30}, seeds=4, out=root / "rows")
    return str(root / "rows")


def test_runs_are_one_allocator_against_every_other(folder: str, capsys: pytest.CaptureFixture[str]):
    assert main([folder]) == 0
    lines = capsys.readouterr().out.splitlines()
    (own,) = [line for line in lines if line.startswith("| `own` |") and line.count("|") == 11]
    first, second = own.split("|")[-2].split(",")
    assert float(first) == float(second) == float(own.split("|")[2].split()[0])
    assert sum(line.startswith(("| `static-10` |", "| `optimus` |")) for line in lines) == 6


def test_bound_spread_and_tasks_per_cluster_are_printed(folder: str, capsys: pytest.CaptureFixture[str]):
    assert main([folder]) == 0
    lines = capsys.readouterr().out.splitlines()
    (bound,) = [line for line in lines if line.startswith("Without contention: ")]
    assert 1.0 < float(bound.split()[2]) < 6.0 and " ± " in bound
    place = lines.index("| img + lm taken by | c0 | c1 | c2 |")
    taken = [int(count) for count in re.findall(r"\d+", lines[place + 2].replace("`own`", ""))]
    assert len(taken) == 6 and abs(sum(taken) - 30) <= 3
    own = next(line for line in lines if line.startswith("| `own` |"))
    assert own.count(" ± ") == 7


def test_all_of_an_advantage_is_kept_where_it_was_won(folder: str, capsys: pytest.CaptureFixture[str]):
    assert main([folder, "--kept", folder]) == 0
    (own,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| `own` |")]
    here, there, share = (cell.split()[0] for cell in own.split("|")[2:5])
    assert (here, share) == (there, "100")


def test_references_are_printed_with_their_distances(capsys: pytest.CaptureFixture[str]):
    assert main(["--reference", "--seeds", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(REFERENCES)
    assert lines[5].startswith("| `edge-single-3` | `optimus` |") and "| 6.79 ± 0.10 |" in lines[5]
    with pytest.raises(SystemExit):
        main([])
