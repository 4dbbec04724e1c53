"""weft: schedulers for task graphs on unequal machines, planned, proven and run.

Public names only; each is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from weft.catalog import Result as Result
    from weft.catalog import schedule as schedule
    from weft.errors import InfeasibleError as InfeasibleError
    from weft.errors import InputError as InputError
    from weft.errors import WeftError as WeftError
    from weft.evaluation.comparing import Comparison as Comparison
    from weft.evaluation.comparing import compare as compare
    from weft.evaluation.figures.charts import gantt as gantt
    from weft.evaluation.questions.show import Shown as Shown
    from weft.evaluation.questions.show import show as show
    from weft.evaluation.sets.bench import Bench as Bench
    from weft.evaluation.sets.bench import bench as bench
    from weft.evaluation.sweep.evaluation import Evaluation as Evaluation
    from weft.evaluation.sweep.request import evaluate as evaluate
    from weft.execute.export import Exported as Exported
    from weft.execute.export import export as export
    from weft.execute.recording import record as record
    from weft.execute.recording import task as task
    from weft.execute.run import Run as Run
    from weft.execute.running import run as run
    from weft.io.files import read_cluster as read_cluster
    from weft.io.files import read_graph as read_graph
    from weft.io.files import read_problem as read_problem
    from weft.model.bookings import Booking as Booking
    from weft.model.bounds import Bound as Bound
    from weft.model.bounds import lower_bound as lower_bound
    from weft.model.cluster import Cluster as Cluster
    from weft.model.cluster import DeviceClass as DeviceClass
    from weft.model.graph import GraphBuilder as GraphBuilder
    from weft.model.graph import TaskGraph as TaskGraph
    from weft.model.problem import Job as Job
    from weft.model.problem import Objective as Objective
    from weft.model.problem import Problem as Problem
    from weft.model.problem import realise as realise
    from weft.model.schedule import Schedule as Schedule
    from weft.model.validate import validate as validate
    from weft.reporting import report as report
    from weft.scenarios.scenario import Scenario as Scenario
    from weft.scenarios.scenario import scenario as scenario
    from weft.session import Session as Session
    from weft.training.make_env import make_env as make_env
    from weft.training.train import Trained as Trained
    from weft.training.train import train as train

_HOMES = {
    "weft.catalog": "Result schedule",
    "weft.errors": "InfeasibleError InputError WeftError",
    "weft.evaluation.sets.bench": "Bench bench",
    "weft.evaluation.figures.charts": "gantt",
    "weft.evaluation.comparing": "Comparison compare",
    "weft.evaluation.questions.show": "Shown show",
    "weft.evaluation.sweep.evaluation": "Evaluation",
    "weft.evaluation.sweep.request": "evaluate",
    "weft.execute.recording": "record task",
    "weft.execute.export": "Exported export",
    "weft.execute.run": "Run",
    "weft.execute.running": "run",
    "weft.io.files": "read_cluster read_graph read_problem",
    "weft.model.bounds": "Bound lower_bound",
    "weft.model.cluster": "Cluster DeviceClass",
    "weft.model.graph": "GraphBuilder TaskGraph",
    "weft.model.bookings": "Booking",
    "weft.model.problem": "Job Objective Problem realise",
    "weft.model.schedule": "Schedule",
    "weft.model.validate": "validate",
    "weft.reporting": "report",
    "weft.scenarios": "Scenario scenario",
    "weft.session": "Session",
    "weft.training.make_env": "make_env",
    "weft.training.train": "Trained train",
}
"""Module -> the public names in it."""
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'weft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
