"""Clusters read without pydantic."""

from __future__ import annotations

import subprocess
import sys

import pytest

from weft.errors import InputError
from weft.io.clusters import cluster_document, cluster_from_document
from weft.io.simple_clusters import cluster_of

PLAIN = {
    "name": "two",
    "device": [{"class": "cpu", "count": 2, "speed": 1.25}, {"class": "gpu", "batch": 5}],
}


def test_plain_cluster_is_the_same_as_the_usual_one():
    mine, usual = cluster_of(PLAIN), cluster_from_document(PLAIN)
    assert cluster_document(mine) == cluster_document(usual)
    for name in ("device_class", "node", "link_group", "latency", "bandwidth"):
        ours, theirs = getattr(mine, name), getattr(usual, name)
        assert (ours.dtype, ours.tolist()) == (theirs.dtype, theirs.tolist())


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"class": "cpu", "batch": 0}, "device[0].batch"),
        ({"class": "cpu", "speed": -1.0}, "device[0].speed"),
        ({"class": "cpu", "cuont": 1}, "device[0].cuont"),
    ],
)
def test_wrong_cluster_is_refused_the_usual_way(row: dict[str, object], field: str):
    with pytest.raises(InputError) as error:
        cluster_of({"device": [row]})
    assert error.value.field == field


def test_recipes_of_training_need_no_pydantic():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('pydantic', 'typer', 'rich', 'gymnasium')))\n"
        "from weft.training.recipes import read_recipe\n"
        "print(read_recipe('conditional').setup().problem.cluster.num_devices)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "4"
