"""The picture of README.md: a plan as a Gantt chart, and the shipped policy beside the rules.

Left, the workflow of examples/pipeline.json on the machines of examples/cluster.toml. Right, the
mean job time on the stream ``conditional`` over the probability that a job takes its light branch,
as a percentage of that of ``fifo``. Everything is planned and simulated anew.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import weft

ROOT = Path(__file__).resolve().parent.parent
PALETTE = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#8C8C8C")
PLANNER = "perturbed"
POLICY = "ppo"
RULES = {
    "fifo": ("#8C8C8C", "o"),
    "mru": ("#CC79A7", "v"),
    "depth-first": ("#E69F00", "s"),
    "batch-fifo": ("#56B4E9", "D"),
    "heavy-last-1": ("#009E73", "^"),
    "heavy-last-3": ("#005F45", "<"),
    "heavy-last-5": ("#7A5C00", ">"),
}
"""Rule -> its colour and mark."""


def main(arguments: list[str]) -> int:
    """Plan, simulate and draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks front", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--out", default=str(ROOT / "docs" / "figures" / "front.png"))
    options = parser.parse_args(arguments)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 3.9), dpi=110, layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    _draw_plan(left)
    _draw_stream(right, options.jobs, options.seeds)
    figure.savefig(options.out)
    print(f"wrote {options.out}, {Path(options.out).stat().st_size / 1000:.0f} kB")
    return 0


def _draw_plan(axes: Any) -> None:
    """Bars by device, coloured by kind of task."""
    problem = weft.read_problem(
        ROOT / "examples" / "pipeline.json", cluster=ROOT / "examples" / "cluster.toml"
    )
    plan = weft.schedule(problem, PLANNER).schedule
    graph = problem.jobs[0].graph
    devices = problem.cluster.device_names
    for row in range(len(plan.task)):
        of = int(graph.kind[plan.task[row]])
        hatch = "...." if of >= len(PALETTE) else ""
        colour, width = PALETTE[of % len(PALETTE)], plan.finish[row] - plan.start[row]
        axes.barh(
            int(plan.device[row]), width, 0.78, plan.start[row],
            color=colour, hatch=hatch, edgecolor="white", linewidth=0.6, label=graph.kinds[of],
        )  # fmt: skip
    axes.axvline(plan.bound.value, color="black", linestyle="--", linewidth=1.1)
    axes.set_yticks(range(len(devices)), devices)
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.01 * plan.makespan)
    axes.set_xlabel(f"time ({plan.time_unit}); dashed: no plan can be shorter")
    axes.set_title(f"Plan: {problem.num_tasks} tasks, {len(devices)} unequal machines, {plan.makespan:.0f} s")
    found = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(
        found.values(),
        found,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.17),
        ncols=4,
        fontsize=8,
        frameon=False,
    )
    _clean(axes)


def _draw_stream(axes: Any, jobs: int, seeds: int) -> None:
    """Mean job times over the probability of the light branch, in percent of those of fifo."""
    settings = {"p_c": "0:1:0.2", "jobs": jobs}
    found = weft.evaluate("conditional", [*RULES, POLICY], settings=settings, seeds=seeds)
    places = [float(str(cell.settings["p_c"])) for cell in found.cells]
    times = {
        name: np.array([found.sum_up("mean_jct", cell.label, name).mean for cell in found.cells])
        for name in found.schedulers
    }
    for name, mean in times.items():
        colour, mark = RULES.get(name, ("#D5320E", "*"))
        is_policy = name == POLICY
        axes.plot(
            places, 100.0 * mean / times["fifo"], color=colour, marker=mark, markersize=9 if is_policy else 4,
            linewidth=2.6 if is_policy else 1.1, label=f"{name} (learned)" if is_policy else name,
            zorder=3 if is_policy else 2,
        )  # fmt: skip
    axes.set_xlabel("probability that a job takes the light branch")
    axes.set_ylabel("mean job time, % of fifo")
    axes.set_title(f"Learned policy and rules: {jobs:,} jobs arriving, {seeds} seeds")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=4, fontsize=8, frameon=False)
    _clean(axes)


def _clean(axes: Any) -> None:
    axes.title.set_fontsize(11)
    axes.spines[["top", "right"]].set_visible(False)
