"""Claims of a document as data, and the verdict that sweeps, runs and benchmarks allow on each."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Literal

from weft.errors import InputError
from weft.scenarios.settings import did_you_mean

SCHEMA = "weft/claims/1"
LEAST_SEEDS = 5
"""Training seeds that a claim which rests on training needs."""
Verdict = Literal["holds", "holds partly", "cannot be told", "does not hold", "not measured"]
_KEYS = (
    *("text", "where", "says", "measure", "unit", "at_least", "at_most", "of", "against", "at"),
    *("settings", "devices", "runs", "stand_in_runs", "samples", "column", "benchmark", "figure"),
)


@dataclass(frozen=True)
class Claim:
    """One sentence of a document, and what would make it true here."""

    text: str
    where: str
    """Where the document says it."""
    says: str
    """The document's figure, in its units."""
    measure: str
    unit: str = ""
    at_least: float = -math.inf
    at_most: float = math.inf
    of: str = ""
    """The role that is judged."""
    against: tuple[str, ...] = ()
    at: tuple[tuple[str, float], ...] = ()
    """Settings of the point that is meant; empty: every point."""
    settings: tuple[tuple[str, object], ...] = ()
    """Settings that the sweep has to have; by default those of the document."""
    devices: str = ""
    """Pattern of device names."""
    runs: tuple[str, ...] = ()
    """Patterns of the recipes whose runs are meant."""
    stand_in_runs: tuple[str, ...] = ()
    """Recipes whose runs will do where there are none of those."""
    samples: int = 0
    column: str = ""
    benchmark: str = ""
    figure: str = ""

    @property
    def condition(self) -> str:
        """What counts as holding, in words."""
        low = f"at least {self.at_least:g}" if math.isfinite(self.at_least) else ""
        high = f"at most {self.at_most:g}" if math.isfinite(self.at_most) else ""
        return f"{' and '.join(part for part in (low, high) if part)} {self.unit}".strip()


