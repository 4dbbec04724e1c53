"""Manifests for Kubernetes: a Job per task, with the affinity of its pod to the node it is planned on.

Jobs with parents are suspended: Kubernetes knows no edges, so somebody releases them in the order written down.
"""

from __future__ import annotations

import difflib
import math
import re

from weft import __version__
from weft.errors import InputError
from weft.io.exports.options import Options
from weft.io.exports.placed import Placed, Span
from weft.io.exports.words import dns_label, label_value, one_line, unique
from weft.io.exports.yaml_text import Value, block
from weft.io.sources import shown

LONGEST_NAME = 52
"""Pods add eleven characters to the name of their Job, and names are at most 63 long."""
LABEL = "weft.dev/device"
LIMITS = (
    "Kubernetes knows neither edges nor order: Jobs with parents are suspended, release each when those in its "
    "annotation weft.dev/after are complete, in the order of weft.dev/order",
    "a node takes as many pods as their requests fit, whatever the plan says of slots",
    "a required affinity to a node that is gone leaves the pod pending (--affinity preferred lets it go elsewhere)",
)
_NODE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def dump(placed: Placed, options: Options) -> str:
    """Documents in the order of the plan."""
    _check_nodes(placed, options)
    names = unique(placed.labels, dns_label, LONGEST_NAME)
    lines = [
        f"# {one_line(placed.name)}: a plan of {one_line(placed.scheduler or 'weft')}, weft {__version__}"
    ]
    lines += ["# What it cannot enforce:", *(f"#  - {limit}" for limit in LIMITS)]
    if not options.nodes:
        lines.append("# Nodes are found by a label; a node that is several devices needs --nodes instead:")
        used = dict.fromkeys(span.device for span in placed.order)
        values = [label_value(placed.devices[device].name) for device in sorted(used)]
        lines += [f"#   kubectl label node NODE {LABEL}={value}" for value in values]
    text = "\n".join(lines) + "\n"
    for rank, span in enumerate(placed.order):
        text += "---\n" + block(_job(placed, span, rank, names, options))
    return text


def _check_nodes(placed: Placed, options: Options) -> None:
    known = [device.name for device in placed.devices]
    for device, node in options.nodes.items():
        if device not in known:
            close = difflib.get_close_matches(device, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(f"no device {shown(device)} in the cluster{hint}", field="nodes")
        if not _NODE.fullmatch(node):
            raise InputError(f"expected the name of a node, got {shown(node)}", field=f"nodes.{device}")
    for span in placed.order if options.nodes else ():
        if placed.devices[span.device].name not in options.nodes:
            raise InputError(f"no node for device {shown(placed.devices[span.device].name)}", field="nodes")


def _job(placed: Placed, span: Span, rank: int, names: tuple[str, ...], options: Options) -> dict[str, Value]:
    task, device = placed.tasks[span.task], placed.devices[span.device]
    parents = placed.parents[span.task]
    labels: dict[str, Value] = {
        "app.kubernetes.io/managed-by": "weft",
        "weft.dev/workflow": label_value(placed.name),
        "weft.dev/kind": label_value(task.kind),
    }
    notes: dict[str, Value] = {
        "weft.dev/job": task.job,
        "weft.dev/task": task.name,
        LABEL: device.name,
        "weft.dev/order": str(rank),
        "weft.dev/start": f"{span.start:.9g} {placed.time_unit}",
        "weft.dev/finish": f"{span.finish:.9g} {placed.time_unit}",
        "weft.dev/after": " ".join(names[parent] for parent in parents),
    }
    pod: dict[str, Value] = {"restartPolicy": "Never", "affinity": _affinity(device.name, options)}
    pod["containers"] = [_container(placed, span, options)]
    template: dict[str, Value] = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": names[span.task], "labels": labels, "annotations": notes},
        "spec": {"suspend": bool(parents), "template": template},
    }


def _affinity(device: str, options: Options) -> dict[str, Value]:
    """To the node of the device, or to nodes that are labelled with it."""
    if options.nodes:
        rule: dict[str, Value] = {"key": "metadata.name", "operator": "In", "values": [options.nodes[device]]}
        term: dict[str, Value] = {"matchFields": [rule]}
    else:
        term = {"matchExpressions": [{"key": LABEL, "operator": "In", "values": [label_value(device)]}]}
    if options.affinity == "preferred":
        weighed: list[Value] = [{"weight": 100, "preference": term}]
        return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighed}}
    terms: dict[str, Value] = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _container(placed: Placed, span: Span, options: Options) -> dict[str, Value]:
    task, device = placed.tasks[span.task], placed.devices[span.device]
    requests: dict[str, Value] = {"cpu": str(task.slots)}
    if task.memory > 0:
        requests["memory"] = str(math.ceil(task.memory))
    resources: dict[str, Value] = {"requests": requests}
    if device.device_class in options.gpu_classes:
        resources["limits"] = {"nvidia.com/gpu": "1"}
    told = {"WEFT_JOB": task.job, "WEFT_TASK": task.name, "WEFT_DEVICE": device.name}
    found: dict[str, Value] = {"name": "task", "image": options.image}
    if task.command:
        found["command"] = [_literal(word) for word in task.command]
    found["env"] = [{"name": name, "value": _literal(value)} for name, value in told.items()]
    found["resources"] = resources
    return found


def _literal(text: str) -> str:
    """The text with ``$`` doubled: Kubernetes puts variables in the place of ``$(NAME)``, and makes ``$$`` one."""
    return text.replace("$", "$$")
