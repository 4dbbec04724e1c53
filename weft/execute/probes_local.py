"""Processes of this machine, to be measured."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from weft.errors import InputError
from weft.execute.probes import NAP, TRIES, Span, WorkerInfo, blob, length, nap, timed

PATIENCE = 60.0
"""Seconds until a process must answer."""


class LocalProbe:
    """One process per worker, started when it is first asked; what goes from one to another passes through here."""

    name = "local"
    is_uniform = True

    def __init__(self, workers: int | None = None) -> None:
        self._count = workers or len(os.sched_getaffinity(0))
        self._pipes: dict[str, Connection] = {}
        self._processes: list[multiprocessing.process.BaseProcess] = []

    def workers(self) -> list[WorkerInfo]:
        """As many as there are processors, unless told otherwise; memory is shared out."""
        memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // self._count)
        host = socket.gethostname()
        return [WorkerInfo(f"local-{i}", "", 1, memory, {}, host) for i in range(self._count)]

    def run(self, worker: WorkerInfo, function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
        """Call a function in the process."""
        try:
            self._pipe(worker).send((function, arguments))
        except OSError:
            raise InputError(f"the process of {worker.name} ended", field="on") from None
        except Exception as error:  # what cannot travel says so in many ways
            raise InputError(f"expected a function at the top of a module: {error}", field="kinds") from None
        value, seconds = self._answer(worker)
        return value, seconds

    def burst(self, worker: WorkerInfo, count: int) -> list[Span]:
        """Naps that wait in the pipe."""
        for i in range(count):
            self._pipe(worker).send((nap, (NAP, i)))
        return [self._answer(worker)[0] for _ in range(count)]

    def send(self, source: WorkerInfo, target: WorkerInfo, num_bytes: int) -> float:
        """Fetch bytes from one process and hand them to the other, less the time of doing so with none."""
        full, empty = (min(self._carry(source, target, n) for _ in range(TRIES)) for n in (num_bytes, 0))
        return max(0.0, full - empty)

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes.values():
            pipe.close()  # they end when there is nothing more to read
        for process in self._processes:
            process.join(2.0)
            if process.is_alive():
                process.kill()
                process.join()
        self._pipes, self._processes = {}, []

    def _carry(self, source: WorkerInfo, target: WorkerInfo, num_bytes: int) -> float:
        start = time.perf_counter()
        data, _ = self.run(source, blob, num_bytes)
        self.run(target, length, data)
        return time.perf_counter() - start

    def _pipe(self, worker: WorkerInfo) -> Connection:
        if worker.name not in self._pipes:
            context = multiprocessing.get_context("spawn")
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there,), daemon=True)
            process.start()
            there.close()
            self._processes.append(process)
            self._pipes[worker.name] = here
        return self._pipes[worker.name]

    def _answer(self, worker: WorkerInfo) -> Any:
        pipe = self._pipe(worker)
        try:
            if not pipe.poll(PATIENCE):
                raise InputError(f"{worker.name} does not answer within {PATIENCE:g} s", field="on")
            answer = pipe.recv()
        except (EOFError, OSError):
            raise InputError(f"the process of {worker.name} ended", field="on") from None
        if isinstance(answer, str):
            raise InputError(f"a probe failed on {worker.name}: {answer}", field="kinds")
        return answer


def _serve(pipe: Connection) -> None:
    """Call what is sent, one after another; on one processor, as others work beside it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # they end when whoever asks does
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    while True:
        try:
            function, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: Any = timed(function, *arguments)
        except Exception as error:  # whatever a function of the user's raises
            answer = f"{type(error).__name__}: {error}"
        pipe.send(answer)
