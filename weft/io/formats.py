"""The table of file formats. A format is a module with ``detect(head, path)`` and ``read(data, path)``."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.problem import Problem

HEAD_BYTES = 4096
"""How much of a file ``detect`` gets to see."""


@dataclass(frozen=True)
class Loaded:
    """What a file held; a reader fills in what its format knows."""

    graph: TaskGraph | None = None
    cluster: Cluster | None = None
    problem: Problem | None = None


class Reader(Protocol):
    """What a format module offers."""

    def detect(self, head: bytes, path: Path) -> bool:
        """Whether the first bytes of a file look like this format."""

    def read(self, data: bytes, path: Path) -> Loaded:
        """Parse the whole file; InputError with file and field (or line) if it is not right."""


@dataclass(frozen=True)
class Format:
    """One format: its module, loaded on use, and the suffixes that name it when content does not."""

    name: str
    module: str
    suffixes: tuple[str, ...]

    @property
    def reader(self) -> Reader:
        """The module of the format."""
        return cast("Reader", importlib.import_module(self.module))


FORMATS = (
    Format("JSON (WfFormat or weft)", "weft.io.json_files", (".json",)),
    Format("DOT", "weft.io.dot", (".dot", ".gv")),
    Format("STG", "weft.io.stg", (".stg",)),
    Format("TOML", "weft.io.toml_files", (".toml",)),
    Format("job shop", "weft.io.jssp", (".jsp", ".jss", ".fjs")),
    Format("ONNX", "weft.io.onnx_graph", (".onnx",)),
)
"""In the order in which they are asked; add a line to add a format."""


def find_format(data: bytes, path: Path) -> Format:
    """The format of a file: by content, else by suffix."""
    head = data[:HEAD_BYTES]
    suffix = path.suffix.lower()
    by_suffix = [form for form in FORMATS if suffix in form.suffixes]
    for form in FORMATS:
        if form.reader.detect(head, path):
            return form
    if by_suffix:
        return by_suffix[0]
    names = ", ".join(form.name for form in FORMATS)
    raise InputError(f"expected one of the formats {names}; the content looks like none", file=str(path))
