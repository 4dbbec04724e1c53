"""Mixes of TPC-H queries on one pool of slots, from a folder the user names."""

from __future__ import annotations

import math

from benchmarks._oneshot.measure import Found, Wanted, Way, draws, polished, rules
from benchmarks._oneshot.page import (
    PUBLISHED,
    Options,
    Part,
    Target,
    bound,
    cell_mean,
    command,
    gap,
    grid,
    labels_of,
    makespan,
    published,
    published_rows,
    row_of,
    table,
    time_grid,
)
from benchmarks._oneshot.problems import Case, suite
from weft.evaluation.report.blocks import Section, Text

SUITE = "tpch"
RULES = ("cp", "cp-wait", "cp-area")
DRAWS = (1, 16, 64, 256)
MIXES = {"50": 50, "100": 50, "150": 50}
"""Mixes measured of each size."""
TARGET = "S(64)"
WITHIN = 2.0


def ways(options: Options) -> list[Way]:
    """Rules, draws, draws with search."""
    return [*rules(*RULES), *draws(DRAWS, options.weights), polished(options.weights)]


def cases(options: Options) -> list[Case]:
    """The first mixes of each size; those of a file of training sets, where there are several files."""
    found = []
    for name in suite(SUITE, options.data).names:
        label, _, index = name.partition("/")
        group = label.removeprefix("train-")
        if group in MIXES and int(index) < options.few(MIXES[group], int(group == "50")):
            found.append(Case(SUITE, group, name, options.data))
    return found


def _wanted(options: Options) -> list[Wanted]:
    if not options.data:
        return []
    return [(case, way) for case in cases(options) for way in ways(options)]


def _sections(options: Options, found: Found) -> list[Section]:
    if not options.data:
        return [
            Section("Query mixes", (Text(("Not measured: no folder of mixes was given (--data DIR).",)),))
        ]
    groups, labels = published()["queries"]["groups"], labels_of(ways(options))
    compared = _study_gaps()
    for label in labels:
        values = [_gap_of_means(found, group, label) for group in groups]
        compared.append(row_of(label, values, 2))
    single = grid(found, SUITE, groups, labels, gap, 2)
    times = published_rows("queries", "seconds", 3) + time_grid(found, SUITE, groups, labels, 3)
    counts = ", ".join(f"{len(found.cell(SUITE, g, 'greedy'))} of {g} queries" for g in groups)
    note = (
        f"Training instances of the study's sets, none trained on here: {counts}; 6,000 slots. Its rows are for ten other mixes "
        f"per size ({published()['queries']['source']}), so only gaps to the bound can be compared, each to its own."
    )
    headers = ["mean makespan above mean bound, %", *groups]
    return [
        Section(
            "Query mixes",
            (
                command("queries", _bench(), needs=" --data DIR"),
                Text((note,)),
                table(headers, compared),
                table(["mean of the gaps, %", *groups], single),
                table(["median seconds per mix", *groups], times),
            ),
        )
    ]


def _bench() -> str:
    return "weft bench tpch --data DIR --scheduler oneshot --samples 64"


def _study_gaps() -> list[tuple[str, ...]]:
    bounds = published()["queries"]["bound"]
    return [
        row_of(
            PUBLISHED + row["name"],
            [100 * (m / b - 1) for m, b in zip(row["makespan"], bounds, strict=True)],
            2,
        )
        for row in published()["queries"]["row"]
    ]


def _gap_of_means(found: Found, group: str, label: str) -> float:
    ends = cell_mean(found, SUITE, group, label, makespan)
    least = cell_mean(found, SUITE, group, label, bound)
    return math.nan if ends is None or least is None else 100.0 * (ends / least - 1.0)


def _targets(options: Options, found: Found) -> list[Target]:
    means = {label: cell_mean(found, SUITE, "50", label, makespan) for label in (*RULES[:2], TARGET)}
    rivals = [value for label, value in means.items() if label != TARGET and value is not None]
    what = "query mixes of 50"
    return [
        Target(
            f"{what}, mean gap of {TARGET} to the bound",
            WITHIN,
            cell_mean(found, SUITE, "50", TARGET, gap),
            " %",
        ),
        Target(
            f"{what}, mean makespan of {TARGET}, against the better of cp and cp-wait",
            min(rivals) if rivals else math.nan,
            means[TARGET],
            is_strict=True,
        ),
    ]


QUERIES = Part(_wanted, _sections, _targets)
