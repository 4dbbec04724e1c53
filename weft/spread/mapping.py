"""One function on many things, wherever there is room: on Ray or on Dask; results come as they are ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from weft.errors import InputError, WeftError
from weft.spread.places import by_address
from weft.spread.ray import connect as connect_ray

T = TypeVar("T")
R = TypeVar("R")
RAY, DASK = ENGINES = ("ray", "dask")
_RETRIES = 3
"""How often a call is made again whose machine was lost."""


def check_engine(engine: str | None, address: str | None) -> str | None:
    """The engine, if there is such a one; an address alone says which it is."""
    if engine is None and address is not None:
        engine = RAY if address.startswith("ray") else DASK
    if engine is not None and engine not in ENGINES:
        raise InputError(f"expected one of {', '.join(ENGINES)}, got {engine!r}", field="engine")
    return engine


def each(
    engine: str, address: str | None, num_at_once: int, call: Callable[[T], R], things: Sequence[T]
) -> Iterator[R]:
    """The results of a call for each thing, in the order in which they are ready.

    ``call`` must be importable on all machines. ``num_at_once`` is how many a cluster of our own is for.
    """
    make = _on_ray if engine == RAY else _on_dask
    yield from make(address, num_at_once, call, things)


def _on_ray(
    address: str | None, num_at_once: int, call: Callable[[T], R], things: Sequence[T]
) -> Iterator[R]:
    with connect_ray(address, num_at_once):
        import ray
        from ray.exceptions import RayError, RayTaskError

        remote: Any = ray.remote(num_cpus=1, max_retries=_RETRIES)(_called)
        left = [remote.remote(call, one) for one in things]
        try:
            while left:
                (done,), left = ray.wait(left, num_returns=1)
                try:
                    yield ray.get(done)
                except RayTaskError as error:
                    raise (error.cause if isinstance(error.cause, WeftError) else error) from None
                except RayError as error:
                    raise WeftError(f"Ray lost a row {_RETRIES + 1} times: {type(error).__name__}") from None
        finally:
            for one in left:
                ray.cancel(one, force=True)


def _on_dask(
    address: str | None, num_at_once: int, call: Callable[[T], R], things: Sequence[T]
) -> Iterator[R]:
    from weft.execute.dask_connect import LocalWorker, connect, distributed

    workers = [LocalWorker(f"worker-{k}") for k in range(num_at_once)] if address is None else []
    with by_address():
        reached = connect(address or DASK, workers)
    with reached as connection:
        client = connection.client
        left = [client.submit(_called, call, one, pure=False, retries=_RETRIES) for one in things]
        try:
            for future in distributed().as_completed(left, loop=client.loop):
                yield future.result()
        finally:
            client.cancel(left)


def _called(call: Callable[[T], R], thing: T) -> R:
    return call(thing)
