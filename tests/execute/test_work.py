"""What workers do: calls, commands and rehearsals, with their logs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from processes import gone

from weft.execute.work import (
    Call,
    Command,
    Control,
    Place,
    Rehearsal,
    Result,
    TaskFailed,
    carry_out,
)


def place(folder: Path | str = "", attempt: int = 1, timeout: float | None = None) -> Place:
    return Place("job", "task", attempt, "cpu-0", "cpu", str(folder), timeout)


def failure(work: Any, where: Place, control: Control | None = None) -> str:
    with pytest.raises(TaskFailed) as caught:
        carry_out(work, {}, where, control)
    return str(caught.value)


def collect(*values: Any, **named: Any) -> Any:
    return values, named


def speak(text: str) -> None:
    print(text)
    print("again", text, file=sys.stderr)


def break_down() -> None:
    raise ValueError("first line\nsecond line")


def test_calls_get_results_also_inside_lists_tuples_and_dicts():
    call = Call(collect, (Result("a"), [1, (Result("b"), {"k": Result("a")})]), {"z": Result("b")})
    assert carry_out(call, {"a": 5, "b": "six"}, place()) == ((5, [1, ("six", {"k": 5})]), {"z": "six"})


def test_calls_without_an_input_fail():
    assert failure(Call(collect, (Result("a"),)), place()) == "the result of 'a' is not there"


def test_calls_print_to_files_of_the_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    before = sys.stdout
    carry_out(Call(speak, ("one",)), {}, place(tmp_path))
    carry_out(Call(speak, ("two",)), {}, place(tmp_path, attempt=2))
    assert (tmp_path / "stdout.txt").read_text() == "one\n--- attempt 2 on cpu-0 ---\ntwo\n"
    assert "again two" in (tmp_path / "stderr.txt").read_text()
    assert capsys.readouterr().out == "" and sys.stdout is before


def test_calls_in_threads_keep_their_output_apart(tmp_path: Path):
    def run(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        for _ in range(50):
            carry_out(Call(speak, (str(number),)), {}, place(folder))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        assert (tmp_path / str(k) / "stdout.txt").read_text() == f"{k}\n" * 50


def test_calls_that_raise_leave_one_line_and_a_traceback(tmp_path: Path):
    assert failure(Call(break_down), place(tmp_path)) == "ValueError: first line second line"
    trace = (tmp_path / "stderr.txt").read_text()
    assert "in break_down" in trace and "second line" in trace and "in _call" not in trace


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_calls_that_want_to_leave_only_fail(error: BaseException):
    def leave() -> None:
        raise error

    assert failure(Call(leave), place()).startswith(type(error).__name__)


def test_what_a_task_writes_below_python_is_captured_where_it_runs_alone(tmp_path: Path):
    def below() -> None:
        os.write(1, b"raw\n")
        subprocess.run(["echo", "program"], check=True)

    carry_out(Call(below), {}, place(tmp_path), Control(is_alone=True))
    assert (tmp_path / "stdout.txt").read_text() == "raw\nprogram\n"


@pytest.mark.parametrize("line", ["echo hello $WEFT_TASK; pwd", ("sh", "-c", "echo hello $WEFT_TASK; pwd")])
def test_commands_run_in_the_folder_of_the_task(tmp_path: Path, line: Any):
    assert carry_out(Command(line), {}, place(tmp_path)) == 0
    assert (tmp_path / "stdout.txt").read_text() == f"hello task\n{tmp_path}\n"
    assert (tmp_path / "exit_code.txt").read_text() == "0\n"


def test_commands_have_an_environment_and_a_folder_of_their_own(tmp_path: Path):
    inner = tmp_path / "inner"
    inner.mkdir()
    carry_out(Command("echo $COLOUR; pwd", {"COLOUR": "red"}, str(inner)), {}, place(tmp_path))
    assert (tmp_path / "stdout.txt").read_text() == f"red\n{inner}\n"


def test_commands_that_fail_say_how(tmp_path: Path):
    assert failure(Command("echo oops >&2; exit 3"), place(tmp_path)) == "exit code 3"
    assert (tmp_path / "stderr.txt").read_text() == "oops\n"
    assert (tmp_path / "exit_code.txt").read_text() == "3\n"
    assert failure(Command("kill -9 $$"), place()) == "killed by signal 9"
    assert failure(Command(("no-such-program",)), place()).startswith(
        "cannot run 'no-such-program': FileNotFoundError"
    )


def test_commands_that_take_too_long_are_stopped_with_what_they_started(tmp_path: Path):
    began = time.time()
    where = place(tmp_path, timeout=0.3)
    assert failure(Command("sleep 60 & echo $!; sleep 60"), where) == "timed out after 0.3 s"
    assert time.time() - began < 10
    assert gone(int((tmp_path / "stdout.txt").read_text()))


def test_commands_leave_nothing_running_behind(tmp_path: Path):
    carry_out(Command("sleep 60 & echo $!"), {}, place(tmp_path))
    assert gone(int((tmp_path / "stdout.txt").read_text()))


def test_commands_can_be_stopped():
    groups: list[int] = []
    control = Control(spawned=groups.append)
    threading.Timer(0.2, control.stop, ["cancelled"]).start()
    assert failure(Command("sleep 60"), place(), control) == "cancelled"
    assert len(groups) == 1 and gone(groups[0])


def test_rehearsals_take_the_time_of_their_class_and_hand_on_bytes():
    work = Rehearsal({"cpu": 0.1, "gpu": 9.0}, size=3_000_000, share=0.5)
    began = time.perf_counter()
    result = carry_out(work, {}, place())
    assert 0.0999 <= time.perf_counter() - began < 5.0
    assert len(result) == 3_000_000 and len(zlib.compress(result[:200_000], 1)) > 199_000


def test_rehearsals_compute_as_much_of_it_as_they_should():
    carry_out(Rehearsal({"cpu": 0.0}), {}, place())
    before = time.process_time()
    carry_out(Rehearsal({"cpu": 0.4}, share=0.25), {}, place())
    assert 0.02 < time.process_time() - before < 0.39


def test_rehearsals_on_a_class_without_run_time_fail():
    assert failure(Rehearsal({"gpu": 1.0}), place()) == "no run time is given for class 'cpu'"


def test_rehearsals_slow_down_and_stop():
    control = Control(factor=1000.0)
    threading.Timer(0.2, control.stop, ["cancelled"]).start()
    assert failure(Rehearsal({"cpu": 1.0}, share=0.1), place(), control) == "cancelled"
