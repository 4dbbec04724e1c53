"""``python -m weft.training`` where only NumPy, numba and torch are installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from weft.io.cluster_tables import own_tables, tables_of
from weft.io.clusters import builtin_clusters, own_text
from weft.io.headers import ClusterPart, checked

MISSING = (
    "pydantic", "pydantic_core", "typer", "rich", "gymnasium", "pettingzoo", "tensorboard", "matplotlib", "ortools",
    "ray", "dask", "distributed", "scipy", "onnx",
)  # fmt: skip
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({MISSING!r}))\n"
"""A package that is None cannot be imported."""
EVERY_RECIPE = """
from weft.training.algorithms import ALGORITHMS
from weft.training.recipes import read_recipe, recipe_names

for name in recipe_names():
    recipe = read_recipe(name)
    recipe.check(0)
    ALGORITHMS[recipe.algorithm].learner_of()
    print(name)
"""
TRAIN = "from weft.training.__main__ import main; sys.exit(main(sys.argv[1:]))"
STREAMS = "validation.every=1 validation.seeds=1 jobs=3 tasks=8"
NET = f"{STREAMS} num_envs=4 num_steps=32 minibatch=64 streams=4"
RECIPES = {
    "workflows-es": f"{STREAMS} generations=1 population=4 episodes=2",
    "tasks-quick": f"{NET} samples=128 imitation_updates=1",
    "workflows-dqn-quick": f"{NET} samples=256 warmup=64",
}


def run(source: str, *words: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + source, *words],
        capture_output=True,
        text=True,
        env=given,
        check=False,
    )


def test_every_built_in_recipe_is_ready_to_train():
    done = run(EVERY_RECIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"adas", "conditional", "edge-quick", "oneshot-workflows", "workflows-dqn"} <= {
        *done.stdout.split()
    }


@pytest.mark.parametrize("recipe", RECIPES)
def test_workflows_are_trained_on_built_in_clusters(recipe: str, tmp_path: Path):
    sets = [word for change in RECIPES[recipe].split() for word in ("--set", change)]
    done = run(TRAIN, recipe, "--out", str(tmp_path / "run"), *sets)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "best.json").exists()


@pytest.mark.parametrize("name", builtin_clusters())
def test_built_in_clusters_are_as_those_that_are_checked(name: str):
    document = tomllib.loads(own_text(name))
    assert repr(own_tables(document)) == repr(tables_of(checked(ClusterPart, document)))
