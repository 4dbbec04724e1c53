"""One-shot planners whose schedules are drawn by actors: every update waits for all of them.

What is drawn depends on seed, update and problem alone, and actors remember nothing: any number of them on any engine,
some of them lost, gives what one process alone gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.errors import WeftError
from weft.policies.checkpoint import Card
from weft.policies.tensors import Array
from weft.sim.arrays import Arrays
from weft.training.distributed.config import Distributed
from weft.training.distributed.crew import Crew
from weft.training.distributed.transport import Part, Transport
from weft.training.oneshot.config import SampleConfig
from weft.training.oneshot.learner import Pull, SampleLearner, Scored, pull_scored
from weft.training.oneshot.problems import Instance, Source
from weft.training.run.metrics import Metric


@dataclass(frozen=True)
class DrawActs:
    """What an actor needs to know; the same for all of them."""

    config: SampleConfig
    seed: int


class DrawActor:
    """Draws schedules and weighs them, and never learns."""

    def __init__(self, acts: DrawActs, life: int) -> None:
        self._acts = acts

    def draw(self, update: int, asked: Sequence[Scored], instances: Sequence[Instance]) -> list[Pull]:
        """Where the costs of these problems pull their scores."""
        acts = self._acts
        return [
            pull_scored(_writable(instance), scored, acts.config, acts.seed, update)
            for instance, scored in zip(instances, asked, strict=True)
        ]


def _writable(instance: Instance) -> Instance:
    """As kernels take it: what comes by way of Ray cannot be written."""
    a = [np.require(x, requirements="W") if isinstance(x, np.ndarray) else x for x in instance.a]
    view = instance.view._replace(group=np.require(instance.view.group, requirements="W"))
    return instance._replace(a=Arrays._make(a), view=view)


def drawable(instance: Instance) -> Instance:
    """A problem without what only the net looks at."""
    view, nothing = instance.view, np.zeros((0, 0))
    seen = view._replace(
        features=nothing,
        pairs=nothing[..., None],
        reach=np.zeros((0, 0), np.bool_),
        is_reduced=np.zeros(0, np.bool_),
    )
    return instance._replace(view=seen)


class SpreadSamples(SampleLearner):
    """Learns here from the schedules that actors draw; other parameters are those of its base.

    Parameters
    ----------
    transport
        Carries the calls of the actors.
    spread
        How many there are, and how many may be lost.
    on_notice
        Told of actors that are started again.
    """

    def __init__(
        self,
        transport: Transport,
        spread: Distributed,
        on_notice: Callable[[str], None],
        sources: Sequence[Source],
        config: SampleConfig,
        *,
        seed: int = 0,
        device: str = "cpu",
        start: Mapping[str, Array] | None = None,
        card: Card | None = None,
        workers: int = 0,
    ) -> None:
        super().__init__(
            sources, config, seed=seed, device=device, start=start, card=card, workers=workers, threads=1
        )
        self.spread = spread
        self.crew = Crew(transport, spread.max_failures, lambda role: None, on_notice)
        self._actors = [f"actor-{k}" for k in range(spread.actors)]
        self._sent: tuple[int, list[Part]] = (-1, [])  # number of a batch, its problems by actor

    def _pulls_of(self, instances: list[Instance], asked: list[Scored]) -> list[Pull]:
        """Deal the problems to the actors; one that is lost does its part again in another life."""
        self._begin()
        count, parts = len(self._actors), self._problems_sent(instances)
        for k in range(count):
            self._ask(k, asked[k::count], parts[k])
        found: dict[int, list[Pull]] = {}
        while len(found) < count:
            heard = self.crew.heard(self.spread.patience)
            if not heard:
                raise WeftError(f"no actor has answered for {self.spread.patience:g} s")
            for one in heard:
                k = one.about
                if one.is_lost:
                    self._ask(k, asked[k::count], parts[k])
                else:
                    found[k] = self.crew.value(one.call)
                    self.crew.drop(one.call)
        return [found[place % count][place // count] for place in range(len(asked))]

    def _begin(self) -> None:
        """Start all actors, once."""
        if not self.crew.lives:
            for role in self._actors:
                self.crew.add(role, DrawActor, DrawActs(self.config, self.seed))

    def _problems_sent(self, instances: list[Instance]) -> list[Part]:
        """The problems of every actor, laid out once for all updates that share them."""
        number, count = self.update // self.config.reuse, len(self._actors)
        if self._sent[0] != number:
            self._drop_sent()
            lean = [drawable(instance) for instance in instances]
            self._sent = number, [self.crew.put(lean[k::count]) for k in range(count)]
        return self._sent[1]

    def _drop_sent(self) -> None:
        for part in self._sent[1]:
            self.crew.drop(part.call)
        self._sent = (-1, [])

    def _ask(self, k: int, asked: list[Scored], problems: Part) -> None:
        self.crew.ask(self._actors[k], "draw", self.update, asked, problems, about=k)

    def step(self) -> dict[str, Metric]:
        """One update; the row says how many actors were started again."""
        return {**super().step(), "restarts": self.crew.restarts}

    def close(self) -> None:
        """End all actors, and let workers and threads go."""
        self.crew.close()
        super().close()
