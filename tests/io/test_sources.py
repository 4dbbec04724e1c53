"""Bytes in and out: limits, encodings, places of errors, atomic writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.io.sources import decode, located, printable, read_bytes, size_limit, write_bytes


def test_read_refuses_a_file_over_the_limit_naming_limit_and_override(tmp_path: Path):
    path = tmp_path / "large.json"
    path.write_bytes(b"x" * 101)
    with pytest.raises(InputError, match=r"has 101 bytes, the limit is 100: raise it with WEFT_MAX_BYTES"):
        read_bytes(path, 100)


def test_limit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEFT_MAX_BYTES", "123")
    assert (size_limit(None), size_limit(5)) == (123, 5)


def test_limit_in_the_environment_must_be_a_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEFT_MAX_BYTES", "lots")
    with pytest.raises(InputError, match="expected a number of bytes, got 'lots'"):
        size_limit(None)


def test_read_refuses_a_pipe_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="got a device or pipe"):
        read_bytes(tmp_path / "pipe")


def test_decode_accepts_a_byte_order_mark():
    assert decode(b"\xef\xbb\xbfdigraph {}", "x.dot") == "digraph {}"


def test_decode_names_the_line_of_a_wrong_byte():
    with pytest.raises(InputError, match="got the byte 0xff") as caught:
        decode(b"one\ntwo \xff", "x.dot")
    assert caught.value.line == 2


def test_printable_escapes_control_and_direction_characters():
    assert printable("a\nb\x1b[31m\u202ec") == "a\\nb\\x1b[31m\\u202ec"


def test_printable_cuts_long_text():
    assert len(printable("x" * 10_000)) < 300


def test_located_fills_in_only_what_is_missing():
    with pytest.raises(InputError) as caught, located("file.json", "tasks"):
        raise InputError("wrong", field="edges")
    assert (caught.value.file, caught.value.field) == ("file.json", "edges")


def test_write_leaves_no_temporary_file(tmp_path: Path):
    write_bytes(b"one", tmp_path / "out")
    write_bytes(b"two", tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_bytes() == b"two"


def test_write_that_fails_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(_: int) -> None:
        raise OSError(28, "No space left on device")

    write_bytes(b"old", tmp_path / "out")
    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        write_bytes(b"new", tmp_path / "out")
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"out": b"old"}


def test_write_into_a_missing_folder_is_one_line(tmp_path: Path):
    with pytest.raises(InputError, match="no such folder"):
        write_bytes(b"x", tmp_path / "none" / "out")


def test_write_through_a_link_keeps_the_link(tmp_path: Path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_bytes(b"new", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_write_to_a_pipe_leaves_it_a_pipe(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_bytes(b"data", tmp_path / "pipe")
    assert os.read(reader, 9) == b"data"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
