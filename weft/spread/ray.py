"""A Ray to spread work over: one of this machine's own, or a cluster that runs."""

from __future__ import annotations

from weft.execute.ray_connect import OWN, Connection
from weft.execute.ray_connect import connect as reach


def connect(address: str | None, num_cpus: int) -> Connection:
    """Reach the Ray at ``ray://HOST:PORT``, or start one for so many at a time; closing it ends what was started."""
    return reach(OWN, [("role", num_cpus)]) if address is None else reach(address)
