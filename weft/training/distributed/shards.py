"""The role that keeps decisions, and how a batch is drawn from several of them as if they were one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from weft.policies.candidates.packed import Packed
from weft.policies.tensors import Array
from weft.training.distributed.blocks import Block, moments_of
from weft.training.environment import Floats, Floats32, Ints
from weft.training.replay import Drawn, Kept, Replay, ReplayShape, importance, places


class Standing(NamedTuple):
    """What a shard says of itself with every answer."""

    total: float = 0.0
    """Sum of all priorities."""
    num_ready: int = 0
    """Decisions that can be drawn."""
    fill: float = 0.0


class Share(NamedTuple):
    """What is to be drawn from one shard."""

    rank: Ints  # (u,) uniformly, among all that it has ready
    target: Floats  # (p,) by priority: where sums reach this
    known: Standing
    """What it stood at when this was decided."""


class ReplayShard:
    """Decisions of all actors that chose this shard, drawn by priority."""

    def __init__(self, shape: ReplayShape, alpha: float, epsilon: float, life: int = 0) -> None:
        self._replay = Replay(shape, alpha, epsilon)
        self._last = ("", -1, -1)  # actor, life and number of the moment that was added last

    def add(self, block: Block) -> Standing:
        """Keep a block; what follows the last one is joined to it, else what it repeats is kept again."""
        moments = moments_of(block.columns)
        follows = (
            self._last == (block.actor, block.life, block.first + block.num_old - 1) and block.num_old > 0
        )
        if not follows:
            self._replay.break_off()
        for moment in moments[block.num_old if follows else 0 :]:
            self._replay.add(*moment)
        self._last = (block.actor, block.life, block.first + len(moments) - 1)
        return self.standing()

    def standing(self) -> Standing:
        """How much there is."""
        return Standing(self._replay.total, self._replay.num_ready, self._replay.fill)

    def level_sums(self) -> tuple[float, float]:
        """Rewards, and what is lost by discounting, of all that is kept."""
        return self._replay.level_sums

    def draw(self, share: Share) -> tuple[Standing, Kept]:
        """What was asked for, by the shares of what there is now; slots are named for good."""
        now, known = self.standing(), share.known
        rank, target = share.rank, share.target
        if now.num_ready != known.num_ready:
            rank = np.minimum(rank * (now.num_ready / known.num_ready), now.num_ready - 1).astype(np.int64)
        if now.total != known.total:
            target = target * (now.total / known.total)
        kept = self._replay.fetch(self._replay.slots_at(rank, target))
        return now, kept._replace(slot=self._replay.stamped(kept.slot))

    def set_errors(self, stamp: Ints, error: Floats32) -> Standing:
        """Draw these decisions by the errors that they have now; those that are gone are passed over."""
        is_there, slot = self._replay.still_there(stamp)
        if len(slot):
            self._replay.set_errors(slot, error[is_there])
        return self.standing()

    def state(self) -> dict[str, Array]:
        """What a resumed run needs."""
        actor, life, number = self._last
        who = np.frombuffer(actor.encode() or b"\0", np.uint8).copy()
        return {**self._replay.state(), "shard.actor": who, "shard.last": np.array([life, number])}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._replay.restore(state)
        life, number = state["shard.last"].astype(np.int64).tolist()
        self._last = (state["shard.actor"].astype(np.uint8).tobytes().decode().strip("\0"), life, number)


def shares_of(level: Floats, uniform_share: float, standings: Sequence[Standing]) -> list[Share | None]:
    """What to draw from every shard so that all together are drawn as from one; None: nothing.

    Shards lie side by side: a draw falls to the shard in whose part of all decisions, or of the sum of all priorities, it lies.
    """
    ready = np.cumsum([0, *(one.num_ready for one in standings)])
    total = np.cumsum([0.0, *(one.total for one in standings)])
    rank, target = places(level, uniform_share, int(ready[-1]), float(total[-1]))
    able = np.array([one.num_ready > 0 and one.total > 0.0 for one in standings])
    last = int(np.flatnonzero(able)[-1])
    rank_of = np.minimum(np.searchsorted(ready[1:], rank, "right"), last)
    target_of = np.minimum(np.searchsorted(total[1:], target, "right"), last)
    found: list[Share | None] = []
    for k, known in enumerate(standings):
        own = Share(rank[rank_of == k] - ready[k], target[target_of == k] - total[k], known)
        found.append(own if len(own.rank) or len(own.target) else None)
    return found


def batch_of(parts: Sequence[Kept], standings: Sequence[Standing], num_uniform: int, beta: float) -> Drawn:
    """What was drawn from several shards as one batch, weighted by what all shards stand at."""
    kept = joined(parts)
    num = len(kept.slot)
    ready, total = sum(one.num_ready for one in standings), sum(one.total for one in standings)
    weight = importance(kept.priority, num_uniform / num, ready, total, beta)
    return Drawn(kept.slot, weight, kept.state, kept.action, kept.reward, kept.discount, kept.after)


def joined(parts: Sequence[Kept]) -> Kept:
    """One after another."""
    if len(parts) == 1:
        return _writable(parts[0])
    slot, priority, state, action, reward, discount, after = zip(*parts, strict=True)
    numbers = (np.concatenate(column) for column in (slot, priority, action, reward, discount))
    slots, priorities, actions, rewards, discounts = numbers
    return Kept(slots, priorities, _joined(state), actions, rewards, discounts, _joined(after))


def _joined(parts: Sequence[Packed]) -> Packed:
    return Packed(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _writable(kept: Kept) -> Kept:
    """The same in arrays that may be written to, as torch wants them; what Ray holds may not."""
    if kept.reward.flags.writeable:
        return kept
    action, reward, discount = kept.action.copy(), kept.reward.copy(), kept.discount.copy()
    state, after = (_joined([one]) for one in (kept.state, kept.after))
    return Kept(kept.slot, kept.priority, state, action, reward, discount, after)
