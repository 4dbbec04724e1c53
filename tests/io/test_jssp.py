"""Job-shop text, read and written."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.io import jssp
from weft.model import Cluster, DeviceClass, Problem, TaskGraph

STANDARD = "2 3\n0 3 1 2 2 2\n0 2 2 1 1 4\n"
TAILLARD = """Nb of jobs, Nb of Machines, Time seed, Machine seed, Upper bound, Lower bound
 2 3 840612802 398197754 11 11
Times
 3 2 2
 2 1 4
Machines
 1 2 3
 1 3 2
"""
FLEXIBLE = "2 3 1.5\n2 1 1 3 2 2 4 3 5\n1 2 1 7 2 6\n"


def test_standard_text_becomes_chains_on_single_machines() -> None:
    problem = jssp.read_text(STANDARD)
    inf = np.inf
    assert problem.run_times.tolist() == [
        [3, inf, inf],
        [inf, 2, inf],
        [inf, inf, 2],
        [2, inf, inf],
        [inf, inf, 1],
        [inf, 4, inf],
    ]
    assert list(zip(problem.graph.sources.tolist(), problem.graph.targets.tolist(), strict=True)) == [
        (0, 1),
        (1, 2),
        (3, 4),
        (4, 5),
    ]


def test_problem_names_its_operations_machines_and_unit() -> None:
    problem = jssp.read_text(STANDARD, Path("shops/ex1.jsp"))
    assert problem.graph.names == ("J0-O0", "J0-O1", "J0-O2", "J1-O0", "J1-O1", "J1-O2")
    assert problem.graph.classes == ("m0", "m1", "m2")
    assert problem.cluster.device_names == ("m0-0", "m1-0", "m2-0")
    assert (problem.name, problem.graph.time_unit) == ("ex1", "unit")
    assert not problem.objective.copies


@pytest.mark.parametrize(
    "text",
    [
        TAILLARD,
        "2 3\n3 2 2\n2 1 4\n1 2 3\n1 3 2\n",
        "# a comment\n\nexample of two jobs\n" + STANDARD,
    ],
    ids=["taillard with words", "taillard without words", "standard with a description"],
)
def test_other_spellings_hold_the_same_shop(text: str) -> None:
    assert np.array_equal(jssp.read_text(text).run_times, jssp.read_text(STANDARD).run_times)


def test_flexible_text_offers_several_machines() -> None:
    problem = jssp.read_text(FLEXIBLE)
    inf = np.inf
    assert problem.run_times.tolist() == [[3, inf, inf], [inf, 4, 5], [7, 6, inf]]
    assert problem.graph.names == ("J0-O0", "J0-O1", "J1-O0")


def test_flexible_text_without_the_mean_is_recognised() -> None:
    text = FLEXIBLE.replace("2 3 1.5", "2 3")
    assert np.array_equal(jssp.read_text(text).run_times, jssp.read_text(FLEXIBLE).run_times)


@pytest.mark.parametrize("text", [STANDARD, TAILLARD, FLEXIBLE, "\ufeff" + STANDARD, "# note\n" + STANDARD])
def test_detect_accepts_every_format(text: str) -> None:
    assert jssp.detect(text.encode(), Path("x.txt"))


@pytest.mark.parametrize(
    "head", [b'{"a": 1}', b"digraph { a -> b }", b"5\n0 1 0\n", b"[[node]]\n", b"\xff\xfe1 2", b""]
)
def test_detect_refuses_other_files(head: bytes) -> None:
    assert not jssp.detect(head, Path("x.txt"))


def test_read_returns_a_problem_with_its_machines() -> None:
    loaded = jssp.read(STANDARD.encode(), Path("ex1.txt"))
    assert loaded.problem is not None
    assert loaded.problem.num_tasks == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello world\n", "bad.txt:1: expected job-shop text"),
        ("7\n", "bad.txt:1: expected job-shop text"),
        ("2 3\n0 3 1 2 2 2\n", "bad.txt:2: expected 2 rows of machine and time pairs, got 1"),
        (STANDARD + "0 1 1 1 2 1\n", "bad.txt:4: expected 2 rows of machine and time pairs, got 3"),
        ("2 3\n0 3 1 2 2 2\n0 2 2 1 1\n", "bad.txt:3: expected 6 numbers (machine and time pairs), got 5"),
        ("2 3\n0 3 1 2 2 2\n0 2 2 x 1 4\n", "bad.txt:3: expected a whole number >= 0, got 'x'"),
        ("2 3\n0 3 1 2 2 2\n0 2 2 -1 1 4\n", "bad.txt:3: expected a whole number >= 0, got '-1'"),
        ("2 3\n0 3 1 2 2 2\n0 2 2 1.5 1 4\n", "bad.txt:3: expected a whole number >= 0, got '1.5'"),
        ("2 3\n0 3 1 2 2 2\n0 2 3 1 1 4\n", "bad.txt:3: expected a machine in 0..2, got 3"),
        ("0 3\n0 3 1 2 2 2\n", "bad.txt:1: expected jobs and machines >= 1, got 0 3"),
        ("2.5 3\n0 3 1 2 2 2\n", "bad.txt:1: expected a whole number >= 0, got '2.5'"),
        ("2 3\n" + "9" * 5000 + "\n", "bad.txt:2: expected 2 rows"),
        (TAILLARD.replace(" 1 3 2", " 0 3 2"), "bad.txt:8: expected a machine in 1..3, got 0"),
        (TAILLARD.replace(" 2 1 4\n", ""), "bad.txt:7: expected 2 rows of times and 2 rows of machines"),
        (TAILLARD.replace(" 2 1 4\n", " 2 1\n"), "bad.txt:5: expected 3 numbers (times), got 2"),
        ("2 3 1.5\n2 1 1 3 2 2 4 3 5\n", "bad.txt:2: expected 2 jobs, one per line, got 1"),
        ("1 3 1.5\n2 1 1 3\n", "bad.txt:2: expected 2 operations, got 1"),
        ("1 3 1.5\n1 1 1 3 4\n", "bad.txt:2: expected 1 operations, got 1 and 1 numbers more"),
        ("1 3 1.5\n1 2 1 3\n", "bad.txt:2: operation 1: expected 2 machine and time pairs, got 2 numbers"),
        ("1 3 1.5\n1 0\n", "bad.txt:2: operation 1: expected at least one machine and time pairs"),
        ("1 3 1.5\n0\n", "bad.txt:2: expected a job with at least one operation, got 0"),
        ("1 3 1.5\n1 1 4 3\n", "bad.txt:2: expected a machine in 1..3, got 4"),
        ("1 99999999 1.5\n1 1 4 3\n", "bad.txt: expected at most 5000 machines, got 99999999"),
    ],
)
def test_bad_text_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        jssp.read_text(text, Path("bad.txt"))
    assert str(caught.value).startswith(message)


def test_job_shop_problem_refuses_unequal_matrices() -> None:
    with pytest.raises(InputError, match="expected two jobs x operations matrices"):
        jssp.job_shop_problem([[0, 1]], [[1, 2, 3]])


def test_job_shop_problem_refuses_negative_machines() -> None:
    with pytest.raises(InputError, match="machines: expected machines >= 0, got -1"):
        jssp.job_shop_problem([[0, -1]], [[1, 2]])


def test_flexible_problem_refuses_an_unknown_machine() -> None:
    with pytest.raises(InputError, match=r"expected a machine in 0..1, got 2"):
        jssp.flexible_problem([[[(2, 5)]]], num_machines=2)


def test_write_refuses_a_graph_that_is_no_chain() -> None:
    graph = TaskGraph([1.0, 1.0, 1.0], [0, 0], [1, 2])
    problem = Problem(graph, Cluster.uniform([DeviceClass("m0")], [1]))
    with pytest.raises(InputError, match="expected chains of operations"):
        jssp.write(problem)


def test_write_refuses_fractional_times() -> None:
    with pytest.raises(InputError, match=r"tasks.J0-O0: expected whole run times, got \[1.5\]"):
        jssp.write(jssp.job_shop_problem([[0]], [[1.5]]))


def test_write_refuses_flexible_shops_in_standard_text() -> None:
    with pytest.raises(InputError, match="job 0: expected 3 operations with one machine each"):
        jssp.write(jssp.read_text(FLEXIBLE))


def test_write_refuses_an_unknown_style() -> None:
    with pytest.raises(InputError, match="style: expected one of standard, taillard, flexible, got 'xml'"):
        jssp.write(jssp.read_text(STANDARD), "xml")


@st.composite
def shops(draw: st.DrawFn) -> Problem:
    num_machines = draw(st.integers(1, 5))
    num_jobs = draw(st.integers(1, 5))
    rows = st.permutations(range(num_machines))
    times = st.lists(st.integers(0, 99), min_size=num_machines, max_size=num_machines)
    machines = draw(st.lists(rows, min_size=num_jobs, max_size=num_jobs))
    durations = draw(st.lists(times, min_size=num_jobs, max_size=num_jobs))
    return jssp.job_shop_problem(machines, durations)


@pytest.mark.parametrize("style", ["standard", "taillard", "flexible"])
@given(problem=shops())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_written_shops_read_back_the_same(style: str, problem: Problem) -> None:
    again = jssp.read_text(jssp.write(problem, style))
    assert np.array_equal(again.run_times, problem.run_times)
    assert again.graph.names == problem.graph.names


options = st.dictionaries(st.integers(0, 3), st.integers(0, 99), min_size=1).map(lambda d: sorted(d.items()))


@given(jobs=st.lists(st.lists(options, min_size=1, max_size=4), min_size=1, max_size=4))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_written_flexible_shops_read_back_the_same(jobs: list[list[list[tuple[int, int]]]]) -> None:
    problem = jssp.flexible_problem(jobs, num_machines=4)
    again = jssp.read_text(jssp.write(problem, "flexible"))
    assert np.array_equal(again.run_times, problem.run_times)


@given(st.text(alphabet="0123456789 .-x\n", max_size=60))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert jssp.read_text(text, Path("any.txt")).num_tasks > 0
