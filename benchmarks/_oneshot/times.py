"""What a plan costs: processor time and memory, as a ratio to the critical-path rule, and in many rounds."""

from __future__ import annotations

from benchmarks._oneshot import graphs, queries, shops
from benchmarks._oneshot.measure import ROUNDS, Found, Wanted, Way, draws, rules
from benchmarks._oneshot.page import (
    Options,
    Part,
    Target,
    cell_mean,
    cell_time,
    command,
    gap,
    known_gap,
    no_targets,
    number,
    table,
)
from benchmarks._oneshot.problems import Case
from benchmarks._oneshot.record import Measured
from weft.evaluation.report.blocks import Code, Section, Text

SUITE = "times"
SECONDS = {"15x15": 0.06, "100x20": 0.5}
"""Targets for the encoder and 256 draws."""
LARGE, LARGE_SECONDS, LARGE_GIB = "10000", 5.0, 2.0
REPEATS = 3
ROUND_SHOPS = ("15x15", "20x20")
ROUND_KINDS, ROUND_TASKS, PER_GROUP = ("layered", "er", "sbm"), 200, 10
ROUND_LABELS = {"rounds": "a pass per start", "rounds-10": "a pass per ten starts"}


def _wanted(options: Options) -> list[Wanted]:
    large = Case(SUITE, LARGE, LARGE)
    shown = [] if options.is_quick else [(large, way) for way in draws((1,), options.weights, REPEATS)]
    ways = [Way("cp", "cp", repeats=REPEATS), *draws((1, 256), options.weights, REPEATS)]
    sizes = list(SECONDS)[: options.few(2)]
    return [*shown, *((Case(SUITE, size, size), way) for size in sizes for way in ways)]


def _peak(case: Case, row: Measured) -> float:
    return row.peak_gib


def _sections(options: Options, found: Found) -> list[Section]:
    rows = []
    for size in (*SECONDS, LARGE):
        cells = [cell_time(found, SUITE, size, label) for label in ("cp", "greedy", "S(256)")]
        peak = cell_mean(found, SUITE, size, "greedy", _peak) if size == LARGE else None
        rows.append((_sized(size), *(number(cell, 4) for cell in cells), number(peak, 2)))
    note = (
        f"Processor seconds, the least of {REPEATS}, in a process of its own. The last row has transfers: 16 devices, layered; "
        "its peak memory is that of the whole process."
    )
    headers = ["problem", "cp", "greedy", "S(256)", "peak, GiB"]
    shown = Code(("python -m benchmarks oneshot --part times",))
    return [
        Section("Time and memory", (shown, Text((note,)), table(headers, rows))),
        *_ratio_section(found),
    ]


def _sized(size: str) -> str:
    return f"{int(size):,} tasks" if size == LARGE else f"job shop {size}"


def _ratio_section(found: Found) -> list[Section]:
    """Time over that of the critical-path rule, from the rows of the other parts."""
    places = [(shops.TAILLARD, group) for group in ("15x15", "20x20", "30x20", "50x20", "100x20")]
    places += [(shops.PAPER, "25x10"), (shops.PAPER, "50x20")]
    places += [(queries.SUITE, group) for group in queries.MIXES]
    places += [(graphs.GRAPHS, f"{kind}/{size}") for size in (500, 1000) for kind in ("layered", "er", "sbm")]
    rows = []
    for suite, group in places:
        labels = ("cp", "greedy", "S(16)", "S(64)", "S(256)")
        spent = [cell_time(found, suite, group, label) for label in labels]
        if spent[0] and spent[1]:
            times = [None if value is None else value / spent[0] for value in spent[1:]]
            rows.append((f"{suite} {group}", number(1e3 * spent[0], 2), *(number(one, 0) for one in times)))
    if not rows:
        return []
    headers = ["problems", "cp, ms", "greedy", "S(16)", "S(64)", "S(256)"]
    note = "Median processor time as a multiple of that of the rule cp on the same problems, from the rows of the tables above."
    return [Section("Time against the critical-path rule", (Text((note,)), table(headers, rows)))]


def _targets(options: Options, found: Found) -> list[Target]:
    shown = [
        Target(
            f"encoder and 256 draws, job shop {size}",
            limit,
            cell_time(found, SUITE, size, "S(256)"),
            " s",
            digits=2,
        )
        for size, limit in SECONDS.items()
    ]
    seconds = cell_time(found, SUITE, LARGE, "greedy")
    peak = cell_mean(found, SUITE, LARGE, "greedy", _peak)
    return [
        *shown,
        Target("10,000 tasks, greedy", LARGE_SECONDS, seconds, " s", digits=1),
        Target("10,000 tasks, greedy, peak memory", LARGE_GIB, peak, " GiB", digits=1),
    ]


# -- many rounds ----------------------------------------------------------------------------------


def _round_cases(options: Options) -> list[Case]:
    known = [case for case in shops.cases(shops.TAILLARD, options) if case.group in ROUND_SHOPS]
    made = [
        Case(graphs.GRAPHS, f"{kind}/{ROUND_TASKS}", f"{kind}/{ROUND_TASKS}/{k}")
        for kind in ROUND_KINDS[: options.few(3)]
        for k in range(options.few(PER_GROUP))
    ]
    return [*known, *made]


def _round_ways(options: Options) -> list[Way]:
    looking = [Way(ROUND_LABELS[name], name, weights=options.weights) for name in ROUNDS]
    return [*rules("cp"), *draws((1, 64), options.weights), *looking]


def _rounds_wanted(options: Options) -> list[Wanted]:
    return [(case, way) for case in _round_cases(options) for way in _round_ways(options)]


def _rounds_sections(options: Options, found: Found) -> list[Section]:
    labels = [way.label for way in _round_ways(options)][1:]
    rows = []
    for suite, group in dict.fromkeys((case.suite, case.group) for case in _round_cases(options)):
        value = known_gap if suite == shops.TAILLARD else gap
        cells = []
        for label in labels:
            above = cell_mean(found, suite, group, label, value)
            spent = cell_time(found, suite, group, label)
            cells.append(f"{number(above, 2)} %, {number(None if spent is None else 1e3 * spent, 1)} ms")
        rows.append((f"{suite} {group}", *cells))
    note = (
        "The same nets in many rounds: the encoder sees what is left before every start for which tasks compete, or before every "
        f"tenth. Mean gap to the best known makespan (taillard) or to the lower bound (graphs of {ROUND_TASKS} tasks), and median processor time. "
        "The nets were trained on whole problems, never on what is left of one."
    )
    body = (command("rounds"), Text((note,)), table(["problems", *labels], rows))
    return [Section("What one pass saves and costs", body)]


TIMES = Part(_wanted, _sections, _targets)
MANY_ROUNDS = Part(_rounds_wanted, _rounds_sections, no_targets)
