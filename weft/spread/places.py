"""Names of arguments: what engines call ``on`` is an address where work is spread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import WeftError


@contextmanager
def by_address() -> Iterator[None]:
    """An error about where a cluster is names the address."""
    try:
        yield
    except WeftError as error:
        error.field = "address" if error.field == "on" else error.field
        raise
