"""Spread training on the transport in this process: the same as alone, sharded as if in one, and whole after faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from training.toy_candidates import BEST_PER_STEP, ToyCandidates
from training.toy_roles import SMALL, spread, trained

import weft
from weft.errors import InputError
from weft.policies.candidates.packed import Packed
from weft.policies.checkpoint import load_policy
from weft.training.distributed.blocks import Block, columns_of
from weft.training.distributed.config import Distributed
from weft.training.distributed.crew import TooManyFailures
from weft.training.distributed.local import LocalTransport
from weft.training.distributed.servers import ParameterServer, Serves
from weft.training.distributed.shards import ReplayShard, batch_of, shares_of
from weft.training.dqn.acting import FirstErrors, Moment
from weft.training.dqn.exploration import Exploration
from weft.training.dqn.learner import DQN
from weft.training.recipes import read_recipe
from weft.training.replay import Replay, ReplayShape

TINY = {
    "samples": 512,
    "num_envs": 4,
    "num_steps": 32,
    "warmup": 100,
    "replay": 256,
    "minibatch": 32,
    "replay_candidates": 64,
    "streams": 4,
    "jobs": 3,
    "tasks": 8,
    "candidates.tasks": 4,
    "validation.every": 1,
    "validation.seeds": 2,
}
TIMES = ("decisions_per_second", "seconds", "cpu_seconds")


def bytes_of(learner: DQN) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in learner.net.weights().items()}


def assert_same_state(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


# Alone and spread


@pytest.mark.parametrize("first_priority", ["greatest", "error"])
def test_one_actor_in_this_process_learns_what_one_process_learns(first_priority: str):
    config = replace(SMALL, first_priority=first_priority)
    alone = DQN(ToyCandidates(config.num_envs), config, seed=1)
    rows = [alone.step() for _ in range(alone.num_updates)]
    learner = spread(config=config)
    found = trained(learner)
    assert bytes_of(alone) == bytes_of(learner)
    assert alone.policy()[1].ranges == learner.policy()[1].ranges
    for row, other in zip(rows, found, strict=True):
        assert {k: v for k, v in row.items() if k not in TIMES} == {
            k: v for k, v in other.items() if k in row and k not in TIMES
        }


def test_recipe_on_local_is_that_of_one_process_byte_for_byte(tmp_path: Path):
    weft.train("workflows-dqn-quick", tmp_path / "alone", settings=TINY)
    weft.train("workflows-dqn-quick", tmp_path / "spread", settings=TINY, engine="local", actors=1)
    one, other = (load_policy(f"{tmp_path / name}@last")[0] for name in ("alone", "spread"))
    assert {k: v.tobytes() for k, v in one.items()} == {k: v.tobytes() for k, v in other.items()}


@pytest.mark.parametrize(
    "changes",
    [
        {"actors": 3, "shards": 2},
        {"actors": 2, "block": 5},
        {"actors": 2, "mode": "sync", "learners": 2, "backups": 1, "servers": 2},
        {"actors": 2, "mode": "async", "learners": 2},
        {
            "actors": 2,
            "mode": "gorila",
            "learners": 2,
            "shards": 2,
            "replay": "local",
            "push_every": 2,
            "fetch_every": 2,
        },
    ],
)
def test_same_seed_gives_the_same_bytes_however_it_is_spread(changes: dict[str, object]):
    first, second = spread(**changes), spread(**changes)
    rows = trained(first)
    trained(second)
    assert bytes_of(first) == bytes_of(second)
    assert first.drawn > 4_000
    assert rows[-1]["replay_ratio"] == pytest.approx(4.0, abs=0.6)
    assert np.isfinite([row["mean_reward"] for row in rows]).all()


def test_several_actors_reach_the_optimum():
    config = replace(SMALL, samples=4_800, replay_ratio=8.0)
    rows = trained(spread(config=config, actors=2, shards=2))
    assert max(row["mean_reward"] for row in rows) > 0.6 * BEST_PER_STEP


def test_resumed_run_ends_with_the_same_bytes():
    whole, cut = (spread(actors=2, shards=2) for _ in range(2))
    trained(whole)
    for _ in range(3):
        cut.step()
    resumed = spread(actors=2, shards=2)
    resumed.restore(cut.state())
    trained(resumed)
    assert bytes_of(whole) == bytes_of(resumed)
    assert_same_state(whole.state(), resumed.state())


# Exploration and errors of actors


def test_ladder_goes_over_the_environments_of_all_actors():
    epsilons = [x for k in range(3) for x in Exploration(SMALL, 1, (4 * k, 12)).epsilon(0).tolist()]
    wanted = [0.4 ** (1 + 7 * j / 11) for j in range(12)]
    np.testing.assert_allclose(epsilons, wanted)


def test_first_errors_are_those_of_n_decisions():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 4, 3)).astype(np.float32)  # time, (worth, best, reward, discount), environment
    rows[:, 3] = rng.choice([0.0, 0.9], (6, 3))
    errors, found = FirstErrors(2), []
    for worth, best, reward, discount in rows:
        found.append(errors.add(worth, best, reward, discount))
    assert found[:2] == [None, None]
    for t in range(4):
        worth, _, paid, kept = rows[t]
        wanted = paid + kept * rows[t + 1, 2] + kept * rows[t + 1, 3] * rows[t + 2, 1] - worth
        np.testing.assert_allclose(found[t + 2], wanted, rtol=1e-5, atol=1e-6)


# Shards

SHAPE = ReplayShape(3, 2, 4, 5, decisions=120, rows=600, num_steps=2, is_half=False)


def moments(count: int, seed: int) -> list[Moment]:
    """Drawn ones; the first feature of the world names the state."""
    rng, found = np.random.default_rng(seed), []
    for k in range(count):
        sizes = rng.integers(1, 6, 3)
        world = np.stack([1000.0 * seed + 3 * k + np.arange(3), rng.normal(size=3)], 1).astype(np.float32)
        rows = rng.normal(size=(sizes.sum(), 4)).astype(np.float32)
        seen = Packed(world, rows, sizes, np.ones(sizes.sum(), np.bool_))
        error = rng.random(3).astype(np.float32) if k >= 2 else None
        reward = rng.normal(size=3).astype(np.float32)
        found.append(Moment(seen, rng.integers(0, sizes), reward, np.full(3, 0.9, np.float32), error))
    return found


def blocks(kept: list[Moment], actor: str, size: int, num_old: int = 2) -> list[Block]:
    found = []
    for at in range(0, len(kept), size):
        old = min(num_old, at)
        part = kept[at - old : at + size]
        found.append(Block(actor, 0, at - old, old, columns_of(part, is_half=False)))
    return found


def test_draws_from_shards_are_draws_from_one():
    """Shards side by side are one tree: the same decisions with the same weights, however they are divided."""
    kept = [moments(12, seed) for seed in (1, 2, 3)]
    shards = [ReplayShard(SHAPE, 0.6, 1e-3) for _ in kept]
    one = Replay(replace(SHAPE, decisions=360, rows=1800), 0.6, 1e-3)
    for shard, own in zip(shards, kept, strict=True):
        for block in blocks(own, "a", 4):
            shard.add(block)
        one.break_off()
        for moment in own:
            one.add(*moment)
    standings = [shard.standing() for shard in shards]
    assert sum(s.num_ready for s in standings) == one.num_ready == 90
    level = np.random.default_rng(5).random(64)
    parts = [
        shard.draw(share)[1]
        for shard, share in zip(shards, shares_of(level, 0.25, standings), strict=True)
        if share is not None
    ]
    found, wanted = batch_of(parts, standings, 16, 0.5), one.draw(level, 0.25, 0.5)
    mine, theirs = found.state.world[:, 0], wanted.state.world[:, 0]
    assert sorted(mine) == sorted(theirs)
    order, other = np.lexsort((found.weight, mine)), np.lexsort((wanted.weight, theirs))
    np.testing.assert_allclose(found.weight[order], wanted.weight[other], rtol=1e-6)
    np.testing.assert_allclose(found.reward[order], wanted.reward[other], rtol=1e-6)


def test_blocks_of_several_actors_in_one_shard_are_not_joined():
    """No return reaches from one actor into another, and every decision is there once."""
    mine, others = moments(12, 1), moments(12, 2)
    shard = ReplayShard(SHAPE, 0.6, 1e-3)
    for a, b in zip(blocks(mine, "a", 3), blocks(others, "b", 3), strict=True):
        shard.add(a)
        standing = shard.add(b)
    assert standing.num_ready == 2 * 10 * 3
    rank = np.arange(standing.num_ready)
    _, found = shard.draw(shares_of(np.zeros(1), 1.0, [standing])[0]._replace(rank=rank))
    before, after = found.state.world[:, 0], found.after.world[:, 0]
    assert len(set(before.tolist())) == standing.num_ready
    np.testing.assert_array_equal(after, before + 2 * 3)


def test_errors_of_decisions_that_are_gone_are_passed_over():
    shard = ReplayShard(replace(SHAPE, decisions=12, rows=60), 0.6, 1e-3)
    first, *rest = blocks(moments(40, 1), "a", 4)
    standing = shard.add(first)
    _, drawn = shard.draw(shares_of(np.linspace(0, 0.9, 6), 0.5, [standing])[0])
    for block in rest:
        standing = shard.add(block)
    assert shard.set_errors(drawn.slot, np.full(6, 1e6, np.float32)) == standing


# Parameter servers


def served(mode: str, **changes: object) -> ParameterServer:
    server = ParameterServer(replace(Serves(mode, 2, 1, 10, 1.0), **changes))
    server.load(np.zeros(3, np.float32), np.zeros(3, np.float32), 0)
    return server


def test_synchronous_step_is_the_mean_of_the_first_gradients():
    server, alone = served("sync"), served("async")
    one, two = np.array([1, 2, 3], np.float32), np.array([3, 0, -3], np.float32)
    assert server.push(0, 0, 0.1, one) == (True, 0, 0)
    assert server.push(0, 0, 0.1, one) == (False, 0, 0)  # nobody counts twice
    assert server.push(0, 2, 0.1, two) == (True, 0, 1)
    assert server.push(0, 1, 0.1, 100 * one) == (False, 1, 1)  # the backup came late
    alone.push(0, 0, 0.1, (one + two) / 2)
    np.testing.assert_array_equal(server.fetch()[1], alone.fetch()[1])


def test_stale_gradients_count_less_and_then_not_at_all():
    server = served("async")
    g = np.ones(3, np.float32)
    assert [server.push(0, k, 0.1, g) for k in range(3)] == [(True, 0, 1), (True, 1, 2), (False, 2, 2)]
    np.testing.assert_allclose(server.fetch()[1], -0.1 - 0.05, rtol=1e-4)


def test_adam_of_a_server_is_that_of_torch():
    import torch

    rng = np.random.default_rng(0)
    server = ParameterServer(Serves("async", 1, 0, 4, 0.5))
    start = rng.normal(size=7).astype(np.float32)
    server.load(start, start, 0)
    theirs = torch.nn.Parameter(torch.from_numpy(start.copy()))
    adam, target = torch.optim.Adam([theirs], lr=0.01), start.copy()
    for k in range(9):
        gradient = rng.normal(size=7).astype(np.float32)
        server.push(k, 0, 0.01, gradient)
        theirs.grad = torch.from_numpy(gradient)
        adam.step()
        if (k + 1) % 4 == 0:
            target += 0.5 * (theirs.detach().numpy() - target)
    version, weights, slow = server.fetch()
    assert version == 9
    np.testing.assert_allclose(weights, theirs.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slow, target, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("backups", "least", "most"), [(0, 4.5, 6.0), (1, 0.9, 1.6)])
def test_backup_spares_the_steps_from_waiting_for_a_straggler(backups: int, least: float, most: float):
    """Of learners that take 1 unit of time each, the last takes 5; without a backup every step does."""
    roles = [f"learner-{k}" for k in range(2 + backups)]
    costs = {role: 1.0 for role in roles[:-1]} | {roles[-1]: 5.0}
    transport = LocalTransport(costs)
    learner = spread(transport, mode="sync", learners=2, backups=backups, shards=2)
    trained(learner)
    assert least < transport.now / learner.learned < most
    assert (learner.dropped > 0) == (backups > 0)


# Faults


def test_lost_roles_are_started_again_and_nothing_counts_twice():
    dies = {"actor-0": [3, 40], "actor-1": [17], "shard-0": [60], "shard-1": [9, 200]}
    transport = LocalTransport(dies=dies)
    learner = spread(transport, actors=2, shards=2)
    rows = trained(learner)
    assert rows[-1]["restarts"] == learner.crew.failures == 6
    assert learner.num_samples <= learner.collected == rows[-1]["samples"] < learner.num_samples + 8
    # One block per order, each counted once; the two orders of actor-0 and the one of actor-1 that were lost are not.
    sizes = Counter({key: last + 1 for key, last in learner.collecting.counted.items()})
    assert 4 * sum(sizes.values()) == learner.collected
    assert set(sizes) == {("actor-0", 0), ("actor-0", 1), ("actor-0", 2), ("actor-1", 0), ("actor-1", 1)}
    assert rows[-1]["replay_ratio"] == pytest.approx(4.0, abs=0.6)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_lost_learners_and_servers_are_started_again(mode: str):
    transport = LocalTransport(dies={"learner-1": [5, 30], "server-0": [40], "shard-0": [100]})
    learner = spread(transport, mode=mode, learners=2, shards=1)
    rows = trained(learner)
    assert rows[-1]["restarts"] == 4
    assert learner.drawn > 4_000
    assert np.isfinite(learner.net.weights()["score_out"]).all()


def test_run_stops_after_too_many_failures():
    transport = LocalTransport(dies={"actor-0": range(5, 100)})
    with pytest.raises(TooManyFailures, match=r"3 failures, more than distributed.max_failures = 2"):
        trained(spread(transport, max_failures=2))


# What rows say


def test_rows_in_which_only_learning_happened_carry_the_last_rate():
    learner = spread()
    learner.step()
    before = learner.collecting.row()["decisions_per_second"]
    assert before > 0
    assert learner.collecting.row()["decisions_per_second"] == before


def test_first_rate_does_not_count_the_start_of_the_roles():
    learner = spread()
    learner.collecting.tally.started -= 1e6
    assert learner.step()["decisions_per_second"] > 1.0


# Recipes


HERE = {"distributed.engine": "local"}
LEASED = {**HERE, "curriculum.order": "uniform", "load": [0.6, 0.9], "tasks": [6, 8]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distributed.engine": "mpi"}, "distributed.engine: expected"),
        ({"distributed.actors": 0}, "distributed.actors: expected a whole number from 1 to 1000, got 0"),
        (
            {**HERE, "distributed.actors": 5000},
            "distributed.actors: expected a whole number from 1 to 1000, got 5",
        ),
        ({**HERE, "distributed.servers": 10**5}, "distributed.servers: expected a whole number from 1 to 10"),
        (
            {**HERE, "distributed.servers": 2},
            "servers: expected 1 unless mode = 'sync' or 'async' or 'gorila'",
        ),
        ({**HERE, "distributed.backups": 1}, "distributed.backups: expected 0 unless mode = 'sync', got 1"),
        ({**HERE, "distributed.learners": 2}, "distributed.learners: expected 1 unless mode = 'sync' or"),
        (
            {**HERE, "distributed.fetch_every": 4},
            "distributed.fetch_every: expected 1 unless .*'gorila', got 4",
        ),
        (
            {**HERE, "distributed.in_flight": 3},
            "distributed.in_flight: expected 1 with engine = 'local'.* got 3",
        ),
        ({"distributed.actors": 3}, "distributed.actors: expected an engine too .*, got 3"),
        ({"distributed.mode": "gorila"}, "distributed.mode: expected an engine too .*, got 'gorila'"),
        ({"distributed.speed": 2}, "distributed.speed"),
        ({"curriculum.order": "gray"}, "distributed.engine: expected an engine"),
        ({"curriculum.values": 2}, "curriculum.values: expected an order too.*, got 2"),
        ({**HERE, "curriculum.held_out": 0.3}, "curriculum.held_out: expected an order too.*, got 0.3"),
        (
            {**LEASED, "curriculum.rise": 0.3},
            "curriculum.rise: expected nothing else unless order = 'easy', got",
        ),
        (
            {**LEASED, "curriculum.exploration": "ladder", "curriculum.epsilon": 0.3},
            "curriculum.epsilon: expected nothing else with exploration = 'ladder', got 0.3",
        ),
        ({**LEASED, "curriculum.held_out": 1}, "curriculum.held_out: expected a number >= 0 and < 1, got 1"),
        (
            {**LEASED, "curriculum.held_out": 0.99},
            "held_out: .* leaves at least one of 4 configurations, got 0.99",
        ),
        ({**LEASED, "curriculum.dimensions": 99}, "curriculum.dimensions: expected at most 2, .*, got 99"),
        ({**LEASED, "curriculum.values": 3}, "curriculum.values: expected at most 2, .*, got 3"),
    ],
)
def test_recipe_refuses(change: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        read_recipe("workflows-dqn-quick", {**TINY, **change}).check(0)


def test_recipe_that_is_not_spread_says_nothing_of_it():
    assert "distributed" not in read_recipe("workflows-dqn-quick").to_dict()
    assert Distributed(engine="local", actors=2).effective.block == 1
