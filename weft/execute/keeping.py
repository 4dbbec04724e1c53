"""Results of tasks on disk, in forms that cannot run anything when they are read: JSON, raw bytes, NumPy's npy.

Kept are None, truth values, numbers, texts, bytes, lists, tuples and dicts of them, and NumPy arrays and
scalars without Python objects. ``result.json`` is written last and names the other files with their checksums, so a
result is there as a whole or not at all. Part of what workers load: the standard library, NumPy on demand.
"""

from __future__ import annotations

import io
import json
import math
import os
import secrets
import zlib
from pathlib import Path
from typing import Any

from weft.execute.work import rehearsed

SCHEMA = "weft/result/1"
RESULT = "result.json"
_DEEPEST = 100
_INLINE = 1024
"""Bytes up to which a part is written into the JSON file, as hexadecimal digits."""


class NotKept(Exception):
    """No result that can be read is kept there."""


class _CannotKeep(Exception):
    pass


def keep(value: Any, folder: str | Path) -> bool:
    """Keep a result in a folder; False: it holds something that has no safe form, and nothing is kept."""
    kept_parts = _Parts(Path(folder))
    try:
        _commit(kept_parts.form_of(value), kept_parts)
    except _CannotKeep:
        kept_parts.discard()
        return False
    except BaseException:
        kept_parts.discard()
        raise
    return True


def keep_rehearsed(size: int, folder: str | Path) -> None:
    """Keep the result of a rehearsal: only how large it is."""
    _commit({"rehearsed": size}, _Parts(Path(folder)))


def kept(folder: str | Path) -> Any:
    """The result that is kept in a folder; raises ``NotKept`` where there is none, or not a whole one."""
    home = Path(folder)
    try:
        document = json.loads((home / RESULT).read_bytes())
        if document["schema"] != SCHEMA:
            raise NotKept(f"{home / RESULT}: expected {SCHEMA!r}")
        return _value(document["value"], home)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, EOFError) as error:
        raise NotKept(f"{home / RESULT}: {error}") from None


def _commit(form: Any, parts: _Parts) -> None:
    text = json.dumps({"schema": SCHEMA, "value": form}, allow_nan=False, separators=(",", ":"))
    earlier = _parts_named(parts.folder)
    _write(parts.folder / RESULT, text.encode("ascii"))
    for name in earlier - set(parts.names):
        (parts.folder / name).unlink(missing_ok=True)


def _parts_named(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("result.*.*") if path.suffix in (".npy", ".bin")}


def _write(path: Path, data: bytes) -> None:
    """All or nothing."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class _Parts:
    """What is too large for the JSON file, in files of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []
        self._token = secrets.token_hex(4)

    def form_of(self, value: Any, depth: int = 0) -> Any:
        """What stands for a value in the JSON file."""
        if depth > _DEEPEST:
            raise _CannotKeep
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return _checked(value)
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return [self.form_of(one, depth + 1) for one in value]
        if kind is tuple:
            return {"tuple": [self.form_of(one, depth + 1) for one in value]}
        if kind is dict:
            forms = [
                [self.form_of(key, depth + 1), self.form_of(one, depth + 1)] for key, one in value.items()
            ]
            return {"dict": forms}
        if kind in (bytes, bytearray):
            return {kind.__name__: self._part(bytes(value), "bin")}
        return self._array(value)

    def _array(self, value: Any) -> Any:
        if type(value).__module__.partition(".")[0] != "numpy":
            raise _CannotKeep
        import numpy as np

        is_scalar = isinstance(value, np.generic)
        if not is_scalar and type(value) is not np.ndarray:
            raise _CannotKeep
        if value.dtype.hasobject:
            raise _CannotKeep
        file = io.BytesIO()
        np.save(file, value, allow_pickle=False)
        return {"scalar" if is_scalar else "array": self._part(file.getvalue(), "npy")}

    def _part(self, data: bytes, suffix: str) -> Any:
        if len(data) <= _INLINE:
            return data.hex()
        name = f"result.{self._token}.{len(self.names)}.{suffix}"
        self.names.append(name)
        _write(self.folder / name, data)
        return {"file": name, "size": len(data), "crc32": zlib.crc32(data)}

    def discard(self) -> None:
        """Remove what was written."""
        for name in self.names:
            (self.folder / name).unlink(missing_ok=True)


def _checked(value: Any) -> Any:
    """A value that JSON holds as it is; whole numbers only as long as Python reads them."""
    if type(value) is int and value.bit_length() > 14_000:
        raise _CannotKeep
    return value


def _value(form: Any, home: Path) -> Any:
    if isinstance(form, list):
        return [_value(one, home) for one in form]
    if not isinstance(form, dict):
        return form
    ((kind, inner),) = form.items()
    if kind == "tuple":
        return tuple(_value(one, home) for one in inner)
    if kind == "dict":
        return {_value(key, home): _value(one, home) for key, one in inner}
    if kind == "float":
        return float(inner)
    if kind == "rehearsed":
        return rehearsed(int(inner))
    data = _data(inner, home)
    if kind in ("bytes", "bytearray"):
        return data if kind == "bytes" else bytearray(data)
    if kind not in ("array", "scalar"):
        raise NotKept(f"{home / RESULT}: unknown form {kind!r}")
    import numpy as np

    array = np.load(io.BytesIO(data), allow_pickle=False)
    return array[()] if kind == "scalar" else array


def _data(part: Any, home: Path) -> bytes:
    """Bytes written inline or in a file of the same folder."""
    if isinstance(part, str):
        return bytes.fromhex(part)
    name = part["file"]
    if Path(name).name != name:
        raise NotKept(f"{home / RESULT}: {name!r} is no file of its folder")
    data = (home / name).read_bytes()
    if len(data) != part["size"] or zlib.crc32(data) != part["crc32"]:
        raise NotKept(f"{home / name}: damaged")
    return data
