"""JSON text to plain documents and back; what JSON parsers usually let pass is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.io.formats import Loaded
from weft.io.sources import decode, shown

MAX_DEPTH = 100
_CHUNK = 1 << 20
_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class _Refused(Exception):
    """A value the parser met; ``literal`` is its text in the file."""

    def __init__(self, message: str, literal: str) -> None:
        super().__init__(message)
        self.literal = literal


def detect(head: bytes, path: Path) -> bool:
    """Whether the content starts like a JSON object."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def read(data: bytes, path: Path) -> Loaded:
    """Whatever the JSON document holds: graph, cluster or problem."""
    from weft.io.documents import load

    return load(parse_json(data, path), path)


def parse_json(data: bytes, path: str | Path) -> dict[str, Any]:
    """The object in a JSON file: no duplicate keys, no NaN or infinity, no deep nesting."""
    file = str(path)
    text = decode(data, path)
    _refuse_depth(data, file)
    try:
        document = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite
        )
        if _LONE_SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        rest = text[error.pos : error.pos + 100].strip()
        what = f"{error.msg}, got {shown(rest, 20)}" if rest else "the file ends too early"
        raise InputError(f"expected JSON: {what}", file=file, line=error.lineno) from None
    except _Refused as error:
        line = text.count("\n", 0, max(text.find(error.literal), 0)) + 1
        raise InputError(str(error), file=file, line=line) from None
    except RecursionError:
        raise InputError(f"expected at most {MAX_DEPTH} nested levels", file=file) from None
    except UnicodeEncodeError:
        raise InputError(
            "expected text, got half of a surrogate pair (\\ud800 to \\udfff)", file=file
        ) from None
    except ValueError:
        raise InputError("expected numbers of at most 4300 digits", file=file) from None
    if not isinstance(document, dict):
        raise InputError(f"expected a JSON object, got {shown(document)}", file=file, line=1)
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Refused(f"the key {shown(twice)} is given twice in one object", json.dumps(twice))
    return found


def _refuse_constant(literal: str) -> float:
    raise _Refused(f"expected a finite number, got {literal}", literal)


def _finite(literal: str) -> float:
    value = float(literal)
    if value in (np.inf, -np.inf):
        raise _Refused(f"expected a finite number, got {shown(literal)}", literal)
    return value


def _refuse_depth(data: bytes, file: str) -> None:
    """Refuse bracket depth over the limit before parsing; brackets inside strings count too."""
    step = np.zeros(256, dtype=np.int8)
    step[[ord("["), ord("{")]] = 1
    step[[ord("]"), ord("}")]] = -1
    depth = 0
    for at in range(0, len(data), _CHUNK):
        steps = step[np.frombuffer(data, np.uint8, count=min(_CHUNK, len(data) - at), offset=at)]
        running = depth + np.cumsum(steps[steps != 0], dtype=np.int64)
        if len(running) and running.max() > MAX_DEPTH:
            if _exact_depth(data) > MAX_DEPTH:
                raise InputError(f"expected at most {MAX_DEPTH} nested levels", file=file)
            return
        depth = int(running[-1]) if len(running) else depth


def _exact_depth(data: bytes) -> int:
    """Bracket depth with the strings taken out first."""
    brackets = re.sub(rb'"(?:[^"\\]|\\.)*"|[^\[\]{}"]+', b"", data, flags=re.DOTALL)
    steps = np.where(np.isin(np.frombuffer(brackets, np.uint8), [ord("["), ord("{")]), 1, -1)
    return int(np.cumsum(steps).max(initial=0))


def dump_json(document: Mapping[str, Any]) -> bytes:
    """JSON with one line per top-level key, and one per row of a list of objects."""
    lines = [f"  {json.dumps(key)}: {_value(value)}" for key, value in document.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")


def _value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"    {_compact(row)}" for row in value) + "\n  ]"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
