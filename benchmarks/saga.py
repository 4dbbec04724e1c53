"""HEFT against the Python peer anrg-saga: CPU time and makespan on the same graphs.

The peer lives in a virtual environment of its own, made on first use (needs a package index).
weft is timed on a fresh problem each time, best of several with compiled kernels; the peer once,
its objects built beforehand. Targets: at least 1,000 times faster, makespans within 0.5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

FASTER, WITHIN_PERCENT = 1000.0, 0.5


@dataclass(frozen=True)
class Case:
    """One instance in plain numbers, as both sides get it."""

    work: list[float]
    edges: list[tuple[int, int, float]]
    speeds: list[float]
    bandwidth: float


def main(arguments: list[str]) -> int:
    """Measure every size and print a table; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks saga", description=__doc__)
    parser.add_argument("--tasks", type=int, nargs="+", default=[1000, 3000])
    parser.add_argument("--graph", choices=GRAPHS, default="montage")
    parser.add_argument("--devices", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=7, help="runs of weft, of which the best counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--venv", type=Path, default=_cache() / "saga-venv", help="home of the peer")
    options = parser.parse_args(arguments)
    from benchmarks._ratios import report  # not at the top: the peer's environment runs this file too

    if min(options.tasks) < 30:
        parser.error("expected at least 30 tasks")
    python = peer_python(options.venv)
    print(
        f"{'tasks':>6} {'devices':>7} {'peer':>8} {'peer s':>9} {'weft ms':>9} {'faster':>8} {'makespan':>10}"
    )
    reached = True
    for num_tasks in options.tasks:
        case = draw_case(options.graph, num_tasks, options.devices, options.seed)
        ours, our_makespan = time_weft(case, options.repeat)
        peer = time_peer(case, python)
        ratio = peer["seconds"] / ours
        difference = 100.0 * (our_makespan / peer["makespan"] - 1.0)
        report(f"saga.faster.{num_tasks}", ratio, share=0.6)
        report(f"saga.makespan.{num_tasks}", peer["makespan"] / our_makespan, share=0.99)
        reached &= ratio >= FASTER and difference <= WITHIN_PERCENT
        print(
            f"{num_tasks:>6} {options.devices:>7} {peer['version']:>8} {peer['seconds']:>9.2f} "
            f"{ours * 1e3:>9.3f} {ratio:>7.0f}x {difference:>+8.2f} %",
            flush=True,
        )
    print(
        f"targets (>= {FASTER:.0f}x, makespan at most {WITHIN_PERCENT} % above): {'reached' if reached else 'missed'}"
    )
    return 0 if reached else 1


def montage(num_tasks: int) -> list[tuple[int, int]]:
    """Edges of a mosaic: projections, overlaps of pairs, one model, corrections, one sum."""
    images = (num_tasks - 5) // 6
    overlaps = num_tasks - 5 - 2 * images
    concat, model = images + overlaps, images + overlaps + 1
    corrected, table = model + 1, model + 1 + images
    edges = []
    for k in range(overlaps):
        step = 1 + k // images
        edges += [(k % images, images + k), ((k + step) % images, images + k), (images + k, concat)]
    edges.append((concat, model))
    for k in range(images):
        edges += [
            (k, corrected + k),
            (model, corrected + k),
            (corrected + k, table),
            (corrected + k, table + 1),
        ]
    return [*edges, (table, table + 1), (table + 1, table + 2)]


def layered(num_tasks: int) -> list[tuple[int, int]]:
    """Edges of a graph in layers: every task follows three neighbours of the layer before."""
    width = max(3, round(num_tasks**0.5))
    return [
        (first + (i + shift) % width, i)
        for i in range(width, num_tasks)
        for first in [(i // width - 1) * width]
        for shift in range(3)
    ]


GRAPHS = {"montage": montage, "layered": layered}


def draw_case(graph: str, num_tasks: int, num_devices: int, seed: int) -> Case:
    """Log-normal work and data, related speeds 1..6, one bandwidth for a CCR of about 1."""
    import numpy as np

    rng = np.random.default_rng(seed)
    ends = GRAPHS[graph](num_tasks)
    work = rng.lognormal(2.0, 0.7, size=num_tasks)
    speeds = rng.uniform(1.0, 6.0, size=num_devices)
    data = rng.lognormal(2.0, 0.7, size=len(ends))
    bandwidth = float(data.mean() / (work.mean() * (1.0 / speeds).mean()))
    edges = [(s, t, d) for (s, t), d in zip(ends, data.tolist(), strict=True)]
    return Case(work.tolist(), edges, speeds.tolist(), bandwidth)


def time_weft(case: Case, repeat: int) -> tuple[float, float]:
    """Least CPU seconds of ``weft.schedule`` over fresh problems, and the makespan."""
    import weft

    weft.schedule(_problem(case), "heft")
    seconds = []
    for _ in range(repeat):
        problem = _problem(case)
        started = time.process_time()
        result = weft.schedule(problem, "heft")
        seconds.append(time.process_time() - started)
    return min(seconds), float(result.schedule.makespan)


def _problem(case: Case):  # type: ignore[no-untyped-def]
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


def time_peer(case: Case, python: str) -> dict[str, float]:
    """Run this file in the peer's environment: its version, CPU seconds and makespan."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.json"
        path.write_text(json.dumps(case.__dict__))
        command = [python, str(Path(__file__).resolve()), str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=_peer_environment())
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def run_peer(path: str) -> None:
    """In the peer's environment: build its objects, time its HEFT, print a JSON line."""
    from importlib.metadata import version

    from saga import Network, NetworkEdge, NetworkNode, TaskGraph, TaskGraphEdge, TaskGraphNode
    from saga.schedulers import HeftScheduler

    case = json.loads(Path(path).read_text())
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
    result = {"version": version("anrg-saga"), "seconds": seconds, "makespan": schedule.makespan}
    print(json.dumps(result))


if __name__ == "__main__":
    run_peer(sys.argv[1])
