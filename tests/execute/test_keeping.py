"""Results on disk: what comes back, what is refused, what happens to damaged files."""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.execute import keeping
from weft.execute.keeping import NotKept, keep, kept

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers()), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(PLAIN)
def test_plain_values_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, value: Any):
    folder = tmp_path_factory.mktemp("result")
    assert keep(value, folder)
    back = kept(folder)
    assert back == value and repr(back) == repr(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.zeros((0, 4), dtype=np.int32),
        np.array(["a", "bc"]),
        np.asfortranarray(np.random.default_rng(0).random((50, 40))),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array("2024-01-01", dtype="datetime64[D]"),
        np.float32(2.5),
    ],
)
def test_arrays_come_back_as_they_were(tmp_path: Path, array: Any):
    assert keep({"x": [array]}, tmp_path)
    back = kept(tmp_path)["x"][0]
    assert type(back) is type(array) and back.dtype == array.dtype and np.array_equal(back, array)


def test_odd_numbers_and_large_bytes_come_back(tmp_path: Path):
    value = [math.inf, -math.inf, bytes(5000), bytearray(b"x"), -0.0]
    assert keep(value, tmp_path)
    assert repr(kept(tmp_path)) == repr(value)
    keep(math.nan, tmp_path)
    assert math.isnan(kept(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


class Pair(NamedTuple):
    a: int
    b: int


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        1j,
        lambda: None,
        Pair(1, 2),
        OrderedDict(),
        np.array([object()], dtype=object),
        np.ma.masked_array([1], [True]),
        [bytes(5000), threading.Lock()],
        ENDLESS,
        [1 << 20_000],
    ],
)
def test_values_without_a_safe_form_are_refused_and_leave_nothing(tmp_path: Path, value: Any):
    assert not keep(value, tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotKept):
        kept(tmp_path)


def test_a_value_that_cannot_be_kept_leaves_the_earlier_one(tmp_path: Path):
    keep([1, bytes(5000)], tmp_path)
    assert not keep([bytes(6000), object()], tmp_path)
    assert kept(tmp_path) == [1, bytes(5000)]


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "flip":
        path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["cut", "flip", "empty", "gone"])
def test_damaged_parts_count_as_not_kept(tmp_path: Path, how: str):
    keep(np.arange(1000), tmp_path)
    (part,) = tmp_path.glob("*.npy")
    damage(part, how)
    with pytest.raises(NotKept):
        kept(tmp_path)


@pytest.mark.parametrize("how", ["cut", "empty", "gone"])
def test_damaged_documents_count_as_not_kept(tmp_path: Path, how: str):
    keep([1, 2, {"a": 3}], tmp_path)
    damage(tmp_path / "result.json", how)
    with pytest.raises(NotKept):
        kept(tmp_path)


@pytest.mark.parametrize(
    "form",
    [
        {"pickle": "80"},
        {},
        {"tuple": [1], "dict": []},
        {"dict": [[[1], 2]]},
        {"bytes": {"file": "../secret", "size": 1, "crc32": 0}},
        {"array": "00"},
        {"array": None},
        {"float": "x"},
    ],
)
def test_foreign_documents_count_as_not_kept(tmp_path: Path, form: Any):
    (tmp_path / "result.json").write_text(json.dumps({"schema": keeping.SCHEMA, "value": form}))
    with pytest.raises(NotKept):
        kept(tmp_path)


def test_rehearsed_results_are_kept_as_their_size(tmp_path: Path):
    keeping.keep_rehearsed(2_000_000, tmp_path)
    assert len(kept(tmp_path)) == 2_000_000
    assert (tmp_path / "result.json").stat().st_size < 200
