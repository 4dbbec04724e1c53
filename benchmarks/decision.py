"""One decision of a trained policy without torch: CPU microseconds for 31-64-64-28 with mask.

Target: at most 20 microseconds. Medians of many short loops, so that other work on the machine
shows in the spread, not in the figure.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from weft.policies.checkpoint import Architecture
from weft.policies.mlp.forward import MlpPolicy

TARGET_US = 20.0


def main(arguments: list[str]) -> int:
    """Measure and print a table; 1 if the target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks decision", description=__doc__)
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 64])
    parser.add_argument("--batch", type=int, default=200, help="observations of the batched variant")
    parser.add_argument("--loops", type=int, default=40, help="loops of 250 decisions")
    parser.add_argument("--json", metavar="FILE", help="write the figures here too, for weft report")
    options = parser.parse_args(arguments)
    cases = _cases(tuple(options.hidden), options.batch)
    figures = {name: _microseconds(decide, options.loops) for name, (decide, _) in cases.items()}
    print(f"{'variant':<28} {'CPU us':>8} {'10 %':>7} {'90 %':>7}")
    for name, (_, share) in cases.items():
        low, middle, high = (figure / share for figure in figures[name])
        print(f"{name:<28} {middle:>8.2f} {low:>7.2f} {high:>7.2f}")
    if options.json:
        medians = {name: round(figures[name][1] / share, 3) for name, (_, share) in cases.items()}
        document = {"schema": "weft/benchmark/1", "name": "decision", "unit": "us", "figures": medians}
        Path(options.json).write_text(f"{json.dumps(document, indent=2)}\n", encoding="utf-8")
    is_reached = figures["best choice"][1] <= TARGET_US
    print(f"target (best choice <= {TARGET_US:.0f} us): {'reached' if is_reached else 'missed'}")
    return 0 if is_reached else 1


def _cases(hidden: tuple[int, ...], batch: int) -> dict[str, tuple[Callable[[], object], int]]:
    """What is timed, and how many decisions each call makes."""
    plain, chained = (_policy(Architecture(31, 4, 7, hidden, is_autoregressive=x)) for x in (False, True))
    rng = np.random.default_rng(1)
    observation = rng.normal(size=(batch, 31)).astype(np.float32)
    mask = rng.random((batch, 4, 7)) < 0.5
    mask[..., -1] = True
    one, allowed = observation[0], mask[0]
    return {
        "best choice": (lambda: plain.decide(one, allowed), 1),
        "drawn choice": (lambda: plain.decide(one, allowed, rng), 1),
        "autoregressive": (lambda: chained.decide(one, allowed), 1),
        f"batch of {batch}, per decision": (lambda: plain.decide_batch(observation, mask), batch),
    }


def _policy(architecture: Architecture) -> MlpPolicy:
    rng = np.random.default_rng(0)
    shapes = architecture.shapes().items()
    weights = {name: 0.1 * rng.standard_normal(shape, np.float32) for name, shape in shapes}
    return MlpPolicy({name: array.astype(np.float32) for name, array in weights.items()}, architecture)


def _microseconds(decide: Callable[[], object], num_loops: int) -> tuple[float, float, float]:
    """Tenth, middle and ninetieth percentile of the CPU time per call."""
    times = []
    for _ in range(num_loops):
        started = time.process_time_ns()
        for _ in range(250):
            decide()
        times.append((time.process_time_ns() - started) / 250e3)
    deciles = statistics.quantiles(times, n=10)
    return deciles[0], statistics.median(times), deciles[-1]
