"""Groups of devices with equal links, out of full tables over devices."""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats, Ints32


def merged_groups(latency: Floats, bandwidth: Floats) -> tuple[Ints32, Floats, Floats]:
    """Group of every device, and the tables over the groups: devices join the first group to which they have equal links."""
    members: list[list[int]] = []
    group = np.zeros(len(latency), np.int32)
    for device in range(len(latency)):
        for own in members:
            if all(_are_alike(table, own, device) for table in (latency, bandwidth)):
                break
        else:
            own = []
            members.append(own)
        group[device] = members.index(own)
        own.append(device)
    first = [own[0] for own in members]
    tables = [table[np.ix_(first, first)] for table in (latency, bandwidth)]
    for g, own in enumerate(members):
        if len(own) > 1:
            tables[0][g, g], tables[1][g, g] = latency[own[0], own[1]], bandwidth[own[0], own[1]]
    return group, tables[0], tables[1]


def _are_alike(table: Floats, own: list[int], device: int) -> bool:
    """Whether a device has the links of the first of these devices to all others, and with each of them those they have."""
    first = own[0]
    others = np.ones(len(table), np.bool_)
    others[[first, device]] = False
    inner = table[first, own[1]] if len(own) > 1 else table[first, device]
    return bool(
        (table[first, others] == table[device, others]).all()
        and (table[others, first] == table[others, device]).all()
        and table[first, device] == table[device, first] == inner
    )
