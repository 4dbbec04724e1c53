"""A policy keeps to what it was trained for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weft.catalog import chooser, policy_file
from weft.errors import InputError
from weft.evaluation.sweep.queue_runs import play, run_policy
from weft.model.cluster import Cluster
from weft.model.problem import Problem
from weft.model.stream import StreamProblem
from weft.policies.checkpoint import Architecture, Card
from weft.policies.guard import Guard, LoadGuard, fingerprint, guard_of, safe_dispatcher
from weft.scenarios import scenario
from weft.session import Session
from weft.sim.queues.environment import setup_of

SHAPE = Architecture(num_features=2, num_heads=1, num_choices=2)
CARD = Card("toy", "ppo", SHAPE, ranges=((0.0, 1.0), (0.0, 0.0)))


@pytest.fixture(scope="module")
def case() -> StreamProblem:
    return scenario("conditional", jobs=300).stream("test", 0)


@pytest.fixture(scope="module")
def problem(case: StreamProblem) -> Problem:
    return case.problem


def test_guard_leaves_a_margin_of_three_ranges_and_one_unit_at_least():
    rows = np.array([[3.9, 0.9], [4.1, 0.0], [0.0, 1.1]], np.float32)
    assert Guard(CARD).outside(rows).tolist() == [False, True, True]


def test_guard_needs_ranges():
    assert guard_of(replace(CARD, ranges=())) is None
    assert guard_of(CARD) is not None


def test_fingerprint_knows_probabilities_and_arrivals_apart_from_the_world(problem: Problem):
    other = scenario("conditional", jobs=10, p_c=0.9, gap=5).stream("train", 0).problem
    assert fingerprint(other) == fingerprint(problem)


def _slower(problem: Problem) -> Problem:
    return Problem(problem.graph.replaced(work=2 * problem.graph.work), problem.cluster)


def _heavy_elsewhere(problem: Problem) -> Problem:
    return Problem(problem.graph.replaced(work=problem.graph.work[[0, 1, 3, 2, 5, 4]]), problem.cluster)


def _smaller(problem: Problem) -> Problem:
    classes = [replace(one, batch=min(one.batch, 4)) for one in problem.cluster.classes]
    return problem.replaced(cluster=Cluster.uniform(classes, [2, 1, 1]))


@pytest.mark.parametrize("change", [_slower, _heavy_elsewhere, _smaller])
def test_policy_of_another_world_with_the_same_names_is_refused(case: StreamProblem, change):
    with pytest.raises(InputError, match="edges, run times or batches differ") as caught:
        Session(replace(case, problem=change(case.problem)), "ppo")
    assert caught.value.field == "training.fingerprint"


@pytest.mark.parametrize("p_c", [0.0, 0.5, 1.0])
def test_shipped_policy_is_inside_its_ranges_in_normal_streams(p_c: float):
    case = scenario("conditional", jobs=1000, p_c=p_c).stream("test", 0)
    assert play("ppo", case, [1, 2, 3, 4]).fallbacks.tolist() == [0, 0, 0, 0]


def test_policy_beyond_its_ranges_leaves_the_decision_to_a_rule():
    case = scenario("conditional", jobs=600, gap=2.0, spread=1.0, p_c=0.0).stream("test", 0)
    learned = chooser("ppo")
    setup = setup_of(case, learned.sight, waits=learned.waits, narrows=learned.narrows)
    found = play("ppo", case, [1, 2])
    assert (found.fallbacks > 0).all()
    assert (found.fallbacks < found.decisions).all()
    alone = run_policy(learned.policy, setup, [1, 2])
    assert alone.fallbacks.tolist() == [0, 0]
    assert found.trace(0) != alone.trace(0)


def test_fallback_without_batches_is_the_oldest_job(problem: Problem):
    classes = [replace(one, batch=1) for one in problem.cluster.classes]
    other = problem.replaced(cluster=Cluster.uniform(classes, [2, 1, 1]))
    assert safe_dispatcher(problem).name == "heavy-last-1"
    assert safe_dispatcher(other).name == "fifo+wait"


def test_session_beyond_the_ranges_warns_once_and_counts(case: StreamProblem):
    session = Session(case, "ppo")
    for job in range(400):
        session.arrived(job, 0.0)
    with pytest.warns(UserWarning, match="heavy-last-1 decides there") as said:
        starts = session.decide(2000.0).starts
        for start in starts:
            session.started(start.job, start.task, start.device, 2000.0)
        for start in starts:
            session.finished(start.job, start.task, start.device, 2010.0)
        session.decide(2010.0)
    assert len(said) == 1
    assert session.num_fallbacks == 2


# -- loads of graph nets ------------------------------------------------------------------------------


def trained_on(loads: object, folder: Path) -> str:
    """The card of the graph net that ships, as if it had been trained on these loads."""
    card = Path(str(policy_file("conditional-graph")))
    document = json.loads(card.read_text("utf-8"))
    document["training"]["loads"] = loads
    weights = card.with_name(document["weights"])
    (folder / weights.name).write_bytes(weights.read_bytes())
    (folder / card.name).write_text(json.dumps(document), "utf-8")
    return str(folder / card.name)


@pytest.mark.parametrize(("least", "low"), [(0.5, 0.1), (0.2, 0.1), (0.1, 0.05)])
def test_load_guard_leaves_a_margin_below_the_least_load(least: float, low: float):
    low = np.log(low)
    rows = np.array([[9.0, low + 0.01, 0.0], [9.0, low - 0.01, 0.0]], np.float32)
    guard = LoadGuard((least, 0.95))
    assert guard.outside(rows).tolist() == [False, True]
    assert [guard.is_needed(row) for row in rows] == [False, True]


@pytest.mark.parametrize("loads", [[0.5], [0.0, 0.9], ["low", "high"], 0.5])
def test_card_with_loads_that_are_none_is_refused(loads: object, tmp_path: Path):
    with pytest.raises(InputError, match="expected two loads between 0 and 1") as caught:
        chooser(trained_on(loads, tmp_path))
    assert caught.value.field == "training.loads"


def test_graph_net_leaves_loads_below_its_training_to_a_rule(tmp_path: Path):
    name = trained_on([0.5, 0.95], tmp_path)
    quiet = scenario("conditional-many", load=0.02).stream("validation", 0)
    session = Session(quiet, name)
    session.arrived(0, 1e6)
    assert session.decide(1e6).starts
    assert session.num_fallbacks == 1


def test_graph_net_decides_at_loads_of_its_training(tmp_path: Path):
    name = trained_on([0.5, 0.95], tmp_path)
    for index in range(3):
        case = scenario("conditional-many", load=0.5, jobs=100).stream("validation", index)
        found = play(name, case, [1])
        assert found.fallbacks[0] < 0.05 * found.decisions[0]
