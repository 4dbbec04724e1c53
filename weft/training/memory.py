"""What does not fit into the memory of this machine is refused before it is asked for."""

from __future__ import annotations

import os

from weft.errors import InputError


def refuse_beyond_memory(num_bytes: int, field: str) -> None:
    """Refuse what does not fit into the memory of this machine, where the system says how much that is."""
    try:
        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # pragma: no cover - not on this system
        return
    if num_bytes > most:
        raise InputError(
            f"expected what fits into {most / 1e9:,.1f} GB of memory, got what takes {num_bytes / 1e9:,.1f} GB",
            field=field,
        )
