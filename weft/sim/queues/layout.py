"""Streams of jobs laid out for the event kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.errors import InfeasibleError, InputError, UnsupportedError
from weft.model.cluster import Cluster
from weft.model.graph import ALWAYS, Floats, Ints, TaskGraph
from weft.model.problem import Problem
from weft.sim.arrays import zeros
from weft.sim.queues.kernel import NUM_COUNTS, NUM_TOTALS, State, Stream

INFINITE = float("inf")


@dataclass(frozen=True)
class Rules:
    """Rules of the game that are neither graph nor cluster."""

    expiry: float = INFINITE
    """A queued task whose job is older than this is dropped, and the job counts with this time."""
    idle_block: float = 0.0
    """How long an idle decision blocks its device; 0: until the next event."""
    forget: float = 0.0
    """Weight of older outcomes in the running estimate of a branch, per new outcome; 0: the
    default of the estimator, which forgets nothing unless it was made to."""
    peeks: bool = False
    """Whether the outcome of a branch counts from the start of its task instead of its end."""
    tracked: tuple[str, ...] | None = None
    """Tasks whose branches are estimated, the first being the one that drifts; None: all, in order."""

    def __post_init__(self) -> None:
        if not self.expiry > 0:
            raise InputError(f"expected a time > 0, got {self.expiry}", field="expiry")
        if not 0 <= self.idle_block < INFINITE:
            raise InputError(f"expected a time >= 0, got {self.idle_block}", field="idle_block")
        if not 0 <= self.forget <= 1:
            raise InputError(f"expected a weight from 0 to 1, got {self.forget}", field="forget")


def compile_stream(problem: Problem, rules: Rules | None = None) -> Stream:
    """Lay out the graphs of a problem (one per job, as templates) and its devices.

    A device with several slots becomes several devices of one slot; what would overload it is refused.
    """
    rules = rules or Rules()
    reason = refuse_queues(problem)
    if reason is not None:
        raise UnsupportedError(reason, field="problem")
    graphs = [job.graph for job in problem.jobs]
    kinds = tuple(dict.fromkeys(kind for g in graphs for kind in g.kinds))
    index = {kind: k for k, kind in enumerate(kinds)}
    sizes = [g.num_tasks for g in graphs]
    kind = np.concatenate([np.array([index[k] for k in g.kinds], np.int64)[g.kind] for g in graphs])
    succ_ptr = np.concatenate(
        [[0], np.cumsum(np.concatenate([np.diff(g.successor_pointer) for g in graphs]))]
    ).astype(np.int64)
    devices = np.repeat(np.arange(problem.cluster.num_devices), problem.cluster.slots)
    device_class = problem.cluster.device_class[devices].astype(np.int64)
    batch = problem.cluster.class_column("batch")[device_class].astype(np.int64)
    run = np.ascontiguousarray(problem.run_times)
    can_run = _can_run(run, kind, len(kinds), device_class)
    for k in np.flatnonzero(~can_run.any(axis=0)).tolist():
        raise InfeasibleError(f"no device can run every task of kind {kinds[k]!r}", field="kind")
    return Stream(
        graph_ptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        kind=kind,
        run=run.copy(),
        num_in=np.concatenate([np.diff(g.predecessor_pointer) for g in graphs]).astype(np.int64),
        succ_ptr=succ_ptr,
        succ=np.concatenate([g.targets for g in graphs]).astype(np.int64),
        group=np.concatenate([g.branch for g in graphs]).astype(np.int64),
        order=np.concatenate([g.order for g in graphs]).astype(np.int64),
        choice=_choices(graphs, rules),
        device_class=device_class,
        batch=batch,
        can_run=can_run,
        expiry=float(rules.expiry),
        idle_block=float(rules.idle_block),
        forget=float(rules.forget or 1.0),
        peeks=bool(rules.peeks),
    )


def refuse_queues(problem: Problem) -> str | None:
    """The reason why queues by kind cannot keep a rule of this problem, or None."""
    for job in problem.jobs:
        if job.graph.is_elastic:
            return f"job {job.name!r} has elastic tasks: only allocators act on them (weft evaluate FILE -s optimus)"
        if (job.graph.slots > 1).any():
            return "tasks that hold several slots cannot wait in queues by kind"
        if job.period is not None:
            return f"job {job.name!r} has a period: in a stream the setting arrivals says when jobs come"
        if job.release > 0:
            return f"job {job.name!r} has a release: in a stream the setting arrivals says when jobs come"
        if job.booking is not None:
            return f"job {job.name!r} books devices: queues by kind hold nothing for one job"
        if job.deadline is not None:
            return f"job {job.name!r} has a deadline: streams of one job know an expiry only (the setting expiry)"
        reason = _overload(problem.cluster, job.graph)
        if reason is not None:
            return reason
    return None


def refuse_stream(problem: Problem) -> str | None:
    """The reason why no dispatcher of the queue view can act on this problem, or None."""
    if len(problem.jobs) != 1:
        return f"a stream repeats one job, this problem has {len(problem.jobs)}"
    job = problem.jobs[0]
    if job.eligible is not None:
        return f"job {job.name!r} may use some devices only: queues by kind are open to all devices"
    if problem.ccr > 0:
        return "data on edges takes time on these links: queues by kind know no transfers"
    if problem.varies:
        return "run times vary: queues by kind take them as they are given"
    return refuse_queues(problem)


def _overload(cluster: Cluster, graph: TaskGraph) -> str | None:
    """How the slots of one device may together hold more than it has, or None: slots do not see one another.

    One batch holds what its largest member needs, and a task too large for a device never runs there.
    """
    needs = {"memory": graph.memory}
    needs |= {name: graph.demands[:, r] for r, name in enumerate(graph.resources)}
    for device_class in (c for c in cluster.classes if c.slots > 1):
        for name, need in needs.items():
            limit = device_class.memory if name == "memory" else device_class.capacity.get(name, INFINITE)
            most = float(need[need <= limit].max(initial=0.0))
            if device_class.slots * most > limit:
                return (
                    f"{device_class.slots} tasks on a device of class {device_class.name!r} may need "
                    f"{device_class.slots * most:g} of its {limit:g} {name}: slots of queues by kind do not see one "
                    "another; give the class fewer slots"
                )
    return None


def kind_names(problem: Problem) -> tuple[str, ...]:
    """Names of the kinds in the order of the queues."""
    return tuple(dict.fromkeys(kind for job in problem.jobs for kind in job.graph.kinds))


def _can_run(run: Floats, kind: Ints, num_kinds: int, device_class: Ints) -> np.ndarray:
    can = np.zeros((run.shape[1], num_kinds), np.bool_)
    for k in range(num_kinds):
        can[:, k] = np.isfinite(run[kind == k]).all(axis=0)
    return np.ascontiguousarray(can[device_class])


def _choices(graphs: list[TaskGraph], rules: Rules) -> Ints:
    """Number of the tracked branch each edge belongs to, -1 for none.

    Branches are numbered through all graphs, those of one task by their group; jobs of the same
    graph object share them.
    """
    places: dict[int, int] = {}
    same = [places.setdefault(id(graph), k) for k, graph in enumerate(graphs)]
    keys = [
        (same[k], int(graph.sources[e]), int(graph.branch[e])) if graph.branch[e] != ALWAYS else None
        for k, graph in enumerate(graphs)
        for e in range(graph.num_edges)
    ]
    branches = list(dict.fromkeys(key for key in keys if key is not None))
    number = {branch: n for n, branch in enumerate(_tracked(graphs, branches, rules.tracked))}
    return np.array([-1 if key is None else number.get(key, -1) for key in keys], np.int64)


def _tracked(
    graphs: list[TaskGraph], branches: list[tuple[int, int, int]], names: tuple[str, ...] | None
) -> list[tuple[int, int, int]]:
    """Those of the branches (graph, task, group) that belong to tasks of these names, in that order."""
    if names is None:
        return branches
    found: list[tuple[int, int, int]] = []
    for name in dict.fromkeys(names):
        own = sorted(branch for branch in branches if graphs[branch[0]].names[branch[1]] == name)
        if not own:
            among = ", ".join(dict.fromkeys(repr(graph.name) for graph in graphs))
            raise InputError(f"expected a task that branches in graph {among}, got {name!r}", field="tracked")
        found += own
    return found


def num_branches(stream: Stream) -> int:
    """Number of tracked branches."""
    return int(stream.choice.max(initial=-1)) + 1


def edge_probabilities(problem: Problem) -> Floats:
    """Branch probabilities of all edges, as the graphs state them."""
    return np.concatenate([job.graph.probability for job in problem.jobs])


def new_state(
    stream: Stream,
    num_envs: int,
    num_jobs: int,
    probability: Floats,
    *,
    slots: int = 1024,
    room: int = 1024,
    traced: bool = False,
    told: bool = False,
    knots: int = 0,
    mixed: bool = False,
    recorded: bool = False,
) -> State:
    """Empty state for this many environments; ``slots`` bounds the spread of jobs alive at once.

    ``recorded``: where and when every task runs is kept.
    """
    num_devices, num_kinds = stream.can_run.shape
    max_nodes = int(np.diff(stream.graph_ptr).max())
    slots = min(slots, num_jobs)
    room = min(room, num_jobs * int(np.bincount(stream.kind).max()))
    # a device may start again before all ends of its last batch at this same time are seen
    running = 2 * int(stream.batch.sum()) + 1

    drawn, kept = num_jobs if traced else 0, num_jobs if recorded else 0
    branches, width = num_branches(stream), int(np.diff(stream.succ_ptr).max(initial=0)) if told else 0
    columns = zeros(
        State,
        ((num_envs,), "seed overflow"),
        ((num_envs, num_jobs), "arrival finish"),
        ((num_envs, num_jobs if mixed else 0), "graph"),
        ((num_envs, drawn, max_nodes), "trace"),
        ((num_envs, width), "told"),
        ((num_envs, knots), "drift_at drift_value"),
        ((num_envs, kept, max_nodes), "task_device task_batch task_start task_finish"),
        ((num_envs, slots, max_nodes), "open_edges"),
        ((num_envs, max_nodes + 1), "stack"),
        ((num_envs, slots), "open_tasks"),
        ((num_envs, num_kinds, room), "queue"),
        ((num_envs, num_kinds), "queued"),
        ((num_envs, running), "event_time event_item"),
        ((num_envs, num_devices), "free_at running_kind running_size"),
        ((num_envs, num_devices), "device_busy device_batches device_tasks"),
        ((num_envs, branches, 2), "seen"),
        ((num_envs, NUM_COUNTS), "count"),
        ((num_envs, NUM_TOTALS), "total"),
    )
    jobs = np.full(num_envs, num_jobs, np.int64)
    return State(jobs=jobs, probability=np.tile(probability, (num_envs, 1)), **columns)
