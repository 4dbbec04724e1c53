"""Tables about one plan: its devices, the chain that ends it, and another plan beside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.evaluation.report.blocks import BigTable, Block, Section, Table, Text
from weft.evaluation.report.plan_facts import Chain, DeviceFacts, device_facts
from weft.evaluation.report.words import count
from weft.model.graph import Floats
from weft.model.schedule import Schedule
from weft.schedulers.explain import Link
from weft.wording import number, percent, size

MOST_DEVICES = 40
"""Devices with a row each; of more, classes have one, and devices are in a table that is turned page by page."""
MOST_LINKS = 40


def has_prices(found: Schedule) -> bool:
    """Whether the cluster states a price of any class."""
    return any(one.price for one in found.problem.cluster.classes)


def has_watts(found: Schedule) -> bool:
    """Whether the cluster states the power of any class."""
    return any(one.watts or one.idle_watts for one in found.problem.cluster.classes)


def amount(value: float) -> str:
    """A number to four digits, in full where it is large."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else number(value, 4)


def devices_in_words(found: Schedule) -> str:
    """The busiest device, and the mean."""
    if not found.makespan:
        return ""
    busy, names = found.device_utilisation, found.problem.cluster.device_names
    most = int(np.argmax(busy))
    idle = int((found.busy_time == 0).sum())
    unused = f"; {count(idle, 'device')} never used" if idle else ""
    of_all = f"all devices {percent(100.0 * found.utilisation)}"
    return (
        f"The busiest device is {names[most]}, {percent(100.0 * float(busy[most]))} in use; {of_all}{unused}."
    )


def device_section(found: Schedule) -> Section:
    """Every device, or every class and then every device where there are many."""
    columns = _columns(found, device_facts(found))
    names, unit = found.problem.cluster.device_names, found.time_unit
    lead = Text(
        (
            f"Busy is the share of slot-time in use up to the makespan, {number(found.makespan)} {unit}; "
            "idle is the time in which nothing runs there.",
        )
    )
    headers = ("device", *(header for header, _, _ in columns))
    if len(names) <= MOST_DEVICES:
        rows = tuple(
            (name, *(say(float(values[d])) for _, values, say in columns)) for d, name in enumerate(names)
        )
        return Section("Devices", (lead, Table(headers, rows, tuple(range(1, len(headers))))))
    whole = BigTable(
        tuple(header.replace(PEAK, f"{PEAK} [B]") for header in headers),
        (list(names), *(values for _, values, _ in columns)),
    )
    return Section("Devices", (lead, _classes(found, columns), whole))


Column = tuple[str, Floats, Callable[[float], str]]
"""Header, a value per device, and how it is said."""


def _columns(found: Schedule, facts: DeviceFacts) -> list[Column]:
    """What is known of every device; what the problem says nothing of is left out."""
    slots = found.problem.cluster.slots
    columns: list[Column] = [("slots", slots.astype(np.float64), number)] if (slots > 1).any() else []
    columns += [
        ("tasks", facts.tasks.astype(np.float64), number),
        ("busy [%]", np.round(100.0 * found.device_utilisation, 1), lambda value: f"{value:.1f}"),
        (f"idle [{found.time_unit}]", facts.idle, amount),
    ]
    if facts.peak_memory.any():
        columns.append((PEAK, facts.peak_memory, size))
    if has_prices(found):
        columns.append(("cost", found.device_cost, amount))
    if has_watts(found):
        columns.append(("energy [J]", found.device_energy, amount))
    return columns


PEAK = "peak memory"
_MEANS = ("slots", "busy [%]")


def _classes(found: Schedule, columns: list[Column]) -> Table:
    """One row per class: means of shares, the largest peak, sums of the rest."""
    cluster = found.problem.cluster
    rows = []
    for c, one in enumerate(cluster.classes):
        chosen = cluster.device_class == c
        if chosen.any():
            cells = []
            for header, values, say in columns:
                part = values[chosen]
                cells.append(
                    say(
                        float(
                            part.mean() if header in _MEANS else part.max() if header == PEAK else part.sum()
                        )
                    )
                )
            rows.append((one.name, str(int(chosen.sum())), *cells))
    headers = ("class", "devices", *(header for header, _, _ in columns))
    caption = f"Per class: mean of {' and '.join(_MEANS)}, the largest peak, sums of the rest."
    return Table(headers, tuple(rows), tuple(range(1, len(headers))), caption)


