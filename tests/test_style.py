"""How long functions and files may be, and how many parameters a function may take."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft

ROOT = Path(weft.__file__).parent
FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
MOST_LINES, MOST_LINES_OF_A_FILE, MOST_PARAMETERS = 59, 420, 12

HAS_MANY_PARAMETERS = {
    "evaluation/sweep/request.py": "evaluate",  # public: as many as the verb has options
    "training/train.py": "train",  # the same
    "reporting.py": "report",  # the same
    "model/graph.py": "__init__",  # public: one per column
}
"""File -> the function in it that may take more."""


def functions(file: str) -> Iterator[ast.FunctionDef]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def num_parameters(function: ast.FunctionDef) -> int:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


@pytest.mark.parametrize("file", FILES)
def test_functions_and_files_are_short(file: str):
    lengths = {one.name: (one.end_lineno or 0) - one.lineno + 1 for one in functions(file)}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
    assert len((ROOT / file).read_text(encoding="utf-8").splitlines()) <= MOST_LINES_OF_A_FILE


@pytest.mark.parametrize("file", [file for file in FILES if not file.startswith("cli/")])
def test_functions_take_few_parameters(file: str):
    many = [one.name for one in functions(file) if num_parameters(one) > MOST_PARAMETERS]
    assert many == ([HAS_MANY_PARAMETERS[file]] if file in HAS_MANY_PARAMETERS else [])
