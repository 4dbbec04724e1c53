"""How training is spread: the table ``[distributed]`` of a recipe. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

from weft.errors import InputError
from weft.tables import FLAG, POSITIVE, check, checked, number, one_of, refuse_changed, whole

ALONE, LOCAL, PROCESSES, RAY = ENGINES = ("", "local", "processes", "ray")
"""No roles at all; all roles in this process, one after another; processes of this machine; a Ray cluster."""
APEX, SYNC, ASYNC, GORILA = MODES = ("apex", "sync", "async", "gorila")
"""One learner; several that wait for one another but for the slowest; several that do not; several with replicas of their own."""
GLOBAL, OWN = REPLAYS = ("global", "local")
LONG_BLOCK = 32
"""Moments of a block where sending it costs something."""
_ROLES = whole(1, 1000)
_SEVERAL = (SYNC, ASYNC, GORILA)
_OF_MODES = {
    "prefetch": (APEX,),
    "learners": _SEVERAL,
    "backups": (SYNC,),
    "servers": _SEVERAL,
    "max_staleness": (ASYNC, GORILA),
    "push_every": (GORILA,),
    "fetch_every": (GORILA,),
    "replay": _SEVERAL,
    "slowest": _SEVERAL,
}
"""The modes in which a key means something; all others mean something in all."""
_HERE = {"in_flight": 1, "prefetch": 1, "ahead": 0, "publish_every": 1}
"""Where all roles are in this process, what cannot be otherwise."""
OF_UPDATES = frozenset({"engine", "actors", "max_failures", "patience"})
"""Keys that are read where actors only collect, an update at a time, and one learner is in the process that trains."""


@dataclass(frozen=True)
class Distributed:
    """Who acts, keeps and learns, and how far they may be apart."""

    engine: str = checked(ALONE, one_of(*ENGINES))
    """Where roles run: ``local``, ``processes`` or ``ray``; empty: training is not spread."""
    actors: int = checked(1, _ROLES)
    """Roles that act, each with ``num_envs`` environments; of PPO each has its part of them."""
    mode: str = checked(APEX, one_of(*MODES))
    """``apex``: one learner; ``sync``, ``async``, ``gorila``: several learners push gradients to parameter servers."""
    shards: int = checked(1, _ROLES)
    """Roles that keep decisions; each has its part of ``replay``."""
    block: int = checked(0, whole(0))
    """Moments that an actor sends at once; 0: one where all roles are in this process, else 32."""
    in_flight: int = checked(2, whole(1))
    """Orders that an actor has at most, so that it need not wait for the next; in this process 1."""
    prefetch: int = checked(4, whole(1))
    """Batches that are on their way to the learner; in this process 1."""
    ahead: int = checked(4, whole(0))
    """Batches by which learning may be behind what the replay ratio asks for before actors wait; in this process 0."""
    publish_every: int = checked(8, whole(1))
    """Gradient steps from one version of the weights to the next; in this process 1."""
    learners: int = checked(1, _ROLES)
    """Gradients that make a step (``sync``), or learners that push (``async``, ``gorila``)."""
    backups: int = checked(0, whole(0, 1000))
    """Learners beyond those, so that a step need not wait for the slowest: ``sync``."""
    servers: int = checked(1, _ROLES)
    """Parameter servers, each with its part of the weights."""
    max_staleness: int = checked(8, whole(0))
    """Steps by which the weights of a gradient may be behind before it is dropped: ``async``, ``gorila``."""
    push_every: int = checked(1, whole(1))
    """Batches whose gradients a learner of ``gorila`` adds up before it pushes them."""
    fetch_every: int = checked(1, whole(1))
    """Batches after which it fetches weights; in between it follows its own gradients."""
    replay: str = checked("global", one_of(*REPLAYS))
    """``global``: all learners draw from all shards; ``local``: each from its own, which one actor in so many fills."""
    max_failures: int = checked(100, whole(0))
    """Lost roles after which the run stops."""
    patience: float = checked(300.0, POSITIVE)
    """Seconds without any answer after which the run stops."""
    slowest: float = checked(1.0, number(1))
    """How much longer than the others the last learner takes, for experiments."""
    is_replay_saved: bool = checked(False, FLAG)
    """Whether checkpoints hold what the shards keep; in this process they always do."""

    def __post_init__(self) -> None:
        check(self, "distributed.")
        if self.engine == ALONE:
            too = f"an engine too ({', '.join(ENGINES[1:-1])} or {RAY}): without one training is not spread"
            refuse_changed(self, set(_defaults()) - {"engine"}, too, "distributed.")
        for key, modes in _OF_MODES.items():
            if self.mode not in modes and getattr(self, key) != _HERE.get(key):
                told = " or ".join(map(repr, modes))
                refuse_changed(self, {key}, f"{_defaults()[key]!r} unless mode = {told}", "distributed.")
        self._refuse_ahead()
        if self.replay == OWN and (self.mode == APEX or self.shards != self.num_learners):
            raise InputError(
                f"expected as many as learners, {self.num_learners}, with replay = {OWN!r}, got {self.shards}",
                field="distributed.shards",
            )

    def _refuse_ahead(self) -> None:
        """Refuse to work ahead where all roles take turns."""
        for key, only in _HERE.items():
            if self.is_here and getattr(self, key) != only:
                expected = f"{only!r} with engine = {LOCAL!r}, where roles take turns"
                refuse_changed(self, {key}, expected, "distributed.")

    def refuse_unread(self, read: frozenset[str], whose: str) -> None:
        """Refuse keys that are changed and that an algorithm does not read."""
        if self.mode != APEX:
            raise InputError(
                f"expected {APEX!r}: {whose} one learner; got {self.mode!r}", field="distributed.mode"
            )
        for key, value in _defaults().items():
            if key not in read:
                expected = f"{value!r}: {whose} no use for another"
                refuse_changed(self, {key}, expected, "distributed.")

    @property
    def num_learners(self) -> int:
        """Learners in all."""
        return self.learners + self.backups

    @property
    def is_here(self) -> bool:
        """Whether all roles are in this process, where nothing is gained by working ahead."""
        return self.engine == LOCAL

    @property
    def effective(self) -> Distributed:
        """With what ``local`` does not need, and with what was left open, filled in."""
        if self.is_here:
            return replace(self, block=self.block or 1, in_flight=1, prefetch=1, ahead=0, publish_every=1)
        return replace(self, block=self.block or LONG_BLOCK)

    def to_dict(self) -> dict[str, object]:
        """As plain JSON."""
        return asdict(self)


def _defaults() -> dict[str, object]:
    """What every key is if nobody says otherwise."""
    return {one.name: one.default for one in fields(Distributed)}


def spread_in_words(row: Mapping[str, object]) -> str:
    """How spread training goes: pace, how far actors are behind, what was drawn per decision, roles started again."""
    if "staleness" not in row:
        return f", {row['restarts']} restarts" if row.get("restarts") else ""
    return (
        f", {row['decisions_per_second']:,.0f} samples/s, {row['staleness']:.1f} versions behind, "
        f"replay ratio {row['replay_ratio']:.2f}, {row['restarts']} restarts"
    )


def spread_settings(engine: str | None, actors: int | None, address: str | None) -> dict[str, object]:
    """The changes of a recipe that the options of the same names stand for."""
    chosen = engine or (RAY if address else None)
    if address is not None and chosen != RAY:
        raise InputError(f"expected engine ray with an address, got {chosen}", field="engine")
    if chosen is not None and chosen not in ENGINES[1:]:
        raise InputError(f"expected one of {', '.join(ENGINES[1:])}, got {chosen!r}", field="engine")
    given = {"distributed.engine": chosen, "distributed.actors": actors}
    return {key: value for key, value in given.items() if value is not None}
