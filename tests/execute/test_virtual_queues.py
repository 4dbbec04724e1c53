"""A session driven by a simulated world decides as the kernel does alone, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import Session
from weft.catalog import dispatcher
from weft.errors import InputError
from weft.evaluation.sweep.queue_runs import play, run_rule, setup_of
from weft.execute.virtual_runs import Driven, drive_queues
from weft.model.arrivals import Arrivals
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.scenarios import scenario
from weft.sim.queues.environment import START, Setup
from weft.sim.queues.kernel import NOW, State, advance, apply_action, begin
from weft.sim.queues.layout import Rules, compile_stream, edge_probabilities, new_state
from weft.sim.queues.rules import choose

Log = list[tuple[float, str, int, int]]
"""Time, kind, lane and size of every batch."""
RULES = ("fifo", "fifo+wait", "mru", "eft", "heavy-last-3", "srw", "random", "batch-fifo", "heft-estimated")


@pytest.mark.parametrize("name", ["fifo", "mru", "heavy-last-3", "eft", "ppo", "heft-estimated"])
@pytest.mark.parametrize("p_c", [0.0, 0.5, 1.0])
def test_driven_session_equals_kernel(name: str, p_c: float):
    case = scenario("conditional", p_c=p_c, jobs=200).stream("test", 0)
    for seed in (1, 2):
        alone = play(name, case, [seed])
        driven = drive_queues(Session(case, name, seed=seed), setup_of(case), seed)
        assert driven.job_times.tobytes() == alone.job_times[0].tobytes()


@pytest.mark.parametrize("given", [{"estimate": "end", "forget": 0.9}, {"idle": "wait"}, {"expiry": 60}])
def test_driven_session_equals_kernel_under_other_rules(given: dict[str, object]):
    case = scenario("conditional", p_c=0.3, jobs=200, **given).stream("test", 0)
    for name in ("fifo", "ppo", "heft-estimated"):
        alone = play(name, case, [5])
        driven = drive_queues(Session(case, name, seed=5), setup_of(case), 5)
        assert driven.job_times.tobytes() == alone.job_times[0].tobytes()


def make_graph(rng: np.random.Generator, num_tasks: int) -> TaskGraph:
    """Forks, joins and up to two branches out of one task; kind c runs on the first class only."""
    ends = [(i, j) for i in range(num_tasks) for j in range(i + 1, num_tasks) if rng.random() < 0.5]
    branch = rng.integers(-1, 2, len(ends))
    probability = np.ones(len(ends))
    for source in range(num_tasks):
        for group in (0, 1):
            edges = [e for e, (i, _) in enumerate(ends) if i == source and branch[e] == group]
            probability[edges] = rng.dirichlet(np.ones(len(edges))) if edges else 1.0
    times = rng.choice([0.0, 1.0, 2.0, 5.0], (num_tasks, 3))
    kind = rng.integers(0, 3, num_tasks)
    times[kind == 2, 1:] = np.inf
    sources, targets = [i for i, _ in ends], [j for _, j in ends]
    return TaskGraph(
        np.full(num_tasks, np.nan), sources, targets, kinds=("a", "b", "c"), kind=kind,
        classes=("c0", "c1", "c2"), times=times, probability=probability, branch=branch,
    )  # fmt: skip


def make_setup(seed: int, num_jobs: int, num_tasks: int) -> Setup:
    """Times are whole or half, so that they tie."""
    rng = np.random.default_rng(seed)
    batches = [int(rng.integers(2, 4)), *rng.integers(1, 3, 2).tolist()]
    classes = [DeviceClass(f"c{k}", batch=batch, slots=1 + k % 2) for k, batch in enumerate(batches)]
    problem = Problem(make_graph(rng, num_tasks), Cluster.uniform(classes, [1, 1, 2]))
    gap = float(rng.choice([0.5, 1.0, 3.0]))
    rules = Rules(
        expiry=float(rng.choice([np.inf, 12.0])),
        idle_block=float(rng.choice([0.0, 1.5])),
        forget=float(rng.choice([1.0, 0.5])),
        peeks=bool(rng.random() < 0.5),
    )
    return Setup(problem, Arrivals("periodic", num_jobs, gap), rules)


def step_kernel(name: str, setup: Setup, seed: int) -> Log:
    """Every batch the kernel starts on its own, decision by decision."""
    stream = compile_stream(setup.problem, setup.rules)
    state = new_state(stream, 1, setup.arrivals.count, edge_probabilities(setup.problem), room=4096)
    state.seed[0], state.arrival[0] = seed, setup.arrivals.draw(seed)
    rule = dispatcher(name).rule(setup.problem, stream, np.array([seed], np.int64))
    num_lanes, num_kinds = stream.can_run.shape
    action, claimed = np.empty(num_lanes, np.int64), np.empty(num_kinds, np.int64)
    log: Log = []
    is_over = begin(stream, state, 0, START)
    while not is_over:
        before = state.device_batches[0].copy()
        choose(rule, stream, state, 0, action, claimed)
        apply_action(stream, state, 0, action)
        write(log, setup, state, before)
        before[:] = state.device_batches[0]
        now = state.total[0, NOW]
        is_over = advance(stream, state, 0)
        assert state.total[0, NOW] == now or (before == state.device_batches[0]).all()
        write(log, setup, state, before)
    return log


def write(log: Log, setup: Setup, state: State, before: np.ndarray) -> None:
    for lane in np.flatnonzero(state.device_batches[0] > before).tolist():
        kind = setup.problem.graph.kinds[state.running_kind[0, lane]]
        log.append((float(state.total[0, NOW]), kind, lane, int(state.running_size[0, lane])))


def log_of(setup: Setup, driven: Driven) -> Log:
    """Batches of a driven session; lanes are given by device, which lists its slots in turn."""
    graph, sizes = setup.problem.graph, {}
    for time, start in driven.starts:
        key = (time, graph.kinds[graph.kind[graph.index[start.task]]], start.device, start.batch)
        sizes[key] = sizes.get(key, 0) + 1
    return [(time, kind, device, size) for (time, kind, device, _), size in sizes.items()]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 10), st.integers(3, 8), st.sampled_from(RULES))
def test_driven_session_equals_kernel_on_forks_joins_and_branches(
    seed: int, num_jobs: int, num_tasks: int, rule: str
):
    setup = make_setup(seed, num_jobs, num_tasks)
    if dispatcher(rule).supports(setup.problem) is not None:
        return
    driven = drive_queues(Session(setup.problem, rule, seed=seed, rules=setup.rules), setup, seed)
    alone = run_rule(dispatcher(rule), setup, [seed])
    assert driven.job_times.tobytes() == alone.job_times[0].tobytes()
    cluster = setup.problem.cluster
    names = [cluster.device_names[d] for d in np.repeat(np.arange(cluster.num_devices), cluster.slots)]
    want = [(time, kind, names[lane], size) for time, kind, lane, size in step_kernel(rule, setup, seed)]
    assert log_of(setup, driven) == want


def test_world_says_when_a_rule_would_wait_for_ever():
    case = scenario("conditional", jobs=5, expiry=0).stream("test", 0)
    session = Session(case, "fifo")
    for device in case.problem.cluster.device_names:
        session.device_lost(device, -100.0)
    with pytest.raises(InputError, match="tasks wait, and nothing will ever start them"):
        drive_queues(session, setup_of(case), 1)
