"""From a name to a scheduler, and the short function that shows the whole architecture.

The names are in ``weft.roster``; what they stand for is imported on use.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import plugins
from weft.errors import InputError, UnsupportedError
from weft.kinds import ELASTIC, KINDS, PROBLEMS, QUEUES, TASKS, Kind
from weft.result import Result as Result
from weft.result import duration as duration
from weft.result import quality as quality
from weft.roster import AGAIN as AGAIN
from weft.roster import ALLOCATORS as ALLOCATORS
from weft.roster import DISPATCHERS as DISPATCHERS
from weft.roster import PLAN as PLAN
from weft.roster import PLANNERS as PLANNERS
from weft.roster import POLICIES as POLICIES
from weft.roster import PROFILE as PROFILE
from weft.roster import PUT_LAST as PUT_LAST
from weft.roster import ROLES as ROLES
from weft.roster import SEARCH as SEARCH
from weft.roster import SHORTLIST as SHORTLIST
from weft.roster import VARIANTS as VARIANTS
from weft.roster import WAIT as WAIT
from weft.roster import Entry as Entry
from weft.roster import Views as Views

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.policies.learned import Learned
    from weft.schedulers.base import Planner
    from weft.schedulers.dispatchers.queues import Dispatcher
    from weft.schedulers.dispatchers.tasks import TaskDispatcher


def policy_files(name: str) -> dict[str, str]:
    """Where the cards lie of what ships under a name, by kind of run; empty if no policy has this name."""
    if name not in POLICIES:
        return {}
    root, entry = Path(__file__).resolve().parent.parent, POLICIES[name]
    return {kind: str(root / entry.home(kind)) for kind in entry.acts_on}


def policy_file(name: str, kind: Kind | None = None) -> str | None:
    """Where the card lies of what ships under a name for a kind of run (None: the first one); None if nothing does."""
    files = policy_files(name)
    return files.get(kind.name) if kind is not None else next(iter(files.values()), None)


def is_weights(name: str) -> bool:
    """Whether a name means weights: their file or card, or the folder of a run."""
    is_file = name.endswith((".json", ".safetensors", "@best", "@last"))
    return is_file or os.path.isfile(os.path.join(name, "best.json"))


def find(name: str | Any, kind: Kind) -> Any:
    """What a name stands for in one kind of run; a name that acts elsewhere only is refused with what it is.

    A name is one of the tables above, a variant of one (``NAME+wait``, ``NAME+profile``, ``plan:NAME``), weights or a run folder, a
    TOML mix of rules, code that the command line names (``mine.py:Mine``, see ``weft.plugins``), or the
    entry point of a package. Any object with ``plan`` or ``decide`` stands for itself.
    """
    if (
        not isinstance(name, str)
        and getattr(name, "name", None) in builtin_names()
        and not _own().is_of_weft(name)
    ):
        raise InputError(f"{name.name!r} is a name of weft's own: give the object another", field="scheduler")
    is_elsewhere = isinstance(name, str) and name in POLICIES and kind not in kinds_of(name)
    found = None if is_elsewhere else _FINDERS[kind.name](name)
    if found is None:
        raise _refusal(name, kind)
    return found


def planner(name: str | Any) -> Planner:
    """The planner of this name; a TOML file is a mix of rules, weights or a run plan in one shot."""
    found: Planner = find(name, PROBLEMS)
    return found


def dispatcher(name: str) -> Dispatcher:
    """The rule of this name for queues by kind; ``NAME+wait`` waits where ``NAME`` idles."""
    found: Dispatcher = _queue_rule(name) or find(name, QUEUES)
    return found


def chooser(name: str) -> Dispatcher | Learned:
    """Who decides for queues by kind: a rule, or the policy that ships, of a weights file or of a run folder."""
    found: Dispatcher | Learned = find(name, QUEUES)
    return found


def task_dispatcher(name: str | Any) -> TaskDispatcher:
    """The dispatcher of this name for single tasks.

    ``NAME+profile`` is a rule that learns run times, ``plan:NAME`` has a planner plan jobs as they arrive,
    ``plan:NAME+again`` all that has not started at every event.
    """
    found: TaskDispatcher = find(name, TASKS)
    return found


def scheduler_for(name: str | Any, problem: Problem) -> Dispatcher | Learned | TaskDispatcher:
    """Who decides under this name in the kind of run the problem needs: queues by kind, else single tasks."""
    from weft.schedulers.dispatchers.queues import refuse_stream

    if not isinstance(name, str):
        found: Dispatcher | Learned | TaskDispatcher = name
        return found if _own().is_of_weft(name) else task_dispatcher(name)
    kinds = kinds_of(name)
    if is_policy(name) and len(kinds) < 2:
        is_of_tasks = _resolved("weft.policies.checkpoint:points_at_candidates")
        return task_dispatcher(name) if is_of_tasks(policy_file(name) or name) else chooser(name)
    is_queue = QUEUES in kinds and refuse_stream(problem) is None
    return chooser(name) if is_queue else task_dispatcher(name)


def _planner(name: str | Any) -> Any:
    if not isinstance(name, str):
        return _own().as_planner(name)
    if name.endswith(".toml"):
        rules = importlib.import_module("weft.schedulers.planners.rules")
        return rules.Rule(rules.read_mix(name))
    base = name.removesuffix(SEARCH)
    weights = policy_file(base, PROBLEMS) or (base if is_weights(base) else None)
    if weights is not None:
        oneshot = importlib.import_module("weft.policies.oneshot.planner")
        return (oneshot.OneShot if base == name else oneshot.OneShotSearch)(weights)
    if name in PLANNERS:
        return _resolved(PLANNERS[name].target)(*map(_planner, PLANNERS[name].uses))
    other = None if kinds_of(name) or is_policy(name) else _outside(name)
    return None if other is None else _own().as_planner(other)


def _queue_rule(name: str) -> Any:
    base = name.removesuffix(WAIT)
    if base not in DISPATCHERS or not DISPATCHERS[base].queues:
        return None
    found = _resolved(DISPATCHERS[base].queues)
    return found.waiting() if base != name else found


def _queue_scheduler(name: str) -> Any:
    if is_policy(name):
        return _resolved("weft.policies.learned:load_learned")(policy_file(name, QUEUES) or name)
    return _queue_rule(name)


def _task_scheduler(name: str | Any) -> Any:
    if not isinstance(name, str):
        return _own().as_dispatcher(name)
    if name.startswith(PLAN):
        bare = name.removeprefix(PLAN)
        inner = planner(bare.removesuffix(AGAIN))
        made = _resolved("weft.schedulers.dispatchers.replanning:PlanDispatcher")(name, inner)
        return replace(made, at_every_event=True) if bare.endswith(AGAIN) else made
    if name.endswith(SHORTLIST):
        below = _task_scheduler(name.removesuffix(SHORTLIST))
        return below.shortlisted(name) if hasattr(below, "shortlisted") else None
    plain, last = _without_last(name)
    base = plain.removesuffix(PROFILE)
    if base in DISPATCHERS and TASKS in kinds_of(name):
        found = _resolved(DISPATCHERS[base].tasks)
        found = found.putting_last(last, name) if last else found
        return found if base == plain else replace(found, name=name, profiles=True)
    if is_policy(base):
        found = _resolved("weft.policies.of_tasks:load_task_policy")(policy_file(base, TASKS) or base)
        return replace(found, name=name, profiles=found.profiles or base != name)
    other = None if kinds_of(name) else _outside(name)
    return None if other is None else _own().as_dispatcher(other)


def _allocator(name: str | Any) -> Any:
    as_allocator = _resolved("weft.schedulers.allocators.own:as_allocator")
    if not isinstance(name, str):
        return as_allocator(name)
    if name in ALLOCATORS:
        return _resolved(ALLOCATORS[name].elastic)
    if _STATIC.fullmatch(name):
        return _resolved("weft.schedulers.allocators.rules:static_of")(name)
    if is_policy(name):
        return _resolved("weft.policies.han.allocator:load_allocator")(policy_file(name, ELASTIC) or name)
    other = None if kinds_of(name) else _outside(name)
    return None if other is None else as_allocator(other)


_STATIC = re.compile(r"static-[1-9]\d{0,3}(\+lowest)?")
_FINDERS: dict[str, Callable[[Any], Any]] = {
    PROBLEMS.name: _planner, QUEUES.name: _queue_scheduler, TASKS.name: _task_scheduler, ELASTIC.name: _allocator,
}  # fmt: skip
"""Who looks a name up in a kind of run; None: the name does not act there."""


def kinds_of(name: str) -> tuple[Kind, ...]:
    """Where the scheduler of this name that weft brings acts; nothing for other names."""
    if name.startswith(PLAN):
        return (TASKS,)
    plain, last = _without_last(name)
    if last:
        given = DISPATCHERS.get(plain)
        return (TASKS,) if given is not None and given.may_put_last else ()
    rule = DISPATCHERS.get(name.removesuffix(WAIT).removesuffix(SHORTLIST).removesuffix(PROFILE))
    acts_on = [*rule.acts_on] if rule is not None else []
    if name.endswith(WAIT):
        acts_on = [one for one in acts_on if one == QUEUES.name]
    if name.endswith((PROFILE, SHORTLIST)):
        acts_on = [TASKS.name] if rule is not None and rule.may_profile else []
    if name in PLANNERS:
        acts_on.append(PROBLEMS.name)
    if name in ALLOCATORS or _STATIC.fullmatch(name):
        acts_on.append(ELASTIC.name)
    if name in POLICIES:
        acts_on += POLICIES[name].acts_on
    return tuple(kind for kind in KINDS.values() if kind.name in acts_on)


def _without_last(name: str) -> tuple[str, str]:
    """A name without the suffix that says what is put last, and what that is; empty: nothing."""
    for suffix, what in PUT_LAST.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix), what
    return name, ""


def _resolved(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def is_limited(name: str) -> bool:
    """Whether a planner of this name goes on until its budget or effort is spent."""
    base = name.removesuffix(SEARCH)
    is_learned = policy_file(base) is not None or is_weights(base) or base == "oneshot"
    is_search = PLANNERS[name].is_search if name in PLANNERS else not name.endswith(".toml")
    return is_learned or is_search


def _own() -> Any:
    return importlib.import_module("weft.schedulers.own")


def _outside(name: str) -> Any | None:
    """What a name that is not built in stands for: code the user named, or an entry point; None: nothing."""
    return plugins.find(plugins.SCHEDULERS, name, builtin_names(), "scheduler")


def builtin_names() -> frozenset[str]:
    """All names that are weft's own."""
    return frozenset((*PLANNERS, *DISPATCHERS, *ALLOCATORS, *POLICIES))


