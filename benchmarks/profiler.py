"""What learning run times is worth where stated ones are wrong: mean job times of rules, with and without it.

``exact`` knows the factor of every kind and class, and job, from the start; noise it does not know. The share is what
``NAME+profile`` recovers of the way from stated to exact. Exits with 1 if it is below one half.
"""

from __future__ import annotations

import argparse

import numpy as np

from weft import catalog
from weft.evaluation.sweep.plan_runs import realised_problem
from weft.model.problem import Problem, realise
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import run_one

CELLS = ((0.5, 0.0), (0.5, 0.5))
"""Bias and drift."""
WANTED = 0.5


def main(arguments: list[str]) -> int:
    """Measure and print a table; 1 if too little is recovered."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks profiler", description=__doc__)
    parser.add_argument("--rules", nargs="+", default=["srw", "priced"])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--load", type=float, default=0.8)
    options = parser.parse_args(arguments)
    print(f"{'bias':>5} {'drift':>5} {'rule':>8} {'stated':>8} {'learnt':>8} {'exact':>8} {'share':>6}")
    shares = []
    for bias, drift in CELLS:
        settings = {"load": options.load, "jobs": options.jobs, "tasks": 30, "noise": 0.2}
        chosen = scenario("workflows", **settings, bias=bias, drift=drift)
        streams = [chosen.dispatched("test", 0, seed) for seed in range(options.seeds)]
        for name in options.rules:
            stated, learnt, exact = (
                np.mean([_mean_time(rule, one, seed, is_exact) for seed, one in enumerate(streams)])
                for rule, is_exact in ((name, False), (f"{name}+profile", False), (name, True))
            )
            shares.append((stated - learnt) / (stated - exact))
            print(
                f"{bias:>5g} {drift:>5g} {name:>8} {stated:>8.1f} {learnt:>8.1f} {exact:>8.1f} {shares[-1]:>6.0%}"
            )
    return 0 if min(shares) >= WANTED else 1


def _mean_time(rule: str, problem: Problem, seed: int, is_exact: bool) -> float:
    """Mean job time of a rule that knows what is stated, or how wrong it is."""
    happens = realise(problem, seed)
    if is_exact:
        without_noise = realise(problem.replaced(noise=0.0), seed)
        problem = realised_problem(problem, without_noise).replaced(noise=problem.noise)
    return run_one(catalog.task_dispatcher(rule), problem, happens).mean_jct
