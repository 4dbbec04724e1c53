"""A Ray to spread work over: one of this machine's own, or a cluster that runs."""

from __future__ import annotations

from weft.execute.ray_connect import OWN, Connection, check_address, ray_package
from weft.execute.ray_connect import connect as reach
from weft.spread.places import by_address


def connect(address: str | None, num_cpus: int) -> Connection:
    """Reach the Ray at ``ray://HOST:PORT``, or start one for so many at a time; closing it ends what was started."""
    with by_address():
        return reach(OWN, [("role", num_cpus)]) if address is None else reach(address)


def check(address: str | None) -> None:
    """Refuse a Ray that is not installed, or an address where none answers, without connecting to it."""
    with by_address():
        ray_package()
        if address is not None:
            check_address(address)
