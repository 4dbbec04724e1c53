"""The elastic problem of a scenario."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.errors import InputError
from weft.model.elastic import ElasticProblem, insensitive, saturating

_KNOWN: dict[str, tuple[int, float, float, str]] = {
    "edge-single": (3, 2.0, 0.1, "single"),
    "edge-multi": (3, 3.0, 0.0, "multi"),
    "edge-hetero": (6, 6.0, 0.0, "multi"),
    "edge-pointer": (3, 3.0, 0.0, "multi"),
}


def problem_of(name: str, settings: Mapping[str, object]) -> ElasticProblem:
    """The problem of a scenario with these settings."""
    if name not in _KNOWN:
        raise InputError(f"expected one of {', '.join(_KNOWN)}, got {name!r}", field="scenario")
    clusters, rate, noise, stepping = _KNOWN[name]
    n = int(settings.get("clusters", clusters))  # type: ignore[call-overload]
    rate = float(settings.get("arrival_rate", rate * n / clusters))  # type: ignore[arg-type]
    tasks = int(settings.get("tasks", 64 * n))  # type: ignore[call-overload]
    capacity = [[16, 16]] * n
    if name == "edge-hetero":
        capacity = [[4, 4], [8, 8], [12, 12], [16, 16], [24, 24], [32, 32]]
    img = insensitive("img", (2, 1), (16, 16), 0.25, noise)
    lm = saturating("lm", (2, 1), (16, 16), 1, 16.0, noise)
    if name == "edge-pointer":
        img, lm = (insensitive(k, (3, 3), (16, 16), g) for k, g in (("short", 1.0), ("long", 0.1)))
    return ElasticProblem(
        np.array(capacity),
        (img, lm),
        tasks,
        rate,
        switching=0.5 if noise else 1.0,
        stepping=stepping,
        conflicts=str(settings.get("conflicts", "softmax")),
    )
