"""What a first import or a help page must not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "numba",
    "torch",
    "scipy",
    "pydantic",
    "ray",
    "dask",
    "matplotlib",
    "ortools",
    "onnx",
    "gymnasium",
    "pettingzoo",
)
HELP = """
import sys
sys.argv = ["weft", "--help"]
from weft.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""
STARTS = {
    "import weft": "import weft",
    "the model": "import weft; weft.TaskGraph, weft.Problem, weft.Schedule, weft.validate, weft.lower_bound",
    "the catalog": "from weft import catalog; sorted(catalog.PLANNERS)",
    "weft --help": HELP,
}


@pytest.mark.parametrize("start", STARTS)
def test_start_loads_nothing_heavy(start: str):
    report = f"import sys; print('LOADED', *[name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", f"{STARTS[start]}\n{report}"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("LOADED")[-1].split() == []


def test_public_names_all_resolve():
    code = "import weft; [getattr(weft, name) for name in weft.__all__]"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
