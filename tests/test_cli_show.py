"""The verb show, and the warning about kinds that no task has: text, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from weft.cli import main

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = str(ROOT / "examples" / "pipeline.json")
MINE = str(ROOT / "examples" / "cluster.toml")


class Ran(NamedTuple):
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out, parse_constant=pytest.fail)


class Weft(Protocol):
    def __call__(self, *words: str) -> Ran: ...


@pytest.fixture
def weft(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weft:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_DEBUG", raising=False)

    def run(*words: str) -> Ran:
        code = main(list(words))
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def misspelt(tmp_path: Path) -> str:
    """The example's cluster with ``unpack-scene`` misspelt."""
    path = tmp_path / "misspelt.toml"
    path.write_text(Path(MINE).read_text("utf-8").replace("unpack-scene", "unpack-scen"), "utf-8")
    return str(path)


@pytest.mark.parametrize(
    "words",
    [
        ("schedule", PIPELINE),
        ("schedule", PIPELINE, "--json"),
        ("compare", PIPELINE, PIPELINE, "-s", "heft"),
        ("explain", PIPELINE, "unpack"),
        ("gantt", PIPELINE),
        ("whatif", PIPELINE, "--add", "cpu=1"),
        ("pareto", PIPELINE, "-s", "heft", "--most", "2"),
        ("evaluate", PIPELINE, "-s", "heft"),
    ],
    ids=lambda words: words[0],
)
def test_unknown_kind_is_said_once_by_every_verb(weft: Weft, misspelt: str, words: tuple[str, ...]):
    ran = weft(*words, "--cluster", misspelt)
    assert ran.code == 0
    line = "weft: cluster misspelt names a kind that no task has: 'unpack-scen' of class gpu "
    assert [one for one in ran.err.splitlines() if "no task has" in one] == [
        f"{line}(did you mean 'unpack-scene'?)"
    ]


@pytest.mark.parametrize("cluster", [MINE, "gpu-mix-8"])
def test_known_kinds_and_builtin_clusters_make_no_noise(weft: Weft, cluster: str):
    assert "no task has" not in weft("schedule", PIPELINE, "--cluster", cluster).err
