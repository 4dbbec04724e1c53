"""Quantities with units: bytes, bytes per second, seconds. MB is 10^6 bytes, MiB is 2^20."""

from __future__ import annotations

import math
import re

from weft.model.units import SECONDS

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s].*?)?\s*", re.ASCII)

_BYTES = {
    "B": 1.0,
    **{f"{prefix}B": 1e3**power for power, prefix in enumerate("kMGTP", 1)},
    "KB": 1e3,
    **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGTP", 1)},
    "kiB": 1024.0,
}
_BITS = {"bit": 0.125, **{f"{prefix}bit": 0.125 * 1e3**power for power, prefix in enumerate("kMGT", 1)}}
_SMALL = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3}
_SECONDS = {**_SMALL, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_RATES = {f"{unit}/s": factor for unit, factor in (_BYTES | _BITS).items()}


def parse_bytes(value: object) -> float:
    """Bytes from ``"16 GB"``, ``"16 GiB"``, a plain number, or ``"infinite"``; must be > 0."""
    return _parse(value, _BYTES, "a size such as '16 GB' or a number of bytes", low=0.0, infinite=True)


def parse_size(value: object) -> float:
    """Bytes that a task or an edge has: ``"16 GB"`` or a plain number; must be >= 0 and finite."""
    return _parse(value, _BYTES, "a size such as '16 GB' or a number of bytes", low=-0.0, infinite=False)


def parse_bandwidth(value: object) -> float:
    """Bytes per second from ``"1 GB/s"``, ``"10 Gbit/s"``, a plain number, or ``"infinite"``; must be > 0."""
    expected = "a bandwidth such as '1 GB/s', '10 Gbit/s' or a number of bytes per second"
    return _parse(value, _RATES, expected, low=0.0, infinite=True)


def parse_seconds(value: object) -> float:
    """Seconds from ``"10 us"``, ``"5 ms"`` or a plain number; must be >= 0."""
    return _parse(value, _SECONDS, "a time such as '10 us' or a number of seconds", low=-0.0, infinite=False)


def parse_time(value: object, unit: str = "s") -> float:
    """Time in ``unit`` from ``"5 min"``, ``"300 ms"`` or a plain number of that unit; must be >= 0."""
    units = {name: seconds / SECONDS[unit] for name, seconds in _SECONDS.items()}
    plain = "a number of seconds" if unit == "s" else f"a number in {unit!r}"
    return _parse(value, units, f"a time such as '5 min' or '300 ms', or {plain}", low=-0.0, infinite=False)


def _parse(value: object, units: dict[str, float], expected: str, *, low: float, infinite: bool) -> float:
    """ValueError with one line unless the value is a quantity above ``low`` (-0.0: from 0 on)."""
    if infinite and value == "infinite":
        return math.inf
    number = _scaled(value, units, expected)
    is_low = number < 0 or (number == 0 and math.copysign(1.0, low) > 0)
    if is_low or not math.isfinite(number):
        raise ValueError(f"expected {expected}, got {value!r}")
    return number


def _scaled(value: object, units: dict[str, float], expected: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"expected {expected}, got a number that is too large") from None
    found = _NUMBER.fullmatch(value) if isinstance(value, str) and len(value) < 100 else None
    if found is None:
        raise ValueError(f"expected {expected}, got {str(value)[:60]!r}")
    number, unit = found.groups()
    if unit not in units:
        raise ValueError(f"expected {expected}, got {value!r}{_hint(unit)}")
    return float(number) * units[unit]


def _hint(unit: str | None) -> str:
    if unit is None:
        return " without a unit"
    if re.fullmatch(r"[kKMGTP]?b(/s|ps)", unit):
        prefix = unit[0] if unit[0] != "b" else ""
        return f": write {prefix}B/s for bytes or {prefix}bit/s for bits"
    return f" with the unknown unit {unit!r}"
