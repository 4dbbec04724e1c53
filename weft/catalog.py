"""Names of schedulers and the short function that shows the whole architecture.

Entries are strings resolved on use, so listing them imports nothing.
"""

from __future__ import annotations

import difflib
import importlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.model.schedule import Schedule
    from weft.policies.learned import Learned
    from weft.schedulers.base import Planner
    from weft.schedulers.dispatch import Dispatcher
    from weft.schedulers.dispatch_tasks import TaskDispatcher


@dataclass(frozen=True)
class Entry:
    """One named scheduler: where it lives and what it is good at."""

    target: str
    summary: str
    is_search: bool = False
    """Whether it searches, and so is left out of a comparison unless asked for."""
    uses: tuple[str, ...] = ()
    """Names of planners it is made with."""


# fmt: off
PLANNERS: dict[str, Entry] = {
    "heft": Entry("weft.schedulers.listing:Heft", "upward rank, insertion, earliest finish; the standard to beat"),
    "cpop": Entry("weft.schedulers.listing:Cpop", "keeps the critical path on one device; good when it dominates"),
    "peft": Entry("weft.schedulers.listing:Peft", "a cost table looks ahead to the exit; wide clusters, high CCR"),
    "lookahead": Entry("weft.schedulers.listing:Lookahead", "HEFT that tries each device on the children; fan-in graphs"),
    "deft": Entry("weft.schedulers.listing:Deft", "HEFT order, may copy one parent per step; strong and cheap at high CCR"),
    "fifo-deft": Entry("weft.schedulers.listing:FifoDeft", "ready order with copies; a baseline of learned schedulers"),
    "tdca": Entry("weft.schedulers.duplication:Tdca", "clustering with copies, a reconstruction; trees, high CCR"),
    "min-min": Entry("weft.schedulers.listing:MinMin", "always the task that can finish first; independent tasks"),
    "random": Entry("weft.schedulers.listing:Random", "random order and devices; the floor of any comparison"),
    "perturbed": Entry("weft.schedulers.listing:Perturbed", "best of many HEFTs with noisy ranks; cheap search", True),
    "spt": Entry("weft.schedulers.rules:spt", "shortest task first; mean flow time"),
    "mwkr": Entry("weft.schedulers.rules:mwkr", "most work remaining first; the classic job-shop rule"),
    "mopnr": Entry("weft.schedulers.rules:mopnr", "most operations remaining first; job shops of equal tasks"),
    "cp": Entry("weft.schedulers.rules:cp", "critical path first, others may overtake; pools and stage graphs"),
    "cp-wait": Entry("weft.schedulers.rules:cp_wait", "critical path first, nobody overtakes; big tasks in a pool"),
    "cp-area": Entry("weft.schedulers.rules:cp_area", "critical path plus heaviest path; crowded pools"),
    "ratio": Entry("weft.schedulers.rules:ratio", "smallest share of the work left first; best one-line job-shop rule"),
    "tabu": Entry("weft.schedulers.tabu:Tabu", "tabu search on device orders; job shops, tasks with given devices", True),
    "search": Entry("weft.schedulers.search:Search", "improves priorities, devices and copies until the limit", True),
    "exact": Entry("weft.schedulers.exact:Exact", "CP-SAT with a proof; up to about 30 tasks, or small job shops", True),
    "oneshot": Entry("weft.policies.oneshot:OneShot", "learned priorities and devices in one pass, best of --samples draws"),
    "oneshot+search": Entry("weft.policies.oneshot:OneShotSearch", "oneshot, then tabu or local search from its best", True),
    "auto": Entry("weft.schedulers.auto:Auto", "the best of all of these for the time there is", True, ("oneshot",)),
}

