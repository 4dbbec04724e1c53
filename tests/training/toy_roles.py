"""Roles on the toy environment, for the tests of spread training."""

from __future__ import annotations

from dataclasses import dataclass, replace

from training.toy_candidates import ToyCandidates

from weft.training.distributed.apex import Apex
from weft.training.distributed.config import Distributed
from weft.training.distributed.gradients import Gradients
from weft.training.distributed.local import LocalTransport
from weft.training.distributed.transport import Transport
from weft.training.dqn.config import DQNConfig

SMALL = DQNConfig(
    samples=1_600,
    num_envs=4,
    num_steps=50,
    warmup=100,
    replay=2048,
    minibatch=32,
    replay_ratio=4.0,
    learning_rate=3e-3,
    gamma=0.95,
    target_every=25,
    hidden=(16,),
)


@dataclass(frozen=True)
class ToyMaker:
    """Makes toy environments; importable, so that processes can have it."""

    def env(self, num_envs: int) -> ToyCandidates:
        return ToyCandidates(num_envs)

    def seats(self, env: ToyCandidates, seed: int) -> None:
        return None


def spread(
    transport: Transport | None = None, config: DQNConfig = SMALL, **changes: object
) -> Apex | Gradients:
    """A learner on the toy; by default all roles are in this process."""
    given = {"engine": "local", **changes}
    chosen = replace(Distributed(), **given)
    kind = Apex if chosen.mode == "apex" else Gradients
    return kind(transport or LocalTransport(), ToyMaker(), config, chosen, seed=1)


def trained(learner: Apex | Gradients) -> list[dict[str, object]]:
    """The rows of a whole run."""
    rows = []
    while learner.update < learner.num_updates:
        rows.append(learner.step())
    return rows
