"""Round trips of decisions by agents of edge clusters, with latency and bandwidth put on every link.

Every row is a live run: a process per cluster, one coordinator, and messages over loopback that take a latency and their bits over
a bandwidth. State is filled up to 2 KB per cluster and orders to 0.8 KB, unless ``--own-sizes`` asks for what is really sent.
``single`` takes one task per cluster and world step. ``multi`` sends state once per world step, and the coordinator works out all
logical steps; ``multi, stepwise`` sends state and orders for every logical step. Exits with 1 if a run broke a promise.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from weft.execute.agents.link import Conditions
from weft.execute.agents.running import AgentsRun, run_agents
from weft.execute.agents.setup import Setup
from weft.scenarios import scenario

MODES = {
    "single": ("edge-single-3", False),
    "multi": ("edge-multi-3", False),
    "multi, stepwise": ("edge-multi-3", True),
}
WORLD_STEP = 10.0
"""Seconds of a world step in the setting of edge clusters."""


@dataclass(frozen=True)
class Row:
    """Means of one run."""

    mode: str
    latency: float
    step_seconds: float
    """Waiting for decisions per world step."""
    trip_seconds: float
    """One round trip."""
    logical_steps: float
    """Per world step."""
    trips: float
    """The same of round trips."""
    inference_seconds: float
    """Per round trip."""
    state_bytes: float
    action_bytes: float


def main(arguments: list[str]) -> int:
    """Measure, print a table and perhaps draw it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks agents", description=__doc__)
    parser.add_argument("--latencies", type=float, nargs="+", default=[0, 20, 50, 100, 200], metavar="MS")
    parser.add_argument("--bandwidth", type=float, default=1.0, metavar="MBPS", help="of a link; 0: no limit")
    parser.add_argument("--own-sizes", action="store_true", help="messages as long as they are")
    parser.add_argument("--scheduler", default="optimus")
    parser.add_argument("--tasks", type=int, default=24, help="of an episode")
    parser.add_argument("--plot", type=Path, help="draw it (.png or .svg)")
    options = parser.parse_args(arguments)
    print(
        f"{'mode':<16} {'latency ms':>10} {'ms/world step':>13} {'ms/trip':>8} {'links ms':>8} {'logical':>7} {'trips':>5} "
        f"{'inference ms':>12} {'share %':>7} {'of 10 s %':>9} {'state B':>7} {'orders B':>8}"
    )
    rows, is_kept = [], True
    for mode in MODES:
        for latency in options.latencies:
            found = _run(mode, latency / 1000.0, options)
            is_kept = is_kept and found.checked.ok and found.is_as_simulated
            rows.append(_row(mode, latency / 1000.0, found))
            _print(rows[-1], options.bandwidth)
    print(f"promises kept, and the same as the simulation: {'in every run' if is_kept else 'NO'}")
    _compare(rows)
    if options.plot is not None:
        _draw(rows, options.plot)
    return 0 if is_kept else 1


def _run(mode: str, latency: float, options: argparse.Namespace) -> AgentsRun:
    name, is_stepwise = MODES[mode]
    sizes = (0, 0) if options.own_sizes else (2048, 820)
    conditions = Conditions(latency, options.bandwidth * 1e6, *sizes)
    setup = Setup(options.scheduler, name, 1, 1, is_stepwise=is_stepwise, lease=5.0, conditions=conditions)
    with tempfile.TemporaryDirectory() as folder:
        problem = scenario(name, tasks=options.tasks).elastic("test", 0)
        found = run_agents(problem, setup, Path(folder) / "run", timeout=300.0)
        assert found.is_as_simulated in (True, False)  # worked out while the folder is there
        return found


def _row(mode: str, latency: float, found: AgentsRun) -> Row:
    trips, steps = found.trips, len({one.step for one in found.trips})
    count = len(trips)
    return Row(
        mode,
        latency,
        sum(one.seconds for one in trips) / steps,
        sum(one.seconds for one in trips) / count,
        sum(one.num_rounds for one in trips) / steps,
        count / steps,
        sum(one.inference for one in trips) / count,
        sum(one.state_bytes for one in trips) / count,
        sum(one.action_bytes for one in trips) / count,
    )


def _print(row: Row, bandwidth: float) -> None:
    bits = 8 * (row.state_bytes + row.action_bytes)
    links = 2 * row.latency + (bits / (bandwidth * 1e6) if bandwidth else 0.0)
    print(
        f"{row.mode:<16} {1000 * row.latency:>10.0f} {1000 * row.step_seconds:>13.1f} {1000 * row.trip_seconds:>8.1f} "
        f"{1000 * links:>8.1f} {row.logical_steps:>7.2f} {row.trips:>5.2f} {1000 * row.inference_seconds:>12.2f} "
        f"{100 * row.inference_seconds / row.trip_seconds:>7.2f} {100 * row.step_seconds / WORLD_STEP:>9.2f} "
        f"{row.state_bytes:>7.0f} {row.action_bytes:>8.0f}",
        flush=True,
    )


def _compare(rows: list[Row]) -> None:
    """What a further logical step costs, with and without a transfer of its own."""
    once = {row.latency: row for row in rows if row.mode == "multi"}
    for row in rows:
        if row.mode != "multi, stepwise" or row.trips <= 1.0:
            continue
        more = (row.step_seconds - once[row.latency].step_seconds) / (row.trips - 1.0)
        print(
            f"latency {1000 * row.latency:.0f} ms: a further logical step costs {1000 * more:.1f} ms where state travels for it"
        )


def _draw(rows: list[Row], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    for mode, mark in zip(MODES, "os^", strict=True):
        own = [row for row in rows if row.mode == mode]
        x, y = [1000 * row.latency for row in own], [1000 * row.step_seconds for row in own]
        axes.plot(x, y, marker=mark, label=mode)
    axes.set_xlabel("latency of a link, one way (ms)")
    axes.set_ylabel("waiting for decisions per world step (ms)")
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.legend(frameon=False)
    figure.savefig(path)
