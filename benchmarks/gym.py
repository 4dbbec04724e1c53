"""Another library's learner (sb3-contrib's MaskablePPO) on single tasks, against rules and chance on streams it never saw."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import numpy as np

import weft
from weft.model.problem import Problem, realise
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import RuleDispatcher, fifo, priced, random, run_one
from weft.sim.tasks.candidates import CandidateSight

if TYPE_CHECKING:
    from sb3_contrib import MaskablePPO

SIGHT = CandidateSight(tasks=8, pools=2)
SETTINGS = {"load": 0.8, "jobs": 10, "tasks": 10}
HELD_OUT = 16
"""Streams of the test split."""


def main(arguments: list[str]) -> int:
    """Train, play and print mean job times; 1 if the learner is not better than chance and fifo."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gym", description=__doc__)
    parser.add_argument("--steps", type=int, default=40_000, help="decisions to learn from, default 40000")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of training, default 1 2 3")
    parser.add_argument("--waits", action="store_true", help="let the learner wait too")
    options = parser.parse_args(arguments)
    chosen = scenario("workflows", **SETTINGS)
    problems = [chosen.dispatched("test", 0, seed) for seed in range(HELD_OUT)]
    means = {rule.name: _of_rule(rule, problems) for rule in (random, fifo, priced)}
    for name, mean in means.items():
        print(f"{name:<20} {mean:8.1f} s per job on {HELD_OUT} streams of the test split")
    found = []
    for seed in options.seeds:
        started = time.process_time()
        model = _trained(options.steps, seed, options.waits)
        spent = time.process_time() - started
        found.append(_of_model(model, problems, options.waits))
        print(
            f"MaskablePPO, seed {seed:<3} {found[-1]:8.1f} s per job after {options.steps:,} decisions in {spent:.0f} CPU s"
        )
    is_better = max(found) < min(means["random"], means["fifo"])
    print("target: below random and fifo" + ("" if is_better else ": MISSED"))
    return 0 if is_better else 1


def _trained(steps: int, seed: int, waits: bool) -> MaskablePPO:
    import torch
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    environments = make_vec_env(
        lambda: weft.make_env("workflows", streams=32, sight=SIGHT, waits=waits, **SETTINGS),
        n_envs=8,
        seed=seed,
    )
    model = MaskablePPO(
        "MlpPolicy",
        VecNormalize(environments, norm_obs=False, gamma=0.98),  # job times are large numbers
        1e-3,
        n_steps=256,
        batch_size=512,
        n_epochs=6,
        gamma=0.98,
        seed=seed,
        device="cpu",
    )
    return model.learn(steps)


def _of_model(model: MaskablePPO, problems: list[Problem], waits: bool) -> float:
    from weft.sim.adapters import make
    from weft.sim.tasks.environment import TaskSetup

    found = []
    for problem in problems:
        env = make(TaskSetup((problem,), SIGHT, waits=waits))
        observation, info = env.reset(seed=0)
        while "mean_jct" not in info:
            action, _ = model.predict(observation, action_masks=env.action_masks(), deterministic=True)
            observation, *_, info = env.step(action)
        found.append(info["mean_jct"])
    return float(np.mean(found))


def _of_rule(rule: RuleDispatcher, problems: list[Problem]) -> float:
    return float(np.mean([run_one(rule, one, realise(one, 0)).mean_jct for one in problems]))
