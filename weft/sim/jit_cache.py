"""The files of compiled kernels, and what is said while they are made.

A folder that cannot be written, or has no room left, stops nobody: kernels then compile in every process.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any, ClassVar

from numba.core import caching, event

from weft.sim import jit_parts

_LOG = logging.getLogger(__name__)


class Locator(caching.UserProvidedCacheLocator):
    """A folder per module. Whether it can be written is seen when there is something to write."""

    folder: ClassVar[Path]

    def __init__(self, function: Any, file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno
        self._cache_path = str(self.folder / function.__module__)

    @classmethod
    def from_function(cls, function: Any, file: str) -> Locator:
        return cls(function, file)


class _KernelFile(caching.CompileResultCacheImpl):
    _locator_classes: ClassVar = [Locator]


class _PartFile(_KernelFile):
    def get_filename_base(self, name: str, flags: str) -> str:
        return f"part-{super().get_filename_base(name, flags)}"

    def reduce(self, result: Any) -> tuple[Any, ...]:
        return jit_parts.reduced(result)

    def rebuild(self, context: Any, content: tuple[Any, ...]) -> Any:
        return jit_parts.rebuilt(context, *content)


class KernelCache(caching.FunctionCache):
    """numba's cache of one function, which nothing wrong with its files can stop."""

    _impl_class = _KernelFile
    _is_lost: ClassVar[bool] = False

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            return super().load_overload(signature, context)
        except OSError:  # said when there is something to write
            return None
        except Exception:  # whatever a damaged file makes of unpickling: compiled again, and replaced
            self._write(self.flush)
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        self._write(lambda: super(KernelCache, self).save_overload(signature, result))

    @staticmethod
    def _write(write: Any) -> None:
        try:
            write()
        except OSError as error:
            if not KernelCache._is_lost:
                KernelCache._is_lost = True
                why = error.strerror or type(error).__name__
                _LOG.warning(
                    "weft cannot keep compiled kernels in %s (%s): every process compiles its own; "
                    "WEFT_CACHE names another folder",
                    Locator.folder,
                    why,
                )


class PartCache(KernelCache):
    """The same for a part of kernels."""

    _impl_class = _PartFile


class _Notice(event.Listener):
    """Says once per process that kernels compile, and logs how long each took."""

    def __init__(self) -> None:
        self._is_said, self._depth, self._started = False, 0, 0.0

    def on_start(self, what: Any) -> None:
        if not _is_own(what):
            return
        if not self._is_said:
            self._is_said = True
            _LOG.warning(NOTICE)
        if self._depth == 0:
            self._started = time.perf_counter()
        self._depth += 1

    def on_end(self, what: Any) -> None:
        if not _is_own(what):
            return
        self._depth -= 1
        if self._depth == 0:
            name = what.data["dispatcher"].py_func.__qualname__
            _LOG.info("compiled %s in %.1f s", name, time.perf_counter() - self._started)


def _is_own(what: Any) -> bool:
    return str(what.data["dispatcher"].py_func.__module__).startswith("weft.")


NOTICE = (
    "weft compiles the kernels this needs, once: where it was measured, about 6 s of one core for a first plan, "
    "110 s for all there are (weft doctor --compile) ..."
)


def keep_in(folder: Path) -> None:
    """Files go into this folder; from now on compiling is announced."""
    Locator.folder = folder
    event.register("numba:compile", _Notice())
