"""What actors send to shards: moments that follow one another, as few arrays. Loads no torch at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weft.policies.candidates.packed import Packed
from weft.policies.tensors import Array

if TYPE_CHECKING:
    from weft.training.dqn.acting import Moment


class Block(NamedTuple):
    """Moments of one actor, of which the first were sent before: they end the returns of later ones."""

    actor: str
    life: int
    """How often the actor had been started before."""
    first: int
    """Number of the first moment in this life."""
    num_old: int
    """How many were part of an earlier block."""
    columns: dict[str, Array]

    @property
    def num_moments(self) -> int:
        """All of them."""
        return len(self.columns["sizes"])


def columns_of(moments: Sequence[Moment], *, is_half: bool) -> dict[str, Array]:
    """Moments as arrays, the first dimension of most being time; an error that is not known is NaN."""
    kind = np.float16 if is_half else np.float32
    if not moments:
        return {"sizes": np.zeros((0, 0), np.int64)}
    unknown = np.full(len(moments[0].row), np.nan, np.float32)
    return {
        "world": np.stack([one.seen.world for one in moments]).astype(kind),
        "rows": np.concatenate([one.seen.rows for one in moments]).astype(kind),
        "sizes": np.stack([one.seen.sizes for one in moments]),
        "allowed": np.concatenate([one.seen.allowed for one in moments]),
        "row": np.stack([one.row for one in moments]),
        "reward": np.stack([one.reward for one in moments]),
        "discount": np.stack([one.discount for one in moments]),
        "error": np.stack([unknown if one.error is None else one.error for one in moments]),
    }


def moments_of(columns: Mapping[str, Array]) -> list[Moment]:
    """What :func:`columns_of` was given."""
    from weft.training.dqn.acting import Moment

    sizes = columns["sizes"].astype(np.int64)
    if not len(sizes):
        return []
    ends = np.cumsum(sizes.sum(axis=1))[:-1]
    rows, allowed = (np.split(columns[name], ends) for name in ("rows", "allowed"))
    found = []
    for t in range(len(sizes)):
        error = columns["error"][t].astype(np.float32)
        found.append(
            Moment(
                Packed(
                    columns["world"][t].astype(np.float32),
                    rows[t].astype(np.float32),
                    sizes[t],
                    allowed[t].astype(np.bool_),
                ),
                columns["row"][t].astype(np.int64),
                columns["reward"][t].astype(np.float32),
                columns["discount"][t].astype(np.float32),
                None if np.isnan(error).any() else error,
            )
        )
    return found
