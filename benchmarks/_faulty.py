"""Small workflows whose results are known, what goes wrong with them, and who judges how they end."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.execute.keeping import kept
from weft.io.histories import Row, read_history
from weft.model.history_oracle import check_history

ONCE, ALWAYS, HANG, NEVER = "once", "always", "hang", ""
FUNCTIONS = '''
"""Tasks of a fault run: each takes its time in small steps and returns a number that depends on all it was handed."""
import json
import time
import zlib
from pathlib import Path

HERE = Path({here!r})


def step(name, seconds, *values):
    wrong = json.loads((HERE / "wrong.json").read_text())
    for _ in range(round(seconds / 0.005)):
        time.sleep(0.005)
    if name == wrong["task"]:
        marker = HERE / "happened"
        if wrong["how"] == "always" or not marker.exists():
            marker.touch()
            if wrong["how"] == "hang":
                time.sleep(600)
            if wrong["how"]:
                raise RuntimeError("it was to fail")
    return zlib.crc32(f"{{name}}:{{sorted(values)}}".encode())

'''


@dataclass(frozen=True)
class Flow:
    """Tasks by name, in an order in which they can run: seconds and parents."""

    tasks: Mapping[str, tuple[float, tuple[str, ...]]]
    seed: int

    @classmethod
    def drawn(cls, seed: int, low: float = 0.05, high: float = 0.3) -> Flow:
        """12 to 25 tasks; each needs up to three that come before it."""
        rng = random.Random(seed)
        tasks: dict[str, tuple[float, tuple[str, ...]]] = {}
        for k in range(rng.randint(12, 25)):
            before = list(tasks)[-6:]
            parents = tuple(sorted(rng.sample(before, min(len(before), rng.choice((0, 1, 1, 2, 3))))))
            tasks[f"t{k}"] = (round(rng.uniform(low, high), 3), parents)
        return cls(tasks, seed)

    def expected(self) -> dict[str, int]:
        """Results of a run one after the other, without faults."""
        found: dict[str, int] = {}
        for name, (_, parents) in self.tasks.items():
            values = sorted(found[parent] for parent in parents)
            found[name] = zlib.crc32(f"{name}:{values}".encode())
        return found

    def descendants(self, task: str) -> set[str]:
        """All that needs a task, however far."""
        found = {task}
        for name, (_, parents) in self.tasks.items():
            found |= {name} if found & set(parents) else set()
        return found - {task}

    def write(self, folder: Path, how: str = NEVER) -> str:
        """The files of a run, in which one task goes wrong; returns its name."""
        folder.mkdir(parents=True, exist_ok=True)
        task = random.Random(self.seed + 1).choice(list(self.tasks))
        functions = [FUNCTIONS.format(here=str(folder))]
        for name, (seconds, parents) in self.tasks.items():
            given = ", ".join(f"v{k}" for k in range(len(parents)))
            more = f", {given}" if given else ""
            functions.append(f"def {name}({given}):\n    return step({name!r}, {seconds}{more})\n\n")
        (folder / "functions.py").write_text("\n".join(functions))
        (folder / "wrong.json").write_text(json.dumps({"task": task if how else "", "how": how}))
        rows = [{"name": name, "work": seconds} for name, (seconds, _) in self.tasks.items()]
        edges = [
            {"source": parent, "target": name}
            for name, (_, parents) in self.tasks.items()
            for parent in parents
        ]
        (folder / "graph.json").write_text(json.dumps({"name": "flow", "tasks": rows, "edges": edges}))
        (folder / "cluster.toml").write_text('[[device]]\nclass = "cpu"\ncount = 3\n')
        return task if how else ""


def results(folder: Path) -> dict[str, Any]:
    """What tasks of a run have kept."""
    found = {}
    for line in (folder / "tasks.jsonl").read_text().splitlines():
        row = json.loads(line)
        home = folder / "tasks" / str(row["number"])
        if (home / "result.json").exists():
            found[row["task"]] = kept(home)
    return found


def judged(flow: Flow, folder: Path, failed: str = "") -> list[str]:
    """All that is wrong with a run that is over, in which one task failed for good, if any."""
    rows = read_history(folder)
    found = [str(one) for one in check_history(rows, deadline=10.0)]
    reported = [row["task"] for row in rows if row["event"] == "reported"]
    dropped = {row["task"] for row in rows if row["event"] == "dropped"}
    left_out = flow.descendants(failed) if failed else set()
    done = set(flow.tasks) - left_out - {failed}
    if sorted(reported) != sorted(done):
        found.append(f"reported {sorted(reported)}, expected {sorted(done)}")
    if dropped != left_out:
        found.append(f"dropped {sorted(dropped)}, expected {sorted(left_out)}")
    expected, got = flow.expected(), results(folder)
    wrong = [task for task in done if got.get(task) != expected[task]]
    if wrong:
        found.append(f"wrong results of {sorted(wrong)}")
    if rows[-1]["event"] != "closed" or rows[-1]["ok"] != (not failed):
        found.append(f"ended with {rows[-1]}")
    return found


def attempts(rows: list[Row]) -> int:
    """How often tasks were started."""
    return sum(row["event"] == "started" for row in rows)
