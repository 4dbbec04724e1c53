"""Multi-agent PPO: who counts in the loss, what is discounted, that it learns, resumes to the bit and ends as a policy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from policies.elastic_problems import edge_problem

import weft
from weft.errors import InputError
from weft.policies.checkpoint import Card, load_policy
from weft.policies.han.allocator import load_allocator
from weft.sim.elastic.environment import ElasticBatch
from weft.training.mappo.config import MappoConfig
from weft.training.mappo.learner import Mappo
from weft.training.mappo.rollout import LOST, PLACED, SKIPPED, judged
from weft.training.mappo.validation import Episodes, play
from weft.training.recipes import read_recipe

UNITS = ((2, 1), (2, 10))
SMALL = {"num_envs": 8, "num_steps": 12, "minibatch": 48, "hidden": 16, "passes": 2}
TINY = {
    "samples": 240,
    "num_envs": 4,
    "num_steps": 20,
    "minibatch": 40,
    "imitation_updates": 1,
    "validation.every": 2,
    "validation.episodes": 2,
    "tasks": 24,
}


def learner(stepping: str = "multi", *, judge: bool = False, **changes: object) -> Mappo:
    config = MappoConfig(**{"samples": 960, **SMALL, **changes})
    problem = edge_problem(stepping=stepping, num_tasks=30)
    card = Card("edge", "mappo", config.architecture((7, 7, 7), (16, 16)))
    env = ElasticBatch(problem, config.num_envs, seed=1)
    episodes = Episodes(ElasticBatch(problem, 4, seed=9)) if judge else None
    return Mappo(env, card, config, seed=1, judge=episodes, first=np.array(UNITS))


def test_losers_of_a_conflict_count_with_their_pick_alone():
    made = learner("single")
    made.collect()
    lost = torch.from_numpy(made.rollout.outcome == LOST)
    assert lost.any()
    batch, _ = made.gathered()
    now = judged(made.net, batch.seen, batch.slot, batch.units)
    expected = torch.where(batch.has_units, now.log_pick + now.log_units, now.log_pick)
    active = batch.is_active
    torch.testing.assert_close(batch.log_prob[active], expected.detach()[active], atol=1e-5, rtol=0)
    only_lost = batch._replace(is_active=active & ~batch.has_units)
    loss, _ = made.loss(only_lost)
    loss = loss - made.config.value_coefficient * (now.values - batch.target).square().mean()
    units_out = torch.autograd.grad(loss, made.net.units_out_weight, allow_unused=True)[0]
    assert units_out is None or units_out.abs().max() < 1e-7


def test_agents_without_a_task_that_fits_are_left_out():
    made = learner()
    made.collect()
    rollout = made.rollout
    skipped = rollout.outcome == SKIPPED
    assert skipped.any()
    assert not (skipped & rollout.seen.active.numpy()).any()
    batch, _ = made.gathered()
    assert batch.is_active.any(1).all()
    assert len(batch.slot) < made.config.batch
    changed = batch._replace(
        advantage=torch.where(batch.is_active, batch.advantage, 1e6),
        log_prob=torch.where(batch.is_active, batch.log_prob, -5.0),
    )
    torch.testing.assert_close(made.loss(batch)[0], made.loss(changed)[0])


def test_only_steps_in_which_time_passes_are_discounted():
    made = learner(gamma=0.9, gae_lambda=0.8)
    made.collect()
    rollout = made.rollout
    placed = (rollout.outcome == PLACED).any(2)
    np.testing.assert_allclose(rollout.discount[placed], 1.0)
    np.testing.assert_allclose(rollout.decay[placed], 1.0)
    assert (rollout.reward[placed] == 0).all()
    passed = ~placed & (rollout.discount > 0)
    np.testing.assert_allclose(rollout.discount[passed], 0.9, rtol=1e-6)
    np.testing.assert_allclose(rollout.decay[passed], 0.72, rtol=1e-6)


def test_advantages_are_discounted_sums_of_errors():
    made = learner(num_steps=3)
    rollout = made.rollout
    rollout.reward[:], rollout.values[:] = 1.0, 0.0
    rollout.discount[:] = np.array([1.0, 0.5, 0.5])[:, None]
    rollout.decay[:] = np.array([1.0, 0.25, 0.25])[:, None]
    found = rollout.advantages()[:, 0, 0].tolist()
    assert found == [2.25, 1.25, 1.0]


def test_without_masks_what_does_not_fit_is_void_and_costs():
    made = learner(masks="penalty", penalty=6.0, team=0.0, reward_unit=1.0)
    told = []
    act = made.env.act

    def recorded(slot: np.ndarray, units: np.ndarray, chance: np.ndarray):
        move = act(slot, units, chance)
        told.append((slot.copy(), move.reward.copy()))
        return move

    made.env.act = recorded  # type: ignore[method-assign]
    made.collect()
    slots, rewards = (np.stack(part) for part in zip(*told, strict=True))
    paid = rewards - made.rollout.reward
    assert set(np.unique(paid.round(4)).tolist()) == {0.0, 6.0}
    assert (slots[paid > 1.0] == -1).all()


def test_units_are_imitated_before_anything_else():
    made = learner(imitation_updates=8, samples=96, imitation_rate=1e-2)
    rows = [made.step() for _ in range(8)]
    assert {row["phase"] for row in rows} == {"imitate"}
    assert rows[-1]["policy_loss"] < 0.6 * rows[0]["policy_loss"]
    assert made.step()["phase"] == "ppo"


def test_some_updates_make_tasks_end_sooner():
    made = learner(
        imitation_updates=8, samples=320, num_envs=16, num_steps=20, minibatch=80,
        imitation_rate=5e-3,
    )  # fmt: skip
    start = Episodes(ElasticBatch(edge_problem(num_tasks=30), 6, seed=9))
    before = start.play(made.net, "sampled").mean()
    for _ in range(made.num_updates):
        made.step()
    assert start.play(made.net, "mixed").mean() < 0.85 * before


def test_policy_is_kept_the_way_it_acts_best():
    made = learner(judge=True)
    for _ in range(5):
        row = made.step()
    modes = {mode: row[f"validation_{mode}"] for mode in ("sampled", "greedy", "mixed")}
    best = min(modes, key=lambda mode: modes[mode])
    assert (row["mode"], row["validation"], made.score) == (best, modes[best], -modes[best])
    assert made.policy()[1].training["mode"] == best


def test_tasks_alive_add_up_to_completion_times():
    made = learner()
    with torch.no_grad():
        made.net.units_out_bias[0] = -9.0  # place whenever something fits, so that episodes are short
    problem = edge_problem(num_tasks=12)
    env = ElasticBatch(problem, 3, seed=4)
    times = play(made.net, env, "sampled")
    other = ElasticBatch(problem, 3, seed=4)
    ended = np.full(3, np.nan)
    act = other.act

    def recorded(slot: np.ndarray, units: np.ndarray, chance: np.ndarray):
        move = act(slot, units, chance)
        np.copyto(ended, move.mean_completion, where=move.done & np.isnan(ended))
        return move

    other.act = recorded  # type: ignore[method-assign]
    play(made.net, other, "sampled")
    np.testing.assert_allclose(times, ended)


@pytest.mark.parametrize("stepping", ["single", "multi"])
def test_restored_learner_goes_on_to_the_bit(stepping: str):
    first = learner(stepping, judge=True)
    for _ in range(2):
        first.step()
    second = learner(stepping, judge=True)
    second.restore(first.state())
    rows = first.step(), second.step()
    assert rows[0] == rows[1]
    for name, tensor in first.net.weights().items():
        assert tensor.tobytes() == second.net.weights()[name].tobytes(), name


def test_recipe_trains_resumes_and_its_run_is_an_allocator(tmp_path: Path):
    class Stop(Exception):
        """Interrupts a run."""

    def stop(progress: object) -> None:
        if progress.update == 3:
            raise Stop

    weft.train("edge-quick", tmp_path / "whole", settings=TINY)
    with pytest.raises(Stop):
        weft.train("edge-quick", tmp_path / "cut", settings=TINY, on_progress=stop)
    weft.train("edge-quick", tmp_path / "cut", settings=TINY, resume=True)
    for name in ("best", "last"):
        cards = [load_policy(f"{tmp_path / run}@{name}")[1] for run in ("whole", "cut")]
        assert cards[0].sha256 == cards[1].sha256
    allocator = load_allocator(f"{tmp_path / 'whole'}@best")
    problem = read_recipe("edge-quick", TINY).problem
    assert allocator.supports(problem) is None
    assert len(cards[0].features) == len(cards[0].ranges) == 21


@pytest.mark.parametrize(
    ("name", "clusters"),
    [
        ("edge-single-3", 3),
        ("edge-multi-3", 3),
        ("edge-multi-fine", 3),
        ("edge-single-6", 6),
        ("edge-hetero-6", 6),
        ("edge-hetero-fine", 6),
        ("edge-testbed-6", 6),
        ("edge-pointer", 3),
    ],
)
def test_recipes_can_be_trained(name: str, clusters: int):
    recipe = read_recipe(name)
    recipe.check(0)
    assert recipe.problem.num_clusters == clusters
    assert recipe.to_dict()["config"] == asdict(recipe.config)


def test_units_to_imitate_must_fit_the_problem():
    recipe = read_recipe("edge-quick", {"imitation_units": [[2, 1]]})
    with pytest.raises(InputError, match="expected units of 2 resources for each of 2 types of task"):
        recipe.check(0)
