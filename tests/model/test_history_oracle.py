"""The oracle of histories: accepts what a driver may write, names the rule where it may not, rejects mutants."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import numpy as np
import pytest
from history_examples import EXAMPLES, Faults, Row, World, history

from weft.errors import InputError
from weft.model.history_oracle import RULES, check_history

SAYS_NOTHING = ("planned", "waited", "shadow", "speed", "stray")
"""Events that state what was thought; a run without one of them kept its promises too."""


def rules(rows: list[Row], deadline: float = 10.0) -> list[str]:
    return list(dict.fromkeys(found.rule for found in check_history(rows, deadline)))


@pytest.mark.parametrize("name", EXAMPLES)
def test_oracle_accepts_examples(name: str):
    assert check_history(history(name)) == ()


@pytest.mark.parametrize("seed", range(60))
def test_oracle_accepts_random_runs(seed: int):
    deaths = ((3.0 + seed % 5, seed % 3, None if seed % 2 else 7.0 + seed % 5),)
    broken = (f"t{seed % 9}",) if seed % 4 == 0 else ()
    kills = (2.0 + seed % 7,) if seed % 3 else ()
    faults = Faults(deaths, 0.1 * (seed % 3), broken, kills)
    assert check_history(World(seed, 15 + seed % 9, jobs=1 + seed % 3, faults=faults).run()) == ()


# -- one rule after the other -------------------------------------------------------------------------


class Script:
    """Rows written by hand: one job of a chain a -> b and a task c beside it, on two devices of one slot."""

    def __init__(self) -> None:
        devices = [{"name": name, "class": "cpu", "slots": 1} for name in ("x", "y")]
        self.rows: list[Row] = [
            {"event": "run", "time": 0.0, "schema": "weft/history/1", "time_unit": "s", "devices": devices}
        ]
        self.time, self.sequence = 0.0, 0

    def add(self, event: str, after: float = 0.0, **fields: Any) -> Script:
        self.time += after
        self.rows.append({"event": event, "time": self.time, **fields})
        return self

    def arrives(self, **more: Any) -> Script:
        return self.add("arrived", job="j", tasks=["a", "b", "c"], edges=[["a", "b"]], **more)

    def submits(
        self, task: str, device: str, attempt: int = 1, ahead: bool = False, after: float = 0.0
    ) -> Script:
        self.sequence += 1
        fields = {"sequence": self.sequence, "ahead": ahead}
        return self.add("submitted", after, job="j", task=task, attempt=attempt, device=device, **fields)

    def tells(self, event: str, task: str, device: str, attempt: int = 1, after: float = 0.0) -> Script:
        note = {"note": "no"} if event == "failed" else {}
        return self.add(event, after, job="j", task=task, attempt=attempt, device=device, **note)

    def reports(self, task: str, attempt: int = 1) -> Script:
        return self.add("reported", job="j", task=task, attempt=attempt)

    def runs(self, task: str, device: str, attempt: int = 1) -> Script:
        self.submits(task, device, attempt).tells("started", task, device, attempt)
        return self.tells("finished", task, device, attempt, after=1.0).reports(task, attempt)

    def ends(self, outcome: str = "done") -> Script:
        return self.add("ended", job="j", outcome=outcome, reason="").add("closed", ok=True, reason="")


def script() -> Script:
    return Script().arrives()


VALID = {
    "straight": script().runs("a", "x").runs("b", "x").runs("c", "y").ends(),
    "could not be started": script()
    .submits("a", "x")
    .tells("failed", "a", "x")
    .runs("a", "y", 2)
    .runs("b", "x")
    .runs("c", "y")
    .ends(),
    "moved before it began": script().submits("a", "x").runs("a", "y").runs("b", "x").runs("c", "y").ends(),
    "withdrawn": script()
    .submits("a", "x")
    .tells("cancelled", "a", "x")
    .runs("a", "x")
    .runs("b", "x")
    .runs("c", "y")
    .ends(),
    "needed again": script()
    .runs("a", "x")
    .add("lost", device="x", note="")
    .submits("a", "y", 2)
    .tells("started", "a", "y", 2)
    .tells("finished", "a", "y", 2)
    .runs("b", "y")
    .runs("c", "y")
    .ends(),
    "failed": script()
    .submits("a", "x")
    .tells("failed", "a", "x")
    .add("dropped", job="j", task="b", because="a")
    .runs("c", "y")
    .ends("failed"),
    "skipped": script()
    .submits("a", "x")
    .tells("started", "a", "x")
    .add("finished", job="j", task="a", attempt=1, device="x", branch=["c"])
    .reports("a")
    .add("skipped", job="j", task="b")
    .runs("c", "y")
    .ends(),
    "stopped and left": script()
    .submits("a", "x")
    .tells("started", "a", "x")
    .add("closed", ok=False, reason=""),
    "stopped and resumed": script()
    .submits("a", "x")
    .tells("started", "a", "x")
    .add("closed", ok=False, reason="interrupted")
    .add("resumed", 100.0, driver=2, lost=[["j", "a", 1]])
    .runs("a", "x", 2)
    .runs("b", "x")
    .runs("c", "y")
    .ends(),
    "a decision to wait holds": script()
    .submits("a", "x")
    .tells("started", "a", "x")
    .add("waited", reason="c is for x")
    .tells("finished", "a", "x", after=60.0)
    .reports("a")
    .runs("b", "x")
    .runs("c", "y")
    .ends(),
    "heard of late": script()
    .submits("a", "x")
    .submits("b", "x", ahead=True, after=0.5)
    .tells("started", "a", "x", after=-0.4)
    .tells("finished", "a", "x", after=1.0)
    .reports("a")
    .tells("started", "b", "x")
    .tells("finished", "b", "x")
    .reports("b")
    .runs("c", "x")
    .ends(),
    "data on its way": script()
    .runs("a", "x")
    .runs("c", "y")
    .add("submitted", job="j", task="b", attempt=1, device="y", sequence=9, ahead=False, data_at=50.0)
    .tells("started", "b", "y", after=48.0)
    .tells("finished", "b", "y")
    .reports("b")
    .ends(),
    "kept elsewhere": Script()
    .arrives(on={"c": ["x"]})
    .submits("a", "x")
    .tells("started", "a", "x")
    .tells("finished", "a", "x", after=30.0)
    .reports("a")
    .runs("b", "x")
    .runs("c", "x")
    .ends(),
}


@pytest.mark.parametrize("name", VALID)
def test_oracle_accepts(name: str):
    assert check_history(VALID[name].rows) == ()


BROKEN = {
    "no end": ("incomplete", script().runs("a", "x")),
    "unknown event": ("schema", script().add("exploded")),
    "two ends": (
        "closed",
        script().runs("a", "x").runs("b", "x").runs("c", "y").ends().add("waited", reason="x"),
    ),
    "time": ("time", script().runs("a", "x").add("lost", -0.5, device="x")),
    "started before": ("time", script().submits("a", "x", after=1.0).tells("started", "a", "x", after=-0.5)),
    "job twice": ("job", script().arrives()),
    "stranger": ("job", script().submits("d", "x")),
    "no such device": ("device", script().submits("a", "z")),
    "joins twice": ("device", script().add("joined", device="x")),
    "not submitted": ("order", script().tells("started", "a", "x")),
    "elsewhere": ("order", script().submits("a", "x").tells("started", "a", "y")),
    "not started": ("order", script().submits("a", "x").tells("finished", "a", "x")),
    "ends twice": ("order", script().runs("a", "x").tells("failed", "a", "x")),
    "attempt left out": ("attempts", script().runs("a", "x", 2)),
    "two attempts": ("attempts", script().submits("a", "x").submits("a", "y", 2)),
    "again for nothing": ("attempts", script().runs("a", "x").submits("a", "x", 2)),
    "sequence": (
        "sequence",
        script()
        .submits("a", "x")
        .add("submitted", job="j", task="c", attempt=1, device="x", sequence=1, ahead=True),
    ),
    "child first": ("precedence", script().submits("b", "x")),
    "ahead of what nobody ordered": ("precedence", script().submits("b", "y", ahead=True)),
    "starts before its parent elsewhere": (
        "precedence",
        script().submits("a", "x").submits("b", "y", ahead=True).tells("started", "b", "y"),
    ),
    "child starts": (
        "precedence",
        script().submits("a", "x").submits("b", "x", ahead=True).tells("started", "b", "x"),
    ),
    "dead device": ("lost", script().add("lost", device="x", note="").submits("a", "x")),
    "too many": (
        "slots",
        script().submits("a", "x").tells("started", "a", "x").submits("c", "x").tells("started", "c", "x"),
    ),
    "told twice": ("report", script().runs("a", "x").reports("a")),
    "told too early": ("report", script().submits("a", "x").tells("started", "a", "x").reports("a")),
    "dropped for nothing": ("dropped", script().add("dropped", job="j", task="b", because="a")),
    "dropped beside": (
        "dropped",
        script().submits("a", "x").tells("failed", "a", "x").add("dropped", job="j", task="c", because="a"),
    ),
    "not dropped": (
        "dropped",
        script().submits("a", "x").tells("failed", "a", "x").runs("c", "y").ends("failed"),
    ),
    "skipped for nothing": (
        "skipped",
        script().runs("a", "x").add("skipped", job="j", task="b").runs("c", "y").ends(),
    ),
    "not done": ("ended", script().runs("a", "x").runs("b", "x").ends()),
    "nothing failed": ("ended", script().runs("a", "x").runs("b", "x").runs("c", "y").ends("failed")),
    "job left open": ("ended", script().runs("a", "x").add("closed", ok=True)),
    "forgot what ran": (
        "resumed",
        script().submits("a", "x").tells("started", "a", "x").add("resumed", driver=2, lost=[]),
    ),
    "driver left out": ("resumed", script().add("resumed", driver=4, lost=[])),
    "no cause": ("planned", script().add("planned", reason="lost", rows=[])),
    "not stray": (
        "stray",
        script().submits("a", "x").add("stray", job="j", task="a", attempt=1, device="x", note=""),
    ),
    "nobody decides": ("liveness", script().submits("a", "x", after=11.0)),
    "stuck order": ("liveness", script().submits("a", "x").tells("started", "a", "x", after=11.0)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_oracle_names_the_rule(name: str):
    rule, written = BROKEN[name]
    assert rule in rules(written.rows)


def test_oracle_tests_every_rule():
    assert sorted({rule for rule, _ in BROKEN.values()}) == sorted(RULES)


def test_oracle_says_where():
    (found, *_) = check_history(script().tells("started", "a", "x").rows)
    assert str(found) == "order (j/a, x): row 3: started of attempt 1: none was submitted"


def test_oracle_counts_the_deadline_in_seconds():
    rows = copy.deepcopy(BROKEN["stuck order"][1].rows)
    assert "liveness" not in rules(rows, deadline=12.0)
    rows[0]["time_unit"] = "ms"
    assert "liveness" not in rules(rows)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{}],
        [None],
        ["run"],
        [{"event": "closed", "time": 0.0, "ok": True}],
        [{"event": "run", "time": "x"}],
    ],
    ids=str,
)
def test_oracle_refuses_what_is_no_history(rows: list[Any]):
    (found,) = check_history(rows)
    assert found.rule == "schema"


@pytest.mark.parametrize("field", ["job", "task", "device", "attempt", "sequence", "ahead", "time", "event"])
@pytest.mark.parametrize("value", [None, [], {}, -1.5, "?", True, float("nan")], ids=repr)
def test_oracle_survives_any_value(field: str, value: object):
    rows = history("small")
    place = next(k for k, row in enumerate(rows) if row["event"] == "submitted")
    rows[place][field] = value
    same = field == "ahead" and value is True
    assert same or check_history(rows)


@pytest.mark.parametrize("deadline", [0, -1.0, float("nan"), "10"])
def test_oracle_refuses_a_senseless_deadline(deadline: Any):
    with pytest.raises(InputError, match="expected a number of seconds > 0"):
        check_history(history("small"), deadline)


# -- mutants ------------------------------------------------------------------------------------------


def drop(rows: list[Row], k: int, rng: np.random.Generator) -> tuple[list[Row], bool]:
    """Leave a row out; what was only thought, and starts of what failed or was lost, may be missing."""
    row, rest = rows[k], rows[k + 1 :]
    means = row["event"] not in SAYS_NOTHING
    if row["event"] == "started":
        own = [r for r in rest if same_order(r, row) and r["event"] in ("finished", "failed")]
        means = bool(own) and own[0]["event"] == "finished"  # an order may fail, or be lost, before it starts
    if row["event"] in ("submitted", "cancelled"):
        means = not is_moved(rows, k)
    if row["event"] == "lost":
        means = is_missed(rows, k)
    if row["event"] == "joined":
        means = any(r.get("device") == row["device"] for r in rest)
    return rows[:k] + rest, means


def same_order(a: Row, b: Row) -> bool:
    return all(a.get(key) == b.get(key) for key in ("job", "task", "attempt"))


def is_moved(rows: list[Row], k: int) -> bool:
    """Whether an order that never began is followed or preceded by the same one elsewhere, or is simply lost."""
    row, rest = rows[k], rows[k + 1 :]
    if row["event"] == "cancelled":
        following = [r for r in rest if same_order(r, row)]
        return bool(following) and following[0]["device"] != row["device"]
    following = [r for r in rest if same_order(r, row)]
    later = any(r.get("attempt", 0) > row["attempt"] and r.get("task") == row["task"] for r in rest)
    return bool(following and following[0]["event"] == "submitted") or (not following and not later)


def is_missed(rows: list[Row], k: int) -> bool:
    """Whether anything shows that a device was lost: what it held, its return, or the plan that followed."""
    device = rows[k]["device"]
    held: set[tuple[Any, ...]] = set()
    for row in rows[:k]:
        key = (row.get("job"), row.get("task"), row.get("attempt"))
        if row["event"] == "submitted" and row["device"] == device:
            held.add(key)
        elif row["event"] in ("finished", "failed", "cancelled"):
            held.discard(key)
        elif row["event"] == "resumed":
            held.clear()
    back = any(r["event"] == "joined" and r["device"] == device for r in rows[k:])
    first = not any(r["event"] == "lost" for r in rows[:k])
    return bool(held) or back or (first and any(r.get("reason") == "lost" for r in rows[k:]))


def duplicate(rows: list[Row], k: int, rng: np.random.Generator) -> tuple[list[Row], bool]:
    """Write a row twice."""
    return [*rows[: k + 1], rows[k], *rows[k + 1 :]], rows[k]["event"] not in SAYS_NOTHING


def swap(rows: list[Row], k: int, rng: np.random.Generator) -> tuple[list[Row], bool]:
    """Exchange two neighbours, and their times, so that time itself does not give them away."""
    k = min(k, len(rows) - 2)
    first, second = dict(rows[k]), dict(rows[k + 1])
    means = depend(first, second, rows)
    first["time"], second["time"] = second["time"], first["time"]
    return [*rows[:k], second, first, *rows[k + 2 :]], means


def depend(first: Row, second: Row, rows: list[Row]) -> bool:
    """Whether one of two neighbours has to come before the other."""
    kinds = {first["event"], second["event"]}
    if kinds & set(SAYS_NOTHING):
        return bool({"run", "closed"} & kinds) or (first["event"] == "arrived" and bool(second.get("rows")))
    if kinds & {"run", "closed", "resumed", "arrived"}:
        told = kinds & {"submitted", "started", "finished", "failed"}
        return "resumed" not in kinds or bool(told)
    if first.get("task") is not None and first.get("task") == second.get("task"):
        return first["job"] == second["job"]
    if "ended" in kinds:
        return first.get("job") == second.get("job")
    if kinds & {"lost", "joined"}:
        return first.get("device") == second.get("device") and kinds != {"lost", "finished"}
    if first["event"] == "reported":
        edges = next(r["edges"] for r in rows if r["event"] == "arrived" and r["job"] == first["job"])
        is_child = first["job"] == second["job"] and [first["task"], second["task"]] in edges
        return is_child and (second["event"] == "started" or second.get("ahead") is False)
    return False


TOLD = ("started", "finished", "failed", "reported", "stray", "lost", "joined", "dropped", "skipped", "ended")


def shift(rows: list[Row], k: int, rng: np.random.Generator) -> tuple[list[Row], bool]:
    """Move the time of one row; within the gap between its neighbours nothing shows.

    Neighbours are the rows of the same clock: workers tell when things happened, the driver when it writes.
    """
    by = float(rng.choice([-1, 1])) * float(rng.uniform(0.01, 20.0))
    row = rows[k] | {"time": rows[k]["time"] + by}
    before = [r["time"] for r in rows[:k] if is_of_one_clock(r, row)]
    after = [r["time"] for r in rows[k + 1 :] if is_of_one_clock(r, row)]
    within = max(before, default=0.0) <= row["time"] <= min(after, default=np.inf)
    return [*rows[:k], row, *rows[k + 1 :]], not within


def is_of_one_clock(a: Row, b: Row) -> bool:
    is_bound = {a["event"], b["event"]} & {"closed", "resumed"}
    return bool(is_bound) or (a["event"] in TOLD) == (b["event"] in TOLD)


def test_oracle_rejects_mutants(capsys: pytest.CaptureFixture[str]):
    rng = np.random.default_rng(0)
    kept = {name: history(name) for name in EXAMPLES}
    made, rejected, missed = Counter[str](), Counter[str](), []
    while sum(made.values()) < 1000:
        name = str(rng.choice(list(kept)))
        mutate = [drop, duplicate, swap, shift][int(rng.integers(4))]
        k = int(rng.integers(len(kept[name])))
        rows, changes_meaning = mutate(kept[name], k, rng)
        if not changes_meaning:
            continue
        made[mutate.__name__] += 1
        if check_history(rows):
            rejected[mutate.__name__] += 1
        else:
            missed.append((name, mutate.__name__, k, kept[name][k]["event"]))
    share = sum(rejected.values()) / sum(made.values())
    with capsys.disabled():
        print(f" {100 * share:.1f} % of {dict(made)} rejected; missed: {missed}", end="")
    assert share >= 0.99
