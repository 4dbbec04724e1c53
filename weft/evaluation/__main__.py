"""``python -m weft.evaluation SCENARIO``: the sweep of ``weft evaluate`` where little is installed.

Needs NumPy and numba alone. Rows go to ``--out``, where ``weft evaluate`` with the same arguments
finds and shows them.
"""

from __future__ import annotations

import argparse
import sys

from weft.arguments import Arguments, whole_number
from weft.errors import exit_code_of
from weft.evaluation.sweep.request import evaluate
from weft.scenarios import parse_assignments


def main(arguments: list[str]) -> int:
    """Run what is left of the sweep; the exit code is that of ``weft evaluate``."""
    parser = Arguments(prog="python -m weft.evaluation", description=__doc__)
    parser.add_argument("scenario")
    parser.add_argument("--schedulers", "-s", required=True, help="names, runs and folders of runs: a,b")
    parser.add_argument("--problems", type=whole_number(1), help="default: as the scenario says")
    parser.add_argument("--baseline", help="default: as the scenario says")
    parser.add_argument("--seeds", type=whole_number(1), default=1, help="workloads")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="the first of them")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--out", required=True, help="folder of the rows")
    parser.add_argument("--workers", type=whole_number(1), default=1)
    parser.add_argument("--engine", help="spread rows over a cluster: ray or dask")
    parser.add_argument("--address", help="of the cluster; default: one of this machine's own")
    options = parser.parse_args(arguments)
    return exit_code_of(lambda: _evaluate(options))


def _evaluate(options: argparse.Namespace) -> None:
    found = evaluate(
        options.scenario,
        options.schedulers.split(","),
        settings=parse_assignments(options.changes),
        problems=options.problems,
        seeds=range(options.seed, options.seed + options.seeds),
        baseline=options.baseline,
        out=options.out,
        workers=options.workers,
        engine=options.engine,
        address=options.address,
        progress=_say,
    )
    print(found)


def _say(done: int, total: int) -> None:
    print(f"{done} of {total} rows", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
