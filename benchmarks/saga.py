"""HEFT against the Python peer anrg-saga and a plain-Python HEFT: CPU time and makespan by kind of graph.

The peer lives in a virtual environment of its own, made on first use (needs a package index). weft and
the plain HEFT are timed on fresh input each time, the best of several with compiled kernels; the peer
once, its objects built beforehand. Targets: the makespan of the plain HEFT on every graph, and 1,000
times the speed of the peer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KINDS = ("mosaic", "layered", "erdos-renyi", "fork-join", "in-tree", "out-tree", "block-model")
FASTER = 1000.0


@dataclass(frozen=True)
class Case:
    """One instance in plain numbers, as all sides get it."""

    ccr: float
    work: list[float]
    edges: list[tuple[int, int, float]]
    speeds: list[float]
    bandwidth: float


@dataclass(frozen=True)
class Row:
    """What came of one instance."""

    num_tasks: int
    num_devices: int
    ccr: float
    faster: float
    faster_than_plain: float
    above_peer: float  # per cent
    above_plain: float  # per cent
    above_with_peers_ranks: float  # per cent
    """The plain HEFT with the peer's weight of transfers, above the peer."""


def main(arguments: list[str]) -> int:
    """Measure every kind of graph and print a table; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks saga", description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--tasks", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--devices", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--ccr", type=float, nargs="+", default=[0.1, 1.0, 5.0])
    parser.add_argument("--repeat", type=int, default=7, help="runs of weft, of which the best counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--venv", type=Path, default=_cache() / "saga-venv", help="home of the peer")
    options = parser.parse_args(arguments)
    if min(options.tasks) < 30:
        parser.error("expected at least 30 tasks")
    python = peer_python(options.venv)
    print(HEAD)
    rows: list[Row] = []
    for kind in options.kinds:
        cases = [
            draw_case(kind, num_tasks, num_devices, ccr, options.seed)
            for num_tasks in options.tasks
            for num_devices in options.devices
            for ccr in options.ccr
        ]
        peers = time_peer(cases, python)
        found = [measure(case, peer, options.repeat) for case, peer in zip(cases, peers, strict=True)]
        _report(kind, found)
        print(_line(kind, found), flush=True)
        rows += found
    for label, name in (("tasks", "num_tasks"), ("devices", "num_devices"), ("CCR", "ccr")):
        for value in dict.fromkeys(getattr(row, name) for row in rows):
            print(_line(f"{value:g} {label}", [row for row in rows if getattr(row, name) == value]))
    print(_line("all", rows))
    return _summarise(rows, str(peers[0]["version"]))


HEAD = (
    f"{'':<12} {'times the peer':>22} {'times plain Python':>22} {'above the peer, %':>22} "
    f"{'plain':>7} {'same ranks':>16}\n"
    f"{'graph':<12} " + f"{'min':>6} {'median':>8} {'max':>6} " * 3 + f"{'max':>7} {'min':>8} {'max':>7}"
)


def _line(kind: str, rows: list[Row]) -> str:
    """Least, median and most of what the rows of one kind say."""
    faster, plain, above = (
        [getattr(row, name) for row in rows] for name in ("faster", "faster_than_plain", "above_peer")
    )
    same = [row.above_with_peers_ranks for row in rows]
    return (
        f"{kind:<12} {min(faster):>6.0f} {statistics.median(faster):>8.0f} {max(faster):>6.0f} "
        f"{min(plain):>6.0f} {statistics.median(plain):>8.0f} {max(plain):>6.0f} "
        f"{min(above):>+6.1f} {statistics.median(above):>+8.2f} {max(above):>+6.1f} "
        f"{max(abs(row.above_plain) for row in rows):>7.3f} {min(same):>+8.3f} {max(same):>+7.3f}"
    )


def _report(kind: str, rows: list[Row]) -> None:
    """The ratios of the largest graphs of this kind, for the history."""
    from benchmarks._ratios import report  # not at the top: the peer's environment runs this file too

    largest = max(row.num_tasks for row in rows)
    chosen = [row for row in rows if row.num_tasks == largest]
    report(f"saga.faster.{kind}.{largest}", statistics.median(row.faster for row in chosen), share=0.6)
    plain = statistics.median(row.faster_than_plain for row in chosen)
    report(f"saga.faster-than-plain.{kind}.{largest}", plain, share=0.6)
    above = statistics.median(row.above_peer for row in chosen)
    report(f"saga.makespan.{kind}.{largest}", 1.0 / (1.0 + above / 100.0), share=0.99)


def _summarise(rows: list[Row], version: str) -> int:
    fast = sum(row.faster >= FASTER for row in rows)
    equal = sum(abs(row.above_plain) <= 1e-6 for row in rows)
    reached = fast == equal == len(rows)
    worse = sum(row.above_peer > 1e-6 for row in rows)
    better = sum(row.above_peer < -1e-6 for row in rows)
    mean = statistics.mean(row.above_peer for row in rows)
    print(
        f"peer: anrg-saga {version}; makespan on average {mean:+.2f} % above it, "
        f"above on {worse}, below on {better} of {len(rows)} graphs"
    )
    print(
        f"targets (makespan of the plain HEFT: {equal} of {len(rows)}; >= {FASTER:.0f} times the peer: "
        f"{fast} of {len(rows)}): {'reached' if reached else 'missed'}"
    )
    return 0 if reached else 1


def measure(case: Case, peer: dict[str, float], repeat: int) -> Row:
    """weft and the plain HEFT on one instance, beside what the peer made of it."""
    from benchmarks._plain_heft import plain_heft

    instance = (case.work, case.edges, case.speeds, case.bandwidth)
    ours, our_makespan = time_weft(case, repeat)
    plain, plain_makespan = _least(lambda: plain_heft(*instance), 3)
    as_peer = plain_heft(*instance, self_links=True)
    return Row(
        len(case.work),
        len(case.speeds),
        case.ccr,
        peer["seconds"] / ours,
        plain / ours,
        100.0 * (our_makespan / peer["makespan"] - 1.0),
        100.0 * (our_makespan / plain_makespan - 1.0),
        100.0 * (as_peer / peer["makespan"] - 1.0),
    )


def _least(work: Callable[[], float], repeat: int) -> tuple[float, float]:
    """Least CPU seconds, and the result."""
    seconds = []
    for _ in range(repeat):
        started = time.process_time()
        result = work()
        seconds.append(time.process_time() - started)
    return min(seconds), result


def draw_case(kind: str, num_tasks: int, num_devices: int, ccr: float, seed: int) -> Case:
    """A generated graph on devices of speeds 1 to 6 and one bandwidth, for this ratio of means."""
    import numpy as np

    from weft.model.generate import generate

    graph = generate(kind, num_tasks, seed=seed)
    speeds = np.random.default_rng(seed).uniform(1.0, 6.0, size=num_devices)
    run = graph.work.mean() * (1.0 / speeds).mean()
    edges = list(zip(graph.sources.tolist(), graph.targets.tolist(), graph.data.tolist(), strict=True))
    return Case(ccr, graph.work.tolist(), edges, speeds.tolist(), float(graph.data.mean() / (ccr * run)))


def time_weft(case: Case, repeat: int) -> tuple[float, float]:
    """Least CPU seconds of ``weft.schedule`` over fresh problems, and the makespan."""
    import weft

    weft.schedule(as_problem(case), "heft")
    seconds = []
    for _ in range(repeat):
        problem = as_problem(case)
        started = time.process_time()
        result = weft.schedule(problem, "heft")
        seconds.append(time.process_time() - started)
    return min(seconds), float(result.schedule.makespan)


def as_problem(case: Case):  # type: ignore[no-untyped-def]
    """The instance as weft's problem."""
    from weft.model import Cluster, DeviceClass, Problem, TaskGraph

    sources, targets, data = zip(*case.edges, strict=True)
    graph = TaskGraph(case.work, sources, targets, data)
    classes = [DeviceClass(f"d{i}", speed=speed) for i, speed in enumerate(case.speeds)]
    return Problem(graph, Cluster.uniform(classes, [1] * len(classes), bandwidth=case.bandwidth))


