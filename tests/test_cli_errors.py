"""Bad input on the command line: one line, the right exit code, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

import pytest

from weft.cli import main, plan

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = str(ROOT / "examples" / "pipeline.json")
CLUSTER = str(ROOT / "examples" / "cluster.toml")


class Weft(Protocol):
    def __call__(self, *words: str) -> tuple[int, str, str]: ...


@pytest.fixture
def weft(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weft:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_DEBUG", raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


BAD = [
    (("schedule",), "bad-usage", "FILE"),
    (("schedul", PIPELINE), "bad-usage", "schedul"),
    (("schedule", PIPELINE, "--colour"), "bad-usage", "--colour"),
    (("schedule", PIPELINE, "--seed", "-1"), "bad-usage", "--seed"),
    (("schedule", PIPELINE, "--seed", "9" * 30), "bad-usage", "--seed"),
    (("evaluate", "conditional", "--seed", "9" * 30), "bad-usage", "--seed"),
    (("evaluate", "conditional", "--seed", str(2**63 - 1), "--seeds", "2"), "bad-input", "seeds"),
    (("evaluate", "conditional", "-s", ""), "bad-input", "--schedulers"),
    (("evaluate", "conditional", "-s", "runX@best"), "bad-input", "runX: no such run"),
    (
        ("evaluate", "conditional", "--set", "arrivals=trace", "--set", "trace=/dev/zero"),
        "bad-input",
        "expected a file, got a device or pipe",
    ),
    (("train", "conditional", "--seed", "9" * 30), "bad-usage", "--seed"),
    (("train", "conditional", "--seed", str(2**32)), "bad-input", "from 0 to 4294967295"),
    (("train", "conditional-many", "--seed", str(2**32 - 1)), "bad-input", "belong to validation"),
    (("train", "conditional", "--seeds", "9" * 30), "bad-input", "seeds"),
    (("train", "conditional", "--seeds", str(2**32)), "bad-input", "seeds"),
    (("train", "conditional", "--from", "runX@best"), "bad-input", "runX: no such run"),
    (("schedule", PIPELINE, "--effort", "0"), "bad-usage", "--effort"),
    (("schedule", "missing.json"), "bad-input", "missing.json"),
    (("schedule", "."), "bad-input", "."),
    (("schedule", "empty.json"), "bad-input", "empty.json"),
    (("schedule", "broken.json"), "bad-input", "broken.json"),
    (("schedule", PIPELINE, "--cluster", "gpu-mix-9"), "bad-input", "gpu-mix-8"),
    (("schedule", PIPELINE, "--cluster", "broken.toml"), "bad-input", "broken.toml"),
    (("schedule", "chain.dot"), "bad-input", "gpu-mix-8"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--scheduler", "heff"), "bad-input", "did you mean 'heft'?"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--budget", "soon"), "bad-input", "such as '5 min'"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--budget", "0s"), "bad-input", "time > 0"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--budget", "1s", "--effort", "3"), "bad-input", "not both"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--noise", "30"), "bad-input", "such as 0.3 or 30%, at most 10"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--noise", "3000%"), "bad-input", "got '3000%'"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--noise", "-0.1"), "bad-input", "--noise"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--noise", "nan"), "bad-input", "--noise"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--ccr", "-1"), "bad-input", "ratio"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--ccr", "nan"), "bad-input", "ratio"),
    (("schedule", PIPELINE, "-c", CLUSTER, "-s", "deft", "--no-copies"), "unsupported", "copies"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--out", "no/such/folder.json"), "bad-input", "no/such"),
    (("schedule", PIPELINE, "-c", CLUSTER, "--gantt", "chart.docx"), "bad-input", "docx"),
    (("compare", PIPELINE, "-c", CLUSTER, "--schedulers", "heft,hefty"), "bad-input", "hefty"),
    (("compare",), "bad-usage", "FILE"),
    (("validate", PIPELINE, "missing.json", "-c", CLUSTER), "bad-input", "missing.json"),
    (("validate", PIPELINE, "broken.json", "-c", CLUSTER), "bad-input", "broken.json"),
    (("explain", PIPELINE, "no-such-task", "-c", CLUSTER), "bad-input", "no-such-task"),
    (("gantt", PIPELINE, "missing.json", "-c", CLUSTER), "bad-input", "missing.json"),
    (("gantt", PIPELINE, "-c", CLUSTER, "--out", "chart.xyz"), "bad-input", "xyz"),
    (("generate", "layerd", "-n", "10", "-o", "g.json"), "bad-input", "did you mean 'layered'?"),
    (("generate", "layered", "-n", "0", "-o", "g.json"), "bad-usage", "--size"),
    (("generate", "layered", "-n", "10"), "bad-usage", "--out"),
    (("generate", "layered", "-n", "10", "-o", "g.json", "--density", "-2"), "bad-input", "density"),
    (("generate", "layered", "-n", "10", "-o", "g.json", "--to", "xml"), "bad-input", "xml"),
    (("generate", "layered", "-n", "10", "-o", "g.json", "--mean-work", "5 GB"), "bad-input", "--mean-work"),
    (("generate", "layered", "-n", "10", "-o", "g.json", "--mean-data", "5 s"), "bad-input", "--mean-data"),
    (("generate", "layered", "-n", "9", "-o", "g.json", "--bandwidth", "1 GB"), "bad-input", "--bandwidth"),
    (("convert", "missing.json", "x.dot"), "bad-input", "missing.json"),
    (("convert", PIPELINE, "x.unknown"), "bad-input", "unknown"),
    (("init", "--out", "no/such/cluster.toml"), "bad-input", "no/such"),
]


@pytest.fixture
def bad_files(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "broken.json").write_text('{"placements": [')
    (tmp_path / "broken.toml").write_text("bandwidth = = 1")
    (tmp_path / "chain.dot").write_text("digraph { a [work=1]; b [work=1]; a -> b; }")


IDS = [" ".join(word.rpartition("/")[2] for word in words) for words, *_ in BAD]


@pytest.mark.parametrize(("words", "code", "text"), BAD, ids=IDS)
@pytest.mark.usefixtures("bad_files")
def test_bad_input_gives_one_line(weft: Weft, words: tuple[str, ...], code: str, text: str) -> None:
    exit_code, out, err = weft(*words)
    lines = [line for line in err.splitlines() if "compiling" not in line and not line.endswith(" ...")]
    assert exit_code == 2
    assert out == ""
    assert len(lines) == 1
    assert lines[0].startswith("weft: ")
    assert text in lines[0]


@pytest.mark.parametrize(("words", "code", "text"), BAD, ids=IDS)
@pytest.mark.usefixtures("bad_files")
def test_bad_input_gives_one_json_error(weft: Weft, words: tuple[str, ...], code: str, text: str) -> None:
    exit_code, out, _ = weft(*words, "--json")
    found = json.loads(out)
    assert exit_code == 2
    assert set(found) == {"error"}
    assert set(found["error"]) == {"code", "message", "file", "field", "line"}
    assert found["error"]["code"] == code


def test_infeasible_problem_exits_3(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text('[[device]]\nclass = "cpu"\nmemory = 1\n')
    (tmp_path / "big.toml").write_text(
        'schema = "weft/graph/1"\n[[tasks]]\nname = "a"\nwork = 1.0\nmemory = 100\n'
    )
    code, out, _ = weft("schedule", "big.toml", "--cluster", "slow.toml", "--json")
    assert code == 3
    assert json.loads(out)["error"]["code"] == "infeasible"


def test_interrupt_exits_130(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "load", interrupted)
    assert weft("schedule", PIPELINE) == (130, "", "weft: interrupted\n")
    code, out, _ = weft("schedule", PIPELINE, "--json")
    assert code == 130
    assert json.loads(out)["error"]["code"] == "interrupted"


def _explode(*args: object) -> None:
    raise ZeroDivisionError("two\nlines")


def test_bug_asks_for_a_report_without_a_traceback(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "load", _explode)
    code, out, err = weft("schedule", PIPELINE)
    assert (code, out) == (70, "")
    assert err.startswith("weft: unexpected ZeroDivisionError: two lines; please report it")
    assert "--debug" in err
    assert err.count("\n") == 1


def test_bug_shows_its_traceback_under_debug(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "load", _explode)
    assert "Traceback" in weft("schedule", PIPELINE, "--debug")[2]
    monkeypatch.setenv("WEFT_DEBUG", "1")
    assert "Traceback" in weft("schedule", PIPELINE)[2]


def test_bug_with_json_is_an_error_document(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "load", _explode)
    code, out, _ = weft("schedule", PIPELINE, "--json")
    assert code == 70
    assert json.loads(out)["error"]["code"] == "internal"


def test_control_characters_in_names_are_escaped(weft: Weft) -> None:
    err = weft("schedule", "bell\x07\x1b[31m.json")[2]
    assert "\x07" not in err
    assert "\x1b" not in err
