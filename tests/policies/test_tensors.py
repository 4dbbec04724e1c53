from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.policies import tensors
from weft.policies.tensors import decode_tensors, encode_tensors, write_atomic

SOME = {
    "b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a": np.array([1, -2], np.int64),
    "flags": np.array([True, False, True]),
    "scalar": np.array(2.5),
    "empty": np.zeros((0, 4), np.uint8),
}


def raw(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(shape: object = (1,), offsets: object = (0, 4), dtype: object = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_tensors_come_back_as_they_were():
    found = decode_tensors(encode_tensors(SOME))
    assert list(found) == ["a", "scalar", "b", "empty", "flags"]
    for name, array in SOME.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
        assert found[name].shape == array.shape
        assert found[name].flags.writeable


def test_tensors_encode_the_same_in_any_order():
    assert encode_tensors(SOME) == encode_tensors(dict(reversed(SOME.items())))


def test_tensors_encode_arrays_that_are_not_contiguous():
    turned = SOME["b"].T
    assert np.array_equal(decode_tensors(encode_tensors({"t": turned}))["t"], turned)


def test_tensors_are_what_the_safetensors_package_reads():
    safetensors = pytest.importorskip("safetensors.numpy")
    found = safetensors.load(encode_tensors(SOME))
    assert all(np.array_equal(found[name], array) for name, array in SOME.items())


def test_tensors_read_what_the_safetensors_package_writes():
    safetensors = pytest.importorskip("safetensors.numpy")
    found = decode_tensors(safetensors.save({"b": SOME["b"]}, {"made": "elsewhere"}))
    assert np.array_equal(found["b"], SOME["b"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a safetensors file, got 0 bytes"),
        (b"PK\x03\x04" + bytes(40), "a zip archive (a torch .pt or NumPy .npz file?)"),
        (b"\x80\x05\x95" + bytes(40) + b".", "a pickle; weft never unpickles"),
        (b"\x80\x02}q\x00." + bytes(9), "a pickle; weft never unpickles"),
        (b"\x93NUMPY\x01\x00v\x00{'descr'", "a NumPy .npy file"),
        (b"hello world", "11 bytes that begin with b'hello wo'"),
        ((2**40).to_bytes(8, "little") + b"{}", "expected a safetensors file"),
        ((tensors.MAX_HEADER + 1).to_bytes(8, "little") + b"{}", "expected a safetensors file"),
        ((100).to_bytes(8, "little") + b"{}", "is cut short: the header has 100 bytes, the file 2"),
        (raw(b"{"), "the header is not JSON"),
        (raw(b"\xff\xfe"), "the header is not JSON"),
        (raw(b"[" * 100_000), "the header is not JSON"),
        (raw([]), "expected a header with names, got list"),
        (raw(b'{"a": 1, "a": 2}'), "a name occurs twice"),
        (raw({"a": 1}), "a: expected dtype, shape and data_offsets"),
        (raw({"a": {"dtype": "F32"}}), "a: expected dtype, shape and data_offsets"),
        (raw({"a": entry(dtype="BF16")}, bytes(4)), "a: expected one of BOOL, U8"),
        (raw({"a": entry(dtype=[1])}, bytes(4)), "a: expected one of BOOL, U8"),
        (raw({"a": entry(shape=[-1])}, bytes(4)), "a: expected whole numbers as shape, got [-1]"),
        (raw({"a": entry(shape=[1.0])}, bytes(4)), "a: expected whole numbers as shape, got [1.0]"),
        (raw({"a": entry(shape=[True])}, bytes(4)), "a: expected whole numbers as shape, got [True]"),
        (raw({"a": entry(shape="x")}, bytes(4)), "a: expected whole numbers as shape"),
        (raw({"a": entry(offsets=[0])}, bytes(4)), "a: expected two offsets, got 1"),
        (raw({"a": entry(offsets=[4, 0])}, bytes(4)), "a: expected 4 bytes, got -4"),
        (raw({"a": entry(shape=[2**40, 2**40])}, bytes(4)), "a: expected 4835703278458516698824704 bytes"),
        (raw({"a": entry(shape=[2], offsets=[0, 8])}, bytes(4)), "a: is cut short: data ends at 4, not 8"),
        (raw({"a": entry(offsets=[4, 8])}, bytes(8)), "a: expected data at offset 0, got 4"),
        (raw({"a": entry(), "b": entry()}, bytes(4)), "b: expected data at offset 4, got 0"),
        (raw({"a": entry()}, bytes(5)), "expected 4 bytes of data, got 5"),
        (raw({str(i): entry() for i in range(1025)}, bytes(4)), "expected at most 1024 tensors, got 1025"),
    ],
)
def test_tensors_refuse(data: bytes, message: str):
    with pytest.raises(InputError) as error:
        decode_tensors(data, "w.safetensors")
    assert message in str(error.value)
    assert error.value.file == "w.safetensors"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 255), st.integers(0, 10_000))
def test_tensors_damaged_anywhere_are_read_or_refused(at: int, flip: int, cut: int):
    data = bytearray(encode_tensors(SOME))
    data[at % len(data)] ^= flip
    for damaged in (bytes(data), bytes(data[: cut % len(data)])):
        try:
            decode_tensors(damaged)
        except InputError as error:
            assert "\n" not in str(error)


def test_write_atomic_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomic(b"old", path)

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tensors.os, "fsync", fail)
    with pytest.raises(InputError, match="file: cannot be written: No space left on device"):
        write_atomic(b"new", path)
    assert path.read_bytes() == b"old"
