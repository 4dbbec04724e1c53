"""What is said while kernels compile."""

from __future__ import annotations

import logging
import time
from typing import Any

from numba.core import event

_LOG = logging.getLogger(__name__)


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
    "weft compiles the kernels this needs, once: about 6 s of one core for a first plan, 110 s for all there are "
    "(weft doctor --compile), more on a slow or busy machine ..."
)


def announce() -> None:
    """From now on, say so when kernels compile."""
    event.register("numba:compile", _Notice())
