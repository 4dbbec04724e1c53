"""What this installation has and what this machine is: versions, kernel cache, processors, GPUs.

Packages are asked for their version without being imported, except numba, whose cache is shown.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.model.problem import Problem

NEEDED = ("numpy", "numba", "llvmlite", "typer", "rich", "pydantic")

EXTRAS = {
    "plot": ("matplotlib", "Gantt charts as PNG and SVG"),
    "onnx": ("onnx", "ONNX models as operator graphs"),
    "solve": ("ortools", "exact schedules with CP-SAT"),
    "train": ("torch", "training learned schedulers"),
    "dask": ("distributed", "running on Dask"),
    "ray": ("ray", "running on Ray"),
    "tensorboard": ("tensorboard", "metrics of training for TensorBoard"),
    "rl": ("gymnasium", "environments for learners of your own"),
}
"""Extra -> the package that tells whether it is there, and what it is for."""
OLDEST = {"ortools": (9, 15)}
"""Package -> the oldest version that will do, where an older one is refused."""


@dataclass(frozen=True)
class Extra:
    """One optional part of weft."""

    name: str
    package: str
    version: str | None
    """None: not installed."""
    purpose: str

    @property
    def is_old(self) -> bool:
        """Whether it is there, but too old to be used."""
        oldest = OLDEST.get(self.package)
        return bool(oldest and self.version) and _release(str(self.version)) < (oldest or ())

    @property
    def install(self) -> str:
        """The pip line that adds it, or a newer version of it."""
        return f"pip install {'-U ' if self.is_old else ''}'weft[{self.name}]'"


@dataclass(frozen=True)
class KernelCache:
    """The folder of compiled kernels for the present sources and versions."""

    folder: Path
    num_compiled: int
    """Compiled functions on disk; 0: the next planner call compiles."""
    num_bytes: int
    num_old: int
    """Folders of former sources or versions beside it; safe to delete."""


@dataclass(frozen=True)
class Gpu:
    """GPUs of one model in this machine."""

    model: str
    count: int
    memory: float
    """Bytes per GPU."""


@dataclass(frozen=True)
class Machine:
    """What can run tasks here."""

    name: str
    num_cpus: int
    memory: float
    """Bytes of main memory; 0: unknown."""
    gpus: tuple[Gpu, ...]


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def version_of(package: str) -> str | None:
    """Installed version of a package, without importing it; None if absent."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str | None]:
    """Versions of Python, weft and what it always needs."""
    from weft import __version__

    found: dict[str, str | None] = {"python": platform.python_version(), "weft": __version__}
    return found | {package: version_of(package) for package in NEEDED}


def extras() -> tuple[Extra, ...]:
    """Every optional part, present or not."""
    return tuple(
        Extra(name, package, version_of(package), purpose) for name, (package, purpose) in EXTRAS.items()
    )


def kernel_cache() -> KernelCache:
    """State of the folder of compiled kernels (imports numba)."""
    from weft.sim import jit

    files = [path for path in sorted(jit.CACHE.rglob("*")) if path.is_file()]
    old = [path for path in sorted(jit.CACHE.parent.glob("kernels-*")) if path != jit.CACHE]
    return KernelCache(
        jit.CACHE,
        sum(path.suffix == ".nbc" for path in files),
        sum(path.stat().st_size for path in files),
        len(old),
    )


