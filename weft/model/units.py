"""The units a graph may count its time in. Links of a cluster are always in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SECONDS: Mapping[str, float] = MappingProxyType(
    {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0, "unit": 1.0}
)
"""Seconds per unit of time; ``unit`` is for graphs whose times have none, and counts as a second."""
