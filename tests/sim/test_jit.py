"""Compiled kernels: which there are, what is said while they compile, and files that cannot be used."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numba
import pytest

import weft
from weft.sim import jit_cache
from weft.sim.jit import CACHE, kernel, kernel_sources
from weft.sim.jit_cache import KernelCache
from weft.sim.jit_notice import NOTICE

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = (str(ROOT / "examples" / "pipeline.json"), "-c", str(ROOT / "examples" / "cluster.toml"))
COMMAND = ("-m", "weft", "schedule", *PROBLEM)
READ = f"import weft; problem = weft.read_problem({PROBLEM[0]!r}, cluster={PROBLEM[2]!r})"
PYTHON = ("-c", f"{READ}; print(weft.schedule(problem, 'heft'))")
USED = {
    "heft": {"clear", "list_order", "place_all", "upward_rank"},
    "cpop": {"downward_rank"},
    "peft": {"optimistic_cost"},
    "min-min": {"_place_all"},
    "deft": set(),
}
"""Scheduler -> the kernels it compiles that those before it did not."""


def ran(
    words: tuple[str, ...], cache: Path, first: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    env: Mapping[str, str] = os.environ | {"WEFT_CACHE": str(cache)}
    return subprocess.run(
        [sys.executable, *words], env=env, capture_output=True, text=True, check=True, preexec_fn=first
    )


@pytest.fixture
def one_missing(tmp_path: Path) -> Path:
    """Kernels of a plan, one small one of which has to compile."""
    weft.schedule(weft.read_problem(PROBLEM[0], cluster=PROBLEM[2]), "heft")
    for module in ("timelines", "list_planning"):
        folder = f"{CACHE.name}/weft.sim.timeline.{module}"
        shutil.copytree(CACHE.parent / folder, tmp_path / folder)
    for path in tmp_path.rglob("*upward_rank*"):
        path.unlink()
    return tmp_path


@pytest.mark.parametrize("words", [(*COMMAND, "-v"), PYTHON], ids=["command", "python"])
def test_first_use_says_that_kernels_compile(words: tuple[str, ...], one_missing: Path):
    first, second = ran(words, one_missing), ran(words, one_missing)
    assert first.stderr.count(NOTICE) == 1
    assert ("compiled upward_rank in " in first.stderr) == ("-v" in words)
    assert NOTICE not in second.stderr
    assert first.stdout.splitlines()[1:] == second.stdout.splitlines()[1:]  # the first line has a time


def test_a_plan_compiles_only_what_it_uses():
    code = f"""{READ}
import sys
seen = set()
for name in {list(USED)!r}:
    weft.schedule(problem, name)
    modules = [module for key, module in sys.modules.items() if key.startswith("weft.sim.")]
    found = {{one for module in modules for one in vars(module).values() if hasattr(one, "py_func")}}
    kernels = [one for one in found if not one.targetoptions.get("no_cpython_wrapper")]
    used = {{one.__name__ for one in kernels if one.signatures}}
    print(name, *sorted(used - seen))
    seen |= used
"""
    lines = ran(("-c", code), CACHE.parent).stdout.splitlines()
    assert {name: set(rest) for name, *rest in map(str.split, lines)} == USED


@pytest.mark.slow
def test_first_plan_leaves_four_kernels(tmp_path: Path):
    first, second = ran(COMMAND, tmp_path), ran(COMMAND, tmp_path)
    assert NOTICE in first.stderr and NOTICE not in second.stderr
    names = [path.name for path in tmp_path.rglob("*.nbi")]
    assert len([name for name in names if not name.startswith("part-")]) == 4
    assert len(names) <= 30


def no_room() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def test_full_cache_is_one_line_and_stops_nothing(one_missing: Path):
    full = ran(COMMAND, one_missing, no_room)
    assert full.stdout.splitlines()[1:] == ran(COMMAND, one_missing).stdout.splitlines()[1:]
    assert full.stderr.splitlines().count(NOTICE) == 1
    (said,) = [
        line for line in full.stderr.splitlines() if line.startswith("weft cannot keep compiled kernels")
    ]
    assert f" in {one_missing}" in said
    assert said.endswith("(File too large): every process compiles its own; WEFT_CACHE names another folder")


def twice(x: float) -> float:
    return 2.0 * x


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Makes a kernel that keeps its files in ``tmp_path``."""
    monkeypatch.setattr(jit_cache.Locator, "folder", tmp_path / "kernels")
    monkeypatch.setattr(KernelCache, "_is_lost", False)
    return lambda: kernel(twice)


@pytest.mark.parametrize("level", [logging.WARNING, logging.ERROR])
def test_unusable_cache_is_said_once(
    level: int, made: Callable[[], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "kernels").write_text("")
    with caplog.at_level(level, logger="weft"):
        assert [made()(1.0), made()(2.0)] == [2.0, 4.0]
    said = [text for text in caplog.messages if "cannot keep compiled kernels" in text]
    assert len(said) == (level == logging.WARNING)


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_cache_compiles_again(suffix: str, made: Callable[[], Any], tmp_path: Path):
    assert made()(1.0) == 2.0
    (damaged,) = tmp_path.rglob(f"*.{suffix}")
    damaged.write_bytes(damaged.read_bytes()[:40])
    again = made()
    assert again(1.0) == 2.0 and sum(again.stats.cache_misses.values()) == 1
    third = made()
    assert third(1.0) == 2.0 and sum(third.stats.cache_hits.values()) == 1


def test_kernel_is_a_part_of_one_that_calls_it(made: Callable[[], Any], tmp_path: Path):
    inner = made()

    def outer(x: float) -> float:
        return inner(x) + 1.0

    assert numba.njit(outer)(1.0) == 3.0
    assert inner.signatures == []
    assert [path.name.startswith("part-") for path in tmp_path.rglob("*.nbc")] == [True]


def test_hash_is_of_the_files_that_make_kernels_and_of_their_constants(tmp_path: Path):
    files = {
        "sim/tasks/moves.py": "from weft.model.names import DONE, task\n@lean_kernel\ndef move(): ...\n",
        "sim/helper.py": "from weft.model.words import HELLO\n",
        "model/names.py": "from weft.model.numbers import (\n    DONE as DONE,\n)\nfrom weft.model.words import say\n",
        "model/numbers.py": "DONE = 0\n",
        "model/words.py": "HELLO = 1\n",
        "schedulers/plain.py": "from weft.sim.tasks.state.moves import move\n",
        "schedulers/with_kernel.py": "@kernel\ndef choose(): ...\n",
    }
    for name, text in files.items():
        (tmp_path / "weft" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "weft" / name).write_text(text)
    found = [path.relative_to(tmp_path / "weft").as_posix() for path in kernel_sources(tmp_path / "weft")]
    assert found == ["model/names.py", "model/numbers.py", "schedulers/with_kernel.py", "sim/tasks/moves.py"]
