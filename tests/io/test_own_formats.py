"""File formats that are not weft's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from example_package.weft_example import EdgeList

import weft
from weft import plugins
from weft.io import formats
from weft.io.files import read_graph, read_problem, write_graph

EDGES = "# edges\na 2.0\nb 3.0\na -> b\n"


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """What a test registers is gone after it."""
    with formats.kept():
        yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of the format."""
    path = tmp_path / "a.edges"
    path.write_text(EDGES, "utf-8")
    return path


def test_registered_format_is_read_and_written(file: Path, tmp_path: Path):
    formats.register(EdgeList)
    graph = read_graph(file)
    assert (graph.names, graph.work.tolist(), graph.num_edges) == (("a", "b"), [2.0, 3.0], 1)
    assert read_problem(file, "gpu-mix-8").num_tasks == 2
    assert write_graph(graph, tmp_path / "b.edges") == ()
    assert write_graph(graph, tmp_path / "c.txt", "edge-list") == ()
    for name in ("b.edges", "c.txt"):
        assert np.array_equal(read_graph(tmp_path / name).work, graph.work)


def test_registered_format_is_asked_before_those_of_weft(tmp_path: Path):
    mine = SimpleNamespace(
        name="mine",
        suffixes=(".json",),
        detect=lambda head, path: b'"mine"' in head,
        read=lambda data, path: formats.Loaded(graph=weft.TaskGraph([1.0])),
    )
    formats.register(mine)
    (tmp_path / "a.json").write_text('{"mine": 1}', "utf-8")
    assert read_graph(tmp_path / "a.json").num_tasks == 1


def form(**changed: Any) -> SimpleNamespace:
    """A format that reads everything, changed."""
    usual: dict[str, Any] = {
        "name": "all",
        "suffixes": (".edges",),
        "detect": lambda head, path: True,
        "read": lambda data, path: None,
    }
    return SimpleNamespace(**usual | changed)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (form(), r"a\.edges: format 'all': expected a graph, cluster or problem, got NoneType"),
        (form(read=lambda data, path: 1 / 0), "format 'all' failed to read the file: ZeroDivisionError"),
        (form(detect=lambda head, path: 1 / 0), "format 'all' failed to look at the file: ZeroDivisionError"),
        (form(read=None), "expected a file format, and SimpleNamespace has no function 'read'"),
        (form(name=""), "has no text 'name'"),
        (form(name="dot"), "format 'dot' is there already"),
        (form(suffixes=("edges",)), "suffixes that do not begin with a dot: edges"),
    ],
)
def test_own_format_is_refused_by_what_is_wrong(given: object, message: str, file: Path):
    with pytest.raises(weft.InputError, match=message):
        formats.register(given)
        read_graph(file)


def test_files_of_weft_look_for_no_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(formats, "offers", lambda group: pytest.fail("looked for packages"))
    monkeypatch.setattr(plugins, "offers", lambda group: pytest.fail("looked for packages"))
    write_graph(weft.TaskGraph([1.0]), tmp_path / "a.json")
    assert read_graph(tmp_path / "a.json").num_tasks == 1
