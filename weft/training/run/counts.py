"""How far a learner is whose updates are all of one size."""

from __future__ import annotations

from typing import Protocol


class Sized(Protocol):
    """Parameters that say how long training is."""

    @property
    def num_updates(self) -> int:
        """Updates in all."""

    @property
    def batch(self) -> int:
        """Samples per update."""


class EvenUpdates:
    """The counts of a :class:`weft.training.run.folder.Learner`, by its parameters."""

    config: Sized
    update: int
    """Updates done."""

    @property
    def num_updates(self) -> int:
        """Updates to do in all."""
        return self.config.num_updates

    @property
    def samples(self) -> int:
        """Samples so far, in what the recipe calls them."""
        return self.update * self.config.batch

    @property
    def num_samples(self) -> int:
        """Samples in all."""
        return self.num_updates * self.config.batch
