"""Keyed draws, and the one table of their streams."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.model import draws
from weft.model.draws import keyed_uniform

ROOT = Path(weft.__file__).parent
STREAMS = {name: value for name, value in vars(draws).items() if name.isupper()}


def test_keyed_uniform_does_not_depend_on_the_order_of_keys():
    tasks = np.random.default_rng(0).permutation(1000)
    assert keyed_uniform(7, 1, 0, np.arange(1000))[tasks].tolist() == keyed_uniform(7, 1, 0, tasks).tolist()


def test_keyed_uniform_of_one_key_equals_that_of_many():
    assert float(keyed_uniform(7, 1, 0, 3)) == keyed_uniform(7, 1, 0, np.arange(5))[3]


def test_keyed_uniform_is_uniform():
    draws = keyed_uniform(1, 2, np.arange(300)[:, None], np.arange(300)).ravel()
    counts = np.histogram(draws, bins=20, range=(0.0, 1.0))[0]
    chi_squared = float(((counts - 4500.0) ** 2 / 4500.0).sum())
    assert chi_squared < 43.8  # 19 degrees of freedom, one in a thousand
    assert (draws.min() >= 0.0, draws.max() < 1.0) == (True, True)


def test_keyed_uniform_differs_between_every_part_of_the_key():
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (-1, 0, 0)]
    assert len({float(keyed_uniform(*key)) for key in keys}) == len(keys)


def test_streams_have_distinct_numbers():
    assert sorted(STREAMS.values()) == list(range(1, len(STREAMS) + 1))


def test_streams_of_published_rows_keep_their_numbers():
    kept = ("NOISE", "BRANCH", "ARRIVAL", "EPISODE", "PROBABILITY", "WALK")
    assert [STREAMS[name] for name in kept] == [1, 2, 3, 4, 5, 6]


def users() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if "keyed_uniform(" in path.read_text()]


@pytest.mark.parametrize("path", users(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_draw_names_a_stream_of_the_table(path: Path):
    tree = ast.parse(path.read_text())
    imported = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "weft.model.draws"
        for name in node.names
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    drawn = [call for call in calls if ast.unparse(call.func).endswith("keyed_uniform")]
    streams = {ast.unparse(call.args[1]) for call in drawn}
    assert streams <= imported & set(STREAMS)
    stored = [
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    assert path.name == "draws.py" or not streams & set(stored)
