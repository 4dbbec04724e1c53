"""The files of compiled kernels.

A folder that cannot be written, or has no room left, stops nobody: kernels then compile in every process.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar

from numba.core import caching

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


def keep_in(folder: Path) -> None:
    """Files go into this folder."""
    Locator.folder = folder
