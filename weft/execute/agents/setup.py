"""What the processes of a run share: the problem and the settings, as JSON in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.execute.agents.link import Conditions
from weft.execute.agents.places import HOST
from weft.io.sources import shown
from weft.model.elastic import ElasticProblem, TaskType

RUN, PROBLEM = "run.json", "problem.json"
SCHEMA = "weft/agents/1"
LONGEST = 86_400.0
"""Seconds that a world step, a lease or patience may take at most: a day."""
USUAL_BYTES = 4096
"""No message is much longer, as a rule."""


@dataclass(frozen=True)
class Setup:
    """How agents run."""

    scheduler: str
    scenario: str = ""
    seed: int = 0
    """Of the episode: arrivals, types, connections and noise."""
    replicas: int = 2
    """Coordinators, of which one leads."""
    step_seconds: float = 0.0
    """A world step takes at least this long."""
    is_stepwise: bool = False
    """Send state and orders for every logical step instead of once per world step."""
    lease: float = 1.0
    """Seconds of silence after which the leading coordinator is taken for dead; slow links are allowed for."""
    patience: float = 10.0
    """Seconds after which coordinators go on without a cluster that is away."""
    conditions: Conditions = field(default_factory=Conditions)
    """Of the links between coordinator and clusters."""
    host: str = HOST
    """Where the parties of this machine listen;"""
    port: int = 0
    """and where those elsewhere join them; 0: any that is free."""
    elsewhere: tuple[str, ...] = ()
    """Parties that somebody starts elsewhere: ``cluster-1``, ``coordinator-0``."""
    mark: str = ""
    """Tells runs with parties elsewhere apart."""

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise InputError(f"expected a whole number >= 1, got {self.replicas}", field="replicas")
        for key, least in (("step_seconds", 0.0), ("lease", 0.05), ("patience", 0.1)):
            if not least <= getattr(self, key) <= LONGEST:
                raise InputError(
                    f"expected a number >= {least:g}, at most {LONGEST:.0f} seconds, got {getattr(self, key):g}",
                    field=key.removesuffix("_seconds"),
                )
        if self.conditions.latency >= self.patience:
            raise InputError(
                f"expected less than the patience of {self.patience:g} s, got {self.conditions.latency:g}",
                field="latency",
            )

    @property
    def silence(self) -> float:
        """Seconds without a word after which the leader is taken for dead: the lease, and what a round trip takes."""
        return self.lease + 2 * self.conditions.delay(USUAL_BYTES)


_EARLIER: dict[str, Any] = {"host": HOST, "port": 0, "elsewhere": [], "mark": ""}
"""What runs of earlier versions do not say."""


def write_setup(folder: Path, setup: Setup, problem: ElasticProblem) -> None:
    """Put both into a folder."""
    text = json.dumps({"schema": SCHEMA, **asdict(setup)}, indent=1, allow_nan=False)
    (folder / RUN).write_text(text + "\n", encoding="utf-8")
    (folder / PROBLEM).write_text(json.dumps(_as_json(problem), allow_nan=False) + "\n", encoding="utf-8")


def is_agents_run(path: str | Path) -> bool:
    """Whether this is the folder of a run of agents."""
    file = Path(path) / RUN
    try:
        return bool(json.loads(file.read_text(encoding="utf-8"))["schema"] == SCHEMA)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def read_setup(folder: Path) -> tuple[Setup, ElasticProblem]:
    """What ``write_setup`` has written."""
    found = _read(folder / RUN)
    if found.pop("schema", None) != SCHEMA:
        raise InputError(f"expected {SCHEMA!r}", file=str(folder / RUN), field="schema")
    with _as_written(folder / RUN):
        found = _EARLIER | found
        found["elsewhere"] = tuple(map(str, found["elsewhere"]))
        found["conditions"] = Conditions(**_typed(found["conditions"], Conditions))
        setup = Setup(**_typed(found, Setup))
    document = _read(folder / PROBLEM)
    with _as_written(folder / PROBLEM):
        return setup, _of_json(document)


@contextmanager
def _as_written(path: Path) -> Iterator[None]:
    """One line for what is missing or of another form in a file of a run's folder."""
    try:
        yield
    except KeyError as error:
        raise InputError(
            "expected what weft agents writes, got nothing", file=str(path), field=str(error.args[0])
        ) from None
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise InputError(f"expected what weft agents writes: {error}", file=str(path)) from None
    except InputError as error:
        raise error.at(file=str(path)) from None


_SCALARS: dict[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "int": (int,), "float": (int, float)}


def _typed(
    found: dict[str, Any], kind: type[Setup | Conditions | TaskType | ElasticProblem]
) -> dict[str, Any]:
    """The fields of a document, if numbers and texts are where they should be."""
    for one in fields(kind):
        value, wanted = found[one.name], _SCALARS.get(str(one.type))
        if wanted is not None and (
            not isinstance(value, wanted) or isinstance(value, bool) != (one.type == "bool")
        ):
            raise InputError(f"expected {one.type}, got {shown(value)}", field=one.name)
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"expected the settings of a run: {error}", file=str(path)) from None
    if not isinstance(found, dict):
        raise InputError("expected an object", file=str(path))
    return found


def _as_json(problem: ElasticProblem) -> dict[str, Any]:
    fields = {key: getattr(problem, key) for key in problem.__dataclass_fields__}
    types = [{key: getattr(kind, key) for key in kind.__dataclass_fields__} for kind in problem.types]
    for kind in types:
        kind |= {"rate": kind["rate"].tolist(), "base": kind["base"].tolist()}
    tables = {key: getattr(problem, key).tolist() for key in ("capacity", "arrivals")}
    return fields | tables | {"types": types}


def _of_json(found: dict[str, Any]) -> ElasticProblem:
    types = []
    for kind in found["types"]:
        kind.setdefault("switching", 1.0)  # runs of earlier versions have none
        tables = {key: np.array(kind[key], np.float64) for key in ("rate", "base")}
        tuples = {key: tuple(kind[key]) for key in ("least", "most", "curve")}
        types.append(TaskType(**{**_typed(kind, TaskType), **tables, **tuples}))
    found.setdefault("arrivals", [])  # runs of earlier versions have none
    tuples = {"weights": tuple(found["weights"])}
    tuples |= {key: tuple(map(str, found[key])) for key in ("resources", "cluster_names")}
    given = {
        "types": tuple(types),
        "capacity": np.array(found["capacity"], np.int64),
        "arrivals": np.array(found["arrivals"], np.int64).reshape(-1, 3),
    }
    return ElasticProblem(**{**_typed(found, ElasticProblem), **tuples, **given})
