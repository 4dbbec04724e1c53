"""A run in a few lines: what was planned, what happened, why, and where the time went."""

from __future__ import annotations

from weft.evaluation.executed.executed import Executed
from weft.evaluation.executed.records import CANCELLED, FAILED, LOST, Attempt
from weft.wording import count, number, percent


def summary(run: Executed) -> str:
    """Three to six lines for a terminal."""
    return "\n".join(lines(run))


def lines(run: Executed) -> list[str]:
    """The same, line by line; the first one is the conclusion."""
    found = [conclusion(run), why(run), _done(run), _idle(run), _trouble(run), _others(run)]
    return [line for line in found if line]


def conclusion(run: Executed) -> str:
    """What was planned, what it was, and how far that is apart."""
    unit = run.time_unit
    took = f"{number(run.makespan, 4)} {unit}"
    end = {
        True: "",
        False: f" The run was stopped: {run.reason or 'no reason given'}.",
        None: " Its history has no end.",
    }
    ended = (
        end[run.is_ok] if run.is_ok is not False or not any(j.outcome == "failed" for j in run.jobs) else ""
    )
    error = run.error_percent
    if error is None:
        return f"{run.scheduler} on {run.on} took {took}; nothing was planned beforehand.{ended}"
    planned = f"{number(run.planned_makespan, 4)} {unit}"
    return f"{run.scheduler} on {run.on}: planned {planned}, actual {took}, {percent(error, '+')}.{ended}"


def why(run: Executed) -> str:
    """The largest parts of the difference, along the chain that ended the run."""
    planned = run.planned_makespan
    if not planned or not run.chain:
        return ""
    least = 0.002 * planned
    parts = sorted(run.why.items(), key=lambda part: -abs(part[1]))
    said = [f"{cause} {time:+.3g} {run.time_unit}" for cause, time in parts if abs(time) > least][:4]
    of = f"the {count(len(run.chain), 'execution')} that its end waited for"
    return f"Why, along {of}: {', '.join(said)}." if said else f"Along {of}, all went as planned."


def _done(run: Executed) -> str:
    left = [
        f"{sum(task.outcome == outcome for task in run.tasks)} {outcome}"
        for outcome in ("failed", "dropped", "skipped", "open")
        if any(task.outcome == outcome for task in run.tasks)
    ]
    jobs = ""
    if len(run.jobs) > 1 and run.mean_job_time is not None:
        mean, p99 = (f"{number(time, 4)} {run.time_unit}" for time in (run.mean_job_time, run.p99_job_time))
        jobs = f"; {count(len(run.jobs), 'job')}, mean {mean}, p99 {p99}"
    if run.deadlines:
        jobs += f"; {run.missed} of {count(run.deadlines, 'deadline')} missed"
    rest = f", {', '.join(left)}" if left else ""
    rate = f"{number(run.throughput, 3)} per second"
    return f"{run.num_done} of {count(len(run.tasks), 'task')} done{rest}, {rate}{jobs}."


def _idle(run: Executed) -> str:
    total = sum(worker.busy + worker.idle_time for worker in run.workers)
    if not total:
        return ""
    busy = sum(worker.busy for worker in run.workers)
    parts = sorted(run.idle.items(), key=lambda part: -part[1])
    said = [f"{cause} {percent(100 * time / total)}" for cause, time in parts if time > 0.0005 * total]
    return f"Workers were busy {percent(100 * busy / total)} of the time" + (
        f"; idle: {', '.join(said)}." if said else "."
    )


def _trouble(run: Executed) -> str:
    """What went wrong, where anything did."""
    parts = [
        count(sum(_has_failed(one) for one in run.attempts), "failed attempt"),
        count(sum(one.outcome == LOST for one in run.attempts), "lost attempt"),
        count(sum(worker.losses for worker in run.workers), "lost worker"),
    ]
    said = [part for part in parts if not part.startswith("0 ")]
    said += [f"{count(run.inversions, 'pair')} of tasks against the planned order"] if run.inversions else []
    said += [f"{count(len(run.faults), 'broken promise')}: weft validate names them"] if run.faults else []
    said += [f"resumed {count(run.drivers - 1, 'time')}"] if run.drivers > 1 else []
    slow = [f"{device} x{factor:.3g}" for device, factor in run.factors.items() if factor != 1.0]
    said += [f"run times off by a factor on {', '.join(slow)}"] if slow else []
    text = ", ".join(said)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _has_failed(one: Attempt) -> bool:
    """Whether a task was tried in vain: not where it was called back, or only waited behind one that failed."""
    return one.outcome == FAILED and one.started is not None and one.note != CANCELLED


def _others(run: Executed) -> str:
    said = []
    if run.shadow is not None:
        said.append(
            f"{run.shadow.scheduler} in the shadow agrees on {percent(100 * run.shadow.share)} of {run.shadow.num} placements."
        )
    if run.split is not None:
        one, unit = run.split, run.time_unit
        means = f"{one.first} {number(one.mean_first, 4)}, {one.second} {number(one.mean_second, 4)} {unit}"
        apart = "too few jobs for an interval"
        if one.difference is not None:
            apart = f"difference {one.difference.value:+.3g} (95 % CI {one.difference.low:+.3g} to {one.difference.high:+.3g})"
        said.append(f"Mean job time: {means}; {apart}.")
    return " ".join(said)
