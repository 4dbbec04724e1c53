"""``dask.compute`` with weft's schedulers: the same results, from a graph that carries a plan.

A planner's plan goes to Dask as one graph with a worker and a priority per key. What decides at events instead
(dispatchers, policies) gives Dask one task at a time, through a session.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft import catalog
from weft.errors import InputError, WeftError
from weft.execute.dask_cluster import given_cluster
from weft.execute.dask_connect import distributed, workers_of
from weft.execute.dask_engine import DaskEngine
from weft.execute.dask_graph import DATA, DaskGraph, NodeWork, graph_of
from weft.execute.dask_link import stop_stealing
from weft.execute.dask_orders import DaskDevice
from weft.execute.dask_scheduler import end_watch
from weft.execute.drive import Drive
from weft.execute.feed import feed_of
from weft.execute.scheduling import Chosen, Wanted, choose
from weft.execute.told import Told
from weft.io.histories import History
from weft.io.profiled import with_profile
from weft.io.profiles import Profile
from weft.model.cluster import Cluster
from weft.model.problem import Objective, Problem
from weft.model.schedule import Schedule

BUDGET = 1.0
"""Seconds for planners that search."""
_NOWHERE = "weft-profile-that-is-not-written.json"
_remembered: dict[str, Profile] = {}
"""Run times seen by this process, by address of the scheduler."""


@dataclass(frozen=True)
class Planned:
    """Stands in for a scheduler of Dask: called with a graph and keys, it returns their values.

    Parameters
    ----------
    profile
        Where run times are kept; a file, the object, or None: in this process.
    cluster
        What the workers are; a cluster file as ``weft calibrate`` writes it, the object whose devices are called as the
        workers are, or None: made of the client's workers.
    """

    client: Any
    scheduler: str | Any = "auto"
    profile: Profile | str | Path | None = None
    cluster: Cluster | str | Path | None = None
    budget: float | None = None
    seed: int = 0

    def __call__(self, given: Any, keys: Any, **options: Any) -> Any:
        graph = graph_of(given, keys)
        if not graph.nodes:
            return self.client.get(given, keys, **options)
        workers = workers_of(self.client)
        if not workers:
            raise InputError("the Dask cluster has no workers", field="client")
        cluster, devices = given_cluster(self.cluster, workers)
        profile = self._profile()
        drawn = graph.task_graph(profile, [one.name for one in cluster.classes])
        problem = with_profile(Problem(drawn, cluster, Objective(copies=False)), profile)
        chosen = choose(self._wanted(), problem, is_stream=False)
        if chosen.plan is None:
            return self._through_session(graph, problem, chosen, devices, keys)
        address = {name: one.address for one in workers for name in (one.name, one.address)}
        places = [address[device.worker] for device in devices]
        notes = annotations_of(graph, chosen.plan.schedule, places)
        return self._submit(graph, keys, notes, dict(zip(places, devices, strict=True)), options)

    def _wanted(self) -> Wanted:
        is_search = not isinstance(self.scheduler, str) or catalog.is_limited(self.scheduler)
        return Wanted(
            self.scheduler, self.seed, budget=self.budget or (BUDGET if is_search else None), max_attempts=1
        )

    def _profile(self) -> Profile:
        if isinstance(self.profile, Profile):
            return self.profile
        if self.profile is not None:
            return Profile.read(self.profile)
        return _remembered.setdefault(self.client.scheduler.address, Profile(_NOWHERE))

    def _submit(
        self, graph: DaskGraph, keys: Any, notes: dict[str, Any], at: dict[str, DaskDevice], options: Any
    ) -> Any:
        """Have Dask carry the plan out, and note what tasks took."""
        import dask
        from dask._expr import LLGExpr

        topic = f"weft-{uuid.uuid4().hex[:12]}"
        expression = LLGExpr(dict(graph.nodes), _determ_token=topic)  # else all of it is hashed for a name
        stop_stealing(self.client, topic, records=True)
        try:
            with dask.annotate(**notes):
                return self.client.get(expression, keys, **options)
        finally:
            if self.client.status == "running":
                self._learn(graph, self.client.run_on_scheduler(end_watch(), topic), at)

    def _learn(self, graph: DaskGraph, seen: list[Any], at: dict[str, DaskDevice]) -> None:
        profile, kind = self._profile(), dict(zip(graph.keys, graph.kinds, strict=True))
        for key, worker, seconds, size in seen:
            if kind.get(key, DATA) != DATA and worker in at:
                profile.add(kind[key], at[worker].device_class, max(0.0, seconds), size)
        if self.profile is not None:
            profile.write()

    def _through_session(
        self, graph: DaskGraph, problem: Problem, chosen: Chosen, devices: list[DaskDevice], keys: Any
    ) -> Any:
        """Task by task, as a dispatcher or policy decides."""
        if graph.has_outside():
            raise InputError(
                f"{chosen.name} decides task by task, which cannot use what is on the cluster already: "
                "name a planner, or compute without futures and persisted collections",
                field="scheduler",
            )
        engine = DaskEngine(self.client, devices, NodeWork(graph), seconds_per_unit=problem.seconds_per_unit)
        drive = Drive(Told(problem.cluster, chosen.make), engine, feed_of(problem), History(None))
        job, names = problem.jobs[0].name, dict(zip(graph.keys, graph.names, strict=True))
        try:
            drive.run()
            self._learn_from(drive, devices, problem.seconds_per_unit)
            _refuse_failure(drive)
            return _each(keys, lambda key: engine.result(job, names[key]))
        finally:
            engine.close()

    def _learn_from(self, drive: Drive, devices: list[DaskDevice], unit: float) -> None:
        profile, class_of = self._profile(), {one.name: one.device_class for one in devices}
        for one in drive.observed:
            if one.kind != DATA:
                profile.add(one.kind, class_of[one.device], max(0.0, one.actual) * unit, one.size)
        if self.profile is not None:
            profile.write()


def compute(
    *collections: Any,
    client: Any = None,
    scheduler: str | Any = "auto",
    profile: Profile | str | Path | None = None,
    cluster: Cluster | str | Path | None = None,
    budget: float | None = None,
    seed: int = 0,
    optimize_graph: bool = True,
    traverse: bool = True,
) -> tuple[Any, ...]:
    """What ``dask.compute`` returns, computed on the client's workers as one of weft's schedulers says.

    Parameters
    ----------
    client
        Of ``distributed``; None: the current one.
    scheduler
        A planner: one graph with its plan; a dispatcher, policy or weights: decides at every event.
    profile
        File or object that keeps observed run times, so that the next plan knows them; None: this process
        remembers them.
    cluster
        Cluster file of ``weft calibrate``, or a cluster whose devices are called as the workers are.
    budget
        Seconds for planners that search; 1 unless given.
    """
    import dask

    planned = Planned(client or _current(), scheduler, profile, cluster, budget, seed)
    found: tuple[Any, ...] = dask.compute(
        *collections, scheduler=planned, optimize_graph=optimize_graph, traverse=traverse
    )
    return found


@contextmanager
def scheduled(
    client: Any = None,
    scheduler: str | Any = "auto",
    *,
    profile: Profile | str | Path | None = None,
    cluster: Cluster | str | Path | None = None,
    budget: float | None = None,
    seed: int = 0,
) -> Iterator[None]:
    """Within this block ``x.compute()`` and ``dask.compute`` go through one of weft's schedulers."""
    import dask

    planned = Planned(client or _current(), scheduler, profile, cluster, budget, seed)
    with dask.config.set(scheduler=planned):
        yield


