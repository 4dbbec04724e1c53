"""``weft run``: what it prints, its exit codes, and what it refuses to go on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Weft

COMMANDS = """
name = "commands"
[[tasks]]
name = "list"
work = 0.1
command = "echo fine"
[[tasks]]
name = "fail"
work = 0.1
command = ["sh", "-c", "echo no >&2; exit 3"]
[[tasks]]
name = "after-fail"
work = 0.1
after = ["fail"]
command = "echo never"
"""


@pytest.fixture
def commands(tmp_path: Path) -> str:
    """A workflow one of whose commands fails."""
    (tmp_path / "commands.toml").write_text(COMMANDS)
    return "commands.toml"


def test_run_names_tasks_that_failed_and_cannot_be_resumed(weft: Weft, commands: str, tmp_path: Path) -> None:
    ran = weft("run", commands, "--allow-commands", "--attempts", "1", "--out", "run")
    assert ran.code == 1
    assert "fail failed: exit code 3; logs in run/tasks/" in ran.out
    assert "1 of 3 tasks done, 1 failed, 1 dropped" in ran.out
    assert "1 failed attempt" in ran.out
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert rows[-1]["ok"] is False
    refused = weft("run", "--resume", "--out", "run")
    assert refused.err == "weft: --allow-commands: the run in run runs commands: say so again to go on\n"
    over = weft("run", "--resume", "--out", "run", "--allow-commands")
    assert (over.code, over.err) == (2, "weft: run: this run is over: nothing is left to do\n")


def test_run_json_has_the_documented_fields(weft: Weft, commands: str) -> None:
    ran = weft("run", commands, "--allow-commands", "--attempts", "1", "--json")
    assert ran.code == 1
    fields = "run on scheduler time_unit tasks planned actual error_percent attempts ok reason inversions"
    assert set(ran.json) == {"schema", "weft", "seed", *fields.split()}
    assert (ran.json["schema"], ran.json["tasks"], ran.json["ok"]) == ("weft/run/1", 3, False)
