"""``run_agents``: one call that starts everything, waits, checks the promises and reads what happened."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.execute.agents.check import Checked, Checker, Rules
from weft.execute.agents.coordinating import decisions_file
from weft.execute.agents.deciding import allocator_of
from weft.execute.agents.desk import party_of
from weft.execute.agents.journal import read_lines
from weft.execute.agents.launching import Agents, Status, journals
from weft.execute.agents.places import Address, check_listening
from weft.execute.agents.recorded import recorded_run
from weft.execute.agents.serving import cluster_name
from weft.execute.agents.setup import RUN, Setup, read_setup
from weft.execute.agents.tasks import Message
from weft.io.folders import claim
from weft.model.elastic import ElasticProblem
from weft.model.elastic_oracle import first_fault
from weft.model.elastic_run import CLUSTER, RAN, ROUND, STEP, TASK, ElasticRun


@dataclass(frozen=True)
class Trip:
    """One decision: from when it was begun until every cluster had carried it out and said so."""

    step: int
    num_rounds: int
    """Logical steps that were decided at once."""
    inference: float
    """Seconds in the coordinator."""
    seconds: float
    """All of it."""
    state_bytes: float
    """That came from each cluster, on average;"""
    action_bytes: float
    """and went to it."""


@dataclass(frozen=True, eq=False)
class AgentsRun:
    """A run that has ended, as its folder tells it."""

    folder: Path
    setup: Setup
    problem: ElasticProblem
    checked: Checked
    run: ElasticRun
    trips: tuple[Trip, ...]
    outages: tuple[float, ...]
    """Seconds between the last decision of a coordinator and the first of the one that took over."""

    @cached_property
    def simulated(self) -> ElasticRun:
        """The simulation of the same episode with the same allocator: the plan that the run is held against."""
        from weft.schedulers.allocators.running import run_all

        allocator, problem = allocator_of(self.setup.scheduler, self.problem)
        return run_all(allocator, problem, [self.setup.seed])[0]

    @property
    def is_as_simulated(self) -> bool:
        """Whether both are the same, bit for bit."""
        return self.simulated.trace == self.run.trace

    @property
    def faults(self) -> tuple[str, ...]:
        """Promises that were broken; where nobody died, the rules of the scenario hold as in the simulation."""
        is_quiet = self.checked.num_terms == 1 and self.checked.num_again == 0
        fault = first_fault(self.run) if is_quiet and self.checked.ok else None
        return self.checked.faults if fault is None else (fault,)

    @property
    def inversions(self) -> int:
        """Pairs of tasks of one cluster that were placed against the order of the simulation."""
        planned, actual = _placements(self.simulated), _placements(self.run)
        found = 0
        for n in range(self.problem.num_clusters):
            rank = {task: k for k, task in enumerate(planned[n])}
            ranks = [rank[task] for task in actual[n] if task in rank]
            found += sum(before > after for k, after in enumerate(ranks) for before in ranks[:k])
        return found

    def to_dict(self) -> dict[str, Any]:
        """What can be said in JSON."""
        found = self.checked
        return {
            "scenario": self.setup.scenario,
            "scheduler": self.setup.scheduler,
            "folder": str(self.folder),
            "tasks": found.num_arrived,
            "completed": found.num_completed,
            "coordinators": found.num_terms,
            "placed_again": found.num_again,
            "steps": found.last_step,
            "ok": not self.faults,
            "faults": list(self.faults),
            "as_simulated": self.is_as_simulated,
            "outages": list(self.outages),
            "metrics": self.run.figures,
            "decisions": len(self.trips),
            "round_trip": _mean([one.seconds for one in self.trips]),
            "inference": _mean([one.inference for one in self.trips]),
            "logical_steps": _mean([float(one.num_rounds) for one in self.trips]),
            "state_bytes": _mean([one.state_bytes for one in self.trips]),
            "action_bytes": _mean([one.action_bytes for one in self.trips]),
        }


def _placements(run: ElasticRun) -> list[list[int]]:
    """Tasks of each cluster in the order in which they were placed."""
    first = run.rows[run.rows[:, RAN] == 0]
    first = first[np.lexsort((first[:, ROUND], first[:, STEP]))]
    return [first[first[:, CLUSTER] == n, TASK].tolist() for n in range(run.problem.num_clusters)]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def run_agents(
    problem: ElasticProblem,
    setup: Setup,
    folder: str | Path,
    *,
    kill_at: tuple[int, ...] = (),
    restart: bool = True,
    timeout: float = float("inf"),
    on_status: Callable[[Status], None] | None = None,
    on_waiting: Callable[[list[str], Address], None] | None = None,
) -> AgentsRun:
    """Run an episode with a process per cluster, one for the source, and coordinators.

    Parties that the setup names as elsewhere are not started: ``join_agents`` makes another process one of them.
    ``on_waiting`` is told who is waited for, and where they join.

    ``kill_at`` names world steps at which the leading coordinator is killed. Each step kills another leader:
    where the last one died too shortly before, the next to decide something is killed. Whatever was killed, by
    this or by somebody else, is started again unless ``restart`` is off.
    """
    _, problem = allocator_of(setup.scheduler, problem)
    if kill_at and setup.replicas < 2 and not restart:
        raise InputError("expected another coordinator to take over, got 1", field="replicas")
    setup = _checked_elsewhere(setup, problem, kill_at)
    path = claim(folder, "run of agents", RUN)
    if (path / RUN).exists():
        raise InputError("there is a run in this folder; --out names another", file=str(path))
    left, killed = sorted(kill_at), -1
    with Agents(path, setup, problem, on_waiting) as agents:

        def look(status: Status) -> None:
            nonlocal killed
            if left and status.term > killed and status.step >= left[0]:
                left.pop(0)
                killed, name = status.term, f"coordinator-{status.rank}"
                agents.kill(name)
                if restart:
                    agents.start(name)
            if restart:
                agents.start_killed()
            if on_status is not None:
                on_status(status)

        agents.wait(look, timeout)
    return read_agents(path)


def _checked_elsewhere(setup: Setup, problem: ElasticProblem, kill_at: tuple[int, ...]) -> Setup:
    """The setup with a mark of this run, where parties run elsewhere; refused where they could not."""
    if not setup.elsewhere:
        return setup
    roles = [party_of(name, problem.num_clusters, setup.replicas, "elsewhere")[0] for name in setup.elsewhere]
    if kill_at and "coordinator" in roles:
        raise InputError(
            "expected no steps, for coordinators elsewhere cannot be killed from here",
            field="kill-coordinator-at",
        )
    check_listening(Address(setup.host, setup.port), "listen")
    return replace(setup, mark=secrets.token_hex(8))


def check_agents(folder: str | Path) -> Checked:
    """Whether the journals of a folder keep their promises; one of a run that has not ended is refused."""
    path = Path(folder)
    setup, problem = read_setup(path)
    clusters, source = _all_journals(path, problem.num_clusters)
    checked = _checked(path, problem, clusters, source)
    if checked.num_completed < problem.num_tasks:
        _recorded(path, (problem, setup.seed), clusters, source, checked)  # says how far it came
    return checked


def read_agents(folder: str | Path) -> AgentsRun:
    """A run from its folder: promises are checked, whatever is said elsewhere."""
    path = Path(folder)
    setup, problem = read_setup(path)
    clusters, source = _all_journals(path, problem.num_clusters)
    checked = _checked(path, problem, clusters, source)
    run = _recorded(path, (problem, setup.seed), clusters, source, checked)
    files = [decisions_file(path, rank) for rank in range(setup.replicas)]
    try:
        rows = sorted((row for file in files for row in read_lines(file)), key=lambda row: row["term"])
        trips = tuple(_trip(row, problem.num_clusters) for row in rows if row["ok"])
        pairs = [(old, new) for old, new in pairwise(rows) if old["term"] != new["term"]]
        outages = tuple(new["at"] - old["at"] - old["trip"] for old, new in pairs)
    except _OTHER_FORM:
        raise InputError("expected decisions as weft agents writes them", file=str(path)) from None
    return AgentsRun(path, setup, problem, checked, run, trips, outages)


_OTHER_FORM = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)
"""What reading raises where a line has another form than expected."""


def _all_journals(path: Path, num_clusters: int) -> tuple[list[list[Message]], list[Message]]:
    """The journals of a run, all of which have to be there."""
    for name in (*map(cluster_name, range(num_clusters)), "source"):
        file = path / f"{name}.jsonl"
        if not file.is_file():
            raise InputError("expected a journal of this run, got no such file", file=str(file))
    return journals(path, num_clusters)


def _recorded(
    path: Path,
    episode: tuple[ElasticProblem, int],
    clusters: list[list[Message]],
    source: list[Message],
    checked: Checked,
) -> ElasticRun:
    """What ran, unless journals contradict one another."""
    try:
        return recorded_run(*episode, clusters, source)
    except _OTHER_FORM:
        fault = checked.faults[0] if checked.faults else "a line is not as weft agents writes it"
        raise InputError(f"cannot tell what ran: {fault}", file=str(path)) from None
    except InputError as error:
        raise error.at(file=str(path)) from None


def _checked(
    path: Path, problem: ElasticProblem, clusters: list[list[Message]], source: list[Message]
) -> Checked:
    """What the checker says of the journals, if it can read them."""
    checker = Checker(
        Rules(problem.capacity.tolist(), [list(one.most) for one in problem.types], problem.num_tasks)
    )
    try:
        return checker.check(clusters, source)
    except _OTHER_FORM:
        said = "expected what weft agents writes"
        raise InputError(said, file=str(path), field=checker.where) from None


def _trip(row: dict[str, Any], num_clusters: int) -> Trip:
    sizes = row["up"] / num_clusters, row["down"] / num_clusters
    return Trip(int(row["step"]), int(row["rounds"]), float(row["inference"]), float(row["trip"]), *sizes)
