"""The table of file formats. A format is a module with ``detect(head, path)`` and ``read(data, path)``.

Formats that are not weft's are objects or modules with the same two functions, ``name``, ``suffixes``,
and ``dump(graph)`` if they are written too: registered here, or entry points ``weft.formats`` of
installed packages.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.plugins import FORMATS as GROUP
from weft.plugins import blamed, load, made, offers

if TYPE_CHECKING:
    from weft.io.problems import Posed

HEAD_BYTES = 4096
"""How much of a file ``detect`` gets to see."""


@dataclass(frozen=True)
class Loaded:
    """What a file held; a reader fills in what its format knows."""

    graph: TaskGraph | None = None
    cluster: Cluster | None = None
    problem: Problem | None = None
    posed: Posed | None = None
    """Jobs that are a problem once there is a cluster."""


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


class OwnFormat:
    """A format that is not weft's, watched: errors name it, and what it returns is checked."""

    def __init__(self, inner: Any, name: str = "") -> None:
        self._inner = inner
        self.name = name or str(getattr(inner, "name", ""))
        self.suffixes = tuple(str(suffix).lower() for suffix in getattr(inner, "suffixes", ()))
        for method in ("detect", "read"):
            if not callable(getattr(inner, method, None)):
                raise self._refusal(f"has no function {method!r}")
        if not self.name:
            raise self._refusal("has no text 'name'")
        if not all(suffix.startswith(".") for suffix in self.suffixes):
            raise self._refusal(f"has suffixes that do not begin with a dot: {', '.join(self.suffixes)}")

    @property
    def reader(self) -> Reader:
        """Itself."""
        return self

    @property
    def can_write(self) -> bool:
        """Whether it writes graphs."""
        return callable(getattr(self._inner, "dump", None))

    def detect(self, head: bytes, path: Path) -> bool:
        """Whether the first bytes of a file look like this format."""
        with blamed(f"format {self.name!r} failed to look at the file"):
            return bool(self._inner.detect(head, path))

    def read(self, data: bytes, path: Path) -> Loaded:
        """What the file holds; a graph, cluster or problem is taken as it is."""
        with blamed(f"format {self.name!r} failed to read the file"):
            found = self._inner.read(data, path)
        if isinstance(found, Loaded):
            return found
        if isinstance(found, TaskGraph):
            return Loaded(graph=found)
        if isinstance(found, Cluster):
            return Loaded(cluster=found)
        if isinstance(found, Problem):
            return Loaded(problem=found)
        kind_of = type(found).__name__
        raise InputError(f"format {self.name!r}: expected a graph, cluster or problem, got {kind_of}")

    def dump(self, graph: TaskGraph) -> bytes:
        """The graph as the content of a file."""
        with blamed(f"format {self.name!r} failed to write the graph"):
            found = self._inner.dump(graph)
        if not isinstance(found, bytes):
            raise InputError(f"format {self.name!r}: expected bytes, got {type(found).__name__}")
        return found

    def _refusal(self, what: str) -> InputError:
        title = getattr(self._inner, "__name__", type(self._inner).__qualname__)
        return InputError(f"expected a file format, and {title} {what}", field="format")


_registered: list[OwnFormat] = []


def register(given: Any) -> OwnFormat:
    """Read (and write, if it can) files of a format that is not weft's, in this process.

    Parameters
    ----------
    given
        An object, class or module with ``name``, ``suffixes``, ``detect(head, path)`` and ``read(data, path)``,
        which returns a graph, cluster, problem or ``Loaded``; with ``dump(graph)``, which returns bytes, it is
        written too. It is asked before weft's own formats.
    """
    title = getattr(given, "__name__", type(given).__qualname__)
    form = OwnFormat(made(given, title, "format"))
    _refuse_taken(form)
    _registered.append(form)
    return form


_named: list[str] = []


def register_code(names: Iterable[str]) -> None:
    """Register formats by the code that the command line names, here and in processes that work for this one."""
    for name in names:
        register(load(name, "--format"))
        _named.append(name)


def named() -> tuple[str, ...]:
    """Code of the formats that the command line named."""
    return tuple(_named)


@contextmanager
def kept() -> Iterator[None]:
    """What is registered while this holds is forgotten after it."""
    before = list(_registered), list(_named)
    try:
        yield
    finally:
        _registered[:], _named[:] = before


def _refuse_taken(form: OwnFormat) -> None:
    taken = [one.name for one in FORMATS] + [one.name for one in _registered]
    if form.name.lower() in map(str.lower, taken):
        raise InputError(f"format {form.name!r} is there already", field="format")


def _offered() -> tuple[OwnFormat, ...]:
    """Formats of installed packages; one that cannot be used is left out with a warning, so that it blocks no other."""
    builtin, found = {form.name for form in FORMATS}, []
    for name, one in offers(GROUP).items():
        try:
            found.append(OwnFormat(made(one.load(builtin, "format"), name, "format"), name))
        except InputError as error:
            warnings.warn(f"format {name} (from {one.origin}) is left out: {error}", stacklevel=2)
    return tuple(found)


def own_formats() -> tuple[OwnFormat, ...]:
    """All formats that are not weft's: registered ones, then those of packages."""
    return (*_registered, *_offered())


def find_format(data: bytes, path: Path) -> Format | OwnFormat:
    """The format of a file: by content, else by suffix.

    Registered formats are asked first. Those of packages come after weft's own, but before them where
    the suffix is none of weft's: only there are packages looked for.
    """
    head = data[:HEAD_BYTES]
    suffix = path.suffix.lower()
    for form in _in_turn(suffix):
        if form.reader.detect(head, path):
            return form
    known: list[Format | OwnFormat] = [*_registered, *FORMATS, *_offered()]
    for form in known:
        if suffix in form.suffixes:
            return form
    names = ", ".join(form.name for form in known)
    raise InputError(f"expected one of the formats {names}; the content looks like none", file=str(path))


def _in_turn(suffix: str) -> Iterator[Format | OwnFormat]:
    """Formats in the order in which they are asked; packages are looked for when their turn comes."""
    yield from _registered
    is_foreign = not any(suffix in form.suffixes for form in FORMATS)
    if is_foreign:
        yield from _offered()
    yield from FORMATS
    if not is_foreign:
        yield from _offered()
