"""Cluster files that say which worker each device is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.io.files import read_cluster
from weft.io.workers import read_calibration, read_workers, write_workers
from weft.model.cluster import Cluster, DeviceClass

PAIR = Cluster.uniform([DeviceClass("fast", 2.0, overhead=0.004), DeviceClass("slow")], [2, 1], bandwidth=1e9)
WORKERS = {"fast-0": "tcp://10.0.0.1:4000", "fast-1": "tcp://10.0.0.2:4000", "slow-0": 'odd "name"'}


def test_workers_survive_a_file(tmp_path: Path):
    path = tmp_path / "c.toml"
    figures = {"engine": "dask", "worker": [{"name": "a", "speed": 2.0, "probes": {"zlib": 0.1}}]}
    write_workers(PAIR, WORKERS, path, figures)
    assert '[workers]\nfast-0 = "tcp://10.0.0.1:4000"\n' in path.read_text()
    assert read_cluster(path).equals(PAIR)
    assert read_workers(path) == WORKERS
    assert read_calibration(path) == figures


def test_workers_are_read_from_json(tmp_path: Path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"device": [{"class": "a"}], "workers": {"a-0": "w"}}))
    assert read_workers(path) == {"a-0": "w"}


def test_a_file_without_workers_maps_nothing(tmp_path: Path):
    path = tmp_path / "c.toml"
    path.write_text('[[device]]\nclass = "a"\n')
    assert (read_workers(path), read_calibration(path), read_workers("gpu-mix-8")) == ({}, {}, {})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('b-0 = "w"', "workers: no device 'b-0' in the cluster"),
        ("a-0 = 3", "workers.a-0: expected string, got 3"),
        ('a-0 = ""', "workers.a-0: "),
    ],
)
def test_wrong_workers_are_refused(tmp_path: Path, table: str, message: str):
    path = tmp_path / "c.toml"
    path.write_text(f'[[device]]\nclass = "a"\n[workers]\n{table}\n')
    for read in (read_workers, read_cluster):
        with pytest.raises(InputError) as caught:
            read(path)
        assert message in str(caught.value)
        assert str(path) in str(caught.value)


def test_schema_takes_workers_and_calibration(tmp_path: Path):
    jsonschema = pytest.importorskip("jsonschema")
    path = tmp_path / "c.toml"
    write_workers(PAIR, WORKERS, path, {"engine": "local"})
    schema = Path(__file__).parents[2] / "weft" / "io" / "schemas" / "cluster.json"
    jsonschema.validate(tomllib.loads(path.read_text()), json.loads(schema.read_text()))


def test_write_refuses_devices_that_are_not_there(tmp_path: Path):
    with pytest.raises(InputError, match="workers: no device 'x-0' in the cluster"):
        write_workers(PAIR, {"x-0": "w"}, tmp_path / "c.toml")
