"""``train_toy.py RUN``: train or resume a tiny policy there; the kill tests run this and kill it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from training.toy import ToyEnv, best_rule

from weft.training.ppo.config import PPOConfig
from weft.training.ppo.learner import PPO
from weft.training.run.folder import Spec, open_run

CONFIG = PPOConfig(
    samples=11_520,
    num_envs=8,
    num_steps=24,
    minibatch=96,
    hidden=(16,),
    kl_coefficient=0.2,
    imitation_updates=4,
)
SPEC = Spec("ppo", asdict(CONFIG), seed=5, recipe={"scenario": "toy"})


def train(folder: str | Path) -> None:
    """Train to the end, resuming what is there."""
    learner = PPO(ToyEnv(CONFIG.num_envs), CONFIG, seed=SPEC.seed, rule=best_rule)
    with open_run(folder, SPEC, is_resumed=True, on_notice=lambda line: print(line, file=sys.stderr)) as run:
        run.train(learner, every=2)


if __name__ == "__main__":
    train(sys.argv[1])
