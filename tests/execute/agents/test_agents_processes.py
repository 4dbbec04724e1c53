"""Agents as processes on this machine: coordinators and clusters that are killed at any moment."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from agents_in_memory import problem_of
from processes import is_running

from weft.errors import InputError
from weft.execute.agents import launching, running
from weft.execute.agents.deciding import allocator_of
from weft.execute.agents.launching import Agents, AgentsError, Status
from weft.execute.agents.link import Conditions
from weft.execute.agents.running import AgentsRun, read_agents, run_agents
from weft.execute.agents.setup import Setup

LONGEST = 60.0


def problem(num_tasks: int = 60):
    return problem_of("multi", num_tasks=num_tasks, conflicts="softmax", noise=0.05)


def until(agents: Agents, step: int) -> None:
    """Wait until a decision of this step or a later one was made."""
    end = time.monotonic() + LONGEST
    while (agents.status.step < step or not agents.leader) and not agents.is_over:
        assert time.monotonic() < end
        time.sleep(0.005)


def kept_promises(found: AgentsRun, num_tasks: int = 60) -> None:
    assert found.checked.faults == ()
    assert found.checked.num_completed == num_tasks


@pytest.mark.parametrize(
    ("scheduler", "stepwise"),
    [("optimus", False), pytest.param("static-10", True, marks=pytest.mark.slow)],
)
def test_agents_as_processes_equal_the_simulation(tmp_path, scheduler, stepwise):
    setup = Setup(scheduler, seed=7, replicas=1, is_stepwise=stepwise)
    found = run_agents(problem(), setup, tmp_path / "run", timeout=LONGEST)
    kept_promises(found)
    assert found.is_as_simulated
    assert found.checked.num_terms == 1
    assert sum(one.num_rounds for one in found.trips) >= len(found.trips)


@pytest.mark.slow
def test_agents_go_on_when_the_coordinator_is_killed(tmp_path):
    setup = Setup("static-10", seed=7, step_seconds=0.01)
    found = run_agents(problem(), setup, tmp_path / "run", kill_at=(3, 8), timeout=LONGEST)
    kept_promises(found)
    assert found.checked.num_terms == 3
    assert found.checked.num_again == 0


def test_agents_kill_another_leader_at_each_of_steps_close_together(tmp_path):
    setup = Setup("static-10", seed=7, step_seconds=0.01)
    found = run_agents(problem(), setup, tmp_path / "run", kill_at=(3, 3, 4), timeout=LONGEST)
    kept_promises(found)
    assert found.checked.num_terms == 4


def test_agents_do_not_take_a_leader_behind_slow_links_for_dead(tmp_path):
    setup = Setup("static-10", seed=7, lease=0.2, conditions=Conditions(latency=0.3))
    found = run_agents(problem(4), setup, tmp_path / "run", timeout=LONGEST)
    kept_promises(found, 4)
    assert found.checked.num_terms == 1


def killed_at_random(folder, seed: int, num_kills: int) -> AgentsRun:
    """Kill whoever leads, at moments that have nothing to do with what it is doing."""
    rng = random.Random(seed)
    _, settled = allocator_of("static-10", problem())
    with Agents(folder, Setup("static-10", seed=seed, replicas=2, step_seconds=0.02), settled) as agents:
        until(agents, 1)
        for _ in range(num_kills):
            time.sleep(rng.uniform(0.0, 0.15))
            name = agents.leader
            if agents.is_over:
                break
            agents.kill(name)
            agents.start(name)
        agents.wait(timeout=LONGEST)
    return read_agents(folder)


def test_agents_lose_nothing_when_coordinators_die_at_random_moments(tmp_path):
    found = killed_at_random(tmp_path, 1, 4)
    kept_promises(found)
    assert found.checked.num_again == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_agents_lose_nothing_in_many_random_kills(tmp_path, seed):
    kept_promises(killed_at_random(tmp_path, 100 + seed, 5))


def test_agents_resume_a_cluster_from_its_journal(tmp_path):
    _, settled = allocator_of("static-10", problem())
    with Agents(tmp_path, Setup("static-10", seed=3, replicas=1, step_seconds=0.01), settled) as agents:
        until(agents, 4)
        agents.kill("cluster-1")
        agents.kill("source")
        agents.start("cluster-1")
        agents.start("source")
        agents.wait(timeout=LONGEST)
    found = read_agents(tmp_path)
    kept_promises(found)
    assert found.checked.num_again == 0
    assert found.is_as_simulated


def test_a_run_starts_again_whatever_somebody_kills(tmp_path, monkeypatch):
    started: list[Agents] = []
    monkeypatch.setattr(running, "Agents", lambda *of: started.append(Agents(*of)) or started[0])
    left = ["source", "cluster-1", "coordinator-0", "coordinator-1"]

    def kill(status: Status) -> None:
        if left and status.step >= 12 - 2 * len(left):
            os.kill(started[0].processes[left.pop()].pid, signal.SIGKILL)

    setup = Setup("static-10", seed=7, step_seconds=0.05)
    found = run_agents(problem(), setup, tmp_path / "run", timeout=LONGEST, on_status=kill)
    kept_promises(found)
    assert not left and found.checked.num_again == 0


def test_a_run_is_given_up_where_processes_are_killed_again_and_again(tmp_path, monkeypatch):
    monkeypatch.setattr(launching, "MOST_KILLED", 1)
    _, settled = allocator_of("static-10", problem())
    with Agents(tmp_path, Setup("static-10", seed=3), settled) as agents:
        for name in ("source", "cluster-0"):
            agents.kill(name)
        while any(agents.processes[name].code is None for name in ("source", "cluster-0")):
            time.sleep(0.01)
        with pytest.raises(AgentsError, match="cluster-0 was killed, after 1 others"):
            agents.start_killed()


def test_agents_go_on_without_a_cluster_and_take_it_back(tmp_path):
    _, settled = allocator_of("static-10", problem())
    setup = Setup("static-10", seed=3, replicas=1, step_seconds=0.01, patience=0.3)
    with Agents(tmp_path, setup, settled) as agents:
        until(agents, 4)
        agents.kill("cluster-1")
        step = agents.status.step
        until(agents, step + 5)
        agents.start("cluster-1")
        agents.wait(timeout=LONGEST)
    kept_promises(read_agents(tmp_path))


@pytest.mark.slow
def test_agents_fence_a_coordinator_that_was_only_asleep(tmp_path):
    _, settled = allocator_of("static-10", problem())
    setup = Setup("static-10", seed=5, replicas=2, step_seconds=0.03, lease=0.3)
    with Agents(tmp_path, setup, settled) as agents:
        until(agents, 3)
        asleep, rank = agents.leader, agents.status.rank
        agents.processes[asleep].send(signal.SIGSTOP)
        end = time.monotonic() + LONGEST
        while agents.status.rank == rank:
            assert time.monotonic() < end
            time.sleep(0.005)
        agents.processes[asleep].send(signal.SIGCONT)
        agents.wait(timeout=LONGEST)
    found = read_agents(tmp_path)
    kept_promises(found)
    assert found.checked.num_terms == 2


def test_agents_say_that_no_coordinator_is_left_and_leave_nobody_behind(tmp_path):
    _, settled = allocator_of("min", problem())
    with (
        pytest.raises(AgentsError, match="no coordinator is left"),
        Agents(tmp_path, Setup("min", replicas=1, step_seconds=0.05), settled) as agents,
    ):
        until(agents, 1)
        agents.kill("coordinator-0")
        agents.wait(timeout=LONGEST)
    assert not any(is_running(one.pid) for one in agents.processes.values())


def test_agents_refuse_a_folder_with_a_run(tmp_path):
    setup = Setup("min", replicas=1)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(InputError, match="there is a run in this folder"):
        run_agents(problem(), setup, tmp_path)