_DISPATCH = "weft.schedulers.dispatch"
DISPATCHERS: dict[str, Entry] = {
    "fifo": Entry(f"{_DISPATCH}:fifo", "oldest job first; fair, and hard to beat when little is heavy"),
    "mru": Entry(f"{_DISPATCH}:mru", "stays with the kind served last; few changes of kind"),
    "depth-first": Entry(f"{_DISPATCH}:depth_first", "kinds deepest in the graph first; finishes what was begun"),
    "random": Entry(f"{_DISPATCH}:random", "any kind that waits; the floor of any comparison"),
    "top-first": Entry(f"{_DISPATCH}:top_first", "kinds highest in the graph first; large batches, long queues"),
    "round-robin": Entry(f"{_DISPATCH}:round_robin", "kinds in turn; no kind starves"),
    "shortest-first": Entry(f"{_DISPATCH}:shortest_first", "kinds with the shortest run time first; many short tasks"),
    "longest-first": Entry(f"{_DISPATCH}:longest_first", "kinds with the longest run time first; heavy tasks on time"),
    "batch-fifo": Entry(f"{_DISPATCH}:batch_fifo", "oldest job first, on the smallest device its queue fills"),
    "batch-mru": Entry(f"{_DISPATCH}:batch_mru", "the kind served last, on the smallest device its queue fills"),
    "batch-depth": Entry(f"{_DISPATCH}:batch_depth", "deepest kind, on the smallest device its queue fills"),
    "heavy-last": Entry(f"{_DISPATCH}:heavy_last", "heavy kinds on the largest device only; unequal devices and tasks"),
    "heavy-last-1": Entry(f"{_DISPATCH}:heavy_last_1", "heavy-last from one waiting heavy task on"),
    "heavy-last-3": Entry(f"{_DISPATCH}:heavy_last_3", "heavy-last, one small device helps; when heavy tasks are rare"),
    "heavy-last-5": Entry(f"{_DISPATCH}:heavy_last_5", "heavy-last from three waiting on; when heavy tasks are common"),
    "edf": Entry(f"{_DISPATCH}:edf", "earliest deadline first; with equal deadlines the oldest job"),
    "eft": Entry(f"{_DISPATCH}:eft", "oldest job to the device where it finishes first, or wait for it"),
    "srw": Entry(f"{_DISPATCH}:srw", "shortest expected remaining work first, to the earliest finish; mean job time"),
    "heft-expected": Entry(f"{_DISPATCH}:heft_expected", "upward rank as an expectation over branches; makespan"),
    "heft-estimated": Entry(f"{_DISPATCH}:heft_estimated", "heft-expected with branch probabilities as observed so far"),
}
"""NAME+wait is the variant of a rule that waits for the next event where the rule idles."""

_TASKS = "weft.schedulers.dispatch_tasks"
TASK_DISPATCHERS: dict[str, Entry] = {
    "fifo": Entry(f"{_TASKS}:fifo", "oldest job first, to the idle device where it finishes first"),
    "shortest-first": Entry(f"{_TASKS}:shortest_first", "shortest task first, to the idle device where it finishes first"),
    "edf": Entry(f"{_TASKS}:edf", "earliest deadline first, to the idle device where it finishes first"),
    "random": Entry(f"{_TASKS}:random", "any order, to the idle device where it finishes first"),
    "eft": Entry(f"{_TASKS}:eft", "oldest job first, to the earliest finish on any device, or wait for it"),
    "srw": Entry(f"{_TASKS}:srw", "job with the least work left first, to the earliest finish on any device; mean job time"),
    "heft": Entry(f"{_TASKS}:heft", "one global upward rank, to the earliest finish on any device; a single job under noise"),
    "heft-job": Entry("weft.schedulers.replan:heft_job", "plans each arriving job with HEFT around what is committed"),
    "priced": Entry(f"{_TASKS}:priced", "srw with critical paths, prices of scarce devices, late starts; the strongest rule"),
}
"""Names for problems with several jobs, transfers, capacities or noise; ``plan:NAME`` wraps a planner."""
# fmt: on

PLAN = "plan:"
"""Prefix of a planner that acts as a dispatcher."""
ROLES: dict[str, dict[str, Entry]] = {
    "planner": PLANNERS,
    "dispatcher": DISPATCHERS | {k: e for k, e in TASK_DISPATCHERS.items() if k not in DISPATCHERS},
}


