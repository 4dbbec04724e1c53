"""Habits of the command line: -h, -v, --quiet, shell completion."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.cli import main
from weft.cli.app import app
from weft.cli.options import parse_noise

ROOT = Path(__file__).resolve().parent.parent
PROBLEM = (str(ROOT / "examples" / "pipeline.json"), "-c", str(ROOT / "examples" / "cluster.toml"))
VERBS = [str(command.callback.__name__) for command in app.registered_commands if command.callback]


@pytest.mark.parametrize("verb", VERBS)
def test_h_is_help_in_every_verb(verb: str, capsys: pytest.CaptureFixture[str]):
    assert main([verb, "-h"]) == 0
    short = capsys.readouterr().out
    assert main([verb, "--help"]) == 0
    assert short == capsys.readouterr().out
    assert short.startswith(f"Usage: weft {verb}")


@pytest.mark.parametrize("words", [("--quiet", "schedule", *PROBLEM), ("schedule", *PROBLEM, "--quiet")])
def test_quiet_leaves_the_result_alone(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    assert main(list(words)) == 0
    quiet = capsys.readouterr()
    assert main(["schedule", *PROBLEM]) == 0
    usual = capsys.readouterr()
    assert quiet.out.splitlines()[1:] == usual.out.splitlines()[1:]  # the first line has a time
    assert quiet.err == ""
    assert "next: weft compare" in usual.err


def test_quiet_keeps_errors(capsys: pytest.CaptureFixture[str]):
    assert main(["--quiet", "schedule", "missing.json"]) == 2
    assert capsys.readouterr().err.startswith("weft: missing.json: ")


@pytest.mark.parametrize(
    "words", [("-v", "schedule", *PROBLEM), ("schedule", *PROBLEM, "-v"), ("schedule", "--verbose", *PROBLEM)]
)
def test_verbose_shows_the_log(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    assert main(list(words)) == 0
    err = capsys.readouterr().err
    assert "weft.io.files: " in err
    assert "weft.catalog: heft planned image-pipeline in " in err
    assert main(["schedule", *PROBLEM]) == 0
    assert "weft.catalog" not in capsys.readouterr().err


def test_quiet_and_verbose_exclude_each_other(capsys: pytest.CaptureFixture[str]):
    assert main(["--quiet", "schedule", *PROBLEM, "-v"]) == 2
    assert capsys.readouterr().err == "weft: --quiet: give --quiet or --verbose, not both\n"


def test_words_after_two_dashes_are_arguments(capsys: pytest.CaptureFixture[str]):
    assert main(["schedule", "--", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("weft: --quiet: ")


def test_library_logs_under_its_own_name(caplog: pytest.LogCaptureFixture):
    from weft.io.files import read_problem

    with caplog.at_level(logging.INFO, logger="weft"):
        read_problem(PROBLEM[0], PROBLEM[2])
    assert {record.name for record in caplog.records} == {"weft.io.files"}


COMPLETIONS = [("weft sche", {"schedule", "schedulers"}), ("weft schedule --noi", {"--noise"})]


@pytest.mark.parametrize(("line", "expected"), COMPLETIONS)
def test_shell_completes(line: str, expected: set[str]):
    words = {"_WEFT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    found = subprocess.run(
        [sys.executable, "-m", "weft"], env=os.environ | words, capture_output=True, text=True, check=True
    )
    assert set(found.stdout.split()) == expected


def test_show_completion_prints_a_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "bash"))
    assert main(["--show-completion"]) == 0
    assert "_WEFT_COMPLETE=complete_bash" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["0.3", "30%", "30 %", "3e-1"])
def test_noise_may_be_a_percentage(text: str):
    assert parse_noise(text) == pytest.approx(0.3)


SAME = [
    ("--mean-work", "0.02", "20ms"),
    ("--mean-data", "10000000", "10MB"),
    ("--bandwidth", "2e9", "2 GB/s"),
]


@pytest.mark.parametrize(("option", "plain", "with_unit"), SAME)
def test_generate_takes_units(option: str, plain: str, with_unit: str, tmp_path: Path):
    words = ["generate", "layered", "-n", "20", *(("--ccr", "1") if option == "--bandwidth" else ())]
    for text, name in ((plain, "a.json"), (with_unit, "b.json")):
        assert main([*words, option, text, "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
