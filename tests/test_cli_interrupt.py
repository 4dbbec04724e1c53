"""Ctrl-C in a search keeps the best plan so far; in long work it says how to go on."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Weft

from weft.cli import evaluate, main, train
from weft.schedulers.base import is_stopped

ROOT = Path(__file__).resolve().parent.parent
PROBLEM = (str(ROOT / "examples" / "pipeline.json"), "-c", str(ROOT / "examples" / "cluster.toml"))
ON_GPUS = (PROBLEM[0], "--cluster", "gpu-mix-8")
Cut = Callable[[int], str]
ENDLESS = ("--effort", str(10**9))


def interrupt_later(seconds: float = 0.3) -> None:
    """Press Ctrl-C this long after a search listens for it: loading a problem may take longer than that."""
    before = signal.getsignal(signal.SIGINT)

    def press() -> None:
        while signal.getsignal(signal.SIGINT) is before:
            time.sleep(0.01)
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


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
KEPT = "; the rows that are done are kept"


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
    kept = KEPT if words[0] == "evaluate" else ""
    wanted = f"{kept}; to go on: {command}"
    if command is None:
        wanted = "; with --out the rows that are done are kept, and the same command goes on"
    assert capsys.readouterr().err == f"weft: interrupted{wanted}\n"


OWN = """
import signal
import weft

class Cut:
    name = "cut"
    left = LEFT

    def plan(self, problem, *, seed=0, limit=None):
        Cut.left -= problem.num_tasks > 9
        if Cut.left == 0 and problem.num_tasks > 9:
            signal.raise_signal(signal.SIGINT)
        return weft.schedule(problem, "heft", seed=seed).schedule
"""


@pytest.fixture
def cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cut:
    """The name of a planner that presses Ctrl-C while it makes its plan of this number."""
    monkeypatch.chdir(tmp_path)

    def name(at: int) -> str:
        (tmp_path / f"mine{at}.py").write_text(OWN.replace("LEFT", str(at)))
        return f"mine{at}.py:Cut"

    return name


def test_interrupted_whatif_prints_the_changes_so_far(cut: Cut, weft: Weft):
    ran = weft("whatif", *ON_GPUS, "--bandwidth", "x2,x4,x8", "-s", cut(3), "--json")
    assert (ran.code, ran.json["interrupted"]) == (130, True)
    assert [row["change"] for row in ran.json["rows"]] == ["as it is", "bandwidth x2"]
    assert [one["change"] for one in ran.json["skipped"]] == ["bandwidth x4", "bandwidth x8"]
    assert ran.err.splitlines()[-1] == "weft: interrupted after 2 plans"
    ran = weft("whatif", *ON_GPUS, "--bandwidth", "x2,x4", "-s", cut(2))
    assert (ran.code, "bandwidth x4 left out: interrupted before it was planned" in ran.out) == (130, True)
    assert "next:" not in ran.err


def test_interrupted_pareto_prints_the_front_so_far(cut: Cut, weft: Weft):
    ran = weft("pareto", *ON_GPUS, "-s", cut(4), "--json")
    assert (ran.code, ran.json["plans"], ran.json["clusters"], ran.json["interrupted"]) == (130, 4, 4, True)
    assert ran.err.splitlines()[-1] == "weft: interrupted after 4 plans"


def test_interrupted_compare_prints_the_plans_so_far(cut: Cut, weft: Weft):
    names = f"heft,{cut(2)},cpop"
    ran = weft("compare", ON_GPUS[0], ON_GPUS[0], ON_GPUS[0], *ON_GPUS[1:], "-s", names, "--json")
    assert (ran.code, len(ran.json["rows"]), ran.json["interrupted"]) == (130, 5, True)
    assert [one["reason"] for one in ran.json["skipped"]] == ["interrupted before it planned"]
    assert ran.err.splitlines()[-1] == "weft: interrupted after 5 of 9 plans"
    ran = weft("compare", *ON_GPUS, "-s", f"heft,{cut(1)}")
    assert (ran.code, "mine1.py:Cut was stopped: its last plan is the best so far" in ran.out) == (130, True)


def test_interrupted_bench_prints_the_instances_so_far_and_goes_on(cut: Cut, weft: Weft, tmp_path: Path):
    words = ("bench", "taillard", "-i", "ta01,ta02,ta03", "-s", cut(3), "--out", "rows.jsonl")
    ran = weft(*words)
    assert (ran.code, "2 instances, on average" in ran.out) == (130, True)
    wanted = f"weft: interrupted after 2 of 3 instances{KEPT}; to go on: weft {' '.join(words)}"
    assert ran.err.splitlines()[-1] == wanted
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 3
    again = weft(*words, "--json")
    assert (again.code, len(again.json["rows"])) == (0, 3)


@pytest.mark.parametrize("verb", ["explain", "gantt"])
def test_interrupted_search_is_explained_and_drawn(verb: str, cut: Cut, weft: Weft):
    tasks = json.loads(Path(PROBLEM[0]).read_text())["workflow"]["specification"]["tasks"]
    task = () if verb == "gantt" else (tasks[0]["id"],)
    ran = weft(verb, ON_GPUS[0], *task, *ON_GPUS[1:], "-s", cut(1))
    assert (ran.code, ran.err) == (
        130,
        "weft: stopping with the best plan so far; Ctrl-C again stops at once\n",
    )
    assert ran.out


def test_second_interrupt_stops_at_once(cut: Cut, weft: Weft, tmp_path: Path):
    name = cut(1)
    source = (tmp_path / "mine1.py").read_text()
    (tmp_path / "mine1.py").write_text(source.replace("(signal.SIGINT)", "(2); signal.raise_signal(2)"))
    ran = weft("compare", *ON_GPUS, "-s", name)
    assert (ran.code, ran.out, ran.err.splitlines()[-1]) == (130, "", "weft: interrupted")
