"""``python -m weft.training RECIPE``: ``weft train`` where only NumPy, numba and torch are installed.

Needs none of the packages of the command line. Options have the same names and meanings.
"""

from __future__ import annotations

import argparse
import sys

from weft.errors import exit_code_of
from weft.scenarios import parse_assignments
from weft.training.run.folder import Outcome
from weft.training.run.seeds import parse_seeds
from weft.training.train import train


def main(arguments: list[str]) -> int:
    """Train; the exit code is that of ``weft train``."""
    parser = argparse.ArgumentParser(prog="python -m weft.training", description=__doc__)
    parser.add_argument("recipe", help="a built-in recipe, or a TOML file")
    parser.add_argument("--out", help="folder of the runs; default runs/RECIPE")
    parser.add_argument("--seeds", default="0", help="training seeds, as in 1,2,3 or 1:4")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--from", metavar="WEIGHTS", dest="start", help="weights or run to begin with")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--tensorboard", action="store_true", help="write metrics for TensorBoard too")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--threads", type=int, default=1, help="threads per run that step many problems")
    options = parser.parse_args(arguments)
    return exit_code_of(lambda: _train(options))


def _train(options: argparse.Namespace) -> None:
    train(
        options.recipe,
        options.out,
        settings=parse_assignments(options.changes),
        seeds=parse_seeds(options.seeds),
        workers=options.workers,
        device=options.device,
        start=options.start,
        threads=max(1, options.threads),
        tensorboard=options.tensorboard,
        on_done=_report,
    )


def _report(outcome: Outcome) -> None:
    best = "" if outcome.best is None else f", best {-outcome.best:+.2f} % against the best rules"
    print(f"{outcome.run}: {outcome.samples:,} samples, {outcome.cpu_seconds:.0f} CPU s{best}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