def annotations_of(graph: DaskGraph, plan: Schedule, places: list[str]) -> dict[str, Any]:
    """A plan as annotations of Dask: each a function of the key that travels without weft.

    Parameters
    ----------
    places
        Address of the worker of every device.
    """
    keys, own = graph.keys, graph.annotations
    rows = zip(plan.task.tolist(), plan.device.tolist(), strict=True)
    order = [(keys[task], places[device]) for task, device in rows]
    workers: dict[Any, Any] = {key: [place] for key, place in order}
    is_soft = dict.fromkeys(keys, True)
    for key, value in own.get("workers", {}).items():  # whom the user bound stays bound
        if key in workers:
            workers[key], is_soft[key] = value, own.get("allow_other_workers", {}).get(key, False)
    notes: dict[str, dict[Any, Any]] = {
        "workers": workers,
        "allow_other_workers": is_soft,
        "priority": {key: -i for i, (key, _) in enumerate(order)},
    }
    for name, neutral in (("resources", {}), ("retries", 0)):
        if own.get(name):
            notes[name] = {key: own[name].get(key, neutral) for key in keys}
    return {name: table.__getitem__ for name, table in notes.items()}


def _current() -> Any:
    package = distributed()
    try:
        return package.get_client()
    except ValueError:
        raise InputError("expected a client of Dask: there is no current one", field="client") from None


def _refuse_failure(drive: Drive) -> None:
    if all(end.outcome == "done" for end in drive.told.ends):
        return
    failed = [row for row in drive.history.rows if row["event"] == "failed"]
    last = failed[-1] if failed else {"task": "unknown", "note": drive.told.ends[0].reason}
    raise WeftError(f"task {last['task']} has failed: {last['note']}")


def _each(keys: Any, value: Any) -> Any:
    """Values in the place of keys, in nested lists."""
    return [_each(key, value) for key in keys] if isinstance(keys, list) else value(keys)
