"""Job shops: the study's own test sets, and Taillard's."""

from __future__ import annotations

from benchmarks._oneshot.measure import Found, Wanted, Way, draws, polished, rules
from benchmarks._oneshot.page import (
    Options,
    Part,
    Target,
    bound,
    cell_mean,
    command,
    grid,
    known_gap,
    labels_of,
    makespan,
    number,
    published,
    published_rows,
    row_of,
    table,
    time_grid,
    total_mean,
)
from benchmarks._oneshot.problems import Case, suite
from weft.evaluation.report.blocks import Section, Text

PAPER, TAILLARD = "jobshop-paper", "taillard"
RULES = ("spt", "mopnr", "cp", "ratio")
PAPER_DRAWS, TAILLARD_DRAWS = (1, 16, 64, 256), (1, 64, 256, 512, 1024)
PER_GROUP = {PAPER: 50, TAILLARD: 10}
TAILLARD_TARGETS = {"greedy": 12.5, "S(64)": 8.8, "S(256)": 7.9}
STRETCH, POLISHED = 7.4, 4.6


def cases(name: str, options: Options) -> list[Case]:
    """The shops of a set; a few of its first groups for a quick look."""
    shops, groups = suite(name), _groups("shops" if name == PAPER else name)
    count = options.few(PER_GROUP[name])
    found = []
    for k, instance in enumerate(shops.names):
        group, number_in = divmod(k, PER_GROUP[name])
        if number_in < count and group < options.few(len(groups), 2):
            reference = shops.best_known.get(instance, float("nan"))
            found.append(Case(name, groups[group], instance, reference=reference))
    return found


def _groups(name: str) -> list[str]:
    groups: list[str] = published()[name]["groups"]
    return groups


def _ways(name: str, options: Options) -> list[Way]:
    counts = PAPER_DRAWS if name == PAPER else TAILLARD_DRAWS
    named = RULES if name == PAPER else ("spt", "mwkr", *RULES[1:])
    return [*rules(*named), *draws(counts, options.weights), polished(options.weights)]


def _wanted(name: str, options: Options) -> list[Wanted]:
    return [(case, way) for case in cases(name, options) for way in _ways(name, options)]


# -- the study's shops ----------------------------------------------------------------------------


def _paper_sections(options: Options, found: Found) -> list[Section]:
    groups, labels = _groups("shops"), labels_of(_ways(PAPER, options))
    rows = published_rows("shops", "makespan", 1)
    rows += grid(found, PAPER, groups, labels, makespan, 1)
    rows.append(row_of("lower bound", [cell_mean(found, PAPER, g, "greedy", bound) for g in groups], 1))
    below = [{True: "yes", False: "no", None: "-"}[_is_below(found, k)] for k in range(len(groups))]
    rows.append(("S(256) at or below the study's", *below))
    times = published_rows("shops", "seconds", 3) + time_grid(found, PAPER, groups, labels, 4)
    counts = [len(found.cell(PAPER, group, "greedy")) for group in groups]
    note = (
        f"The test sets of the study, drawn again: {max(counts)} shops of each size. Its rows: {_source('shops')}. "
        "weft has one net for all sizes, trained on none of these shops; its times are processor seconds on one core."
    )
    return [
        Section(
            "The study's job shops",
            (
                command("shops", "weft bench jobshop-paper --scheduler oneshot --samples 256 --json"),
                Text((note,)),
                table(["mean makespan", *groups], rows),
                table(["median seconds per shop", *groups], times),
            ),
        )
    ]


def _source(name: str) -> str:
    source: str = published()[name]["source"]
    return source


def _published_s256() -> list[float]:
    rows = {row["name"]: row["makespan"] for row in published()["shops"]["row"]}
    figures: list[float] = rows["S(256)"]
    return figures


def _is_below(found: Found, column: int) -> bool | None:
    value = cell_mean(found, PAPER, _groups("shops")[column], "S(256)", makespan)
    return None if value is None else value <= _published_s256()[column]


def _paper_targets(options: Options, found: Found) -> list[Target]:
    limits = zip(_groups("shops"), _published_s256(), strict=True)
    return [
        Target(
            f"the study's job shops {group}, mean makespan of S(256)",
            limit,
            cell_mean(found, PAPER, group, "S(256)", makespan),
            digits=2,
        )
        for group, limit in limits
    ]


# -- Taillard's -----------------------------------------------------------------------------------


def _taillard_sections(options: Options, found: Found) -> list[Section]:
    groups = _groups(TAILLARD)
    rows = [
        (*published_row, number(row["all"], 1))
        for row, published_row in zip(
            published()[TAILLARD]["row"], published_rows(TAILLARD, "gap", 1), strict=True
        )
    ]
    for row in grid(found, TAILLARD, groups, labels_of(_ways(TAILLARD, options)), known_gap, 1):
        average = total_mean(found, TAILLARD, groups, row[0], known_gap)
        rows.append((*row, number(average, 2)))
    note = (
        "Percentage above the best known makespan, ten shops per group. One net for all sizes. S(N) is the best of N "
        f"draws; 1,000 moves are tabu search from the best of 64. Published rows: {_source(TAILLARD)}."
    )
    shown = command("taillard", "weft bench taillard --scheduler oneshot --samples 256")
    return [Section("Taillard's job shops", (shown, Text((note,)), table(["gap, %", *groups, "all"], rows)))]


def _taillard_targets(options: Options, found: Found) -> list[Target]:
    asked = [(label, limit, False) for label, limit in TAILLARD_TARGETS.items()]
    asked += [("S(512)", STRETCH, True), (polished().label, POLISHED, False)]
    groups = _groups(TAILLARD)
    return [
        Target(
            f"Taillard ta01 to ta80, mean gap of {label}",
            limit,
            total_mean(found, TAILLARD, groups, label, known_gap),
            " %",
            is_stretch=is_stretch,
        )
        for label, limit, is_stretch in asked
    ]


SHOPS = Part(lambda options: _wanted(PAPER, options), _paper_sections, _paper_targets)
TAILLARDS = Part(lambda options: _wanted(TAILLARD, options), _taillard_sections, _taillard_targets)
