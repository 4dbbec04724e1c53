"""Decoder throughput: schedules per second from batches of priority lists, on one core.

CPU time, best of several. Every makespan of the first batch is compared with the one of its list
decoded alone. Target: at least 20,000 schedules per second on graphs of 200 tasks, batches of 512.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from weft.model import Problem
from weft.model.generate import generate, jobshop, jobshop_cluster, opgraph_cluster, tpch_cluster, tpch_like
from weft.model.graph import Floats
from weft.schedulers.planners.rules import ACTIVE, BACKFILL, WAIT, Decoder

PER_SECOND = 20_000.0
TARGETED = ("opgraph-layered", "opgraph-er", "opgraph-sbm")
"""What the target is about; the other sets are printed beside them."""


def main(arguments: list[str]) -> int:
    """Measure every set and decoder; 1 if the target was missed or a batch differs from single lists."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks decoder", description=__doc__)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=15, help="batches per line, of which the best counts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    print(f"batches of {options.batch} lists, one core, CPU time, best of {options.repeat}")
    print(f"{'set':<16} {'tasks':>5} {'decoder':<9} {'ms/batch':>9} {'schedules/s':>12}   batch = single")
    reached = True
    for name, problem in problems(options.tasks, options.seed).items():
        decoder = Decoder(problem)
        lists = rng.random((options.batch, problem.num_tasks))
        for kind in (BACKFILL, WAIT, ACTIVE) if decoder.is_active_possible else (BACKFILL, WAIT):
            seconds, makespans = time_batch(decoder, lists, kind, options.repeat)
            is_same = bool((makespans == decoded_alone(decoder, lists, kind)).all())
            rate = options.batch / seconds
            reached &= is_same and (name not in TARGETED or rate >= PER_SECOND)
            print(
                f"{name:<16} {problem.num_tasks:>5} {kind:<9} {seconds * 1e3:>9.2f} {rate:>12,.0f}   "
                f"{'yes' if is_same else 'NO'}",
                flush=True,
            )
    print(f"target (>= {PER_SECOND:,.0f}/s on the opgraphs): {'reached' if reached else 'missed'}")
    return 0 if reached else 1


def problems(size: int, seed: int) -> dict[str, Problem]:
    """Operator graphs on six devices, a job shop on ten machines, queries on one pool."""
    found = {name: Problem(generate(name, size, seed=seed), opgraph_cluster()) for name in TARGETED}
    found["jobshop"] = Problem(jobshop(max(1, size // 10), 10, seed=seed), jobshop_cluster(10))
    found["tpch-like"] = Problem(tpch_like(max(1, size // 9), seed=seed), tpch_cluster())
    return found


def time_batch(decoder: Decoder, lists: Floats, kind: str, repeat: int) -> tuple[float, Floats]:
    """Least CPU seconds for the batch, and its makespans."""
    makespans = decoder.makespans(lists, kind)
    seconds = []
    for _ in range(repeat):
        started = time.process_time()
        decoder.makespans(lists, kind)
        seconds.append(time.process_time() - started)
    return min(seconds), makespans


def decoded_alone(decoder: Decoder, lists: Floats, kind: str) -> Floats:
    """Makespan of every list, decoded by itself into a schedule."""
    return np.array([decoder.schedule(priority, kind).makespan for priority in lists])
