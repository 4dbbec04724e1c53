"""Roles as actors of Ray: what they return stays in Ray's store, and goes from there to whoever is given it."""

from __future__ import annotations

from functools import cache
from typing import Any

from weft.errors import InputError
from weft.spread.ray import connect
from weft.training.distributed.transport import Answer, Call, Failed, Lost, Make, Part


class Host:
    """What runs in an actor of Ray: makes a role and calls its methods."""

    def __init__(self, make: Make, given: tuple[object, ...]) -> None:
        self._role = make(*given)

    def run(self, method: str, *given: object) -> Any:
        """Call a method of the role; what it refuses is returned as the first part, for it cannot travel as an error."""
        return getattr(self._role, method)(*given)

    def process(self) -> int:
        """The number of the process, and that the role is made."""
        import os

        return os.getpid()

    def node(self) -> str:
        """The node of the cluster that it is on."""
        import ray

        return str(ray.get_runtime_context().get_node_id())


@cache
def _host() -> Any:
    import ray

    remote: Any = ray.remote
    return remote(num_cpus=0, max_restarts=0, max_task_retries=0)(Host)


class RayTransport:
    """A :class:`weft.training.distributed.transport.Transport` on a Ray cluster.

    Parameters
    ----------
    address
        ``ray://HOST:PORT``; None: a Ray of this machine's own.
    num_roles
        Roles that a Ray of our own is for.
    """

    def __init__(self, address: str | None = None, num_roles: int = 4) -> None:
        self._connection = connect(address, num_roles)
        self._actors: dict[str, Any] = {}
        self._refs: dict[int, list[Any]] = {}
        self._calls: dict[int, Call] = {}
        self._gone: list[Answer] = []
        self._number = 0

    def start(self, role: str, make: Make, *given: object) -> None:
        self._actors[role] = _host().options(scheduling_strategy="SPREAD").remote(make, given)

    def pid(self, role: str) -> int:
        """The process of a role."""
        import ray

        return int(ray.get(self._actors[role].process.remote()))

    def nodes(self) -> dict[str, str]:
        """Role -> the node that it is on; waits until all are made."""
        import ray

        return dict(
            zip(self._actors, ray.get([actor.node.remote() for actor in self._actors.values()]), strict=True)
        )

    def put(self, value: object) -> Part:
        import ray

        call = self._next("", "put")
        self._refs[call.number] = [ray.put(value)]
        return Part(call, 0)

    def _next(self, role: str, method: str) -> Call:
        self._number += 1
        return Call(self._number - 1, role, method)

    def call(self, role: str, method: str, *given: object, parts: int = 1) -> Call:
        call = self._next(role, method)
        if role not in self._actors:
            self._gone.append(Answer(call, Lost(role)))
            return call
        sent = [self._refs[x.call.number][x.which] if isinstance(x, Part) else x for x in given]
        found = self._actors[role].run.options(num_returns=parts).remote(method, *sent)
        self._refs[call.number] = [found] if parts == 1 else list(found)
        self._calls[call.number] = call
        return call

    def answers(self, timeout: float | None) -> list[Answer]:
        import ray

        found, self._gone = self._gone, []
        by_ref = {self._refs[number][0]: call for number, call in self._calls.items()}
        if not by_ref:
            return found
        ready, _ = ray.wait(list(by_ref), num_returns=1, timeout=0 if found else timeout, fetch_local=False)
        if ready:  # whatever else is there too
            ready, _ = ray.wait(list(by_ref), num_returns=len(by_ref), timeout=0, fetch_local=False)
        for ref in ready:
            call = by_ref[ref]
            del self._calls[call.number]
            found.append(Answer(call, self._error(call, ref)))
        return found

    def _error(self, call: Call, ref: Any) -> Exception | None:
        """How a call failed; None: it did not."""
        import ray
        from ray.exceptions import RayActorError, RayError, RayTaskError

        try:
            ray.get(ref)
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, InputError):
                return cause
            return Failed(call.role, f"{call.method}: {type(cause).__name__}: {cause}"[:300])
        except RayActorError as error:
            return Lost(call.role, _said(error))
        except RayError as error:  # what it was given is gone with a node
            return Failed(call.role, f"{call.method}: {type(error).__name__}")
        return None

    def value(self, call: Call, which: int = 0) -> Any:
        import ray

        return ray.get(self._refs[call.number][which])

    def drop(self, call: Call) -> None:
        self._refs.pop(call.number, None)

    def stop(self, role: str) -> None:
        import ray

        actor = self._actors.pop(role, None)
        if actor is not None:
            ray.kill(actor, no_restart=True)
        for number in [number for number, call in self._calls.items() if call.role == role]:
            del self._calls[number]

    def close(self) -> None:
        for role in list(self._actors):
            self.stop(role)
        self._refs.clear()
        self._connection.close()


def _said(error: Exception) -> str:
    """What Ray says of an actor that is gone: of one that could not be made the cause, which comes last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if "creation task" in lines[0] else lines[0])[:160]
