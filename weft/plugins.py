"""Other people's code: ``file.py:Name`` and ``package.module:Name``, and entry points of installed packages.

Code is loaded only where a person named it: on the command line (``named_by_user``) or by calling
``load``. A name that comes from a data file or a service is never loaded. What an installed package
offers under an entry point is a name like any built-in one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from weft.errors import InputError, WeftError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SCHEDULERS, SCENARIOS, FORMATS = "weft.schedulers", "weft.scenarios", "weft.formats"
"""Groups of entry points."""
FILE_MODULES = "weft_plugin_"
"""How the names of modules start that were loaded from a file."""

_CODE = re.compile(r"(?P<home>.+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")
_PREFIX = re.compile(r"(?:-[a-zA-Z])?(?:plan:)?")
"""What may stand before a name of code in a word: ``plan:mine.py:Mine``, ``-smine.py:Mine``."""
_named: set[str] = set()
_given: dict[tuple[str, str], Any] = {}
"""Objects that this process was given, by group and name."""


def is_code(name: str) -> bool:
    """Whether a name means code: ``file.py:Name`` or ``package.module:Name``."""
    return not name.startswith("plan:") and _CODE.fullmatch(name) is not None


@contextlib.contextmanager
def named_by_user(words: Iterable[str]) -> Iterator[None]:
    """While this holds, code named in these words of a command line may be loaded."""
    before = set(_named)
    allow(part for word in words for part in re.split("[,=]", word))
    try:
        yield
    finally:
        _named.clear()
        _named.update(before)


def allow(names: Iterable[str]) -> None:
    """Let these names of code be loaded from now on: a person named them."""
    for name in names:
        bare = _PREFIX.sub("", name.strip().strip("\"'"), count=1)
        if is_code(bare):
            _named.add(bare)


def allowed() -> tuple[str, ...]:
    """Names of code that may be loaded, for a process that works for this one."""
    return tuple(sorted(_named))


def refuse_code(name: str, field: str) -> None:
    """Refuse a name of code where names come from a data file."""
    if is_code(name):
        raise InputError(
            f"expected a name that weft knows, got {name!r}: no file may name code to load; "
            "name it on the command line",
            field=field,
        )


def find(group: str, name: str, builtin: Iterable[str], field: str) -> Any | None:
    """What a name that is not built in stands for: an object given, code the user named, an entry point; None: nothing."""
    if (group, name) in _given:
        return _given[group, name]
    if is_code(name):
        if name not in _named:
            raise InputError(
                f"{name!r} names code, which is loaded only where the command line names it; "
                "in Python give the object",
                field=field,
            )
        return load(name, field)
    offered = offers(group).get(name)
    return None if offered is None else offered.load(builtin, field)


def keep(group: str, given: Any, builtin: Iterable[str], field: str) -> str:
    """Keep an object that was given, to be found by its name in this process; returns the name."""
    name = getattr(given, "name", None)
    if not isinstance(name, str) or not name:
        raise InputError(f"expected an object with a text 'name', got {given!r:.60}", field=field)
    if name in builtin or is_code(name):
        raise InputError(f"{name!r} is a name of weft's own: give the object another", field=field)
    _given[group, name] = given
    return name


def forget(group: str, names: Iterable[str]) -> None:
    """Let go of objects that were kept under these names."""
    for name in names:
        _given.pop((group, name), None)


# -- code by name ----------------------------------------------------------------------------------


def load(name: str, field: str = "scheduler") -> Any:
    """The object that ``file.py:Name`` or ``package.module:Name`` stands for; runs the file or module."""
    match = _CODE.fullmatch(name)
    if match is None:
        raise InputError(f"expected file.py:Name or package.module:Name, got {name!r}", field=field)
    home, attribute = match["home"], match["name"]
    module = file_module(home, field) if home.endswith(".py") else _module(home, field)
    if not hasattr(module, attribute):
        own = [
            key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
        ]
        there = f"; there are {', '.join(own)}" if own else ""
        raise InputError(f"no {attribute!r} in it{there}", file=home, field=field)
    return getattr(module, attribute)


def file_module(home: str, field: str) -> ModuleType:
    """The module of a file, run once per process; files beside it can be imported from it."""
    path = Path(home).resolve()
    if not path.is_file():
        raise InputError("expected a Python file, found none", file=home, field=field)
    name = f"{FILE_MODULES}{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError("expected a Python file", file=home, field=field)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with blamed(f"{path.name} cannot be loaded", home, field):
            spec.loader.exec_module(module)
    except InputError:
        del sys.modules[name]
        raise
    return module


def _module(home: str, field: str) -> ModuleType:
    try:
        is_there = importlib.util.find_spec(home) is not None
    except ImportError:
        is_there = False
    if not is_there:
        raise InputError(f"no module {home!r} is installed (a file is named as in file.py:Name)", field=field)
    with blamed(f"module {home} cannot be loaded", "", field):
        return importlib.import_module(home)


@contextlib.contextmanager
def blamed(what: str, file: str = "", field: str | None = None) -> Iterator[None]:
    """Errors of other people's code as one line with the place in their file; the cause stays attached."""
    try:
        yield
    except WeftError:
        raise
    except (Exception, SystemExit) as error:
        where, line = _place(error, file)
        text = f"{what}: {type(error).__name__}: {error}" if str(error) else f"{what}: {type(error).__name__}"
        raise InputError(text, file=where, field=field, line=line) from error


