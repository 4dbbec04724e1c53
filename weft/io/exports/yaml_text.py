"""YAML as weft writes it: blocks of tables and lists, every text in double quotes with all that is not plain ASCII escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

Value = str | int | bool | Mapping[str, "Value"] | Sequence["Value"]
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9./_-]*")
_WORDS = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}


def quoted(text: str) -> str:
    """A text in double quotes, on one line, which every parser reads as this text."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(c: str) -> str:
    code = ord(c)
    if c in '"\\':
        return f"\\{c}"
    if 0x20 <= code < 0x7F:
        return c
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return "\\ufffd" if 0xD800 <= code < 0xE000 else f"\\u{code:04x}"


def block(value: Mapping[str, Value], indent: int = 0) -> str:
    """A table as lines."""
    return "\n".join(_lines(value, indent)) + "\n"


def _lines(value: Mapping[str, Value], indent: int) -> Iterator[str]:
    pad = " " * indent
    for name, inner in value.items():
        key = name if _PLAIN_KEY.fullmatch(name) and name.lower() not in _WORDS else quoted(name)
        if isinstance(inner, Mapping) and inner:
            yield f"{pad}{key}:"
            yield from _lines(inner, indent + 2)
        elif isinstance(inner, Sequence) and not isinstance(inner, str) and inner:
            yield f"{pad}{key}:"
            yield from _items(inner, indent)
        else:
            yield f"{pad}{key}: {_scalar(inner)}"


def _items(values: Sequence[Value], indent: int) -> Iterator[str]:
    pad = " " * indent
    for one in values:
        if isinstance(one, Mapping) and one:
            first, *rest = _lines(one, indent + 2)
            yield f"{pad}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{pad}- {_scalar(one)}"


def _scalar(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int):
        return str(value)
    return "{}" if isinstance(value, Mapping) else "[]"
