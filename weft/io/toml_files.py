"""TOML text to plain documents and back. The writer knows tables, arrays of tables, and plain values."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.io.formats import Loaded
from weft.io.sources import decode

_START = re.compile(rb'(?>[ \t\r]*(?:#[^\n]*)?\n)*+[ \t]*(?:\[\[?[ \t]*[\w".-]+[ \t]*\]|[\w".-]+[ \t]*=)')
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_PLACE = re.compile(r"(.*?) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)


def detect(head: bytes, path: Path) -> bool:
    """Whether the content starts with a table header or ``key =``."""
    return _START.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def read(data: bytes, path: Path) -> Loaded:
    """Whatever the TOML document holds: graph, cluster or problem."""
    from weft.io.documents import load

    return load(parse_toml(data, path), path)


def parse_toml(data: bytes, path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    text = decode(data, path)
    file = str(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.fullmatch(str(error))
        reason = found.group(1) if found else str(error)
        line = int(found.group(2)) if found and found.group(2) else len(text.rstrip().splitlines())
        raise InputError(f"expected TOML: {reason}", file=file, line=line) from None
    except RecursionError:
        raise InputError("expected TOML without deep nesting", file=file) from None
    except ValueError:
        raise InputError("expected TOML with numbers of at most 4300 digits", file=file) from None


def dump_toml(document: Mapping[str, Any]) -> bytes:
    """TOML of a document; keys whose value is None are left out."""
    lines: list[str] = []
    _emit(document, "", lines)
    return ("\n".join(lines).lstrip("\n") + "\n").encode("utf-8")


def dump_table(name: str, table: Mapping[str, Any]) -> bytes:
    """TOML of one table under a header of its own, a line per key."""
    lines = [f"[{_key(name)}]"]
    _emit(table, f"{_key(name)}.", lines)
    return ("\n".join(lines) + "\n").encode("utf-8")


def _emit(table: Mapping[str, Any], prefix: str, lines: list[str]) -> None:
    """Plain values first, then sub-tables: what follows a header belongs to it."""
    for key, value in table.items():
        if value is not None and not _is_tables(value):
            lines.append(f"{_key(key)} = {_value(value)}")
    for key, value in table.items():
        if not _is_tables(value):
            continue
        name = f"{prefix}{_key(key)}"
        for row in value if isinstance(value, list) else [value]:
            lines += ["", f"[[{name}]]" if isinstance(value, list) else f"[{name}]"]
            _emit(row, f"{name}.", lines)


def _is_tables(value: Any) -> bool:
    """Whether the value gets headers of its own; a table of plain values is written inline."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(row, Mapping) for row in value)
    return isinstance(value, Mapping) and any(isinstance(v, Mapping | list) for v in value.values())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(v) for v in value)}]"
    return str(value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
