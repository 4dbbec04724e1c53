"""Workflows with transfers on unequal devices, against the best of five list schedulers."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks._oneshot.measure import Found, Wanted, Way, draws, polished, rules
from benchmarks._oneshot.page import Options, Part, Target, command, labels_of, mean, row_of, table
from benchmarks._oneshot.problems import Case
from weft.evaluation.report.blocks import Section, Text

SUITE = "workflows"
FIVE = ("heft", "cpop", "peft", "lookahead", "deft")
CCRS = ("0.1", "1", "5")
DEVICES = (8, 16, 32)
PER_SIZE = 10
DRAWS = (1, 16, 64, 256)
TIE = 1e-9


def ways(options: Options) -> list[Way]:
    """The five, then draws."""
    return [*rules(*FIVE), *draws(DRAWS, options.weights), polished(options.weights)]


def _wanted(options: Options) -> list[Wanted]:
    count = options.few(PER_SIZE)
    names = [(ccr, f"{ccr}/{devices}/{k}") for ccr in CCRS for devices in DEVICES for k in range(count)]
    return [(Case(SUITE, ccr, name), way) for ccr, name in names for way in ways(options)]


def ratios(found: Found, ccr: str, label: str) -> list[float]:
    """Makespan over that of the best of the five on the same problem."""
    rivals = [found.cell(SUITE, ccr, name) for name in FIVE]
    best = [min(row.makespan for _, row in rows) for rows in zip(*rivals, strict=True)]
    ours = [row.makespan for _, row in found.cell(SUITE, ccr, label)]
    return [one / least for one, least in zip(ours, best, strict=True)] if ours else []


def _share_below(values: Sequence[float]) -> float | None:
    return mean([100.0 * (value <= 1 + TIE) for value in values])


def _sections(options: Options, found: Found) -> list[Section]:
    labels = labels_of(ways(options))
    rows = [row_of(label, [mean(ratios(found, ccr, label)) for ccr in CCRS], 4) for label in labels]
    below = [_share_below(ratios(found, ccr, "S(256)")) for ccr in CCRS]
    rows.append(row_of("S(256) at or below the best of five, % of problems", below, 0))
    count = len(found.cell(SUITE, CCRS[0], "heft"))
    note = (
        f"Makespan over that of the best of {', '.join(FIVE)} on the same problem, mean over {count} problems per CCR: shapes that no training "
        "saw (block-model, mosaic), 60 tasks, 8, 16 and 32 devices. The five plan once; S(N) is the best of N draws, most with copies."
    )
    headers = ["CCR", *CCRS]
    return [Section("Workflows", (command("workflows"), Text((note,)), table(headers, rows)))]


def _targets(options: Options, found: Found) -> list[Target]:
    return [
        Target(
            f"workflows at CCR {ccr}, S(256) over the best of five",
            1.0,
            mean(ratios(found, ccr, "S(256)")),
            digits=3,
        )
        for ccr in CCRS
    ]


WORKFLOWS = Part(_wanted, _sections, _targets)
