"""Folders of runs whose files were changed: one line says what is wrong and where."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.execute.agents.running import check_agents, read_agents, run_agents
from weft.execute.agents.setup import PROBLEM, RUN, Setup, read_setup, write_setup
from weft.scenarios import scenario


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that ended well."""
    folder = tmp_path_factory.mktemp("agents") / "run"
    run_agents(scenario("edge-single-3", tasks=6).elastic("test", 0), Setup("min"), folder)
    return folder


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(kept, tmp_path / "run"))


def changed(file: Path, **fields: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def test_setup_is_read_as_it_was_written(tmp_path: Path):
    given = Setup("min", host="10.0.0.1", port=7, elsewhere=("cluster-1", "coordinator-0"), mark="m")
    problem = scenario("edge-multi-3", tasks=5).elastic("test", 0)
    posed = problem.replaced(types=tuple(replace(one, switching=0.3, noise=0.2) for one in problem.types))
    write_setup(tmp_path, given, posed)
    setup, found = read_setup(tmp_path)
    assert setup == given
    assert [(one.switching, one.noise) for one in found.types] == [(0.3, 0.2)] * 2


def test_folders_of_earlier_versions_are_read(folder: Path):
    run, problem = (json.loads((folder / name).read_text()) for name in (RUN, PROBLEM))
    for key in ("host", "port", "elsewhere", "mark"):
        del run[key]
    for kind in problem["types"]:
        del kind["switching"]
    (folder / RUN).write_text(json.dumps(run))
    (folder / PROBLEM).write_text(json.dumps(problem))
    assert read_agents(folder).faults == ()


def test_agents_folder_is_read(folder: Path):
    assert check_agents(folder).ok and read_agents(folder).faults == ()


@pytest.mark.parametrize("text", ["{}", '{"types": 3}', '{"types": [3]}'])
def test_problem_of_another_form_is_refused(folder: Path, text: str):
    (folder / PROBLEM).write_text(text)
    with pytest.raises(InputError, match=r"problem\.json.*expected what weft agents writes"):
        check_agents(folder)


@pytest.mark.parametrize(
    ("file", "fields", "said"),
    [
        (RUN, {"replicas": "x"}, "run.json: replicas: expected int, got 'x'"),
        (RUN, {"conditions": {}}, "run.json: latency: expected what weft agents writes, got nothing"),
        (PROBLEM, {"arrival_rate": "x"}, "problem.json: arrival_rate: expected float, got 'x'"),
        (PROBLEM, {"num_tasks": True}, "problem.json: num_tasks: expected int, got True"),
        (PROBLEM, {"links": "x"}, "problem.json: links: expected one of subset, bandwidth, told, got 'x'"),
    ],
)
def test_wrong_fields_are_named(folder: Path, file: str, fields: dict[str, object], said: str):
    changed(folder / file, **fields)
    with pytest.raises(InputError) as raised:
        check_agents(folder)
    assert str(raised.value).endswith(said)


@pytest.mark.parametrize("name", ["cluster-0.jsonl", "source.jsonl"])
def test_missing_journals_are_named(folder: Path, name: str):
    (folder / name).unlink()
    for read in (check_agents, read_agents):
        with pytest.raises(InputError, match=f"{name}: expected a journal of this run, got no such file"):
            read(folder)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("3", "cluster-0.jsonl:1: expected a JSON object"),
        ("{}", "run: cluster 0, line 1: expected what weft agents writes"),
        ('{"kind": "submit", "tasks": 3}', "run: cluster 0, line 1: expected what weft agents writes"),
    ],
)
def test_lines_of_another_form_are_refused(folder: Path, line: str, said: str):
    file = folder / "cluster-0.jsonl"
    file.write_text(f"{line}\n{file.read_text()}")
    with pytest.raises(InputError) as raised:
        check_agents(folder)
    assert said in str(raised.value)


def test_decisions_of_another_form_are_refused(folder: Path):
    (folder / "decisions-0.jsonl").write_text('{"term": 0, "ok": true}\n')
    with pytest.raises(InputError, match="expected decisions as weft agents writes them"):
        read_agents(folder)
