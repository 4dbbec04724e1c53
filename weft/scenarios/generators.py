"""Generators: one object says which settings it reads, how it makes a problem and what kind of run that is.

``GENERATORS`` are weft's own, which recipes name. Any object with ``name`` and ``make(settings, seed)``
is a scenario by itself: given in Python, named as code on the command line, or an entry point ``weft.scenarios``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from weft.errors import InputError
from weft.kinds import ELASTIC, KINDS, PROBLEMS, QUEUES, TASKS, Kind
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.plugins import SCENARIOS, allowed, blamed, find, is_code, made
from weft.scenarios import elastic, makers, pipelines
from weft.scenarios.settings import Setting, Value
from weft.scenarios.workflows import workflow
from weft.tables import is_number

if TYPE_CHECKING:
    from weft.scenarios.scenario import Scenario

DISPATCH = "dispatch"
"""What the setting ``run`` of files says where tasks are dispatched instead of planned."""


ALLOCATE = "allocate"
"""What it says where allocators give units to elastic tasks."""


@dataclass(frozen=True)
class Generator:
    """One of weft's own."""

    settings: tuple[str, ...]
    """Names of the settings it reads; recipes give their types and defaults."""
    make: Callable[[Scenario, str, int], Problem]
    """The problem of a scenario at an index of a split."""
    brings_machines: bool = False
    """Whether its problems name their own machines."""
    kind: Kind = PROBLEMS
    """What schedulers act on."""
    may_dispatch: bool = False
    """Whether a load above 0, or ``run=dispatch``, has its tasks dispatched one by one instead."""
    seeds_are_samples: bool = False
    """Whether every seed is a workload of its own."""
    has_graph: bool = False
    """Whether a recipe gives the graph."""
    usual: tuple[Setting, ...] = ()
    """Settings that recipes need not describe."""
    count: Callable[[Scenario], int] | None = None
    """How many problems every split of a scenario has; None: as many as one asks for."""

    def kind_of(self, settings: Mapping[str, object]) -> Kind:
        """What schedulers act on under these settings."""
        if self.may_dispatch and settings.get("run") == ALLOCATE:
            return ELASTIC
        is_dispatched = self.may_dispatch and settings.get("run") == DISPATCH
        return TASKS if is_dispatched or self.is_arriving(settings) else self.kind

    def is_arriving(self, settings: Mapping[str, object]) -> bool:
        """Whether jobs are drawn and keep arriving at the rate of a load."""
        return self.may_dispatch and bool(settings.get("load"))

    def has_seed_samples(self, settings: Mapping[str, object]) -> bool:
        """Whether every seed is a workload of its own under these settings."""
        return self.seeds_are_samples or self.is_arriving(settings)


AUTO = "auto"
"""What it says where files and schedulers decide."""
RUNS = (AUTO, "plan", DISPATCH, ALLOCATE)
FILE_SETTINGS = (
    Setting("ccr", "number", 0.0, "mean transfer time over mean run time; 0: links as they are", 0, 1000),
    Setting("noise", "number", 0.0, "coefficient of variation of the run times; 0: as the file says", 0, 10),
    Setting(
        "run",
        "text",
        AUTO,
        "plan before anything runs, dispatch tasks as jobs are released, or allocate units; auto: by files and schedulers",
        choices=RUNS,
    ),
    Setting(
        "step",
        "number",
        1.0,
        "length of a world step of allocators, in the unit of the files' times",
        1e-9,
        1e9,
    ),
    Setting(
        "load", "number", 0.0, "above 0 the files keep arriving; 1 is all that the cluster can follow", 0, 10
    ),
    Setting("arrivals", "text", "poisson", "how they arrive", choices=("poisson", "periodic", "once")),
    Setting("jobs", "whole", 60, "how many jobs arrive", 1, 100_000),
)

_PIPELINES = ("configuration", "periods", "horizon", "noise", "law", "overrun", "order", "switches")

