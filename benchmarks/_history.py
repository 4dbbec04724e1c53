"""The committed history of ratios, one JSON object per line, and the judge of its last entry."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from benchmarks._ratios import Ratio
from weft.errors import InputError

EARLIER = 3
"""Entries of a ratio before it is judged at all."""
DROPS = 3
"""Drops in a row that make a failure."""


@dataclass(frozen=True)
class Entry:
    """What one run of the benchmarks measured."""

    date: str
    commit: str
    machine: str
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    accepted: str = ""
    """Why its ratios are the new normal; empty: they are not."""

    def to_line(self) -> str:
        """One line of the history."""
        row = {"date": self.date, "commit": self.commit, "machine": self.machine}
        row |= {"accepted": self.accepted} if self.accepted else {}
        ratios = {name: asdict(ratio) for name, ratio in self.ratios.items()}
        return json.dumps(row | {"ratios": ratios}, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Verdict:
    """One ratio of the last entry against those before."""

    name: str
    value: float
    usual: float | None
    """Median of the entries before the present row of drops; None: too few to tell."""
    drops: int
    """Drops in a row, this one included."""

    @property
    def is_failed(self) -> bool:
        """Whether it has dropped too often to be chance."""
        return self.drops >= DROPS


def read_history(path: Path) -> list[Entry]:
    """All entries; none where there is no file yet."""
    if not path.exists():
        return []
    lines = path.read_text("utf-8").splitlines()
    return [_entry(line, str(path), number) for number, line in enumerate(lines, 1)]


def _entry(line: str, file: str, number: int) -> Entry:
    try:
        row = json.loads(line)
    except ValueError:
        raise InputError(f"expected a JSON object, got {line[:40]!r}", file=file, line=number) from None
    if not isinstance(row, dict):
        raise InputError(f"expected a JSON object, got {line[:40]!r}", file=file, line=number)
    texts = {key: row.get(key, "") for key in ("date", "commit", "machine", "accepted")}
    for key, value in texts.items():
        if not isinstance(value, str) or (not value and key != "accepted"):
            raise InputError(f"expected a text, got {value!r}", file=file, field=key, line=number)
    ratios = row.get("ratios")
    if not isinstance(ratios, dict):
        raise InputError(f"expected an object, got {ratios!r}", file=file, field="ratios", line=number)
    return Entry(**texts, ratios={name: _ratio(ratios[name], name, file, number) for name in ratios})


def _ratio(value: object, name: str, file: str, number: int) -> Ratio:
    parts = [value.get(key) for key in ("value", "share")] if isinstance(value, dict) else []
    if not parts or not all(type(part) in (int, float) and 0 < part < math.inf for part in parts):
        raise InputError(
            f"expected a value and a share > 0, got {json.dumps(value)}",
            file=file,
            field=f"ratios.{name}",
            line=number,
        )
    return Ratio(*parts)


def append(entry: Entry, path: Path) -> None:
    """Add one line at the end, also where the last one was left open."""
    before = path.read_bytes() if path.exists() else b""
    is_open = bool(before) and not before.endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(("\n" if is_open else "") + entry.to_line())


def judge(entries: Sequence[Entry]) -> list[Verdict]:
    """A verdict on every ratio of the last entry."""
    return [_verdict(name, entries) for name in entries[-1].ratios] if entries else []


def _verdict(name: str, entries: Sequence[Entry]) -> Verdict:
    """Walk through the entries that have the ratio; a row of drops joins the usual once it ends."""
    before: list[float] = []
    row: list[float] = []
    for entry in entries:
        ratio = entry.ratios.get(name)
        if ratio is None:
            continue
        if entry.accepted:
            before, row = [], []
        usual = median(before) if len(before) >= EARLIER else None
        if usual is not None and ratio.value < ratio.share * usual:
            row.append(ratio.value)
        else:
            before, row = [*before, *row, ratio.value], []
    return Verdict(name, entries[-1].ratios[name].value, usual, len(row))
