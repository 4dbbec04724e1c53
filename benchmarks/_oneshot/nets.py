"""Which nets a page is about: what each was trained on, from its card."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks._oneshot.page import NOTHING, Options
from weft.catalog import policy_file
from weft.evaluation.report.blocks import Section, Table, Text
from weft.policies.oneshot.planner import load

SHIPPED = ("jobshop-oneshot", "graphs-oneshot", "pools-oneshot", "workflows-oneshot")


def section(options: Options) -> Section:
    """A table of the nets that ship, or of the one that was given."""
    names = [options.weights] if options.weights else [policy_file(name) or "" for name in SHIPPED]
    rows = []
    for name in names:
        card = load(name).card
        told = card.training
        recipe = told.get("recipe")
        sources = recipe.get("source", []) if isinstance(recipe, dict) else []
        words = "; ".join(_source(source) for source in sources if isinstance(source, dict))
        figures = [str(told.get(key, NOTHING)) for key in ("update", "samples", "seed", "command")]
        rows.append((card.name, card.sha256[:12], words or NOTHING, *figures))
    headers = ("net", "weights", "trained on", "updates", "draws", "seed", "how")
    note = "As their cards say; the problems below are of other splits or other sets."
    return Section("The nets", (Text((note,)), Table(headers, tuple(rows), (3, 4, 5))))


def _source(source: Mapping[str, object]) -> str:
    """A source of problems in few words."""
    sizes = source.get("sizes")
    names = ["x".join(map(str, size)) for size in sizes] if isinstance(sizes, list) else []
    families = source.get("families")
    kinds = f" ({', '.join(map(str, families))})" if isinstance(families, list) and families else ""
    return f"{source.get('generator')}{kinds} of {', '.join(names)}"
