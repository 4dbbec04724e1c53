"""Seeds of problems: train, validation and test share none, because the seed carries its split."""

from __future__ import annotations

from weft.errors import InputError

SPLITS = ("train", "validation", "test")
"""Names of the splits; the position is part of every seed, so never reorder."""
SEEDS_PER_SPLIT = 1 << 32


def check_split(split: str) -> str:
    """The split, if it is one."""
    if split not in SPLITS:
        raise InputError(f"expected one of {', '.join(SPLITS)}, got {split!r}", field="split")
    return split


def seed_of(split: str, index: int) -> int:
    """Seed of the problem at this index of a split."""
    if not 0 <= index < SEEDS_PER_SPLIT:
        raise InputError(f"expected a number in 0..{SEEDS_PER_SPLIT - 1}, got {index}", field="index")
    return SPLITS.index(check_split(split)) * SEEDS_PER_SPLIT + index


def check_training_seed(seed: int, num_streams: int = 1) -> int:
    """The seed of a training run, if its streams belong to the training split.

    A run whose streams are numbered from ``seed * num_streams`` on takes that many of them.
    """
    most = SEEDS_PER_SPLIT // num_streams - 1
    if type(seed) is not int or not 0 <= seed <= most:
        raise InputError(
            f"expected a whole number from 0 to {most}, for later ones belong to validation, got {seed!r}",
            field="seed",
        )
    return seed


def split_of(seed: int) -> tuple[str, int]:
    """Split and index of a seed."""
    if not 0 <= seed < len(SPLITS) * SEEDS_PER_SPLIT:
        raise InputError(
            f"expected a seed in 0..{len(SPLITS) * SEEDS_PER_SPLIT - 1}, got {seed}", field="seed"
        )
    split, index = divmod(seed, SEEDS_PER_SPLIT)
    return SPLITS[split], index
