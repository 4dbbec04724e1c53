"""``python -m weft.training RECIPE``: ``weft train`` where only NumPy, numba and torch are installed.

Needs none of the packages of the command line. Options have the same names and meanings.
"""

from __future__ import annotations

import argparse
import sys

from weft.arguments import Arguments, whole_number
from weft.errors import exit_code_of
from weft.scenarios import parse_assignments
from weft.training.recipes import read_spread
from weft.training.run.once import Reporter
from weft.training.run.seeds import parse_seeds
from weft.training.train import in_words, train


def main(arguments: list[str]) -> int:
    """Train; the exit code is that of ``weft train``."""
    parser = Arguments(prog="python -m weft.training", description=__doc__)
    parser.add_argument("recipe", help="a built-in recipe, or a TOML file")
    parser.add_argument("--out", help="folder of the run; default runs/RECIPE")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--seeds", help="train once per seed, as in 1,2,3 or 1:4, into RUN/seed-1, ...")
    parser.add_argument(
        "--workers", type=whole_number(1), default=1, help="processes: runs at a time, or feeders of one"
    )
    parser.add_argument(
        "--threads", type=whole_number(1), help="threads of a run; default: 1, of one-shot planners all"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--from", metavar="WEIGHTS", dest="start", help="weights or run to begin with")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the folder")
    parser.add_argument("--tensorboard", action="store_true", help="write metrics for TensorBoard too")
    parser.add_argument("--engine", help="spread it over roles: local, processes or ray")
    parser.add_argument("--actors", type=whole_number(1), help="roles that act, with --engine")
    parser.add_argument("--address", help="a Ray cluster, ray://HOST:PORT, with --engine ray")
    options = parser.parse_args(arguments)
    go_on = "the same command goes on" if options.seeds else "the same command with --resume goes on"
    return exit_code_of(lambda: _train(options), go_on=go_on)


def _train(options: argparse.Namespace) -> None:
    where = {"engine": options.engine, "actors": options.actors, "address": options.address}
    changes = parse_assignments(options.changes)
    recipe = read_spread(options.recipe, changes, **where)
    found = train(
        options.recipe,
        options.out,
        settings=changes,
        seed=options.seed,
        seeds=None if options.seeds is None else parse_seeds(options.seeds),
        workers=options.workers,
        threads=options.threads,
        device=options.device,
        start=options.start,
        resume=options.resume,
        tensorboard=options.tensorboard,
        **where,
        on_progress=Reporter(recipe),
        on_notice=print,
        on_done=lambda outcome: print(in_words(outcome, recipe), flush=True),
    )
    if not found.is_group:
        print(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
