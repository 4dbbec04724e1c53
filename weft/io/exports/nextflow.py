"""A configuration for Nextflow: a block per process, with the queue of the class where its tasks are planned.

Nextflow submits tasks as their inputs come and has no priorities of its own; ranks reach a queueing system below it
through ``clusterOptions``.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from weft import __version__
from weft.io.exports.options import Options
from weft.io.exports.placed import Placed, Span, most_at_once
from weft.io.exports.words import one_line, unique, word

LIMITS = (
    "Nextflow submits tasks in the order in which their inputs come, not by rank; only a queueing system that "
    "understands priorities (--executor slurm or sge) can order them",
    "all tasks of a process share its settings: the class that most of them are planned on, the rank of the first",
    "which device of a class runs a task is up to the queue",
)
_LONGEST = 200
_LOWEST_SGE, _NICEST_SLURM = 1023, 2**31 - 3


def dump(placed: Placed, options: Options) -> str:
    """Processes in the order of their first tasks."""
    names, groups = _groups(placed, options.by)
    slots = list(placed.class_slots)
    queues = dict(zip(slots, unique(slots, word, _LONGEST), strict=True))
    selectors = dict(zip(names, unique(names, _process, _LONGEST, "_"), strict=True))
    rank = {span.task: k for k, span in enumerate(placed.order)}
    lines = [
        f"// {one_line(placed.name)}: a plan of {one_line(placed.scheduler or 'weft')}, weft {__version__}"
    ]
    lines += ["// Use: nextflow run PIPELINE -c THIS_FILE", "// What it cannot enforce:"]
    lines += [f"//  - {limit}" for limit in LIMITS]
    lines += ["process {"]
    for name, spans in groups.items():
        lines += _block(placed, name, selectors[name], spans, rank[spans[0].task], queues, options)
    return "\n".join([*lines, "}", ""])


def _groups(placed: Placed, by: str) -> tuple[list[str], dict[str, list[Span]]]:
    """Executions by process, in the order of the plan."""
    is_by_kind = by == "kind" or (not by and {task.kind for task in placed.tasks} != {"task"})
    groups: dict[str, list[Span]] = {}
    for span in placed.order:
        name = placed.tasks[span.task].kind if is_by_kind else placed.labels[span.task]
        groups.setdefault(name, []).append(span)
    return list(groups), groups


def _block(
    placed: Placed,
    name: str,
    selector: str,
    spans: list[Span],
    rank: int,
    queues: dict[str, str],
    options: Options,
) -> list[str]:
    """Settings of one process."""
    classes = Counter(placed.devices[span.device].device_class for span in spans)
    chosen = classes.most_common(1)[0][0]
    tasks = [placed.tasks[span.task] for span in spans]
    settings: dict[str, str] = {
        "queue": _text(queues[chosen]),
        "cpus": str(max(task.slots for task in tasks)),
    }
    memory = max(task.memory for task in tasks)
    if memory > 0:
        settings["memory"] = _text(f"{math.ceil(memory)} B")
    at_once = most_at_once(spans)
    if at_once < len(spans):
        settings["maxForks"] = str(at_once)
    if chosen in options.gpu_classes:
        settings["accelerator"] = "1"
    if options.executor:
        settings["clusterOptions"] = _text(_priority(options.executor, rank))
    settings["ext.weft_rank"] = str(rank)
    counts = ", ".join(f"{one_line(c)} {n}" for c, n in classes.items())
    head = f"    // {one_line(name)}: {len(spans)} task{'s' if len(spans) > 1 else ''}, planned on {counts}"
    body = [f"        {key} = {value}" for key, value in settings.items()]
    return [head, f"    withName: {_text(selector)} {{", *body, "    }"]


def _priority(executor: str, rank: int) -> str:
    """What makes a queueing system prefer smaller ranks; users may only lower their priority."""
    return f"--nice={min(rank, _NICEST_SLURM)}" if executor == "slurm" else f"-p -{min(rank, _LOWEST_SGE)}"


def _process(name: str) -> str:
    """The name of a process as Nextflow allows it: identifiers, colons between those of nested workflows.

    Nothing is left in it that a selector, which is a pattern, would not take literally.
    """
    safe = re.sub(r"[^A-Za-z0-9_:]+", "_", name).strip(":") or "_"
    return f"T_{safe}" if safe[0].isdigit() else safe


def _text(value: str) -> str:
    """A text of Groovy in single quotes: nothing in it is evaluated."""
    safe = "".join(
        c if c.isascii() and c.isprintable() and c not in "\\'" else f"\\u{ord(c) & 0xFFFF:04x}"
        for c in value
    )
    return f"'{safe}'"
