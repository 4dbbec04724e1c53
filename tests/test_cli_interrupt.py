"""Ctrl-C in a search keeps the best plan so far; in long work it says how to go on."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from weft.cli import evaluate, main, train
from weft.schedulers.base import is_stopped

ROOT = Path(__file__).resolve().parent.parent
PROBLEM = (str(ROOT / "examples" / "pipeline.json"), "-c", str(ROOT / "examples" / "cluster.toml"))
ENDLESS = ("--effort", str(10**9))


def interrupt_later(seconds: float = 0.5) -> None:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()


@pytest.mark.parametrize("scheduler", ["search", "perturbed", "oneshot", "auto"])
def test_interrupted_search_prints_its_best_plan(scheduler: str, capsys: pytest.CaptureFixture[str]):
    assert (
        main(["schedule", *PROBLEM, "-s", scheduler, "--effort", "1"]) == 0
    )  # compiled before the clock runs
    capsys.readouterr()
    interrupt_later()
    assert main(["schedule", *PROBLEM, "-s", scheduler, *ENDLESS, "--json"]) == 130
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["valid"], found["repeatable"]) == (True, False)
    assert "weft: stopping with the best plan so far; Ctrl-C again stops at once" in err
    assert not is_stopped()


def test_interrupted_search_writes_its_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    interrupt_later()
    plan = tmp_path / "plan.json"
    assert main(["schedule", *PROBLEM, "-s", "search", *ENDLESS, "--out", str(plan)]) == 130
    assert json.loads(plan.read_text())["valid"]
    assert "Ctrl-C ended the search: not repeatable" in capsys.readouterr().out


def stopped(*args: object, **more: object) -> None:
    raise KeyboardInterrupt


RESUMED = [
    (("train", "conditional", "--out", "runs/a"), "weft train conditional --out runs/a --resume"),
    (("train", "conditional", "--resume"), "weft train conditional --resume"),
    (("train", "conditional", "--seeds", "1,2"), "weft train conditional --seeds 1,2"),
    (("evaluate", "conditional", "--out", "a b"), "weft evaluate conditional --out 'a b'"),
    (("evaluate", "conditional"), None),
]


@pytest.mark.parametrize(("words", "command"), RESUMED)
def test_interrupted_work_says_how_to_go_on(
    words: tuple[str, ...],
    command: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(train.opt, "parse_duration", stopped)
    monkeypatch.setattr(train.output, "progress", stopped)
    monkeypatch.setattr(evaluate, "_counting", stopped)
    assert main(list(words)) == 130
    wanted = "weft: interrupted" + ("" if command is None else f"; to go on: {command}") + "\n"
    assert capsys.readouterr().err == wanted
