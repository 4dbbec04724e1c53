"""What one command asks for, and how figures become a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import mean, median

from benchmarks._execute.rows import Row, Rows
from benchmarks._execute.world import Shape


@dataclass
class Bench:
    """Options of a command, what was measured, and which targets were missed."""

    rows: Rows
    runs: int = 10
    median: float = 0.6
    """Of the tasks' costs at speed 1, in seconds."""
    models: tuple[str, ...] = ("related", "affinity")
    is_quick: bool = False
    gap: str = "session"
    """Where plans have the time between tasks from: ``session``, other runs before; ``probe``, calibration."""
    on: tuple[str, ...] = ("dask", "ray")
    load: float = 0.8
    """Share of the workers' capacity that streams ask for."""
    troubles: tuple[str, ...] = ()
    """Of the part about noise; all unless given."""
    lane: tuple[int, int] | None = None
    """Which of how many processes that measure side by side this is; each has every n-th run. None: it does all of it."""
    until: float = float("inf")
    """Moment of ``time.monotonic()`` after which nothing is begun."""
    missed: list[str] = field(default_factory=list)

    @property
    def shape(self) -> Shape:
        """Graphs of 60 tasks."""
        return Shape(median=self.median)

    @property
    def own(self) -> range:
        """Numbers of the runs that are this process's to measure."""
        first, step = self.lane or (0, 1)
        return range(first, self.runs, step)

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.until

    def lacks(self, keys: Iterable[Row]) -> bool:
        """Whether there is something to measure, and time for it."""
        return not self.is_over and not all(map(self.rows.has, keys))

    def whole(self, what: str, keys_of: Callable[[int], Sequence[Row]]) -> list[int]:
        """Runs of which everything is measured, to judge by; none where another process judges."""
        if self.lane is not None:
            return []
        found = [run for run in range(self.runs) if all(map(self.rows.has, keys_of(run)))]
        if len(found) < self.runs:
            print(
                f"{what}: {len(found)} of {self.runs} runs are measured; the same command goes on", flush=True
            )
            self.missed.append(f"{what}, {self.runs - len(found)} runs")
        return found

    def judge(
        self, what: str, value: float, target: float, *, is_least: bool = True, unit: str = "x"
    ) -> None:
        """Print a figure beside its target."""
        is_reached = value >= target if is_least else value <= target
        sign = ">=" if is_least else "<="
        word = "reached" if is_reached else "MISSED"
        print(f"** {what}: {value:.3g} {unit} (target {sign} {target:g} {unit}): {word}", flush=True)
        if not is_reached:
            self.missed.append(what)


def spread(values: Sequence[float]) -> str:
    """Median, mean, least and most, and all of them in the order of the runs."""
    every = " ".join(f"{value:.3g}" for value in values)
    return f"median {median(values):.3g}, mean {mean(values):.3g}, {min(values):.3g} to {max(values):.3g} ({every})"


def compare(name: str, base: Sequence[float], other: Sequence[float]) -> list[float]:
    """Print how many times as long the first takes as the second, run by run; returns the ratios."""
    ratios = [a / b for a, b in zip(base, other, strict=True)]
    lost = sum(ratio < 1 for ratio in ratios)
    print(f"{name}: {spread(ratios)}; {lost} of {len(ratios)} runs lost", flush=True)
    return ratios
