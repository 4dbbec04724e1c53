"""Parties of a run that somebody starts elsewhere: they join over TCP, and may die and return like all others."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agents_in_memory import problem_of

from weft.errors import InputError
from weft.execute.agents.deciding import allocator_of
from weft.execute.agents.desk import Desk, party_of
from weft.execute.agents.launching import Agents
from weft.execute.agents.link import Connection
from weft.execute.agents.places import TOKEN, Address, check_listening, write_place
from weft.execute.agents.running import read_agents, run_agents
from weft.execute.agents.setup import Setup, write_setup

LONGEST = 60.0
SECRET = "a token of the tests, long enough"


class Joined:
    """Processes that have joined a run, as other machines would start them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.desk: Address | None = None
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, **env: str) -> subprocess.Popen[bytes]:
        words = ["agents", name, "--join", str(self.desk), "--out", str(self.folder / name)]
        command = [sys.executable, "-m", "weft", *words]
        with open(self.errors(name), "wb") as file:
            self.processes[name] = subprocess.Popen(command, stdout=file, stderr=file, env=os.environ | env)
        return self.processes[name]

    def errors(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def kill(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def codes(self) -> dict[str, int]:
        return {name: one.wait(LONGEST) for name, one in self.processes.items()}

    def end(self) -> None:
        for one in self.processes.values():
            one.kill()
            one.wait()


@pytest.fixture
def joined(tmp_path):
    made = Joined(tmp_path)
    yield made
    made.end()


def until(agents: Agents, step: int, leader: str = "") -> None:
    """Wait for a decision of this step or a later one, by a certain coordinator."""
    end = time.monotonic() + LONGEST
    while not agents.is_over and (agents.status.step < step or leader not in agents.leader):
        assert time.monotonic() < end
        time.sleep(0.005)


def test_parties_elsewhere_die_and_return_and_nothing_is_lost(tmp_path, joined, monkeypatch):
    monkeypatch.setenv(TOKEN, SECRET)
    problem = problem_of("multi", num_tasks=60, conflicts="softmax", noise=0.05)
    _, settled = allocator_of("static-10", problem)
    setup = Setup(
        "static-10", seed=3, step_seconds=0.05, elsewhere=("cluster-1", "coordinator-1"), mark="one"
    )

    def start(names: list[str], desk: Address) -> None:
        joined.desk = desk
        stranger = joined.start("cluster-1", WEFT_TOKEN="another token, as long as it")
        assert stranger.wait(LONGEST) == 2
        assert "has another token in WEFT_TOKEN" in joined.errors("cluster-1").read_text()
        for name in setup.elsewhere:
            joined.start(name)

    (tmp_path / "run").mkdir()
    with Agents(tmp_path / "run", setup, settled, start) as agents:
        until(agents, 2, "coordinator-0")
        agents.kill("coordinator-0")
        until(agents, 4, "coordinator-1")
        joined.kill("cluster-1")
        joined.start("cluster-1")
        agents.start("coordinator-0")
        until(agents, 8, "coordinator-1")
        joined.kill("coordinator-1")
        until(agents, 10, "coordinator-0")
        joined.start("coordinator-1")
        agents.kill("desk")
        agents.start("desk")
        agents.wait(timeout=LONGEST)
        assert joined.codes() == {"cluster-1": 0, "coordinator-1": 0}
    found = read_agents(tmp_path / "run")
    assert found.checked.faults == ()
    assert found.checked.num_completed == 60 and found.checked.num_again == 0
    assert found.checked.num_terms >= 3
    kept = (tmp_path / "cluster-1" / "cluster-1.jsonl").read_bytes()
    assert (tmp_path / "run" / "cluster-1.jsonl").read_bytes() == kept


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_where_parties_elsewhere_die_at_random_moments(tmp_path, joined, seed):
    rng = random.Random(seed)
    _, settled = allocator_of("static-10", problem_of("multi", num_tasks=60, conflicts="softmax"))
    names = ("cluster-0", "cluster-2", "coordinator-0", "coordinator-1")
    setup = Setup("static-10", seed=seed, step_seconds=0.1, patience=30.0, elsewhere=names, mark="one")

    def start(waited_for: list[str], desk: Address) -> None:
        if joined.desk is None:
            joined.desk = desk
            for name in names:
                joined.start(name)

    (tmp_path / "run").mkdir()
    with Agents(tmp_path / "run", setup, settled, start) as agents:
        until(agents, 2)
        for _ in range(4):
            time.sleep(rng.uniform(0.0, 1.0))
            name = rng.choice([*names, "desk", "source", "cluster-1"])
            if agents.is_over:
                break
            if name in names:
                joined.kill(name)
                joined.start(name)
            else:
                agents.kill(name)
                agents.start(name)
        agents.wait(timeout=LONGEST)
        found = read_agents(tmp_path / "run")
    assert found.checked.faults == ()
    assert found.checked.num_completed == 60 and found.checked.num_again == 0


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("edge-1.example:7000", "edge-1.example", 7000),
        ("[::1]:80", "::1", 80),
    ],
)
def test_addresses_are_read_and_shown(text: str, host: str, port: int):
    found = Address.of(text, "--join")
    assert found == (host, port) and str(found) == text


