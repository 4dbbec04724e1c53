"""The agent of a cluster: whom it obeys, what it refuses, and what its journal is worth."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from agents_in_memory import World, play, problem_of

from weft.errors import InputError
from weft.execute.agents.cluster import ClusterAgent
from weft.execute.agents.journal import Journal, read_lines
from weft.execute.agents.link import Conditions, Connection, frame
from weft.execute.agents.setup import Setup, read_setup, write_setup

SUBMIT = {"kind": "submit", "tasks": [[0, 0, 0, 7], [1, 1, 0, 7], [2, 1, 3, 1]]}


@pytest.fixture
def agent() -> ClusterAgent:
    found = ClusterAgent(problem_of(), 0, 1)
    found.handle({"kind": "promise", "term": 4, "session": 1})
    found.handle(SUBMIT)
    return found


def orders(**fields):
    return {"kind": "act", "term": 4, "session": 1, "seq": 0, **fields}


def test_cluster_obeys_only_the_coordinator_it_promised(agent):
    for pair in ({"term": 3, "session": 9}, {"term": 4, "session": 0}, {"term": 5, "session": 1}):
        assert agent.handle(orders(**pair))["kind"] == "refused"
    assert agent.handle({"kind": "promise", "term": 4, "session": 0})["kind"] == "refused"
    assert agent.handle({"kind": "promise", "term": 5, "session": 1})["kind"] == "promised"
    assert agent.handle(orders())["kind"] == "refused"


def test_cluster_carries_orders_out_once(agent):
    first = agent.handle(orders(place=[[0, 0, [2, 1]]], advance=True))
    again = agent.handle(orders(place=[[0, 0, [2, 1]]], advance=True))
    assert first == again
    assert (agent.step, agent.seq, len(agent.running)) == (1, 1, 1)
    assert agent.running[0].progress == 0.25


def test_cluster_takes_a_task_once_and_shows_none_before_its_step(agent):
    agent.handle(SUBMIT)
    assert [one.number for one in agent.slots if one is not None] == [0, 1]
    assert list(agent.inbox) == [2]
    for seq in range(3):
        agent.handle(orders(seq=seq, advance=True))
    assert [one.number for one in agent.slots if one is not None] == [0, 1, 2]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"seq": 1}, "expected orders 0, got 1"),
        ({"place": [[9, 0, [2, 1]]]}, "task 9 does not wait here"),
        ({"place": [[0, 0, [2, 17]]]}, r"task 0 may not have \[2, 17\] units"),
        ({"place": [[0, 0, [9, 9]], [1, 0, [9, 9]]]}, r"\[18, 18\] units are more than \[16, 16\]"),
        ({"units": [[0, [2, 2]]]}, "task 0 does not run here"),
    ],
)
def test_cluster_rejects_orders_as_a_whole(agent, fields, why):
    before = agent.show(is_full=True)
    reply = agent.handle(orders(**fields))
    assert reply["kind"] == "rejected"
    assert re.search(why, reply["why"])
    assert agent.show(is_full=True) == before


def test_cluster_is_its_journal():
    world = World(problem_of("multi", noise=0.05), 8)
    play(world, until=lambda leader: leader.step == 6)
    for n, agent in enumerate(world.clusters):
        before = agent.show(is_full=True).to_message()
        world.restart(n)
        assert world.clusters[n].show(is_full=True).to_message() == before
        assert world.clusters[n].promised == agent.promised


def test_journal_leaves_out_a_line_that_was_cut_off(tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_bytes(b'{"kind":"promise"}\n{"kind":"ac')
    journal = Journal(path)
    assert journal.lines == [{"kind": "promise"}]
    journal.append([{"kind": "stop"}])
    journal.close()
    assert read_lines(path) == [{"kind": "promise"}, {"kind": "stop"}]
    path.write_bytes(b"nonsense\n")
    with pytest.raises(InputError, match="expected a JSON object"):
        read_lines(path)


def test_conditions_delay_by_latency_and_size():
    assert Conditions(0.1, 1e6).delay(2048) == pytest.approx(0.1 + 8 * 2048 / 1e6)
    assert Conditions().is_free
    assert len(frame({"kind": "who"}, 2048)) == 2052
    with pytest.raises(InputError, match="latency"):
        Conditions(-1.0)


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\3abc", b"\0\0"])
def test_connection_ends_on_what_is_no_message(data):
    async def receive():
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        await Connection(reader, None).receive()  # type: ignore[arg-type]

    with pytest.raises(ConnectionError):
        asyncio.run(receive())


def test_setup_comes_back_from_its_folder(tmp_path):
    problem = problem_of("single", noise=0.1, links="bandwidth", weights=(1.0, 2.0))
    setup = Setup("optimus", "edge", 2**50, conditions=Conditions(0.1, 1e6, 2048, 820))
    write_setup(tmp_path, setup, problem)
    again, read = read_setup(tmp_path)
    assert again == setup
    assert (read.capacity == problem.capacity).all()
    assert [one.gain((2, 5), 0.3) for one in read.types] == [one.gain((2, 5), 0.3) for one in problem.types]
    (tmp_path / "run.json").write_text(json.dumps({"schema": "other"}))
    with pytest.raises(InputError, match="expected 'weft/agents/1'"):
        read_setup(tmp_path)
