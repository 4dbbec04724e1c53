"""Errors of modules that are run by themselves: one line, and the exit code of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import weft.evaluation.__main__ as evaluation
import weft.training.__main__ as training
from weft.errors import InfeasibleError, InputError, LockedError, exit_code_of

FAILURES = [
    (InputError("expected more", file="a.json", line=3), 2, "weft: a.json:3: expected more\n"),
    (InfeasibleError("no device", field="tasks.a"), 3, "weft: tasks.a: no device\n"),
    (LockedError("process 7 is training"), 4, "weft: process 7 is training\n"),
    (PermissionError(13, "Permission denied", "runs"), 2, "weft: runs: Permission denied\n"),
    (KeyboardInterrupt(), 130, "weft: interrupted; the same command goes on\n"),
]


def failing(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(("error", "code", "line"), FAILURES)
def test_exit_code_of_a_failure_comes_with_one_line(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
):
    assert exit_code_of(failing(error)) == code
    assert capsys.readouterr() == ("", line)


def test_exit_code_of_work_that_is_done_is_0(capsys: pytest.CaptureFixture[str]):
    assert exit_code_of(lambda: None) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("error", [ValueError("a bug"), OSError("without a file")])
def test_exit_code_hides_no_bug(error: Exception):
    with pytest.raises(type(error)):
        exit_code_of(failing(error))


MODULES = [
    (training, "_train", ["conditional-quick", "--seeds", "1,2"], "the same command goes on"),
    (evaluation, "_evaluate", ["conditional", "-s", "fifo", "--out", "x"], "the same command goes on"),
    (training, "_train", ["oneshot-jobshop", "--out", "x"], "the same command with --resume goes on"),
]


@pytest.mark.parametrize(("module", "work", "words", "hint"), MODULES)
def test_modules_say_how_to_go_on_after_an_interruption(
    module: ModuleType,
    work: str,
    words: list[str],
    hint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    def interrupted(options: argparse.Namespace) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, work, interrupted)
    assert module.main(words) == 130
    assert capsys.readouterr().err == f"weft: interrupted; {hint}\n"


WORDS = [
    (training, ["conditional", "--seed", "x"], "--seed: expected a whole number >= 0, got 'x'"),
    (training, ["conditional", "--workers", "0"], "--workers: expected a whole number >= 1, got '0'"),
    (training, ["conditional", "--colour"], "unrecognized arguments: --colour"),
    (evaluation, ["conditional", "-s", "fifo", "--out", "x", "--seeds", "1.5"], "--seeds: expected a whole"),
    (evaluation, ["conditional"], "the following arguments are required: --schedulers/-s, --out"),
]


@pytest.mark.parametrize(("module", "words", "text"), WORDS)
def test_modules_refuse_a_word_in_one_line(
    module: ModuleType, words: list[str], text: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as stop:
        module.main(words)
    err = capsys.readouterr().err
    assert (stop.value.code, err.count("\n")) == (2, 1)
    assert err.startswith(f"weft: {text}")


def test_module_refuses_a_recipe_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert training.main([str(tmp_path / "none.toml"), "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.startswith(f"weft: {tmp_path / 'none.toml'}: ")
