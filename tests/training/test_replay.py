"""What is kept to learn from: held against lists in plain Python, and against cpprb for how it is drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import cpprb
import numpy as np
import pytest
from scipy.stats import chisquare

from weft.errors import InputError
from weft.policies.candidates.packed import Packed
from weft.training.replay import Drawn, Replay, ReplayShape

SHAPE = ReplayShape(3, 2, 4, 5, decisions=40, rows=130, num_steps=3, is_half=False)
NUM_ENVS = SHAPE.num_envs


class Moment(NamedTuple):
    """What the environments went through at once."""

    seen: Packed
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray


def moments(count: int, seed: int, num_choices: int = SHAPE.num_choices) -> list[Moment]:
    """Drawn ones; the first feature of the world names the state."""
    rng, found = np.random.default_rng(seed), []
    for k in range(count):
        sizes = rng.integers(1, num_choices + 1, NUM_ENVS)
        world = rng.normal(size=(NUM_ENVS, 2)).astype(np.float32)
        world[:, 0] = NUM_ENVS * k + np.arange(NUM_ENVS)
        rows = rng.normal(size=(sizes.sum(), 4)).astype(np.float32)
        seen = Packed(world, rows, sizes, rng.random(sizes.sum()) < 0.8)
        discount = rng.choice([0.0, 0.5, 0.9], NUM_ENVS).astype(np.float32)
        found.append(
            Moment(seen, rng.integers(0, sizes), rng.normal(size=NUM_ENVS).astype(np.float32), discount)
        )
    return found


def filled(replay: Replay, kept: list[Moment]) -> Replay:
    for one in kept:
        replay.add(*one)
    return replay


def parts(packed: Packed) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """World, rows and what is allowed of every state."""
    ends = np.cumsum(packed.sizes)[:-1]
    return list(zip(packed.world, np.split(packed.rows, ends), np.split(packed.allowed, ends), strict=True))


def assert_equal_states(found: Packed, wanted: list[tuple[Packed, int]]) -> None:
    for one, (seen, env) in zip(parts(found), wanted, strict=True):
        for mine, theirs in zip(one, parts(seen)[env], strict=True):
            assert mine.tolist() == theirs.tolist()


def return_plainly(kept: list[Moment], first: int, env: int) -> tuple[float, float]:
    """Rewards of n decisions until the episode ends, and the discount of the rest: one decision after another."""
    total, discount = 0.0, 1.0
    for one in kept[first : first + SHAPE.num_steps]:
        total += discount * float(one.reward[env])
        if one.discount[env] == 0.0:
            return total, 0.0
        discount *= float(one.discount[env])
    return total, discount


@pytest.mark.parametrize("num", [4, 5, 12, 13, 14, 60])
@pytest.mark.parametrize("rows", [80, 130, 1000])  # so few that rows make old moments go, or none do
def test_replay_gives_back_what_lists_hold(num: int, rows: int):
    kept = moments(num, seed=num)
    replay = filled(Replay(replace(SHAPE, rows=rows), 0.6, 1e-3), kept)
    drawn = replay.draw(np.random.default_rng(1).random(64), 0.5, 0.4)
    names = drawn.state.world[:, 0].astype(int)
    at = [(name // NUM_ENVS, name % NUM_ENVS) for name in names.tolist()]
    assert_equal_states(drawn.state, [(kept[k].seen, env) for k, env in at])
    assert_equal_states(drawn.after, [(kept[k + SHAPE.num_steps].seen, env) for k, env in at])
    assert drawn.action.tolist() == [kept[k].action[env] for k, env in at]
    wanted = np.array([return_plainly(kept, k, env) for k, env in at])
    np.testing.assert_allclose(drawn.reward, wanted[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(drawn.discount, wanted[:, 1], rtol=1e-5)


@pytest.mark.parametrize("rows", [80, 130, 1000])
def test_replay_keeps_the_newest_and_draws_all_of_them(rows: int):
    kept = moments(60, seed=3)
    shape = replace(SHAPE, rows=rows)
    replay = filled(Replay(shape, 0.6, 1e-3), kept)
    last, used = 60, 0
    while last and 60 - last < shape.num_moments:
        used += len(kept[last - 1].seen.rows)
        if used > rows:
            break
        last -= 1
    assert replay.num_kept == NUM_ENVS * (60 - last)
    assert replay.num_ready == NUM_ENVS * (60 - last - SHAPE.num_steps)
    for share in (0.0, 1.0):
        drawn = replay.draw(np.random.default_rng(1).random(2000), share, 0.4)
        assert set(drawn.state.world[:, 0].astype(int)) == set(range(NUM_ENVS * last, NUM_ENVS * (60 - 3)))


def test_decisions_are_drawn_once_their_successors_are_known():
    kept = moments(5, seed=1)
    replay = filled(Replay(SHAPE, 0.6, 1e-3), kept[:3])
    assert replay.num_ready == 0
    replay.add(*kept[3])
    assert replay.num_ready == NUM_ENVS
    drawn = replay.draw(np.linspace(0, 0.99, 30), 0.3, 0.4)
    assert set(drawn.state.world[:, 0].astype(int)) == {0, 1, 2}


def test_new_decisions_have_the_greatest_priority_so_far():
    kept = moments(6, seed=1)
    replay = filled(Replay(SHAPE, 1.0, 0.5), kept[:4])
    replay.set_errors(np.array([0, 1, 2]), np.array([3.5, -7.5, 0.0], np.float32))
    replay.add(*kept[4])
    leaves = replay.state()["replay.priority"]
    assert leaves[:2].tolist() == [[4.0, 8.0, 0.5], [8.0, 8.0, 8.0]]


def prioritised(errors: np.ndarray, alpha: float) -> Replay:
    """One environment with a decision of each error."""
    shape = replace(SHAPE, num_envs=1, decisions=len(errors) + 1, rows=10 * len(errors), num_steps=1)
    replay = Replay(shape, alpha, 1e-3)
    for k in range(len(errors) + 1):
        seen = Packed(
            np.full((1, 2), k, np.float32), np.ones((2, 4), np.float32), np.array([2]), np.ones(2, bool)
        )
        replay.add(seen, np.zeros(1, int), np.zeros(1, np.float32), np.ones(1, np.float32))
    replay.set_errors(np.arange(len(errors)), errors.astype(np.float32))
    return replay


ERRORS = np.random.default_rng(5).exponential(size=24)


def cpprb_buffer(alpha: float) -> cpprb.PrioritizedReplayBuffer:
    buffer = cpprb.PrioritizedReplayBuffer(len(ERRORS), {"obs": {"shape": 1}}, alpha=alpha, eps=1e-3)
    for k, error in enumerate(ERRORS):
        buffer.add(obs=[k], priorities=[error])
    return buffer


def draws(replay: Replay, batch: int, times: int, share: float, beta: float) -> list[Drawn]:
    rng = np.random.default_rng(2)
    return [replay.draw(rng.random(batch), share, beta) for _ in range(times)]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_sampling_follows_the_distribution_of_cpprb(alpha: float):
    replay = prioritised(ERRORS, alpha)
    theirs = np.concatenate(  # a buffer of theirs draws the same every time
        [cpprb_buffer(alpha).sample(1000, beta=0.4)["indexes"] for _ in range(40)]
    ).astype(int)
    mine = np.concatenate([one.slot for one in draws(replay, 1000, 40, 0.0, 0.4)])
    wanted = (ERRORS + 1e-3) ** alpha
    wanted *= len(mine) / wanted.sum()
    for found in (theirs, mine):
        assert chisquare(np.bincount(found, minlength=24), wanted).pvalue > 1e-6
    assert chisquare(np.bincount(mine, minlength=24), wanted).pvalue > 0.5  # strata leave less to chance


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_importance_weights_are_those_of_cpprb(beta: float):
    buffer, replay = cpprb_buffer(0.6), prioritised(ERRORS, 0.6)
    sample = buffer.sample(3000, beta=beta)
    theirs = np.full(len(ERRORS), np.nan)
    theirs[sample["indexes"].astype(int)] = sample["weights"]
    for one in draws(replay, 32, 5, 0.0, beta):
        wanted = theirs[one.slot] / theirs[one.slot].max()  # here the greatest weight of the batch is 1
        np.testing.assert_allclose(one.weight, wanted, rtol=1e-4)


def test_a_share_of_every_batch_is_uniform_and_weighed_so():
    replay = prioritised(ERRORS, 1.0)
    found = draws(replay, 100, 400, 0.25, 1.0)
    slots = np.concatenate([one.slot for one in found])
    size = ERRORS.astype(np.float32).astype(np.float64) + 1e-3
    share = 0.75 * size / size.sum() + 0.25 / len(ERRORS)
    assert chisquare(np.bincount(slots, minlength=24), share / share.sum() * len(slots)).pvalue > 1e-3
    weight = 1.0 / share[found[0].slot]
    np.testing.assert_allclose(found[0].weight, weight / weight.max(), rtol=1e-5)


@pytest.mark.parametrize("num", [0, 2, 5, 40])
def test_restored_replay_goes_on_as_if_never_stopped(num: int):
    kept = moments(num + 20, seed=8)
    shape = replace(SHAPE, is_half=True)
    one, other = filled(Replay(shape, 0.6, 1e-3), kept[:num]), Replay(shape, 0.6, 1e-3)
    if one.num_ready:
        one.set_errors(one.draw(np.full(8, 0.5), 0.0, 1.0).slot, np.linspace(0, 3, 8, dtype=np.float32))
    filled(other, moments(7, seed=9))  # what was there before is forgotten
    other.restore(one.state())
    for k in range(num, num + 20):
        levels = np.random.default_rng(k).random(32)
        for replay in (one, other):
            replay.add(*kept[k])
        if one.num_ready:
            ours, theirs = (replay.draw(levels, 0.2, 0.5) for replay in (one, other))
            for mine, its in zip(
                (*ours[:2], *ours[2], *ours[3:6]), (*theirs[:2], *theirs[2], *theirs[3:6]), strict=True
            ):
                assert mine.tobytes() == its.tobytes()
    assert {name: array.tobytes() for name, array in one.state().items()} == {
        name: array.tobytes() for name, array in other.state().items()
    }


def test_level_is_what_a_constant_value_would_have_to_be():
    shape = replace(SHAPE, decisions=30)
    replay = Replay(shape, 0.6, 1e-3)
    assert replay.level == 0.0
    filled(replay, moments(25, seed=4))
    last = moments(25, seed=4)[-10:]
    reward, discount = (np.array([one[k] for one in last], np.float64) for k in (2, 3))
    assert reward.mean() + discount.mean() * replay.level == pytest.approx(replay.level)


def test_half_precision_rounds_features_alone():
    kept = moments(6, seed=1)
    drawn = filled(Replay(replace(SHAPE, is_half=True), 0.6, 1e-3), kept).draw(np.full(4, 0.5), 0.0, 1.0)
    exact = filled(Replay(SHAPE, 0.6, 1e-3), kept).draw(np.full(4, 0.5), 0.0, 1.0)
    assert drawn.reward.tolist() == exact.reward.tolist()
    np.testing.assert_allclose(drawn.state.rows, exact.state.rows, rtol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decisions": 14}, "replay: expected at least 15 for 3 environments, got 14"),
        ({"rows": 74}, "replay: expected room for at least 75 candidates, got 74"),
    ],
)
def test_replay_refuses_too_little_room(change: dict[str, int], message: str):
    with pytest.raises(InputError, match=message):
        replace(SHAPE, **change)