POLICIES: dict[str, Entry] = {
    "conditional-ppo": Entry(
        "weft/policies/zoo/conditional-ppo.json", "PPO policy trained on the conditional stream"
    ),
    "ppo": Entry("weft/policies/zoo/conditional-ppo.json", "the same, by its short name"),
    "jobshop-oneshot": Entry("weft/policies/zoo/jobshop-oneshot.json", "one-shot planner of job shops"),
    "graphs-oneshot": Entry("weft/policies/zoo/graphs-oneshot.json", "one-shot planner under capacities"),
    "workflows-oneshot": Entry(
        "weft/policies/zoo/workflows-oneshot.json", "one-shot planner of workflows with transfers"
    ),
}
"""Policies that ship: name to card, relative to the package's parent."""


def policy_file(name: str) -> str | None:
    """Where the card of a policy that ships lies; None if no policy has this name."""
    if name not in POLICIES:
        return None
    return str(Path(__file__).resolve().parent.parent / POLICIES[name].target)


def is_weights(name: str) -> bool:
    """Whether a name means weights: their file or card, or the folder of a run."""
    is_file = name.endswith((".json", ".safetensors", "@best", "@last"))
    return is_file or os.path.isfile(os.path.join(name, "best.json"))


def planner(name: str) -> Planner:
    """The planner of this name; a TOML file is a mix of rules, weights or a run plan in one shot."""
    if name.endswith(".toml"):
        rules = importlib.import_module("weft.schedulers.rules")
        mixed: Planner = rules.Rule(rules.read_mix(name))
        return mixed
    weights = policy_file(name) or (name if is_weights(name) else None)
    if weights is not None:
        learned: Planner = importlib.import_module("weft.policies.oneshot").OneShot(weights)
        return learned
    if name not in PLANNERS:
        close = difflib.get_close_matches(name, PLANNERS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"no planner {name!r}{hint} (weft schedulers lists them)", field="scheduler")
    entry = PLANNERS[name]
    module, _, attribute = entry.target.partition(":")
    found: Planner = getattr(importlib.import_module(module), attribute)(*map(planner, entry.uses))
    return found


def dispatcher(name: str) -> Dispatcher:
    """The dispatcher of this name; ``NAME+wait`` waits where ``NAME`` idles."""
    base, plus, _ = name.partition("+wait")
    if name in TASK_DISPATCHERS and name not in DISPATCHERS:
        raise InputError(
            f"{name} acts on problems with several jobs, not on queues by kind", field="scheduler"
        )
    if base not in DISPATCHERS or name != base + plus:
        close = difflib.get_close_matches(base, DISPATCHERS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"no dispatcher {name!r}{hint} (weft schedulers lists them)", field="scheduler")
    module, _, attribute = DISPATCHERS[base].target.partition(":")
    found: Dispatcher = getattr(importlib.import_module(module), attribute)
    return found.waiting() if plus else found


def task_dispatcher(name: str) -> TaskDispatcher:
    """The dispatcher of this name for problems with several jobs; ``plan:NAME`` wraps a planner."""
    found: TaskDispatcher
    if name.startswith(PLAN):
        inner = planner(name.removeprefix(PLAN))
        found = importlib.import_module("weft.schedulers.replan").PlanDispatcher(name, inner)
        return found
    if name not in TASK_DISPATCHERS:
        close = difflib.get_close_matches(name, TASK_DISPATCHERS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"no dispatcher {name!r}{hint} (weft schedulers lists them)", field="scheduler")
    module, _, attribute = TASK_DISPATCHERS[name].target.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    return found


def dispatcher_for(name: str, problem: Problem) -> Dispatcher | TaskDispatcher:
    """The dispatcher of this name in the view the problem needs: queues by kind, else single tasks."""
    from weft.schedulers.dispatch import refuse_stream

    is_queue = name.partition("+wait")[0] in DISPATCHERS and refuse_stream(problem) is None
    return dispatcher(name) if is_queue else task_dispatcher(name)


