"""The entry point: registers the verbs, and turns every error into one line and an exit code.

Exit codes: 0 done, 1 read fine but not valid (``validate``), 2 bad input, 3 infeasible, 4 locked,
70 a bug in weft, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from weft.cli import (
    about,
    bench,
    curves,
    evaluate,
    explain,
    files,
    output,
    plan,
    questions,
    report,
    show,
    stress,
    train,
)
from weft.errors import INTERRUPTED, WeftError
from weft.plugins import named_by_user

BUG = 70

app = typer.Typer(
    name="weft",
    help="Schedules task graphs on unequal machines, and says how far from the optimum it may be.",
    epilog="Every verb takes --json and --help. First steps: weft schedule FILE --cluster gpu-mix-8",
    add_completion=False,
    rich_markup_mode=None,
)

for verb in (
    plan.schedule,
    plan.compare,
    plan.validate,
    show.show,
    explain.explain,
    explain.gantt,
    train.train,
    curves.curves,
    evaluate.evaluate,
    evaluate.scenarios,
    evaluate.recipes,
    report.report,
    questions.whatif,
    questions.pareto,
    stress.stress,
    bench.bench,
    files.generate,
    files.convert,
    files.init,
    about.schedulers,
    about.doctor,
):
    app.command()(verb)


def _print_version(wanted: bool) -> None:
    if wanted:
        from weft import __version__

        output.say(f"weft {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; anywhere on the line, or WEFT_DEBUG=1.")
    ] = False,
    format: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="FILE.py:NAME", help="Also read files of this format of yours."),
    ] = None,
) -> None:
    """Options before the verb; ``main`` takes --debug off the line before they are parsed."""
    if format:
        from weft.io import formats

        context.with_resource(formats.kept())
        formats.register_code(format)


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    is_debug = "--debug" in words or os.environ.get("WEFT_DEBUG", "") not in ("", "0")
    words = [word for word in words if word != "--debug"] or ["--help"]
    _tolerate_narrow_encodings()
    try:
        code = _run(words, is_debug)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader went away (weft ... | head): nothing left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _run(words: list[str], is_debug: bool) -> int:
    is_json = "--json" in words
    try:
        with named_by_user(words), output.warnings_as_notes():
            code = app(args=words, prog_name="weft", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        if is_debug:
            import traceback

            traceback.print_exc()
        return _report(error, is_json)
    if code == INTERRUPTED:
        _print_error({"code": "interrupted", "message": "interrupted"}, "interrupted", is_json)
    return code if isinstance(code, int) else 0


def _report(error: Exception, is_json: bool) -> int:
    """Print an error for a person or a program and return its exit code."""
    if isinstance(error, WeftError):
        _print_error(error.to_dict(), str(error), is_json)
        return error.exit_code
    if isinstance(error, typer.TyperException):
        text = " ".join(error.format_message().split())
        command = getattr(getattr(error, "ctx", None), "command_path", "weft")
        _print_error({"code": "bad-usage", "message": text}, f"{text} (see {command} --help)", is_json)
        return 2
    if isinstance(error, OSError) and error.filename is not None:
        reason = error.strerror or type(error).__name__
        found = {"code": "bad-input", "message": reason, "file": str(error.filename)}
        _print_error(found, f"{error.filename}: {reason}", is_json)
        return 2
    if isinstance(error, MemoryError):
        _print_error({"code": "out-of-memory", "message": "out of memory"}, "out of memory", is_json)
        return BUG
    text = f"unexpected {type(error).__name__}: {error}"
    hint = "please report it with the output of the same command and --debug (or WEFT_DEBUG=1)"
    _print_error({"code": "internal", "message": text}, f"{text}; {hint}", is_json)
    return BUG


def _print_error(found: Mapping[str, object], line: str, is_json: bool) -> None:
    """One JSON document on stdout, or one line on stderr."""
    if is_json:
        keys = ("code", "message", "file", "field", "line")
        output.emit({"error": {key: found.get(key) for key in keys}})
    else:
        output.note(f"weft: {output.safe(' '.join(line.split()))}")


def _tolerate_narrow_encodings() -> None:
    """Print a character the terminal cannot show as an escape instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
