"""Computation graphs: synthetic ones of three kinds, and those of ONNX models below a folder."""

from __future__ import annotations

import math

from benchmarks._oneshot.measure import Found, Wanted, Way, draws, polished, rules
from benchmarks._oneshot.page import (
    Options,
    Part,
    Target,
    cell_mean,
    command,
    grid,
    labels_of,
    no_targets,
    published,
    published_rows,
    row_of,
    speedup,
    table,
    time_grid,
)
from benchmarks._oneshot.problems import Case, suite
from weft.evaluation.report.blocks import Section, Text

GRAPHS, MODELS = "graphs", "onnx"
RULES = ("spt", "mwkr", "mopnr", "cp", "cp-area")
PER_GROUP = 20


def _groups(name: str) -> list[str]:
    groups: list[str] = published()[name]["groups"]
    return groups


def cases(options: Options) -> list[Case]:
    """So many graphs of each kind and size."""
    groups = _groups("graphs")
    asked = groups[-2:] if options.is_quick else groups
    return [Case(GRAPHS, g, f"{g}/{k}") for g in asked for k in range(options.few(PER_GROUP))]


def ways(options: Options) -> list[Way]:
    """Rules and draws."""
    return [*rules(*RULES), *draws((1, 16, 64, 256), options.weights), polished(options.weights)]


def _wanted(options: Options) -> list[Wanted]:
    return [(case, way) for case in cases(options) for way in ways(options)]


def _sections(options: Options, found: Found) -> list[Section]:
    groups, labels = _groups("graphs"), labels_of(ways(options))
    rows = published_rows("graphs", "speedup", 3) + grid(found, GRAPHS, groups, labels, speedup, 3)
    rows.append(row_of("limit by the bound", [_limit(found, GRAPHS, group) for group in groups], 3))
    count = max(len(found.cell(GRAPHS, group, "greedy")) for group in groups)
    note = (
        f"Sum of run times over makespan on six devices of three types, {count} graphs of each kind; er: random, sbm: block model. "
        f"The study's rows ({published()['graphs']['source']}) are for other graphs of such distributions. Its layered "
        "generator's parameters are not known: that column compares nothing."
    )
    headers = ["speed-up", *groups]
    return [
        Section("Synthetic computation graphs", (command("graphs"), Text((note,)), table(headers, rows))),
    ]


def _limit(found: Found, name: str, group: str) -> float | None:
    return cell_mean(found, name, group, "greedy", lambda case, row: row.work / row.bound)


def _targets(options: Options, found: Found) -> list[Target]:
    rows = {row["name"]: row["speedup"] for row in published()["graphs"]["row"]}
    targets = []
    for group, limit in list(zip(_groups("graphs"), rows["S(256)"], strict=True))[:3]:
        ours = cell_mean(found, GRAPHS, group, "S(256)", speedup)
        what = f"{group} computation graphs, speed-up of S(256)"
        note = " (the study's graphs differ)" if group.startswith("layered") else ""
        targets.append(Target(what + ", against the study's" + note, limit, ours, digits=3, is_least=True))
        best = [cell_mean(found, GRAPHS, group, rule, speedup) or math.nan for rule in RULES]
        targets.append(
            Target(f"{what}, against the best rule", max(best), ours, digits=3, is_least=True, is_strict=True)
        )
    return targets


# -- models ---------------------------------------------------------------------------------------


def _model_wanted(options: Options) -> list[Wanted]:
    if not options.models:
        return []
    found = list(suite(MODELS, options.models).instances)[: options.few(1000)]
    cases = [Case(MODELS, instance.group, instance.name, options.models) for instance in found]
    return [(case, way) for case in cases for way in ways(options)]


def _model_sections(options: Options, found: Found) -> list[Section]:
    title = "Computation graphs of ONNX models"
    if not options.models:
        return [
            Section(title, (Text(("Not measured: no folder of ONNX models was given (--models DIR).",)),))
        ]
    groups, labels = _groups("models"), labels_of(ways(options))
    rows = published_rows("models", "speedup", 3) + grid(found, MODELS, groups, labels, speedup, 3)
    rows.append(row_of("limit by the bound", [_limit(found, MODELS, group) for group in groups], 3))
    counts = [len(found.cell(MODELS, group, "greedy")) for group in groups]
    rows.append(("models", *map(str, counts)))
    note = (
        f"Operators and edges of {sum(counts)} models below a folder; types and run times are drawn by the law of the synthetic "
        f"graphs, with the file's name as the seed. The study's rows ({published()['models']['source']}) are for other "
        "graphs and run times: they compare nothing but orders of magnitude."
    )
    times = time_grid(found, MODELS, groups, labels, 4)
    return [
        Section(
            title,
            (
                command("models", needs=" --models DIR"),
                Text((note,)),
                table(["speed-up", *groups], rows),
                table(["median seconds per model", *groups], times),
            ),
        )
    ]


SYNTHETIC = Part(_wanted, _sections, _targets)
REAL = Part(_model_wanted, _model_sections, no_targets)