_WEIGHTS = (".safetensors", ".json")


def is_policy(name: str) -> bool:
    """Whether a name stands for a policy: one that ships, a weights file or a run folder."""
    is_file = Path(name).suffix in _WEIGHTS or name.endswith(("@best", "@last"))
    return name in POLICIES or is_file or Path(name).is_dir()


def chooser(name: str) -> Dispatcher | Learned:
    """The dispatcher of this name, or the policy that ships, of a weights file or of a run folder."""
    if not is_policy(name):
        return dispatcher(name)
    load = importlib.import_module("weft.policies.learned").load_learned
    learned: Learned = load(policy_file(name) or name)
    return learned


def scheduler_for(name: str, problem: Problem) -> Dispatcher | Learned | TaskDispatcher:
    """The policy of this name, or the dispatcher of this name in the view the problem needs."""
    return chooser(name) if is_policy(name) else dispatcher_for(name, problem)


@dataclass(frozen=True)
class Result:
    """A schedule and how it came about."""

    scheduler: str
    schedule: Schedule
    seconds: float
    """Wall time of planning, compilation excluded."""
    seed: int
    is_repeatable: bool
    """Whether the same seed gives the same schedule (not so under a wall-time budget)."""
    note: str = ""
    """What the scheduler has to say, e.g. which member of a portfolio won."""

    def __str__(self) -> str:
        plan = self.schedule
        return (
            f"{self.scheduler}: makespan {plan.makespan:.6g} {plan.time_unit}, {quality(plan)}, "
            f"planned in {duration(self.seconds)}"
        )


def quality(plan: Schedule) -> str:
    """How far from the optimum a schedule may be, in words, and among which schedules."""
    bound = plan.bound
    among = "" if bound.copies else " among schedules without copies"
    known = f"bound {bound.value:.6g} by {bound.method}"
    if plan.gap_percent < 1e-7:
        return f"optimal{among} ({known})"
    if plan.gap_percent == float("inf"):
        return "no lower bound above 0 is known"
    most = f"at most {plan.gap_percent:.1f}" if plan.gap_percent >= 0.05 else "less than 0.1"
    return f"{most} % above the optimum{among} ({known})"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    for limit, scale, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds / 60:.3g} min"


def schedule(
    problem: Problem,
    scheduler: str = "heft",
    *,
    seed: int = 0,
    budget: float | None = None,
    effort: int | None = None,
) -> Result:
    """Plan a problem: find the planner, ask whether it can, plan, and report.

    Parameters
    ----------
    budget
        Wall seconds for planners that search; the result is then not repeatable.
    effort
        Number of evaluations for planners that search; repeatable.
    """
    from weft.schedulers.base import Limit

    _refuse_other(problem)
    chosen = planner(scheduler)
    reason = chosen.supports(problem)
    if reason is not None:
        raise UnsupportedError(f"{scheduler}: {reason}", field="scheduler")
    _warm(scheduler)  # neither budget nor seconds are for compiling
    limit = Limit(budget, effort)
    started = time.perf_counter()
    plan = chosen.plan(problem, seed=seed, limit=limit)
    seconds = time.perf_counter() - started
    return Result(scheduler, plan, seconds, seed, limit.is_repeatable, getattr(chosen, "note", ""))


def _refuse_other(problem: object) -> None:
    """A file name in place of a problem is the first thing a person tries."""
    from weft.model.problem import Problem

    if not isinstance(problem, Problem):
        is_name = isinstance(problem, str | os.PathLike)
        hint = f"; read the file first: weft.read_problem({str(problem)!r})" if is_name else ""
        raise InputError(f"expected a weft.Problem, got {type(problem).__name__}{hint}", field="problem")


_warmed: list[str] = []


def _warm(scheduler: str) -> None:
    """Load or compile the kernels of a planner, once per process."""
    if scheduler not in _warmed:
        _warmed.append(scheduler)
        importlib.import_module("weft.doctor").warm((scheduler,))
