"""Weights that go on from ``es`` on a few workflows of one's own, against weights tuned there from the start.

The files of a folder are split by name: every third is held out. Tuned are streams of the others; played are other
streams of these, and streams of those held out. Percentages are by pairs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks._workflow_tables import LOADS, Rows, percent, table
from weft.errors import InputError
from weft.training.train import train

CLUSTER = "gpu-mix-8"
STREAMS = {"noise": 0.2, "ccr": 1.0, "jobs": 100}
STEPS = 8
"""Generations of the weights that go on; those from the start take what ``workflows-es`` takes."""
RECIPE = """schema = "weft/training/1"
extends = "workflows-es"
name = "own-workflows"
scenario = "stream.toml"

[settings]
load = [0.5, 0.8, 0.95]
noise = 0.2
ccr = 1.0
jobs = 40

[validation]
every = 4
seeds = 4
"""


def finetune(options: argparse.Namespace) -> None:
    """Tune in both ways, then compare with ``es`` and ``priced``."""
    files = sorted(map(str, Path(options.data or ".").resolve().glob("*.json"))) if options.data else []
    if len(files) < 3:
        raise InputError("expected a folder with at least three workflow files (*.json)", field="--data")
    held = files[2::3]
    known = [file for file in files if file not in held]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.out or scratch)
        names = tuned(folder, known)
        for words, part in (("files that were tuned on, other streams", known), ("files held out", held)):
            rows = Rows(
                options, f"finetune-{len(part)}", [*names, "es", "priced"], part, cluster=CLUSTER, load=list(LOADS),
                **STREAMS,
            )  # fmt: skip
            print(f"streams of 100 jobs of {len(part)} {words}, {options.seeds} per load, in %")
            table("", [f"load {load:g}" for load in LOADS], compared(rows, *names))


def tuned(folder: Path, files: Sequence[str]) -> tuple[str, str]:
    """Names of the weights that went on from ``es`` and of those from the start; runs that are there are not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = ", ".join(f'"{file}"' for file in files)
    stream = f'schema = "weft/scenario/1"\nname = "own-stream"\ngenerator = "files"\ncluster = "{CLUSTER}"\nfiles = [{listed}]\n'
    (folder / "stream.toml").write_text(stream, encoding="utf-8")
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    fine, whole = folder / "fine", folder / "whole"
    if not (fine / "best.json").exists():
        train(folder / "recipe.toml", fine, settings={"generations": STEPS, "sigma": 0.1}, start="es")
    if not (whole / "best.json").exists():
        train(folder / "recipe.toml", whole)
    return f"{fine}@best", f"{whole}@best"


def compared(rows: Rows, fine: str, whole: str) -> list[tuple[str, list[str]]]:
    """Lines of mean job times, a cell per load."""
    pairs = {
        "`es` against `priced`": ("es", "priced"),
        "fine-tuned against `priced`": (fine, "priced"),
        "tuned from the start against `priced`": (whole, "priced"),
        "fine-tuned against `es`": (fine, "es"),
        "fine-tuned against tuned from the start": (fine, whole),
    }
    return [
        (words, [percent(*(rows.of("mean_jct", name, load=load) for name in both)) for load in LOADS])
        for words, both in pairs.items()
    ]
