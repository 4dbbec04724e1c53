"""Agents in lockstep do what the kernel does, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agents_in_memory import World, greedy, play, problem_of, sharing

from weft.sim.elastic.conflicts import act
from weft.sim.elastic.moves import begin
from weft.sim.elastic.observation import new_sight, observe
from weft.sim.elastic.state import compile_world, new_log, new_move, new_outcome, new_state


def simulate(problem, seed, fills):
    """What the kernel makes of the same episode."""
    world, state = compile_world(problem), new_state(problem, 1)
    move, out, log = new_move(problem, 1), new_outcome(problem, 1), new_log(problem, 100_000)
    sight = new_sight(problem, 1)
    state.seed[0] = seed
    begin(world, state, 0)
    while not out.done[0]:
        observe(world, state, 0, sight)
        fills(world, state, sight, move)
        act(world, state, 0, move, out, log)
    return state, log


def rows_of_journals(world):
    """Step, cluster, task, round of its placement, progress and units of every running task, from journals alone."""
    rows = []
    for n, lines in enumerate(world.journals):
        running: dict[int, tuple[int, list[int]]] = {}
        step = 0
        for line in lines:
            if line["kind"] != "act":
                continue
            running |= {task: (at, units) for task, at, units in line.get("place", [])}
            for task, units in line.get("units", []):
                running[task] = (running[task][0], units)
            if line.get("advance"):
                after = dict(line["did"]["progress"])
                rows += [(step, n, task, at, after[task], *units) for task, (at, units) in running.items()]
                for task in line["did"]["finished"]:
                    del running[task]
            step = line["did"]["step"]
    return sorted(rows)


def test_agents_in_lockstep_equal_the_kernel_where_types_change_at_different_costs():
    found = problem_of("multi", num_tasks=40, conflicts="softmax", noise=0.1)
    types = tuple(replace(one, switching=left) for one, left in zip(found.types, (0.25, 0.8), strict=True))
    check_lockstep(found.replaced(types=types), sharing)


@pytest.mark.parametrize("fills", [greedy, sharing])
@pytest.mark.parametrize("is_stepwise", [False, True])
@pytest.mark.parametrize(
    ("stepping", "fields"),
    [
        ("single", {"conflicts": "softmax", "switching": 0.5, "noise": 0.1}),
        ("multi", {"conflicts": "lowest"}),
        ("multi", {"conflicts": "count", "pending": "earliest", "num_slots": 4, "noise": 0.05}),
        ("single", {"conflicts": "softmax", "links": "bandwidth", "num_slots": 3, "weights": (1.0, 3.0)}),
    ],
)
def test_agents_in_lockstep_equal_the_kernel(stepping, fields, is_stepwise, fills):
    check_lockstep(problem_of(stepping, num_tasks=60, **fields), fills, is_stepwise)


def check_lockstep(problem, fills, is_stepwise: bool = False) -> None:
    seed = 11
    world = World(problem, seed, fills, is_stepwise)
    leader = play(world)
    assert leader.phase == "over"
    state, log = simulate(problem, seed, fills)
    count = int(log.count[0])
    logged = zip(log.rows[:count].tolist(), log.progress[:count].tolist(), strict=True)
    kernel = [(row[1], row[2], row[3], row[4], progress, *row[6:]) for row, progress in logged]
    assert rows_of_journals(world) == sorted(kernel)
    finished = {task: at for agent in world.clusters for task, at in agent.finished.items()}
    assert finished == dict(enumerate(state.finish[0].tolist()))


def test_agents_draw_the_tasks_of_the_kernel():
    from weft.execute.agents.source import draw_tasks

    for fields in ({}, {"links": "bandwidth"}, {"weights": (0.2, 0.8)}):
        problem = problem_of("multi", num_clusters=6, num_tasks=200, **fields)
        state, _ = simulate(problem, 5, greedy)
        rows = [
            list(row) for row in zip(range(200), state.kind[0], state.arrival[0], state.links[0], strict=True)
        ]
        assert [one.to_row() for one in draw_tasks(problem, 5)] == rows
