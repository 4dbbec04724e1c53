"""The last section: the commands that made everything, and the versions they ran with."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

from weft.evaluation.report.blocks import Block, Code, Section, Table
from weft.evaluation.report.runs import TrainingRun
from weft.evaluation.sweep.config_form import table
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.runner import versions
from weft.evaluation.sweep.store import Config, config_hash
from weft.scenarios import read_recipe, recipe_names
from weft.scenarios.generators import GENERATORS

_USUAL = {"split": "test", "check": "sample", "effort": None}


def provenance(sweeps: Sequence[Evaluation], runs: Sequence[TrainingRun], commands: Sequence[str]) -> Section:
    """Commands, versions and hashes."""
    lines = [train_command(run) for run in runs]
    lines += [evaluate_command(swept) for swept in sweeps if swept.asked is not None]
    blocks: list[Block] = [Code((*lines, *commands)), _versions(sweeps, runs)]
    return Section("Commands and versions", tuple(blocks))


def train_command(run: TrainingRun) -> str:
    """The command line that starts such a run, with what it changed in its recipe.

    A recipe that does not come with weft is a file; older runs do not say in which folder.
    """
    named = str(run.recipe.get("name", "RECIPE"))
    name, seed = run.origin or (named if run.usual else f"{named}.toml"), run.config.get("seed", 0)
    words = ["weft", "train", name, "--seed", str(seed)]
    words += [word for setting in run.changes for word in ("--set", setting)]
    start = run.recipe.get("from")
    words += ["--from", str(start)] if start else []
    return shlex.join([*words, "--out", run.source])


def evaluate_command(swept: Evaluation) -> str:
    """The command line that makes such a sweep, goes on with it, or shows it."""
    asked = swept.asked
    if asked is None:
        return ""
    config, recipe, seeds = asked.config, asked.recipe, asked.seeds
    files = _files(config, recipe)
    words = ["weft", "evaluate", *(files or [_scenario(swept.scenario, asked.generator)])]
    words += ["--schedulers", ",".join(swept.schedulers), "--baseline", swept.baseline]
    words += [] if len(files) == asked.num_problems else ["--problems", str(asked.num_problems)]
    words += ["--seeds", str(len(seeds)), "--seed", str(seeds[0]), *_cluster(swept.scenario, recipe)]
    words += [word for setting in _assignments(config, recipe) for word in ("--set", setting)]
    for key, usual in _USUAL.items():
        words += [f"--{key}", str(config.get(key))] if config.get(key) != usual else []
    return shlex.join([*words, "--out", swept.source])


def _scenario(name: str, generator: str) -> str:
    """A built-in scenario by its name, code and entry points by theirs, another by the file that a person would have given it."""
    if generator not in GENERATORS:
        return generator
    return name if name in recipe_names() else f"{name}.toml"


def _files(config: Config, recipe: Mapping[str, object]) -> list[str]:
    """The files that are the problems of a sweep, in the order they were given."""
    if recipe["generator"] != "files":
        return []
    cells = table(config["cells"]).values()
    others = [recipe.get("cluster"), *(table(cell).get("trace") for cell in cells)]
    return [name for name in table(config.get("inputs", {})) if name not in others]


def _cluster(name: str, recipe: Mapping[str, object]) -> list[str]:
    """The option that names the machines, where they are not the scenario's own."""
    stored = str(recipe.get("cluster") or "")
    usual = read_recipe(name).cluster if name in recipe_names() else ""
    return [] if stored in ("", usual) or stored.startswith("{") else ["--cluster", stored]


def _assignments(config: Config, recipe: Mapping[str, object]) -> list[str]:
    """Settings that are swept, in the order of the labels, or not at their default."""
    known, cells = recipe["settings"], table(config["cells"])
    assert isinstance(known, list)
    defaults = {setting["name"]: setting["default"] for setting in known}
    tables = [table(cell) for cell in cells.values()]
    label = f",{next(iter(cells))}"
    place = {key: label.find(f",{key}=") for key in tables[0]}
    found = []
    for key in sorted(tables[0], key=lambda key: (place[key] < 0, place[key])):
        values = list(dict.fromkeys(json.dumps(cell.get(key)) for cell in tables))
        if len(values) > 1:
            found.append(f"{key}=[{', '.join(values)}]")
        elif json.loads(values[0]) != defaults.get(key):
            found.append(f"{key}={values[0]}")
    return found


def _versions(sweeps: Sequence[Evaluation], runs: Sequence[TrainingRun]) -> Table:
    """What every source was made with, one column each, and what wrote this report."""
    columns = [("this report", versions())]
    columns += [(swept.source, _stored(swept.asked.config)) for swept in sweeps if swept.asked]
    columns += [(run.source, _stored(run.config)) for run in runs]
    keys = dict.fromkeys(key for _, found in columns for key in found)
    rows = [(key, *(found.get(key, "-")[:16] for _, found in columns)) for key in keys]
    hashes = ["-", *(config_hash(f.asked.config)[:16] for f in sweeps if f.asked), *(["-"] * len(runs))]
    rows.append(("configuration", *hashes))
    headers = ("", *(name for name, _ in columns))
    return Table(headers, tuple(rows), caption="Versions; long hashes are cut to 16 letters")


def _stored(config: Mapping[str, object] | None) -> dict[str, str]:
    found = (config or {}).get("versions")
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, Mapping) else {}
