"""From folders and files to a report: what each is, and in which order it is presented."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from weft.errors import InputError
from weft.evaluation.report import markdown, page
from weft.evaluation.report.blocks import Report, Section
from weft.evaluation.report.claim_tables import claim_sections
from weft.evaluation.report.claims import claim_names, read_claims, verdict_counts
from weft.evaluation.report.cluster_sections import alive, bound, clusters
from weft.evaluation.report.documents import (
    BENCHMARK,
    benchmark_figures,
    document_command,
    evaluations_of,
    read_document,
)
from weft.evaluation.report.learning import by_policy, in_words, learning
from weft.evaluation.report.measures import Evidence, judge, roles_played
from weft.evaluation.report.plans import Notice, check_instance, lost, side_by_side
from weft.evaluation.report.provenance import provenance
from weft.evaluation.report.runs import RecipeOf, TrainingRun, read_run
from weft.evaluation.report.sections import all_rows, capital, more_figures, results, utilisation
from weft.evaluation.report.seeds import together
from weft.evaluation.report.typical import profiles
from weft.evaluation.report.words import headline, subject
from weft.evaluation.sweep.answers import choose_baseline, read_evaluation
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.store import DATABASE
from weft.io.runs import run_folders
from weft.io.sources import write_bytes
from weft.kinds import ELASTIC


@dataclass(frozen=True)
class Sources:
    """Everything a report is made from."""

    sweeps: tuple[Evaluation, ...]
    runs: tuple[TrainingRun, ...]
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What benchmarks printed: benchmark -> figure -> value."""
    commands: tuple[str, ...] = ()
    """What made the sources that do not say it themselves."""


@dataclass(frozen=True)
class Options:
    """What the reader asked for."""

    title: str = ""
    """Empty: named after the sources."""
    baseline: str | None = None
    subject: str | None = None
    """Whose losses are looked at; None: the first policy, else the winner."""
    instance: str | None = None
    """Which instance is drawn side by side; None: a typical one."""
    has_charts: bool = True
    """Whether instances are made again to draw them."""
    claims: str | None = None
    """Whose claims are judged; None: those about the scenarios of the sweeps."""
    command: str = "weft report"
    """The command line, to be repeated at the end."""


def gather(
    paths: Sequence[str | Path], baseline: str | None = None, recipe_of: RecipeOf = lambda name: {}
) -> Sources:
    """Read sweeps, runs and JSON documents, in the order given; ``recipe_of`` says what runs began from."""
    sweeps: list[Evaluation] = []
    runs: list[TrainingRun] = []
    documents = []
    figures: dict[str, Mapping[str, float]] = {}
    commands: list[str] = []
    for path in map(Path, paths):
        if (path / DATABASE).is_file():
            sweeps.append(read_evaluation(path))
        elif run_folders(path):
            runs += [read_run(folder, recipe_of) for folder in run_folders(path)]
        elif path.is_file():
            document = read_document(path)
            if document["schema"] == BENCHMARK:
                figures |= benchmark_figures(str(path), document)
                name, file = str(document.get("name")), str(path)
                commands.append(shlex.join(["python", "-m", "benchmarks", name, "--json", file]))
            else:
                documents.append((str(path), document))
                commands.append(document_command(str(path), document))
        elif not path.exists():
            raise InputError("no such folder or file", file=str(path))
        else:
            raise InputError(
                f"expected a sweep ({DATABASE}), a training run (metrics.jsonl), a run of weft run or the JSON of weft compare or bench",
                file=str(path),
            )
    sweeps += evaluations_of(documents)
    return Sources(_told_apart(_with_baseline(sweeps, baseline)), tuple(runs), figures, tuple(commands))


def _with_baseline(sweeps: Sequence[Evaluation], wanted: str | None) -> list[Evaluation]:
    """The baseline asked for wherever it takes part; it has to somewhere."""
    names = list(dict.fromkeys(name for swept in sweeps for name in swept.schedulers))
    if wanted is None or not names:
        return list(sweeps)
    chosen = choose_baseline(wanted, "", names)
    return [replace(swept, baseline=chosen) if chosen in swept.schedulers else swept for swept in sweeps]


