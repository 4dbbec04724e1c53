"""How schedulers follow a branch that drifts: estimates and job times, arrival by arrival.

Rows hold means over whole streams, so the streams are played again with the same seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.catalog import chooser
from weft.evaluation.sweep.claims import shown_name
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.queue_runs import Outcome, play, workload_seed
from weft.evaluation.sweep.runner import Progress, Sweep
from weft.evaluation.sweep.stream_bounds import branch_probabilities
from weft.model.graph import Floats, Ints
from weft.policies.learned import Learned
from weft.scenarios import Scenario

WINDOWS = 40
"""Windows that fit into a stream side by side."""
POINTS = 400
"""Most points of a curve."""


@dataclass(frozen=True, eq=False)
class Adaptation:
    """One drifting stream under several schedulers; cells that differ in ``forget`` alone are together."""

    title: str
    time_unit: str
    probability: Floats  # (num_seeds, num_jobs) of the branch that drifts
    estimates: dict[str, Floats]
    """Label -> (num_seeds, num_jobs); one for each ``forget``, of the first policy."""
    job_times: dict[str, Floats]
    """Label -> (num_seeds, num_jobs) from arrival to end; policies first."""

    @property
    def num_seeds(self) -> int:
        """Number of streams."""
        return len(self.probability)

    @property
    def is_drawn(self) -> bool:
        """Whether every seed has a probability of its own."""
        return bool((self.probability != self.probability[0]).any())

    @property
    def window(self) -> int:
        """Jobs over which times are averaged."""
        return max(1, self.probability.shape[1] // WINDOWS)

    @property
    def jobs(self) -> Ints:
        """Jobs at which curves are drawn: the middles of whole windows."""
        first = self.window // 2
        last = self.probability.shape[1] - self.window + first
        return np.unique(np.linspace(first, last, min(POINTS, last - first + 1)).astype(np.int64))

    def windowed(self, times: Floats) -> Floats:
        """(num_seeds, len(jobs)) mean over the window around each of the jobs."""
        upto = np.concatenate([np.zeros((len(times), 1)), np.cumsum(times, axis=1)], axis=1)
        begin = self.jobs - self.window // 2
        return (upto[:, begin + self.window] - upto[:, begin]) / self.window


def adaptations(found: Evaluation, progress: Progress | None = None) -> Iterator[Adaptation]:
    """One for every drifting stream of a sweep, whatever ``forget`` is; none where nothing drifts."""
    together: dict[str, list[Scenario]] = {}
    if found.sweep is None:  # only what was run here is played again
        return
    for cell in found.sweep.cells:
        if cell.settings.get("drift", "none") != "none":
            together.setdefault(_without_forget(cell), []).append(cell)
    total = sum(len(cells) for cells in together.values()) * len(found.sweep.schedulers)
    done = 0
    for label, cells in together.items():
        played: list[tuple[Scenario, str, Outcome]] = []
        for cell, name in ((cell, name) for cell in cells for name in found.sweep.schedulers):
            if cell is cells[0] or isinstance(chooser(name), Learned):
                played.append((cell, name, _played(found.sweep, cell, name)))
            done += 1
            if progress is not None:
                progress(done, total)
        yield _adaptation(f"{cells[0].name} {label}".strip(), played)


def _played(sweep: Sweep, cell: Scenario, name: str) -> Outcome:
    problem = cell.problem_name(sweep.split, 0)
    seeds = [workload_seed(cell.recipe.seed, problem, seed) for seed in sweep.seeds]
    return play(name, cell.stream(sweep.split, 0), seeds, records=True)


def _adaptation(title: str, played: list[tuple[Scenario, str, Outcome]]) -> Adaptation:
    first = played[0][2]
    estimates: dict[str, Floats] = {}
    times: dict[str, Floats] = {}
    rules: dict[str, Floats] = {}
    policies = [name for _, name, outcome in played if outcome.estimates.size]
    for _, name, outcome in played:
        memory = f"forget {outcome.setup.rules.forget or 1.0:g}"
        if not outcome.estimates.size:
            rules[shown_name(name)] = outcome.job_times
            continue
        times[f"{shown_name(name)}, {memory}"] = outcome.job_times
        if name == policies[0]:
            estimates[f"estimate, {memory}"] = outcome.estimates
    unit = first.setup.problem.graph.time_unit
    return Adaptation(title, unit, branch_probabilities(first.setup, first.seeds), estimates, times | rules)


def _without_forget(cell: Scenario) -> str:
    """The label of a cell without ``forget``, and how it drifts."""
    parts = [part for part in cell.label.split(",") if part and not part.startswith("forget=")]
    named = [part.partition("=")[0] for part in parts]
    own = [f"{key}={cell.settings[key]}" for key in _shown_settings(cell) if key not in named]
    return ", ".join([*own, *parts])


def _shown_settings(cell: Scenario) -> tuple[str, ...]:
    kind = cell.settings["drift"]
    return ("p_c", "drift", *(("drift_steps", "drift_size") if kind == "walk" else ("drift_to",)), "drift_at")
