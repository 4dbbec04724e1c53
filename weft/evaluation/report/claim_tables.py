"""The sections on claims: each with the document's figure, weft's, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from weft.evaluation.report.blocks import Block, Section, Table, Text
from weft.evaluation.report.claims import LEAST_SEEDS, Claims, Judged

_FITS = {True: "yes", False: "no", None: "cannot be told"}


def claim_sections(claims: Claims, judged: Sequence[Judged], roles: Mapping[str, str]) -> list[Section]:
    """A table of all claims, and one of the points of those that were measured at several.

    Parameters
    ----------
    roles
        Who plays which part of the document.
    """
    has_sweeps = len({one.found.sweep for one in judged if one.found.sweep}) > 1
    rows = tuple(
        (
            str(claims.number(one.claim)),
            one.claim.text,
            one.claim.where,
            one.claim.says,
            one.measured,
            *((one.found.sweep or "-",) if has_sweeps else ()),
            one.claim.condition,
            one.remark,
        )
        for one in judged
    )
    on = ("on the sweep",) if has_sweeps else ()
    headers = ("", "claim", "where", "the document", "weft measured", *on, "holds if", "verdict")
    strong = tuple((r, len(headers) - 1) for r in range(len(rows)))
    blocks: list[Block] = [
        Text((f"The document: {claims.document}.", *_cast(roles), _reading(judged))),
        Table(headers, rows, strong=strong),
    ]
    sections = [Section(f"{claims.title}: claims and verdicts", tuple(blocks))]
    details = _details(claims, judged)
    return [*sections, details] if details is not None else sections


def _cast(roles: Mapping[str, str]) -> list[str]:
    parts = [f"{role} is {name}" for role, name in roles.items()]
    return [f"Who plays which part here: {', '.join(parts)}."] if parts else []


def _reading(judged: Sequence[Judged]) -> str:
    return (
        "A verdict is computed: a claim holds if every measurement lies within its condition, 95 % interval and "
        "all; it does not hold if every one lies outside; it holds partly if some lie within; else it cannot be told. "
        "Where a claim has several "
        "points, their intervals are widened so that all of them hold at once with 95 % (Bonferroni). Where a policy "
        "was trained with several seeds, intervals are over training seeds and evaluation seeds. A verdict that "
        f"rests on fewer than {LEAST_SEEDS} training seeds says so: it is about these policies, not about training. One that is measured on another policy than the claim is about says stand-in. "
        f"Not measured says what is missing. {sum(bool(one.points) for one in judged)} of {len(judged)} were measured."
    )


def _details(claims: Claims, judged: Sequence[Judged]) -> Section | None:
    rows = tuple(
        (
            str(claims.number(one.claim)),
            point.label,
            f"{point.value:.3g}" if math.isfinite(point.value) else "never",
            _interval(point.low, point.high),
            one.claim.unit,
            _FITS[point.fits(one.claim)],
        )
        for one in judged
        if len(one.points) > 1
        for point in one.points
    )
    if not rows:
        return None
    headers = (
        "claim",
        "point",
        "measured",
        "95 % interval, all points together",
        "unit",
        "within the condition",
    )
    return Section("Claims, point by point", (Table(headers, rows, (2, 3)),), level=3)


def _interval(low: float, high: float) -> str:
    return "-" if low == high else f"{low:.3g} to {high:.3g}"