def _told_apart(sweeps: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Evaluations of one title with what tells them apart: settings, else the folder they come from."""
    named = []
    for swept in sweeps:
        twins = [other for other in sweeps if other.title == swept.title]
        named.append(replace(swept, title=_own_title(swept, twins)) if len(twins) > 1 else swept)
    return tuple(named)


def _own_title(swept: Evaluation, twins: Sequence[Evaluation]) -> str:
    """The title with the fixed settings in which it differs from every other one, else with its folder."""
    keys = [
        key
        for key in swept.fixed
        if any(key in one.fixed and one.fixed[key] != swept.fixed[key] for one in twins)
    ]
    said = [", ".join(f"{key}={one.fixed.get(key)}" for key in keys) for one in twins]
    mine = ", ".join(f"{key}={swept.fixed[key]}" for key in keys)
    if keys and said.count(mine) == 1:
        return f"{swept.title} ({mine})"
    name = Path(swept.source).name
    is_alone = [Path(one.source).name for one in twins].count(name) == 1
    return f"{swept.title} ({name if is_alone else swept.source})"


def build(sources: Sources, options: Options, notice: Notice = lambda line: None) -> Report:
    """The whole report."""
    if options.has_charts:
        check_instance(sources.sweeps, options.instance)
    claim_lines, claim_parts = _judgements(sources, options.claims)
    lines, sections = _findings(sources, options, notice)
    if options.claims is not None:
        lines, sections = [*claim_lines, *lines], [*claim_parts, *sections]
    else:
        lines, sections = [*lines, *claim_lines], [*sections, *claim_parts]
    sections += [all_rows(swept) for swept in sources.sweeps]
    sections.append(provenance(sources.sweeps, sources.runs, (*sources.commands, options.command)))
    titled = [replace(section, title=_untitled(section.title, sources)) for section in sections]
    return Report(options.title or _title(sources), tuple(lines), tuple(titled))


def _findings(sources: Sources, options: Options, notice: Notice) -> tuple[list[str], list[Section]]:
    """What the sweeps and the training runs say: in lines, and in sections."""
    lines: list[str] = []
    sections: list[Section] = []
    for whole in sources.sweeps:
        swept = together(whole, (options.subject,))
        chosen = subject(swept, options.subject)
        lines += [_untitled(line, sources) for line in headline(swept, chosen)]
        sections += _about(swept, chosen, options, notice)
    if sources.runs:
        lines += [in_words(name, runs) for name, runs in by_policy(sources.runs).items()]
        sections.append(learning(sources.runs))
    return lines, sections


def _untitled(text: str, sources: Sources) -> str:
    """The text without the name of the sweep it is about, where there is only one."""
    if len(sources.sweeps) != 1:
        return text
    swept = sources.sweeps[0]
    short = text.removeprefix(f"{swept.title}: ")
    names = tuple(one.shown(name) for one in (swept, together(swept)) for name in one.schedulers)
    return short if short == text or short.startswith(names) else capital(short)


def _judgements(sources: Sources, wanted: str | None) -> tuple[list[str], list[Section]]:
    """Claims in a line, and in tables: all of those asked for, else those measured on one of the sweeps."""
    scenarios = [swept.scenario for swept in sources.sweeps]
    known = [read_claims(name) for name in ([wanted] if wanted is not None else claim_names())]
    lines: list[str] = []
    sections: list[Section] = []
    evidence = Evidence(sources.sweeps, sources.runs, sources.figures)
    for claims in known:
        every = judge(claims, evidence) if wanted is not None or claims.scenario in scenarios else ()
        judged = every if wanted is not None else tuple(one for one in every if one.points)
        if judged:
            of = "" if len(judged) == len(every) else f" of {len(every)}"
            plural = "" if len(every) == 1 else "s"
            lines.append(f"{claims.title}, {len(judged)}{of} claim{plural}: {verdict_counts(judged)}.")
            sections += claim_sections(claims, judged, roles_played(judged))
    return lines, sections


def _about(swept: Evaluation, chosen: str, options: Options, notice: Notice) -> list[Section]:
    """All that is said about one sweep, but for its rows."""
    is_elastic = swept.kind is ELASTIC
    found: list[Section | None] = [results(swept), more_figures(swept)]
    found += (
        [bound(swept), profiles(swept), *clusters(swept)]
        if is_elastic
        else [profiles(swept), utilisation(swept)]
    )
    if options.has_charts:
        found.append(alive(swept, chosen, options.instance, notice) if is_elastic else None)
        found.append(side_by_side(swept, chosen, options.instance, notice))
    found.append(lost(swept if options.has_charts else replace(swept, asked=None), chosen, notice))
    return [section for section in found if section is not None]


def _title(sources: Sources) -> str:
    names = [*(swept.title for swept in sources.sweeps), *by_policy(sources.runs)]
    return f"weft report: {', '.join(dict.fromkeys(names))}"


def write(report: Report, out: Path) -> list[Path]:
    """Write the page and its Markdown twin; only Markdown where ``out`` ends in .md."""
    twin = out.with_suffix(".md")
    written = []
    if out != twin:
        write_bytes(page.render(report).encode(), out)
        written.append(out)
    write_bytes(markdown.render(report).encode(), twin)
    return [*written, twin]
