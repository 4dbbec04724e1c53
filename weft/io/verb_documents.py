"""What verbs print as JSON: the head of every document, and values that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping

from weft import __version__


def document(kind: str, seed: int | None, fields: Mapping[str, object]) -> dict[str, object]:
    """The document of a verb: the head they all carry, then its own fields, as JSON has them."""
    own = {key: finite(value) for key, value in fields.items()}
    return {"schema": f"weft/{kind}/1", "weft": __version__, "seed": seed, **own}


def finite(value: object) -> object:
    """The same value with every NaN and infinity replaced by None, and tuples by lists."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
