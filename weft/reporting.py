"""Sweeps, training runs and comparisons as one page: ``weft.report``.

Stands above ``evaluation`` and ``training``: a report says how a run differs from the recipe it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from weft.errors import InputError, expect, expect_each
from weft.evaluation import report as reports
from weft.evaluation.comparing import Around
from weft.io.verb_documents import document
from weft.scenarios.settings import did_you_mean
from weft.training.recipes import read_recipe, recipe_names

SUFFIXES = (".html", ".md")


@dataclass(frozen=True)
class Reported:
    """A report that was written."""

    out: tuple[Path, ...]
    """The page and its Markdown twin."""
    headline: tuple[str, ...]
    """What it says first."""

    def __str__(self) -> str:
        return "\n".join([*self.headline, f"wrote {', '.join(map(str, self.out))}"])

    def to_dict(self) -> dict[str, object]:
        """The document of ``weft report --json``."""
        return document("report", None, {"out": [str(path) for path in self.out], "headline": self.headline})


def report(
    sources: str | Path | Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    title: str = "",
    baseline: str | None = None,
    subject: str | None = None,
    instance: str | None = None,
    claims: str | None = None,
    charts: bool = True,
    command: str = "weft report",
    on_notice: Callable[[str], None] = lambda line: None,
    around: Around = nullcontext,
) -> Reported:
    """Write sweeps and training runs as one HTML page, with Markdown beside it.

    Parameters
    ----------
    sources
        Sweep folders, training runs, or JSON files of compare and bench.
    out
        The page, or a .md alone.
    baseline, subject
        Whom the others are compared with; whose losses are looked at.
    instance
        Which one is drawn, e.g. ``load=0.5 test/0 seed=3``.
    claims
        Judge the claims of this document.
    charts
        Whether plans are drawn.
    command
        What stands at the end of the page as the command that wrote it.
    on_notice, around
        Called with lines a person should see; with words for what takes long, to be open meanwhile.
    """
    expect(out, (str, Path), "a path that ends in .html or .md", "out")
    several = [sources] if isinstance(sources, str | Path) else sources
    expect_each(several, (str, Path), "folders or files to report on", "sources")
    if not several:
        raise InputError("expected folders or files to report on, got none", field="sources")
    path = Path(out)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"expected a path that ends in .html or .md, got {str(out)!r}", field="out")
    chosen = reports.Options(title, baseline, subject, instance, charts, claims, command)
    with around("reading"):
        found = reports.gather(several, baseline, _recipe_of)
    _check_subject(subject, [name for swept in found.sweeps for name in swept.schedulers])
    with around(f"writing {out}"):
        made = reports.build(found, chosen, on_notice)
        return Reported(tuple(reports.write(made, path)), tuple(made.headline))


def _recipe_of(name: str) -> dict[str, object]:
    """A built-in training recipe with all its defaults; empty for another."""
    return read_recipe(name).to_dict() if name in recipe_names() else {}


def _check_subject(subject: str | None, names: list[str]) -> None:
    if subject is not None and subject not in names:
        known = ", ".join(dict.fromkeys(names))
        raise InputError(
            f"expected one of {known}, got {subject!r}{did_you_mean(subject, names)}", field="subject"
        )
