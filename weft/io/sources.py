"""Bytes in and out: size limit, kinds of file that are refused, encodings, errors with their place, atomic writes."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from weft.errors import InputError, WeftError
from weft.errors import shown as shown

_LOG = logging.getLogger(__name__)

DEFAULT_LIMIT = 256_000_000
"""Largest file read, in bytes, unless the caller or the environment says otherwise."""
LIMIT_VARIABLE = "WEFT_MAX_BYTES"

_REFUSED = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstandard archive"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "an image"),
    (b"\x93NUMPY", "a NumPy array file"),
    (b"SQLite format 3", "a database"),
    (b"\x7fELF", "a program"),
)
_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_LONGEST_TEXT = 240


def size_limit(limit_bytes: int | None) -> int:
    """The limit in force: the argument, else ``WEFT_MAX_BYTES``, else the default."""
    if limit_bytes is not None:
        return limit_bytes
    given = os.environ.get(LIMIT_VARIABLE)
    if given is None:
        return DEFAULT_LIMIT
    if not given.isascii() or not given.isdigit():
        raise InputError(f"expected a number of bytes, got {shown(given)}", field=LIMIT_VARIABLE)
    return int(given)


def read_bytes(path: str | Path, limit_bytes: int | None = None) -> bytes:
    """Content of a regular file within the limit; anything else is one line that says why not."""
    limit = size_limit(limit_bytes)
    file = str(path)
    try:
        with open(path, "rb", opener=_open_without_waiting) as handle:
            status = os.fstat(handle.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError("expected a file, got a device or pipe", file=file)
            if status.st_size > limit:
                _refuse_size(status.st_size, limit, file)
            data = handle.read(limit + 1)
    except (OSError, ValueError) as error:
        raise InputError(_reason(error), file=file) from None
    if len(data) > limit:
        _refuse_size(len(data), limit, file)
    _refuse_binary(data, file)
    return data


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _refuse_size(size: int, limit: int, file: str) -> None:
    raise InputError(
        f"the file has {size} bytes, the limit is {limit}: raise it with {LIMIT_VARIABLE} or limit_bytes",
        file=file,
    )


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "expected a file, got a folder"
    if isinstance(error, PermissionError):
        return "no permission to open it"
    if isinstance(error, OSError):
        return f"cannot be opened: {error.strerror}"
    return f"cannot be opened: {error}"


def _refuse_binary(data: bytes, file: str) -> None:
    if not data.strip():
        raise InputError("the file is empty", file=file)
    if data[:1] == b"\x80" and data[1:2] <= b"\x05":
        raise InputError("this is a Python pickle; weft never loads one", file=file)
    for magic, what in _REFUSED:
        if data.startswith(magic):
            raise InputError(f"expected a workflow, cluster or schedule, got {what}", file=file)


def decode(data: bytes, path: str | Path) -> str:
    """UTF-8 text, with or without byte order mark."""
    file = str(path)
    if data.startswith(_WIDE) or b"\x00" in data[:4]:
        raise InputError("expected UTF-8 text, got UTF-16 or UTF-32: save the file as UTF-8", file=file)
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"expected UTF-8 text, got the byte 0x{data[error.start]:02x}", file=file, line=line
        ) from None
    if "\x00" in text:
        line = text.count("\n", 0, text.index("\x00")) + 1
        raise InputError("expected text, got a zero byte", file=file, line=line)
    return text


def printable(text: str) -> str:
    """The text on one line without control or direction characters, cut if very long."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if len(text) > _LONGEST_TEXT:
        return f"{text[:_LONGEST_TEXT]}..."
    return text


@contextlib.contextmanager
def located(path: str | Path | None, field: str | None = None) -> Iterator[None]:
    """Fill in file and field of an error that does not know them, and make it printable."""
    try:
        yield
    except WeftError as error:
        error.at(file=None if path is None else str(path), field=field)
        error.message = printable(error.message)
        error.field = None if error.field is None else printable(error.field)
        raise


@contextlib.contextmanager
def inside(place: str) -> Iterator[None]:
    """Put the place of an inner document in front of the fields of its errors."""
    try:
        yield
    except WeftError as error:
        error.field = f"{place}.{error.field}" if error.field else place
        raise


@contextlib.contextmanager
def named_in(path: str | Path, field: str) -> Iterator[None]:
    """An error in another file says where that file was named; one of the name itself is of this place."""
    try:
        yield
    except WeftError as error:
        if error.file is None:
            error.file, error.field = str(path), field
        else:
            error.message += f" (named in {path}: {field})"
        raise


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """No garbage collection while many small objects are made: a large file loads in half the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def write_bytes(data: bytes, path: str | Path) -> None:
    """Write all or nothing: a temporary file in the same folder, synced, then renamed.

    A link stays a link: the file it leads to is replaced. A device or pipe is written to as it is.
    """
    with writing(path):
        if _is_stream(path):
            with open(path, "wb") as handle:
                handle.write(data)
        else:
            _replace_file(data, Path(os.path.realpath(path)))
            _LOG.info("wrote %s: %d bytes", path, len(data))


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """What goes wrong while this file is written is one line that names it: the system's often does not."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise InputError(_write_reason(error), file=str(path)) from None


def _is_stream(path: str | Path) -> bool:
    """Whether there is something at the path that renaming a file onto it would destroy."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _replace_file(data: bytes, target: Path) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "xb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "cannot be written: no such folder"
    return f"cannot be written: {error.strerror if isinstance(error, OSError) else error}"
