"""Named arrays in one file: the safetensors format, read and written with NumPy alone.

A file is an 8-byte little-endian header length, a JSON header (name -> dtype, shape, offsets) and
the raw data. Nothing here runs code from a file. Imports nothing of weft but ``errors``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import InputError

Array: TypeAlias = npt.NDArray[np.generic]

MAX_HEADER = 1_000_000
"""Longest header in bytes that is read; a policy's has about 1,000."""
MAX_TENSORS = 1024

_DTYPES: dict[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_FOREIGN = {
    b"PK\x03\x04": "a zip archive (a torch .pt or NumPy .npz file?)",
    b"\x93NUMPY": "a NumPy .npy file",
    b"\x1f\x8b": "a gzip file",
    b"\x89HDF": "an HDF5 file",
    b"GGUF": "a GGUF file",
}


def below(prefix: str, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Those whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


def encode_tensors(tensors: Mapping[str, Array]) -> bytes:
    """The bytes of a safetensors file; the same tensors give the same bytes in any order."""
    arrays = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in tensors.items()}
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, object] = {}
    at = 0
    for name in order:
        array = arrays[name]
        kind = _NAMES[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = [arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False).tobytes() for name in order]
    return b"".join([len(text).to_bytes(8, "little"), text, *data])


def decode_tensors(data: bytes, file: str | None = None) -> dict[str, Array]:
    """The named arrays of a safetensors file, every offset checked before it is used.

    The arrays are copies: writable, and independent of ``data``.
    """
    start, header = _header(data, file)
    tensors: dict[str, Array] = {}
    at = 0
    for name, entry in sorted(header.items(), key=lambda item: _begin(item[1], item[0], file)):
        dtype, shape, begin, end = _entry(entry, name, file)
        if begin != at:
            raise InputError(f"expected data at offset {at}, got {begin}", file=file, field=name)
        if end > len(data) - start:
            raise InputError(
                f"is cut short: data ends at {len(data) - start}, not {end}", file=file, field=name
            )
        tensors[name] = np.frombuffer(data, dtype, (end - begin) // dtype.itemsize, start + begin).reshape(
            shape
        )
        at = end
    if at != len(data) - start:
        raise InputError(f"expected {at} bytes of data, got {len(data) - start}", file=file)
    return {name: tensors[name].copy() for name in header}


def _header(data: bytes, file: str | None) -> tuple[int, dict[str, object]]:
    """Where the data starts, and the parsed header without its free-text entry."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > MAX_HEADER:
        raise InputError(f"expected a safetensors file, got {_what_it_is(data)}", file=file)
    if size > len(data) - 8:
        raise InputError(f"is cut short: the header has {size} bytes, the file {len(data) - 8}", file=file)
    try:
        header = json.loads(data[8 : 8 + size].decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the header is not JSON: {error}", file=file) from None
    if not isinstance(header, dict):
        raise InputError(f"expected a header with names, got {type(header).__name__}", file=file)
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        raise InputError(f"expected at most {MAX_TENSORS} tensors, got {len(header)}", file=file)
    return 8 + size, header


def _what_it_is(data: bytes) -> str:
    """A file that is not safetensors, in words."""
    for magic, words in _FOREIGN.items():
        if data.startswith(magic):
            return f"{words}; weft reads no pickles or archives: export the weights as safetensors"
    if data[:1] == b"\x80" and data[1:2] in b"\x00\x01\x02\x03\x04\x05":
        return "a pickle; weft never unpickles: export the weights as safetensors"
    return f"{len(data)} bytes that begin with {data[:8]!r}"


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _begin(entry: object, name: str, file: str | None) -> tuple[int, int]:
    return _entry(entry, name, file)[2:]


def _entry(
    entry: object, name: str, file: str | None
) -> tuple[np.dtype[np.generic], tuple[int, ...], int, int]:
    """Dtype, shape, begin and end of one tensor."""
    if not isinstance(entry, dict) or sorted(entry) != ["data_offsets", "dtype", "shape"]:
        raise InputError("expected dtype, shape and data_offsets", file=file, field=name)
    dtype = _DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise InputError(
            f"expected one of {', '.join(_DTYPES)}, got {entry['dtype']!r}", file=file, field=name
        )
    shape = _whole_numbers(entry["shape"], "shape", name, file)
    offsets = _whole_numbers(entry["data_offsets"], "data_offsets", name, file)
    if len(offsets) != 2:
        raise InputError(f"expected two offsets, got {len(offsets)}", file=file, field=name)
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    if offsets[1] - offsets[0] != size:
        raise InputError(f"expected {size} bytes, got {offsets[1] - offsets[0]}", file=file, field=name)
    return dtype, shape, offsets[0], offsets[1]


def _whole_numbers(value: object, what: str, name: str, file: str | None) -> tuple[int, ...]:
    if isinstance(value, list) and len(value) <= 8 and all(type(x) is int and 0 <= x < 2**48 for x in value):
        return tuple(value)
    raise InputError(f"expected whole numbers as {what}, got {value!r}", file=file, field=name)


def sha256(data: bytes) -> str:
    """The hash of these bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def write_atomic(data: bytes, path: Path) -> None:
    """Write all or nothing, durably: temporary file, fsync, rename, fsync of the folder.

    The temporary name is fixed, so that what a killed process leaves is overwritten, not collected:
    only one process may write to a folder.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None


def sync_folder(folder: Path) -> None:
    """Make renames in this folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bytes(path: Path) -> bytes:
    """The file's bytes, or one line why not."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
