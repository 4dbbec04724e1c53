"""The one-shot planner beside the published figures: the page docs/results/oneshot.md, or some of its parts.

Every plan is validated, and every figure is under an effort, so all but times repeat exactly. With ``--rows``
an interrupted run goes on, and a changed net measures only its own rows.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks._oneshot import nets
from benchmarks._oneshot.graphs import REAL, SYNTHETIC
from benchmarks._oneshot.losses import LOSS, SEEDS
from benchmarks._oneshot.measure import Found, run
from benchmarks._oneshot.page import Options, Part, Target
from benchmarks._oneshot.queries import QUERIES
from benchmarks._oneshot.record import Record
from benchmarks._oneshot.shops import SHOPS, TAILLARDS
from benchmarks._oneshot.times import MANY_ROUNDS, TIMES
from benchmarks._oneshot.workflows import WORKFLOWS
from benchmarks.check import machine
from weft.errors import InputError, WeftError
from weft.evaluation.report.blocks import Code, Report, Section, Table
from weft.evaluation.report.markdown import render
from weft.io.sources import write_bytes

PARTS: dict[str, Part] = {
    "shops": SHOPS,
    "taillard": TAILLARDS,
    "queries": QUERIES,
    "graphs": SYNTHETIC,
    "models": REAL,
    "workflows": WORKFLOWS,
    "times": TIMES,
    "rounds": MANY_ROUNDS,
    "losses": LOSS,
    "seeds": SEEDS,
}
INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Measure what is missing and write or print the page; 1 if a target was missed."""
    parsed = _parser().parse_args(arguments)
    try:
        return _run(parsed)
    except WeftError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the same command with --rows FILE goes on", file=sys.stderr)
        return INTERRUPTED


def _run(parsed: argparse.Namespace) -> int:
    folders = (parsed.data or "", parsed.models or "", parsed.losses or "", parsed.seeds or "")
    options = Options(*folders, "" if parsed.scheduler == "oneshot" else parsed.scheduler, parsed.quick)
    asked = parsed.part or list(PARTS)
    for path in (parsed.out, parsed.rows):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise InputError("expected a file in a folder that exists", file=str(path))
    if parsed.workers < 0:
        raise InputError(f"expected a whole number >= 0, got {parsed.workers}", field="--workers")
    wanted = [one for name in asked for one in PARTS[name].wanted(options)]
    found = run(wanted, Record(parsed.rows), 0 if parsed.quick else parsed.workers)
    targets = [target for name in asked for target in PARTS[name].targets(options, found)]
    text = render(_page(options, asked, found, targets))
    if parsed.out is None:
        print(text, end="")
    else:
        write_bytes(text.encode(), parsed.out)
        print(f"wrote {parsed.out}", file=sys.stderr)
    return _judge(targets, parsed.quick)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks oneshot", description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; may be repeated")
    parser.add_argument("--data", help="folder of TPC-H query mixes")
    parser.add_argument("--models", help="folder of ONNX models")
    parser.add_argument("--losses", help="folder of runs that differ in the loss, named WHAT-SEED")
    parser.add_argument("--seeds", help="folder of runs that differ in the training seed, named WHAT-SEED")
    parser.add_argument("--scheduler", default="oneshot", help="weights, or RUN@best, in place of what ships")
    parser.add_argument("--rows", type=Path, help="keep measured rows here, and go on from them")
    parser.add_argument("--out", type=Path, help="write the page here; default: print it")
    parser.add_argument("--workers", type=int, default=2, help="processes; 0: measure in this one")
    parser.add_argument("--quick", action="store_true", help="one problem per group, to see that all works")
    return parser


def _page(options: Options, asked: list[str], found: Found, targets: list[Target]) -> Report:
    sections = [section for name in asked for section in PARTS[name].sections(options, found)]
    front = [Section("Targets", (_target_table(targets),))] if targets else []
    made = Section("How this page was made", (Code((_command(options, asked),)),))
    return Report(
        "The one-shot planner beside the published figures",
        _headline(options, targets),
        (*front, nets.section(options), *sections, made),
    )


def _target_table(targets: list[Target]) -> Table:
    strong = tuple((k, 3) for k in range(len(targets)))
    return Table(
        ("what", "target", "measured", "verdict"), tuple(one.cells() for one in targets), (1, 2), "", strong
    )


def _headline(options: Options, targets: list[Target]) -> tuple[str, ...]:
    counts = {
        word: sum(one.verdict == word for one in targets) for word in ("reached", "missed", "not measured")
    }
    verdicts = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    quick = ("A quick look at a few problems: the figures mean nothing.",) if options.is_quick else ()
    return (
        *quick,
        *((f"{len(targets)} targets: {verdicts}.",) if targets else ()),
        'Rows that begin with "published" are what others printed, the rest is weft\'s, on problems of the test split or of '
        "published sets; every plan was validated.",
        f"Machine: {machine()}; processor seconds of one process, several processes at a time.",
    )


def _command(options: Options, asked: list[str]) -> str:
    """The command with its folders called DIR."""
    folders = {name: getattr(options, name) for name in ("data", "models", "losses", "seeds")}
    words = [f"--part {name}" for name in asked] if asked != list(PARTS) else []
    words += [f"--{name} DIR" for name, value in folders.items() if value]
    words += ["--scheduler WEIGHTS"] * bool(options.weights) + ["--quick"] * options.is_quick
    words += ["--rows FILE", "--out docs/results/oneshot.md"]
    return f"python -m benchmarks oneshot {' '.join(words)}"


def _judge(targets: list[Target], is_quick: bool) -> int:
    missed = [one for one in targets if one.verdict == "missed" and not one.is_stretch]
    for one in missed:
        print(f"target missed: {one.what}: {', '.join(one.cells()[1:3])}", file=sys.stderr)
    return int(bool(missed) and not is_quick)
