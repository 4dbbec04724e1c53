"""Training spread over roles: pace by actors, a straggler with and without a backup, orders of configurations.

``scaling``: samples per second with more and more actors, beside what a queueing model says. ``straggler``: steps per second
of synchronous learners of which one is slow. ``arms``: learning curves of curricula and ways to explore, over seeds.
"""

from __future__ import annotations

import argparse

from benchmarks._distributed import arms, scaling, straggler

PARTS = {"scaling": scaling, "straggler": straggler, "arms": arms}


def main(arguments: list[str]) -> int:
    """Run one part."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks distributed", description=__doc__)
    kinds = parser.add_subparsers(dest="part", required=True)
    for name, part in PARTS.items():
        part.add_options(kinds.add_parser(name, description=part.__doc__))
    options = parser.parse_args(arguments)
    return PARTS[options.part].run(options)
