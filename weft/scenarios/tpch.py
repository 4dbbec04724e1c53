"""Real TPC-H problems from a folder, divided into splits."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

from weft.errors import InputError
from weft.io.tpch import read_tpch
from weft.model.problem import Problem
from weft.scenarios.splits import SPLITS

_TURN = ("train", "train", "train", "validation", "test")
"""Splits in turn for the instances of a file whose name does not say."""


@functools.lru_cache(maxsize=4)
def tpch_makers(data: str) -> dict[str, Callable[[], Problem]]:
    """How to make each problem of a folder with ``tpch_stages.json`` and ``tpch_*_sets.json``."""
    folder = Path(data)
    if not folder.is_dir():
        raise InputError("expected a folder", file=data, field="settings.data")
    return read_tpch(folder)


@functools.lru_cache(maxsize=64)
def tpch_names(data: str, queries: int) -> dict[str, tuple[str, ...]]:
    """Names of the instances of this many queries, per split.

    A file with ``test`` or ``validation`` in its name is that split. The others are for training
    and for the splits no file is named after: the last of every five for tests, the one before
    for validation.
    """
    names = tuple(tpch_makers(data))
    tags = _tags(data, str(queries))
    if not tags:
        raise InputError(
            f"no set of {queries} queries, there are {', '.join(_sizes(names))}", file=data, field="queries"
        )
    own = {tag: next((split for split in SPLITS[1:] if split in tag), "") for tag in tags}
    found: dict[str, list[str]] = {split: [] for split in SPLITS}
    for tag in tags:
        members = [name for name in names if name.partition("/")[0] in (str(queries), f"{tag}-{queries}")]
        for k, name in enumerate(members):
            turn = own[tag] or _TURN[k % len(_TURN)]
            found["train" if not own[tag] and turn in own.values() else turn].append(name)
    return {split: tuple(members) for split, members in found.items()}


def _tags(data: str, group: str) -> list[str]:
    """Middle parts of the names of the files that hold this group."""
    files = sorted(Path(data).glob("tpch_*_sets.json"))
    return [
        path.stem.removeprefix("tpch_").removesuffix("_sets")
        for path in files
        if group in json.loads(path.read_text("utf-8"))
    ]


def _sizes(names: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(name.partition("/")[0].rpartition("-")[2] for name in names))