def _place(error: BaseException, file: str) -> tuple[str | None, int | None]:
    """File and line where an error came up: the last in ``file`` if given, else outside weft."""
    if isinstance(error, SyntaxError) and error.filename:
        return (file or error.filename), error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    wanted = str(Path(file).resolve()) if file else ""
    for frame in reversed(frames):
        if frame.filename == wanted or (not wanted and not _is_internal(frame.filename)):
            return (file or frame.filename), frame.lineno
    return (file or None), None


def _is_internal(filename: str) -> bool:
    inside = Path(__file__).resolve().parent
    return filename.startswith("<") or Path(filename).resolve().is_relative_to(inside)


def made(found: Any, name: str, field: str) -> Any:
    """The object itself, or one of the class that was given."""
    if not isinstance(found, type):
        return found
    with blamed(f"{name} cannot be made without arguments", field=field):
        return found()


# -- entry points ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offer:
    """One entry point, or several of one name; nothing is loaded yet."""

    name: str
    points: tuple[EntryPoint, ...]

    @property
    def origin(self) -> str:
        """The packages it comes from, with versions."""
        found = [one.dist for one in self.points]
        return " and ".join(f"{d.name} {d.version}" if d is not None else "an unknown package" for d in found)

    def refusal(self, builtin: Iterable[str]) -> str | None:
        """Why this name cannot be used, or None."""
        if self.name in builtin:
            return f"{self.origin} offers {self.name!r}, which is the name of a built-in one: refused"
        if len(self.points) > 1:
            return f"{self.origin} all offer {self.name!r}: refused, uninstall all but one"
        if is_code(self.name):
            return f"{self.origin} offers {self.name!r}, which reads as the name of code: refused"
        return None

    def load(self, builtin: Iterable[str] = (), field: str | None = None) -> Any:
        """The object it stands for."""
        reason = self.refusal(builtin)
        if reason is not None:
            raise InputError(reason, field=field)
        with blamed(f"{self.name!r} of {self.origin} cannot be loaded", field=field):
            return self.points[0].load()


@functools.cache
def offers(group: str) -> Mapping[str, Offer]:
    """What installed packages offer in a group, by name; looked up once per process, sorted."""
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        if not any(_is_same(point, other) for other in found.get(point.name, [])):
            found.setdefault(point.name, []).append(point)
    return {name: Offer(name, tuple(found[name])) for name in sorted(found)}


def _is_same(one: EntryPoint, other: EntryPoint) -> bool:
    """Whether two entry points are one package's, seen twice on the path."""
    names = [point.dist.name if point.dist is not None else "" for point in (one, other)]
    return one.value == other.value and names[0] == names[1]


def version(group: str, name: str) -> str:
    """What tells two states of other people's code apart: the hash of its file, or the package's version."""
    if (group, name) in _given:
        given = _given[group, name]
        return _source_hash(f"{(given if isinstance(given, type) else type(given)).__module__}:")
    if is_code(name):
        return _source_hash(name)
    return offers(group)[name].origin if name in offers(group) else ""


def _source_hash(name: str) -> str:
    home = name.rpartition(":")[0]
    file = home if home.endswith(".py") else str(getattr(sys.modules.get(home), "__file__", ""))
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if Path(file).is_file() else ""
