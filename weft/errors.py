"""The exceptions weft raises on purpose, and its warning. Everything else is a bug.

WeftError                 exit code 1
├── InputError            2   a file, field or argument is not what was expected
│   ├── UnsupportedError  2   this scheduler cannot act on this problem (the reason is the message)
│   └── MissingExtra      2   an optional package is needed; the message names the extra
├── InfeasibleError       3   the input is well-formed but no schedule exists
└── LockedError           4   another process holds the run or sweep
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where a disk, a quota or the largest file allowed is full."""


class WeftError(Exception):
    """Base of every error weft raises on purpose; ``str()`` is one line for a person."""

    code = "error"
    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        field: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.field = field
        self.line = line

    def __str__(self) -> str:
        where = self.file or ""
        if self.line is not None:
            where = f"{where}:{self.line}" if where else f"line {self.line}"
        if self.field:
            where = f"{where}: {self.field}" if where else self.field
        text = f"{where}: {self.message}" if where else self.message
        return " ".join(text.split())

    def at(self, *, file: str | None = None, field: str | None = None) -> WeftError:
        """Return this error with the place filled in where it was not known yet."""
        self.file = self.file or file
        self.field = self.field or field
        return self

    def to_dict(self) -> dict[str, object]:
        """The stable JSON form: code, message, file, field, line."""
        return {
            "code": self.code,
            "message": " ".join(self.message.split()),
            "file": self.file,
            "field": self.field,
            "line": self.line,
        }


class InputError(WeftError):
    """A file, field or argument is not what was expected."""

    code = "bad-input"
    exit_code = 2


class UnsupportedError(InputError):
    """A scheduler was asked for a problem outside what it supports."""

    code = "unsupported"


class MissingExtra(InputError):
    """An optional dependency is not installed."""

    code = "missing-extra"

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed: pip install 'weft[{extra}]' "
            f"(in a checkout: '.[{extra}]')"
        )

    def __reduce__(self) -> tuple[type[InputError], tuple[str]]:
        return (InputError, (self.message,))


class InfeasibleError(WeftError):
    """The input is well-formed, but no schedule exists."""

    code = "infeasible"
    exit_code = 3


class LockedError(WeftError):
    """Another process holds the run folder or sweep."""

    code = "locked"
    exit_code = 4


class UnknownKindWarning(UserWarning):
    """A cluster gives run times or speeds for kinds that no task has."""


def expect(value: object, kinds: type | tuple[type, ...], words: str, field: str) -> None:
    """Refuse an argument that is none of these types; ``words`` say what it should be."""
    if not isinstance(value, kinds):
        raise InputError(f"expected {words}, got {type(value).__name__}", field=field)


def expect_each(values: object, kinds: type | tuple[type, ...], words: str, field: str) -> None:
    """Refuse an argument that is no list or the like, or holds something of another type."""
    expect(values, Iterable, words, field)
    for value in values:  # type: ignore[attr-defined]
        expect(value, kinds, words, field)


def exit_code_of(work: Callable[[], None], *, go_on: str = "the same command goes on") -> int:
    """Do the work of a module that is run by itself; what goes wrong is one line on stderr.

    Parameters
    ----------
    go_on
        What to type after an interruption, in words.
    """
    try:
        work()
    except WeftError as error:
        line, code = str(error), error.exit_code
    except OSError as error:
        if error.filename is None and error.errno not in NO_ROOM:
            raise
        line, code = f"{error.filename or 'a file cannot be written'}: {error.strerror}", InputError.exit_code
    except KeyboardInterrupt:
        line, code = f"interrupted; {go_on}", INTERRUPTED
    else:
        return 0
    print(f"weft: {line}", file=sys.stderr)
    return code


def shown(value: object, longest: int = 60) -> str:
    """A value as it may appear in a message: quoted, printable, short."""
    text = repr(value[: longest + 1] if isinstance(value, str) else value)
    return text if len(text) <= longest + 2 else f"{text[:longest]}..."