def chain_section(found: Schedule, chain: Chain) -> Section:
    """Where the time of the chain goes, and the chain itself."""
    title, unit = "What holds it back", found.time_unit
    if not chain.links or not found.makespan:
        return Section(title, (Text(("Nothing: the plan takes no time.",)),))
    lead = (
        "The last execution to end waited for another, that one for another, and so on back to the start: this chain "
        "is as long as the plan, and only what shortens it can shorten the plan."
    )
    one_port = (
        " Links take one transfer at a time here: waiting for a port counts as nothing that the plan shows."
    )
    parts = tuple(
        (words, number(time, 5), percent(100.0 * time / found.makespan))
        for words, time in chain.parts.items()
        if time > 0
    )
    blocks: list[Block] = [
        Text((lead + (one_port if found.problem.cluster.one_port else ""),)),
        Table(("along the chain", f"time [{unit}]", "of the makespan"), parts, (1, 2)),
        _link_table(chain, unit),
        Text(
            (
                f"All transfers of the plan, many of them at once, take {number(found.transfer_time, 5)} {unit}.",
            )
        ),
    ]
    return Section(title, tuple(blocks))


def _link_table(chain: Chain, unit: str) -> Table:
    links, num = chain.links, len(chain.links)
    half = MOST_LINKS // 2
    places = range(num) if num <= MOST_LINKS else [*range(half), *range(num - half, num)]
    rows = tuple(_link_row(links[k], links[k - 1] if k else None) for k in places)
    left_out = num - len(rows)
    caption = (
        f"The chain, first to last; {count(left_out, 'execution')} in the middle left out."
        if left_out
        else ""
    )
    headers = ("task", "device", f"start [{unit}]", f"finish [{unit}]", "started when")
    return Table(headers, rows, (2, 3), caption or "The chain, first to last.")


def _link_row(link: Link, before: Link | None) -> tuple[str, ...]:
    at = link.placement
    return (link.task, at.device or "-", number(at.start, 5), number(at.finish, 5), _why(link, before))


def _why(link: Link, before: Link | None) -> str:
    if before is None:
        return "its job was released" if link.reason == "release" else "nothing known held it"
    if link.reason != "data":
        return f"{link.placement.device} was done with {before.task}"
    travel = link.placement.start - before.placement.finish
    if link.placement.device == before.placement.device or travel <= 1e-9 * max(1.0, link.placement.start):
        return f"{before.task} was done"
    return f"the data of {before.task} had arrived, {number(travel, 4)} after its end"


def against(found: Schedule, other: Schedule, name: str, other_name: str) -> Table:
    """Two plans of one problem, figure by figure."""
    unit = found.time_unit
    figures: list[tuple[str, float, float]] = [
        (f"makespan [{unit}]", found.makespan, other.makespan),
        ("busy [%]", round(100.0 * found.utilisation, 1), round(100.0 * other.utilisation, 1)),
        ("executions beyond the first", float(found.num_copies), float(other.num_copies)),
        (f"transfers [{unit}]", found.transfer_time, other.transfer_time),
    ]
    figures += [("cost", found.cost, other.cost)] if has_prices(found) else []
    figures += [("energy [J]", found.energy, other.energy)] if has_watts(found) else []
    jobs = found.problem.jobs
    figures += [(f"mean job time [{unit}]", found.mean_jct, other.mean_jct)] if len(jobs) > 1 else []
    rows = tuple(
        (what, amount(mine), amount(its), percent(100.0 * (mine / its - 1.0), "+") if its else "-")
        for what, mine, its in figures
    )
    mine, its = (name, other_name) if name != other_name else (name, f"{other_name} now")
    return Table(("", mine, its, "difference"), rows, (1, 2, 3))
