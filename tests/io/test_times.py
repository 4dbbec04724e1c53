"""Files of arrival times: lines or a JSON list, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import InputError
from weft.io.times import read_times


@pytest.mark.parametrize("text", ["1\n2.5 # late\n\n3e1\n", "[1, 2.5, 30]"])
def test_times_are_read_from_lines_or_a_list(tmp_path: Path, text: str):
    (tmp_path / "times").write_text(text, "utf-8")
    assert read_times(tmp_path / "times") == (1.0, 2.5, 30.0)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("1\nsoon\n", "expected a finite time >= 0, got 'soon'", 2),
        ("-1\n", "expected a finite time >= 0, got '-1'", 1),
        ("inf\n", "expected a finite time >= 0, got 'inf'", 1),
        ("[1, true]", "expected a finite time >= 0, got True", None),
        ("[1,", "expected a JSON list of times", None),
        ("# nothing\n", "expected at least one time, got none", None),
    ],
)
def test_bad_times_are_refused_with_their_line(tmp_path: Path, text: str, message: str, line: int | None):
    (tmp_path / "times").write_text(text, "utf-8")
    with pytest.raises(InputError, match=message) as caught:
        read_times(tmp_path / "times")
    assert caught.value.line == line
