"""The sections that draw schedules: one instance side by side, and the instances that were lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from weft.errors import InputError, WeftError
from weft.evaluation.report.blocks import Block, Section, Table, Text
from weft.evaluation.report.replay import draw
from weft.evaluation.report.replay_clusters import draw_clusters
from weft.evaluation.report.words import count, losses, quantity, words
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.pairing import Sample
from weft.evaluation.sweep.standing import standing
from weft.kinds import ELASTIC, TASKS

MOST_PANELS = 3
MOST_NAMED = 10
"""Lost instances in the table."""
MOST_DRAWN = 2
"""Lost instances with a chart."""

Notice = Callable[[str], None]


def side_by_side(swept: Evaluation, chosen: str, wanted: str | None, notice: Notice) -> Section | None:
    """One instance under the chosen scheduler and its closest rivals: the one wanted, if it is here."""
    if swept.asked is None:
        return None
    named = None if wanted is None else find_instance(swept, wanted)
    if swept.kind is TASKS and named is None:  # nothing would be drawn
        return None
    cell, sample = named or typical(swept, chosen)
    names = _rivals(swept, chosen)
    notice(f"drawing {swept.title}: {where_is(cell, sample)}")
    why = "asked for" if named is not None else "the sample closest to the middle of the sweep"
    lead = Text((f"{where_is(cell, sample)} ({why}), all on one time axis.",))
    return Section(f"{swept.title}: side by side", (lead, *_drawn(swept, cell, sample, names, "middle")))


def where_is(cell: str, sample: Sample) -> str:
    """A sample in words, with its cell."""
    return ", ".join(part for part in (cell, str(sample)) if part)


def _rivals(swept: Evaluation, chosen: str) -> tuple[str, ...]:
    """The chosen one, the best of the others, the baseline, and whoever comes next."""
    place = standing(swept)
    order = [chosen, place.winner, *(name for name, _ in place.others[:1]), swept.baseline, *swept.schedulers]
    return tuple(dict.fromkeys(order))[:MOST_PANELS]


def typical(swept: Evaluation, chosen: str) -> tuple[str, Sample]:
    """In the middle cell, the sample whose cost is nearest the median one."""
    cell = swept.cells[len(swept.cells) // 2].label
    costs = swept.costs(cell, chosen)
    return cell, swept.samples[cell][int(np.argmin(np.abs(costs - np.median(costs))))]


def check_instance(sweeps: Sequence[Evaluation], wanted: str | None) -> None:
    """Refuse an instance that no sweep has."""
    kept = [swept for swept in sweeps if swept.asked is not None]
    if wanted is None or not kept or any(find_instance(swept, wanted) for swept in kept):
        return
    first = kept[0].cells[0].label
    example = " ".join(part for part in (first, kept[0].samples[first][0].problem) if part)
    raise InputError(
        f"expected an instance of the sweep such as {example!r} or 'seed=1', got {wanted!r}",
        field="--instance",
    )


def find_instance(swept: Evaluation, wanted: str) -> tuple[str, Sample] | None:
    """The first sample, with its cell, that has all the words asked for; commas and spaces part words."""
    parts = _split(wanted)
    for cell in swept.cells:
        for sample in swept.samples[cell.label]:
            known = _split(f"{cell.label} {sample.problem} seed={sample.seed}")
            if all(part in known for part in parts):
                return cell.label, sample
    return None


def _split(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _drawn(
    swept: Evaluation, cell: str, sample: Sample, names: tuple[str, ...], at: str
) -> tuple[Block, ...]:
    """The chart; where it cannot be made again, the reason."""
    try:
        chosen = tuple(swept.runs_of(name)[0] for name in names)
        if swept.kind is ELASTIC:
            return (draw_clusters(swept, cell, sample, chosen),)
        return (draw(swept, cell, sample, chosen, at=at),)
    except WeftError as error:
        return (Text((f"Not drawn: {error}.",)),)


def lost(swept: Evaluation, chosen: str, notice: Notice) -> Section | None:
    """The samples on which the chosen scheduler is furthest behind the best of the others."""
    found = losses(swept, chosen)
    if not found:
        return None
    name = swept.shown(chosen)
    beaten = [loss for loss in found if loss.behind > 1e-7]
    title = f"{swept.title}: where {name} loses"
    if not beaten:
        where = "on the only sample" if len(found) == 1 else f"on each of {count(len(found), 'sample')}"
        return Section(title, (Text((f"{name} is the best {where}.",)),))
    rows = tuple(
        (
            loss.cell or "all",
            loss.sample.problem,
            str(loss.sample.seed),
            f"{loss.cost:.5g}",
            swept.shown(loss.rival),
            f"{loss.rival_cost:.5g}",
            f"+{loss.shown}",
        )
        for loss in beaten[:MOST_NAMED]
    )
    headers = (
        "point",
        "problem",
        "seed",
        f"{name}: {quantity(swept, swept.metric)}",
        "best other",
        "its value",
        "loss",
    )
    caption = (
        f"The {'sample' if len(rows) == 1 else count(len(rows), 'sample')} on which {name} is furthest above the best of the others "
        f"by {words(swept.metric)}; it loses on {len(beaten)} of {len(found)}."
    )
    blocks: list[Block] = [Table(headers, rows, (2, 3, 5, 6), caption)]
    if swept.asked is not None and swept.kind is not TASKS:
        for loss in beaten[:MOST_DRAWN]:
            notice(f"drawing {swept.title}: {where_is(loss.cell, loss.sample)}")
            drawn = _drawn(swept, loss.cell, loss.sample, (chosen, loss.rival), "loss")
            blocks += [block for block in drawn if block not in blocks]  # a reason is given once
    return Section(title, tuple(blocks))
