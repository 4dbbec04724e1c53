"""One decision through a session against the kernel alone: CPU microseconds, the same decisions.

Both play the same streams. The session is told every event and is timed per call; what the simulated
world around it costs is not counted. The kernel's figure includes the events between decisions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from weft import Session
from weft.evaluation.sweep.queue_runs import Outcome, play, setup_of
from weft.execute.virtual_runs import drive_queues
from weft.scenarios import StreamProblem, scenario

SCHEDULERS = "fifo,mru,eft,heavy-last-3,ppo"
EVENTS = ("arrived", "closed", "started", "vacated", "finished")


def main(arguments: list[str]) -> int:
    """Measure and print a table; 1 if a session decided otherwise than the kernel."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks session", description=__doc__)
    parser.add_argument("--schedulers", default=SCHEDULERS)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    case = scenario("conditional", jobs=options.jobs).stream("test", 0)
    print(f"{'scheduler':<16} {'decisions':>9} {'kernel us':>10} {'decide us':>10} {'event us':>9}  same")
    is_same = True
    for name in options.schedulers.split(","):
        is_same &= _measure(name, case, options.seed)
    return 0 if is_same else 1


def _measure(name: str, case: StreamProblem, seed: int) -> bool:
    few = scenario("conditional", jobs=5).stream("test", 0)
    play(name, few, [1])
    drive_queues(Session(few, name, seed=1), setup_of(few), 1)
    alone, kernel = _timed(lambda: play(name, case, [seed]))
    clock = {"decide": [0, 0], "event": [0, 0]}
    driven = drive_queues(_Timed(case, name, seed, clock), setup_of(case), seed)  # type: ignore[arg-type]
    is_same = driven.job_times.tobytes() == alone.job_times[0].tobytes()
    decide, event = (spent / count / 1e3 for spent, count in clock.values())
    each = kernel / int(alone.decisions[0]) / 1e3
    print(
        f"{name:<16} {int(alone.decisions[0]):>9} {each:>10.2f} {decide:>10.2f} {event:>9.2f}  "
        f"{'yes' if is_same else 'NO'}",
        flush=True,
    )
    return is_same


def _timed(call: Callable[[], Outcome]) -> tuple[Outcome, int]:
    started = time.process_time_ns()
    found = call()
    return found, time.process_time_ns() - started


class _Timed:
    """A session whose calls are timed: CPU nanoseconds and number, of decisions and of events."""

    def __init__(self, case: StreamProblem, name: str, seed: int, clock: dict[str, list[int]]) -> None:
        self._session = Session(case, name, seed=seed)
        for method in ("decide", *EVENTS):
            entry = clock["decide" if method == "decide" else "event"]
            setattr(self, method, self._counted(getattr(self._session, method), entry))

    has_queues = True

    @property
    def is_due(self) -> bool:
        return self._session.is_due

    @property
    def num_waiting(self) -> int:
        return self._session.num_waiting

    @staticmethod
    def _counted(call: Callable[..., object], entry: list[int]) -> Callable[..., object]:
        def timed(*given: object, **named: object) -> object:
            started = time.process_time_ns()
            found = call(*given, **named)
            entry[0] += time.process_time_ns() - started
            entry[1] += 1
            return found

        return timed
