"""Finding devices that are slower than plans take them to be, while a run goes on.

A plan for a machine that has turned slow stays wrong however often it is made again: its run times have to change.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.execute.drive import Drive


@dataclass
class SpeedWatch:
    """Compares run times with those expected, device by device, each against what is usual for the kind of task."""

    tolerance: float = 1.6
    """A device that is slower, or faster, by less than this factor is left alone."""
    overdue: float = 2.5
    """A task that has run this many times as long as expected says that its device is slow before it ends."""
    least: int = 3
    """Tasks that have to end on a device before anything is made of them."""
    recent: int = 5
    """Tasks of a device that count, latest first."""
    least_time: float = 0.05
    """Seconds below which an expected run time says nothing."""
    pause: float = 3.0
    """Seconds for which a device is left alone after its speed was changed."""
    most: float = 100.0
    """No device is taken to be slower by more."""
    seconds_per_unit: float = 1.0
    _seen: int = 0
    _quiet_until: dict[str, float] = field(default_factory=dict)
    _ratios: dict[str, list[tuple[str, float]]] = field(default_factory=lambda: defaultdict(list))
    _of_kind: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def look(self, drive: Drive) -> str | None:
        """Have everything planned again where a device has changed its speed."""
        self._take(drive)
        told = drive.told
        usual = {device: self._typical(device) for device in told.devices}
        for device, least in self._running(drive).items():
            usual[device] = max(usual[device] or 0.0, least)
        known = sorted(value for value in usual.values() if value is not None)
        if not known:
            return None
        common = known[(len(known) - 1) // 2] if len(known) == len(usual) else 1.0
        common = (
            common if self._is_off(common, 1.0) else 1.0
        )  # all are slow: the cluster file is, not a device
        factors = list(told.factors)
        for device, number in told.devices.items():
            found = usual[device]
            if found is None or drive.now < self._quiet_until.get(device, 0.0):
                continue
            if self._is_off(found / common, factors[number]):
                factors[number] = float(f"{min(found / common, self.most):.3g}")
                self._quiet_until[device] = drive.now + self.pause / self.seconds_per_unit
                drive.history.add("speed", drive.now, device=device, factor=factors[number])
        if factors == told.factors:
            return None
        if not told.slow_down(factors):
            return None
        drive.forget_decisions()
        return "speeds"

    def _is_off(self, factor: float, assumed: float) -> bool:
        return factor / assumed > self.tolerance or assumed / factor > self.tolerance

    def _take(self, drive: Drive) -> None:
        for one in drive.observed[self._seen :]:
            if one.base * self.seconds_per_unit >= self.least_time and one.actual > 0:
                self._ratios[one.device].append((one.kind, one.actual / one.base))
                self._of_kind[one.kind].append(one.actual / one.base)
        self._seen = len(drive.observed)

    def _typical(self, device: str) -> float | None:
        """How much longer tasks take on a device than the cluster says, beyond what is usual for their kinds."""
        rows = self._ratios[device][-self.recent :]
        if len(rows) < self.least:
            return None
        return median(ratio / self._usual_of(kind) for kind, ratio in rows)

    def _usual_of(self, kind: str) -> float:
        """What is usual for a kind, where enough tasks of it have ended on several devices; else 1."""
        devices = sum(any(one == kind for one, _ in rows) for rows in self._ratios.values())
        return median(self._of_kind[kind]) if devices > 1 and len(self._of_kind[kind]) >= 5 else 1.0

    def _running(self, drive: Drive) -> dict[str, float]:
        """Devices with a task that has run far too long -> by which factor at least."""
        found: dict[str, float] = {}
        for key, began in drive.ledger.started.items():
            order = drive.ledger.orders.get(key)
            if order is None:
                continue
            base = drive.ledger.bases[key]
            if base * self.seconds_per_unit >= self.least_time:
                ratio = (drive.now - began) / base
                if ratio > self.overdue * drive.told.factors[drive.told.number(order.device)]:
                    found[order.device] = max(found.get(order.device, 0.0), ratio)
        return found