def _refusal(name: str, kind: Kind) -> InputError:
    """Why a name does not act in a kind of run: what it is, or that it is unknown."""
    run, _, which = name.removesuffix(SEARCH).rpartition("@")
    if run and os.path.isdir(run) and which not in ("best", "last"):
        return InputError(f"expected {run}@best or {run}@last, got @{which}", field="scheduler")
    elsewhere = kinds_of(name)
    if not elsewhere and _outside(name) is not None:
        elsewhere = (TASKS,)  # dispatchers of others decide task by task
    if elsewhere:
        return InputError(_what_it_is(name, elsewhere, kind), field="scheduler")
    here = [one for one in (*PLANNERS, *DISPATCHERS, *ALLOCATORS) if kind in kinds_of(one)]
    base = name.partition("+")[0]
    close = difflib.get_close_matches(base, here, 1) or [one for one in here if one.startswith(f"{base}-")]
    hint = f"; did you mean {close[0]!r}?" if close else ""
    if name.endswith(".py"):
        hint = f"; name the class too: {name}:NAME"
    return InputError(f"no {kind.role} {name!r}{hint} (weft schedulers lists them)", field="scheduler")


def _what_it_is(name: str, elsewhere: tuple[Kind, ...], wanted: Kind) -> str:
    acts = " and ".join(kind.words for kind in elsewhere)
    if elsewhere == (ELASTIC,):
        return f"{name} is an allocator: it acts on {acts}, not on {wanted.words}"
    if wanted is PROBLEMS:
        hint = (
            f"; weft evaluate FILE -s {name} runs it, or workflows with --set load=0.8"
            if TASKS in elsewhere
            else ""
        )
        return f"{name} is a dispatcher: it decides while jobs arrive and run, and makes no plan{hint}"
    if elsewhere == (PROBLEMS,):
        hint = f"; {PLAN}{name} plans jobs as they arrive" if wanted is TASKS else ""
        return f"{name} is a planner: it acts on {acts}, not on {wanted.words}{hint}"
    return f"{name} acts on {acts}, not on {wanted.words}"