@pytest.mark.parametrize("text", ["", "7000", "host:", "host:70000", "host:x", "a b:1", "::1:80", "host:-1"])
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(InputError, match=f"--join: expected HOST:PORT, such as .*, got '{text}'"):
        Address.of(text, "--join")


@pytest.mark.parametrize(
    ("host", "token", "said"),
    [
        ("0.0.0.0", SECRET, "expected an address at which other machines reach this one, got 0.0.0.0"),
        ("192.168.1.5", "", "expected a token of at least 16 characters in the environment as WEFT_TOKEN"),
        ("192.168.1.5", "short", "for 192.168.1.5 can be reached from other machines"),
        ("edge-1", "", "for edge-1 can be reached"),
    ],
)
def test_listening_to_others_needs_a_token_and_an_address(monkeypatch, host: str, token: str, said: str):
    monkeypatch.setenv(TOKEN, token)
    with pytest.raises(InputError, match=f"--listen: .*{said}"):
        check_listening(Address(host, 7000), "--listen")


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("127.9.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("a.b", False)],
)  # fmt: skip
def test_loopback_is_known(host: str, is_loopback: bool):
    assert Address(host, 0).is_loopback is is_loopback


def test_loopback_needs_no_token_and_a_free_port(monkeypatch):
    monkeypatch.delenv(TOKEN, raising=False)
    check_listening(Address("127.0.0.1", 0), "--listen")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(InputError, match=f"--listen: cannot listen at {address}: Address already in use"):
            check_listening(address, "--listen")


def test_addresses_of_other_machines_cannot_be_listened_at(monkeypatch):
    monkeypatch.setenv(TOKEN, SECRET)
    with pytest.raises(InputError, match=r"--listen: cannot listen at 198\.51\.100\.7:0: "):
        check_listening(Address("198.51.100.7", 0), "--listen")


@pytest.mark.parametrize(
    "name", ["", "cluster", "cluster-3", "cluster--1", "source", "coordinator-2", "../x"]
)
def test_parties_have_known_names(name: str):
    with pytest.raises(InputError, match="expected cluster-0 to cluster-2 or coordinator-0 to coordinator-1"):
        party_of(name, 3, 2, "elsewhere")


def test_coordinators_elsewhere_are_not_killed_from_here(tmp_path):
    setup = Setup("min", elsewhere=("coordinator-0",))
    with pytest.raises(InputError, match="kill-coordinator-at: expected no steps"):
        run_agents(problem_of("multi", num_tasks=4), setup, tmp_path / "run", kill_at=(1,))


def test_the_desk_takes_each_party_once_and_from_one_folder(tmp_path):
    write_setup(
        tmp_path, Setup("min", elsewhere=("cluster-0",), mark="one"), problem_of("multi", num_tasks=4)
    )
    desk, one = Desk(tmp_path), Connection(None, None)  # type: ignore[arg-type]

    def join(name: str, **more: str) -> object:
        reply = desk.join({"kind": "join", "name": name} | more, one)
        return reply.get("why", reply["kind"])

    assert join("cluster-1") == "expected one of cluster-0, got 'cluster-1'"
    assert join("cluster-0", mark="two") == "there is another run in this folder (--out)"
    assert join("cluster-0") == "joined"
    assert join("cluster-0") == "cluster-0 has joined already"
    assert join("cluster-0", mark="one") == "joined"
    assert desk.answer("cluster-0", {"kind": "copy", "at": 0, "text": "{}\n"})["size"] == 3
    assert desk.answer("cluster-0", {"kind": "copy", "at": 0, "text": "{}\n"})["size"] == 3
    assert join("cluster-0") == "cluster-0 has joined already"
    desk.leave("cluster-0", one)
    assert join("cluster-0") == "cluster-0 has its journal in another folder (--out)"


def test_the_desk_tells_places_of_parties_alone(tmp_path):
    write_setup(tmp_path, Setup("min", elsewhere=("cluster-0",)), problem_of("multi", num_tasks=4))
    write_place(tmp_path, "source", Address("127.0.0.1", 5))
    desk = Desk(tmp_path)
    assert desk.answer("", {"kind": "where", "name": "source"})["kind"] == "refused"
    assert desk.answer("cluster-0", {"kind": "where", "name": "source"})["address"] == ["127.0.0.1", 5]
    for name in ("cluster-1", "../source", "cluster-/../source", "desk"):
        assert desk.answer("cluster-0", {"kind": "where", "name": name})["kind"] == "nowhere"
    assert desk.answer("cluster-0", {"kind": "shutdown"})["kind"] == "refused"
