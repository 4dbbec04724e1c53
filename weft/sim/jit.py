"""The one place that loads numba: sets the cache folder before it does.

numba's cache watches only the file of a kernel itself, so a change in a helper module would keep
running old code. The folder is therefore named by a hash of all kernel sources and versions, and of
nothing else: a change in a scheduler that makes no kernel compiles nothing again.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.metadata
import logging
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_DECORATED = re.compile(rb"^@(?:lean_)?(?:kernel|inlined)\b", re.MULTILINE)
_IMPORTED = re.compile(rb"^from (weft\.[\w.]+) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
_CONSTANT = re.compile(rb"\b[A-Z][A-Z_0-9]*\b")


def kernel_sources(root: Path = _ROOT) -> list[Path]:
    """The files that make kernels, in whatever folder, and those whose constants they import: sorted."""
    own = {path: path.read_bytes() for path in root.rglob("*.py")}
    found: set[Path] = set()
    left = [path for path, text in own.items() if _DECORATED.search(text)]
    while left:
        path = left.pop()
        found.add(path)
        modules = (module for module, names in _IMPORTED.findall(own[path]) if _CONSTANT.search(names))
        paths = (root.parent / f"{module.decode().replace('.', '/')}.py" for module in modules)
        left += [one for one in paths if one in own and one not in found]
    return sorted(found)


def source_hash() -> str:
    """Hash of every file that makes kernels, and of the versions that compile them."""
    digest = hashlib.sha256()
    for path in kernel_sources():
        digest.update(path.relative_to(_ROOT).as_posix().encode())
        digest.update(path.read_bytes())
    for package in ("numba", "numpy", "llvmlite"):
        digest.update(importlib.metadata.version(package).encode())
    digest.update(f"{sys.version} {platform.machine()}".encode())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where compiled kernels are kept; ``WEFT_CACHE`` overrides the parent folder."""
    parent = os.environ.get("WEFT_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weft"
    )
    return Path(parent) / f"kernels-{source_hash()}"


CACHE = cache_folder()
IS_COLD = not any(CACHE.glob("**/*.nbc"))
try:
    CACHE.mkdir(parents=True, exist_ok=True)
    if not os.access(CACHE, os.W_OK):
        raise OSError(f"{CACHE} is not writable")
except OSError:  # a read-only home: compile into a folder of this process
    import tempfile

    CACHE = Path(tempfile.mkdtemp(prefix="weft-kernels-"))
    atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
    IS_COLD = True
os.environ["NUMBA_CACHE_DIR"] = str(CACHE)

import numba  # noqa: E402  the folder must be set first

numba.config.CACHE_DIR = str(CACHE)


_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call, cache on disk, release the GIL."""
    return numba.njit(**_OPTIONS, _nrt=True)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A helper of kernels that is never called from Python: compiles without the wrapper for it."""
    return numba.njit(**_OPTIONS, _nrt=True, no_cpython_wrapper=True, forceinline=True)(function)


def lean_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that makes no array, only views of those it is given: it need not count references.

    Reading an array out of a NamedTuple counts one up and down, atomically; where most statements do
    that, it takes most of the time.
    """
    return numba.njit(**_OPTIONS, _nrt=False)(function)


def lean_inlined(function: Callable[..., Any]) -> Any:
    """The same for a helper."""
    return numba.njit(**_OPTIONS, _nrt=False, no_cpython_wrapper=True, forceinline=True)(function)


_said = False


def announce() -> None:
    """Say once, on stderr, that the first use compiles; not where the log of weft is held back."""
    global _said
    if IS_COLD and not _said and logging.getLogger("weft").isEnabledFor(logging.WARNING):
        _said = True
        print(
            "weft: compiling kernels, once (about a minute in all, as they are needed) ...",
            file=sys.stderr,
            flush=True,
        )
