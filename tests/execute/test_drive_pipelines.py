"""Runs of pipelines in virtual time: instances keep their order and are skipped, whatever goes wrong."""

from __future__ import annotations

import pytest
from driving import faults_of, go
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.execute.faults import Faults, Slowdown
from weft.execute.scheduling import Wanted
from weft.model.problem import Problem
from weft.scenarios import scenario

STYLES = (
    Wanted("adas-ppo"),
    Wanted("rm-pinned"),
    Wanted("heft"),
    Wanted("priced"),
    Wanted("heft", is_live=True),
)
WAY = ("queue", "skip")


def pipelines(overrun: str = "queue") -> Problem:
    """Nine instances of short periods, in seconds of their own."""
    chosen = scenario("adas-tx2", overrun=overrun, horizon=120.0)
    return chosen.problem("test", 0).replaced(noise=0.3)


@settings(max_examples=24, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from(STYLES), st.sampled_from(WAY))
def test_instances_keep_their_order_whatever_goes_wrong(seed: int, wanted: Wanted, overrun: str):
    problem = pipelines(overrun)
    faults = faults_of(seed, problem)
    drove = go(problem, wanted, faults, seed=seed)
    assert drove.violations == []
    assert len(drove.of("arrived")) == len(drove.of("ended")) == len(problem.jobs)


@pytest.mark.parametrize("wanted", STYLES, ids=lambda one: f"{one.scheduler}{'+live' * one.is_live}")
def test_history_names_the_instance_before(wanted: Wanted):
    drove = go(pipelines(), wanted)
    after = {row["job"]: row.get("after") for row in drove.of("arrived")}
    assert {(job, before) for job, before in after.items() if before}
    for job, before in after.items():
        name, _, number = str(job).partition("#")
        assert before == (f"{name}#{int(number) - 1}" if int(number) else None)


def test_policy_goes_on_where_a_device_turns_out_slower_than_it_can_take():
    """Seven kinds of devices instead of three: it was trained for no more."""
    problem = pipelines().replaced(noise=0.0)
    slow = Faults(slowdowns=tuple(Slowdown(f"a57-{k}", 0.0, 2.0 + k) for k in range(3)))
    drove = go(problem, Wanted("adas-ppo"), slow)
    assert drove.violations == []
    assert drove.of("speed")
    assert drove.drive.told.num_sessions == 1
