"""What makes a function a kernel, and where compiled kernels are kept.

numba's cache watches only the file of a kernel itself, so a change in a helper module would keep
running old code. The folder is therefore named by a hash of all kernel sources and versions, and of
nothing else: a change in a scheduler that makes no kernel compiles nothing again.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from weft.sim.jit_notice import announce

KNOWN = ("0.68.",)
"""Versions of numba whose inner parts are known, so that helpers compile only with the kernels they are part of.
With any other, kernels are the same but take about twice as long to compile."""
IS_KNOWN = numba.__version__.startswith(KNOWN)

_ROOT = Path(__file__).resolve().parent.parent
_DECORATED = re.compile(rb"^@(?:lean_)?(?:kernel|inlined|inlined_kernel)\b", re.MULTILINE)
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
    """Hash of every file that makes kernels or says how, and of the versions that compile them."""
    digest = hashlib.sha256()
    for path in (*kernel_sources(), *sorted(_ROOT.glob("sim/jit*.py"))):
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
if IS_KNOWN:
    from weft.sim.jit_cache import KernelCache, PartCache, keep_in
    from weft.sim.jit_parts import PartCompiler

    keep_in(CACHE)
else:
    numba.config.CACHE_DIR = str(CACHE)
announce()

_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call, cache on disk, release the GIL."""
    return _kernel(function, counts=True)


def inlined(function: Callable[..., Any]) -> Any:
    """A helper of kernels that is never called from Python: compiles only as a part of them."""
    return _part(function, counts=True, forceinline=True)


def lean_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that makes no array, only views of those it is given: it need not count references.

    Reading an array out of a NamedTuple counts one up and down, atomically; where most statements do
    that, it takes most of the time, also of compiling.
    """
    return _kernel(function, counts=False)


def lean_inlined_kernel(function: Callable[..., Any]) -> Any:
    """The same, inlined where another kernel calls it: a call with NamedTuples passes hundreds of values."""
    return _kernel(function, counts=False, forceinline=True)


def lean_inlined(function: Callable[..., Any]) -> Any:
    """The same for a helper."""
    return _part(function, counts=False, forceinline=True)


def _kernel(function: Callable[..., Any], *, counts: bool, forceinline: bool = False) -> Any:
    """A kernel; where another kernel calls it, it is a part of that one."""
    if not IS_KNOWN:
        return numba.njit(**_OPTIONS, _nrt=counts, cache=True, forceinline=forceinline)(function)
    made = numba.njit(**_OPTIONS, _nrt=counts)(function)
    made._cache = KernelCache(function)  # noqa: SLF001  what cache=True does, with files of our own
    part = _part(function, counts=counts, forceinline=forceinline)
    made.get_call_template, made.get_overload = part.get_call_template, part.get_overload
    return made


def _part(function: Callable[..., Any], *, counts: bool, forceinline: bool = False) -> Any:
    options = _OPTIONS | {"no_cpython_wrapper": True, "forceinline": forceinline}
    if not IS_KNOWN:
        return numba.njit(**options, _nrt=counts, cache=True)(function)
    made = numba.njit(**options, _nrt=counts, pipeline_class=PartCompiler)(function)
    made._cache = PartCache(function)  # noqa: SLF001
    return made
