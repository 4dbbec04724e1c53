"""The entry point: registers the verbs, and turns every error into one line and an exit code.

Exit codes: 0 done, 1 read fine but not valid (``validate``), 2 bad input, 3 infeasible, 4 locked,
70 a bug in weft, 130 interrupted.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from weft.cli import (
    about,
    agents,
    bench,
    calibrate,
    curves,
    evaluate,
    explain,
    export,
    files,
    output,
    plan,
    questions,
    report,
    run,
    show,
    stress,
    train,
    validate,
)
from weft.cli.wrong_numbers import wrong_number
from weft.errors import INTERRUPTED, NO_ROOM, InputError, WeftError
from weft.plugins import named_by_user

BUG = 70
ANYWHERE = {"--debug": "debug", "--quiet": "quiet", "-v": "verbose", "--verbose": "verbose"}
"""Options that may stand before or after the verb, and what each asks for."""
FORMAT = "--format"
ALSO_CALLED = {"plan": "schedule", "run": "evaluate", "simulate": "evaluate"}
"""What a person may call a verb, where no spelling is close."""

app = typer.Typer(
    name="weft",
    help="Plans and dispatches task graphs on unequal machines, and says how far from the optimum a plan may be.",
    epilog="Every verb takes --json, --quiet, -v and -h. First steps: weft schedule FILE --cluster gpu-mix-8",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)

for verb in (
    plan.schedule,
    plan.compare,
    validate.validate,
    show.show,
    explain.explain,
    explain.gantt,
    run.run,
    agents.agents,
    train.train,
    curves.curves,
    evaluate.evaluate,
    evaluate.scenarios,
    evaluate.recipes,
    report.report,
    export.export,
    questions.whatif,
    questions.pareto,
    stress.stress,
    bench.bench,
    files.generate,
    files.convert,
    files.init,
    calibrate.calibrate,
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
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress and no hints, only errors; anywhere on the line.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the log on stderr; anywhere on the line.")
    ] = False,
    format: Annotated[
        list[str] | None,
        typer.Option(
            FORMAT, metavar="FILE.py:NAME", help="Also read this format of yours; anywhere on the line."
        ),
    ] = None,
) -> None:
    """Options before the verb; ``main`` brings those that may stand anywhere to where they are parsed."""
    if format:
        from weft.io import formats

        context.with_resource(formats.kept())
        context.with_resource(output.repeated([word for name in format for word in (FORMAT, name)]))
        formats.register_code(format)


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words, wanted = _parted(list(sys.argv[1:] if arguments is None else arguments))
    if sys.stderr is None:  # closed: print would take stdout in its place
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    if sys.stdout is None:
        output.warn("weft: stdout: expected an open file, it is closed")
        return InputError.exit_code
    _tolerate_narrow_encodings()
    try:
        code = _run(words or ["--help"], wanted)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader went away (weft ... | head): nothing left to say
        output.drop(sys.stdout)
        return 1
    except OSError as error:
        output.warn(f"weft: stdout: {error.strerror}")
        output.drop(sys.stdout)
        return InputError.exit_code
    return code


def _parted(words: list[str]) -> tuple[list[str], set[str]]:
    """The line without the options of ``ANYWHERE``, formats in front, and what the options taken off ask for."""
    end = words.index("--") if "--" in words else len(words)
    left = [word for word in words[:end] if word not in ANYWHERE]
    first: list[str] = []
    for k in reversed(range(len(left))):
        if left[k].startswith(f"{FORMAT}=") or (left[k] == FORMAT and k + 1 < len(left)):
            size = 1 if "=" in left[k] else 2
            first = left[k : k + size] + first
            del left[k : k + size]
    return first + left + words[end:], {ANYWHERE[word] for word in words[:end] if word in ANYWHERE}


def _run(words: list[str], wanted: set[str]) -> int:
    is_json = "--json" in words
    try:
        if words[-1] == FORMAT:
            raise InputError("expected FILE.py:NAME, got nothing", field=FORMAT)
        loudness = output.loudness(is_quiet="quiet" in wanted, is_verbose="verbose" in wanted)
        with loudness, named_by_user(words), output.warnings_as_notes():
            code = app(args=words, prog_name="weft", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except output.RunInterrupted as stop:
        line = f"interrupted; to go on: {shlex.join(['weft', *_resuming(words, stop.folder)])}"
        _print_error({"code": "interrupted", "message": line}, line, is_json)
        return INTERRUPTED
    except output.Interrupted as stop:
        output.warn(f"weft: interrupted after {stop}{_go_on(words)}")
        return INTERRUPTED
    except SystemExit as stop:  # completion ends so, and a verb that has said itself what happened
        return stop.code if isinstance(stop.code, int) else 0
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and _is_stdout_lost():
            raise
        if "debug" in wanted or os.environ.get("WEFT_DEBUG", "") not in ("", "0"):
            import traceback

            traceback.print_exc()
        if isinstance(error, WeftError):
            error.field = _by_option(error, words)
        return _report(error, is_json)
    if code == INTERRUPTED:
        line = f"interrupted{_go_on(words)}"
        _print_error({"code": "interrupted", "message": line}, line, is_json)
    return code if isinstance(code, int) else 0


def _by_option(error: WeftError, words: list[str]) -> str | None:
    """Where an error is: an argument by the option that gave it."""
    option = f"--{error.field}".replace("_", "-")
    is_given = any(word == option or word.startswith(f"{option}=") for word in words)
    return option if is_given and error.file is None else error.field


def _go_on(words: list[str]) -> str:
    """The command that resumes the work of this one, where it keeps what is done."""
    end = max((k + 2 for k, word in enumerate(words) if word == FORMAT), default=0)
    verb = next((word for word in words[end:] if not word.startswith("-")), "")
    has_rows = verb in ("evaluate", "bench")
    if has_rows and not any(word.startswith(("--out", "-o")) for word in words):
        return "; with --out the rows that are done are kept, and the same command goes on"
    if not has_rows and verb not in ("train", "stress"):
        return ""
    is_said = verb != "train" or "--resume" in words or any(word.startswith("--seeds") for word in words)
    kept = "; the rows that are done are kept" if has_rows else ""
    return f"{kept}; to go on: {shlex.join(['weft', *words, *([] if is_said else ['--resume'])])}"


def _resuming(words: list[str], folder: str) -> list[str]:
    """The line that goes on with a run in this folder."""
    is_named = any(word.startswith(("--out", "-o")) for word in words)
    more = [] if is_named else ["--out", folder]
    return [*words, *more, *([] if "--resume" in words else ["--resume"])]


def _is_stdout_lost() -> bool:
    """Whether what was printed cannot be written: the reader went away, or there is no room."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def _report(error: Exception, is_json: bool) -> int:
    """Print an error for a person or a program and return its exit code."""
    if isinstance(error, WeftError):
        _print_error(error.to_dict(), str(error), is_json)
        return error.exit_code
    if isinstance(error, typer.TyperException):
        text = " ".join(error.format_message().split())
        for word, verb in ALSO_CALLED.items():
            if text.startswith(f"No such command '{word}'."):
                text = f"No such command '{word}'. Did you mean '{verb}'?"
        command = getattr(getattr(error, "ctx", None), "command_path", "weft")
        found = {"code": "bad-usage", "message": text} | wrong_number(error)
        line = ": ".join(found[key] for key in ("field", "message") if key in found)
        _print_error(found, f"{line} (see {command} --help)", is_json)
        return 2
    if isinstance(error, OSError) and (error.filename is not None or error.errno in NO_ROOM):
        reason, file = error.strerror or type(error).__name__, str(error.filename or "stdout")
        _print_error({"code": "bad-input", "message": reason, "file": file}, f"{file}: {reason}", is_json)
        return InputError.exit_code
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
        output.warn(f"weft: {output.safe(' '.join(line.split()))}")


def _tolerate_narrow_encodings() -> None:
    """Print a character the terminal cannot show as an escape instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
