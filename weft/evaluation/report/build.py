"""From folders and files to a report: what each is, and in which order it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.errors import InputError
from weft.evaluation.report import markdown, page
from weft.evaluation.report.blocks import Report, Section
from weft.evaluation.report.documents import document_frames, read_document
from weft.evaluation.report.frame import Frame, read_frame
from weft.evaluation.report.learning import learning
from weft.evaluation.report.plans import Notice, lost, side_by_side
from weft.evaluation.report.provenance import provenance
from weft.evaluation.report.runs import TrainingRun, is_run, read_run
from weft.evaluation.report.sections import all_rows, more_figures, profiles, results, utilisation
from weft.evaluation.report.words import headline, subject
from weft.evaluation.store import DATABASE
from weft.io.sources import write_bytes


@dataclass(frozen=True)
class Sources:
    """Everything a report is made from."""

    frames: tuple[Frame, ...]
    runs: tuple[TrainingRun, ...]


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
    command: str = "weft report"
    """The command line, to be repeated at the end."""


def gather(paths: Sequence[str | Path], baseline: str | None = None) -> Sources:
    """Read sweeps, runs and JSON documents, in the order given."""
    frames: list[Frame] = []
    runs: list[TrainingRun] = []
    documents = []
    for path in map(Path, paths):
        if (path / DATABASE).is_file():
            frames.append(read_frame(path, baseline))
        elif is_run(path):
            runs.append(read_run(path))
        elif path.is_file():
            documents.append((str(path), read_document(path)))
        else:
            raise InputError(
                f"expected a sweep ({DATABASE}), a training run (metrics.jsonl) or the JSON of weft compare or bench",
                file=str(path),
            )
    frames += document_frames(documents, baseline)
    if not frames and not runs:
        raise InputError("expected at least one sweep, run or file", field="sources")
    return Sources(tuple(frames), tuple(runs))


def build(sources: Sources, options: Options, notice: Notice = lambda line: None) -> Report:
    """The whole report."""
    lines: list[str] = []
    sections: list[Section] = []
    for frame in sources.frames:
        chosen = subject(frame, options.subject)
        lines += headline(frame, chosen)
        sections += _about(frame, chosen, options, notice)
    if sources.runs:
        lines += [_run_line(run) for run in sources.runs]
        sections.append(learning(sources.runs))
    sections += [all_rows(frame) for frame in sources.frames]
    sections.append(provenance(sources.frames, sources.runs, options.command))
    return Report(options.title or _title(sources), tuple(lines), tuple(sections))


def _about(frame: Frame, chosen: str, options: Options, notice: Notice) -> list[Section]:
    """All that is said about one sweep, but for its rows."""
    found: list[Section | None] = [results(frame), more_figures(frame), profiles(frame), utilisation(frame)]
    if options.has_charts:
        found.append(side_by_side(frame, chosen, options.instance, notice))
    found.append(lost(frame if options.has_charts else _undrawn(frame), chosen, notice))
    return [section for section in found if section is not None]


def _undrawn(frame: Frame) -> Frame:
    from dataclasses import replace

    return replace(frame, config=None)


def _title(sources: Sources) -> str:
    names = [frame.title for frame in sources.frames] + [run.name for run in sources.runs]
    return f"weft report: {', '.join(dict.fromkeys(names))}"


def _run_line(run: TrainingRun) -> str:
    took = "" if run.seconds is None else f" in {run.seconds:.0f} s"
    found = run.validation
    best = "" if found is None else f"; best validated mean job time {float(found[1].min()):.4g} ms"
    return f"Training {run.name}: {run.samples:,} decisions{took}{best}."


def write(report: Report, out: Path) -> list[Path]:
    """Write the page and its Markdown twin; only Markdown where ``out`` ends in .md."""
    twin = out.with_suffix(".md")
    written = []
    if out != twin:
        write_bytes(page.render(report).encode(), out)
        written.append(out)
    write_bytes(markdown.render(report).encode(), twin)
    return [*written, twin]
