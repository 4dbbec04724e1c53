"""The sections on claims: each with the document's figure, weft's, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from weft.evaluation.report.blocks import Block, Section, Table, Text
from weft.evaluation.report.claims import Claims, Judged

_FITS = {True: "yes", False: "no", None: "cannot be told"}


def claim_sections(claims: Claims, judged: Sequence[Judged], roles: Mapping[str, str]) -> list[Section]:
    """A table of all claims, and one of the points of those that were measured at several.

    Parameters
    ----------
    roles
        Who plays which part of the document.
    """
    rows = tuple(
        (
            str(number),
            one.claim.text,
            one.claim.where,
            one.claim.says,
            one.measured,
            one.claim.condition,
            one.verdict,
        )
        for number, one in enumerate(judged, 1)
    )
    headers = ("", "claim", "where", "the document", "weft measured", "holds if", "verdict")
    strong = tuple((r, 6) for r in range(len(rows)))
    blocks: list[Block] = [
        Text((f"The document: {claims.document}.", *_cast(roles), _reading(judged))),
        Table(headers, rows, strong=strong),
    ]
    sections = [Section(f"{claims.title}: claims and verdicts", tuple(blocks))]
    details = _details(judged)
    return [*sections, details] if details is not None else sections


def _cast(roles: Mapping[str, str]) -> list[str]:
    parts = [f"{role} is {name}" for role, name in roles.items()]
    return [f"Who plays which part here: {', '.join(parts)}."] if parts else []


def _reading(judged: Sequence[Judged]) -> str:
    return (
        "A verdict is computed: a claim holds if every measurement lies within its condition, 95 % interval and "
        "all; it does not hold if every one lies outside; it holds partly in between. Not measured says what is "
        f"missing. {sum(bool(one.points) for one in judged)} of {len(judged)} were measured."
    )


def _details(judged: Sequence[Judged]) -> Section | None:
    rows = tuple(
        (
            str(number),
            point.label,
            f"{point.value:.3g}" if math.isfinite(point.value) else "never",
            _interval(point.low, point.high),
            one.claim.unit,
            _FITS[point.fits(one.claim)],
        )
        for number, one in enumerate(judged, 1)
        if len(one.points) > 1
        for point in one.points
    )
    if not rows:
        return None
    headers = ("claim", "point", "measured", "95 % interval", "unit", "within the condition")
    return Section("Claims, point by point", (Table(headers, rows, (2, 3)),), level=3)


def _interval(low: float, high: float) -> str:
    return "-" if low == high else f"{low:.3g} to {high:.3g}"
