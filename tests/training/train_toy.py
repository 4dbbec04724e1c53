"""``train_toy.py RUN [ppo|dqn]``: train or resume a tiny policy there; the kill tests run this and kill it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from training.toy import ToyEnv, best_rule
from training.toy_candidates import ToyCandidates

from weft.training.dqn.config import DQNConfig
from weft.training.dqn.learner import DQN
from weft.training.ppo.config import PPOConfig
from weft.training.ppo.learner import PPO
from weft.training.run.folder import Learner, Spec, open_run

SEED = 5
CONFIGS = {
    "ppo": PPOConfig(
        samples=11_520,
        num_envs=8,
        num_steps=24,
        minibatch=96,
        hidden=(16,),
        kl_coefficient=0.2,
        imitation_updates=4,
    ),
    "dqn": DQNConfig(
        samples=5_760,
        num_envs=8,
        num_steps=24,
        warmup=300,
        replay=1024,
        minibatch=32,
        replay_ratio=2.3,
        target_every=7,
        target_rate=0.5,
        hidden=(16,),
        time_unit=2.0,
    ),
}


def learner_of(algorithm: str) -> Learner:
    config = CONFIGS[algorithm]
    if isinstance(config, DQNConfig):
        return DQN(ToyCandidates(config.num_envs, base_column=3), config, seed=SEED)
    return PPO(ToyEnv(config.num_envs), config, seed=SEED, rule=best_rule)


def train(folder: str | Path, algorithm: str = "ppo") -> None:
    """Train to the end, resuming what is there."""
    spec = Spec(algorithm, asdict(CONFIGS[algorithm]), seed=SEED, recipe={"scenario": "toy"})
    with open_run(folder, spec, is_resumed=True, on_notice=lambda line: print(line, file=sys.stderr)) as run:
        run.train(learner_of(algorithm), every=2)


if __name__ == "__main__":
    train(*sys.argv[1:])