GENERATORS: dict[str, Generator] = {
    "workflow": Generator(
        (
            *(
                "family",
                "tasks",
                "ccr",
                "devices",
                "memory",
                "noise",
                "bias",
                "drift",
                "deadline",
                "sizes",
                "scale",
                "uneven",
                "kinds",
                "distinct",
                "bookings",
            ),
            *("load", "arrivals", "jobs"),
        ),
        workflow,
        may_dispatch=True,
    ),
    "jobshop": Generator(("jobs", "machines", "noise"), makers.jobshop_problem, brings_machines=True),
    "tpch": Generator(("queries", "data", "noise"), makers.tpch_problem, brings_machines=True),
    "opgraph": Generator(("kind", "tasks", "noise"), makers.opgraph_problem, brings_machines=True),
    "stream": Generator(
        (
            *("p_c", "branch", "jobs", "arrivals", "gap", "spread", "trace"),
            *("idle", "idle_block", "expiry", "estimate", "forget"),
            *("drift", "drift_to", "drift_at", "drift_steps", "drift_size"),
        ),
        makers.stream_problem,
        kind=QUEUES,
        seeds_are_samples=True,
        has_graph=True,
    ),
    "random-stream": Generator(
        ("size", "load", "load_low", "load_high", "jobs", "arrivals", "forget"),
        makers.random_stream_problem,
        brings_machines=True,
        kind=QUEUES,
    ),
    "elastic": Generator(
        tuple(setting.name for setting in elastic.SETTINGS),
        elastic.refuse_graph,
        brings_machines=True,
        kind=ELASTIC,
        seeds_are_samples=True,
        usual=elastic.SETTINGS,
    ),
    "tx2": Generator(
        (*_PIPELINES, "control", "fusion", "groups", "cameras"),
        pipelines.pipeline_problem,
        brings_machines=True,
        kind=TASKS,
        count=pipelines.count_configurations,
    ),
    "odroid": Generator(
        (*_PIPELINES, "speed", "fused"),
        pipelines.pipeline_problem,
        brings_machines=True,
        kind=TASKS,
        count=pipelines.count_configurations,
    ),
    "files": Generator(
        tuple(setting.name for setting in FILE_SETTINGS),
        makers.file_problem,
        may_dispatch=True,
        usual=FILE_SETTINGS,
    ),
}
"""By the name that recipes use."""


def kind_under(generator: str, settings: Mapping[str, object]) -> Kind:
    """What schedulers act on where a recipe has these settings: plain values, or tables with a default."""
    tables = {name: one if isinstance(one, Mapping) else {"given": one} for name, one in settings.items()}
    values = {name: table.get("given", table.get("default")) for name, table in tables.items()}
    return GENERATORS[generator].kind_of(values)


class Makes(Protocol):
    """Anybody's generator: a scenario by itself."""

    @property
    def name(self) -> str:
        """What the scenario is called."""

    def make(self, settings: dict[str, Value], seed: int) -> Problem:
        """The problem of a seed."""


class OwnGenerator:
    """A generator that is not weft's, watched: errors name it, and what it makes is checked."""

    def __init__(self, given: Any) -> None:
        title = given.__qualname__ if isinstance(given, type) else type(given).__qualname__
        self._inner, self._title = made(given, title, "scenario"), title
        if not callable(getattr(self._inner, "make", None)):
            raise self._refusal("has no method 'make'")
        if not isinstance(self.text("name"), str) or not self.text("name"):
            raise self._refusal("has no text 'name'")
        self.settings: tuple[Setting, ...] = tuple(self.text("settings", ()))
        if not all(isinstance(one, Setting) for one in self.settings):
            raise self._refusal("has settings that are no weft.scenarios.Setting")
        if self.text("kind", PROBLEMS.name) not in (PROBLEMS.name, TASKS.name):
            raise self._refusal(
                f"has the kind {self.text('kind')!r}, not {PROBLEMS.name!r} or {TASKS.name!r}"
            )

    def text(self, key: str, usual: Any = "") -> Any:
        """What the object says of itself, or the usual."""
        return getattr(self._inner, key, usual)

    @property
    def kind(self) -> Kind:
        """Whether its problems are planned, or their tasks dispatched as jobs are released."""
        return KINDS[self.text("kind", PROBLEMS.name)]

    def make(self, settings: Mapping[str, Value], seed: int) -> Problem:
        """The problem of a seed."""
        with blamed(f"{self._title}.make failed", field="scenario"):
            found = self._inner.make(dict(settings), seed)
        if not isinstance(found, Problem):
            raise self._refusal(f"makes no weft.Problem, but {type(found).__name__}")
        return found

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the figures that ``measure`` gives, beside those of the kind of run."""
        return tuple(self.text("metrics", ()))

    def measure(self, schedule: Schedule) -> dict[str, float]:
        """The figures of its own that a schedule has; none without ``metrics``."""
        if not self.metrics:
            return {}
        with blamed(f"{self._title}.measure failed", field="scenario"):
            found = dict(self._inner.measure(schedule))
        if sorted(found) != sorted(self.metrics) or not all(map(is_number, found.values())):
            raise self._refusal(f"measures {found!r:.80}, not numbers of {', '.join(self.metrics)}")
        return {name: float(found[name]) for name in self.metrics}

    def _refusal(self, what: str) -> InputError:
        return InputError(f"expected a scenario generator, and {self._title} {what}", field="scenario")


_given: dict[str, OwnGenerator] = {}


def keep(given: Any) -> str:
    """Keep a generator that was given as an object; returns the name under which it is found in this process."""
    own = OwnGenerator(given)
    name = f"{own.text('name')} (an object)"
    _given[name] = own
    return name


def own_generator(name: str) -> OwnGenerator | None:
    """The generator that is not weft's of this name; None: there is none."""
    if name not in _given or (is_code(name) and name not in allowed()):
        found = find(SCENARIOS, name, GENERATORS, "scenario")
        if found is None:
            return None
        _given[name] = OwnGenerator(found)
    return _given[name]
