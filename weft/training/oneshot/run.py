"""Trains a one-shot recipe into a run folder: problems, learner, card, checkpoints.

``python -m weft.training.oneshot.run RECIPE`` is the same without the command line's packages, for
machines that have NumPy, numba and torch alone.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from weft.errors import InputError, MissingExtra, exit_code_of
from weft.io.runs import VALIDATED
from weft.policies.checkpoint import Card, read_card
from weft.policies.oneshot.features import FEATURES, VERSION
from weft.scenarios.settings import parse_assignments
from weft.training.first_weights import starting_weights
from weft.training.oneshot.config import SampleConfig
from weft.training.oneshot.problems import Source
from weft.training.recipes import SCHEMA, read_document
from weft.training.run.folder import BEST, Outcome, Progress, Spec, open_run
from weft.training.run.metrics import require_tensorboard

ALGORITHM = "oneshot"
_TOP = ("schema", "name", "summary", "algorithm", "source", "config")


@dataclass(frozen=True)
class SampleRecipe:
    """What a one-shot run trains on and with."""

    name: str
    sources: tuple[Source, ...]
    config: SampleConfig

    def to_dict(self) -> dict[str, object]:
        """As plain JSON, for the run's record."""
        return {
            "name": self.name,
            "source": [asdict(source) for source in self.sources],
            "config": asdict(self.config),
        }


def is_sampled(name: str) -> bool:
    """Whether a training recipe is one of these."""
    return read_document(name).get("algorithm") == ALGORITHM


def read_sampled(name: str, changes: Mapping[str, object] | None = None) -> SampleRecipe:
    """A built-in recipe or a TOML file; a change names a parameter of the learner."""
    file = name if name.endswith(".toml") else None
    try:
        return _recipe(read_document(name), changes or {})
    except InputError as error:
        raise error.at(file=file) from None


def _recipe(document: Mapping[str, Any], changes: Mapping[str, object]) -> SampleRecipe:
    for key in document:
        if key not in _TOP:
            raise InputError(f"unknown key; expected {', '.join(_TOP)}", field=key)
    for key, wanted in (("schema", SCHEMA), ("algorithm", ALGORITHM)):
        if document.get(key) != wanted:
            raise InputError(f"expected {wanted!r}, got {document.get(key)!r}", field=key)
    sources = document.get("source")
    if not isinstance(sources, list) or not sources:
        raise InputError("expected at least one table [[source]]", field="source")
    config = document.get("config", {})
    if not isinstance(config, dict):
        raise InputError(f"expected a table, got {config!r:.60}", field="config")
    known = [f.name for f in fields(SampleConfig)]
    for key in (*config, *changes):
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(f"unknown parameter{hint}", field=f"config.{key}")
    chosen: dict[str, Any] = {**config, **changes}
    return SampleRecipe(
        str(document.get("name", "recipe")),
        tuple(Source.read(table) for table in sources),
        SampleConfig(**chosen),
    )


def train(
    recipe: SampleRecipe,
    folder: str | Path,
    *,
    seed: int = 0,
    device: str = "cpu",
    start: str | None = None,
    is_resumed: bool = False,
    workers: int = 0,
    threads: int | None = None,
    has_tensorboard: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_notice: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Train a recipe to its end; ``start`` names weights to begin with."""
    try:
        from weft.training.oneshot.learner import SampleLearner
    except ImportError:
        raise MissingExtra("torch", "train", "training") from None
    card = Card(
        recipe.name,
        ALGORITHM,
        recipe.config.shape,
        feature_version=VERSION,
        features=FEATURES,
        training={"recipe": recipe.to_dict()},
    )
    weights = starting_weights(start, card)
    spec = Spec(ALGORITHM, asdict(recipe.config), seed, {**recipe.to_dict(), "from": start})
    if has_tensorboard:
        require_tensorboard()
    with open_run(folder, spec, is_resumed=is_resumed, on_notice=on_notice) as run:
        learner = SampleLearner(
            recipe.sources,
            recipe.config,
            seed=seed,
            device=device,
            start=weights,
            card=card,
            workers=workers,
            threads=threads,
        )
        try:
            return run.train(
                learner, every=recipe.config.every, on_progress=on_progress, has_tensorboard=has_tensorboard
            )
        finally:
            learner.close()


# In words


def validation_in_words(row: Mapping[str, object]) -> str:
    """``greedy 26.7 %, best of 16 24.1 % above the bound``; empty where nothing was validated."""
    found = {said: row.get(name) for name, said in VALIDATED.items()}
    parts = [f"{said} {value:.1f} %" for said, value in found.items() if isinstance(value, float)]
    return f"{', '.join(parts)} above the bound" if parts else ""


def best_in_words(found: Outcome) -> str:
    """What the best policy of a run reached in validation; empty where there is none."""
    if found.best is None:
        return ""
    return f", best policy in validation: {validation_in_words(read_card(Path(found.run) / BEST).training)}"


# Without the command line's packages


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m weft.training.oneshot.run")
    parser.add_argument("recipe")
    parser.add_argument("--out", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--from", dest="start")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--workers", type=int, default=0, help="processes that prepare problems")
    parser.add_argument("--threads", type=int, help="threads that draw schedules; default: all processors")
    return parser


class _Report:
    """A line every few seconds."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        row = progress.row
        if time.monotonic() < self._next and "greedy_percent" not in row:
            return
        self._next = time.monotonic() + 10.0
        figures = {key: round(value, 2) for key, value in row.items() if isinstance(value, float)}
        print(f"{progress.update} of {progress.num_updates}{progress.left}: {figures}")
        sys.stdout.flush()


def main(words: list[str] | None = None) -> int:
    """Train as the words of a command line say; returns the exit code."""
    asked = _arguments().parse_args(words)
    return exit_code_of(lambda: _train(asked), go_on="the same command with --resume goes on")


def _train(asked: argparse.Namespace) -> None:
    found = train(
        read_sampled(asked.recipe, parse_assignments(asked.set)),
        asked.out,
        seed=asked.seed,
        device=asked.device,
        start=asked.start,
        is_resumed=asked.resume,
        workers=asked.workers,
        threads=asked.threads,
        on_progress=_Report(),
        on_notice=print,
    )
    print(f"{found.run}: {found.samples} schedules in {found.seconds:.0f} s{best_in_words(found)}")


if __name__ == "__main__":
    raise SystemExit(main())
