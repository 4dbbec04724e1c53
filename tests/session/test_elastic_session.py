"""A session for allocators makes the decisions of the simulator, event by event."""

from __future__ import annotations

import numpy as np
import pytest

from weft import catalog
from weft.errors import InputError
from weft.kinds import ELASTIC
from weft.model.elastic import ElasticProblem, amdahl
from weft.model.elastic_oracle import episode_key
from weft.model.elastic_run import CLUSTER, RAN, STEP, TASK, UNITS
from weft.scenarios import scenario
from weft.schedulers.allocators.running import run_all
from weft.session.elastic import ElasticSession

NAMES = ("static-10", "random", "optimus", "tiresias", "drf", "shortest-first", "edge-multi")


@pytest.mark.parametrize("where", ["edge-single-3", "edge-multi-3"])
@pytest.mark.parametrize("name", NAMES)
def test_session_decides_as_the_simulator_does(name: str, where: str):
    problem = scenario(where, tasks=50, noise=0.0).elastic("test", 0)
    run = run_all(catalog.find(name, ELASTIC), problem, [6])[0]
    session = ElasticSession(problem, name, seed=episode_key(6), room=50)
    for step in range(int(run.finish.max())):
        for task in np.flatnonzero(run.arrival == step).tolist():
            clusters = tuple(f"c{n}" for n in range(3) if (int(run.links[task]) >> n) & 1)
            session.arrived(task, problem.types[int(run.kind[task])].name, clusters)
        found = session.decide()
        rows = run.rows[run.rows[:, STEP] == step].tolist()
        first = {row[TASK]: (f"c{row[CLUSTER]}", tuple(row[UNITS:])) for row in rows if row[RAN] == 0}
        assert {one.task: (one.cluster, one.units) for one in found.starts} == first
        for row in rows:
            assert session.units_of(row[TASK]) == tuple(row[UNITS:])
        for at in np.flatnonzero(run.rows[:, STEP] == step).tolist():
            task = int(run.rows[at, TASK])
            if run.progress[at] >= 1.0:
                session.ended(task)
            else:
                session.progressed(task, float(run.progress[at]))
        session.stepped()
    assert session.num_alive == 0
    assert session.free("c1").tolist() == [16, 16]


def test_clusters_of_a_session_may_have_less_than_some_tasks_need():
    types = amdahl("gpu", (1, 1), (8, 4), 10, (0.4, 0.5)), amdahl("cpu", (1, 0), (8, 0), 10, (0.9, 0.0))
    arrivals = np.array([[0, 0, 2], [0, 1, 3]])
    problem = ElasticProblem(np.array([[8, 0], [8, 4]]), types, 2, 1.0, stepping="multi", arrivals=arrivals)
    session = ElasticSession(problem, "min")
    with pytest.raises(
        InputError, match="clusters: expected clusters with what gpu needs, got 'c0', which has less"
    ):
        session.arrived("a", "gpu", ("c0", "c1"))
    session.arrived("a", "gpu", ("c1",))
    session.arrived("b", "cpu", ("c0",))
    assert {one.cluster for one in session.decide().starts} == {"c0", "c1"}


def test_decisions_may_change_units_of_running_tasks():
    problem = scenario("edge-multi-3", clusters=1).elastic("test", 0)
    session = ElasticSession(problem, "tiresias")
    session.arrived("a", "lm", ("c0",))
    assert session.decide().starts[0].units == (16, 16)
    session.stepped()
    session.arrived("b", "lm", ("c0",))
    found = session.decide()
    assert [one.task for one in found.changes] == ["a"] and [one.task for one in found.starts] == ["b"]
    assert found.changes[0].units[0] + found.starts[0].units[0] == 16


def test_wrong_events_are_refused_and_change_nothing():
    session = ElasticSession(scenario("edge-single-3").elastic("test", 0), "min", room=2)
    session.arrived("a", "img", ("c0", "c2"))
    cases = [
        (lambda: session.arrived("a", "img", ("c0",)), "task 'a' has arrived before"),
        (lambda: session.arrived("b", "cat", ("c0",)), "kind: expected one of img, lm, got 'cat'"),
        (lambda: session.arrived("b", "img", ("c9",)), "clusters: expected some of c0, c1, c2, got ('c9',)"),
        (lambda: session.ended("a"), "task: expected a task that runs, got 'a'"),
        (lambda: session.progressed("b", 0.5), "task: expected a task that runs, got 'b'"),
    ]
    cases += [
        (lambda: session.arrived(["b"], "img", ("c0",)), "task: expected a name, a text or a whole number, got ['b']"),
        (lambda: session.arrived("b", ["img"], ("c0",)), "kind: expected one of img, lm, got ['img']"),
        (lambda: session.arrived("b", "img", 3), "clusters: expected some of c0, c1, c2, got 3"),
        (lambda: session.ended(["a"]), "task: expected a task that runs, got ['a']"),
        (lambda: session.free("zz"), "cluster: expected one of c0, c1, c2, got 'zz'"),
    ]  # fmt: skip
    for act, said in cases:
        with pytest.raises(InputError) as raised:
            act()
        assert said in str(raised.value)
    assert (session.num_alive, session.now) == (1, 0)
    session.arrived("b", "lm", ("c1",))
    with pytest.raises(InputError, match="room: expected a whole number from 1 to 100000, got 1000000000"):
        ElasticSession(session.problem, "min", room=10**9)
    with pytest.raises(InputError, match="the session has room for 2 tasks"):
        session.arrived("c", "lm", ("c1",))


@pytest.mark.parametrize("progress", ["x", None, 1.0, -0.1, float("nan"), True])
def test_progress_is_a_number_from_0_to_below_1(progress: object):
    session = ElasticSession(scenario("edge-multi-3", clusters=1).elastic("test", 0), "min")
    session.arrived("a", "img", ("c0",))
    assert session.decide().starts
    with pytest.raises(InputError, match="progress: expected a number from 0 to below 1, got "):
        session.progressed("a", progress)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"seed": 2**80}, "seed: expected a whole number"), ({"seed": 1.5}, "seed: expected"), ({"room": "x"}, "room: expected"),
     ({"room": 0}, "room: expected a whole number from 1 to 100000, got 0")],
)  # fmt: skip
def test_seed_and_room_are_whole_numbers(given: dict[str, object], said: str):
    problem = scenario("edge-multi-3", clusters=1).elastic("test", 0)
    with pytest.raises(InputError, match=said):
        ElasticSession(problem, "min", **given)