_WEIGHTS = (".safetensors", ".json")


def is_run(name: str) -> bool:
    """Whether a name stands for a policy of a run folder."""
    return name.endswith(("@best", "@last")) or (name not in POLICIES and Path(name).is_dir())


def is_policy(name: str) -> bool:
    """Whether a name stands for a policy: one that ships, a weights file or a run folder."""
    return name in POLICIES or Path(name).suffix in _WEIGHTS or is_run(name)


def schedule(
    problem: Problem,
    scheduler: str | Any = "heft",
    *,
    seed: int = 0,
    budget: float | None = None,
    effort: int | None = None,
) -> Result:
    """Plan a problem: find the planner, ask whether it can, plan, and report.

    Parameters
    ----------
    scheduler
        Name of a planner, weights, a mix, or any object with ``name`` and ``plan``.
    budget
        Wall seconds for planners that search; the result is then not repeatable.
    effort
        Number of evaluations for planners that search; repeatable.
    """
    import logging

    from weft.schedulers.base import Limit, is_stopped

    _refuse_other(problem)
    chosen = planner(scheduler)
    name = scheduler if isinstance(scheduler, str) else chosen.name
    reason = chosen.supports(problem)
    if reason is not None:
        raise UnsupportedError(f"{name}: {reason}", field="scheduler")
    warm(scheduler)  # neither budget nor seconds are for compiling
    limit = Limit(budget, effort)
    started = time.perf_counter()
    plan = chosen.plan(problem, seed=seed, limit=limit)
    seconds = time.perf_counter() - started
    logging.getLogger(__name__).info("%s planned %s in %s", name, problem.name, duration(seconds))
    is_limited_one = not isinstance(scheduler, str) or is_limited(scheduler)
    is_ended = is_limited_one and (not limit.is_repeatable or is_stopped())
    is_repeatable = not is_ended and not getattr(chosen, "is_cut", False)
    return Result(name, plan, seconds, seed, is_repeatable, getattr(chosen, "note", ""))


def _refuse_other(problem: object) -> None:
    """A file name in place of a problem is the first thing a person tries."""
    from weft.model.problem import Problem

    if not isinstance(problem, Problem):
        is_name = isinstance(problem, str | os.PathLike)
        hint = f"; read the file first: weft.read_problem({str(problem)!r})" if is_name else ""
        raise InputError(f"expected a weft.Problem, got {type(problem).__name__}{hint}", field="problem")


_warmed: list[str | type] = []


def warm(scheduler: str | Any) -> None:
    """Load or compile the kernels of a planner, once per process; objects of one class need the same."""
    key = scheduler if isinstance(scheduler, str | type) else type(scheduler)
    if key not in _warmed:
        _warmed.append(key)
        from weft.doctor import warm as plan_tiny

        plan_tiny((scheduler,))
