"""What every file format owes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.io.files import GRAPH_FORMATS, write_graph
from weft.io.formats import HEAD_BYTES, Loaded, OwnFormat
from weft.model.graph import TaskGraph
from weft.plugins import made
from weft.testing.planners import ensure, told
from weft.testing.problems import make_graph

COLUMNS = ("work", "sources", "targets")


def check_format(given: Any, *examples: bytes, suffix: str = "") -> None:
    """Hold a file format (an object, class or module) against what every format owes.

    It knows its own files by their content and takes no other's, looks at anything without failing, reads its files, and
    refuses what is cut short or garbled with an error in words. If it writes, reading what was written gives the
    same tasks and edges.

    Parameters
    ----------
    examples
        Contents of files that it reads; with ``dump`` none is needed.
    suffix
        Of the examples; by default the first of the format's own.
    """
    form = OwnFormat(made(given, getattr(given, "__name__", type(given).__qualname__), "format"))
    path = Path(f"example{suffix or (form.suffixes or ('',))[0]}")
    graphs = [make_graph(seed, 6, shape, "uniform", "none") for seed, shape in enumerate(("chain", "random"))]
    contents = [*examples, *(form.dump(graph) for graph in graphs if form.can_write)]
    ensure(bool(contents), f"format {form.name!r} does not write: give at least one example")
    for number, content in enumerate(contents):
        with told(f"example {number}"):
            check_reads(form, content, path)
            check_fails_in_words(form, content, path)
    check_detect(form, path)
    for graph in graphs if form.can_write else ():
        check_round_trip(form, graph, path)


def check_reads(form: Any, content: bytes, path: Path) -> None:
    """A file of the format is known by its content and holds something."""
    ensure(form.detect(content[:HEAD_BYTES], path), f"format {form.name!r} does not know its own file")
    found: Loaded = form.read(content, path)
    held = (found.graph, found.cluster, found.problem)
    ensure(any(one is not None for one in held), f"format {form.name!r} reads nothing from its file")


def check_detect(form: Any, path: Path) -> None:
    """Files of weft's own formats, noise and nothing are not taken for its own, whatever their suffix."""
    rng = np.random.default_rng(0)
    for content in (b"", b"\0" * 64, b"\xff\xfe", rng.bytes(HEAD_BYTES)):
        ensure(
            not form.detect(content, path), f"format {form.name!r} takes noise for its own: {content[:16]!r}"
        )
    with TemporaryDirectory() as folder:
        for other, suffixes in GRAPH_FORMATS.items():
            file = Path(folder) / f"other{suffixes[0]}"
            write_graph(make_graph(1, 5, "chain", "uniform", "none"), file, other)
            is_taken = form.detect(file.read_bytes()[:HEAD_BYTES], path)
            ensure(not is_taken, f"format {form.name!r} takes a file of {other} for its own")


def check_fails_in_words(form: Any, content: bytes, path: Path) -> None:
    """A file that is cut short or garbled is read as something, or refused with an InputError."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        cut = content[: int(rng.integers(0, len(content) + 1))]
        garbled = bytearray(content)
        for place in rng.integers(0, len(content), 3).tolist():
            garbled[place] = int(rng.integers(256))
        for broken in (cut, bytes(garbled)):
            try:
                form.read(broken, path)
            except WeftError:
                continue


def check_round_trip(form: Any, graph: TaskGraph, path: Path) -> None:
    """Reading what was written gives the same tasks and edges."""
    found = form.read(form.dump(graph), path).graph
    ensure(found is not None and found.names == graph.names, f"format {form.name!r} loses names of tasks")
    for key in COLUMNS:
        same = np.array_equal(getattr(found, key), getattr(graph, key))
        ensure(same, f"format {form.name!r} does not read {key} as it wrote it")
