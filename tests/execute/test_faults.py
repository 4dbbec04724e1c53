"""Ten runs on real workers in which something goes wrong, judged by the checker and by known results.

``python -m benchmarks faults`` does a hundred; here is what fits into a minute.
"""

from __future__ import annotations

import pytest

from benchmarks.faults import (
    DRIVER,
    FAIL,
    FAULTS,
    HANGS,
    KILL,
    KILL_TWO,
    RAISE,
    RESTART,
    SLOW,
    Case,
    drawn_cases,
    main,
    run_case,
)

LOCAL = (KILL, KILL_TWO, RESTART, SLOW, RAISE, FAIL, HANGS)
DASK = (KILL_TWO, RESTART, RAISE)


@pytest.mark.parametrize("fault", LOCAL)
def test_local_run_keeps_its_promises(fault: str):
    assert run_case(Case(40 + LOCAL.index(fault), "local", fault)) == []


@pytest.mark.parametrize("fault", DASK)
def test_run_on_dask_keeps_its_promises(fault: str):
    pytest.importorskip("distributed")
    assert run_case(Case(60 + DASK.index(fault), "dask", fault)) == []


def test_cases_are_the_same_whenever_they_are_drawn():
    cases = drawn_cases(64, ("local", "dask"), 5)
    assert cases == drawn_cases(64, ("local", "dask"), 5)
    assert {(case.on, case.fault) for case in cases} == {
        (on, fault) for on in ("local", "dask") for fault in FAULTS
    }
    assert len({case.number for case in cases}) == 64
    assert DRIVER in FAULTS


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_hundred_runs_keep_their_promises():
    pytest.importorskip("distributed")
    assert main(["--runs", "100", "--on", "local,dask"]) == 0
