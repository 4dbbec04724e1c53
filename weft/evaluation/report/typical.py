"""The section on all samples of a sweep: how often close to the best, and typical differences."""

from __future__ import annotations

import numpy as np

from weft.evaluation.report.blocks import Block, Figure, Section, Table, Text
from weft.evaluation.report.svg import Axes, Series, line_chart
from weft.evaluation.report.words import samples_in_all
from weft.evaluation.statistics import (
    PairedAggregates,
    PairedDifferences,
    PerformanceProfile,
    performance_profile,
)
from weft.evaluation.sweep.aggregates import NO_PROFILE, WITHIN, in_percent, profile_shares
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.scales import in_brackets
from weft.model.graph import Floats

MOST_STEPS = 400
"""Points of a profile that is drawn."""


def profiles(swept: Evaluation) -> Section | None:
    """How often each scheduler is within a percentage of the best, and how it typically compares."""
    if len(swept.schedulers) < 2 or swept.num_samples < 2:
        return None
    if swept.deciding.may_be_zero:
        return Section(f"{swept.title}: typical differences", (*_typical(swept), Text((NO_PROFILE,))))
    blocks: list[Block] = [_drawn(swept), _shares(swept), *_typical(swept)]
    return Section(f"{swept.title}: how often close to the best", tuple(blocks))


def _drawn(swept: Evaluation) -> Figure:
    found = _profile(np.stack([swept.pooled(name) for name in swept.schedulers], axis=1))
    series = [
        Series(swept.shown(name), 100.0 * (found.taus - 1.0), 100.0 * found.shares[k], look=swept.look(name))
        for k, name in enumerate(swept.schedulers)
    ]
    axes = Axes("within this many % of the best", "share of samples (%)", y_range=(0.0, 104.0))
    caption = (
        f"Performance profile over {samples_in_all(swept)}: how often a scheduler is within a percentage "
        "of the best one there. Higher and further left is better."
    )
    return Figure(line_chart(series, axes, is_step=True, has_marks=False), caption, "Performance profile")


def _shares(swept: Evaluation) -> Table:
    shares = profile_shares({name: swept.pooled(name)[None] for name in swept.schedulers})
    rows = tuple(
        (swept.shown(name), *(f"{share:.0f} %" for share in shares[name].values()))
        for name in swept.schedulers
    )
    headers = ("scheduler", "best", *(f"within {p:g} %" for p in WITHIN[1:]))
    return Table(headers, rows, tuple(range(1, len(headers))), "Share of samples")


def _profile(costs: Floats) -> PerformanceProfile:
    """The profile up to where nearly all is said; every step of it, or a grid where there are too many."""
    whole = performance_profile(costs)
    most = max(1.01, float(np.quantile(whole.ratios, 0.98)))
    steps = np.append(whole.taus[whole.taus < most], most)
    return performance_profile(
        costs, steps if len(steps) <= MOST_STEPS else np.linspace(1.0, most, MOST_STEPS)
    )


def _typical(swept: Evaluation) -> list[Block]:
    """Interquartile mean, median and probability of improvement against the baseline."""
    found = [(swept.shown(one.scheduler), one.against) for one in swept.aggregates]
    rows = [_row(name, against) for name, against in found if against is not None]
    if not rows:
        return []
    base = swept.shown(swept.baseline)
    stated, what = in_brackets(swept.deciding), "differences" if swept.deciding.may_be_zero else "ratios"
    headers = ("scheduler", f"interquartile mean{stated}", f"median{stated}", f"below {base} (% of samples)")
    caption = f"Typical difference to {base} over all samples and points, with 95 % intervals"
    text = (
        f"The interquartile mean leaves out the lowest and the highest quarter of all {what}. The last column is the "
        "probability of improvement: how often the scheduler is below the baseline on the same sample, a tie counting "
        "half. Intervals are by bootstrap over samples, each with all its points, and over training seeds where there are several; they are widened for few."
    )
    return [Table(headers, tuple(rows), (1, 2, 3), caption), Text((text,))]


def _row(name: str, found: PairedAggregates | PairedDifferences) -> tuple[str, ...]:
    typical = (in_percent(found.iqm), in_percent(found.median))
    return (name, *typical, in_percent(found.improvement_percent, 0, ""))
