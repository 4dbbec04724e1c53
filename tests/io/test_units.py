"""Quantities with units."""

from __future__ import annotations

import math

import pytest

from weft.io.units import parse_bandwidth, parse_bytes, parse_seconds, parse_time


@pytest.mark.parametrize(
    ("given", "bytes_per_second"),
    [
        ("1 GB/s", 1e9),
        ("50 GB/s", 50e9),
        ("800 MB/s", 800e6),
        ("10 Gbit/s", 1.25e9),
        ("1GiB/s", 1024.0**3),
        ("2.5e3 kB/s", 2.5e6),
        (125, 125.0),
        ("infinite", math.inf),
    ],
)
def test_bandwidth_reads_bytes_and_bits(given: object, bytes_per_second: float):
    assert parse_bandwidth(given) == pytest.approx(bytes_per_second)


@pytest.mark.parametrize(
    ("given", "size"), [("16 GB", 16e9), ("16 GiB", 16 * 2.0**30), ("3 kB", 3e3), (7, 7.0)]
)
def test_bytes_tell_decimal_from_binary(given: object, size: float):
    assert parse_bytes(given) == size


@pytest.mark.parametrize(
    ("given", "seconds"), [("10 us", 1e-5), ("10 µs", 1e-5), ("5 ms", 5e-3), (0, 0.0), ("2 s", 2.0)]
)
def test_seconds_read_small_units(given: object, seconds: float):
    assert parse_seconds(given) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("given", "unit", "time"),
    [
        ("5 min", "s", 300.0),
        ("5 min", "min", 5.0),
        ("300 ms", "ms", 300.0),
        ("1 d", "h", 24.0),
        (7, "ms", 7.0),
    ],
)
def test_times_are_read_in_the_unit_of_the_graph(given: object, unit: str, time: float):
    assert parse_time(given, unit) == time


@pytest.mark.parametrize(
    ("given", "unit", "text"),
    [
        ("soon", "s", "expected a time such as '5 min' or '300 ms', or a number of seconds, got 'soon'"),
        ("5 fortnights", "ms", "or a number in 'ms', got '5 fortnights' with the unknown unit 'fortnights'"),
        ("5", "s", "got '5' without a unit"),
        ("-1 s", "s", "got '-1 s'"),
        ("1e999 s", "s", "got '1e999 s'"),
    ],
)
def test_times_refuse_what_is_none(given: str, unit: str, text: str):
    with pytest.raises(ValueError, match=text):
        parse_time(given, unit)


@pytest.mark.parametrize("given", ["10 Gb/s", "10 Gbps"])
def test_bandwidth_asks_whether_b_means_bits_or_bytes(given: str):
    with pytest.raises(ValueError, match="write GB/s for bytes or Gbit/s for bits"):
        parse_bandwidth(given)


@pytest.mark.parametrize(
    "given",
    ["", "fast", "1", "1 GB", "1 XB/s", "-1 GB/s", 0, -1, True, None, [1], math.inf, math.nan, 10**400],
)
def test_bandwidth_refuses_what_is_none(given: object):
    with pytest.raises(ValueError, match="expected a bandwidth"):
        parse_bandwidth(given)


@pytest.mark.parametrize("given", ["-1 s", "1 parsec", -1, "infinite"])
def test_seconds_refuse_what_is_none(given: object):
    with pytest.raises(ValueError, match="expected a time"):
        parse_seconds(given)
