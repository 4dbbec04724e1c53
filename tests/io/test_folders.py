"""Folders that are claimed and held."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.errors import InputError, LockedError
from weft.io.folders import LOCK, claim, locked


def test_claim_makes_the_folder(tmp_path: Path) -> None:
    assert claim(tmp_path / "a" / "b", "sweep", "mark").is_dir()


def test_claim_takes_a_folder_with_its_mark(tmp_path: Path) -> None:
    (tmp_path / "mark").touch()
    (tmp_path / "other").touch()
    assert claim(tmp_path, "sweep", "mark") == tmp_path


def test_claim_refuses_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis").touch()
    with pytest.raises(InputError, match="expected an empty folder or a sweep, found 'thesis' and no mark"):
        claim(tmp_path, "sweep", "mark")


@pytest.mark.parametrize(
    ("mark", "noun", "found"),
    [
        ("sweep.sqlite", "training run", "sweep"),
        ("checkpoints", "sweep", "training run"),
        ("stress.json", "run", "search"),
        ("run.json", "search", "run"),
    ],
)
def test_claim_refuses_what_holds_something_else_of_weft(
    mark: str, noun: str, found: str, tmp_path: Path
) -> None:
    (tmp_path / LOCK).touch()
    (tmp_path / mark).touch()
    (tmp_path / "config.json").touch()  # sweeps and training runs both have one
    with pytest.raises(
        InputError, match=rf"expected an empty folder or a {noun}, found a {found} \({mark}\)"
    ):
        claim(tmp_path, noun, "config.json")


def test_claim_refuses_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="expected a folder for the sweep"):
        claim(tmp_path / "file", "sweep", "mark")


def test_locked_names_the_holder(tmp_path: Path) -> None:
    with (
        locked(tmp_path, "busy here"),
        pytest.raises(LockedError, match=f"process {os.getpid()} is busy here"),
        locked(tmp_path, "busy here"),
    ):
        pass


def test_lock_without_room_names_the_file(tmp_path: Path) -> None:
    import resource
    import signal

    before, limit = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
    try:
        with pytest.raises(InputError, match=rf"{LOCK}: cannot be written"), locked(tmp_path, "busy here"):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)


def test_locked_is_free_after_use(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path, "busy here"):
            assert (tmp_path / LOCK).read_text() == f"{os.getpid()}\n"
