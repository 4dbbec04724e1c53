"""What is said of an option that takes a number and was given something else."""

from __future__ import annotations


def wrong_number(error: Exception) -> dict[str, str]:
    """The option as ``field``, what it expects and what came as ``message``; empty: the error is about something else."""
    option, details = getattr(error, "param", None), getattr(error.__cause__, "errors", None)
    kind = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    if option is None or details is None or kind not in (int, float, list[int], list[float]):
        return {}
    words = "a whole number" if kind in (int, list[int]) else "a number"
    expected, came = words + _limits(option.min, option.max), str(details()[0]["input"])
    return {"field": max(option.opts, key=len), "message": f"expected {expected}, got {came!r:.80}"}


def _limits(least: float | None, most: float | None) -> str:
    if least is None:
        return "" if most is None else f" <= {most}"
    return f" >= {least}" if most is None else f" from {least} to {most}"
