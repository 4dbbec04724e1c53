"""Arguments and options that several verbs share, so that one name means one thing everywhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import output
from weft.errors import InputError, WeftError

File = Annotated[
    Path, typer.Argument(metavar="FILE", show_default=False, help="Workflow, graph or problem file.")
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", "-c", metavar="C", help="Cluster file, or the name of a built-in cluster."),
]
Scheduler = Annotated[str, typer.Option("--scheduler", "-s", metavar="NAME", help="See `weft schedulers`.")]
Ccr = Annotated[
    float | None,
    typer.Option("--ccr", metavar="X", help="Rescale bandwidth to this communication-to-computation ratio."),
]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="Wall time for a search: 2s, 500ms, 1m. Not repeatable."),
]
Effort = Annotated[
    int | None,
    typer.Option("--effort", metavar="N", min=1, help="Evaluations for a search. Repeats exactly."),
]
Samples = Annotated[
    int | None,
    typer.Option("--samples", metavar="N", min=1, help="Schedules that oneshot draws; the same as --effort."),
]
MOST_SEED = 2**63 - 1
Seed = Annotated[
    int, typer.Option("--seed", metavar="S", min=0, max=MOST_SEED, help="Seed of everything random.")
]
Copies = Annotated[
    bool, typer.Option("--copies/--no-copies", help="Whether a task may run more than once (duplication).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

_NUMBER = r"\s*([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*"


def parse_duration(text: str | None, field: str = "--budget") -> float | None:
    """Seconds of ``2s``, ``500ms``, ``1m``, ``0.5h`` or a plain number of seconds."""
    from weft.io.units import parse_time

    return parse_quantity(None if text is None else text.lower(), parse_time, field)


_MOST_NOISE = 10.0


def parse_noise(text: str | None) -> float | None:
    """The coefficient of variation of ``0.3`` or ``30%``."""
    if text is None:
        return None
    match = re.fullmatch(rf"{_NUMBER}(%?)\s*", text.lower())
    value = float(match[1]) / (100.0 if match[2] else 1.0) if match else _MOST_NOISE + 1.0
    if value > _MOST_NOISE:
        expected = "expected how far run times vary, such as 0.3 or 30%, at most 10 (1000%)"
        raise InputError(f"{expected}, got {text!r}", field="--noise")
    return value


def parse_quantity(text: str | None, parse: Callable[[object], float], field: str) -> float | None:
    """A text with a unit, read by a function of ``weft.io.units``, or a plain number."""
    if text is None:
        return None
    try:
        return parse(float(text) if re.fullmatch(_NUMBER, text.lower()) else text)
    except ValueError as error:
        raise InputError(str(error), field=field) from None


def efforts(effort: int | None, samples: int | None) -> int | None:
    """The one of two spellings that was given."""
    if effort is not None and samples is not None:
        raise InputError("give --samples or --effort, not both", field="--samples")
    return samples if effort is None else effort


def say_unused(schedulers: Sequence[str], limits: Mapping[str, object]) -> None:
    """Say which of the limits given does nothing, where every planner makes one plan and is done."""
    from weft import catalog

    given = [option for option, value in limits.items() if value is not None]
    if not given or any(map(catalog.is_limited, schedulers)):
        return
    names = output.safe(", ".join(schedulers))
    does = "makes one plan and neither draws nor searches" if len(schedulers) == 1 else "search nothing"
    output.note(f"{names} {does}: {given[0]} changes nothing")


def check_gantt(path: Path | None, field: str) -> None:
    """Refuse a Gantt chart that cannot be drawn; a page needs no extra."""
    from weft.evaluation.figures.charts import check_path

    if path is not None:
        check_path(path, field)


def check_chart(path: Path | None, field: str, what: str) -> None:
    """Refuse a picture that cannot be drawn, before a long plan is made for it."""
    from weft.evaluation.figures.gantt import check_path

    if path is not None:
        check_path(path, field, what)


def again(file: Path | None, cluster: str | None, ccr: float | None, copies: bool, seed: int) -> str:
    """The arguments that put the same problem to another verb, ready to paste into a shell."""
    words = [] if file is None else [str(file)]
    words += [] if cluster is None else ["--cluster", cluster]
    words += [] if ccr is None else ["--ccr", f"{ccr:g}"]
    words += [] if copies else ["--no-copies"]
    words += ["--seed", str(seed)] if seed else []
    return shlex.join(words)


@contextmanager
def named(*options: str) -> Iterator[None]:
    """An error about one of these arguments names the option that gives it, whether or not it was given."""
    try:
        yield
    except WeftError as error:
        error.field = f"--{error.field}" if error.field in options else error.field
        raise


def split_names(values: list[str] | None) -> list[str]:
    """Names of a repeatable, comma-separated option, in order and without doubles."""
    parts = [part.strip() for value in values or [] for part in value.split(",")]
    return list(dict.fromkeys(part for part in parts if part))


def scheduler_names(values: list[str] | None) -> list[str]:
    """The same for schedulers: a text that names none is refused, and doubles are said."""
    names = split_names(values)
    if values and not names:
        raise InputError(f"expected names of schedulers, got {values[0]!r}", field="--schedulers")
    given = [part.strip() for value in values or [] for part in value.split(",")]
    for name in names:
        if given.count(name) > 1:
            output.note(f"{name} is named {given.count(name)} times: it runs once")
    return names
