"""What Dask loads in workers that weft started: no page about a heartbeat that meets the end of a run. Imports nothing of weft."""

from __future__ import annotations

import logging


def dask_setup(worker: object) -> None:
    """Called by Dask in the worker's process, once it is there; what goes wrong in tasks is told otherwise."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