@dataclass(frozen=True)
class Claims:
    """All claims of one document about one scenario."""

    name: str
    title: str
    scenario: str
    document: str
    roles: Mapping[str, tuple[str, ...]]
    """Role -> patterns of scheduler names, the best first."""
    claims: tuple[Claim, ...]
    stand_ins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Role -> patterns of those who may play it where nobody of ``roles`` is there."""

    def number(self, claim: Claim) -> int:
        """Its place in the document, from 1, whichever claims are shown beside it."""
        return self.claims.index(claim) + 1


@dataclass(frozen=True)
class Point:
    """One measurement; the interval is the value itself where there is none."""

    label: str
    value: float
    low: float
    high: float

    def fits(self, claim: Claim) -> bool | None:
        """Whether it lies within the claim, interval and all; None: it cannot be told."""
        if claim.at_least <= self.low and self.high <= claim.at_most:
            return True
        if self.high < claim.at_least or self.low > claim.at_most:
            return False
        return None

    def shown(self, unit: str) -> str:
        """The value with unit, interval and place."""
        interval = f" ({self.low:.3g} to {self.high:.3g})" if self.low != self.high else ""
        where = f" at {self.label}" if self.label else ""
        value = f"{self.value:.3g} {unit}".strip() if math.isfinite(self.value) else "never"
        return f"{value}{interval}{where}"


@dataclass(frozen=True)
class Measured:
    """What was measured for a claim, on which sweep, and who played which part."""

    points: tuple[Point, ...]
    sweep: str = ""
    """Title of the sweep; empty where none was needed."""
    cast: Mapping[str, str] = field(default_factory=dict)
    """Role -> who plays it, in words."""
    few: str = ""
    """Which training seeds are fewer than a claim needs; empty where there are enough."""
    stand_in: str = ""
    """Who stands in for whom it is about; empty where it is measured on them."""


@dataclass(frozen=True)
class Judged:
    """A claim with what was measured."""

    claim: Claim
    found: Measured = Measured(())
    missing: str = ""
    """Why nothing was measured."""

    @property
    def points(self) -> tuple[Point, ...]:
        """The measurements; none where something is missing."""
        return self.found.points

    @property
    def remark(self) -> str:
        """The verdict, with a word where it rests on a stand-in or on too few training seeds."""
        stand_in = f"stand-in: {self.found.stand_in}" if self.found.stand_in else ""
        doubts = "; ".join(part for part in (stand_in, self.found.few) if part)
        return f"{self.verdict} ({doubts})" if doubts and self.points else self.verdict

    @property
    def verdict(self) -> Verdict:
        """All points within: holds; all outside: does not; some within: in part; else it cannot be told."""
        found = [point.fits(self.claim) for point in self.points]
        if not found:
            return "not measured"
        if all(one is True for one in found):
            return "holds"
        if all(one is False for one in found):
            return "does not hold"
        return "holds partly" if any(one is True for one in found) else "cannot be told"

    @property
    def measured(self) -> str:
        """The measurements in one line: the only one, or the smallest and the largest."""
        if not self.points:
            return self.missing
        order = sorted(self.points, key=lambda point: point.value)
        least, most = (point.shown(self.claim.unit) for point in (order[0], order[-1]))
        if len(order) == 1:
            return least
        num = sum(point.fits(self.claim) is True for point in self.points)
        return f"{least} to {most}; within the condition at {num} of {len(order)}"


def claim_names() -> tuple[str, ...]:
    """Names of the documents whose claims ship."""
    folder = resources.files("weft").joinpath("claims")
    return tuple(sorted(e.name.removesuffix(".toml") for e in folder.iterdir() if e.name.endswith(".toml")))


def read_claims(name: str) -> Claims:
    """The claims of one document by name."""
    if name not in claim_names():
        hint = did_you_mean(name, claim_names()) or f" (there are {', '.join(claim_names())})"
        raise InputError(f"no claims {name!r}{hint}", field="--claims")
    text = resources.files("weft").joinpath("claims", f"{name}.toml").read_text("utf-8")
    return parse_claims(text, name)


def parse_claims(text: str, file: str) -> Claims:
    """The claims of a TOML text."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"expected TOML: {error}", file=file) from None
    if document.get("schema") != SCHEMA:
        raise InputError(f"expected {SCHEMA!r}, got {document.get('schema')!r}", file=file, field="schema")
    entries = document.get("claim", [])
    usual = document.get("settings", {})
    return Claims(
        str(document.get("name", file)),
        str(document.get("title", file)),
        str(document.get("scenario", "")),
        str(document.get("document", "")),
        {role: tuple(patterns) for role, patterns in document.get("roles", {}).items()},
        tuple(_claim({"settings": usual} | entry, f"claim[{k}]", file) for k, entry in enumerate(entries)),
        {role: tuple(patterns) for role, patterns in document.get("stand_ins", {}).items()},
    )


def _claim(entry: Mapping[str, object], field: str, file: str) -> Claim:
    for key in entry:
        if key not in _KEYS:
            raise InputError(f"no key {key!r} in a claim{did_you_mean(key, _KEYS)}", file=file, field=field)
    for key in ("text", "where", "says", "measure"):
        if not isinstance(entry.get(key), str):
            raise InputError(f"expected a text, got {entry.get(key)!r}", file=file, field=f"{field}.{key}")
    values = {key: _plain(value) for key, value in entry.items()}
    return Claim(**values)  # type: ignore[arg-type]


def _plain(value: object) -> object:
    if isinstance(value, list):
        return tuple(value)
    return tuple(value.items()) if isinstance(value, dict) else value


def verdict_counts(judged: Sequence[Judged]) -> str:
    """``5 hold, 1 holds partly, ...``, in one line."""
    said = {
        "holds": ("holds", "hold"),
        "holds partly": ("holds partly", "hold partly"),
        "cannot be told": ("cannot be told", "cannot be told"),
        "does not hold": ("does not hold", "do not hold"),
        "not measured": ("not measured", "not measured"),
    }
    found = [(sum(one.verdict == verdict for one in judged), words) for verdict, words in said.items()]
    counts = ", ".join(f"{num} {one if num == 1 else several}" for num, (one, several) in found if num)
    few = sum(bool(one.points and one.found.few) for one in judged)
    others = sum(bool(one.points and one.found.stand_in) for one in judged)
    if few:
        counts += (
            f"; {few} of them {'rests' if few == 1 else 'rest'} on fewer than {LEAST_SEEDS} training seeds"
        )
    if others:
        counts += f"; {others} of them {'is' if others == 1 else 'are'} measured on a stand-in"
    return counts