def peer_python(folder: Path) -> str:
    """The interpreter of the peer's environment, which is made if it is not there."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        print(f"making {folder} with anrg-saga, once", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    known = subprocess.run([str(python), "-c", "import saga"], capture_output=True, env=_peer_environment())
    if known.returncode:
        subprocess.run([str(python), "-m", "pip", "install", "-q", "anrg-saga"], check=True)
    return str(python)


def _peer_environment() -> dict[str, str]:
    """A fixed hash seed, on which the peer's ties depend, and nothing of ours on its import path.

    With the script's own folder there, this file would hide the package of the same name.
    """
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return {**inherited, "PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1"}


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"


def time_peer(cases: list[Case], python: str) -> list[dict[str, float]]:
    """Run this file in the peer's environment: its version, CPU seconds and makespan per instance."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.json"
        path.write_text(json.dumps([case.__dict__ for case in cases]))
        command = [python, str(Path(__file__).resolve()), str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=_peer_environment())
    results: list[dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return results


def run_peer(path: str) -> None:
    """In the peer's environment: time its HEFT on every instance, print one JSON line."""
    print(json.dumps([_run_peer(case) for case in json.loads(Path(path).read_text())]))


def _run_peer(case: dict) -> dict:  # type: ignore[type-arg]
    """Build the peer's objects, then time its HEFT."""
    from importlib.metadata import version

    from saga import Network, NetworkEdge, NetworkNode, TaskGraph, TaskGraphEdge, TaskGraphNode
    from saga.schedulers import HeftScheduler

    names = [f"d{i:03d}" for i in range(len(case["speeds"]))]
    nodes = frozenset(NetworkNode(name=n, speed=s) for n, s in zip(names, case["speeds"], strict=True))
    links = frozenset(
        NetworkEdge(source=a, target=b, speed=float("inf") if a == b else case["bandwidth"])
        for i, a in enumerate(names)
        for b in names[i:]
    )
    # the constructor, because TaskGraph.create looks at all edges for every task
    graph = TaskGraph(
        tasks=frozenset(TaskGraphNode(name=f"t{i}", cost=w) for i, w in enumerate(case["work"])),
        dependencies=frozenset(
            TaskGraphEdge(source=f"t{s}", target=f"t{t}", size=d) for s, t, d in case["edges"]
        ),
    )
    network = Network(nodes=nodes, edges=links)
    started = time.process_time()
    schedule = HeftScheduler().schedule(network, graph)
    seconds = time.process_time() - started
    return {"version": version("anrg-saga"), "seconds": seconds, "makespan": schedule.makespan}


if __name__ == "__main__":
    run_peer(sys.argv[1])
