"""What verbs print: a JSON document or text on stdout, progress and hints on stderr."""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from weft.catalog import duration as duration
from weft.errors import InputError, UnknownKindWarning
from weft.io.verb_documents import document as document
from weft.io.verb_documents import finite as finite
from weft.wording import count as count
from weft.wording import number as number
from weft.wording import percent as percent
from weft.wording import size as size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Json = Mapping[str, object]

PATIENCE = 2.0
"""Seconds before a plain line says what is going on, where there is no terminal to animate."""


def emit(content: Json) -> None:
    """Print one JSON document, a line per key and per row; what is not finite becomes null."""
    lines = [f"  {json.dumps(key)}: {_value(finite(value))}" for key, value in content.items()]
    print("{\n" + ",\n".join(lines) + "\n}")


def _value(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"    {json.dumps(row, allow_nan=False)}" for row in value) + "\n  ]"
    return json.dumps(value, allow_nan=False)


def safe(text: object) -> str:
    """Text on one line without control characters: names come from files."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def safe_lines(text: object) -> str:
    """The same for text of several lines."""
    return "\n".join(safe(line) for line in str(text).split("\n"))


def say(text: str) -> None:
    """Print a result for a person."""
    print(text)


def paint(text: str) -> None:
    """Print a result that carries rich's colour tags."""
    console().print(text, markup=True, soft_wrap=True)


_is_quiet = False


@contextmanager
def loudness(*, is_quiet: bool, is_verbose: bool) -> Iterator[None]:
    """For one command: no progress and no hints, or the log as well."""
    global _is_quiet
    if is_quiet and is_verbose:
        raise InputError("give --quiet or --verbose, not both", field="--quiet")
    if not is_quiet and not is_verbose:
        yield
        return
    import logging

    log, before = logging.getLogger("weft"), logging.getLogger("weft").level
    handler = logging.StreamHandler(sys.stderr) if is_verbose else logging.NullHandler()
    handler.format = lambda record: safe(f"{record.name}: {record.getMessage()}")  # type: ignore[method-assign]
    log.addHandler(handler)
    log.setLevel(logging.INFO if is_verbose else logging.ERROR)
    _is_quiet = is_quiet
    try:
        yield
    finally:
        _is_quiet = False
        log.setLevel(before)
        log.removeHandler(handler)


def note(text: str) -> None:
    """Print progress or a hint, on stderr; nothing under --quiet."""
    if not _is_quiet:
        warn(text)


def warn(text: str) -> None:
    """Print on stderr what a person must see: an error, a fault, what was left out."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:  # nobody can be told; the work goes on, and its exit code says how it ended
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Send what is still to be written, also when the process ends, nowhere."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def is_animated() -> bool:
    """Whether progress is drawn on a terminal, not said in lines."""
    return sys.stderr.isatty() and not _is_quiet


class Interrupted(Exception):
    """Ctrl-C came, and what was done until then has been printed; ``str()`` says how much that is."""


class RunInterrupted(Exception):
    """Ctrl-C came, and the run in ``folder`` can go on."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.folder = folder


class Stop:
    """Whether Ctrl-C has asked for an end."""

    is_asked = False

    @property
    def fields(self) -> dict[str, object]:
        """What the document of an interrupted verb has more."""
        return {"interrupted": True} if self.is_asked else {}


@contextmanager
def until_interrupt(kept: str = "the best plan so far") -> Iterator[Stop]:
    """Ctrl-C lets searches and loops end with what they have; again, it raises."""
    from weft.schedulers.base import ended_by_interrupt

    stop = Stop()

    def tell() -> None:
        stop.is_asked = True
        warn(f"weft: stopping with {kept}; Ctrl-C again stops at once")

    with ended_by_interrupt(tell):
        yield stop


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Warnings of the library about what the user gave are notes, each said once."""
    said: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show_one(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, UnknownKindWarning):
                usual(message, category, *where, **more)
            elif str(message) not in said:
                said.add(str(message))
                warn(f"weft: {safe(message)}")

        warnings.simplefilter("always", UnknownKindWarning)
        warnings.showwarning = show_one
        yield


_repeated = ""


@contextmanager
def repeated(words: Sequence[str]) -> Iterator[None]:
    """While this holds, every command that is named has these options before its verb."""
    global _repeated
    _repeated = shlex.join(words)
    try:
        yield
    finally:
        _repeated = ""


def in_full(command: str) -> str:
    """A command line of weft with the options before the verb that this one was given."""
    return command.replace("weft ", f"weft {_repeated} ", 1) if _repeated else command


def next_command(command: str) -> None:
    """Name the command a person is likely to want next."""
    note(f"next: {in_full(command)}")


def console() -> Console:
    """A console on stdout; wide enough for a table where there is no terminal."""
    from rich.console import Console

    wide = None if sys.stdout.isatty() else 160
    return Console(file=sys.stdout, width=wide, markup=False, highlight=False, emoji=False)


def table(headers: Sequence[str], numeric: Sequence[str] = (), title: str | None = None) -> Table:
    """An empty table; columns named in ``numeric`` are set flush right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, title=Text(title) if title else None, title_justify="left")
    for header in headers:
        is_number = header in numeric
        justify: Literal["left", "right"] = "right" if is_number else "left"
        made.add_column(header, justify=justify, overflow="fold", no_wrap=is_number)
    return made


def show(made: Table, spare: Sequence[str] = ()) -> None:
    """Print a table without trailing blanks; on a narrow terminal without its ``spare`` columns."""
    screen = console()
    title, made.title = made.title, None
    left_out = _fit(made, screen.width, spare)
    with screen.capture() as captured:
        screen.print(made)
    lines = "\n".join(line.rstrip() for line in captured.get().splitlines()).strip("\n")
    print(f"{title}\n\n{lines}" if title else lines)
    if left_out:
        print(f"  left out in {screen.width} columns: {', '.join(left_out)} (--json has them)")


def _fit(made: Table, width: int, spare: Sequence[str]) -> list[str]:
    """Make a table narrower until it fits: headers of several lines, less padding, fewer columns."""
    left_out: list[str] = []
    if _width(made) <= width:
        return left_out
    made.padding = (0, 1, 0, 0)
    for column in made.columns:
        if column.no_wrap:
            column.header = str(column.header).strip().replace(" ", "\n")
    names = {name: name.strip().replace(" ", "\n") for name in spare}
    for name, header in names.items():
        if _width(made) > width:
            made.columns = [column for column in made.columns if column.header not in (name, header)]
            left_out.append(name)
    return left_out


def _width(made: Table, least: int = 24) -> int:
    """Columns a table needs: numbers whole, text that may be broken at least this many."""
    from rich.cells import cell_len

    _, right, _, left = made.padding
    total = 1
    for column in made.columns:
        lines = [line for cell in (column.header, *column.cells) for line in str(cell).split("\n")]
        need = max(map(cell_len, lines))
        total += (need if column.no_wrap else min(need, least)) + left + right + 1
    return total


def check_folder(path: Path | None) -> None:
    """Refuse a file whose folder is not there, before a long plan is made for it."""
    if path is not None and not path.parent.is_dir():
        raise InputError("cannot be written: no such folder", file=str(path))


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Say what takes long: a spinner on a terminal, else one line once it passes two seconds."""
    if is_animated():
        from rich.console import Console

        with Console(stderr=True, markup=False, emoji=False).status(f"{text} ..."):
            yield
        return
    late = threading.Timer(PATIENCE, note, (f"weft: {text} ...",))
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
