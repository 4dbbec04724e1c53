"""The last section: the commands that made everything, and the versions they ran with."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

from weft.evaluation.benchmark import versions
from weft.evaluation.report.blocks import Block, Code, Section, Table
from weft.evaluation.report.frame import Frame
from weft.evaluation.report.runs import TrainingRun
from weft.evaluation.store import config_hash

_USUAL = {"split": "test", "check": "sample", "effort": None}


def provenance(frames: Sequence[Frame], runs: Sequence[TrainingRun], commands: Sequence[str]) -> Section:
    """Commands, versions and hashes."""
    lines = [train_command(run) for run in runs]
    lines += [evaluate_command(frame) for frame in frames if frame.config is not None]
    blocks: list[Block] = [Code((*lines, *commands)), _versions(frames, runs)]
    return Section("Commands and versions", tuple(blocks))


def train_command(run: TrainingRun) -> str:
    """The command line that starts such a run, with what it changed in its recipe."""
    name, seed = str(run.recipe.get("name", "RECIPE")), run.config.get("seed", 0)
    words = ["weft", "train", name, "--seed", str(seed)]
    words += [word for setting in run.changes for word in ("--set", setting)]
    start = run.recipe.get("from")
    words += ["--from", str(start)] if start else []
    return shlex.join([*words, "--out", run.source])


def evaluate_command(frame: Frame) -> str:
    """The command line that makes such a sweep, or shows it."""
    config = frame.config or {}
    recipe = config["scenario"]
    assert isinstance(recipe, Mapping)
    seeds = config["seeds"]
    assert isinstance(seeds, list)
    is_files = recipe["generator"] == "files"
    problems = sorted({row.problem for row in frame.rows})
    words = ["weft", "evaluate", *(problems if is_files else [frame.title])]
    words += ["--schedulers", ",".join(frame.schedulers), "--baseline", frame.baseline]
    words += [] if is_files else ["--problems", str(config["problems"])]
    words += ["--seeds", str(len(seeds)), "--seed", str(seeds[0])]
    words += [word for setting in _assignments(frame, recipe) for word in ("--set", setting)]
    for key, usual in _USUAL.items():
        words += [f"--{key}", str(config.get(key))] if config.get(key) != usual else []
    return shlex.join([*words, "--out", frame.source])


def _assignments(frame: Frame, recipe: Mapping[str, object]) -> list[str]:
    """Settings that are swept or not at their default."""
    known = recipe["settings"]
    assert isinstance(known, list)
    defaults = {setting["name"]: setting["default"] for setting in known}
    found = []
    for key in frame.cells[0].settings:
        values = list(dict.fromkeys(json.dumps(cell.settings[key]) for cell in frame.cells))
        if len(values) > 1:
            found.append(f"{key}=[{', '.join(values)}]")
        elif json.loads(values[0]) != defaults.get(key):
            found.append(f"{key}={values[0]}")
    return found


def _versions(frames: Sequence[Frame], runs: Sequence[TrainingRun]) -> Table:
    """What every source was made with, one column each, and what wrote this report."""
    columns = [("this report", versions())]
    columns += [(frame.source, _stored(frame.config)) for frame in frames if frame.config is not None]
    columns += [(run.source, _stored(run.config)) for run in runs]
    keys = dict.fromkeys(key for _, found in columns for key in found)
    rows = [(key, *(found.get(key, "-")[:16] for _, found in columns)) for key in keys]
    hashes = ["-", *(config_hash(f.config)[:16] for f in frames if f.config), *(["-"] * len(runs))]
    rows.append(("configuration", *hashes))
    headers = ("", *(name for name, _ in columns))
    return Table(headers, tuple(rows), caption="Versions; long hashes are cut to 16 letters")


def _stored(config: Mapping[str, object] | None) -> dict[str, str]:
    found = (config or {}).get("versions")
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, Mapping) else {}
