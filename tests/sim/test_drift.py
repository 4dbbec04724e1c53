"""Probabilities that change while jobs arrive: steps, ramps, walks; what a job becomes is fixed by its seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import peer
import pytest

from weft.catalog import dispatcher
from weft.errors import InputError
from weft.evaluation.sweep.queue_runs import run_rule
from weft.evaluation.sweep.stream_bounds import branch_probabilities, least_job_times
from weft.model.arrivals import Arrivals
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Floats, GraphBuilder
from weft.model.problem import Problem
from weft.model.stream import Drift
from weft.sim.queues.environment import QueueEnv, Setup
from weft.sim.queues.layout import compile_stream
from weft.sim.queues.observation import Sight

SEEDS = np.array([1, 2, 3])


def setup(drift: Drift, p_c: float = 0.2, jobs: int = 200, **changes: object) -> Setup:
    """The conditional stream, its branch D drifting."""
    arrivals = Arrivals("normal", jobs, peer.GAP, peer.SPREAD)
    return Setup(peer.problem(p_c), arrivals, peer.RULES, drift=drift, **changes)  # type: ignore[arg-type]


def path(drift: Drift, **changes: float) -> Floats:
    """The probability of every job of the first seed."""
    return branch_probabilities(setup(drift, **changes), SEEDS)[0]


def test_step_changes_at_its_share():
    found = path(Drift("step", to=0.9, at=0.25))
    assert set(found[:51]) == {0.2}
    assert set(found[51:]) == {0.9}


def test_ramp_is_straight_from_its_share_to_the_end():
    found = path(Drift("ramp", to=0.8, at=0.5))
    assert set(found[:101]) == {0.2}
    assert np.diff(found[101:]) == pytest.approx(np.full(98, 0.6 / 100))
    assert found[-1] == pytest.approx(0.8, abs=0.01)


def test_walk_follows_from_the_seed_and_stays_a_probability():
    walks = branch_probabilities(setup(Drift("walk", at=0.0, steps=50, size=0.9)), SEEDS)
    assert walks.min() >= 0.0
    assert walks.max() <= 1.0
    assert walks[:, 0].tolist() == [0.2] * 3
    assert len({row.tobytes() for row in walks}) == 3
    again = branch_probabilities(setup(Drift("walk", at=0.0, steps=50, size=0.9)), SEEDS)
    assert again.tobytes() == walks.tobytes()


@pytest.mark.parametrize("kind", ["step", "ramp", "walk"])
def test_drift_to_where_it_is_changes_nothing(kind: str):
    still = run_rule(dispatcher("fifo"), setup(Drift()), SEEDS.tolist())
    same = run_rule(dispatcher("fifo"), setup(Drift(kind, to=0.2, size=0.0)), SEEDS.tolist())
    assert same.job_times.tobytes() == still.job_times.tobytes()


def test_jobs_before_a_step_take_the_paths_of_a_still_stream():
    still = least_job_times(setup(Drift()), 1)
    stepped = least_job_times(setup(Drift("step", to=1.0, at=0.5)), 1)
    assert stepped[:101].tolist() == still[:101].tolist()
    assert stepped[101:].max() < 50 < still[101:].max()


@pytest.mark.parametrize("kind", ["step", "ramp", "walk"])
def test_bound_draws_the_paths_the_kernel_draws(kind: str):
    alone = Setup(
        peer.problem(0.3),
        Arrivals("periodic", 60, 500.0),
        peer.RULES,
        drift=Drift(kind, to=0.9, at=0.2, size=0.9),
    )
    found = run_rule(dispatcher("eft"), alone, [4])
    assert found.job_times[0] == pytest.approx(least_job_times(alone, 4))


def test_other_edges_share_what_the_first_leaves():
    builder = GraphBuilder("three", time_unit="ms")
    builder.task("a", 1.0, kind="a")
    for name, share in (("b", 0.2), ("c", 0.6), ("d", 0.2)):
        builder.task(name, {"b": 10.0, "c": 20.0, "d": 30.0}[name], kind=name)
        builder.edge("a", name, probability=share, branch=0)
    problem = Problem(builder.build(), Cluster.uniform([DeviceClass("cpu")], [1]))
    three = Setup(problem, Arrivals("periodic", 4000, 100.0), drift=Drift("step", to=0.6, at=0.0))
    found = run_rule(dispatcher("fifo"), three, [1]).job_times[0]
    shares = [np.isclose(found, total).mean() for total in (11.0, 21.0, 31.0)]
    assert shares == pytest.approx([0.6, 0.3, 0.1], abs=0.03)


def test_environments_draw_a_walk_for_every_episode():
    env = QueueEnv(setup(Drift("walk", steps=8), jobs=20), 3, seed=5, staggered=False)
    first = env.state.drift_value.copy()
    assert len({row.tobytes() for row in first}) == 3
    while not env.done.any():
        env.step(env.mask.argmax(axis=2))
    assert (env.state.drift_value[env.done] != first[env.done]).any()


def test_drifting_environment_starts_at_the_probability_of_the_episode():
    env = QueueEnv(setup(Drift("step", to=0.9), low=0.1, high=0.8, varies=True), 3, seed=5)
    assert env.state.drift_value[:, 0].tolist() == env.state.probability[:, 3].tolist()
    assert env.state.drift_value[:, 1].tolist() == [0.9] * 3


def test_policy_forgets_as_it_sees_unless_the_rules_say_otherwise():
    assert setup(Drift(), sight=Sight(forget=0.9)).rules.forget == 0.9
    told = replace(peer.RULES, forget=0.5)
    assert Setup(peer.problem(), Arrivals("once", 1), told, Sight(forget=0.9)).rules.forget == 0.5
    assert compile_stream(peer.problem(), peer.RULES).forget == 1.0


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kind": "jump"}, "drift"),
        ({"to": 1.5}, "drift_to"),
        ({"at": -0.1}, "drift_at"),
        ({"size": 2.0}, "drift_size"),
        ({"steps": 0}, "drift_steps"),
    ],
)
def test_drift_refuses(given: dict[str, object], field: str):
    with pytest.raises(InputError) as caught:
        Drift(**given)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_drift_of_a_graph_without_branches_is_refused():
    builder = GraphBuilder("plain")
    builder.task("a", 1.0)
    problem = Problem(builder.build(), Cluster.uniform([DeviceClass("cpu")], [1]))
    with pytest.raises(InputError, match="expected none for a graph without branches, got step"):
        Setup(problem, Arrivals("once", 1), drift=Drift("step"))