def threads() -> dict[str, str | None]:
    """Thread settings of the environment; weft itself plans on one thread."""
    return {key: os.environ.get(key) for key in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")}


def num_cpus() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def warm(schedulers: tuple[str | object, ...] | None = None) -> tuple[str, ...]:
    """Compile what these planners (default: all) need by planning a tiny graph; return who planned it.

    Planners that cannot act on it, or miss an optional package, are left out. Code of other people is never
    called on a problem that they did not ask for: HEFT plans in its place.
    """
    from weft import catalog
    from weft.errors import InputError
    from weft.schedulers.own import is_others

    few = 64  # evaluations: enough that every search goes beyond its first plans
    done = []
    for given in schedulers or tuple(catalog.PLANNERS):
        for problem in _tiny_problems():
            try:
                name = "heft" if is_others(catalog.planner(given)) else given
                catalog.schedule(problem, name, effort=few)
            except InputError:
                continue
            done.append(name if isinstance(name, str) else type(name).__qualname__)
    if "weft.policies.oneshot.planner" in sys.modules:
        sys.modules["weft.policies.oneshot.planner"].forget_fallbacks()
    return tuple(dict.fromkeys(done))


def warm_dispatch() -> tuple[str, ...]:
    """Compile what simulations, sessions and replays of both views need; return who dispatched."""
    return (*_warm_queues(), *_warm_tasks(), *_warm_elastic())


def _warm_queues() -> tuple[str, ...]:
    """A short stream, in the kernel and through a session."""
    from weft.evaluation.sweep.queue_runs import play
    from weft.execute.virtual_runs import drive_queues
    from weft.scenarios import scenario
    from weft.session import Session
    from weft.sim.queues.environment import setup_of

    names = ("fifo", "heft-estimated", "ppo")
    case = scenario("conditional", jobs=10).stream("validation", 0)
    for name in names:
        play(name, case, [0])
        drive_queues(Session(case, name), setup_of(case), 0)
    return names


def _warm_tasks() -> tuple[str, ...]:
    """Two small workflows, in the kernel with and without an outage, replayed, and through a session."""
    from weft import catalog
    from weft.execute.virtual_runs import drive_tasks
    from weft.model.problem import realise
    from weft.scenarios import scenario
    from weft.schedulers.dispatchers.outages import Outage
    from weft.schedulers.dispatchers.tasks import run_one
    from weft.session import Session
    from weft.sim.tasks.replay import replayed

    names = ("fifo", "priced", "plan:heft")
    problem = scenario("workflows", load=0.5, jobs=2, tasks=8).dispatched("validation", 0, 0)
    world = realise(problem, 0)
    for name in names:
        chosen = catalog.task_dispatcher(name)
        run_one(chosen, problem, world)
        run_one(chosen, problem, world, outages=[Outage(0, 0.0, 1.0)])
        drive_tasks(Session(problem, name), problem, world)
    replayed(catalog.schedule(problem, "heft").schedule)
    return names


def _warm_elastic() -> tuple[str, ...]:
    """Place two elastic tasks by a rule, by decisions and in a session, which compiles all allocators need."""
    import numpy as np

    from weft import catalog
    from weft.kinds import ELASTIC
    from weft.scenarios import scenario
    from weft.schedulers.allocators.running import run_all
    from weft.session.elastic import ElasticSession
    from weft.sim.elastic.environment import ElasticBatch

    problem = scenario("edge-single-3", clusters=1, tasks=2).elastic("test", 0)
    run_all(catalog.find("min", ELASTIC), problem, [0])
    batch = ElasticBatch(problem)
    batch.act(np.full((1, 1), -1), np.zeros((1, 1, 2), np.int64))
    session = ElasticSession(problem, "min", room=2)
    session.arrived("a", "img", ("c0",))
    session.decide()
    session.ended("a")
    session.stepped()
    return tuple(catalog.ALLOCATORS)


def _tiny_problems() -> tuple[Problem, ...]:
    """One with transfers, one job shop: together they reach every kernel of the planners.

    No search of them ends before it has begun: plans lie above the bounds that would end it.
    """
    from weft.model.cluster import Cluster, DeviceClass
    from weft.model.graph import TaskGraph
    from weft.model.problem import Problem

    graph = TaskGraph([2.0] * 5, [0, 1, 2, 3], [4, 4, 4, 4], 1.0, name="warm-up graph")
    cluster = Cluster.uniform([DeviceClass("slow"), DeviceClass("fast", speed=1.5)], [1, 1], bandwidth=1.0)
    inf = float("inf")
    times = [[2.0, inf], [inf, 2.0], [3.0, inf], [1.0, inf], [inf, 3.0], [2.0, inf]]
    shop = TaskGraph(
        [float("nan")] * 6, [0, 1, 3, 4], [1, 2, 4, 5], classes=("m0", "m1"), times=times, name="warm-up shop"
    )
    machines = Cluster.uniform([DeviceClass("m0"), DeviceClass("m1")], [1, 1])
    return Problem(graph, cluster), Problem(shop, machines)


def machine() -> Machine:
    """This machine: processors, memory, NVIDIA GPUs where ``nvidia-smi`` answers."""
    return Machine(platform.node() or "machine", num_cpus(), _main_memory(), _gpus())


def _main_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 0.0


def _gpus() -> tuple[Gpu, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    query = [program, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return parse_gpus(answer)


def parse_gpus(answer: str) -> tuple[Gpu, ...]:
    """GPUs from lines of ``model, memory in MiB``; equal models counted together."""
    memory: dict[str, float] = {}
    counts: dict[str, int] = {}
    for line in answer.splitlines():
        model, _, amount = line.rpartition(",")
        model = model.strip()
        if model and amount.strip().replace(".", "", 1).isdigit():
            counts[model] = counts.get(model, 0) + 1
            memory[model] = float(amount) * 2**20
    return tuple(Gpu(model, count, memory[model]) for model, count in counts.items())


def class_name(model: str) -> str:
    """Device class of a GPU model: ``NVIDIA A100-SXM4-40GB`` becomes ``a100-sxm4-40gb``."""
    words = re.findall(r"[a-z0-9]+", model.lower())
    return "-".join(word for word in words if word not in ("nvidia", "geforce", "tesla")) or "gpu"


def cluster_text(found: Machine) -> str:
    """A cluster file for a machine, with comments that say what to measure and correct.

    All processors are one device: they share memory, so no data travels between them.
    """
    name = re.sub(r"[^ -~]", "?", found.name)
    lines = [
        f"# {name}: its processors as one device with a slot each, and its GPUs.",
        "# Speeds are relative to the machine on which your run times were measured: correct them.",
        'bandwidth = "1 GB/s"            # to other nodes, once you add some',
        "",
        "[[node]]",
        'inner_bandwidth = "10 GB/s"     # between devices of this machine: a guess',
        "",
        "[[node.device]]",
        'class = "cpu"',
        "speed = 1.0",
        f"slots = {found.num_cpus}",
        f"capacity = {{ cores = {found.num_cpus} }}",
        *_memory_line(found.memory),
    ]
    for gpu in found.gpus:
        lines += ["", "[[node.device]]", f'class = "{class_name(gpu.model)}"', f"count = {gpu.count}"]
        lines += ["speed = 10.0                    # a guess: measure it, or list times = { kind = seconds }"]
        lines += _memory_line(gpu.memory)
    return "\n".join(lines) + "\n"


def _memory_line(memory: float) -> list[str]:
    return [f'memory = "{memory / 1e9:.3g} GB"'] if memory > 0 else []
